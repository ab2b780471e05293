//! Determines which passes are enabled.

use super::{Compat, DEFAULT_OPT_LEVEL, PlanError, Request, Selection, Skip};
use crate::pipeline::named_form;
use crate::registry::{Registry, RegistryError};
use passhost_lang::names::{few_suggestions, nearest};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The disabled and required passes of one level of precedence, by full name.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    name: String,
    opt_level: Option<i32>,
    disabled: BTreeSet<String>,
    required: BTreeSet<String>,
}

/// The levels, the highest first. The entries of a level override those of lower levels for the same pass.
#[derive(Clone, Debug)]
pub(super) struct Enabled {
    pub(super) compat: Compat,
    pub(super) opt_level: i32,
    levels: Vec<Rc<Level>>,
}

impl Enabled {
    /// # Errors
    /// All errors in the lists.
    pub(super) fn new(request: &Request, registry: &Registry) -> Result<Enabled, Vec<PlanError>> {
        let compat = Compat::of(request.tvm_compat);
        let sequentials = &request.sequentials | &request.pipeline.sequentials();
        let (mut levels, mut errors) = (Vec::new(), Vec::new());
        for selection in &request.selections {
            match Level::new(selection, &sequentials, compat, registry) {
                Ok(level) => levels.push(Rc::new(level)),
                Err(wrong) => errors.extend(wrong),
            }
        }
        if errors.is_empty() { Ok(Enabled::of(levels, compat)) } else { Err(errors) }
    }

    /// Combines levels, which are given highest first.
    pub(super) fn of(levels: Vec<Rc<Level>>, compat: Compat) -> Enabled {
        let opt_level = levels.iter().find_map(|level| level.opt_level).unwrap_or(DEFAULT_OPT_LEVEL);
        Enabled { compat, opt_level, levels }
    }

    /// Returns the level that disables a pass or Sequential.
    pub(super) fn disabled_by(&self, name: &str) -> Option<&str> {
        let level = self.levels.iter().find(|level| level.lists(name))?;
        level.disabled.contains(name).then_some(level.name.as_str())
    }

    fn requires(&self, name: &str) -> bool {
        self.levels.iter().find(|level| level.lists(name)).is_some_and(|level| level.required.contains(name))
    }

    /// Returns all names required to run.
    pub(super) fn required(&self) -> BTreeSet<String> {
        let names = self.levels.iter().flat_map(|level| &level.required);
        names.filter(|name| self.requires(name)).cloned().collect()
    }

    /// Returns the names that the highest level requires to run.
    pub(super) fn required_on_top(&self) -> impl Iterator<Item = &String> {
        self.levels.first().into_iter().flat_map(|level| &level.required)
    }

    /// Returns the reason to skip a pass by TVM's rule: disabled passes are skipped, required passes run, and the
    /// opt_level decides for all others.
    pub(super) fn skip(&self, name: &str, opt_level: i32) -> Option<Skip> {
        if let Some(level) = self.disabled_by(name) {
            return Some(Skip::Disabled(level.to_string()));
        }
        if self.opt_level >= opt_level || self.requires(name) {
            return None;
        }
        Some(Skip::OptLevel { level: opt_level, context: self.opt_level })
    }
}

impl Level {
    /// Looks up the names in the lists, which may include Sequentials.
    ///
    /// # Errors
    /// All errors in the lists.
    pub(super) fn new(
        selection: &Selection,
        sequentials: &BTreeSet<String>,
        compat: Compat,
        registry: &Registry,
    ) -> Result<Level, Vec<PlanError>> {
        let name = selection.source.clone();
        let mut errors = Vec::new();
        let find = |list: &'static str, wanted: &String| {
            if compat.takes_any_name() || sequentials.contains(wanted) {
                return Ok(wanted.clone());
            }
            let error = |error| {
                let level = name.clone();
                if let (RegistryError::UnknownPass { .. }, Some(form)) = (&error, named_form(wanted)) {
                    return PlanError::ListedForm { list, level, name: wanted.clone(), form };
                }
                PlanError::ListedName { list, level, error: with_sequentials(error, sequentials) }
            };
            registry.find(wanted).map(|pass| registry.pass(pass).name.clone()).map_err(error)
        };
        let mut resolve = |list: &'static str, names: &[String]| -> BTreeSet<String> {
            let found = names.iter().map(|name| find(list, name));
            found.filter_map(|found| found.map_err(|error| errors.push(error)).ok()).collect()
        };
        let (disabled, required) =
            few_suggestions(|| (resolve("disabled", &selection.disabled), resolve("required", &selection.required)));
        if compat.reports_clashes() {
            let clash = |both: &String| PlanError::RequiredAndDisabled { name: both.clone(), level: name.clone() };
            errors.extend(disabled.intersection(&required).map(clash));
        }
        let level = Level { name, opt_level: selection.opt_level, disabled, required };
        if errors.is_empty() { Ok(level) } else { Err(errors) }
    }

    /// Returns true if this level lists the pass or Sequential `name`.
    fn lists(&self, name: &str) -> bool {
        self.disabled.contains(name) || self.required.contains(name)
    }

    /// Returns true if this level lists any of `names`.
    pub(super) fn lists_any(&self, mut names: impl Iterator<Item = impl AsRef<str>>) -> bool {
        names.any(|name| self.lists(name.as_ref()))
    }
}

/// Adds the names of Sequentials as suggestions to an error about a name.
fn with_sequentials(error: RegistryError, sequentials: &BTreeSet<String>) -> RegistryError {
    match error {
        RegistryError::UnknownPass { name, near } if !sequentials.is_empty() => {
            let known = sequentials.iter().map(String::as_str).chain(near.iter().map(String::as_str));
            let near = nearest(&name, known);
            RegistryError::UnknownPass { name, near }
        }
        other => other,
    }
}
