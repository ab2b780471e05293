//! Modules whose functions have the names by which they are known outside of the module: a pass may give them these names.

use super::steps::ValidatedStep;

/// The pass over functions with these names; `None` if they have them already, cannot have them, or lose them in the pass.
pub(super) fn of(step: &ValidatedStep) -> Option<ValidatedStep> {
    let names = step.before.visible_names().ok()?;
    let public = |name: &str| step.before.get(name).is_some_and(|body| !body.is_private());
    if !names.iter().any(|(name, visible)| name != visible && public(name)) {
        return None;
    }
    let before = step.before.rename_functions(&names).ok()?;
    let after = step.after.rename_functions(&step.after.visible_names().ok()?).ok()?;
    let keeps_all = names.iter().all(|(name, visible)| !public(name) || after.get(visible).is_some());
    keeps_all.then(|| ValidatedStep { before, after, ..step.clone() })
}
