//! Arithmetic, comparisons, logic and other elementwise operators.

use super::{Each, Row, one, row};
use crate::graph::Cx;
use crate::node::Node;
use crate::promote::{self, Operand};
use importer::arith;
use importer::known::{Elem, Known};
use importer::tensor::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    row("aten.abs.default", Each::One("abs")),
    row("aten.neg.default", Each::One("negative")),
    row("aten.ceil.default", Each::One("ceil")),
    row("aten.floor.default", Each::One("floor")),
    row("aten.trunc.default", Each::One("trunc")),
    row("aten.square.default", Each::One("square")),
    row("aten.acos.default", Each::Float("acos")),
    row("aten.acosh.default", Each::Float("acosh")),
    row("aten.asin.default", Each::Float("asin")),
    row("aten.asinh.default", Each::Float("asinh")),
    row("aten.atan.default", Each::Float("atan")),
    row("aten.atanh.default", Each::Float("atanh")),
    row("aten.cos.default", Each::Float("cos")),
    row("aten.cosh.default", Each::Float("cosh")),
    row("aten.erf.default", Each::Float("erf")),
    row("aten.exp.default", Each::Float("exp")),
    row("aten.log.default", Each::Float("log")),
    row("aten.rsqrt.default", Each::Float("rsqrt")),
    row("aten.sigmoid.default", Each::Float("sigmoid")),
    row("aten.sin.default", Each::Float("sin")),
    row("aten.sinh.default", Each::Float("sinh")),
    row("aten.sqrt.default", Each::Float("sqrt")),
    row("aten.tan.default", Each::Float("tan")),
    row("aten.tanh.default", Each::Float("tanh")),
    row("aten.atan2.default", Each::Two("atan2")),
    row("aten.logaddexp.default", Each::Two("log_add_exp")),
    row("aten.mul.Tensor", Each::Two("multiply")),
    row("aten.mul.Scalar", Each::Two("multiply")),
    row("aten.multiply.Tensor", Each::Two("multiply")),
    row("aten.floor_divide.default", Each::Two("floor_divide")),
    row("aten.fmod.Tensor", Each::Two("mod")),
    row("aten.fmod.Scalar", Each::Two("mod")),
    row("aten.eq.Tensor", Each::Compare("equal")),
    row("aten.eq.Scalar", Each::Compare("equal")),
    row("aten.ne.Tensor", Each::Compare("not_equal")),
    row("aten.ne.Scalar", Each::Compare("not_equal")),
    row("aten.lt.Tensor", Each::Compare("less")),
    row("aten.lt.Scalar", Each::Compare("less")),
    row("aten.le.Tensor", Each::Compare("less_equal")),
    row("aten.le.Scalar", Each::Compare("less_equal")),
    row("aten.gt.Tensor", Each::Compare("greater")),
    row("aten.gt.Scalar", Each::Compare("greater")),
    row("aten.ge.Tensor", Each::Compare("greater_equal")),
    row("aten.ge.Scalar", Each::Compare("greater_equal")),
    row("aten.logical_and.default", Each::Logic("logical_and")),
    row("aten.logical_or.default", Each::Logic("logical_or")),
    row("aten.logical_xor.default", Each::Logic("logical_xor")),
    row("aten.bitwise_and.Tensor", Each::Bits("bitwise_and", "logical_and")),
    row("aten.bitwise_and.Scalar", Each::Bits("bitwise_and", "logical_and")),
    row("aten.bitwise_or.Tensor", Each::Bits("bitwise_or", "logical_or")),
    row("aten.bitwise_or.Scalar", Each::Bits("bitwise_or", "logical_or")),
    row("aten.bitwise_xor.Tensor", Each::Bits("bitwise_xor", "logical_xor")),
    row("aten.bitwise_xor.Scalar", Each::Bits("bitwise_xor", "logical_xor")),
    row("aten.__and__.Tensor", Each::Bits("bitwise_and", "logical_and")),
    row("aten.__and__.Scalar", Each::Bits("bitwise_and", "logical_and")),
    row("aten.__or__.Tensor", Each::Bits("bitwise_or", "logical_or")),
    row("aten.__or__.Scalar", Each::Bits("bitwise_or", "logical_or")),
    row("aten.__xor__.Tensor", Each::Bits("bitwise_xor", "logical_xor")),
    row("aten.__xor__.Scalar", Each::Bits("bitwise_xor", "logical_xor")),
    row("aten.bitwise_left_shift.Tensor", Each::Two("left_shift")),
    row("aten.bitwise_right_shift.Tensor", Each::Two("right_shift")),
    row("aten.__lshift__.Scalar", Each::Two("left_shift")),
    row("aten.__rshift__.Scalar", Each::Two("right_shift")),
    one("aten.add.Tensor", |cx, n| sum(cx, n, 1.0)),
    one("aten.add.Scalar", |cx, n| sum(cx, n, 1.0)),
    one("aten.sub.Tensor", |cx, n| sum(cx, n, -1.0)),
    one("aten.sub.Scalar", |cx, n| sum(cx, n, -1.0)),
    one("aten.subtract.Tensor", |cx, n| sum(cx, n, -1.0)),
    one("aten.rsub.Tensor", reversed),
    one("aten.rsub.Scalar", reversed),
    one("aten.div.Tensor", quotient),
    one("aten.div.Scalar", quotient),
    one("aten.divide.Tensor", quotient),
    one("aten.true_divide.Tensor", quotient),
    one("aten.div.Tensor_mode", quotient),
    one("aten.div.Scalar_mode", quotient),
    one("aten.remainder.Tensor", |cx, n| {
        let (a, b) = two(cx, n)?;
        arith::floor_remainder(cx, &a, &b)
    }),
    one("aten.remainder.Scalar", |cx, n| {
        let (a, b) = two(cx, n)?;
        arith::floor_remainder(cx, &a, &b)
    }),
    one("aten.pow.Tensor_Tensor", power),
    one("aten.pow.Tensor_Scalar", power),
    one("aten.pow.Scalar", power),
    one("aten.maximum.default", |cx, n| extreme(cx, n, arith::extreme_max)),
    one("aten.max.other", |cx, n| extreme(cx, n, arith::extreme_max)),
    one("aten.minimum.default", |cx, n| extreme(cx, n, arith::extreme_min)),
    one("aten.min.other", |cx, n| extreme(cx, n, arith::extreme_min)),
    one("aten.clamp.default", clamp),
    one("aten.clamp.Tensor", clamp),
    one("aten.clip.default", clamp),
    one("aten.clamp_min.default", clamp),
    one("aten.clamp_min.Tensor", clamp),
    one("aten.clamp_max.default", clamp),
    one("aten.clamp_max.Tensor", clamp),
    one("aten.where.self", choice),
    one("aten.where.ScalarOther", choice),
    one("aten.where.ScalarSelf", choice),
    one("aten.where.Scalar", choice),
    one("aten.sign.default", |cx, n| {
        let x = n.x()?;
        let sign = cx.un("sign", &x)?;
        arith::keep_nan(cx, &x, &cx.scalar(0.0, x.dtype())?, sign)
    }),
    one("aten.round.default", |cx, n| whole(cx, &n.x()?, "round")),
    one("aten.round.decimals", |cx, n| {
        let (x, places) = (n.x()?, n.int("decimals", 0)?);
        let by = 10f64.powi(places.clamp(-300, 300) as i32);
        let scaled = cx.un("round", &cx.mul_s(&x, by)?)?;
        cx.div(&scaled, &cx.scalar(by, x.dtype())?)
    }),
    one("aten.frac.default", |cx, n| {
        let x = n.x()?;
        cx.sub(&x, &cx.un("trunc", &x)?)
    }),
    one("aten.reciprocal.default", |cx, n| {
        let x = floats(cx, &n.x()?)?;
        cx.div(&cx.scalar(1.0, x.dtype())?, &x)
    }),
    one("aten.log2.default", |cx, n| scaled_log(cx, n, std::f64::consts::LN_2)),
    one("aten.log10.default", |cx, n| scaled_log(cx, n, std::f64::consts::LN_10)),
    one("aten.exp2.default", |cx, n| {
        let x = floats(cx, &n.x()?)?;
        cx.bin("power", &cx.scalar(2.0, x.dtype())?, &x)
    }),
    one("aten.expm1.default", |cx, n| {
        let x = floats(cx, &n.x()?)?;
        expm1(cx, &x)
    }),
    one("aten.log1p.default", |cx, n| {
        let x = floats(cx, &n.x()?)?;
        log1p(cx, &x)
    }),
    one("aten.erfc.default", |cx, n| {
        let x = floats(cx, &n.x()?)?;
        cx.sub(&cx.scalar(1.0, x.dtype())?, &cx.un("erf", &x)?)
    }),
    one("aten.logit.default", |cx, n| {
        let x = floats(cx, &n.x()?)?;
        let x = match n.float_if("eps")? {
            Some(eps) => {
                let low = arith::extreme_max(cx, &x, &cx.scalar(eps, x.dtype())?)?;
                arith::extreme_min(cx, &low, &cx.scalar(1.0 - eps, x.dtype())?)?
            }
            None => x,
        };
        let rest = cx.sub(&cx.scalar(1.0, x.dtype())?, &x)?;
        cx.un("log", &cx.div(&x, &rest)?)
    }),
    one("aten.isfinite.default", |cx, n| classified(cx, n, "isfinite", true)),
    one("aten.isinf.default", |cx, n| classified(cx, n, "isinf", false)),
    one("aten.isnan.default", |cx, n| classified(cx, n, "isnan", false)),
    one("aten.logical_not.default", |cx, n| {
        let holds = truth(cx, &n.x()?)?;
        cx.un("logical_not", &holds)
    }),
    one("aten.bitwise_not.default", |cx, n| {
        let x = n.x()?;
        cx.un(if x.dtype() == DType::BOOL { "logical_not" } else { "bitwise_not" }, &x)
    }),
    one("aten.addcmul.default", |cx, n| product_sum(cx, n, Emitted::Product)),
    one("aten.addcdiv.default", |cx, n| product_sum(cx, n, Emitted::Quotient)),
    one("aten.lerp.Scalar", lerp),
    one("aten.lerp.Tensor", lerp),
];

/// Emits an operator with a counterpart in Relax.
pub(crate) fn each<'a>(cx: &mut Cx<'a>, n: &Node<'a>, each: Each) -> Res<T> {
    match each {
        Each::One(op) => whole(cx, &n.x()?, op),
        Each::Float(op) => {
            let x = floats(cx, &n.x()?)?;
            cx.un(op, &x)
        }
        Each::Two(op) => {
            let (a, b) = two(cx, n)?;
            let is_integral = !matches!(op, "atan2" | "log_add_exp");
            match (op, a.dtype()) {
                ("multiply", DType::BOOL) => cx.bin("logical_and", &a, &b),
                _ if is_integral || a.is_float() => cx.bin(op, &a, &b),
                _ => cx.bin(op, &floats(cx, &a)?, &floats(cx, &b)?),
            }
        }
        Each::Compare(op) => {
            let (a, b) = two(cx, n)?;
            match a.dtype() {
                DType::BOOL => cx.bin(op, &cx.cast(&a, DType::I8)?, &cx.cast(&b, DType::I8)?),
                _ => cx.bin(op, &a, &b),
            }
        }
        Each::Logic(op) => cx.bin(op, &truth(cx, &n.x()?)?, &truth(cx, &n.t("other")?)?),
        Each::Bits(op, of_truth) => {
            let (a, b) = two(cx, n)?;
            cx.bin(if a.dtype() == DType::BOOL { of_truth } else { op }, &a, &b)
        }
    }
}

/// Emits an operator; rounding operators return integers unchanged.
fn whole(cx: &Cx<'_>, x: &T, op: &str) -> Res<T> {
    let rounds = matches!(op, "ceil" | "floor" | "trunc" | "round");
    if rounds && !x.is_float() { Ok(x.clone()) } else { cx.un(op, x) }
}

/// Converts integers and truth values to float32.
pub(super) fn floats(cx: &Cx<'_>, x: &T) -> Res<T> {
    cx.cast(x, promote::float(x.dtype()))
}

/// Converts a tensor to truth values.
pub(super) fn truth(cx: &Cx<'_>, x: &T) -> Res<T> {
    if x.dtype() == DType::BOOL { Ok(x.clone()) } else { cx.bin("not_equal", x, &cx.scalar(0.0, x.dtype())?) }
}

/// Converts a tensor to another data type. Only zero becomes false.
pub(super) fn converted(cx: &Cx<'_>, x: &T, dtype: DType) -> Res<T> {
    if dtype == DType::BOOL { truth(cx, x) } else { cx.cast(x, dtype) }
}

/// Returns a number, which may be symbolic, as a tensor of rank 0.
pub(super) fn scalar(cx: &Cx<'_>, number: &Elem, dtype: DType) -> Res<T> {
    let known = |dtype: DType, elem: Elem| Known::new(dtype, Vec::new(), vec![elem]).map(T::known_as);
    if let Some(exact) = number.cast(dtype).and_then(|elem| known(dtype, elem)) {
        return Ok(exact);
    }
    let own = if matches!(number, Elem::Int(_)) { DType::I64 } else { DType::F64 };
    let tensor = known(own, number.clone()).ok_or("a number cannot be a tensor")?;
    cx.cast(&tensor, dtype)
}

/// Returns an operand in a data type.
pub(super) fn typed(cx: &Cx<'_>, operand: &Operand, dtype: DType) -> Res<T> {
    match operand {
        Operand::Tensor(x) => converted(cx, x, dtype),
        Operand::Number(number) => scalar(cx, number, dtype),
        Operand::Bool(value) => scalar(cx, &Elem::int((*value).into()), dtype),
    }
}

/// Returns the operands `self` and `other`, or those with other names, in their common data type.
fn two<'a>(cx: &Cx<'a>, n: &Node<'a>) -> Res<(T, T)> {
    let (a, b) = (n.operand("self")?, n.operand("other")?);
    let dtype = promote::result(&[&a, &b]);
    Ok((typed(cx, &a, dtype)?, typed(cx, &b, dtype)?))
}

fn times(cx: &Cx<'_>, x: &T, factor: &Elem) -> Res<T> {
    if factor.number() == Some(1.0) { Ok(x.clone()) } else { cx.mul(x, &scalar(cx, factor, x.dtype())?) }
}

/// Adds `other`, multiplied by `alpha`, or subtracts it.
fn sum<'a>(cx: &mut Cx<'a>, n: &Node<'a>, sign: f64) -> Res<T> {
    let (a, b) = two(cx, n)?;
    let b = times(cx, &b, &n.number_if("alpha")?.unwrap_or(Elem::int(1)))?;
    match (a.dtype(), sign > 0.0) {
        (DType::BOOL, true) => cx.bin("logical_or", &a, &b),
        (_, true) => cx.add(&a, &b),
        (_, false) => cx.sub(&a, &b),
    }
}

fn reversed<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = two(cx, n)?;
    let a = times(cx, &a, &n.number_if("alpha")?.unwrap_or(Elem::int(1)))?;
    cx.sub(&b, &a)
}

/// Divides. Without rounding, the quotient of integers is a float.
fn quotient<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = two(cx, n)?;
    match n.text_if("rounding_mode")? {
        None => cx.div(&floats(cx, &a)?, &floats(cx, &b)?),
        Some("floor") => cx.bin("floor_divide", &a, &b),
        Some("trunc") if a.is_float() => cx.un("trunc", &cx.div(&a, &b)?),
        Some("trunc") => arith::quotient(cx, &a, &b),
        Some(other) => Err(format!("its argument `rounding_mode` is `{other}`; it must be `floor` or `trunc`")),
    }
}

fn power<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = (n.operand("self")?, n.operand("exponent")?);
    let dtype = promote::result(&[&a, &b]);
    let base = typed(cx, &a, dtype)?;
    match &b {
        Operand::Number(number) if number.number() == Some(2.0) => cx.mul(&base, &base),
        Operand::Number(number) if number.number() == Some(1.0) => Ok(base),
        Operand::Number(number) if number.number() == Some(0.5) && base.is_float() => cx.un("sqrt", &base),
        _ => cx.bin("power", &base, &typed(cx, &b, dtype)?),
    }
}

fn extreme<'a>(cx: &mut Cx<'a>, n: &Node<'a>, f: fn(&importer::emitter::Emitter<'_>, &T, &T) -> Res<T>) -> Res<T> {
    let (a, b) = two(cx, n)?;
    match a.dtype() {
        DType::BOOL => {
            let least = f(cx, &cx.cast(&a, DType::I8)?, &cx.cast(&b, DType::I8)?)?;
            truth(cx, &least)
        }
        _ => f(cx, &a, &b),
    }
}

fn clamp<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.operand("self")?;
    let (least, most) = (n.operand_if("min")?, n.operand_if("max")?);
    let all: Vec<&Operand> = [Some(&x), least.as_ref(), most.as_ref()].into_iter().flatten().collect();
    let dtype = promote::result(&all);
    let mut result = typed(cx, &x, dtype)?;
    if let Some(least) = least {
        result = arith::extreme_max(cx, &result, &typed(cx, &least, dtype)?)?;
    }
    if let Some(most) = most {
        result = arith::extreme_min(cx, &result, &typed(cx, &most, dtype)?)?;
    }
    Ok(result)
}

fn choice<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = (n.operand("self")?, n.operand("other")?);
    let dtype = promote::result(&[&a, &b]);
    let cond = truth(cx, &n.t("condition")?)?;
    cx.select(&cond, &typed(cx, &a, dtype)?, &typed(cx, &b, dtype)?)
}

fn scaled_log<'a>(cx: &mut Cx<'a>, n: &Node<'a>, by: f64) -> Res<T> {
    let x = floats(cx, &n.x()?)?;
    cx.div(&cx.un("log", &x)?, &cx.scalar(by, x.dtype())?)
}

/// Computes `exp(x) - 1` without cancellation near 0: there, it is `2 * sinh(x / 2) * exp(x / 2)`.
pub(super) fn expm1(cx: &Cx<'_>, x: &T) -> Res<T> {
    let half = cx.mul_s(x, 0.5)?;
    let near = cx.mul_s(&cx.mul(&cx.un("sinh", &half)?, &cx.un("exp", &half)?)?, 2.0)?;
    let far = cx.add_s(&cx.un("exp", x)?, -1.0)?;
    let is_near = cx.bin("less", &cx.un("abs", x)?, &cx.scalar(0.5, x.dtype())?)?;
    cx.select(&is_near, &near, &far)
}

/// Computes `log(1 + x)` without losing the digits of a small `x`: with `u = 1 + x` rounded, it is `log(u) * x / (u - 1)`.
pub(super) fn log1p(cx: &Cx<'_>, x: &T) -> Res<T> {
    let sum = cx.add_s(x, 1.0)?;
    let excess = cx.add_s(&sum, -1.0)?;
    let zero = cx.scalar(0.0, x.dtype())?;
    let logarithm = cx.un("log", &sum)?;
    let is_lost = cx.bin("equal", &excess, &zero)?;
    let divisor = cx.select(&is_lost, &cx.scalar(1.0, x.dtype())?, &excess)?;
    let corrected = cx.mul(&logarithm, &cx.div(x, &divisor)?)?;
    let is_infinite = cx.un("isinf", x)?;
    let corrected = cx.select(&is_infinite, &logarithm, &corrected)?;
    cx.select(&is_lost, x, &corrected)
}

/// Classifies floats; all integers are finite.
fn classified<'a>(cx: &mut Cx<'a>, n: &Node<'a>, op: &str, of_integers: bool) -> Res<T> {
    let x = n.x()?;
    if x.is_float() { cx.un(op, &x) } else { cx.filled(f64::from(u8::from(of_integers)), DType::BOOL, &x.dims()?) }
}

/// The operation on the last two operands.
#[derive(Clone, Copy)]
enum Emitted {
    Product,
    Quotient,
}

/// Adds the product or quotient of two tensors, multiplied by `value`.
fn product_sum<'a>(cx: &mut Cx<'a>, n: &Node<'a>, of: Emitted) -> Res<T> {
    let [x, a, b] = [n.operand("self")?, n.operand("tensor1")?, n.operand("tensor2")?];
    let dtype = promote::result(&[&x, &a, &b]);
    let [x, a, b] = [typed(cx, &x, dtype)?, typed(cx, &a, dtype)?, typed(cx, &b, dtype)?];
    let part = match of {
        Emitted::Product => cx.mul(&a, &b)?,
        Emitted::Quotient => cx.div(&a, &b)?,
    };
    let part = times(cx, &part, &n.number_if("value")?.unwrap_or(Elem::int(1)))?;
    cx.add(&x, &part)
}

fn lerp<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = (n.x()?, n.t("end")?);
    let weight = typed(cx, &n.operand("weight")?, a.dtype())?;
    cx.add(&a, &cx.mul(&weight, &cx.sub(&b, &a)?)?)
}
