//! Activation functions.

use super::elementwise::{converted, floats};
use super::{Row, all, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::arith::{self, exponential};
use importer::tensor::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.relu.default", |cx, n| cx.un("nn.relu", &n.x()?)),
    one("aten.relu6.default", |cx, n| limited(cx, &n.x()?, 0.0, 6.0)),
    one("aten.hardtanh.default", |cx, n| {
        let x = n.x()?;
        limited(cx, &x, n.float("min_val", -1.0)?, n.float("max_val", 1.0)?)
    }),
    one("aten.silu.default", |cx, n| arith::swish(cx, &n.x()?, 1.0)),
    one("aten.gelu.default", |cx, n| match n.text_if("approximate")?.unwrap_or("none") {
        "none" => cx.un("nn.gelu", &n.x()?),
        "tanh" => cx.un("nn.gelu_tanh", &n.x()?),
        other => Err(format!("its argument `approximate` is `{other}`; it must be `none` or `tanh`")),
    }),
    one("aten.elu.default", |cx, n| {
        let (alpha, scale, inner) = (n.float("alpha", 1.0)?, n.float("scale", 1.0)?, n.float("input_scale", 1.0)?);
        exponential(cx, &n.x()?, alpha, scale, 1.0 / inner)
    }),
    one("aten.celu.default", |cx, n| {
        let alpha = n.float("alpha", 1.0)?;
        exponential(cx, &n.x()?, alpha, 1.0, alpha)
    }),
    one("aten.selu.default", |cx, n| exponential(cx, &n.x()?, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0)),
    one("aten.leaky_relu.default", |cx, n| {
        let slope = n.float("negative_slope", 0.01)?;
        cx.call("relax.nn.leakyrelu", &[&n.x()?], &[("alpha", slope.into())])
    }),
    one("aten.hardsigmoid.default", |cx, n| arith::hard_sigmoid(cx, &n.x()?, 1.0 / 6.0, 0.5)),
    one("aten.hardswish.default", |cx, n| {
        let x = n.x()?;
        cx.mul(&x, &arith::hard_sigmoid(cx, &x, 1.0 / 6.0, 0.5)?)
    }),
    one("aten.mish.default", |cx, n| {
        let x = n.x()?;
        cx.mul(&x, &cx.un("tanh", &arith::softplus(cx, &x)?)?)
    }),
    one("aten.softplus.default", softplus),
    one("aten.log_sigmoid.default", |cx, n| log_sigmoid(cx, &n.x()?)),
    all("aten.log_sigmoid_forward.default", |cx, n| Ok(vec![log_sigmoid(cx, &n.x()?)?])),
    one("aten.softsign.default", |cx, n| {
        let x = n.x()?;
        cx.div(&x, &cx.add_s(&cx.un("abs", &x)?, 1.0)?)
    }),
    one("aten.tanhshrink.default", |cx, n| {
        let x = n.x()?;
        cx.sub(&x, &cx.un("tanh", &x)?)
    }),
    one("aten.softshrink.default", |cx, n| {
        let (x, limit) = (n.x()?, n.float("lambd", 0.5)?);
        let of = |value: f64| cx.scalar(value, x.dtype());
        let above = cx.bin("greater", &x, &of(limit)?)?;
        let below = cx.bin("less", &x, &of(-limit)?)?;
        let inner = cx.select(&above, &cx.add_s(&x, -limit)?, &cx.mul_s(&x, 0.0)?)?;
        cx.select(&below, &cx.add_s(&x, limit)?, &inner)
    }),
    one("aten.hardshrink.default", |cx, n| {
        let (x, limit) = (n.x()?, n.float("lambd", 0.5)?);
        let is_small = cx.bin("less_equal", &cx.un("abs", &x)?, &cx.scalar(limit, x.dtype())?)?;
        cx.select(&is_small, &cx.scalar(0.0, x.dtype())?, &x)
    }),
    one("aten.threshold.default", |cx, n| {
        let (x, limit, value) = (n.x()?, n.float("threshold", 0.0)?, n.float("value", 0.0)?);
        let is_low = cx.bin("less_equal", &x, &cx.scalar(limit, x.dtype())?)?;
        cx.select(&is_low, &cx.scalar(value, x.dtype())?, &x)
    }),
    one("aten.prelu.default", prelu),
    one("aten._prelu_kernel.default", prelu),
    one("aten.glu.default", |cx, n| {
        let x = n.x()?;
        let axis = x.axis(n.int("dim", -1)?)?;
        let size = x.dim(axis)?;
        let half = importer::known::div(&size, &Dim::Int(2));
        let gate = cx.un("sigmoid", &cx.range(&x, axis, half.clone(), size)?)?;
        cx.mul(&cx.range(&x, axis, 0, half)?, &gate)
    }),
    one("aten.dropout.default", dropout),
    one("aten.feature_dropout.default", dropout),
    one("aten.alpha_dropout.default", dropout),
    all("aten.native_dropout.default", |cx, n| {
        let x = dropout(cx, n)?;
        let mask = cx.filled(1.0, DType::BOOL, &x.dims()?)?;
        Ok(vec![x, mask])
    }),
    one("aten.softmax.int", |cx, n| soft(cx, n, importer::norm::softmax)),
    one("aten._softmax.default", |cx, n| soft(cx, n, importer::norm::softmax)),
    one("aten._safe_softmax.default", |cx, n| soft(cx, n, importer::norm::safe_softmax)),
    one("aten.log_softmax.int", |cx, n| soft(cx, n, importer::norm::log_softmax)),
    one("aten._log_softmax.default", |cx, n| soft(cx, n, importer::norm::log_softmax)),
    one("aten.softmin.int", |cx, n| {
        let x = cx.un("negative", &n.x()?)?;
        let axis = x.axis(n.int("dim", -1)?)?;
        importer::norm::softmax(cx, &x, axis as i64)
    }),
];

/// Limits elements to a range. NaN stays NaN.
fn limited(cx: &Cx<'_>, x: &T, least: f64, most: f64) -> Res<T> {
    let low = arith::extreme_max(cx, x, &cx.scalar(least, x.dtype())?)?;
    arith::extreme_min(cx, &low, &cx.scalar(most, x.dtype())?)
}

/// Computes `log(1 + exp(beta * x)) / beta`, and `x` itself above the threshold.
fn softplus<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.x()?;
    let (beta, threshold) = (n.float("beta", 1.0)?, n.float("threshold", 20.0)?);
    let scaled = if beta == 1.0 { x.clone() } else { cx.mul_s(&x, beta)? };
    let curve = arith::softplus(cx, &scaled)?;
    let curve = if beta == 1.0 { curve } else { cx.div(&curve, &cx.scalar(beta, x.dtype())?)? };
    let is_linear = cx.bin("greater", &scaled, &cx.scalar(threshold, x.dtype())?)?;
    cx.select(&is_linear, &x, &curve)
}

/// Computes `-softplus(-x)`.
fn log_sigmoid(cx: &Cx<'_>, x: &T) -> Res<T> {
    let negated = cx.un("negative", x)?;
    cx.un("negative", &arith::softplus(cx, &negated)?)
}

fn prelu<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, weight) = (n.x()?, n.t("weight")?);
    let rank = x.rank()?;
    let weight = match (weight.rank()?, rank) {
        (1, 2..) => importer::windows::along_channels(cx, &weight, rank)?,
        _ => weight,
    };
    let is_low = cx.bin("less", &x, &cx.scalar(0.0, x.dtype())?)?;
    let scaled = cx.mul(&x, &weight)?;
    cx.select(&is_low, &scaled, &x)
}

/// Returns the operand: dropout has an effect only in training.
fn dropout<'a>(_: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    if n.flag("train", false)? && n.float("p", 0.5)? != 0.0 {
        return Err("it is in training mode, in which it is random; call `model.eval()` before the export".to_string());
    }
    n.ignore(&["p"]);
    n.x()
}

/// Computes softmax or a similar function along `dim`.
fn soft<'a>(cx: &mut Cx<'a>, n: &Node<'a>, of: fn(&importer::emitter::Emitter<'_>, &T, i64) -> Res<T>) -> Res<T> {
    let x = n.x()?;
    let widens = n.flag("half_to_float", false)?;
    let x = match n.dtype("dtype")? {
        Some(dtype) => converted(cx, &x, dtype)?,
        None if widens => cx.cast(&x, DType::F32)?,
        None => floats(cx, &x)?,
    };
    let axis = n.int("dim", -1)?;
    if x.rank()? == 0 {
        let whole = of(cx, &cx.reshape(&x, vec![Dim::Int(1)])?, 0)?;
        return cx.reshape(&whole, Vec::new());
    }
    let axis = x.axis(axis)?;
    of(cx, &x, axis as i64)
}
