//! Elementwise operators.

use super::{Row, all, ms, one};
use crate::cx::Cx;
use crate::narrow;
use crate::node::Node;
use crate::value::{Item, Res, T};
pub(crate) use importer::arith::quotient;
use importer::arith::{exponential, floor_remainder, keep_nan};
pub(super) use importer::arith::{extreme_max, extreme_min, hard_sigmoid, softplus, swish};
use importer::emitter::Emitter;
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("Abs", 7, |cx, n| cx.un("abs", &n.input(0)?)),
    one("Acos", 7, |cx, n| cx.un("acos", &n.input(0)?)),
    one("Acosh", 7, |cx, n| cx.un("acosh", &n.input(0)?)),
    one("Asin", 7, |cx, n| cx.un("asin", &n.input(0)?)),
    one("Asinh", 7, |cx, n| cx.un("asinh", &n.input(0)?)),
    one("Atan", 7, |cx, n| cx.un("atan", &n.input(0)?)),
    one("Atanh", 7, |cx, n| cx.un("atanh", &n.input(0)?)),
    one("BitwiseNot", 18, |cx, n| cx.un("bitwise_not", &n.input(0)?)),
    one("Ceil", 7, |cx, n| cx.un("ceil", &n.input(0)?)),
    one("Cos", 7, |cx, n| cx.un("cos", &n.input(0)?)),
    one("Cosh", 7, |cx, n| cx.un("cosh", &n.input(0)?)),
    one("Erf", 7, |cx, n| cx.un("erf", &n.input(0)?)),
    one("Exp", 7, |cx, n| cx.un("exp", &n.input(0)?)),
    one("Floor", 7, |cx, n| cx.un("floor", &n.input(0)?)),
    one("IsNaN", 7, |cx, n| cx.un("isnan", &n.input(0)?)),
    one("Log", 7, |cx, n| cx.un("log", &n.input(0)?)),
    one("Neg", 7, |cx, n| cx.un("negative", &n.input(0)?)),
    one("Not", 7, |cx, n| cx.un("logical_not", &n.input(0)?)),
    one("Relu", 7, |cx, n| cx.un("nn.relu", &n.input(0)?)),
    one("Round", 7, |cx, n| cx.un("round", &n.input(0)?)),
    one("Sigmoid", 7, |cx, n| cx.un("sigmoid", &n.input(0)?)),
    one("Sign", 7, |cx, n| {
        let x = n.input(0)?;
        let sign = cx.un("sign", &x)?;
        keep_nan(cx, &x, &cx.scalar(0.0, x.dtype())?, sign)
    }),
    one("Sin", 7, |cx, n| cx.un("sin", &n.input(0)?)),
    one("Sinh", 7, |cx, n| cx.un("sinh", &n.input(0)?)),
    one("Sqrt", 7, |cx, n| cx.un("sqrt", &n.input(0)?)),
    one("Tan", 7, |cx, n| cx.un("tan", &n.input(0)?)),
    one("Tanh", 7, |cx, n| cx.un("tanh", &n.input(0)?)),
    one("Add", 7, |cx, n| cx.add(&n.input(0)?, &n.input(1)?)),
    one("Sub", 7, |cx, n| cx.sub(&n.input(0)?, &n.input(1)?)),
    one("Mul", 7, |cx, n| cx.mul(&n.input(0)?, &n.input(1)?)),
    one("Div", 7, |cx, n| quotient(cx, &n.input(0)?, &n.input(1)?)),
    one("Mod", 7, remainder),
    one("Pow", 7, power),
    one("And", 7, |cx, n| cx.bin("logical_and", &n.input(0)?, &n.input(1)?)),
    one("Or", 7, |cx, n| cx.bin("logical_or", &n.input(0)?, &n.input(1)?)),
    one("Xor", 7, |cx, n| cx.bin("logical_xor", &n.input(0)?, &n.input(1)?)),
    one("BitwiseAnd", 18, |cx, n| cx.bin("bitwise_and", &n.input(0)?, &n.input(1)?)),
    one("BitwiseOr", 18, |cx, n| cx.bin("bitwise_or", &n.input(0)?, &n.input(1)?)),
    one("BitwiseXor", 18, |cx, n| cx.bin("bitwise_xor", &n.input(0)?, &n.input(1)?)),
    one("BitShift", 7, bit_shift),
    one("Equal", 7, |cx, n| cx.bin("equal", &n.input(0)?, &n.input(1)?)),
    one("Less", 7, |cx, n| cx.bin("less", &n.input(0)?, &n.input(1)?)),
    one("LessOrEqual", 7, |cx, n| cx.bin("less_equal", &n.input(0)?, &n.input(1)?)),
    one("Greater", 7, |cx, n| cx.bin("greater", &n.input(0)?, &n.input(1)?)),
    one("GreaterOrEqual", 7, |cx, n| cx.bin("greater_equal", &n.input(0)?, &n.input(1)?)),
    one("Max", 7, |cx, n| folded(cx, n, extreme_max)),
    one("Min", 7, |cx, n| folded(cx, n, extreme_min)),
    one("Sum", 7, |cx, n| folded(cx, n, |cx, a, b| cx.add(a, b))),
    one("Mean", 7, |cx, n| {
        let sum = folded(cx, n, |cx, a, b| cx.add(a, b))?;
        cx.div(&sum, &cx.scalar(n.n_inputs() as f64, sum.dtype())?)
    }),
    one("Where", 7, |cx, n| cx.select(&n.input(0)?, &n.input(1)?, &n.input(2)?)),
    all("Identity", 7, |_, n| Ok(vec![n.item(0).ok_or("its input is missing")?])).moving(),
    one("Reciprocal", 7, |cx, n| {
        let x = n.input(0)?;
        cx.div(&cx.scalar(1.0, x.dtype())?, &x)
    }),
    one("IsInf", 7, is_infinite),
    one("Cast", 7, |cx, n| {
        let to = n.dtype("to")?.ok_or("its attribute `to` is missing")?;
        converted(cx, n, to)
    })
    .converting(),
    one("CastLike", 15, |cx, n| {
        let to = n.input(1)?.logical();
        converted(cx, n, to)
    })
    .converting(),
    one("Clip", 7, clip),
    one("Elu", 7, |cx, n| {
        let x = n.input(0)?;
        exponential(cx, &x, n.float("alpha", 1.0)?, 1.0, 1.0)
    }),
    one("Celu", 12, |cx, n| {
        let x = n.input(0)?;
        let alpha = n.float("alpha", 1.0)?;
        exponential(cx, &x, alpha, 1.0, alpha)
    }),
    one("Selu", 7, |cx, n| {
        let (alpha, gamma) = (n.float("alpha", 1.673_263_2)?, n.float("gamma", 1.050_701)?);
        exponential(cx, &n.input(0)?, alpha, gamma, 1.0)
    }),
    one("LeakyRelu", 7, |cx, n| {
        let alpha = n.float("alpha", 0.01)?;
        cx.call("relax.nn.leakyrelu", &[&n.input(0)?], &[("alpha", alpha.into())])
    }),
    one("ThresholdedRelu", 7, |cx, n| {
        let x = n.input(0)?;
        let passes = cx.bin("greater", &x, &cx.scalar(n.float("alpha", 1.0)?, x.dtype())?)?;
        cx.select(&passes, &x, &cx.scalar(0.0, x.dtype())?)
    }),
    one("PRelu", 7, |cx, n| {
        let (x, slope) = (n.input(0)?, n.input(1)?);
        let scaled = cx.mul(&x, &slope)?;
        let below = cx.bin("less", &x, &cx.scalar(0.0, x.dtype())?)?;
        cx.select(&below, &scaled, &x)
    }),
    one("Shrink", 9, shrink),
    one("HardSigmoid", 7, |cx, n| {
        let (alpha, beta) = (n.float("alpha", 0.2)?, n.float("beta", 0.5)?);
        hard_sigmoid(cx, &n.input(0)?, alpha, beta)
    }),
    one("HardSwish", 14, |cx, n| {
        let x = n.input(0)?;
        let gate = hard_sigmoid(cx, &x, 1.0 / 6.0, 0.5)?;
        cx.mul(&x, &gate)
    }),
    one("Softsign", 7, |cx, n| {
        let x = n.input(0)?;
        let below = cx.add_s(&cx.un("abs", &x)?, 1.0)?;
        cx.div(&x, &below)
    }),
    one("Softplus", 7, |cx, n| softplus(cx, &n.input(0)?)),
    one("Mish", 18, |cx, n| {
        let x = n.input(0)?;
        let gate = cx.un("tanh", &softplus(cx, &x)?)?;
        cx.mul(&x, &gate)
    }),
    one("Gelu", 20, |cx, n| match n.text("approximate", "none")? {
        "none" => cx.un("nn.gelu", &n.input(0)?),
        "tanh" => cx.un("nn.gelu_tanh", &n.input(0)?),
        other => Err(format!("its attribute `approximate` is `{other}`; it must be `none` or `tanh`")),
    }),
    one("Swish", 24, |cx, n| {
        let x = n.input(0)?;
        swish(cx, &x, n.float("alpha", 1.0)?)
    }),
    one("SwiGLU", 28, |cx, n| {
        let gate = swish(cx, &n.input(0)?, n.float("alpha", 1.0)?)?;
        cx.mul(&gate, &n.input(1)?)
    }),
    all("Dropout", 7, dropout),
    ms(one("Gelu", 1, |cx, n| cx.un("nn.gelu", &n.input(0)?))),
    ms(one("QuickGelu", 1, |cx, n| {
        let x = n.input(0)?;
        swish(cx, &x, n.float("alpha", 1.702)?)
    })),
    ms(one("FastGelu", 1, |cx, n| {
        let x = n.input(0)?;
        let x = if let Some(bias) = n.opt(1)? { cx.add(&x, &bias)? } else { x };
        cx.un("nn.gelu_tanh", &x)
    })),
    ms(one("BiasGelu", 1, |cx, n| {
        let x = cx.add(&n.input(0)?, &n.input(1)?)?;
        cx.un("nn.gelu", &x)
    })),
];

/// Combines all inputs from left to right.
fn folded<'a>(cx: &Cx<'a>, n: &Node<'a>, f: fn(&Emitter<'_>, &T, &T) -> Res<T>) -> Res<T> {
    let inputs = n.all()?;
    let (first, rest) = inputs.split_first().ok_or("it needs at least one input")?;
    rest.iter().try_fold(first.clone(), |all, next| f(cx, &all, next))
}

fn remainder<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (a, b) = (n.input(0)?, n.input(1)?);
    let cuts = n.flag("fmod", false)?;
    if cuts { cx.bin("mod", &a, &b) } else { floor_remainder(cx, &a, &b) }
}

fn power<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (base, exponent) = (n.input(0)?, n.input(1)?);
    if base.dtype() == exponent.dtype() {
        return cx.bin("power", &base, &exponent);
    }
    if base.is_float() || !exponent.is_float() {
        let exponent = cx.cast(&exponent, base.dtype())?;
        return cx.bin("power", &base, &exponent);
    }
    let wide = cx.bin("power", &cx.cast(&base, DType::F64)?, &cx.cast(&exponent, DType::F64)?)?;
    cx.cast(&wide, base.dtype())
}

fn bit_shift<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, by) = (n.input(0)?, n.input(1)?);
    let op = match n.text("direction", "")? {
        "LEFT" => "left_shift",
        "RIGHT" => "right_shift",
        other => return Err(format!("its attribute `direction` is `{other}`; it must be `LEFT` or `RIGHT`")),
    };
    // A shift by a negative number, or by at least the width, moves all bits out.
    let bits = f64::from(x.dtype().bits());
    let mut fits = cx.bin("less", &by, &cx.scalar(bits, by.dtype())?)?;
    if by.dtype().code() == 0 {
        fits = cx.bin("logical_and", &fits, &cx.bin("greater_equal", &by, &cx.scalar(0.0, by.dtype())?)?)?;
    }
    let most = cx.select(&fits, &by, &cx.scalar(bits - 1.0, by.dtype())?)?;
    let shifted = cx.bin(op, &x, &most)?;
    if op == "right_shift" && x.dtype().code() == 0 {
        return Ok(shifted);
    }
    cx.select(&fits, &shifted, &cx.scalar(0.0, x.dtype())?)
}

fn is_infinite<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let (below, above) = (n.flag("detect_negative", true)?, n.flag("detect_positive", true)?);
    if below && above {
        return cx.un("isinf", &x);
    }
    let sign = if above { "greater" } else { "less" };
    let infinite = cx.un("isinf", &x)?;
    let signed = cx.bin(sign, &x, &cx.scalar(0.0, x.dtype())?)?;
    match below || above {
        true => cx.bin("logical_and", &infinite, &signed),
        false => cx.bin("logical_and", &infinite, &cx.un("logical_not", &infinite)?),
    }
}

/// Converts to a data type in the same way as ONNX.
fn converted<'a>(cx: &Cx<'a>, n: &Node<'a>, to: DType) -> Res<T> {
    let x = n.input(0)?;
    let saturates = n.flag("saturate", true)?;
    if to.code() == 14 && n.text("round_mode", "up")? != "up" {
        return Err("only the value `up` of its attribute `round_mode` is supported".to_string());
    }
    n.ignore(&["round_mode"]);
    if x.logical() == to {
        return Ok(x);
    }
    if narrow::storage(to).is_some() {
        let wide = if x.narrow().is_some() { narrow::widened(cx, &x, DType::F32)? } else { x };
        return narrow::narrowed(cx, &wide, to, saturates);
    }
    if x.narrow().is_some() {
        return narrow::widened(cx, &x, to);
    }
    match (to, x.is_float()) {
        (DType::BOOL, true) => cx.bin("not_equal", &x, &cx.scalar(0.0, x.dtype())?),
        _ => cx.cast(&x, to),
    }
}

fn clip<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let (least, most) = match n.version < 11 {
        true => (n.float_if("min")?, n.float_if("max")?),
        false => {
            let known = |at: usize| -> Res<Option<f64>> {
                Ok(n.opt(at)?.and_then(|t| t.floats()).and_then(|v| v.first().copied()))
            };
            let unknown = n.opt(1)?.is_some() != known(1)?.is_some() || n.opt(2)?.is_some() != known(2)?.is_some();
            // Integers are clipped as integers, because floats cannot represent all 64-bit integers.
            if unknown || !x.is_float() {
                let limit = |at: usize| n.opt(at)?.map(|limit| cx.reshape(&limit, vec![])).transpose();
                let x = if let Some(least) = limit(1)? { extreme_max(cx, &x, &least)? } else { x };
                return if let Some(most) = limit(2)? { extreme_min(cx, &x, &most) } else { Ok(x) };
            }
            (known(1)?, known(2)?)
        }
    };
    match (least, most) {
        (Some(least), Some(most)) if least <= most && x.dtype() == DType::F32 => {
            let prim = |value: f64| cx.b.prim_value(Dim::float(value, DType::F32));
            let args = [cx.v(&x)?, prim(least), prim(most)];
            T::of_v(cx, cx.call_v("relax.clip", &args, &[])?)
        }
        _ => {
            let x = if let Some(least) = least { extreme_max(cx, &x, &cx.scalar(least, x.dtype())?)? } else { x };
            if let Some(most) = most { extreme_min(cx, &x, &cx.scalar(most, x.dtype())?) } else { Ok(x) }
        }
    }
}

fn shrink<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let (lambd, bias) = (n.float("lambd", 0.5)?, n.float("bias", 0.0)?);
    let wide = if x.is_float() { x.clone() } else { cx.cast(&x, DType::F64)? };
    let of = |value: f64| cx.scalar(value, wide.dtype());
    let (below, above) = (cx.bin("less", &wide, &of(-lambd)?)?, cx.bin("greater", &wide, &of(lambd)?)?);
    let inner = cx.select(&above, &cx.add_s(&wide, -bias)?, &of(0.0)?)?;
    let result = cx.select(&below, &cx.add_s(&wide, bias)?, &inner)?;
    cx.cast(&result, x.dtype())
}

/// Reads Dropout, which has an effect only in training.
fn dropout<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    n.ignore(&["seed", "ratio"]);
    let ratio = match n.opt(1)? {
        Some(ratio) => ratio.floats().and_then(|v| v.first().copied()),
        None => Some(0.5),
    };
    let trains = match n.opt(2)? {
        None => false,
        Some(flag) => flag.ints().is_none_or(|flag| flag.first() != Some(&0)),
    };
    if trains && ratio != Some(0.0) {
        return Err("training mode is not supported, because its results are random; export the model for inference"
            .to_string());
    }
    let mut results = vec![x.clone().into()];
    if n.wants(1) {
        let dtype = if n.version < 10 { x.dtype() } else { DType::BOOL };
        // Earlier versions do not specify the mask; onnxruntime returns zeros.
        let kept = if n.version < 12 { 0.0 } else { 1.0 };
        results.push(cx.filled(kept, dtype, &x.dims()?)?.into());
    }
    Ok(results)
}
