//! The report of a run: the outcome of each step, warnings and failures.

pub(in crate::run) mod outcomes;
pub(in crate::run) mod statistics;

use super::{Failure, StepReport};
use crate::report::error::{Error, Kept};
use crate::verify::pairs;
use passhost_lang::ir::{Body, BodyKind, Module};
use registry::{Outcome, Registry, StepRun, Why};
use std::collections::HashSet;
use std::time::Duration;

/// Rows by nesting depth. The rows of the steps inside a step come first; the row of the step then contains them.
#[derive(Default)]
pub(in crate::run) struct Rows(Vec<Vec<StepReport>>);

impl Rows {
    fn push(&mut self, nesting: usize, mut row: StepReport) {
        self.0.resize_with(self.0.len().max(nesting + 1), Vec::new);
        row.members = self.0.split_off(nesting + 1).into_iter().flatten().collect();
        self.0[nesting].push(row);
    }

    /// Returns all rows.
    pub(in crate::run) fn finish(self) -> Vec<StepReport> {
        self.0.into_iter().flatten().collect()
    }
}

/// Time and bindings of a pass.
pub(in crate::run) struct Cost {
    pub(in crate::run) time: Duration,
    pub(in crate::run) verify: Duration,
    pub(in crate::run) bindings: (usize, usize),
}

/// A module and the number of its bindings.
struct Counted(Module, usize);

impl Counted {
    /// Counts the bindings of a module. Recounts only the functions that differ from those of the previous module.
    fn of(&mut self, module: &Module) -> usize {
        if !self.0.same(module) {
            let relax = |body: &Body| if body.kind() == BodyKind::Function { body.n_bindings() } else { 0 };
            let n = match pairs(&self.0, module) {
                Some(pairs) => {
                    let other = pairs.filter(|(_, old, new)| !old.same(new));
                    let less_more =
                        |(less, more), (_, old, new): (&str, &Body, &Body)| (less + relax(old), more + relax(new));
                    let (less, more) = other.fold((0, 0), less_more);
                    (self.1 + more).checked_sub(less)
                }
                None => None,
            };
            *self = Counted(module.clone(), n.unwrap_or_else(|| module.n_bindings()));
        }
        self.1
    }
}

/// The report of a run so far.
pub(in crate::run) struct Ledger<'r> {
    registry: &'r Registry,
    rows: Rows,
    /// The cost of the last pass, until its row is added.
    pub(in crate::run) cost: Option<Cost>,
    counted: Counted,
    warnings: Vec<String>,
    /// The warnings as a set, to find repeated warnings.
    warned: HashSet<String>,
    /// Failures after which the run continued.
    pub(in crate::run) errors: Vec<Error>,
    failed_at: Option<Failure>,
}

/// The parts of a finished report.
pub(in crate::run) struct Closed {
    pub(in crate::run) steps: Vec<StepReport>,
    pub(in crate::run) warnings: Vec<String>,
    pub(in crate::run) errors: Vec<Error>,
    pub(in crate::run) failed_at: Option<Failure>,
}

impl<'r> Ledger<'r> {
    pub(in crate::run) fn new(registry: &'r Registry) -> Ledger<'r> {
        let counted = Counted(Module::new(Vec::<(String, Body)>::new()), 0);
        let (rows, cost, warnings, warned, errors, failed_at) = Default::default();
        Ledger { registry, rows, cost, counted, warnings, warned, errors, failed_at }
    }

    pub(in crate::run) fn close(self) -> Closed {
        let Ledger { rows, warnings, errors, failed_at, .. } = self;
        Closed { steps: rows.finish(), warnings, errors, failed_at }
    }

    /// Adds the row of a step that ended with `module`.
    pub(in crate::run) fn row(&mut self, step: StepRun, outcome: Outcome, module: &Module) {
        self.row_if(step, outcome, module, |_| true);
    }

    fn row_if(
        &mut self,
        StepRun { unit, given, why, nesting, rounds }: StepRun,
        outcome: Outcome,
        module: &Module,
        wanted: impl Fn(&StepReport) -> bool,
    ) {
        let has_members = unit.pass().is_none_or(|pass| self.registry.members(pass).is_some());
        let Cost { time, verify, bindings } = self.cost.take().unwrap_or_else(|| {
            let bindings = self.counted.of(module);
            Cost { time: Duration::ZERO, verify: Duration::ZERO, bindings: (bindings, bindings) }
        });
        let members = Vec::new();
        let row = StepReport { unit, given, why, has_members, members, rounds, outcome, time, verify, bindings };
        if wanted(&row) {
            self.rows.push(nesting, row);
        }
    }

    /// Adds rows of a step that did not run, and of the steps that need or contain it, the outermost last. Adds only
    /// `wanted` rows.
    pub(in crate::run) fn rows_of(
        &mut self,
        ended: &[StepRun],
        outcome: &Outcome,
        module: &Module,
        wanted: impl Fn(&StepReport) -> bool,
    ) {
        let mut needs = match outcome {
            Outcome::Failed => "which failed".to_string(),
            Outcome::Vetoed(by) => format!("vetoed by {by}"),
            _ => "which was skipped".to_string(),
        };
        let mut inner: Option<(String, bool)> = None;
        for step in ended.iter().rev() {
            let name = step.unit.name(self.registry).to_string();
            let outcome = match inner.replace((name, matches!(step.why, Why::PartOf(_)))) {
                None => outcome.clone(),
                Some((member, true)) => Outcome::Stopped(member),
                Some((needed, false)) => {
                    let needs = std::mem::replace(&mut needs, "which was skipped".to_string());
                    Outcome::Skipped(format!("needs {needed}, {needs}"))
                }
            };
            self.row_if(step.clone(), outcome, module, &wanted);
        }
    }

    /// Adds rows of a step that completed before an instrument failed, and of the Sequentials that contain it.
    pub(in crate::run) fn rows_of_done(&mut self, ended: &[StepRun], changed: bool, module: &Module) {
        let outcome = Outcome::of_run(changed);
        self.rows_of(ended, &outcome, module, |row| row.has_members || row.outcome == outcome);
    }

    /// Adds rows of a step whose pass, or a requirement of the pass, was vetoed.
    pub(in crate::run) fn rows_of_vetoed(&mut self, ended: &[StepRun], by: String, module: &Module) {
        if let [user, .., needed] = ended {
            let [user, needed] = [user, needed].map(|step| step.unit.name(self.registry));
            self.warn(format!("`{user}` is skipped because it needs `{needed}`, vetoed by {by}"));
        }
        self.rows_of(ended, &Outcome::Vetoed(by), module, |_| true);
    }

    /// Adds rows of a step that needs a composite pass with a member that did not run.
    pub(in crate::run) fn rows_of_lacking(&mut self, ended: &[StepRun], why: String, module: &Module) {
        if let Some(user) = ended.last() {
            let user = user.unit.name(self.registry);
            self.warn(format!("`{user}` is skipped because it {why}"));
        }
        self.rows_of(ended, &Outcome::Skipped(why), module, |_| true);
    }

    /// Adds a warning once, even if several rounds of a repetition repeat it.
    fn warn(&mut self, warning: String) {
        if self.warned.insert(warning.clone()) {
            self.warnings.push(warning);
        }
    }

    /// Records the first failure of the run: the module before the step, and the outcomes of the passes before it.
    pub(in crate::run) fn fails_at(&mut self, before: Module, past: &[Outcome]) {
        self.failed_at.get_or_insert_with(|| Failure { before, past: past.to_vec() });
    }

    /// Records a failure after which the run continues.
    pub(in crate::run) fn goes_on_after(&mut self, mut error: Error) {
        if let Error::Step { kept, .. } = &mut error {
            *kept = Kept::WentOn;
        }
        self.errors.push(error);
    }

    /// Counts the bindings of a module.
    pub(in crate::run) fn bindings_of(&mut self, module: &Module) -> usize {
        self.counted.of(module)
    }

    /// Counts all bindings of a module. Needed after a pass wrote to its input, because the old count is then unknown.
    pub(in crate::run) fn recount(&mut self, module: &Module) {
        self.counted = Counted(module.clone(), module.n_bindings());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunReport;
    use registry::Unit;

    fn row(name: &str) -> StepReport {
        StepReport {
            unit: Unit::Sequential(name.to_string()),
            given: Vec::new(),
            why: Why::Asked,
            has_members: true,
            members: Vec::new(),
            rounds: None,
            outcome: Outcome::Failed,
            time: Duration::ZERO,
            verify: Duration::ZERO,
            bindings: (0, 0),
        }
    }

    #[test]
    fn a_step_takes_the_rows_inside_of_it_and_comes_before_them() {
        let mut rows = Rows::default();
        for (nesting, name) in [(2, "c"), (2, "d"), (1, "b"), (1, "e"), (0, "a"), (0, "f"), (1, "h"), (0, "g")] {
            rows.push(nesting, row(name));
        }
        let module = Module::new(Vec::<(String, Body)>::new());
        let steps = rows.finish();
        let (diagnostics, statistics, unread_config, warnings, failures) = Default::default();
        let (error, failed_at, provenance) = (None, None, None);
        let report = RunReport {
            module,
            steps,
            diagnostics,
            statistics,
            unread_config,
            warnings,
            failures,
            error,
            failed_at,
            provenance,
        };
        let name = |(depth, step): (usize, &StepReport)| match &step.unit {
            Unit::Sequential(name) => format!("{depth}{name}"),
            Unit::Pass(_) => String::new(),
        };
        assert_eq!(report.rows().map(name).collect::<Vec<_>>().join(" "), "0a 1b 2c 2d 1e 0f 0g 1h");
    }
}
