//! Modules as for inference, or as for training: some operators, such as `relax.nn.batch_norm`, compute something else while a
//! model is trained, and a pass may turn one into the other. Their attribute `training` says which it is.

use super::steps::ValidatedStep;
use crate::engine::Engine;
use plugin_api::PassError;
use plugin_api::metadata::Tolerance;
use plugin_api::prelude::{Attr, AttrView, Body, Module, Value};

const TRAINING: &str = "training";

/// The pass with both modules as its contract means them; `None` if it means them as they are.
///
/// # Errors
/// If a function does not hold together.
pub(super) fn of(engine: &Engine, step: &ValidatedStep) -> Result<Option<ValidatedStep>, PassError> {
    let training = match step.tolerance {
        Tolerance::Inference { .. } => false,
        Tolerance::Training { .. } => true,
        _ => return Ok(None),
    };
    let can_train = |name: &str| {
        let operator = engine.registry().operator(name);
        operator.is_some_and(|(operator, ..)| operator.attrs.iter().any(|attr| attr.name == TRAINING))
    };
    let in_mode = |module: &Module| in_mode(module, training, &can_train);
    let (before, after) = (in_mode(&step.before)?, in_mode(&step.after)?);
    Ok(Some(ValidatedStep { before, after, ..step.clone() }))
}

fn in_mode(module: &Module, training: bool, can_train: &dyn Fn(&str) -> bool) -> Result<Module, PassError> {
    module.map_functions(|_, body| {
        let is_other = |value: &Value<'_>| {
            let call = value.as_call().filter(|call| call.op().is_some_and(can_train));
            call.is_some_and(|call| call.attr(TRAINING).and_then(AttrView::as_bool) != Some(training))
        };
        let others: Vec<Value<'_>> = body.values().filter(is_other).collect();
        if others.is_empty() {
            return Ok::<Body, PassError>(body.clone());
        }
        let mut edit = body.edit();
        others.into_iter().for_each(|value| edit.set_attr(value, TRAINING, Attr::Bool(training)));
        Ok(edit.finish()?)
    })
}
