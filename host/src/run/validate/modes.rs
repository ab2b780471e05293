//! Modules as for inference, or as for training: some operators, such as `relax.nn.batch_norm`, compute something else while a
//! model is trained, and a pass may turn one into the other. Their attribute `training` says which it is.

use super::coverage::Mode;
use super::steps::ValidatedStep;
use crate::engine::Engine;
use passhost_lang::PassError;
use passhost_lang::ir::{Attr, AttrView, Body, Module, Value};
use passhost_lang::metadata::Tolerance;

const TRAINING: &str = "training";

/// The pass with both modules as its contract means them, and what was changed for that in the module before it; `None` if
/// it means them as they are.
///
/// # Errors
/// If a function does not hold together.
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

/// Whether a call computes as in the other mode.
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
