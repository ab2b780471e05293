//! The results of a run: the module, its steps with their costs, and the diagnostics. A later run can start from a failed step.

use crate::report::error::Error;
use crate::report::said::PassDiagnostic;
use crate::run::Statistic;
use crate::run::provenance::Provenance;
use passhost_lang::ir::Module;
use passhost_lang::metadata::OptionValue;
use registry::{Outcome, PassId, Registry, Unit, Why};
use std::collections::VecDeque;
use std::time::Duration;

/// A step that was run or skipped, with its cost.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// The pass or Sequential.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// The reason for the step.
    pub why: Why,
    /// True if it is a composite pass or Sequential.
    pub has_members: bool,
    /// The steps that ran or were skipped inside of it: its members, each after its requirements.
    pub members: Vec<StepReport>,
    /// Number of rounds, if it ran until nothing changed.
    pub rounds: Option<u32>,
    /// The outcome of the step.
    pub outcome: Outcome,
    /// Time spent in the pass.
    pub time: Duration,
    /// Time spent verifying the changes.
    pub verify: Duration,
    /// Number of bindings before and after.
    pub bindings: (usize, usize),
}

impl StepReport {
    /// Returns the name of the step, with the given options.
    pub fn text(&self, registry: &Registry) -> String {
        match &self.unit {
            Unit::Pass(pass) => {
                let options = registry::pipeline::options_text(&self.given);
                format!("{}{options}", registry.pass(*pass).name)
            }
            Unit::Sequential(name) => name.clone(),
        }
    }

    /// Returns the reason for the step, as in `required by relax.FuseOps`.
    pub fn reason(&self, registry: &Registry) -> String {
        match &self.why {
            Why::Asked => "asked".to_string(),
            Why::RequiredBy(by) => format!("required by {}", by.name(registry)),
            Why::PartOf(unit) => format!("part of {}", unit.name(registry)),
        }
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct RunReport {
    /// The module after the last step that succeeded.
    pub module: Module,
    /// The requested steps and their requirements, in the order in which they ended. Steps inside of composite passes and Sequentials are
    /// nested in these; [`RunReport::rows`] returns all.
    pub steps: Vec<StepReport>,
    /// Diagnostics of passes.
    pub diagnostics: Vec<PassDiagnostic>,
    /// Counters of passes, in the order of their first use.
    pub statistics: Vec<Statistic>,
    /// Keys of config values that are set in the context but were never read.
    pub unread_config: Vec<String>,
    /// Warnings of the driver.
    pub warnings: Vec<String>,
    /// Failures after which the run continued.
    pub failures: Vec<Error>,
    /// The error that stopped the run, if any.
    pub error: Option<Error>,
    /// The first failed step.
    pub failed_at: Option<Failure>,
    /// The origins of the module's values, if requested.
    pub provenance: Option<Provenance>,
}

impl RunReport {
    /// Returns all steps, each with its nesting depth. A composite pass or Sequential comes before the steps inside of it.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &StepReport)> {
        let mut open = vec![self.steps.iter()];
        std::iter::from_fn(move || {
            loop {
                let depth = open.len().checked_sub(1)?;
                match open[depth].next() {
                    Some(step) => {
                        open.push(step.members.iter());
                        return Some((depth, step));
                    }
                    None => drop(open.pop()),
                }
            }
        })
    }
}

/// Selects the passes of a plan to call. Passes that are not called count as having changed nothing.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Outcomes of the first passes, which are not called: each ran or was vetoed.
    pub past: Vec<Outcome>,
    /// Number of the step with which the remaining run must begin, if known.
    pub first: Option<usize>,
    /// The only pass to call.
    pub only: Option<PassId>,
    /// The last pass to call.
    pub until: Option<PassId>,
}

/// The data of a [`Part`] that a run still needs, and the outcomes of its passes.
pub(in crate::run) struct Rest {
    past: VecDeque<Outcome>,
    /// Initial number of past outcomes.
    given: usize,
    /// The step at which the rest must begin; `None` once it has begun.
    first: Option<usize>,
    only: Option<PassId>,
    until: Option<PassId>,
    over: bool,
    /// Outcomes of the passes so far.
    ended: Vec<Outcome>,
    /// The reason why the last pass was not called, until its row is added.
    uncalled: Option<&'static str>,
}

impl Rest {
    pub(in crate::run) fn of(part: &Part) -> Rest {
        let (past, given) = (part.past.iter().cloned().collect(), part.past.len());
        let (first, only, until) = (part.first, part.only, part.until);
        Rest { past, given, first, only, until, over: false, ended: Vec::new(), uncalled: None }
    }

    /// Records that a step begins, unless outcomes of earlier passes are still to be used.
    ///
    /// # Errors
    /// If another step should be the first step.
    pub(in crate::run) fn begins(&mut self, number: usize) -> Result<(), Error> {
        match self.first {
            Some(first) if !self.is_past() && first != number => {
                Err(self.inconsistent(Some(first), &format!("after them, the run continues at step {number}")))
            }
            Some(_) if !self.is_past() => {
                self.first = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Records that a containing step begins. The rest may begin with it.
    pub(in crate::run) fn whole_begins(&mut self, number: usize) {
        self.first.take_if(|first| self.past.is_empty() && *first == number);
    }

    /// Checks that the rest has begun.
    ///
    /// # Errors
    /// If all passes ran before, or the plan does not contain the first step.
    pub(in crate::run) fn has_begun(&self) -> Result<(), Error> {
        match self.first {
            None if !self.is_past() => Ok(()),
            first => Err(self.inconsistent(first, "no step is left to run after them")),
        }
    }

    fn inconsistent(&self, first: Option<usize>, what: &str) -> Error {
        let entries = if self.given == 1 { "1 entry".to_string() } else { format!("{} entries", self.given) };
        let failed = first.map_or_else(|| "no step failed".to_string(), |step| format!("step {step} failed"));
        Error::Unmet {
            message: format!("`past` has {entries}, but {failed}: {what}"),
            help:
                "the bundle was changed or belongs to another plan; use an unchanged bundle from `passhost run --bundle`"
                    .to_string(),
        }
    }

    /// Returns true if past passes are left.
    pub(in crate::run) fn is_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// Returns the outcome to use instead of calling the next pass; `None` if the pass is to be called.
    pub(in crate::run) fn instead(&mut self, pass: PassId) -> Option<Outcome> {
        let (outcome, why) = match self.past.pop_front() {
            Some(outcome) => (outcome, "it has already run"),
            None => {
                let left_out = self.over || self.only.is_some_and(|only| only != pass);
                self.over |= self.until == Some(pass);
                left_out.then_some((Outcome::Unchanged, "it is omitted"))?
            }
        };
        self.ended.push(outcome.clone());
        self.uncalled = outcome.ran().then_some(why);
        Some(outcome)
    }

    /// Takes the reason why the last pass was not called.
    pub(in crate::run) fn take_uncalled(&mut self) -> Option<&'static str> {
        self.uncalled.take()
    }

    /// Records the outcome of a pass.
    pub(in crate::run) fn ended(&mut self, outcome: Outcome) {
        self.ended.push(outcome);
    }

    /// Returns the outcomes of the passes so far.
    pub(in crate::run) fn outcomes(&self) -> &[Outcome] {
        &self.ended
    }
}

/// The first failure of a run: the data needed to re-run the failed step.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The module before the step.
    pub before: Module,
    /// The outcomes of the passes before the step.
    pub past: Vec<Outcome>,
}
