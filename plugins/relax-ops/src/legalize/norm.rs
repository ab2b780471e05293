//! Normalizations.

use super::blocks::{map, map2, math, reshaped, with};
use super::reduce::reduce;
use super::{Legal, Row, axis_of, cannot, float_attr};
use crate::declare::{flag, int, ints};
use plugin_api::arith::product;
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr, TeTensor};

pub(super) const ROWS: &[Row] = &[
    ("relax.nn.batch_norm", batch_norm),
    ("relax.nn.layer_norm", layer_norm),
    ("relax.nn.group_norm", group_norm),
    ("relax.nn.instance_norm", instance_norm),
    ("relax.nn.rms_norm", rms_norm),
];

/// Returns the axes in an attribute, in order.
fn axes_in(call: Call<'_>, key: &str, n: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = ints(call, key).unwrap_or_default().into_iter().map(|axis| axis_of(axis, n)).collect();
    axes.sort_unstable();
    axes
}

/// Returns the number of elements over the axes.
fn count(x: &TeTensor, axes: &[usize], dtype: DType) -> TeExpr {
    TeExpr::of_dim(product(axes.iter().map(|axis| &x.shape()[*axis]))).cast(dtype)
}

/// Returns the number of elements over the axes as a float; each factor is converted before the multiplication.
fn float_count(x: &TeTensor, axes: &[usize], dtype: DType) -> TeExpr {
    let sizes = axes.iter().map(|axis| TeExpr::of_dim(x.shape()[*axis].clone()).cast(dtype));
    sizes.reduce(|all, one| all * one).unwrap_or_else(|| TeExpr::float(1.0, dtype))
}

/// Returns the indices of the given axes if `among` is true, otherwise the indices of all other axes.
fn pick(i: &[TeExpr], axes: &[usize], among: bool) -> Vec<TeExpr> {
    i.iter().enumerate().filter(|(at, _)| axes.contains(at) == among).map(|(_, index)| index.clone()).collect()
}

/// Returns the size to which two dimensions are broadcast, as far as it is known.
fn common(a: &Dim, b: &Dim) -> Dim {
    match (a.as_int(), b.as_int()) {
        _ if a == b => a.clone(),
        (Some(1), _) => b.clone(),
        (_, Some(1)) | (Some(_), None) => a.clone(),
        (None, Some(_)) => b.clone(),
        _ => Dim::binary(plugin_api::scalar::PrimOp::Max, a.clone(), b.clone()),
    }
}

/// Returns true if a call multiplies by `gamma` (`scale`), or adds `beta` (`center`).
fn is_set(call: Call<'_>, key: &str) -> bool {
    call.attr(key).and_then(|attr| attr.as_bool()).unwrap_or(true)
}

/// Multiplies by `gamma` and adds `beta` as requested. Except in `batch_norm`, TVM ignores the request and always does
/// both.
fn scaled(call: Call<'_>, normal: TeExpr, gamma: TeExpr, beta: TeExpr) -> TeExpr {
    let times = if is_set(call, "scale") { normal * gamma } else { normal };
    if is_set(call, "center") { times + beta } else { times }
}

fn batch_norm(call: Call<'_>) -> Legal {
    let te = Te::new("batch_norm", call);
    let (x, gamma, beta, mean, variance) = (te.input(0)?, te.input(1)?, te.input(2)?, te.input(3)?, te.input(4)?);
    let axis = axis_of(int(call, "axis").unwrap_or(1), x.ndim());
    let mut channels = vec![Dim::Int(1); x.ndim()];
    channels[axis] = x.shape()[axis].clone();
    let all = |te: &Te<'_>, x: &TeTensor| reshaped(te, x, &channels);
    let minus = |te: &Te<'_>, mean: &TeTensor| with(te, "T_subtract", &x, mean, |x, mean| x - mean);
    let training = flag(call, "training");
    let others: Vec<usize> = (0..x.ndim()).filter(|other| *other != axis).collect();
    let mean_over = |x: &TeTensor| {
        let sum = reduce(&te, &format!("{}_red", x.name()), x, &others, false, TeExpr::sum);
        map(&te, "T_divide", &sum, |sum| sum / count(x, &others, x.dtype()))
    };
    let (now, spread) = if training {
        let now = mean_over(&x);
        let shaped = all(&te, &now);
        let squared = map2(&te, "T_multiply", &minus(&te, &shaped), &minus(&te, &shaped), |a, b| a * b);
        (Some((now, shaped)), mean_over(&squared))
    } else {
        (None, variance.clone())
    };
    let shaped = now.as_ref().map_or_else(|| all(&te, &mean), |(_, shaped)| shaped.clone());
    let epsilon = float_attr(call, "epsilon").unwrap_or(1e-5);
    let deviation = math(&te, &map(&te, "T_add", &all(&te, &spread), |x| x + epsilon), "sqrt");
    let mut out = with(&te, "T_divide", &minus(&te, &shaped), &deviation, |x, by| x / by);
    if is_set(call, "scale") {
        out = with(&te, "T_multiply", &out, &all(&te, &gamma), |x, by| x * by);
    }
    if is_set(call, "center") {
        out = with(&te, "T_add", &out, &all(&te, &beta), |x, more| x + more);
    }
    let momentum = float_attr(call, "momentum").unwrap_or(0.1);
    let moved = |old: &TeTensor, now: Option<&TeTensor>| match now {
        None => map(&te, "T_multiply", old, |x| x * 1.0),
        Some(now) => {
            let old = map(&te, "T_multiply", old, |x| (1.0 - momentum) * x);
            let now = map(&te, "T_multiply", now, |x| momentum * x);
            let shape = [common(&old.shape()[0], &now.shape()[0])];
            te.compute("T_add", &shape, |i| old.broadcast_at(i, &shape) + now.broadcast_at(i, &shape))
        }
    };
    let means = moved(&mean, now.as_ref().map(|(now, _)| now));
    let variances = moved(&variance, training.then_some(&spread));
    te.finish(&[out, means, variances])
}

/// Normalizes to mean 0 and variance 1 over the last axes, then multiplies by `gamma` and adds `beta`.
fn layer_norm(call: Call<'_>) -> Legal {
    let te = Te::new("layer_norm", call);
    let (x, gamma, beta) = (te.input(0)?, te.input(1)?, te.input(2)?);
    if !x.dtype().is_float() {
        return cannot("it is legalized only for floats");
    }
    let to = if x.dtype() == DType::F16 { DType::F32 } else { x.dtype() };
    let axes = axes_in(call, "axes", x.ndim());
    let epsilon = float_attr(call, "epsilon").unwrap_or(1e-5);
    let count = float_count(&x, &axes, to);
    let sum = reduce(&te, "x_sum", &x, &axes, false, |x, over| {
        let wide = if x.dtype() == DType::F16 { DType::F32 } else { x.dtype() };
        x.cast(wide).sum(over)
    });
    let mean = map(&te, "x_mean", &sum, |sum| sum / &count);
    let over: Vec<TeExpr> = axes.iter().map(|axis| te.reduce_axis(&format!("k{axis}"), &x.shape()[*axis])).collect();
    let spread = te.compute("x_var_sum", mean.shape(), |i| {
        let mut index = i.to_vec();
        axes.iter().zip(&over).for_each(|(axis, k)| index.insert(*axis, k.clone()));
        let apart = x.at(&index).cast(to) - mean.at(i);
        (&apart * &apart).sum(&over.iter().collect::<Vec<_>>())
    });
    let out = te.compute("T_layer_norm", x.shape(), |i| {
        let (outer, inner) = (pick(i, &axes, false), pick(i, &axes, true));
        let scale = (spread.at(&outer) / &count + epsilon).math("rsqrt");
        let normal = ((x.at(i).cast(to) - mean.at(&outer)) * scale).cast(x.dtype());
        scaled(call, normal, gamma.at(&inner), beta.at(&inner))
    });
    te.finish(&[out])
}

/// Computes the sums of elements and of their squares over some axes.
fn sums(te: &Te<'_>, name: &str, x: &TeTensor, axes: &[usize]) -> [TeTensor; 2] {
    let over: Vec<TeExpr> = axes.iter().map(|axis| te.reduce_axis(&format!("k{axis}"), &x.shape()[*axis])).collect();
    let kept: Vec<Dim> =
        (0..x.ndim()).filter(|axis| !axes.contains(axis)).map(|axis| x.shape()[axis].clone()).collect();
    let zero = || TeExpr::float(0.0, x.dtype());
    te.compute_pair(name, &kept, [zero(), zero()], &over.iter().collect::<Vec<_>>(), |i, [sum, squares]| {
        let mut index = i.to_vec();
        axes.iter().zip(&over).for_each(|(axis, k)| index.insert(*axis, k.clone()));
        [sum + x.at(&index), squares + x.at(&index) * x.at(&index)]
    })
}

/// Normalizes an element, given the sums of elements and of squares.
fn normal(x: TeExpr, [sum, squares]: [TeExpr; 2], count: &TeExpr, epsilon: f64) -> TeExpr {
    let mean = sum / count;
    let spread = squares / count - &mean * &mean;
    (x - mean) * (spread + epsilon).math("rsqrt")
}

/// Converts a tensor of float16 to float32, because sums are computed in float32.
fn in_float32(te: &Te<'_>, x: TeTensor) -> TeTensor {
    if x.dtype() == DType::F16 { map(te, "T_cast", &x, |x| x.cast(DType::F32)) } else { x }
}

fn group_norm(call: Call<'_>) -> Legal {
    let te = Te::new("group_norm", call);
    let (x, gamma, beta) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let Some(groups) = int(call, "num_groups").filter(|groups| *groups > 0) else {
        return cannot("the number of groups is missing");
    };
    let channel = axis_of(int(call, "channel_axis").unwrap_or(1), x.ndim());
    let axes = axes_in(call, "axes", x.ndim());
    let of_group = [Dim::Int(groups), x.shape()[channel].clone().floor_div(groups)];
    let shape = [&x.shape()[..channel], &of_group, &x.shape()[channel + 1..]].concat();
    let grouped = reshaped(&te, &x, &shape);
    let wide = in_float32(&te, grouped);
    let after = |axis: &usize| if *axis > channel { axis + 1 } else { *axis };
    let mut reduced: Vec<usize> = [channel + 1].into_iter().chain(axes.iter().map(after)).collect();
    reduced.sort_unstable();
    let count = float_count(&wide, &reduced, wide.dtype());
    let [sum, squares] = sums(&te, &format!("{}_red_temp", x.name()), &wide, &reduced);
    let (gamma, beta) = (reshaped(&te, &gamma, &of_group), reshaped(&te, &beta, &of_group));
    let epsilon = float_attr(call, "epsilon").unwrap_or(1e-5);
    let out = te.compute("T_group_norm", &shape, |i| {
        let (outer, inner) = (pick(i, &reduced, false), &i[channel..channel + 2]);
        let normal = normal(wide.at(i), [sum.at(&outer), squares.at(&outer)], &count, epsilon).cast(x.dtype());
        scaled(call, normal, gamma.at(inner), beta.at(inner))
    });
    let out = reshaped(&te, &out, x.shape());
    te.finish(&[out])
}

fn instance_norm(call: Call<'_>) -> Legal {
    let te = Te::new("instance_norm", call);
    let (x, gamma, beta) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let channel = axis_of(int(call, "channel_axis").unwrap_or(1), x.ndim());
    let axes = axes_in(call, "axes", x.ndim());
    let wide = in_float32(&te, x.clone());
    let count = float_count(&wide, &axes, wide.dtype());
    let [sum, squares] = sums(&te, &format!("{}_red_temp", x.name()), &wide, &axes);
    let epsilon = float_attr(call, "epsilon").unwrap_or(1e-5);
    let out = te.compute("T_instance_norm", x.shape(), |i| {
        let outer = pick(i, &axes, false);
        let normal = normal(wide.at(i), [sum.at(&outer), squares.at(&outer)], &count, epsilon).cast(x.dtype());
        scaled(call, normal, gamma.at([&i[channel]]), beta.at([&i[channel]]))
    });
    te.finish(&[out])
}

fn rms_norm(call: Call<'_>) -> Legal {
    let te = Te::new("rms_norm", call);
    let (x, weight) = (te.input(0)?, te.input(1)?);
    let axes = axes_in(call, "axes", x.ndim());
    let wide = |te: &Te<'_>, x: &TeTensor| map(te, "T_cast", x, |x| x.cast(DType::F32));
    let data = wide(&te, &x);
    let squares = map2(&te, "T_multiply", &data, &data, |a, b| a * b);
    let sum = reduce(&te, "T_multiply_red", &squares, &axes, false, TeExpr::sum);
    let count = float_count(&x, &axes, DType::F32);
    let epsilon = float_attr(call, "epsilon").unwrap_or(1e-5);
    let scale = map(&te, "rsqrt", &sum, |sum| (sum / count + epsilon).math("rsqrt"));
    let weight = wide(&te, &weight);
    let out = te.compute("T_rms_norm", x.shape(), |i| {
        scale.at(pick(i, &axes, false)) * data.at(i) * weight.at(pick(i, &axes, true))
    });
    let out = map(&te, "T_cast", &out, |out| out.cast(x.dtype()));
    te.finish(&[out])
}
