//! Operators that create tensors, copy them, or convert their data type.

use super::elementwise::{converted, scalar, typed};
use super::{Row, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::known::{Elem, add, div, sub};
use importer::tensor::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.arange.default", arange),
    one("aten.arange.start", arange),
    one("aten.arange.start_step", arange),
    one("aten.zeros.default", |cx, n| of_size(cx, n, 0.0)),
    one("aten.ones.default", |cx, n| of_size(cx, n, 1.0)),
    one("aten.empty.memory_format", |cx, n| of_size(cx, n, 0.0)),
    one("aten.empty_permuted.default", |cx, n| {
        n.ignore(&["physical_layout"]);
        of_size(cx, n, 0.0)
    }),
    one("aten.new_zeros.default", |cx, n| of_size(cx, n, 0.0)),
    one("aten.new_ones.default", |cx, n| of_size(cx, n, 1.0)),
    one("aten.new_empty.default", |cx, n| of_size(cx, n, 0.0)),
    one("aten.zeros_like.default", |cx, n| like(cx, n, Elem::int(0))),
    one("aten.ones_like.default", |cx, n| like(cx, n, Elem::int(1))),
    one("aten.empty_like.default", |cx, n| like(cx, n, Elem::int(0))),
    one("aten.full_like.default", |cx, n| {
        let value = n.number_if("fill_value")?.ok_or("its argument `fill_value` is missing")?;
        like(cx, n, value)
    }),
    one("aten.full.default", |cx, n| {
        let value = n.number_if("fill_value")?.ok_or("its argument `fill_value` is missing")?;
        // Without a data type, truth values become truth values.
        let stated = n.dtypes.first().copied().flatten();
        let dtype = n.dtype("dtype")?.or(stated).unwrap_or(natural(&value));
        filled(cx, n, &value, dtype, &n.dims("size")?)
    }),
    one("aten.new_full.default", |cx, n| {
        let value = n.number_if("fill_value")?.ok_or("its argument `fill_value` is missing")?;
        let dtype = n.dtype("dtype")?.unwrap_or(n.x()?.dtype());
        filled(cx, n, &value, dtype, &n.dims("size")?)
    }),
    one("aten.fill.Scalar", |cx, n| {
        let x = n.x()?;
        cx.broadcast_to(&typed(cx, &n.operand("value")?, x.dtype())?, &x.dims()?)
    }),
    one("aten.fill.Tensor", |cx, n| {
        let x = n.x()?;
        cx.broadcast_to(&typed(cx, &n.operand("value")?, x.dtype())?, &x.dims()?)
    }),
    one("aten.zero.default", |cx, n| {
        let x = n.x()?;
        cx.filled(0.0, x.dtype(), &x.dims()?)
    }),
    one("aten.copy.default", |cx, n| {
        n.ignore(&["non_blocking"]);
        let (x, src) = (n.x()?, n.t("src")?);
        cx.broadcast_to(&converted(cx, &src, x.dtype())?, &x.dims()?)
    }),
    one("aten.scalar_tensor.default", |cx, n| {
        let value = n.number_if("s")?.ok_or("its argument `s` is missing")?;
        let dtype = n.dtype("dtype")?.unwrap_or(DType::F32);
        places(n);
        scalar(cx, &value, dtype)
    }),
    one("aten.eye.default", |cx, n| {
        let size = n.dim_if("n")?.ok_or("its argument `n` is missing")?;
        eye(cx, n, size.clone(), size)
    }),
    one("aten.eye.m", |cx, n| {
        let rows = n.dim_if("n")?.ok_or("its argument `n` is missing")?;
        let columns = n.dim_if("m")?.ok_or("its argument `m` is missing")?;
        eye(cx, n, rows, columns)
    }),
    one("aten.linspace.default", |cx, n| {
        places(n);
        let (start, end, steps) = (n.float("start", 0.0)?, n.float("end", 0.0)?, n.int("steps", 0)?);
        let dtype = n.dtype("dtype")?.unwrap_or(DType::F32);
        if !(0..=1 << 20).contains(&steps) || !dtype.is_float() {
            return Err("its number of steps must be at most 2^20, and its data type a float".to_string());
        }
        let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
        // Counts from the nearer end, so that both ends are exact.
        let at = |k: i64| if k < steps / 2 { start + step * k as f64 } else { end - step * (steps - 1 - k) as f64 };
        let values = (0..steps).map(|k| if steps == 1 { start } else { at(k) });
        let array = Array::new(&[steps], values).and_then(|array| array.cast(dtype));
        cx.array(&array.map_err(|error| error.to_string())?)
    }),
    one("aten.hamming_window.default", window),
    one("aten.hamming_window.periodic", window),
    one("aten.hamming_window.periodic_alpha", window),
    one("aten.hamming_window.periodic_alpha_beta", window),
    one("aten.clone.default", same),
    one("aten.contiguous.default", same),
    one("aten.detach.default", same),
    one("aten.alias.default", same),
    one("aten.lift_fresh_copy.default", same),
    one("aten.lift_fresh.default", same),
    one("aten.to.dtype", convert),
    one("aten.to.dtype_layout", convert),
    one("aten.to.device", convert),
    one("aten._to_copy.default", convert),
    one("aten.to.other", |cx, n| {
        places(n);
        let dtype = n.t("other")?.dtype();
        converted(cx, &n.x()?, dtype)
    }),
    one("aten.type_as.default", |cx, n| {
        let dtype = n.t("other")?.dtype();
        converted(cx, &n.x()?, dtype)
    }),
];

/// Marks arguments about memory and devices as read.
fn places(n: &Node<'_>) {
    n.ignore(&["layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "requires_grad"]);
}

/// Returns the data type of a tensor that is made from a number.
fn natural(value: &Elem) -> DType {
    if matches!(value, Elem::Int(_)) { DType::I64 } else { DType::F32 }
}

fn filled<'a>(cx: &Cx<'a>, n: &Node<'a>, value: &Elem, dtype: DType, dims: &[Dim]) -> Res<T> {
    places(n);
    let truth = || value.number().map(|value| Elem::int((value != 0.0).into()));
    let value = if dtype == DType::BOOL { truth().ok_or("its value is symbolic")? } else { value.clone() };
    let value = scalar(cx, &value, dtype)?;
    if dims.is_empty() {
        return Ok(value);
    }
    let args = [cx.b.shape(dims), cx.v(&value)?];
    T::of_v(cx, cx.call_v("relax.full", &args, &[("dtype", dtype.into())])?)
}

fn of_size<'a>(cx: &mut Cx<'a>, n: &Node<'a>, value: f64) -> Res<T> {
    let own = if n.op.starts_with("aten.new_") { n.x()?.dtype() } else { DType::F32 };
    let dtype = n.dtype("dtype")?.unwrap_or(own);
    filled(cx, n, &Elem::int(value as i64), dtype, &n.dims("size")?)
}

fn like<'a>(cx: &mut Cx<'a>, n: &Node<'a>, value: Elem) -> Res<T> {
    let x = n.x()?;
    let dtype = n.dtype("dtype")?.unwrap_or(x.dtype());
    filled(cx, n, &value, dtype, &x.dims()?)
}

fn eye<'a>(cx: &mut Cx<'a>, n: &Node<'a>, rows: Dim, columns: Dim) -> Res<T> {
    places(n);
    let dtype = n.dtype("dtype")?.unwrap_or(DType::F32);
    let args = [rows, columns, Dim::Int(0)].map(|dim| cx.b.prim_value(dim));
    T::of_v(cx, cx.call_v("relax.eye", &args, &[("dtype", dtype.into())])?)
}

/// Returns the tensor itself.
fn same<'a>(_: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    places(n);
    n.x()
}

/// Converts to the given data type, if there is one.
fn convert<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    places(n);
    let x = n.x()?;
    match n.dtype("dtype")? {
        Some(dtype) => converted(cx, &x, dtype),
        None => Ok(x),
    }
}

/// Returns numbers from `start` to `end`, in steps.
fn arange<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    places(n);
    let start = n.number_if("start")?.unwrap_or(Elem::int(0));
    let end = n.number_if("end")?.ok_or("its argument `end` is missing")?;
    let step = n.number_if("step")?.unwrap_or(Elem::int(1));
    let dtype = n.dtype("dtype")?;
    if let (Elem::Int(start), Elem::Int(end), Elem::Int(step)) = (&start, &end, &step) {
        let dtype = dtype.unwrap_or(DType::I64);
        let by = step.as_int().filter(|step| *step != 0).ok_or("its step must be a number other than 0")?;
        if by == 1 && start.as_int() == Some(0) {
            return cx.arange(end, dtype);
        }
        // Counts the steps, because the length of a range with a symbolic end cannot always be inferred.
        let span = if by > 0 { sub(end, start) } else { sub(start, end) };
        let count = div(&add(&span, &Dim::Int(by.abs() - 1)), &Dim::Int(by.abs()));
        let count = importer::known::max(&count, &Dim::Int(0));
        let numbers = cx.arange(&count, DType::I64)?;
        let scaled = if by == 1 { numbers } else { cx.mul(&numbers, &scalar(cx, &Elem::int(by), DType::I64)?)? };
        let moved = cx.add(&scaled, &scalar(cx, &Elem::Int(start.clone()), DType::I64)?)?;
        return cx.cast(&moved, dtype);
    }
    let dtype = dtype.unwrap_or(DType::F32);
    let (Some(start), Some(end), Some(step)) = (start.number(), end.number(), step.number()) else {
        return Err("it counts from or to a fraction of a symbolic size, which is not supported".to_string());
    };
    let count = ((end - start) / step).ceil();
    if !(0.0..=f64::from(1 << 24)).contains(&count) {
        return Err(format!("it has {count} elements, which is not supported"));
    }
    let array = Array::new(&[count as i64], (0..count as i64).map(|k| start + step * k as f64));
    let array = array.and_then(|array| array.cast(dtype)).map_err(|error| error.to_string())?;
    cx.array(&array)
}

/// Returns a Hamming window.
fn window<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    places(n);
    let (length, periodic) = (n.int("window_length", 0)?, n.flag("periodic", true)?);
    let (alpha, beta) = (n.float("alpha", 0.54)?, n.float("beta", 0.46)?);
    let dtype = n.dtype("dtype")?.unwrap_or(DType::F32);
    if !(0..=1 << 20).contains(&length) {
        return Err(format!("its length is {length}, which is not supported"));
    }
    let period = if periodic { length } else { (length - 1).max(1) } as f64;
    let at =
        |k: i64| if length == 1 { 1.0 } else { alpha - beta * (2.0 * std::f64::consts::PI * k as f64 / period).cos() };
    let array = Array::new(&[length], (0..length).map(at)).and_then(|array| array.cast(dtype));
    cx.array(&array.map_err(|error| error.to_string())?)
}
