//! Runs the module in float64, so that a more accurate result is not reported as a fault.

use super::compare::{Allowed, agree_where_finite, is_nearer};
use super::sides::execute;
use super::steps::ValidatedStep;
use super::units::Unit;
use crate::engine::Engine;
use passhost_lang::ir::constant::{Element, Number};
use passhost_lang::ir::{DType, Module};
use runtime::vm::{Kernels, Scalar, Value};
use runtime::{Limits, Tensor};
use std::sync::Arc;

/// Returns true if the float64 results of the module before the pass are closer to the values after the pass than to those before it.
pub(super) fn explains(
    engine: &Engine,
    step: &ValidatedStep,
    unit: &Unit,
    args: &[Value],
    (before, after): (&Value, &Value),
    allowed: &Allowed,
    limits: &Limits,
) -> bool {
    let precise = || {
        let module = in_float64(&step.before)?;
        let args: Option<Vec<Value>> = args.iter().map(widened).collect();
        let kernels = Arc::new(Kernels::default());
        execute(engine, &module, unit, &args?, limits, &kernels, &mut ()).ok()
    };
    precise().is_some_and(|precise| is_nearer(before, after, &precise, allowed))
}

/// Returns true if both modules compute the same results when all floats are float64. The difference is then due to a type that
/// cannot hold a value, for example because a product overflows. The contract does not apply where the result before the pass is not
/// finite even in float64. Returns `None` if this cannot be determined.
pub(super) fn agree(
    engine: &Engine,
    step: &ValidatedStep,
    unit: &Unit,
    args: &[Value],
    allowed: &Allowed,
    limits: &Limits,
) -> Option<bool> {
    let args: Vec<Value> = args.iter().map(widened).collect::<Option<_>>()?;
    let kernels = Arc::new(Kernels::default());
    let of = |module: &Module| execute(engine, &in_float64(module)?, unit, &args, limits, &kernels, &mut ()).ok();
    Some(agree_where_finite(&of(&step.before)?, &of(&step.after)?, allowed))
}

/// Returns a module that computes all floats in float64, or `None` if that is not possible.
fn in_float64(module: &Module) -> Option<Module> {
    let wide = |dtype: DType| if dtype.is_float() { DType::new(2, 64, dtype.lanes()) } else { dtype };
    let body = |_: &str, body: &passhost_lang::ir::Body| body.with_dtypes(&wide);
    module.map_functions(body).ok()
}

fn widened(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Tensor(tensor) if tensor.dtype().is_float() => {
            let numbers = tensor.numbers().map(|number| Number::Float(f64::of(number)));
            Value::Tensor(Tensor::from_numbers(DType::F64, tensor.shape(), numbers).ok()?)
        }
        Value::Scalar(scalar) if scalar.dtype.is_float() => {
            Value::Scalar(Scalar { number: scalar.number, dtype: DType::F64 })
        }
        Value::Tuple(tuple) => {
            let fields: Option<Vec<Value>> = tuple.fields().iter().map(widened).collect();
            Value::tuple(fields?).ok()?
        }
        other => other.clone(),
    })
}
