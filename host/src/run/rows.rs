//! The rows of a run: the outcome of each step.

use super::steps::{Cost, Run};
use super::{Fate, StepReport};
use crate::verify::pairs;
use passhost_lang::ir::{Body, BodyKind, Module};
use registry::{Outcome, StepRun, Why};
use std::time::Duration;

/// Rows by nesting depth. The rows inside of a step come before its own row, which then takes them.
#[derive(Default)]
pub(super) struct Rows(Vec<Vec<StepReport>>);

impl Rows {
    fn push(&mut self, nesting: usize, mut row: StepReport) {
        self.0.resize_with(self.0.len().max(nesting + 1), Vec::new);
        row.members = self.0.split_off(nesting + 1).into_iter().flatten().collect();
        self.0[nesting].push(row);
    }

    /// Returns all rows.
    pub(super) fn finish(self) -> Vec<StepReport> {
        self.0.into_iter().flatten().collect()
    }
}

impl Run<'_> {
    /// Adds the row of a step that has ended.
    pub(super) fn row(&mut self, step: StepRun, fate: Fate) {
        self.row_if(step, fate, |_| true);
    }

    fn row_if(
        &mut self,
        StepRun { unit, given, why, nesting, rounds }: StepRun,
        fate: Fate,
        wanted: impl Fn(&StepReport) -> bool,
    ) {
        let registry = self.engine.registry();
        let has_members = unit.pass().is_none_or(|pass| registry.members(pass).is_some());
        let Cost { time, verify, bindings } = self.cost.take().unwrap_or_else(|| {
            let bindings = self.bindings_of(&self.module.clone());
            Cost { time: Duration::ZERO, verify: Duration::ZERO, bindings: (bindings, bindings) }
        });
        let members = Vec::new();
        let row = StepReport { unit, given, why, has_members, members, rounds, fate, time, verify, bindings };
        if wanted(&row) {
            self.rows.push(nesting, row);
        }
    }

    /// Adds rows of a step that did not run, and of the steps that need or contain it, the outermost last. Only `wanted` rows are added.
    pub(super) fn rows_of(&mut self, ended: &[StepRun], fate: &Fate, wanted: impl Fn(&StepReport) -> bool) {
        let mut needs = match fate {
            Fate::Failed => "which failed".to_string(),
            Fate::Vetoed(by) => format!("vetoed by {by}"),
            _ => "which was skipped".to_string(),
        };
        let mut inner: Option<(String, bool)> = None;
        for step in ended.iter().rev() {
            let name = step.unit.name(self.engine.registry()).to_string();
            let fate = match inner.replace((name, matches!(step.why, Why::PartOf(_)))) {
                None => fate.clone(),
                Some((member, true)) => Fate::Stopped(member),
                Some((needed, false)) => {
                    let needs = std::mem::replace(&mut needs, "which was skipped".to_string());
                    Fate::Skipped(format!("needs {needed}, {needs}"))
                }
            };
            self.row_if(step.clone(), fate, &wanted);
        }
    }

    /// Adds rows of a step that completed before an instrument failed, and of the Sequentials that contain it.
    pub(super) fn rows_of_done(&mut self, ended: &[StepRun], changed: bool) {
        let fate = Fate::Done(if changed { Outcome::Changed } else { Outcome::Unchanged });
        self.rows_of(ended, &fate, |row| row.has_members || row.fate == fate);
    }

    /// Adds rows of a step that was vetoed, itself or in its requirements.
    pub(super) fn rows_of_vetoed(&mut self, ended: &[StepRun], by: String) {
        if let [user, .., needed] = ended {
            let [user, needed] = [user, needed].map(|step| step.unit.name(self.engine.registry()));
            self.warn(format!("`{user}` is skipped because it needs `{needed}`, vetoed by {by}"));
        }
        self.rows_of(ended, &Fate::Vetoed(by), |_| true);
    }

    /// Adds rows of a step that needs a composite pass with a member that did not run.
    pub(super) fn rows_of_lacking(&mut self, ended: &[StepRun], why: String) {
        if let Some(user) = ended.last() {
            let user = user.unit.name(self.engine.registry());
            self.warn(format!("`{user}` is skipped because it {why}"));
        }
        self.rows_of(ended, &Fate::Skipped(why), |_| true);
    }

    /// Adds a warning once, even if several rounds of a repetition repeat it.
    fn warn(&mut self, warning: String) {
        if self.warned.insert(warning.clone()) {
            self.warnings.push(warning);
        }
    }

    /// Counts the bindings of a module. Functions that the last module had as well are not counted again.
    pub(super) fn bindings_of(&mut self, module: &Module) -> usize {
        let known = &mut self.counted;
        if !known.0.same(module) {
            let relax = |body: &Body| if body.kind() == BodyKind::Function { body.n_bindings() } else { 0 };
            let n = match pairs(&known.0, module) {
                Some(pairs) => {
                    let other = pairs.filter(|(_, old, new)| !old.same(new));
                    let less_more =
                        |(less, more), (_, old, new): (&str, &Body, &Body)| (less + relax(old), more + relax(new));
                    let (less, more) = other.fold((0, 0), less_more);
                    (known.1 + more).checked_sub(less)
                }
                None => None,
            };
            let n = n.unwrap_or_else(|| module.n_bindings());
            *known = (module.clone(), n);
        }
        known.1
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
            fate: Fate::Failed,
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
