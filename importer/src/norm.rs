//! Softmax and normalization.

use crate::emitter::Emitter;
use crate::pad::padded;
use crate::tensor::{Res, T};
use crate::windows::LARGEST;
use plugin_api::prelude::*;

/// Maximum length of an axis that is summed as a whole. Longer axes are summed in parts, because adding small numbers
/// one by one to a large sum would lose their digits.
const LONG: i64 = 4096;

/// The number of elements of a part.
const PART: i64 = 128;

fn is_long(x: &T, axis: usize) -> bool {
    let length = x.shape().and_then(|shape| shape.get(axis)?.as_int());
    x.dtype() == DType::F32 && length.is_some_and(|n| n > LONG && n < LARGEST)
}

/// Returns the sum along an axis of known length, computed as the sum of partial sums. The axis is kept, with length 1.
fn sum_of_parts(cx: &Emitter<'_>, x: &T, axis: usize) -> Res<T> {
    let n = x.dim(axis)?.as_int().ok_or("the length of the summed axis is not known")?;
    let parts = (n + PART - 1) / PART;
    let none = vec![Dim::Int(0); x.rank()?];
    let mut after = none.clone();
    after[axis] = Dim::Int(parts * PART - n);
    let whole = padded(cx, x.clone(), &none, &after, "constant", &cx.scalar(0.0, x.dtype())?)?;
    let mut dims = whole.dims()?;
    dims.splice(axis..=axis, [Dim::Int(parts), Dim::Int(PART)]);
    let sums = cx.reduce("sum", &cx.reshape(&whole, dims)?, &[axis + 1], false)?;
    cx.reduce("sum", &sums, &[axis], true)
}

/// Computes softmax along an axis; a negative axis counts from the end. For float16, the sums are in single precision.
pub fn softmax(cx: &Emitter<'_>, x: &T, along: i64) -> Res<T> {
    let axis = x.axis(along)?;
    let is_long = is_long(x, axis);
    if x.dtype() != DType::F16 && !is_long {
        return cx.call("relax.nn.softmax", &[x], &[("axis", along.into())]);
    }
    let apart = cx.sub(x, &cx.reduce("max", x, &[axis], true)?)?;
    let powers = cx.un("exp", &apart)?;
    if is_long {
        return cx.div(&powers, &sum_of_parts(cx, &powers, axis)?);
    }
    let sum = cx.reduce("sum", &cx.cast(&powers, DType::F32)?, &[axis], true)?;
    cx.div(&powers, &cx.cast(&sum, x.dtype())?)
}

/// Computes the logarithm of softmax along an axis; a negative axis counts from the end.
pub fn log_softmax(cx: &Emitter<'_>, x: &T, along: i64) -> Res<T> {
    let axis = x.axis(along)?;
    if !is_long(x, axis) {
        return cx.call("relax.nn.log_softmax", &[x], &[("axis", along.into())]);
    }
    let apart = cx.sub(x, &cx.reduce("max", x, &[axis], true)?)?;
    let sum = sum_of_parts(cx, &cx.un("exp", &apart)?, axis)?;
    cx.sub(&apart, &cx.un("log", &sum)?)
}

/// Normalizes a tensor over axes. Returns the result, the mean, and the reciprocal of the deviation.
pub fn normalized(cx: &Emitter<'_>, x: &T, axes: &[usize], epsilon: f64) -> Res<(T, T, T)> {
    let mean = cx.reduce("mean", x, axes, true)?;
    let apart = cx.sub(x, &mean)?;
    let variance = cx.reduce("mean", &cx.mul(&apart, &apart)?, axes, true)?;
    let deviation = cx.un("sqrt", &cx.add_s(&variance, epsilon)?)?;
    let inverse = cx.div(&cx.scalar(1.0, x.dtype())?, &deviation)?;
    Ok((cx.mul(&apart, &inverse)?, mean, inverse))
}

/// Emits Relax's batch normalization for inference, on float32 values. `vectors` are the scale, the bias, the mean and
/// the variance. Returns the normalized tensor.
pub fn batch_norm(cx: &Emitter<'_>, x: &T, vectors: [&T; 4], epsilon: f64, momentum: f64) -> Res<T> {
    let attrs = [
        ("axis", 1i64.into()),
        ("epsilon", epsilon.into()),
        ("center", true.into()),
        ("scale", true.into()),
        ("momentum", momentum.into()),
        ("training", false.into()),
    ];
    let args: Vec<V> = std::iter::once(x).chain(vectors).map(|arg| cx.v(arg)).collect::<Res<_>>()?;
    T::of_v(cx, cx.b.get(cx.call_v("relax.nn.batch_norm", &args, &attrs)?, 0))
}

/// Emits Relax's normalization over axes, on float32 values.
pub fn layer_norm(cx: &Emitter<'_>, x: &T, scale: &T, bias: &T, axes: &[usize], epsilon: f64) -> Res<T> {
    let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
    let attrs = [("axes", axes.into()), ("epsilon", epsilon.into()), ("center", true.into()), ("scale", true.into())];
    cx.call("relax.nn.layer_norm", &[x, scale, bias], &attrs)
}

/// Computes softmax along an axis. Where all elements are minus infinity, the result is zeros.
pub fn safe_softmax(cx: &Emitter<'_>, x: &T, along: i64) -> Res<T> {
    let most = cx.reduce("max", x, &[x.axis(along)?], true)?;
    let is_empty = cx.bin("equal", &most, &cx.scalar(f64::NEG_INFINITY, x.dtype())?)?;
    cx.select(&is_empty, &cx.scalar(0.0, x.dtype())?, &softmax(cx, x, along)?)
}
