//! The same module in float64, so that a more accurate result is not blamed.

use super::compare::{Allowed, is_nearer};
use super::sides::execute;
use super::steps::ValidatedStep;
use super::units::Unit;
use crate::engine::Engine;
use plugin_api::ir::constant::{Element, Number};
use plugin_api::prelude::{DType, Module};
use runtime::vm::{Kernels, Scalar, Value};
use runtime::{Limits, Tensor};
use std::sync::Arc;

/// Whether what the module before the pass computes in float64 is nearer to the values after the pass than to those before
/// it.
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

/// A module that computes all floats in float64; `None` if there is none.
fn in_float64(module: &Module) -> Option<Module> {
    let wide = |dtype: DType| if dtype.is_float() { DType::new(2, 64, dtype.lanes()) } else { dtype };
    let body = |_: &str, body: &plugin_api::prelude::Body| body.with_dtypes(&wide);
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
