//! Checks many pipelines that share lists of disabled and required passes, and checks all passes.

use super::check::Check;
use super::enabled::{Enabled, Level};
use super::{Compat, Plan, PlanError, Request, Selection, steps};
use crate::pipeline::Pipeline;
use crate::plan::instruments_asked::planned;
use crate::registry::Registry;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Checks that pipelines can be planned, one after the other. The shared parts are checked only once: the lists
/// of the lowest level, and the requirements and members of passes.
pub struct Checker<'a> {
    registry: &'a Registry,
    lowest: Selection,
    /// The lowest level; `None` if it has errors.
    level: Option<Rc<Level>>,
    check: Check<'a>,
    enabled: Rc<Enabled>,
}

impl<'a> Checker<'a> {
    /// Creates a checker for pipelines with the given lists, and returns the errors in the lists. Lists with
    /// errors are ignored.
    pub fn new(lowest: Selection, registry: &'a Registry) -> (Checker<'a>, Vec<PlanError>) {
        let level = Level::new(&lowest, &BTreeSet::new(), Compat::Passhost, registry);
        let instruments = planned(std::slice::from_ref(&lowest), registry).err();
        let (level, wrong) = match (level, instruments) {
            (Ok(level), None) => (Some(Rc::new(level)), Vec::new()),
            (level, instruments) => (None, [level.err(), instruments].into_iter().flatten().flatten().collect()),
        };
        let enabled = Rc::new(Enabled::of(level.iter().cloned().collect(), Compat::Passhost));
        let check = Check::new(registry, Rc::clone(&enabled));
        (Checker { registry, lowest, level, check, enabled }, wrong)
    }

    /// Checks that a pipeline with its own lists can be planned.
    ///
    /// # Errors
    /// The first error.
    pub fn pipeline(&mut self, pipeline: &Pipeline, own: Selection) -> Result<(), PlanError> {
        let names = pipeline.sequentials();
        if self.level.as_ref().is_some_and(|level| level.lists_any(names.iter())) {
            // The lists may refer to these Sequentials.
            let request = Request {
                pipeline: pipeline.clone(),
                selections: vec![own, self.lowest.clone()],
                ..Request::default()
            };
            return Plan::new(&request, self.registry).map(|_| ());
        }
        pipeline.check_depth()?;
        planned(std::slice::from_ref(&own), self.registry).map_err(super::first)?;
        if own.opt_level.is_none() && own.disabled.is_empty() && own.required.is_empty() {
            return steps(pipeline, self.registry, &self.enabled, &mut self.check).map(|_| ());
        }
        let level = Level::new(&own, &names, Compat::Passhost, self.registry).map_err(super::first)?;
        let levels = [Rc::new(level)].into_iter().chain(self.level.clone()).collect();
        let enabled = Rc::new(Enabled::of(levels, Compat::Passhost));
        steps(pipeline, self.registry, &enabled, &mut Check::new(self.registry, Rc::clone(&enabled))).map(|_| ())
    }

    /// Returns the further errors that prevent passes from being planned in any pipeline: cycles, and missing
    /// requirements and members.
    pub fn passes(mut self) -> Vec<PlanError> {
        let told = self.check.wrong().len();
        for (pass, _) in self.registry.passes() {
            // The errors of all walks are kept.
            let _ = self.check.requirements((pass, false));
        }
        self.check.wrong()[told..].to_vec()
    }
}
