//! What a run gives: the module, its steps with what they cost, and what was reported.

use super::Statistic;
use crate::report::error::Error;
use crate::report::said::PassDiagnostic;
use plugin_api::ir::Module;
use plugin_api::metadata::OptionValue;
use registry::{Outcome, Registry, Unit, Why};
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
    /// In how many composite passes and Sequentials it stood.
    pub nesting: usize,
    /// Whether it is a composite pass or Sequential; its members stand behind it.
    pub has_members: bool,
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
    /// Its name with the options that were given, as deep as it stood.
    pub fn text(&self, registry: &Registry) -> String {
        let indent = "  ".repeat(self.nesting);
        match &self.unit {
            Unit::Pass(pass) => {
                let options = registry::pipeline::options_text(&self.given);
                format!("{indent}{}{options}", registry.pass(*pass).name)
            }
            Unit::Sequential(name) => format!("{indent}{name}"),
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
}

/// What a run gave.
#[derive(Debug)]
pub struct RunReport {
    /// The module after the last step that succeeded.
    pub module: Module,
    /// Steps in the order in which they were looked at.
    pub steps: Vec<StepReport>,
    /// Diagnostics of passes.
    pub diagnostics: Vec<PassDiagnostic>,
    /// What passes counted, each counter once, in the order in which they were first heard of.
    pub statistics: Vec<Statistic>,
    /// What the driver noticed.
    pub warnings: Vec<String>,
    /// Failures after which the run went on.
    pub failures: Vec<Error>,
    /// What stopped the run, if anything did.
    pub error: Option<Error>,
}
