//! A Sequential or composite pass is a pass: instruments are asked about it, and see it begin and end around its members.

use super::steps::{Run, Stop};
use crate::instruments::Started;
use crate::report::error::Error;
use plugin_api::declare::instrument::PassFacts;
use plugin_api::ir::Module;
use plugin_api::metadata::Granularity;
use registry::{Owner, Step, Unit};
use std::borrow::Cow;

/// A Sequential or composite pass that has begun.
pub(super) struct Whole<'p> {
    step: Cow<'p, Step>,
    /// Number of its line in the plan.
    number: usize,
    /// The instruments that know of it.
    started: Started,
    before: Module,
}

impl<'r> Run<'r> {
    /// A whole begins, if the instruments let it.
    pub(super) fn begin(&mut self, step: Cow<'r, Step>, number: usize) -> Result<(), Stop> {
        let before = self.module.clone();
        let pass = self.facts_of(&step, number);
        self.services.set_pass(pass.name);
        self.ask(&before, &pass)?;
        let started = self.instruments().run_before(&before, &pass).map_err(Stop::Before)?;
        self.wholes.push(Whole { step, number, started, before });
        Ok(())
    }

    /// The whole that began last has ended.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        let Some(Whole { step, number, started, before }) = self.wholes.pop() else { return Ok(()) };
        let pass = self.facts_of(&step, number);
        self.services.set_pass(pass.name);
        let changed = !before.same(&self.module);
        let heard = self.instruments().run_after(started, &self.module, &pass);
        heard.map_err(|error| self.failed_after(error, before, changed, None))
    }

    /// Ends the wholes in which something went wrong, from the inner one out.
    pub(super) fn unfinished(&mut self, stop: &Stop) {
        while let Some(Whole { step, number, started, .. }) = self.wholes.pop() {
            self.instruments().run_failed(started, &self.module, &self.facts_of(&step, number), &stop.message());
        }
    }

    /// Why a step does not run that needs a composite pass of which a member did not run.
    pub(super) fn lacking(&self, needed: &Unit, missing: &str) -> Stop {
        Stop::Lacking(format!("needs {}, of which {missing}", needed.name(self.engine.registry())))
    }

    fn facts_of<'a>(&self, step: &'a Step, position: usize) -> PassFacts<'a>
    where
        'r: 'a,
    {
        match &step.unit {
            Unit::Pass(pass) => PassFacts { position, ..self.facts(*pass) },
            Unit::Sequential(name) => {
                let (granularity, plugin) = (Granularity::Composite, Owner::EMBEDDER);
                let (opt_level, required) = (step.opt_level(self.engine.registry()), &step.required);
                PassFacts { name, opt_level, granularity, required, plugin, position }
            }
        }
    }
}

impl Stop {
    /// What happened, for instruments.
    fn message(&self) -> String {
        match self {
            Stop::Failed(Error::Step { message, .. }) => message.clone(),
            Stop::Failed(error) | Stop::Before(error) | Stop::After(error, ..) => error.to_string(),
            Stop::Skipped(why) => format!("a member was skipped: {why}"),
            Stop::Vetoed(by) => format!("a member was vetoed by {by}"),
            Stop::Lacking(why) => format!("a member was skipped: it {why}"),
        }
    }
}
