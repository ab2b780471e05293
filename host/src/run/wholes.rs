//! Treats a Sequential or composite pass like a pass: asks instruments whether it may run, and notifies them before and
//! after its members run.

use super::begun::{Rounds, Whole};
use super::steps::{Run, Stop};
use crate::report::error::{Error, StepKind, exit};
use passhost_lang::metadata::Granularity;
use passhost_lang::names::listed;
use plugin_api::declare::instrument::PassFacts;
use registry::{Facts, Owner, Round, Step, Unit};
use std::borrow::Cow;

impl<'r> Run<'r> {
    /// Begins a Sequential or composite pass, unless an instrument vetoes it.
    pub(super) fn begin(&mut self, step: Cow<'r, Step>, number: usize, facts: &Facts) -> Result<(), Stop> {
        self.rest.whole_begins(number);
        let before = self.module.clone();
        let pass = self.facts_of(&step, number);
        self.services.set_pass(pass.name);
        self.ask(&before, &pass)?;
        let started = self.instruments().run_before(&before, &pass).map_err(Stop::Before)?;
        let rounds = step.rounds.map(|_| Rounds::of(&before, facts, self.services.counted.borrow_mut().mark()));
        self.wholes.push(Whole { step, number, started, before, begun: self.rest.outcomes().len(), rounds });
        Ok(())
    }

    /// Decides whether another round is worthwhile. If the rounds would never end, undoes all changes.
    pub(super) fn round(&mut self, ended: Round, facts: &mut Facts) -> Result<(), Stop> {
        if self.rest.is_past() {
            return Ok(());
        }
        let (unit, number) = (ended.unit.clone(), ended.number);
        let Some(message) = self.goes_on_forever(ended) else { return Ok(()) };
        let stop = Stop::Failed(self.whole_error(&unit, StepKind::Repetition, number, message, exit::PLUGIN));
        if let Some(Whole { step, number, started, before, begun, rounds }) = self.wholes.pop() {
            self.ledger.fails_at(before.clone(), &self.rest.outcomes()[..begun]);
            self.instruments().run_failed(started, &self.module, &self.facts_of(&step, number), &stop.message());
            self.set_module(before);
            if let Some(rounds) = rounds {
                *facts = rounds.facts;
                self.services.counted.borrow_mut().back_to(rounds.counted);
            }
        }
        Err(stop)
    }

    /// Returns the reason why the rounds of the innermost Sequential will not end, if there is one.
    fn goes_on_forever(&mut self, Round { round, limit, changed, .. }: Round) -> Option<String> {
        let (registry, module) = (self.engine.registry(), self.module.clone());
        let rounds = self.wholes.last_mut()?.rounds.as_mut()?;
        if let Some(earlier) = rounds.ended(round, &module, changed) {
            let again = match earlier {
                0 => "the module from before round 1".to_string(),
                earlier => format!("the module of round {earlier}"),
            };
            let passes = rounds.changed_after(earlier, registry);
            let who = if let [one] = &passes[..] {
                format!("{one} undoes its own changes")
            } else {
                format!("these passes undo each other: {}", listed(&passes))
            };
            Some(format!("round {round} ended with {again}; {who}"))
        } else if round >= limit {
            let passes = rounds.changed_after(round - 1, registry);
            let who = listed(&passes);
            Some(format!(
                "round {round}, the last round allowed by the limit of {limit}, still changed the module; changed by {who}"
            ))
        } else {
            None
        }
    }

    /// Ends the innermost open Sequential or composite pass.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        let Some(Whole { step, number, started, before, .. }) = self.wholes.pop() else { return Ok(()) };
        let pass = self.facts_of(&step, number);
        self.services.set_pass(pass.name);
        let changed = !before.same(&self.module);
        let heard = self.instruments().run_after(started, &self.module, &pass);
        heard.map_err(|error| self.failed_after(error, before, changed, None))
    }

    /// Ends all open Sequentials and composite passes after an error, from the innermost outward.
    pub(super) fn unfinished(&mut self, stop: &Stop) {
        while let Some(Whole { step, number, started, .. }) = self.wholes.pop() {
            self.instruments().run_failed(started, &self.module, &self.facts_of(&step, number), &stop.message());
        }
    }

    /// Returns the reason to skip a step that needs a composite pass with a member that did not run.
    pub(super) fn lacking(&self, needed: &Unit, missing: &str) -> Stop {
        Stop::Lacking(format!("needs {}, of which {missing}", needed.name(self.engine.registry())))
    }

    fn facts_of<'a>(&self, step: &'a Step, position: usize) -> PassFacts<'a>
    where
        'r: 'a,
    {
        match &step.unit {
            Unit::Pass(pass) => {
                let mut facts = self.facts(*pass);
                facts.position = position;
                facts
            }
            Unit::Sequential(name) => {
                let (granularity, plugin) = (Granularity::Composite, Owner::EMBEDDER);
                let (opt_level, required) = (step.opt_level(self.engine.registry()), &step.required);
                PassFacts::new(name, plugin, granularity, opt_level, required, position)
            }
        }
    }
}

impl Stop {
    /// Describes the outcome in a message for instruments.
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
