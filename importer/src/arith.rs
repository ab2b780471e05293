//! Elementwise computations that are composed of several operators.

use crate::emitter::Emitter;
use crate::tensor::{Res, T};
use plugin_api::prelude::*;

/// Returns the larger element. NaN is propagated.
pub fn extreme_max(cx: &Emitter<'_>, a: &T, b: &T) -> Res<T> {
    let most = cx.bin("maximum", a, b)?;
    keep_nan(cx, a, b, most)
}

/// Returns the smaller element. NaN is propagated.
pub fn extreme_min(cx: &Emitter<'_>, a: &T, b: &T) -> Res<T> {
    let least = cx.bin("minimum", a, b)?;
    keep_nan(cx, a, b, least)
}

/// Replaces a result by NaN where `a` or `b` is NaN.
pub fn keep_nan(cx: &Emitter<'_>, a: &T, b: &T, result: T) -> Res<T> {
    let is_number = |x: &T| x.floats().is_some_and(|all| all.iter().all(|v| !v.is_nan()));
    if !a.is_float() || is_number(a) && is_number(b) {
        return Ok(result);
    }
    let ok = |x: &T| -> Res<T> { cx.bin("equal", x, x) };
    let result = if is_number(b) { result } else { cx.select(&ok(b)?, &result, b)? };
    if is_number(a) { Ok(result) } else { cx.select(&ok(a)?, &result, a) }
}

/// Returns the quotient. Quotients of integers are truncated.
pub fn quotient(cx: &Emitter<'_>, a: &T, b: &T) -> Res<T> {
    if a.is_float() {
        return cx.div(a, b);
    }
    let rest = cx.bin("mod", a, b)?;
    cx.bin("floor_divide", &cx.sub(a, &rest)?, b)
}

/// Computes `gamma * x` above zero, and otherwise `gamma * alpha * (exp(x / scale) - 1)`. Computes 16-bit floats in single
/// precision.
pub fn exponential(cx: &Emitter<'_>, x: &T, alpha: f64, gamma: f64, scale: f64) -> Res<T> {
    if x.dtype().bits() < 32 {
        let wide = exponential(cx, &cx.cast(x, DType::F32)?, alpha, gamma, scale)?;
        return cx.cast(&wide, x.dtype());
    }
    let zero = cx.scalar(0.0, x.dtype())?;
    let low = cx.bin("minimum", x, &zero)?;
    let scaled = if scale == 1.0 { low } else { cx.div(&low, &cx.scalar(scale, x.dtype())?)? };
    let curve = cx.mul_s(&cx.add_s(&cx.un("exp", &scaled)?, -1.0)?, alpha)?;
    // NaN fails the comparison, so it stays NaN.
    let below = cx.bin("less_equal", x, &zero)?;
    let result = cx.select(&below, &curve, x)?;
    if gamma == 1.0 { Ok(result) } else { cx.mul_s(&result, gamma) }
}

/// Computes `alpha * x + beta`, limited to the range from 0 to 1.
pub fn hard_sigmoid(cx: &Emitter<'_>, x: &T, alpha: f64, beta: f64) -> Res<T> {
    let line = cx.add_s(&cx.mul_s(x, alpha)?, beta)?;
    // If an operand is NaN, the result is the second operand.
    let below = cx.bin("minimum", &cx.scalar(1.0, x.dtype())?, &line)?;
    cx.bin("maximum", &cx.scalar(0.0, x.dtype())?, &below)
}

/// Computes `log(exp(x) + 1)` without overflow.
pub fn softplus(cx: &Emitter<'_>, x: &T) -> Res<T> {
    cx.bin("log_add_exp", x, &cx.scalar(0.0, x.dtype())?)
}

/// Computes `x * sigmoid(alpha * x)`. Computes 16-bit floats in single precision.
pub fn swish(cx: &Emitter<'_>, x: &T, alpha: f64) -> Res<T> {
    if x.dtype().bits() < 32 {
        let wide = swish(cx, &cx.cast(x, DType::F32)?, alpha)?;
        return cx.cast(&wide, x.dtype());
    }
    if alpha == 1.0 {
        return cx.un("nn.silu", x);
    }
    let gate = cx.un("sigmoid", &cx.mul_s(x, alpha)?)?;
    cx.mul(x, &gate)
}

/// Returns the remainder with the sign of the divisor.
pub fn floor_remainder(cx: &Emitter<'_>, a: &T, b: &T) -> Res<T> {
    if !a.is_float() {
        return cx.bin("floor_mod", a, b);
    }
    let rest = cx.bin("mod", a, b)?;
    let zero = cx.scalar(0.0, a.dtype())?;
    let differs = cx.bin("logical_xor", &cx.bin("less", &rest, &zero)?, &cx.bin("less", b, &zero)?)?;
    let moves = cx.bin("logical_and", &differs, &cx.bin("not_equal", &rest, &zero)?)?;
    let moved = cx.add(&rest, b)?;
    cx.select(&moves, &moved, &rest)
}
