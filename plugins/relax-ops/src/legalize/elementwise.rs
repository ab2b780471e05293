//! Elementwise operators.

use super::blocks::{divide, map, map2, math};
use super::{Known, Legal, Row, axis_of, cannot, float_attr, number_arg, result_shape};
use crate::declare::{int, out_dtype};
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr, TeOperand, TeTensor, greatest_value, least_value};
use plugin_api::typing::legalized::Legalized;

pub(super) const ROWS: &[Row] = &[
    ("relax.abs", |call| unary(call, "tir_abs", absolute)),
    ("relax.acos", of_one_float),
    ("relax.acosh", of_one_float),
    ("relax.asin", of_one_float),
    ("relax.asinh", of_one_float),
    ("relax.atan", of_one_float),
    ("relax.atanh", of_one_float),
    ("relax.ceil", |call| rounded(call, name_of(call))),
    ("relax.cos", of_one_float),
    ("relax.cosh", of_one_float),
    ("relax.erf", erf),
    ("relax.isfinite", |call| unary(call, "tir_isfinite", is_finite)),
    ("relax.isinf", |call| unary(call, "tir_isinf", is_infinite)),
    ("relax.bitwise_not", bitwise_not),
    ("relax.exp", of_one_float),
    ("relax.floor", |call| rounded(call, name_of(call))),
    ("relax.isnan", |call| unary(call, "tir_isnan", is_nan)),
    ("relax.log", of_one_float),
    ("relax.negative", negative),
    ("relax.round", |call| rounded(call, "nearbyint")),
    ("relax.rsqrt", of_one_float),
    ("relax.sigmoid", of_one_float),
    ("relax.sin", of_one_float),
    ("relax.sinh", of_one_float),
    ("relax.sqrt", of_one_float),
    ("relax.tan", of_one_float),
    ("relax.tanh", of_one_float),
    ("relax.trunc", |call| rounded(call, name_of(call))),
    ("relax.nn.relu", |call| unary(call, "relu", |x| x.max(0))),
    ("relax.nn.leakyrelu", leaky_relu),
    ("relax.nn.prelu", prelu),
    ("relax.nn.softplus", softplus),
    ("relax.nn.gelu", gelu),
    ("relax.nn.gelu_tanh", gelu_tanh),
    ("relax.nn.silu", silu),
    ("relax.nn.selu", selu),
    ("relax.clip", clip),
    ("relax.astype", astype),
    ("relax.square", |call| tagged_unary(call, "tir_square", "T_multiply", |x| x.clone() * x)),
    ("relax.sign", |call| tagged_unary(call, "tir_sign", "T_sign", sign)),
    ("relax.logical_not", |call| tagged_unary(call, "tir_logical_not", "T_logical_not", |x| x.negated())),
    ("relax.add", |call| binary(call, "add", |a, b| a + b)),
    ("relax.subtract", |call| binary(call, "subtract", |a, b| a - b)),
    ("relax.multiply", |call| binary(call, "multiply", |a, b| a * b)),
    ("relax.divide", |call| binary(call, "divide", divide)),
    ("relax.floor_divide", |call| binary(call, "floor_divide", floor_divide)),
    ("relax.mod", |call| binary(call, "mod", |a, b| a.trunc_mod(b))),
    ("relax.floor_mod", |call| binary(call, "floor_mod", floor_mod)),
    ("relax.power", power),
    ("relax.atan2", |call| binary(call, "atan2", |a, b| a.math_with("atan2", &[b]))),
    ("relax.maximum", |call| binary(call, "maximum", |a, b| a.max(b))),
    ("relax.minimum", |call| binary(call, "minimum", |a, b| a.min(b))),
    ("relax.log_add_exp", |call| binary(call, "log_add_exp", log_add_exp)),
    ("relax.bitwise_and", |call| binary(call, "bitwise_and", |a, b| a.bit_and(b))),
    ("relax.bitwise_or", |call| binary(call, "bitwise_or", |a, b| a.bit_or(b))),
    ("relax.bitwise_xor", |call| binary(call, "bitwise_xor", |a, b| a.bit_xor(b))),
    ("relax.left_shift", |call| binary(call, "left_shift", |a, b| a.shift_left(b))),
    ("relax.right_shift", |call| binary(call, "right_shift", |a, b| a.shift_right(b))),
    ("relax.logical_and", |call| binary(call, "logical_and", |a, b| a.and(b))),
    ("relax.logical_or", |call| binary(call, "logical_or", |a, b| a.or(b))),
    ("relax.logical_xor", |call| binary(call, "logical_xor", |a, b| a.bit_xor(b))),
    ("relax.equal", |call| binary(call, "equal", |a, b| a.eq(b))),
    ("relax.not_equal", |call| binary(call, "not_equal", |a, b| a.ne(b))),
    ("relax.less", |call| binary(call, "less", |a, b| a.lt(b))),
    ("relax.less_equal", |call| binary(call, "less_equal", |a, b| a.le(b))),
    ("relax.greater", |call| binary(call, "greater", |a, b| b.lt(a))),
    ("relax.greater_equal", |call| binary(call, "greater_equal", |a, b| b.le(a))),
    ("relax.where", select),
    ("relax.ewise_fma", multiply_add),
    ("relax.tril", |call| triangle(call, "tril", false)),
    ("relax.triu", |call| triangle(call, "triu", true)),
    ("relax.quantize", quantize),
    ("relax.dequantize", dequantize),
];

/// Computes a tensor from one operand, element by element.
fn unary(call: Call<'_>, name: &str, f: impl FnOnce(TeExpr) -> TeExpr) -> Legal {
    let te = Te::new(name, call);
    te.name_axes("i");
    let x = te.input(0)?;
    let out = map(&te, "compute", &x, f);
    te.finish(&[out])
}

/// Computes a tensor from one operand, in a block with its own name.
fn tagged_unary(call: Call<'_>, name: &str, block: &str, f: impl FnOnce(TeExpr) -> TeExpr) -> Legal {
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let out = map(&te, block, &x, f);
    te.finish(&[out])
}

/// Computes a tensor from two operands (tensors or numbers), with broadcasting.
fn binary(call: Call<'_>, name: &str, f: impl FnOnce(TeExpr, TeExpr) -> TeExpr) -> Legal {
    let te = Te::new(name, call);
    let (a, b) = (te.operand(0)?, te.operand(1)?);
    if matches!((&a, &b), (TeOperand::Number(_), TeOperand::Number(_))) {
        return cannot("both operands are numbers");
    }
    let shape = result_shape(call)?;
    let out = te.compute(&format!("T_{name}"), &shape, |i| f(a.broadcast_at(i, &shape), b.broadcast_at(i, &shape)));
    te.finish(&[out])
}

/// Returns the name of an operator without its dialect. For many functions, this is also the name of the intrinsic.
fn name_of(call: Call<'_>) -> &str {
    call.op().and_then(|op| op.strip_prefix("relax.")).unwrap_or_default()
}

/// Computes a tensor by the intrinsic with the name of the operator.
fn of_one_float(call: Call<'_>) -> Legal {
    let name = name_of(call);
    unary(call, &format!("tir_{name}"), |x| x.math(name))
}

/// Rounds floats to integers; other data types are left unchanged.
fn rounded(call: Call<'_>, intrinsic: &str) -> Legal {
    let round = |x: TeExpr| if x.dtype().is_float() { x.math(intrinsic) } else { x };
    unary(call, &format!("tir_{}", name_of(call)), round)
}

fn bitwise_not(call: Call<'_>) -> Legal {
    let name = name_of(call);
    tagged_unary(call, &format!("tir_{name}"), &format!("T_{name}"), |x| x.math(name))
}

fn absolute(x: TeExpr) -> TeExpr {
    if x.dtype().is_float() {
        return x.math("fabs");
    }
    if !is_signed(x.dtype()) {
        return x;
    }
    TeExpr::int(0, DType::I64).le(x.cast(DType::I64)).select(&x, TeExpr::int(0, x.dtype()) - &x)
}

/// Returns true if a data type has negative values.
fn is_signed(dtype: DType) -> bool {
    dtype.is_float() || dtype.code() == 0
}

fn negative(call: Call<'_>) -> Legal {
    match call.ty().dtype() {
        DType::BOOL => cannot("bools cannot be negated; use R.logical_not, or convert them with R.astype"),
        // TVM simplifies a difference of unsigned integers as if it were never negative, and simplifies `0 - x` to 0.
        dtype if !is_signed(dtype) => unary(call, "tir_negative", |x| x.math("bitwise_not") + 1),
        _ => unary(call, "tir_negative", |x| -x),
    }
}

/// Returns the constant result of a test on data types that are not floats.
fn truth(value: bool) -> TeExpr {
    TeExpr::int(value.into(), DType::BOOL)
}

fn is_nan(x: TeExpr) -> TeExpr {
    if x.dtype().is_float() { x.test("isnan") } else { truth(false) }
}

fn infinity(x: &TeExpr) -> TeExpr {
    TeExpr::float(f64::INFINITY, x.dtype())
}

fn is_infinite(x: TeExpr) -> TeExpr {
    if !x.dtype().is_float() {
        return truth(false);
    }
    x.math("fabs").eq(infinity(&x)).and(x.test("isnan").negated())
}

fn is_finite(x: TeExpr) -> TeExpr {
    if !x.dtype().is_float() {
        return truth(true);
    }
    x.math("fabs").ne(infinity(&x)).or(x.test("isnan")).and(x.test("isnan").negated())
}

/// Computes the error function; float16 is computed in single precision.
fn wide_erf(te: &Te<'_>, x: &TeTensor) -> TeTensor {
    if x.dtype() != DType::F16 {
        return math(te, x, "erf");
    }
    te.name_axes("i");
    let wide = map(te, "compute", x, |x| x.cast(DType::F32));
    let erf = map(te, "compute", &wide, |x| x.math("erf"));
    let out = map(te, "compute", &erf, |erf| erf.cast(x.dtype()));
    te.name_axes("ax");
    out
}

fn erf(call: Call<'_>) -> Legal {
    let te = Te::new("erf", call);
    let x = te.input(0)?;
    let out = wide_erf(&te, &x);
    te.finish(&[out])
}

fn sign(x: TeExpr) -> TeExpr {
    if x.dtype() == DType::BOOL {
        return x;
    }
    if !is_signed(x.dtype()) {
        return x.min(1);
    }
    let of = |value: i64| TeExpr::int(value, DType::I64).cast(x.dtype());
    let (number, zero) = match x.dtype().is_float() {
        true => (x.clone(), of(0)),
        false => (x.cast(DType::I64), TeExpr::int(0, DType::I64)),
    };
    zero.lt(&number).select(of(1), number.lt(&zero).select(of(-1), of(0)))
}

fn floor_divide(a: TeExpr, b: TeExpr) -> TeExpr {
    if a.dtype().is_float() { (a / b).math("floor") } else { a / b }
}

fn floor_mod(a: TeExpr, b: TeExpr) -> TeExpr {
    if a.dtype().is_float() { &a - (&a / &b).math("floor") * b } else { a % b }
}

/// Computes the logarithm of a sum of two powers of e. The greater operand is factored out to avoid overflow. Equal
/// operands, such as two infinities, are not subtracted.
fn log_add_exp(a: TeExpr, b: TeExpr) -> TeExpr {
    let apart = (&a - &b).math("fabs") * -1.0;
    let sum = a.max(&b) + apart.math("exp").math("log1p");
    a.eq(&b).select(&a + std::f64::consts::LN_2, sum)
}

/// Computes powers: floats by the TIR function, integers by repeated squaring.
fn power(call: Call<'_>) -> Legal {
    let dtype = call.ty().dtype();
    if dtype.is_float() {
        return binary(call, "power", |a, b| a.math_with("pow", &[b]));
    }
    if !dtype.is_int() {
        return cannot(format!("it is legalized for numbers, found {dtype}; convert the operands with R.astype"));
    }
    let te = Te::new("power", call);
    let (a, b) = (te.operand(0)?, te.operand(1)?);
    let shape = result_shape(call)?;
    let bit = te.reduce_axis("k", &Dim::Int(dtype.bits().into()));
    let one = || TeExpr::int(1, dtype);
    // For each bit of the exponent: the power so far, and the base raised to the value of the bit.
    let [power, _] = te.compute_pair("T_power", &shape, [one(), one()], &[&bit], |i, [power, square]| {
        let base = bit.eq(0).select(a.broadcast_at(i, &shape), &square * &square);
        let counts = b.broadcast_at(i, &shape).shift_right(bit.cast(dtype)).bit_and(1).eq(1);
        [counts.select(&power * &base, &power), base]
    });
    let out = te.compute("T_power", &shape, |i| {
        let (base, exponent, power) = (a.broadcast_at(i, &shape), b.broadcast_at(i, &shape), power.at(i));
        if !is_signed(dtype) {
            return power;
        }
        // The reciprocal of an integer, truncated, is nonzero for 1 and -1 only.
        let of_minus_one = exponent.bit_and(1).eq(1).select(-1, one());
        let fraction = base.eq(1).select(one(), base.eq(-1).select(of_minus_one, 0));
        exponent.lt(0).select(fraction, power)
    });
    te.finish(&[out])
}

/// Returns true if the element is greater than the 0 of its data type.
fn is_positive(x: &TeExpr) -> TeExpr {
    TeExpr::int(0, DType::I64).cast(x.dtype()).lt(x)
}

fn leaky_relu(call: Call<'_>) -> Legal {
    let alpha = float_attr(call, "alpha").unwrap_or(0.01);
    unary(call, "leaky_relu", |x| is_positive(&x).select(&x, &x * alpha))
}

fn prelu(call: Call<'_>) -> Legal {
    let te = Te::new("prelu", call);
    let (x, slope) = (te.input(0)?, te.input(1)?);
    let axis = axis_of(int(call, "axis").unwrap_or(1), x.ndim());
    let channels = &x.shape()[axis..=axis];
    let slopes = match slope.shape() == channels {
        true => slope,
        false => te.compute("slope_broadcasted", channels, |i| slope.broadcast_at(i, channels)),
    };
    te.name_axes("i");
    let out = te.compute("compute", x.shape(), |i| {
        let x = x.at(i);
        is_positive(&x).select(&x, &x * slopes.at([&i[axis]]))
    });
    te.finish(&[out])
}

fn softplus(call: Call<'_>) -> Legal {
    let (beta, threshold) = (float_attr(call, "beta").unwrap_or(1.0), float_attr(call, "threshold").unwrap_or(20.0));
    unary(call, "softplus", |x| {
        let scaled = beta * x.clone();
        let factor = TeExpr::float(1.0, x.dtype()) / beta;
        let smooth = factor * (1.0 + scaled.math("exp")).math("log");
        TeExpr::float(threshold, x.dtype()).lt(scaled).select(&x, smooth)
    })
}

fn gelu(call: Call<'_>) -> Legal {
    let te = Te::new("gelu", call);
    let x = te.input(0)?;
    let scaled = map(&te, "T_multiply", &x, |x| x * 0.5f64.sqrt());
    let erf = wide_erf(&te, &scaled);
    let half = map(&te, "T_multiply", &erf, |x| x * 0.5);
    let share = map(&te, "T_add", &half, |x| 0.5 + x);
    let out = map2(&te, "T_multiply", &x, &share, |x, share| x * share);
    te.finish(&[out])
}

fn gelu_tanh(call: Call<'_>) -> Legal {
    let te = Te::new("gelu_tanh", call);
    let x = te.input(0)?;
    let half = map(&te, "T_multiply", &x, |x| 0.5 * x);
    let scaled = map(&te, "T_multiply", &x, |x| std::f64::consts::FRAC_2_SQRT_PI * 0.5f64.sqrt() * x);
    let small = map(&te, "T_multiply", &x, |x| 0.044715 * x);
    let square = map2(&te, "T_multiply", &small, &x, |small, x| small * x);
    let factor = map(&te, "T_add", &square, |x| 1.0 + x);
    let inner = map2(&te, "T_multiply", &scaled, &factor, |a, b| a * b);
    te.name_axes("i");
    let tanh = map(&te, "compute", &inner, |x| x.math("tanh"));
    te.name_axes("ax");
    let share = map(&te, "T_add", &tanh, |x| 1.0 + x);
    let out = map2(&te, "T_multiply", &half, &share, |a, b| a * b);
    te.finish(&[out])
}

fn silu(call: Call<'_>) -> Legal {
    let te = Te::new("silu", call);
    te.name_axes("i");
    let x = te.input(0)?;
    let share = map(&te, "compute", &x, |x| x.math("sigmoid"));
    te.name_axes("ax");
    let out = map2(&te, "T_multiply", &x, &share, |x, share| x * share);
    te.finish(&[out])
}

/// Scale and alpha of the self-normalizing unit (Klambauer et al., 2017).
const SELU: (f64, f64) = (1.0507009873554805, 1.6732632423543772);

fn selu(call: Call<'_>) -> Legal {
    let te = Te::new("selu", call);
    let x = te.input(0)?;
    let above = map(&te, "T_maximum", &x, |x| x.max(0));
    te.name_axes("i");
    let exp = map(&te, "compute", &x, |x| x.math("exp"));
    te.name_axes("ax");
    let less = map(&te, "T_subtract", &exp, |x| x - 1.0);
    let bent = map(&te, "T_multiply", &less, |x| SELU.1 * x);
    let below = map(&te, "T_minimum", &bent, |x| TeExpr::float(0.0, x.dtype()).min(x));
    let sum = map2(&te, "T_add", &above, &below, |a, b| a + b);
    let out = map(&te, "T_multiply", &sum, |x| SELU.0 * x);
    te.finish(&[out])
}

fn clip(call: Call<'_>) -> Legal {
    let te = Te::new("tir_clip", call);
    te.name_axes("i");
    let x = te.input(0)?;
    let (TeOperand::Number(low), TeOperand::Number(high)) = (te.operand(1)?, te.operand(2)?) else {
        return cannot("the bounds are not numbers");
    };
    let bound = |i: usize, number: TeExpr| match number_arg(call, i).filter(|_| !x.dtype().is_float()) {
        Some(number) => TeExpr::int(nearest_integer(number, x.dtype()), x.dtype()),
        None => number.cast(x.dtype()),
    };
    let (low, high) = (bound(1, low), bound(2, high));
    let out = map(&te, "compute", &x, |x| x.min(high).max(low));
    te.finish(&[out])
}

/// Truncates a number and clamps it to an integer data type. Values of uint64 from 2^63 on wrap to negative.
fn nearest_integer(number: Known, dtype: DType) -> i64 {
    let number = match number {
        Known::Int(value) => value,
        Known::Float(value) => value as i128,
    };
    let bits = u32::from(dtype.bits().clamp(1, 64));
    match dtype.code() {
        0 => number.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1) as i64,
        1 => number.clamp(0, (1 << bits) - 1) as u64 as i64,
        _ => number.clamp(0, 1) as i64,
    }
}

fn astype(call: Call<'_>) -> Legal {
    let constant = call.arg(0).and_then(|x| x.as_constant()).filter(|constant| constant.shape().is_empty());
    if let Some(constant) = constant {
        let array = constant.to_array().cast(out_dtype(call, "dtype", constant.dtype()));
        return array.map_or_else(|why| cannot(why.to_string()), |array| Legalized::constant(&array));
    }
    let te = Te::new("cast", call);
    te.name_axes("i");
    let x = te.input(0)?;
    let dtype = out_dtype(call, "dtype", x.dtype());
    let out = map(&te, "compute", &x, |x| x.cast(dtype));
    te.finish(&[out])
}

fn select(call: Call<'_>) -> Legal {
    let te = Te::new("where", call);
    let (cond, a, b) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let shape = result_shape(call)?;
    let out = te.compute("T_where", &shape, |i| {
        let holds = TeExpr::int(0, DType::I64).lt(cond.broadcast_at(i, &shape).cast(DType::I64));
        holds.select(a.broadcast_at(i, &shape), b.broadcast_at(i, &shape))
    });
    te.finish(&[out])
}

/// Computes `a * b + c` with two roundings, as the separate operations would.
fn multiply_add(call: Call<'_>) -> Legal {
    let te = Te::new("ewise_fma", call);
    let (a, b, c) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let shape = result_shape(call)?;
    let at = |x: &TeTensor, i: &[TeExpr]| x.broadcast_at(i, &shape);
    let out = te.compute("T_ewise_fma", &shape, |i| at(&a, i) * at(&b, i) + at(&c, i));
    te.finish(&[out])
}

/// Computes `a <= b + k` without a subtraction.
fn at_most(a: TeExpr, b: TeExpr, k: i64) -> TeExpr {
    match k {
        0.. => a.le(b + k),
        -1 => a.lt(b),
        _ => (a - k).le(b),
    }
}

/// Keeps the elements from the k-th diagonal on, upwards or downwards, and sets the others to 0.
fn triangle(call: Call<'_>, name: &str, upper: bool) -> Legal {
    let te = Te::new(name, call);
    te.name_axes("i");
    let x = te.input(0)?;
    let TeOperand::Number(k) = te.operand(1)? else { return cannot("the diagonal is not a number") };
    let n @ 2.. = x.ndim() else { return cannot("it needs at least two dimensions") };
    let out = te.compute("trilu", x.shape(), |i| {
        let (row, column) = (i[n - 2].clone(), i[n - 1].clone());
        let kept = match (k.as_int(), upper) {
            (Some(k), false) => at_most(column, row, k),
            (Some(k), true) => at_most(row, column, k.saturating_neg()),
            (None, false) => (column - k.cast(DType::I64)).le(row),
            (None, true) => row.le(column - k.cast(DType::I64)),
        };
        kept.select(x.at(i), 0)
    });
    te.finish(&[out])
}

/// Returns the value of an operand that is a number or has one value per index of an axis.
fn along(operand: &TeOperand, x: &TeTensor, axis: usize, i: &[TeExpr]) -> TeExpr {
    operand.broadcast_at(&i[axis..=axis], &x.shape()[axis..=axis])
}

fn quantize(call: Call<'_>) -> Legal {
    let te = Te::new("quantize", call);
    te.name_axes("i");
    let (x, scale, zero) = (te.input(0)?, te.operand(1)?, te.operand(2)?);
    let axis = axis_of(int(call, "axis").unwrap_or(-1), x.ndim());
    let to = out_dtype(call, "out_dtype", DType::I8);
    let out = te.compute("quantized", x.shape(), |i| {
        let scaled = (x.at(i) / along(&scale, &x, axis, i)).math("round");
        let moved = scaled + along(&zero, &x, axis, i).cast(x.dtype());
        moved.min(greatest_value(to).cast(x.dtype())).max(least_value(to).cast(x.dtype())).cast(to)
    });
    te.finish(&[out])
}

fn dequantize(call: Call<'_>) -> Legal {
    let te = Te::new("dequantize", call);
    te.name_axes("i");
    let (x, scale, zero) = (te.input(0)?, te.operand(1)?, te.operand(2)?);
    let axis = axis_of(int(call, "axis").unwrap_or(-1), x.ndim());
    let to = out_dtype(call, "out_dtype", DType::F32);
    let exact = if x.dtype().is_float() { DType::F32 } else { DType::I32 };
    let out = te.compute("dequantized", x.shape(), |i| {
        let moved = x.at(i).cast(exact) - along(&zero, &x, axis, i).cast(exact);
        let out = moved.cast(DType::F32) * along(&scale, &x, axis, i).cast(DType::F32);
        match to {
            DType::F32 | DType::F64 => out.cast(to),
            _ => out.min(greatest_value(to).cast(DType::F32)).max(least_value(to).cast(DType::F32)).cast(to),
        }
    });
    te.finish(&[out])
}
