//! The properties that passes claim, and the functions for which a checker confirmed them.

use passhost_lang::ir::{Body, Module};
use registry::PassId;
use std::collections::BTreeMap;

/// A pass, and the step that called it.
pub(super) type Claimant = (PassId, usize);

/// Claims by property. A claim about functions that the pass did not change is checked only when another pass relies on
/// it.
#[derive(Default)]
pub(super) struct Claims(BTreeMap<String, Claim>);

#[derive(Default)]
struct Claim {
    /// The pass that claimed the property for the whole module; `None` if a checker found it.
    by: Option<Claimant>,
    /// Functions that have the property, by name.
    confirmed: BTreeMap<String, Body>,
}

impl Claims {
    /// Records that a pass established a property. If the property already held, the earlier claim stays.
    pub(super) fn add(&mut self, property: &str, by: Claimant) {
        self.0.entry(property.to_string()).or_insert_with(|| Claim { by: Some(by), ..Claim::default() });
    }

    /// Drops the claims of properties that no longer hold.
    pub(super) fn retain(&mut self, holds: impl Fn(&str) -> bool) {
        self.0.retain(|property, _| holds(property));
    }

    /// Records that a checker confirmed a property for these functions.
    pub(super) fn confirm<'m>(&mut self, property: &str, functions: impl Iterator<Item = (&'m str, &'m Body)>) {
        let confirmed = &mut self.0.entry(property.to_string()).or_default().confirmed;
        confirmed.extend(functions.map(|(name, body)| (name.to_string(), body.clone())));
    }

    /// Returns the functions of a module for which no checker has confirmed the property.
    pub(super) fn open<'m>(&self, property: &str, module: &'m Module) -> Vec<(&'m str, &'m Body)> {
        let confirmed = self.0.get(property).map(|claim| &claim.confirmed);
        let is_open =
            |name: &str, body: &Body| !confirmed.is_some_and(|all| all.get(name).is_some_and(|it| it.same(body)));
        module.functions().filter(|(name, body)| is_open(name, body)).collect()
    }

    /// Returns the pass that claimed a property.
    pub(super) fn by(&self, property: &str) -> Option<Claimant> {
        self.0.get(property)?.by
    }
}
