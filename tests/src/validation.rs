//! Runs passes on modules and validates each of them, as `passhost validate` does.

use passhost::run::validate::{ChangedSteps, ValidatedStep, Validation, Validator, Verdict};
use passhost::{Engine, Instrument, PassContext, Runner};
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum size of all tensors that exist at the same time, in bytes.
const MEMORY: u64 = 1 << 30;
/// Units of work for one function of one pass.
const WORK: u64 = 5_000_000_000;

/// Runs a pipeline; returns its passes with the modules before and after each, and the error if it stopped.
///
/// # Errors
/// If the pipeline cannot be planned.
pub fn steps(
    engine: &Engine,
    passes: &str,
    module: &Module,
) -> Result<(Vec<ValidatedStep>, Option<passhost::Error>), String> {
    let pipeline = Pipeline::parse(passes).map_err(|error| error.to_string())?;
    let request = Request { pipeline, ..Request::default() };
    let plan = Plan::new(&request, engine.registry()).map_err(|errors| format!("{errors:?}"))?;
    let steps = ChangedSteps::default();
    let collecting = Instrument::new("validate", steps.instrument(engine.registry()));
    let runner = Runner::in_context(engine, &PassContext::default()).instrument(collecting);
    let report = runner.run(&plan, module.clone()).map_err(|error| error.to_string())?;
    Ok((steps.take(), report.error))
}

/// Returns the verdict on a pass.
pub fn verdict(engine: &Engine, step: &ValidatedStep, seed: u64) -> Verdict {
    let how = Validation { work: WORK, ..Validation::new(seed, MEMORY) };
    Validator::new(engine, how).check(step, &mut |_| {})
}

/// Returns a pass of the registry with its input and output modules.
pub fn step(engine: &Engine, pass: &str, before: &Module, after: &Module) -> Option<ValidatedStep> {
    let (_, info) = engine.registry().passes().find(|(_, info)| info.name == pass)?;
    Some(ValidatedStep {
        position: 1,
        pass: pass.to_string(),
        plugin: String::new(),
        granularity: info.granularity,
        tolerance: info.tolerance,
        before: before.clone(),
        after: after.clone(),
    })
}

/// Counts of verdicts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Runs whose values are equal.
    pub same: usize,
    /// Runs that changed only names.
    pub unchanged: usize,
    /// Runs that were not validated, by reason: their number, and the first run.
    pub not: BTreeMap<String, (usize, String)>,
    /// Each blamed run, with the reason.
    pub blamed: Vec<String>,
}

impl Tally {
    /// Counts the verdict on a run.
    pub fn add(&mut self, run: &str, verdict: Verdict) {
        match verdict {
            Verdict::Same(_) => self.same += 1,
            Verdict::Unchanged => self.unchanged += 1,
            Verdict::NotValidated { why } => self.not.entry(kind_of(&why)).or_insert((0, run.to_string())).0 += 1,
            other => self.blame(run, &format!("{other:?}")),
        }
    }

    /// Counts a blamed run.
    pub fn blame(&mut self, run: &str, why: &str) {
        self.blamed.push(format!("{run}: {why}"));
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not: usize = self.not.values().map(|(n, _)| n).sum();
        let (same, unchanged, blamed) = (self.same, self.unchanged, self.blamed.len());
        writeln!(f, "{same} runs that changed a module are validated, {not} are not, {blamed} are blamed")?;
        writeln!(f, "{unchanged} runs changed nothing")?;
        let mut reasons: Vec<_> = self.not.iter().collect();
        reasons.sort_by_key(|(_, (n, _))| std::cmp::Reverse(*n));
        for (why, (n, first)) in reasons {
            writeln!(f, "  {n} x {why} (first: {first})")?;
        }
        self.blamed.iter().try_for_each(|blamed| writeln!(f, "blamed: {blamed}"))
    }
}

/// Removes the numbers, and the names of variables and functions, from a reason.
fn kind_of(why: &str) -> String {
    let mut out = String::new();
    for (i, part) in why.split('`').enumerate() {
        match i % 2 == 0 || part.contains('.') {
            true => out.extend(part.chars().map(|c| if c.is_ascii_digit() { '#' } else { c })),
            false => out.push_str("..."),
        }
    }
    out.chars().take(MOST_SHOWN).collect()
}

/// Maximum number of characters of a reason.
const MOST_SHOWN: usize = 140;
