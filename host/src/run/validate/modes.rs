//! Converts modules to inference or training mode. Some operators, such as `relax.nn.batch_norm`, compute a different result during
//! training, and a pass may convert one form to the other. Their attribute `training` selects the mode.

use super::coverage::Mode;
use super::steps::ValidatedStep;
use crate::engine::Engine;
use passhost_lang::PassError;
use passhost_lang::ir::{Attr, AttrView, Body, Module, Value};
use passhost_lang::metadata::Tolerance;

const TRAINING: &str = "training";

/// Returns the step with both modules in the mode of its contract, and the mode of the calls changed in the module before the pass; `None` if
/// the contract does not name a mode.
///
/// # Errors
/// If a function becomes ill-formed.
pub(super) fn of(engine: &Engine, step: &ValidatedStep) -> Result<Option<(ValidatedStep, Option<Mode>)>, PassError> {
    let training = match step.tolerance {
        Tolerance::Inference { .. } => false,
        Tolerance::Training { .. } => true,
        _ => return Ok(None),
    };
    let can_train = |name: &str| {
        let operator = engine.registry().operator(name);
        operator.is_some_and(|(operator, ..)| operator.attrs.iter().any(|attr| attr.name == TRAINING))
    };
    let others = |body: &Body| body.values().filter(|value| is_other(value, training, &can_train)).count();
    let calls: usize = step.before.functions().map(|(_, body)| others(body)).sum();
    let of = if training { "training" } else { "inference" };
    let mode = (calls > 0).then_some(Mode { of, calls });
    let in_mode = |module: &Module| in_mode(module, training, &can_train);
    let (before, after) = (in_mode(&step.before)?, in_mode(&step.after)?);
    Ok(Some((ValidatedStep { before, after, ..step.clone() }, mode)))
}

/// Returns true if a call computes its result as in the other mode.
fn is_other(value: &Value<'_>, training: bool, can_train: &dyn Fn(&str) -> bool) -> bool {
    let call = value.as_call().filter(|call| call.op().is_some_and(can_train));
    call.is_some_and(|call| call.attr(TRAINING).and_then(AttrView::as_bool) != Some(training))
}

fn in_mode(module: &Module, training: bool, can_train: &dyn Fn(&str) -> bool) -> Result<Module, PassError> {
    module.map_functions(|_, body| {
        let others: Vec<Value<'_>> = body.values().filter(|value| is_other(value, training, can_train)).collect();
        if others.is_empty() {
            return Ok::<Body, PassError>(body.clone());
        }
        let mut edit = body.edit();
        others.into_iter().for_each(|value| edit.set_attr(value, TRAINING, Attr::Bool(training)));
        Ok(edit.finish()?)
    })
}
