//! Operators that create tensors, and operators that become runtime calls.

use super::blocks::{map, math};
use super::{Legal, Row, cannot, int_arg, result_shape};
use crate::declare::out_dtype;
use plugin_api::arith::product;
use plugin_api::ir::constant::Array;
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::te::{Te, TeExpr, TeOperand};
use plugin_api::typing::legalized::Legalized;

pub(super) const ROWS: &[Row] = &[
    ("relax.full", |call| full(call, "full", Value::Operand(1))),
    ("relax.full_like", |call| full(call, "full", Value::Operand(1))),
    ("relax.ones", |call| full(call, "ones", Value::Number(1))),
    ("relax.ones_like", |call| full(call, "ones", Value::Number(1))),
    ("relax.zeros", |call| full(call, "zeros", Value::Number(0))),
    ("relax.zeros_like", |call| full(call, "zeros", Value::Number(0))),
    ("relax.eye", |call| eye(call, "eye", 2)),
    ("relax.eye_like", |call| eye(call, "eye_like", 1)),
    ("relax.arange", arange),
    ("relax.hamming_window", hamming_window),
    ("relax.size", size),
    ("relax.shape_to_tensor", shape_to_tensor),
    ("relax.assert_op", |call| packed(call, "relax.run.assert_op")),
    ("relax.print", |call| packed(call, "relax.run.print")),
    ("relax.unique", |call| packed(call, "relax.run.unique")),
    ("relax.nonzero", |call| packed(call, "relax.run.nonzero")),
    ("relax.grad.no_grad", same),
    ("relax.grad.start_checkpoint", same),
    ("relax.grad.end_checkpoint", same),
];

/// The value of all elements.
enum Value {
    Operand(usize),
    Number(i64),
}

fn full(call: Call<'_>, name: &str, value: Value) -> Legal {
    let te = Te::new(name, call);
    let value = match value {
        Value::Number(number) => TeOperand::Number(TeExpr::int(number, DType::I64)),
        Value::Operand(i) => te.operand(i)?,
    };
    let dtype = call.ty().dtype();
    let out = te.compute("T_full", &result_shape(call)?, |_| value.broadcast_at(&[], &[]).cast(dtype));
    te.finish(&[out])
}

/// Computes ones where the column is `row + k`, and zeros elsewhere. `k` is the argument at `at`.
fn eye(call: Call<'_>, name: &str, at: usize) -> Legal {
    let te = Te::new(name, call);
    let k = match call.arg(at) {
        None => 0,
        Some(_) => match te.operand(at)? {
            TeOperand::Number(k) => match k.as_int() {
                Some(k) => k,
                None => return cannot("the diagonal is not constant"),
            },
            TeOperand::Tensor(_) => return cannot("the diagonal is not a number"),
        },
    };
    let dtype = call.ty().dtype();
    let of = |value: i64| TeExpr::int(value, DType::I64).cast(dtype);
    let out = te.compute("eye", &result_shape(call)?, |i| i[0].eq(&i[1] - k).if_then_else(of(1), of(0)));
    te.finish(&[out])
}

/// The maximum length of an `arange` that becomes a constant; the elements of a longer one are computed.
const MOST_NUMBERS: i64 = 1 << 20;

/// Returns a constant if start, step and length are known; otherwise computes each element from its index.
fn arange(call: Call<'_>) -> Legal {
    let dtype = out_dtype(call, "dtype", DType::I64);
    let shape = result_shape(call)?;
    let count = shape.first().and_then(Dim::as_int).filter(|count| *count <= MOST_NUMBERS);
    let (Some(count), Some(start), Some(step)) = (count, int_arg(call, 0), int_arg(call, 2)) else {
        return computed_arange(call, dtype, &shape);
    };
    let is_exact = |number: &i64| match dtype.is_float() {
        true => number.unsigned_abs() <= 1 << 53,
        false => dtype.has_integer((*number).into()),
    };
    let number = |k: i64| start.checked_add(step.checked_mul(k)?).filter(is_exact);
    let Some(numbers) = (0..count).map(number).collect::<Option<Vec<i64>>>() else {
        return cannot(format!("{dtype} cannot represent all of its numbers"));
    };
    let array = match dtype.is_float() {
        true => Array::new(&[count], numbers.iter().map(|number| *number as f64)),
        false => Array::new(&[count], numbers),
    };
    match array.and_then(|array| array.cast(dtype)) {
        Ok(array) => Legalized::constant(&array),
        Err(why) => cannot(why.to_string()),
    }
}

/// Computes `start + index * step` in their common data type.
fn computed_arange(call: Call<'_>, dtype: DType, shape: &[Dim]) -> Legal {
    let te = Te::new("arange", call);
    let (TeOperand::Number(start), TeOperand::Number(step)) = (te.operand(0)?, te.operand(2)?) else {
        return cannot("start or step are not numbers");
    };
    if start.dtype() != step.dtype() || !(start.dtype() == DType::I64 || start.dtype().is_float()) {
        return cannot("start and step must both be 64-bit integers, or both be floats, unless the range is constant");
    }
    let out = te.compute("T_arange", shape, |i| (i[0].cast(step.dtype()) * step + start).cast(dtype));
    te.finish(&[out])
}

/// Returns the number of elements, computed from the shape.
fn size(call: Call<'_>) -> Legal {
    let shape = match call.arg(0).map(|x| x.ty().to_owned()) {
        Some(Type::Tensor(ty)) => ty.shape,
        _ => None,
    };
    let Some(shape) = shape else { return cannot("the shape of its argument is unknown") };
    let te = Te::new("size", call);
    let out = te.compute("size", &[], |_| TeExpr::of_dim(product(&shape)).cast(DType::I64));
    te.finish(&[out])
}

/// Writes the dimensions of a shape one by one. Dimensions that are unknown at compile time come from the runtime.
fn shape_to_tensor(call: Call<'_>) -> Legal {
    let dims = match call.arg(0).map(|shape| shape.ty().to_owned()) {
        Some(Type::Shape { dims: Some(dims), .. }) => dims,
        _ => return packed(call, "relax.run.shape_to_tensor"),
    };
    let te = Te::new("shape_to_tensor", call);
    te.name_axes("i");
    let out = te.compute("shape_to_tensor", &[Dim::Int(dims.len() as i64)], |i| {
        let number = |value| TeExpr::int(value, DType::I64);
        dims.iter().enumerate().rev().fold(number(0), |rest, (at, dim)| {
            i[0].eq(number(at as i64)).if_then_else(TeExpr::of_dim(dim.clone()).cast(DType::I64), rest)
        })
    });
    te.finish(&[out])
}

/// Computes `alpha - beta * cos(2 * pi * index / (size - 1))`. A periodic window is a window of size + 1 without its
/// last weight.
fn hamming_window(call: Call<'_>) -> Legal {
    let te = Te::new("hamming_window", call);
    let dtype = call.ty().dtype();
    let (TeOperand::Number(alpha), TeOperand::Number(beta)) = (te.operand(2)?, te.operand(3)?) else {
        return cannot("its coefficients are not numbers");
    };
    let shape = result_shape(call)?;
    let (Some(size), Some(periodic)) = (shape.first().and_then(Dim::as_int), int_arg(call, 1)) else {
        return cannot("its size is not constant");
    };
    if ![DType::F16, DType::F32].contains(&dtype) || alpha.dtype() != beta.dtype() || !alpha.dtype().is_float() {
        return cannot(
            "it is legalized for weights of float16 and float32, and for coefficients with the same data type",
        );
    }
    if size == 1 {
        te.name_axes("i");
        let one = te.compute("const_vector", &shape, |_| TeExpr::float(1.0, dtype));
        return te.finish(&[one]);
    }
    let last = if periodic == 0 { size - 1 } else { size };
    let index = te.compute("T_arange", &[Dim::Int(last + 1)], |i| i[0].cast(dtype));
    let of = |value: f64| TeExpr::float(value, DType::F32);
    let angle = map(&te, "T_multiply", &index, |index| of(std::f64::consts::TAU) * index.cast(DType::F32));
    let angle = map(&te, "T_divide", &angle, |angle| angle / of(last as f64));
    let wave = map(&te, "T_multiply", &math(&te, &angle, "cos"), |cosine| &beta * cosine.cast(beta.dtype()));
    let window = map(&te, "T_subtract", &wave, |wave| alpha - wave);
    te.name_axes("i");
    let mut out = map(&te, "compute", &window, |weight| weight.cast(dtype));
    te.name_axes("ax");
    if periodic != 0 {
        out = te.compute("T_strided_slice", &shape, |i| out.at(i));
    }
    te.finish(&[out])
}

fn packed(_: Call<'_>, name: &str) -> Legal {
    Legalized::packed(name)
}

/// Returns the argument itself.
fn same(call: Call<'_>) -> Legal {
    match call.arg(0) {
        Some(value) => Legalized::argument(value),
        None => cannot("its argument is missing"),
    }
}
