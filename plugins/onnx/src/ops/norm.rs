//! Normalizations, softmax and losses.

use super::conv::along_channels;
use super::shape::padded;
use super::{Row, all, ms, one};
use crate::cx::Cx;
use crate::known;
use crate::node::Node;
use crate::value::{Item, Res, T};
use importer::emitter::Emitter;
use importer::norm::log_softmax;
pub(super) use importer::norm::{normalized, softmax};
use plugin_api::arith::product;
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("Softmax", 7, |cx, n| soft(cx, n, softmax)),
    one("LogSoftmax", 7, |cx, n| soft(cx, n, log_softmax)),
    one("Hardmax", 7, hardmax),
    all("BatchNormalization", 7, batch_norm),
    one("InstanceNormalization", 7, |cx, n| {
        let x = n.input(0)?;
        let rank = x.rank()?;
        let normal = normalized(cx, &cx.wide(&x)?, &(2..rank).collect::<Vec<_>>(), n.float("epsilon", 1e-5)?)?.0;
        let scaled = cx.mul(&cx.cast(&normal, x.dtype())?, &along_channels(cx, &n.input(1)?, rank)?)?;
        cx.add(&scaled, &along_channels(cx, &n.input(2)?, rank)?)
    }),
    all("LayerNormalization", 17, layer_norm),
    one("GroupNormalization", 18, group_norm),
    one("RMSNormalization", 23, |cx, n| {
        let x = n.input(0)?;
        let axis = x.axis(n.int("axis", -1)?)?;
        let stash = n.int("stash_type", 1)?;
        rms_norm(cx, &x, &n.input(1)?, axis, n.float("epsilon", 1e-5)?, stash)
    }),
    one("LRN", 7, lrn),
    one("LpNormalization", 7, |cx, n| {
        let given = n.input(0)?;
        let x = cx.wide(&given)?;
        let axis = x.axis(n.int("axis", -1)?)?;
        let length = match n.int("p", 2)? {
            1 => cx.reduce("sum", &cx.un("abs", &x)?, &[axis], true)?,
            2 => cx.un("sqrt", &cx.reduce("sum", &cx.mul(&x, &x)?, &[axis], true)?)?,
            other => return Err(format!("its attribute `p` is {other}; it must be 1 or 2")),
        };
        let zero = cx.scalar(0.0, x.dtype())?;
        let is_zero = cx.bin("equal", &length, &zero)?;
        let safe = cx.select(&is_zero, &cx.scalar(1.0, x.dtype())?, &length)?;
        cx.cast(&cx.div(&x, &safe)?, given.dtype())
    }),
    one("MeanVarianceNormalization", 9, |cx, n| {
        let x = n.input(0)?;
        let axes = n.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
        let axes: Vec<usize> = axes.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?;
        let mean = cx.reduce("mean", &x, &axes, true)?;
        let squares = cx.reduce("mean", &cx.mul(&x, &x)?, &axes, true)?;
        let variance = cx.sub(&squares, &cx.mul(&mean, &mean)?)?;
        let deviation = cx.add_s(&cx.un("sqrt", &variance)?, 1e-9)?;
        cx.div(&cx.sub(&x, &mean)?, &deviation)
    }),
    one("NegativeLogLikelihoodLoss", 12, |cx, n| {
        let (x, labels, weights) = (n.input(0)?, n.input(1)?, n.opt(2)?);
        nll_loss(cx, n, &x, &labels, weights)
    }),
    all("SoftmaxCrossEntropyLoss", 12, |cx, n| {
        let x = n.input(0)?;
        let log = log_softmax(cx, &x, 1)?;
        let loss = nll_loss(cx, n, &log, &n.input(1)?, n.opt(2)?)?;
        Ok(vec![loss.into(), log.into()])
    }),
    // Operators of Microsoft's domain.
    ms(all("SkipLayerNormalization", 1, skip_layer_norm)),
    ms(all("LayerNormalization", 1, layer_norm)),
    ms(all("SkipSimplifiedLayerNormalization", 1, skip_rms_norm)),
    ms(all("SimplifiedLayerNormalization", 1, simplified)),
    all("SimplifiedLayerNormalization", 1, simplified),
];

/// Computes softmax along an axis; before version 13, along this axis and all following axes.
fn soft<'a>(cx: &mut Cx<'a>, n: &Node<'a>, of: fn(&Emitter<'_>, &T, i64) -> Res<T>) -> Res<T> {
    let x = n.input(0)?;
    if n.version >= 13 {
        return of(cx, &x, n.int("axis", -1)?);
    }
    softmax_from(cx, &x, x.axis(n.int("axis", 1)?)?, of)
}

/// Computes softmax along an axis and all following axes.
pub(super) fn softmax_from(cx: &Cx<'_>, x: &T, axis: usize, of: fn(&Emitter<'_>, &T, i64) -> Res<T>) -> Res<T> {
    if axis + 1 == x.rank()? {
        return of(cx, x, -1);
    }
    let dims = x.dims()?;
    let flat = cx.reshape(x, vec![product(&dims[..axis]), product(&dims[axis..])])?;
    let out = of(cx, &flat, -1)?;
    cx.reshape(&out, dims)
}

fn hardmax<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let dims = x.dims()?;
    let (flat, axis) = match n.version >= 13 {
        true => (x.clone(), x.axis(n.int("axis", -1)?)?),
        false => {
            let axis = x.axis(n.int("axis", 1)?)?;
            (cx.reshape(&x, vec![product(&dims[..axis]), product(&dims[axis..])])?, 1)
        }
    };
    let at = cx.call("relax.argmax", &[&flat], &[("axis", (axis as i64).into()), ("keepdims", true.into())])?;
    let mut shape = vec![Dim::Int(1); flat.rank()?];
    shape[axis] = flat.dim(axis)?;
    let along = cx.reshape(&cx.arange(&flat.dim(axis)?, DType::I64)?, shape)?;
    let out = cx.cast(&cx.bin("equal", &along, &at)?, x.dtype())?;
    cx.reshape(&out, dims)
}

fn batch_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (x, scale, bias, mean, variance) = (n.input(0)?, n.input(1)?, n.input(2)?, n.input(3)?, n.input(4)?);
    // The operator of Relax has the same defaults, which are not rounded to float32.
    let (epsilon, momentum) = (n.float_if("epsilon")?.unwrap_or(1e-5), n.float_if("momentum")?.unwrap_or(0.9));
    if n.int("spatial", 1)? != 1 {
        return Err("per-position normalization (`spatial` is 0) is not supported".to_string());
    }
    let trains = n.flag("training_mode", false)?;
    let rank = x.rank()?;
    let one_type = [&scale, &bias, &mean, &variance].iter().all(|part| part.dtype() == x.dtype());
    if !trains && one_type && x.dtype() == DType::F32 {
        let vectors = [&scale, &bias, &mean, &variance];
        return Ok(vec![importer::norm::batch_norm(cx, &x, vectors, epsilon, momentum)?.into()]);
    }
    let wide = if scale.dtype() == x.dtype() { mean.dtype() } else { scale.dtype() };
    let x_wide = cx.cast(&x, wide)?;
    let (used_mean, used_variance) = match trains {
        false => (mean.clone(), variance.clone()),
        true => {
            let axes: Vec<usize> = (0..rank).filter(|axis| *axis != 1).collect();
            let mean = cx.reduce("mean", &x_wide, &axes, false)?;
            let apart = cx.sub(&x_wide, &along_channels(cx, &mean, rank)?)?;
            (mean, cx.reduce("mean", &cx.mul(&apart, &apart)?, &axes, false)?)
        }
    };
    let apart = cx.sub(&x_wide, &along_channels(cx, &used_mean, rank)?)?;
    let deviation = cx.un("sqrt", &cx.add_s(&used_variance, epsilon)?)?;
    let normal = cx.div(&apart, &along_channels(cx, &deviation, rank)?)?;
    let scaled = cx.mul(&normal, &along_channels(cx, &cx.cast(&scale, wide)?, rank)?)?;
    let out = cx.add(&scaled, &along_channels(cx, &cx.cast(&bias, wide)?, rank)?)?;
    let mut results: Vec<Item> = vec![cx.cast(&out, x.dtype())?.into()];
    if trains {
        for (old, new) in [(mean, used_mean), (variance, used_variance)] {
            let kept = cx.add(&cx.mul_s(&old, momentum)?, &cx.mul_s(&new, 1.0 - momentum)?)?;
            results.push(kept.into());
        }
    }
    Ok(results)
}

fn layer_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (x, scale, bias) = (n.input(0)?, n.input(1)?, n.opt(2)?);
    let axis = x.axis(n.int("axis", -1)?)?;
    let epsilon = n.float("epsilon", 1e-5)?;
    let rank = x.rank()?;
    let axes: Vec<usize> = (axis..rank).collect();
    let whole = scale.shape().is_some_and(|dims| x.shape().is_some_and(|all| all[axis..] == *dims));
    let stash = n.int("stash_type", 1)?;
    if let (Some(bias), true, false, DType::F32) = (&bias, whole, n.wants(1) || n.wants(2), x.dtype()) {
        return Ok(vec![importer::norm::layer_norm(cx, &x, &scale, bias, &axes, epsilon)?.into()]);
    }
    let wide = if stash == 1 && x.dtype().bits() < 32 { DType::F32 } else { x.dtype() };
    let (normal, mean, inverse) = normalized(cx, &cx.cast(&x, wide)?, &axes, epsilon)?;
    let scaled = cx.mul(&cx.cast(&normal, x.dtype())?, &scale)?;
    let out = if let Some(bias) = bias { cx.add(&scaled, &bias)? } else { scaled };
    Ok(vec![out.into(), mean.into(), inverse.into()])
}

fn group_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, scale, bias) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let groups =
        n.int_if("num_groups")?.filter(|groups| *groups > 0).ok_or("its attribute `num_groups` must be positive")?;
    let dims = x.dims_from(2)?;
    let stash = n.int("stash_type", 1)?;
    let wide = if stash == 1 && x.dtype().bits() < 32 { DType::F32 } else { x.dtype() };
    let each = known::div(&dims[1], &Dim::Int(groups));
    let mut apart = vec![dims[0].clone(), Dim::Int(groups), each.clone()];
    apart.extend(dims[2..].iter().cloned());
    let rank = apart.len();
    let split = cx.reshape(&cx.cast(&x, wide)?, apart)?;
    let normal = normalized(cx, &split, &(2..rank).collect::<Vec<_>>(), n.float("epsilon", 1e-5)?)?.0;
    let normal = cx.cast(&cx.reshape(&normal, dims.clone())?, x.dtype())?;
    // Before version 21, the scale has an element for each group.
    let spread = |vector: &T| -> Res<T> {
        match n.version < 21 {
            true => {
                let wide = cx.broadcast_to(&cx.unsqueeze(vector, &[1])?, &[Dim::Int(groups), each.clone()])?;
                cx.reshape(&wide, vec![dims[1].clone()])
            }
            false => Ok(vector.clone()),
        }
    };
    let scaled = cx.mul(&normal, &along_channels(cx, &spread(&scale)?, dims.len())?)?;
    cx.add(&scaled, &along_channels(cx, &spread(&bias)?, dims.len())?)
}

pub(super) fn rms_norm(cx: &Cx<'_>, x: &T, scale: &T, axis: usize, epsilon: f64, stash: i64) -> Res<T> {
    let axes: Vec<usize> = (axis..x.rank()?).collect();
    let whole = scale.shape().is_some_and(|dims| x.shape().is_some_and(|all| all[axis..] == *dims));
    if whole && x.dtype() == DType::F32 && scale.dtype() == DType::F32 {
        let list: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
        return cx.call("relax.nn.rms_norm", &[x, scale], &[("axes", list.into()), ("epsilon", epsilon.into())]);
    }
    let wide = if stash == 1 && x.dtype().bits() < 32 { cx.cast(x, DType::F32)? } else { x.clone() };
    let squares = cx.reduce("mean", &cx.mul(&wide, &wide)?, &axes, true)?;
    let root = cx.un("sqrt", &cx.add_s(&squares, epsilon)?)?;
    let normal = cx.cast(&cx.div(&wide, &root)?, scale.dtype())?;
    cx.mul(&normal, scale)
}

fn lrn<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let size = n
        .int_if("size")?
        .filter(|size| (1..=1_000).contains(size))
        .ok_or("its attribute `size` must be from 1 to 1000")?;
    let (alpha, beta, bias) = (n.float("alpha", 0.0001)?, n.float("beta", 0.75)?, n.float("bias", 1.0)?);
    let rank = x.dims_from(2)?.len();
    let squares = cx.mul(&x, &x)?;
    let scaled = match matches!(rank, 3 | 4) && x.dtype() == DType::F32 {
        true => cx.mul_s(&mean_along_channels(cx, &squares, size)?, alpha)?,
        false => {
            let sum = sum_along_channels(cx, squares, size)?;
            cx.mul_s(&sum, alpha / size as f64)?
        }
    };
    cx.div(&x, &cx.bin("power", &cx.add_s(&scaled, bias)?, &cx.scalar(beta, x.dtype())?)?)
}

/// Returns the sum of each window of `size` channels, in which missing channels count as zeros.
fn sum_along_channels<'a>(cx: &mut Cx<'a>, x: T, size: i64) -> Res<T> {
    let (rank, channels, zero) = (x.rank()?, x.dim(1)?, cx.scalar(0.0, x.dtype())?);
    let (mut before, mut after) = (vec![Dim::Int(0); rank], vec![Dim::Int(0); rank]);
    before[1] = Dim::Int((size - 1) / 2);
    after[1] = Dim::Int(size - 1 - (size - 1) / 2);
    let wide = padded(cx, x, &before, &after, "constant", &zero)?;
    let mut sum: Option<T> = None;
    for at in 0..size {
        let part = cx.range(&wide, 1, Dim::Int(at), known::add(&channels, &Dim::Int(at)))?;
        sum = Some(if let Some(sum) = sum { cx.add(&sum, &part)? } else { part });
    }
    sum.ok_or_else(|| "no channels".to_string())
}

/// Returns the mean of each window of `size` channels, in which missing channels count as zeros: pooling over the channels,
/// which become a spatial axis.
fn mean_along_channels(cx: &Cx<'_>, x: &T, size: i64) -> Res<T> {
    let spatial = x.rank()? - 1;
    let at_channels = |value: i64, others: i64| {
        let mut list = vec![others; spatial];
        list[0] = value;
        list
    };
    let start = (size - 1) / 2;
    let pads = [at_channels(start, 0), at_channels(size - 1 - start, 0)].concat();
    let attrs = [
        ("pool_size", at_channels(size, 1).into()),
        ("strides", vec![1i64; spatial].into()),
        ("padding", pads.into()),
        ("dilation", vec![1i64; spatial].into()),
        ("ceil_mode", false.into()),
        ("count_include_pad", true.into()),
    ];
    let apart = cx.call("relax.expand_dims", &[x], &[("axis", vec![1i64].into())])?;
    let mean = cx.call(&format!("relax.nn.avg_pool{spatial}d"), &[&apart], &attrs)?;
    cx.call("relax.squeeze", &[&mean], &[("axis", vec![1i64].into())])
}

/// Computes the negative log-likelihood loss: the negated and weighted logarithm at each label.
fn nll_loss<'a>(cx: &mut Cx<'a>, n: &Node<'a>, x: &T, labels: &T, weights: Option<T>) -> Res<T> {
    let reduction = n.text("reduction", "mean")?;
    let labels = cx.cast(labels, DType::I64)?;
    let ignored = n.int_if("ignore_index")?;
    let zero = cx.scalar(0.0, DType::I64)?;
    let (safe, counts) = match ignored {
        None => (labels.clone(), None),
        Some(ignored) => {
            let ignored = cx.bin("equal", &labels, &cx.int64s(&[], &[ignored])?)?;
            (cx.select(&ignored, &zero, &labels)?, Some(cx.un("logical_not", &ignored)?))
        }
    };
    let at = cx.unsqueeze(&safe, &[1])?;
    let picked = cx.call("relax.gather_elements", &[x, &at], &[("axis", 1i64.into())])?;
    let picked = cx.un("negative", &cx.squeeze(&picked, &[1])?)?;
    let mut weight = match &weights {
        Some(weights) => cx.call("relax.take", &[weights, &safe], &[("axis", 0i64.into())])?,
        None => cx.filled(1.0, x.dtype(), &labels.dims()?)?,
    };
    if let Some(counts) = &counts {
        weight = cx.select(counts, &weight, &cx.scalar(0.0, x.dtype())?)?;
    }
    let loss = if weights.is_some() || counts.is_some() { cx.mul(&picked, &weight)? } else { picked };
    let axes: Vec<usize> = (0..loss.rank()?).collect();
    match reduction {
        "none" => Ok(loss),
        "sum" => cx.reduce("sum", &loss, &axes, false),
        "mean" => {
            let (sum, total) = (cx.reduce("sum", &loss, &axes, false)?, cx.reduce("sum", &weight, &axes, false)?);
            cx.div(&sum, &total)
        }
        other => Err(format!("its attribute `reduction` is `{other}`; it must be none, sum or mean")),
    }
}

/// Returns the sum of input, skip and bias.
fn skipped<'a>(cx: &mut Cx<'a>, n: &Node<'a>, bias: usize) -> Res<T> {
    let sum = cx.add(&n.input(0)?, &n.input(1)?)?;
    match n.opt(bias)? {
        Some(bias) => cx.add(&sum, &bias),
        None => Ok(sum),
    }
}

fn skip_layer_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let sum = skipped(cx, n, 4)?;
    let (gamma, beta) = (n.input(2)?, n.opt(3)?);
    let axis = sum.axis(-1)?;
    let (normal, mean, inverse) = normalized(cx, &sum, &[axis], n.float("epsilon", 1e-12)?)?;
    let scaled = cx.mul(&normal, &gamma)?;
    let out = if let Some(beta) = beta { cx.add(&scaled, &beta)? } else { scaled };
    Ok(vec![out.into(), mean.into(), inverse.into(), sum.into()])
}

fn skip_rms_norm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let sum = skipped(cx, n, 3)?;
    let gamma = n.input(2)?;
    let axis = sum.axis(-1)?;
    let out = rms_norm(cx, &sum, &gamma, axis, n.float("epsilon", 1e-12)?, 1)?;
    if n.wants(1) || n.wants(2) {
        return Err("its results `mean` and `inv_std_var` are not supported".to_string());
    }
    Ok(vec![out.clone().into(), out.clone().into(), out.into(), sum.into()])
}

fn simplified<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    let axis = x.axis(n.int("axis", -1)?)?;
    let (stash, epsilon) = (n.int("stash_type", 1)?, n.float("epsilon", 1e-5)?);
    let mut results = vec![rms_norm(cx, &x, &n.input(1)?, axis, epsilon, stash)?.into()];
    if n.wants(1) {
        let wide = cx.cast(&x, DType::F32)?;
        let squares = cx.reduce("mean", &cx.mul(&wide, &wide)?, &(axis..x.rank()?).collect::<Vec<usize>>(), true)?;
        let root = cx.un("sqrt", &cx.add_s(&squares, epsilon)?)?;
        results.push(cx.div(&cx.scalar(1.0, DType::F32)?, &root)?.into());
    }
    Ok(results)
}
