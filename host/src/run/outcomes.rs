//! What a run gives: the module, its steps with what they cost, and what was reported. A later run can begin where one failed.

use super::Statistic;
use super::provenance::Provenance;
use crate::report::error::Error;
use crate::report::said::PassDiagnostic;
use passhost_lang::ir::Module;
use passhost_lang::metadata::OptionValue;
use registry::{Outcome, PassId, Registry, Unit, Why};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// A step that was run or passed over, with what it cost.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// What it was about.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// Why it was there.
    pub why: Why,
    /// Whether it is a composite pass or Sequential.
    pub has_members: bool,
    /// What ran inside of it, or was passed over there: its members, each after what it requires.
    pub members: Vec<StepReport>,
    /// How many rounds it took, if it ran until nothing changed.
    pub rounds: Option<u32>,
    /// What became of it.
    pub fate: Fate,
    /// Time in the pass.
    pub time: Duration,
    /// Time to verify what it changed.
    pub verify: Duration,
    /// Bindings before and after.
    pub bindings: (usize, usize),
}

impl StepReport {
    /// Its name with the options that were given.
    pub fn text(&self, registry: &Registry) -> String {
        match &self.unit {
            Unit::Pass(pass) => {
                let options = registry::pipeline::options_text(&self.given);
                format!("{}{options}", registry.pass(*pass).name)
            }
            Unit::Sequential(name) => name.clone(),
        }
    }

    /// Why it was there, as in `required by relax.FuseOps`.
    pub fn reason(&self, registry: &Registry) -> String {
        match &self.why {
            Why::Asked => "asked".to_string(),
            Why::RequiredBy(by) => format!("required by {}", by.name(registry)),
            Why::PartOf(unit) => format!("part of {}", unit.name(registry)),
        }
    }
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What the driver says of it.
    Done(Outcome),
    /// It failed, and the run went on.
    Failed,
    /// A member of it failed or was passed over; which.
    Stopped(String),
    /// It was passed over after something else had failed or was vetoed; why.
    Skipped(String),
    /// These instruments did not let it run.
    Vetoed(String),
    /// It is not one of the passes to call; why.
    Uncalled(&'static str),
}

impl Fate {
    /// Whether it ran to its end.
    pub fn ran(&self) -> bool {
        matches!(self, Fate::Done(Outcome::Changed | Outcome::Unchanged))
    }
}

/// As in `skipped: opt_level 3 > 2`.
impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Done(Outcome::Changed) => f.write_str("changed"),
            Fate::Done(Outcome::Unchanged) => f.write_str("unchanged"),
            Fate::Done(Outcome::StillValid) => f.write_str("kept: still valid"),
            Fate::Done(Outcome::Skipped(skip)) => write!(f, "skipped: {skip}"),
            Fate::Failed => f.write_str("failed"),
            Fate::Stopped(member) => write!(f, "stopped at {member}"),
            Fate::Skipped(why) => write!(f, "skipped: {why}"),
            Fate::Vetoed(by) => write!(f, "vetoed by {by}"),
            Fate::Uncalled(why) => write!(f, "not called: {why}"),
        }
    }
}

/// What a run gave.
#[derive(Debug)]
pub struct RunReport {
    /// The module after the last step that succeeded.
    pub module: Module,
    /// Steps that were asked for and what they require, in the order in which they ended. Those inside of composite passes
    /// and Sequentials are in these; [`RunReport::rows`] has all.
    pub steps: Vec<StepReport>,
    /// Diagnostics of passes.
    pub diagnostics: Vec<PassDiagnostic>,
    /// What passes counted, each counter once, in the order in which they were first heard of.
    pub statistics: Vec<Statistic>,
    /// Keys of config values that are set in the context, and that nothing has asked for.
    pub unread_config: Vec<String>,
    /// What the driver noticed.
    pub warnings: Vec<String>,
    /// Failures after which the run went on.
    pub failures: Vec<Error>,
    /// What stopped the run, if anything did.
    pub error: Option<Error>,
    /// Where the first step failed.
    pub failed_at: Option<Failure>,
    /// Where the values of the module are from, if that was asked for.
    pub provenance: Option<Provenance>,
}

impl RunReport {
    /// All steps, a composite pass or Sequential before what is inside of it, each with how many of these it is in.
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

/// What became of a pass in an earlier run of the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// It changed the module.
    Changed,
    /// It ran and changed nothing.
    Unchanged,
    /// Instruments did not let it run.
    Vetoed,
}

impl Past {
    /// As a bundle has it.
    pub fn name(self) -> &'static str {
        match self {
            Past::Changed => "changed",
            Past::Unchanged => "unchanged",
            Past::Vetoed => "vetoed",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Past> {
        [Past::Changed, Past::Unchanged, Past::Vetoed].into_iter().find(|past| past.name() == name)
    }
}

/// Which passes of a plan are called. Passes that are not called count as ones that changed nothing.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// What became of the first passes, which are not called.
    pub past: Vec<Past>,
    /// Number of the step with which the rest must begin, if that is known.
    pub first: Option<usize>,
    /// Only this pass is called.
    pub only: Option<PassId>,
    /// No pass is called after this one.
    pub until: Option<PassId>,
}

/// What is left of a [`Part`] while a run goes on.
pub(super) struct Rest {
    past: VecDeque<Past>,
    /// How many of them there were.
    given: usize,
    /// The step with which the rest must begin, until it does.
    first: Option<usize>,
    only: Option<PassId>,
    until: Option<PassId>,
    over: bool,
}

impl Rest {
    pub(super) fn of(part: &Part) -> Rest {
        let (past, given) = (part.past.iter().copied().collect(), part.past.len());
        Rest { past, given, first: part.first, only: part.only, until: part.until, over: false }
    }

    /// Notes that a step begins, if no pass is left that ran before.
    ///
    /// # Errors
    /// If another step should be the first one.
    pub(super) fn begins(&mut self, number: usize) -> Result<(), Error> {
        match self.first {
            Some(first) if !self.is_past() && first != number => {
                Err(self.inconsistent(Some(first), &format!("with them, the run continues at step {number}")))
            }
            Some(_) if !self.is_past() => {
                self.first = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notes that a step begins that contains others, which may begin with it.
    pub(super) fn whole_begins(&mut self, number: usize) {
        self.first.take_if(|first| self.past.is_empty() && *first == number);
    }

    /// Checks that the rest has begun.
    ///
    /// # Errors
    /// If all passes ran before, or the plan has no such step.
    pub(super) fn has_begun(&self) -> Result<(), Error> {
        match self.first {
            None if !self.is_past() => Ok(()),
            first => Err(self.inconsistent(first, "with them, nothing is left to run")),
        }
    }

    fn inconsistent(&self, first: Option<usize>, what: &str) -> Error {
        let entries = if self.given == 1 { "1 entry".to_string() } else { format!("{} entries", self.given) };
        let failed = first.map_or_else(|| "no step failed".to_string(), |step| format!("step {step} failed"));
        Error::Unmet {
            message: format!("`past` has {entries}, but {failed}: {what}"),
            help:
                "the bundle was changed or belongs to another plan; use the bundle as `passhost run --bundle` wrote it"
                    .to_string(),
        }
    }

    /// Whether passes are left that ran before.
    pub(super) fn is_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// What becomes of the next pass without a call, and why; `None`: it is called.
    pub(super) fn instead(&mut self, pass: PassId) -> Option<(Past, &'static str)> {
        if let Some(past) = self.past.pop_front() {
            return Some((past, "it ran before"));
        }
        let left_out = self.over || self.only.is_some_and(|only| only != pass);
        self.over |= self.until == Some(pass);
        left_out.then_some((Past::Unchanged, "it is left out"))
    }
}

/// Where a run first failed: enough to run the same step again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The module before the step.
    pub before: Module,
    /// What became of the passes before it.
    pub past: Vec<Past>,
}
