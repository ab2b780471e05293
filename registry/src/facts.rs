//! What holds of the module while a plan runs, and the driver that decides from it which required steps run.

use crate::plan::{Plan, Skip, Step, default_options};
use crate::registry::{PassId, Registry};
use plugin_api::meta::{OptionValue, PassInfo};
use std::collections::BTreeSet;

/// Passes and properties that hold of the module now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    ran: BTreeSet<String>,
    properties: BTreeSet<String>,
}

impl Facts {
    /// Whether the effect of a pass still holds.
    pub fn is_valid(&self, pass: &str) -> bool {
        self.ran.contains(pass)
    }

    /// Whether a property holds.
    pub fn holds(&self, property: &str) -> bool {
        self.properties.contains(property)
    }

    /// After a pass ran. Only a run with default options makes the pass itself valid.
    pub fn after_run(&mut self, info: &PassInfo, defaults: bool, changed: bool) {
        if changed {
            let contract = &info.contract;
            let all = contract.preserves.iter().any(|name| name == "all");
            let keeps =
                |name: &String| (all || contract.preserves.contains(name)) && !contract.invalidates.contains(name);
            self.ran.retain(keeps);
            self.properties.retain(keeps);
        }
        if defaults {
            self.ran.insert(info.name.clone());
        }
        self.properties.extend(info.contract.establishes.iter().cloned());
    }
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and changed the module.
    Changed,
    /// It ran and changed nothing.
    Unchanged,
    /// It did not run, because its effect still holds.
    StillValid,
    /// It was skipped by the plan.
    Skipped(Skip),
}

/// One step as it was run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRun {
    /// The pass.
    pub pass: PassId,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// Who requires it; `None` for a step that was asked for.
    pub required_by: Option<PassId>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Runs a plan: decides, and lets `run` do the work.
pub struct Driver<'a> {
    registry: &'a Registry,
    facts: Facts,
    warnings: Vec<String>,
}

impl<'a> Driver<'a> {
    /// A driver for a module of which nothing is known.
    pub fn new(registry: &'a Registry) -> Driver<'a> {
        Driver { registry, facts: Facts::default(), warnings: Vec::new() }
    }

    /// What holds now.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Things that were seen during the run.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Runs all steps. `run` runs one pass with its options and says whether the module changed; `done` is told what
    /// became of each step.
    ///
    /// # Errors
    /// The first error of `run`; nothing runs after it.
    pub fn run<E>(
        &mut self,
        plan: &Plan,
        run: &mut dyn FnMut(PassId, &[OptionValue]) -> Result<bool, E>,
        done: &mut dyn FnMut(StepRun),
    ) -> Result<(), E> {
        for step in &plan.steps {
            let given = step.given.clone();
            if let Some(skip) = &step.skip {
                let outcome = Outcome::Skipped(skip.clone());
                done(StepRun { pass: step.pass, given, required_by: None, outcome });
                continue;
            }
            self.requirements(step.pass, run, done)?;
            let outcome = self.step(step, run)?;
            done(StepRun { pass: step.pass, given, required_by: None, outcome });
        }
        Ok(())
    }

    fn step<E>(
        &mut self,
        step: &Step,
        run: &mut dyn FnMut(PassId, &[OptionValue]) -> Result<bool, E>,
    ) -> Result<Outcome, E> {
        let changed = run(step.pass, &step.options)?;
        self.facts.after_run(self.registry.pass(step.pass), step.defaults, changed);
        Ok(if changed { Outcome::Changed } else { Outcome::Unchanged })
    }

    /// Satisfies the list of `user` once, from left to right.
    fn requirements<E>(
        &mut self,
        user: PassId,
        run: &mut dyn FnMut(PassId, &[OptionValue]) -> Result<bool, E>,
        done: &mut dyn FnMut(StepRun),
    ) -> Result<(), E> {
        let registry = self.registry;
        let info = registry.pass(user);
        for req in &info.required {
            let Some(pass) = registry.find_full(&req.name) else { continue };
            let outcome = if self.facts.is_valid(&req.name) {
                Outcome::StillValid
            } else {
                self.requirements(pass, run, done)?;
                let needed = registry.pass(pass);
                let changed = run(pass, &default_options(needed))?;
                self.facts.after_run(needed, true, changed);
                if changed { Outcome::Changed } else { Outcome::Unchanged }
            };
            done(StepRun { pass, given: Vec::new(), required_by: Some(user), outcome });
        }
        if let Some(undone) = info.required.iter().find(|req| !self.facts.is_valid(&req.name)) {
            self.warnings.push(format!(
                "`{}` requires `{}`, which a later requirement of it undid; it runs all the same",
                info.name, undone.name
            ));
        }
        Ok(())
    }
}
