//! Which passes are enabled.

use super::{DEFAULT_OPT_LEVEL, PlanError, Request, Selection, Skip};
use crate::registry::{Registry, RegistryError};
use plugin_api::names::nearest;
use std::collections::{BTreeMap, BTreeSet};

/// Who listed a pass.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) name: String,
    pub(super) is_top: bool,
}

/// The lists of all levels by full name, a higher level cancels what lower ones say of the same pass.
pub(super) struct Enabled {
    pub(super) tvm_compat: bool,
    pub(super) opt_level: i32,
    pub(super) disabled: BTreeMap<String, Level>,
    pub(super) required: BTreeMap<String, Level>,
    /// Names of Sequentials, which the lists can have like those of passes.
    pub(super) sequentials: BTreeSet<String>,
}

impl Enabled {
    /// # Errors
    /// All that is wrong in the lists.
    pub(super) fn new(request: &Request, registry: &Registry) -> Result<Enabled, Vec<PlanError>> {
        let opt_level = request.selections.iter().find_map(|selection| selection.opt_level);
        let mut enabled = Enabled {
            tvm_compat: request.tvm_compat,
            opt_level: opt_level.unwrap_or(DEFAULT_OPT_LEVEL),
            disabled: BTreeMap::new(),
            required: BTreeMap::new(),
            sequentials: &request.sequentials | &request.pipeline.sequentials(),
        };
        let mut errors = Vec::new();
        for (i, selection) in request.selections.iter().enumerate() {
            enabled.add(selection, i == 0, registry, &mut errors);
        }
        if errors.is_empty() { Ok(enabled) } else { Err(errors) }
    }

    fn add(&mut self, selection: &Selection, is_top: bool, registry: &Registry, errors: &mut Vec<PlanError>) {
        let level = Level { name: selection.source.clone(), is_top };
        let find = |list: &'static str, name: &String| {
            // In a run as TVM does it, names are compared as they are, those of Sequentials too.
            if self.tvm_compat || self.sequentials.contains(name) {
                return Ok(name.clone());
            }
            let error = |error| {
                let error = with_sequentials(error, &self.sequentials);
                PlanError::ListedName { list, level: level.name.clone(), error }
            };
            registry.find(name).map(|pass| registry.pass(pass).name.clone()).map_err(error)
        };
        let mut resolve = |list: &'static str, names: &[String]| -> BTreeSet<String> {
            let found = names.iter().map(|name| find(list, name));
            found.filter_map(|found| found.map_err(|error| errors.push(error)).ok()).collect()
        };
        let disabled = resolve("disabled", &selection.disabled);
        let required = resolve("required", &selection.required);
        if !self.tvm_compat {
            let both = disabled.intersection(&required);
            let clash =
                |name: &String| PlanError::RequiredAndDisabled { name: name.clone(), level: level.name.clone() };
            errors.extend(both.map(clash));
        }
        let known: BTreeSet<String> = self.disabled.keys().chain(self.required.keys()).cloned().collect();
        let fresh = |names: BTreeSet<String>| names.into_iter().filter(|name| !known.contains(name));
        self.disabled.extend(fresh(disabled).map(|name| (name, level.clone())));
        self.required.extend(fresh(required).map(|name| (name, level.clone())));
    }

    /// TVM's rule: disabled, then required, then the opt_level.
    pub(super) fn skip(&self, name: &str, opt_level: i32) -> Option<Skip> {
        if let Some(level) = self.disabled.get(name) {
            return Some(Skip::Disabled(level.name.clone()));
        }
        if self.required.contains_key(name) || self.opt_level >= opt_level {
            return None;
        }
        Some(Skip::OptLevel { level: opt_level, context: self.opt_level })
    }
}

/// An error about a name, which may be meant for that of a Sequential.
fn with_sequentials(error: RegistryError, sequentials: &BTreeSet<String>) -> RegistryError {
    match error {
        RegistryError::UnknownPass { name, near } => {
            let known = sequentials.iter().map(String::as_str).chain(near.iter().map(String::as_str));
            let near = nearest(&name, known);
            RegistryError::UnknownPass { name, near }
        }
        other => other,
    }
}
