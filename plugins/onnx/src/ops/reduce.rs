//! Reductions over axes.

use super::{Row, one};
use crate::cx::Cx;
use crate::node::Node;
use crate::value::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("ReduceSum", 7, |cx, n| reduced(cx, n, 13, |cx, x, o| o.of(cx, "sum", x))),
    one("ReduceMean", 7, |cx, n| reduced(cx, n, 18, |cx, x, o| o.of(cx, "mean", x))),
    one("ReduceProd", 7, |cx, n| reduced(cx, n, 18, |cx, x, o| o.of(cx, "prod", x))),
    one("ReduceMax", 7, |cx, n| reduced(cx, n, 18, |cx, x, o| extreme(cx, x, o, "max"))),
    one("ReduceMin", 7, |cx, n| reduced(cx, n, 18, |cx, x, o| extreme(cx, x, o, "min"))),
    one("ReduceL1", 7, |cx, n| reduced(cx, n, 18, |cx, x, o| o.of(cx, "sum", &cx.un("abs", x)?))),
    one("ReduceL2", 7, |cx, n| {
        reduced(cx, n, 18, |cx, x, o| {
            let squares = o.of(cx, "sum", &cx.mul(x, x)?)?;
            root(cx, &squares)
        })
    }),
    one("ReduceSumSquare", 7, |cx, n| reduced(cx, n, 18, |cx, x, o| o.of(cx, "sum", &cx.mul(x, x)?))),
    one("ReduceLogSum", 7, |cx, n| reduced(cx, n, 18, |cx, x, o| cx.un("log", &o.of(cx, "sum", x)?))),
    one("ReduceLogSumExp", 7, |cx, n| reduced(cx, n, 18, log_sum_exp)),
];

/// The axes of a reduction.
pub(super) struct Over {
    axes: Vec<usize>,
    keep: bool,
    empty: bool,
}

impl Over {
    fn of(&self, cx: &Cx<'_>, op: &str, x: &T) -> Res<T> {
        cx.reduce(op, x, &self.axes, self.keep)
    }
}

fn reduced<'a>(cx: &mut Cx<'a>, n: &Node<'a>, since: i64, f: fn(&Cx<'a>, &T, &Over) -> Res<T>) -> Res<T> {
    let given = n.input(0)?;
    let x = cx.wide(&given)?;
    let keep = n.flag("keepdims", true)?;
    let axes = super::shape::axes_of(n, since)?.filter(|axes| !axes.is_empty());
    let noop = n.flag("noop_with_empty_axes", false)?;
    let axes: Vec<usize> = match axes {
        Some(axes) => axes.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?,
        // With `noop_with_empty_axes`, the reduction runs over zero axes, and the operator applies to each element.
        None if noop => Vec::new(),
        None => (0..x.rank()?).collect(),
    };
    let empty = axes.iter().any(|axis| x.shape().and_then(|dims| dims[*axis].as_int()) == Some(0));
    if axes.is_empty() {
        let dims = x.dims()?;
        let one = cx.unsqueeze(&x, &[0])?;
        let result = f(cx, &one, &Over { axes: vec![0], keep: false, empty: false })?;
        return cx.cast(&cx.reshape(&result, dims)?, given.dtype());
    }
    let result = f(cx, &x, &Over { axes, keep, empty })?;
    cx.cast(&result, given.dtype())
}

/// Computes the largest or smallest element. Infinities are treated as numbers. The result of an empty reduction is the least
/// or greatest value of the type.
fn extreme(cx: &Cx<'_>, x: &T, over: &Over, op: &str) -> Res<T> {
    if over.empty && x.is_float() {
        let infinite = if op == "max" { f64::NEG_INFINITY } else { f64::INFINITY };
        let sum = over.of(cx, "sum", x)?;
        return cx.filled(infinite, x.dtype(), &sum.dims()?);
    }
    if over.empty && x.dtype() == DType::BOOL {
        let shape = over.of(cx, "sum", &cx.cast(x, DType::I32)?)?.dims()?;
        return cx.filled(f64::from(u8::from(op == "min")), DType::BOOL, &shape);
    }
    if x.dtype() == DType::BOOL {
        let narrow = over.of(cx, op, &cx.cast(x, DType::I8)?)?;
        return cx.cast(&narrow, DType::BOOL);
    }
    over.of(cx, op, x)
}

fn root(cx: &Cx<'_>, x: &T) -> Res<T> {
    if x.is_float() {
        return cx.un("sqrt", x);
    }
    let wide = cx.un("sqrt", &cx.cast(x, DType::F64)?)?;
    cx.cast(&wide, x.dtype())
}

/// Computes the logarithm of a sum of exponentials. The largest element is subtracted first, to prevent overflow.
fn log_sum_exp(cx: &Cx<'_>, x: &T, over: &Over) -> Res<T> {
    if over.empty {
        return cx.un("log", &over.of(cx, "sum", x)?);
    }
    let most = cx.reduce("max", x, &over.axes, true)?;
    // The difference of two infinities of the same sign would be NaN.
    let most = match x.is_float() {
        true => cx.select(&cx.un("isinf", &most)?, &cx.scalar(0.0, x.dtype())?, &most)?,
        false => most,
    };
    let apart = cx.un("exp", &cx.sub(x, &most)?)?;
    let sum = cx.un("log", &cx.reduce("sum", &apart, &over.axes, true)?)?;
    let all = cx.add(&sum, &most)?;
    if over.keep { Ok(all) } else { cx.squeeze(&all, &over.axes) }
}
