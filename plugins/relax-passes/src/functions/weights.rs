//! Determines which parameters of a function are weights.

use plugin_api::prelude::*;

/// Returns the parameters whose values are known before the function runs: the parameters after the first
/// `num_input`, if the function has that attribute.
pub(crate) fn weight_params(body: &Body) -> ValueSet<'_> {
    let mut weights = ValueSet::new(body);
    let inputs = body.root().attr("num_input").and_then(|n| usize::try_from(n.as_int()?).ok());
    if let (Some(inputs), Some(function)) = (inputs, body.function()) {
        weights.extend(function.params().skip(inputs));
    }
    weights
}
