//! Reductions.

use super::elementwise::{converted, floats, truth};
use super::{Row, all, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::tensor::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.sum.default", |cx, n| total(cx, n, "sum")),
    one("aten.sum.dim_IntList", |cx, n| total(cx, n, "sum")),
    one("aten.prod.default", |cx, n| total(cx, n, "prod")),
    one("aten.prod.dim_int", |cx, n| total(cx, n, "prod")),
    one("aten.mean.default", mean),
    one("aten.mean.dim", mean),
    one("aten.amax.default", |cx, n| extreme(cx, n, "max")),
    one("aten.amin.default", |cx, n| extreme(cx, n, "min")),
    one("aten.max.default", |cx, n| extreme(cx, n, "max")),
    one("aten.min.default", |cx, n| extreme(cx, n, "min")),
    all("aten.max.dim", |cx, n| extreme_at(cx, n, "max")),
    all("aten.min.dim", |cx, n| extreme_at(cx, n, "min")),
    one("aten.argmax.default", |cx, n| index_of(cx, n, "argmax")),
    one("aten.argmin.default", |cx, n| index_of(cx, n, "argmin")),
    one("aten.any.default", |cx, n| holds(cx, n, "max")),
    one("aten.any.dim", |cx, n| holds(cx, n, "max")),
    one("aten.any.dims", |cx, n| holds(cx, n, "max")),
    one("aten.all.default", |cx, n| holds(cx, n, "min")),
    one("aten.all.dim", |cx, n| holds(cx, n, "min")),
    one("aten.all.dims", |cx, n| holds(cx, n, "min")),
    one("aten.var.correction", |cx, n| variance(cx, n).map(|(variance, _)| variance)),
    one("aten.var.default", |cx, n| variance(cx, n).map(|(variance, _)| variance)),
    one("aten.var.dim", |cx, n| variance(cx, n).map(|(variance, _)| variance)),
    one("aten.std.correction", deviation),
    one("aten.std.default", deviation),
    one("aten.std.dim", deviation),
    all("aten.var_mean.correction", |cx, n| {
        let (variance, mean) = variance(cx, n)?;
        Ok(vec![variance, mean])
    }),
    one("aten.logsumexp.default", |cx, n| {
        let x = floats(cx, &n.x()?)?;
        let (axes, keep) = axes(n, &x)?;
        let most = cx.reduce("max", &x, &axes, true)?;
        let is_finite = cx.un("isfinite", &most)?;
        let shift = cx.select(&is_finite, &most, &cx.scalar(0.0, x.dtype())?)?;
        let sum = cx.reduce("sum", &cx.un("exp", &cx.sub(&x, &shift)?)?, &axes, true)?;
        let result = cx.add(&cx.un("log", &sum)?, &shift)?;
        if keep { Ok(result) } else { cx.squeeze(&result, &axes) }
    }),
    one("aten.linalg_vector_norm.default", |cx, n| {
        let order = n.float("ord", 2.0)?;
        norm(cx, n, order)
    }),
    one("aten.norm.Scalar", |cx, n| {
        let order = n.float("p", 2.0)?;
        norm(cx, n, order)
    }),
    one("aten.norm.ScalarOpt_dim", |cx, n| {
        let order = n.float("p", 2.0)?;
        norm(cx, n, order)
    }),
    one("aten.cumsum.default", |cx, n| so_far(cx, n, "cumsum")),
    one("aten.cumprod.default", |cx, n| so_far(cx, n, "cumprod")),
    one("aten.median.default", |cx, n| {
        let x = n.x()?;
        let flat = cx.reshape(&x, vec![plugin_api::arith::product(&x.dims()?)])?;
        let both = cx.call_v("relax.median", &[cx.v(&flat)?], &[("axis", vec![0i64].into())])?;
        Ok(cx.parts(both, 1)?.remove(0))
    }),
    all("aten.median.dim", |cx, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", 0)?)? as i64;
        let attrs = [("axis", vec![axis].into()), ("keepdims", n.flag("keepdim", false)?.into())];
        let both = cx.call_v("relax.median", &[cx.v(&x)?], &attrs)?;
        cx.parts(both, 2)
    }),
];

/// Returns the axes in `dim`, or all axes if it is missing or empty, and true if the result keeps them.
fn axes<'a>(n: &Node<'a>, x: &T) -> Res<(Vec<usize>, bool)> {
    let list = n.ints_if("dim")?.unwrap_or_default();
    let mut axes: Vec<usize> = match x.rank()? {
        // A scalar lacks axes, although the axes 0 and -1 may be given.
        0 => Vec::new(),
        rank if list.is_empty() => (0..rank).collect(),
        _ => list.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?,
    };
    axes.sort_unstable();
    axes.dedup();
    Ok((axes, n.flag("keepdim", false)?))
}

/// Emits a reduction. A scalar is its own result.
fn reduced(cx: &Cx<'_>, op: &str, x: &T, axes: &[usize], keep: bool) -> Res<T> {
    if x.rank()? == 0 { Ok(x.clone()) } else { cx.reduce(op, x, axes, keep) }
}

/// Adds or multiplies elements. Integers become int64; 16-bit floats are summed in single precision.
fn total<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<T> {
    let x = n.x()?;
    let (axes, keep) = axes(n, &x)?;
    let dtype = n.dtype("dtype")?.unwrap_or(if x.is_float() { x.dtype() } else { DType::I64 });
    let wide = cx.wide(&converted(cx, &x, dtype)?)?;
    cx.cast(&reduced(cx, op, &wide, &axes, keep)?, dtype)
}

fn mean<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.x()?;
    let (axes, keep) = axes(n, &x)?;
    let dtype = n.dtype("dtype")?.unwrap_or(x.dtype());
    let wide = cx.wide(&converted(cx, &x, dtype)?)?;
    cx.cast(&reduced(cx, "mean", &wide, &axes, keep)?, dtype)
}

fn extreme<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<T> {
    let x = n.x()?;
    let (axes, keep) = axes(n, &x)?;
    match x.dtype() {
        DType::BOOL => truth(cx, &reduced(cx, op, &cx.cast(&x, DType::I8)?, &axes, keep)?),
        _ => reduced(cx, op, &x, &axes, keep),
    }
}

/// Returns the extreme elements along an axis, and their positions.
fn extreme_at<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<Vec<T>> {
    let x = n.x()?;
    if x.rank()? == 0 {
        return Ok(vec![x, cx.scalar(0.0, DType::I64)?]);
    }
    let (axis, keep) = (x.axis(n.int("dim", 0)?)?, n.flag("keepdim", false)?);
    let wide = if x.dtype() == DType::BOOL { cx.cast(&x, DType::I8)? } else { x.clone() };
    let value = converted(cx, &cx.reduce(op, &wide, &[axis], keep)?, x.dtype())?;
    let attrs = [("axis", (axis as i64).into()), ("keepdims", keep.into())];
    Ok(vec![value, cx.call(&format!("relax.arg{op}"), &[&wide], &attrs)?])
}

fn index_of<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<T> {
    let x = n.x()?;
    let keep = n.flag("keepdim", false)?;
    let call = |x: &T, axis: usize, keep: bool| {
        cx.call(&format!("relax.{op}"), &[x], &[("axis", (axis as i64).into()), ("keepdims", keep.into())])
    };
    match n.int_if("dim")? {
        Some(_) if x.rank()? == 0 => cx.scalar(0.0, DType::I64),
        Some(axis) => call(&x, x.axis(axis)?, keep),
        None => {
            let at = call(&cx.reshape(&x, vec![plugin_api::arith::product(&x.dims()?)])?, 0, false)?;
            if keep { cx.reshape(&at, vec![Dim::Int(1); x.rank()?]) } else { Ok(at) }
        }
    }
}

fn holds<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<T> {
    let x = truth(cx, &n.x()?)?;
    let (axes, keep) = axes(n, &x)?;
    truth(cx, &reduced(cx, op, &cx.cast(&x, DType::I8)?, &axes, keep)?)
}

/// Returns the variance and the mean.
fn variance<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<(T, T)> {
    let x = n.x()?;
    let (axes, keep) = axes(n, &x)?;
    let correction = match n.op.ends_with(".correction") {
        true => n.float("correction", 1.0)?,
        false => f64::from(u8::from(n.flag("unbiased", true)?)),
    };
    let wide = cx.wide(&x)?;
    let mean = reduced(cx, "mean", &wide, &axes, true)?;
    let apart = cx.sub(&wide, &mean)?;
    let sum = reduced(cx, "sum", &cx.mul(&apart, &apart)?, &axes, keep)?;
    let sizes: Vec<Dim> = axes.iter().map(|axis| x.dim(*axis)).collect::<Res<_>>()?;
    let count =
        super::elementwise::scalar(cx, &importer::known::Elem::Int(plugin_api::arith::product(&sizes)), wide.dtype())?;
    let divisor = cx.max_s(&cx.add_s(&count, -correction)?, 0.0)?;
    let variance = cx.cast(&cx.div(&sum, &divisor)?, x.dtype())?;
    let mean = if keep { mean } else { cx.squeeze(&mean, &axes)? };
    Ok((variance, cx.cast(&mean, x.dtype())?))
}

fn deviation<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (variance, _) = variance(cx, n)?;
    cx.un("sqrt", &variance)
}

/// Computes a norm of vectors.
fn norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>, order: f64) -> Res<T> {
    let x = n.x()?;
    let dtype = n.dtype("dtype")?.unwrap_or(x.dtype());
    let (axes, keep) = axes(n, &x)?;
    let wide = cx.wide(&converted(cx, &x, dtype)?)?;
    let sizes = cx.un("abs", &wide)?;
    let result = match order {
        f64::INFINITY => reduced(cx, "max", &sizes, &axes, keep)?,
        f64::NEG_INFINITY => reduced(cx, "min", &sizes, &axes, keep)?,
        0.0 => {
            let counts = cx.cast(&truth(cx, &sizes)?, wide.dtype())?;
            reduced(cx, "sum", &counts, &axes, keep)?
        }
        1.0 => reduced(cx, "sum", &sizes, &axes, keep)?,
        2.0 => cx.un("sqrt", &reduced(cx, "sum", &cx.mul(&wide, &wide)?, &axes, keep)?)?,
        order => {
            let power = |x: &T, by: f64| cx.bin("power", x, &cx.scalar(by, wide.dtype())?);
            power(&reduced(cx, "sum", &power(&sizes, order)?, &axes, keep)?, 1.0 / order)?
        }
    };
    cx.cast(&result, dtype)
}

fn so_far<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str) -> Res<T> {
    let x = n.x()?;
    let dtype = n.dtype("dtype")?.unwrap_or(if x.is_float() { x.dtype() } else { DType::I64 });
    let wide = cx.wide(&converted(cx, &x, dtype)?)?;
    if x.rank()? == 0 {
        return cx.cast(&wide, dtype);
    }
    let axis = x.axis(n.int("dim", 0)?)? as i64;
    let result = cx.call(&format!("relax.{op}"), &[&wide], &[("axis", axis.into())])?;
    cx.cast(&result, dtype)
}
