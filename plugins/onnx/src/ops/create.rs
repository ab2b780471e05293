//! Operators that create tensors.

use super::{Row, all, one};
use crate::cx::Cx;
use crate::known::{Elem, Known};
use crate::node::Node;
use crate::tensors;
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    all("Constant", 7, |cx, n| match text(n)? {
        true => Ok(vec![Item::Text]),
        false => Ok(vec![constant(cx, n)?.into()]),
    }),
    one("ConstantOfShape", 9, |cx, n| {
        let value = match n.tensor("value")? {
            Some(tensor) => tensors::read(tensor, cx.scopes.files)?,
            None => cx.scalar(0.0, DType::F32)?,
        };
        let dims = cx.dims_of(&n.input(0)?, "s")?;
        let sizes: Option<Vec<i64>> = dims.iter().map(Dim::as_int).collect();
        if let (Some(sizes), Some(known)) = (sizes, value.known())
            && let (Some(elem), Some(n)) = (known.elems.first(), crate::known::count(&sizes))
            && n <= crate::known::MOST
            && let Some(all) = Known::new(known.dtype, sizes, vec![elem.clone(); n])
        {
            return Ok(T::known_as(all));
        }
        let fill = cx.reshape(&value, vec![])?;
        let args = [cx.b.shape(&dims), cx.v(&fill)?];
        T::of_v(cx, cx.call_v("relax.full", &args, &[("dtype", value.dtype().into())])?)
    }),
    one("Range", 11, range),
    one("EyeLike", 9, |cx, n| {
        let x = n.input(0)?;
        let dtype = n.dtype("dtype")?.unwrap_or(x.dtype());
        let k = n.int("k", 0)?;
        let (rows, columns) = (cx.arange(&x.dim(0)?, DType::I64)?, cx.arange(&x.dim(1)?, DType::I64)?);
        let diagonal = cx.add_s(&cx.unsqueeze(&rows, &[1])?, k as f64)?;
        cx.cast(&cx.bin("equal", &columns, &diagonal)?, dtype)
    }),
    one("HannWindow", 17, |cx, n| window(cx, n, &[0.5, 0.5])),
    one("HammingWindow", 17, |cx, n| window(cx, n, &[25.0 / 46.0, 1.0 - 25.0 / 46.0])),
    one("BlackmanWindow", 17, |cx, n| window(cx, n, &[0.42, 0.5, 0.08])),
];

/// Returns true if a constant contains strings.
fn text(n: &Node<'_>) -> Res<bool> {
    n.ignore(&["value_string", "value_strings"]);
    let is_text = n.tensor("value")?.is_some_and(tensors::is_text);
    Ok(is_text || n.has("value_string") || n.has("value_strings"))
}

fn constant<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    if let Some(tensor) = n.tensor("value")? {
        return tensors::read(tensor, cx.scopes.files);
    }
    let of = |dtype: DType, shape: Vec<i64>, elems: Vec<Elem>| {
        Known::new(dtype, shape, elems).map(T::known_as).ok_or_else(|| "its list has too many elements".to_string())
    };
    if let Some(value) = n.int_if("value_int")? {
        return of(DType::I64, vec![], vec![Elem::int(value)]);
    }
    if let Some(value) = n.float_if("value_float")? {
        return of(DType::F32, vec![], vec![Elem::Float(value)]);
    }
    if let Some(values) = n.ints("value_ints")? {
        return cx.int64s(&[values.len() as i64], &values);
    }
    if let Some(values) = n.floats("value_floats")? {
        let array = Array::new(&[values.len() as i64], values).and_then(|array| array.cast(DType::F32));
        return cx.array(&array.map_err(|error| error.to_string())?);
    }
    Err("its value is missing or sparse; store it as a dense tensor".to_string())
}

pub(super) fn range<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (start, end) = (n.input(0)?, n.input(1)?);
    let dtype = start.dtype();
    // The step is optional in Microsoft's domain.
    let step = n.opt(2)?.map_or_else(|| cx.scalar(1.0, dtype), Ok)?;
    let whole = [&start, &end, &step].map(|one| one.ints().and_then(|all| all.first().copied()));
    if let [Some(a), Some(b), Some(by)] = whole.map(|one| one.map(i128::from)) {
        if by == 0 {
            return Err(format!("its range from {a} to {b} has step 0"));
        }
        let count = ((b - a + by - by.signum()) / by).max(0);
        let count =
            i64::try_from(count).ok().filter(|count| *count < 1 << 40).ok_or("its range has too many elements")?;
        let at = cx.arange(&Dim::Int(count), dtype)?;
        let by = cx.cast(&cx.reshape(&step, vec![])?, dtype)?;
        return cx.add(&cx.mul(&at, &by)?, &cx.reshape(&start, vec![])?);
    }
    if let (Some(a), Some(b), Some(by)) = (start.floats(), end.floats(), step.floats()) {
        let one = |list: &[f64]| list.first().copied().ok_or("one of its inputs is empty");
        let (a, b, by) = (one(&a)?, one(&b)?, one(&by)?);
        let count = ((b - a) / by).ceil().max(0.0);
        if by == 0.0 || !count.is_finite() || count > 1e9 {
            return Err(format!("its range from {a} to {b} with step {by} is infinite or too long"));
        }
        let at = cx.arange(&Dim::Int(count as i64), dtype)?;
        return cx.add_s(&cx.mul_s(&at, by)?, a);
    }
    let dims =
        [&start, &end, &step].map(|one| one.known().and_then(Known::dims).and_then(|dims| dims.first().cloned()));
    let count = match dims {
        [Some(a), Some(b), Some(by)] if by.as_int().is_some_and(|by| by > 0) => {
            let by = by.as_int().unwrap_or(1);
            let span = crate::known::sub(&b, &a);
            crate::known::max(
                &crate::known::div(&crate::known::add(&span, &Dim::Int(by - 1)), &Dim::Int(by)),
                &Dim::Int(0),
            )
        }
        _ => {
            let to = if start.is_float() { DType::F64 } else { DType::I64 };
            let wide = |x: &T| -> Res<T> { cx.cast(&cx.reshape(x, vec![Dim::Int(1)])?, to) };
            let (span, by) = (cx.sub(&wide(&end)?, &wide(&start)?)?, wide(&step)?);
            let count = match start.is_float() {
                true => cx.un("ceil", &cx.div(&span, &by)?)?,
                // The quotient is rounded up.
                false => cx.un("negative", &cx.bin("floor_divide", &cx.un("negative", &span)?, &by)?)?,
            };
            let count = cx.cast(&cx.max_s(&count, 0.0)?, DType::I64)?;
            cx.dims_of(&count, "n")?.remove(0)
        }
    };
    let at = cx.arange(&count, dtype)?;
    let scalar = |x: &T| cx.reshape(x, vec![]);
    let scaled = if step.ints() == Some(vec![1]) { at } else { cx.mul(&at, &scalar(&step)?)? };
    if start.ints() == Some(vec![0]) { Ok(scaled) } else { cx.add(&scaled, &scalar(&start)?) }
}

/// Returns a window function of signal processing, which is an alternating sum of cosines.
fn window<'a>(cx: &mut Cx<'a>, n: &Node<'a>, weights: &[f64]) -> Res<T> {
    let dtype = n.dtype("output_datatype")?.unwrap_or(DType::F32);
    let size = cx.dims_of(&n.input(0)?, "size")?.remove(0);
    let periodic = n.flag("periodic", true)?;
    let at = cx.arange(&size, DType::F32)?;
    let period = if periodic { size } else { crate::known::sub(&size, &Dim::Int(1)) };
    let period = cx.cast(&cx.reshape(&cx.of_dims(vec![period])?, vec![])?, DType::F32)?;
    let turn = cx.div(&cx.mul_s(&at, std::f64::consts::TAU)?, &period)?;
    let mut sum: Option<T> = None;
    for (k, weight) in weights.iter().enumerate() {
        let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
        let wave = cx.mul_s(&cx.un("cos", &cx.mul_s(&turn, k as f64)?)?, sign * weight)?;
        sum = Some(if let Some(sum) = sum { cx.add(&sum, &wave)? } else { wave });
    }
    cx.cast(&sum.ok_or("no weights")?, dtype)
}
