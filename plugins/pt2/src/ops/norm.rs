//! Normalization.

use super::elementwise::floats;
use super::{Row, all, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::known;
use importer::norm::normalized;
use importer::tensor::{Res, T};
use importer::windows::along_channels;
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.layer_norm.default", |cx, n| Ok(layer_norm(cx, n)?.remove(0))),
    all("aten.native_layer_norm.default", layer_norm),
    one("aten.rms_norm.default", rms_norm),
    one("aten.batch_norm.default", |cx, n| {
        let trains = n.flag("training", false)?;
        Ok(batch_norm(cx, n, trains)?.remove(0))
    }),
    all("aten.native_batch_norm.default", |cx, n| {
        let trains = n.flag("training", false)?;
        batch_norm(cx, n, trains)
    }),
    all("aten._native_batch_norm_legit_no_training.default", |cx, n| batch_norm(cx, n, false)),
    all("aten._native_batch_norm_legit.no_stats", |cx, n| {
        n.ignore(&["training"]);
        batch_norm(cx, n, true)
    }),
    all("aten._native_batch_norm_legit_functional.default", |cx, n| {
        let trains = n.flag("training", false)?;
        batch_norm(cx, n, trains)
    }),
    one("aten.group_norm.default", |cx, n| {
        let groups = n.int("num_groups", 1)?;
        Ok(group_norm(cx, n, groups)?.remove(0))
    }),
    all("aten.native_group_norm.default", |cx, n| {
        n.ignore(&["N", "C", "HxW"]);
        let groups = n.int("group", 1)?;
        group_norm(cx, n, groups)
    }),
    one("aten.cross_entropy_loss.default", |cx, n| {
        if n.float("label_smoothing", 0.0)? != 0.0 {
            return Err("its argument `label_smoothing` is not supported".to_string());
        }
        let x = n.x()?;
        let axis = if x.rank()? == 1 { 0 } else { 1 };
        let shares = importer::norm::log_softmax(cx, &x, axis as i64)?;
        likelihood(cx, n, &shares)
    }),
    one("aten.nll_loss_nd.default", |cx, n| likelihood(cx, n, &n.x()?)),
    all("aten.nll_loss_forward.default", |cx, n| Ok(vec![likelihood(cx, n, &n.x()?)?])),
    one("aten.instance_norm.default", |cx, n| {
        if !n.flag("use_input_stats", true)? {
            return Ok(batch_norm(cx, n, false)?.remove(0));
        }
        n.ignore(&["running_mean", "running_var", "momentum", "cudnn_enabled"]);
        let x = n.x()?;
        let axes: Vec<usize> = (2..x.dims_from(3)?.len()).collect();
        let normal = normalized(cx, &wide(cx, &x)?, &axes, n.float("eps", 1e-5)?)?.0;
        let normal = cx.cast(&normal, x.dtype())?;
        affine(cx, n, normal)
    }),
];

/// Computes the negative log-likelihood of labels. The losses are averaged, added, or returned individually.
fn likelihood<'a>(cx: &mut Cx<'a>, n: &Node<'a>, x: &T) -> Res<T> {
    let (target, weight) = (n.t("target")?, n.opt("weight")?);
    if target.is_float() {
        return Err("its targets are probabilities, which is not supported; give labels".to_string());
    }
    let reduction = match n.int("reduction", 1)? {
        0 => "none",
        1 => "mean",
        2 => "sum",
        other => return Err(format!("its argument `reduction` is {other}; it must be from 0 to 2")),
    };
    let weight = match weight {
        Some(weight) => weight,
        None => cx.filled(1.0, x.dtype(), &[x.dim(if x.rank()? == 1 { 0 } else { 1 })?])?,
    };
    let attrs = [("reduction", reduction.into()), ("ignore_index", n.int("ignore_index", -100)?.into())];
    cx.call("relax.nn.nll_loss", &[x, &target, &weight], &attrs)
}

/// Converts to float32 for sums.
fn wide(cx: &Cx<'_>, x: &T) -> Res<T> {
    cx.wide(&floats(cx, x)?)
}

/// Multiplies channels by `weight`, and adds `bias`.
fn affine<'a>(cx: &Cx<'a>, n: &Node<'a>, x: T) -> Res<T> {
    let rank = x.rank()?;
    let x = match n.opt("weight")? {
        Some(weight) => cx.mul(&x, &along_channels(cx, &cx.cast(&weight, x.dtype())?, rank)?)?,
        None => x,
    };
    match n.opt("bias")? {
        Some(bias) => cx.add(&x, &along_channels(cx, &cx.cast(&bias, x.dtype())?, rank)?),
        None => Ok(x),
    }
}

/// Returns the last axes, which `normalized_shape` describes.
fn last_axes<'a>(n: &Node<'a>, x: &T) -> Res<Vec<usize>> {
    let (count, rank) = (n.dims("normalized_shape")?.len(), x.rank()?);
    let first = rank.checked_sub(count).ok_or("its argument `normalized_shape` has more dimensions than the tensor")?;
    Ok((first..rank).collect())
}

/// Normalizes over the last axes. Returns the result, the mean and the reciprocal deviation.
fn layer_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<T>> {
    n.ignore(&["cudnn_enable"]);
    let (x, weight, bias, epsilon) = (n.x()?, n.opt("weight")?, n.opt("bias")?, n.float("eps", 1e-5)?);
    let axes = last_axes(n, &x)?;
    if let (Some(weight), Some(bias), DType::F32, "aten.layer_norm.default") = (&weight, &bias, x.dtype(), n.op) {
        return Ok(vec![importer::norm::layer_norm(cx, &x, weight, bias, &axes, epsilon)?]);
    }
    let (normal, mean, inverse) = normalized(cx, &wide(cx, &x)?, &axes, epsilon)?;
    let mut result = normal;
    if let Some(weight) = weight {
        result = cx.mul(&result, &cx.cast(&weight, result.dtype())?)?;
    }
    if let Some(bias) = bias {
        result = cx.add(&result, &cx.cast(&bias, result.dtype())?)?;
    }
    Ok(vec![cx.cast(&result, x.dtype())?, cx.cast(&mean, x.dtype())?, cx.cast(&inverse, x.dtype())?])
}

fn rms_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, weight) = (n.x()?, n.opt("weight")?);
    let axes = last_axes(n, &x)?;
    let least = match x.dtype() {
        DType::F64 => f64::EPSILON,
        DType::F16 => f64::powi(2.0, -10),
        DType::BF16 => f64::powi(2.0, -7),
        _ => f64::from(f32::EPSILON),
    };
    let epsilon = n.float("eps", least)?;
    let all = wide(cx, &x)?;
    let squares = cx.reduce("mean", &cx.mul(&all, &all)?, &axes, true)?;
    let inverse = cx.un("rsqrt", &cx.add_s(&squares, epsilon)?)?;
    let normal = cx.mul(&all, &inverse)?;
    let result = if let Some(weight) = weight { cx.mul(&normal, &cx.cast(&weight, normal.dtype())?)? } else { normal };
    cx.cast(&result, x.dtype())
}

/// Normalizes channels. Returns the result, the mean and the reciprocal deviation of the batch, and the new running values.
fn batch_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>, trains: bool) -> Res<Vec<T>> {
    n.ignore(&["cudnn_enabled"]);
    let (x, epsilon, momentum) = (n.x()?, n.float("eps", 1e-5)?, n.float("momentum", 0.1)?);
    let rank = x.dims_from(2)?.len();
    let (mean, variance) = (n.opt("running_mean")?, n.opt("running_var")?);
    let (weight, bias) = (n.opt("weight")?, n.opt("bias")?);
    let trains = trains || mean.is_none();
    if let (false, Some(mean), Some(variance)) = (trains, &mean, &variance) {
        if let (Some(weight), Some(bias), DType::F32) = (&weight, &bias, x.dtype()) {
            let vectors = [weight, bias, mean, variance];
            return Ok(vec![importer::norm::batch_norm(cx, &x, vectors, epsilon, momentum)?]);
        }
        let all = wide(cx, &x)?;
        let along = |vector: &T| along_channels(cx, &cx.cast(vector, all.dtype())?, rank);
        let deviation = cx.un("sqrt", &cx.add_s(&along(variance)?, epsilon)?)?;
        let normal = cx.div(&cx.sub(&all, &along(mean)?)?, &deviation)?;
        let result = affine(cx, n, normal)?;
        return Ok(vec![cx.cast(&result, x.dtype())?]);
    }
    let axes: Vec<usize> = (0..rank).filter(|axis| *axis != 1).collect();
    let (normal, now, inverse) = normalized(cx, &wide(cx, &x)?, &axes, epsilon)?;
    let result = cx.cast(&affine(cx, n, normal)?, x.dtype())?;
    let channels = vec![x.dim(1)?];
    let (now, inverse) = (cx.reshape(&now, channels.clone())?, cx.reshape(&inverse, channels)?);
    let mut results = vec![result, now.clone(), inverse.clone()];
    if let (Some(mean), Some(variance)) = (mean, variance) {
        let own = cx.add_s(&cx.div(&cx.scalar(1.0, inverse.dtype())?, &cx.mul(&inverse, &inverse)?)?, -epsilon)?;
        let count = plugin_api::arith::product(axes.iter().map(|axis| x.dim(*axis)).collect::<Res<Vec<Dim>>>()?.iter());
        let count =
            count.as_int().filter(|count| *count > 1).ok_or("the size of its batch must be known and above 1")? as f64;
        let unbiased = cx.mul_s(&own, count / (count - 1.0))?;
        for (old, new) in [(mean, now), (variance, unbiased)] {
            results.push(cx.add(&cx.mul_s(&old, 1.0 - momentum)?, &cx.mul_s(&cx.cast(&new, old.dtype())?, momentum)?)?);
        }
    }
    Ok(results)
}

fn group_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>, groups: i64) -> Res<Vec<T>> {
    n.ignore(&["cudnn_enabled"]);
    let x = n.x()?;
    let dims = x.dims_from(2)?;
    let is_divisible = groups > 0 && dims[1].as_int().is_none_or(|channels| channels % groups == 0);
    if !is_divisible {
        return Err(format!("its number of groups {groups} does not divide the number of channels"));
    }
    let mut apart = vec![dims[0].clone(), Dim::Int(groups), known::div(&dims[1], &Dim::Int(groups))];
    apart.extend(dims[2..].iter().cloned());
    let axes: Vec<usize> = (2..apart.len()).collect();
    let split = cx.reshape(&wide(cx, &x)?, apart)?;
    let (normal, mean, inverse) = normalized(cx, &split, &axes, n.float("eps", 1e-5)?)?;
    let normal = cx.reshape(&normal, dims.clone())?;
    let result = cx.cast(&affine(cx, n, normal)?, x.dtype())?;
    let each = |x: &T| cx.reshape(x, vec![dims[0].clone(), Dim::Int(groups)]);
    Ok(vec![result, cx.cast(&each(&mean)?, x.dtype())?, cx.cast(&each(&inverse)?, x.dtype())?])
}
