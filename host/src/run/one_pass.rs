//! Runs one pass between its instruments: calls it, and verifies the result.

use super::ledger::Cost;
use super::marks::Rules;
use super::notes::limits;
use super::notes::provenance::Maker;
use super::shown::Shown;
use super::steps::{Run, Stop};
use super::{PassDiagnostic, calls};
use crate::report::error::Error;
use crate::verify::declared_form::in_declared_form;
use crate::verify::snapshot::Snapshot;
use crate::verify::undeclared::undeclared_among;
use crate::verify::{
    Affected, KeptParts, KnownCalls, UndeclaredOperator, Violation, affected, pairs, verify_attributes,
};
use passhost_lang::ir::{Module, SealError};
use plugin_api::abi::host::RunFailure;
use plugin_api::declare::diagnostics::Severity;
use plugin_api::declare::instrument::PassFacts;
use registry::{Facts, Job, PassId};
use serde_json::json;
use std::time::{Duration, Instant};

/// Source of the log messages.
const LOG: &str = "passhost::run";

impl<'r> Run<'r> {
    /// Runs one pass between its instruments. Returns the cost of the pass, and true if more than names changed in
    /// the module.
    pub(super) fn pass(&mut self, job: &Job<'_>, held: &mut Facts) -> Result<(bool, Cost), Stop> {
        let (registry, pass, number) = (self.engine.registry(), job.pass, job.number);
        let info = registry.pass(pass);
        self.position = number;
        self.services.set_pass(&info.name);
        let span = tracing::info_span!(target: LOG, "pass", name = %info.name);
        let _entered = span.enter();
        let before = self.module.clone();
        self.runner.context.settings().missed.begins(&info.name, &before);
        let facts = self.facts(pass);
        let _doing = calls::begins(registry, pass, number);
        let functions = || before.functions().filter(|(_, body)| calls::wants(info.granularity, body)).count();
        tracing::debug!(target: LOG, step = facts.position, plugin = facts.plugin, functions = functions(), "begins");
        self.ask(&before, &facts)?;
        self.check_required(pass, &before, held).map_err(Stop::Failed)?;
        let started = self.instruments().run_before(&before, &facts).map_err(Stop::Before)?;
        self.hear();
        let counted = self.services.counted.borrow_mut().mark();
        let span = self.engine.span("pass", &info.name, || json!({ "step": number }));
        let result = self.verified(job, &before, held);
        self.hear();
        let (changed, cost) = match result {
            Ok(done) => done,
            Err(error) => {
                // Drops what the failed pass counted.
                self.services.counted.borrow_mut().back_to(counted);
                let message = match &error {
                    Error::Step { message, .. } => message.clone(),
                    other => other.to_string(),
                };
                span.iter().for_each(|span| span.note("failed", &message));
                drop(span);
                self.instruments().run_failed(started, &self.module, &facts, &message);
                return Err(Stop::Failed(error));
            }
        };
        drop(span);
        match self.instruments().run_after(started, &self.module, &facts) {
            Ok(()) => Ok((changed, cost)),
            Err(error) => {
                let stop = self.failed_after(error, before, changed, Some(cost));
                if let Stop::Before(_) = stop {
                    self.services.counted.borrow_mut().back_to(counted);
                }
                Err(stop)
            }
        }
    }

    /// Handles an instrument that failed after a pass or Sequential had run.
    pub(super) fn failed_after(&mut self, error: Error, before: Module, changed: bool, cost: Option<Cost>) -> Stop {
        if self.plan.compat.loses_result_of_failed_after() {
            self.set_module(before);
            return Stop::Before(error);
        }
        Stop::After(error, changed, cost)
    }

    /// Returns the description of the current pass that instruments receive.
    pub(super) fn facts(&self, pass: PassId) -> PassFacts<'r> {
        let registry = self.engine.registry();
        let (info, position) = (registry.pass(pass), self.position);
        let plugin = &registry.pass_owner(pass).name;
        PassFacts::new(&info.name, plugin, info.granularity, info.opt_level, &info.required, position)
    }

    /// Asks all instruments whether a pass may run. Passes that the context requires always run.
    pub(super) fn ask(&self, module: &Module, pass: &PassFacts<'_>) -> Result<(), Stop> {
        if self.plan.required.contains(pass.name) {
            return Ok(());
        }
        let vetoes = self.instruments().should_run(module, pass).map_err(Stop::Before)?;
        if vetoes.is_empty() { Ok(()) } else { Err(Stop::Vetoed(vetoes.join(", "))) }
    }

    /// Runs one pass, verifies its result, and makes it the module of the run.
    fn verified(&mut self, job: &Job<'_>, before: &Module, held: &Facts) -> Result<(bool, Cost), Error> {
        let pass = job.pass;
        let info = self.engine.registry().pass(pass);
        let snapshot = self.runner.paranoid.then(|| Snapshot::of(before));
        let said = self.services.said.borrow().len();
        let (after, time) = self.called(job, before);
        if let Some(snapshot) = snapshot {
            self.check_input(pass, before, &snapshot)?;
        }
        let after = after?;
        self.check_said(pass, said)?;
        let start = Instant::now();
        let unsealed = |error: SealError| self.step_error(pass, None, error.to_string(), None);
        let after = self.numbered(pass, before, after).map_err(unsealed)?;
        let mut kept = KeptParts::new(&self.unverified);
        let after = in_declared_form(before, after, self.engine, &mut kept)
            .map_err(|(function, why)| self.step_error(pass, Some(function), why.to_string(), None))?;
        let after = self.numbered(pass, before, after).map_err(unsealed)?;
        let verifying = self.engine.span("verification", "verify", || json!({ "pass": info.name }));
        let affected = affected(before, &after, &mut kept);
        self.verify(before, &after, &affected).map_err(|violation| self.violation(pass, &after, &violation))?;
        self.check_operators(pass, &affected, before, &after)?;
        let changed = changed(before, &after);
        if !changed && !before.same(&after) {
            tracing::info!(target: LOG, "returned a new module that equals its input except for variable names; return the input instead");
        }
        self.check_claims(pass, before, &after, held, changed)?;
        self.services.marks.replaced(affected.iter().map(|affected| affected.body), &after);
        drop(verifying);
        let verify = start.elapsed();
        let bindings = (self.ledger.bindings_of(before), self.ledger.bindings_of(&after));
        tracing::debug!(target: LOG, changed, ?time, "done");
        self.set_module(after);
        Ok((changed, Cost { time, verify, bindings }))
    }

    /// Returns the result of a pass and its time. Does not call the pass if it was called before the run.
    fn called(&self, job: &Job<'_>, before: &Module) -> (Result<Module, Error>, Duration) {
        let (pass, info) = (job.pass, self.engine.registry().pass(job.pass));
        let earlier = self.runner.called.take();
        if let Some((_, result, time)) = earlier.filter(|(name, ..)| *name == info.name) {
            return (result.map_err(|error| self.failure(pass, None, before, RunFailure::Error(error))), time);
        }
        let failed = |error: SealError| self.step_error(pass, None, error.to_string(), None);
        let limits = &self.runner.rewrites;
        let limited = match limits::limited(limits, before) {
            Ok(limited) => limited,
            Err(error) => return (Err(failed(error)), Duration::ZERO),
        };
        let start = Instant::now();
        let result = self.call(pass, info.granularity, &limited, &job.options);
        let time = start.elapsed();
        if limits.is_empty() {
            return (result, time);
        }
        let mut remarks = Vec::new();
        let result = result
            .and_then(|after| limits::unlimited(&info.name, (before, &limited), &after, &mut remarks).map_err(failed));
        self.services.said.borrow_mut().extend(remarks);
        (result, time)
    }

    /// Returns the result of a pass, with numbers for the created nodes if provenance is requested.
    fn numbered(&self, pass: PassId, before: &Module, after: Module) -> Result<Module, SealError> {
        let (engine, position) = (self.engine, self.position);
        let Some(provenance) = &self.provenance else { return Ok(after) };
        provenance.borrow_mut().after(before, after, || {
            let registry = engine.registry();
            let plugin = registry.pass_owner(pass).name.clone();
            let hash = engine.lock().hash_of(&plugin).map(str::to_string);
            Maker { position, pass: registry.pass(pass).name.clone(), plugin, hash }
        })
    }

    /// Returns an error if a pass reported an error but returned a module. `from` is the number of earlier reports.
    fn check_said(&self, pass: PassId, from: usize) -> Result<(), Error> {
        let errors = |said: &PassDiagnostic| said.severity == Severity::Error && said.instrument.is_none();
        let message = match self.services.said.borrow()[from..].iter().filter(|said| errors(said)).count() {
            0 => return Ok(()),
            1 => "reported an error".to_string(),
            n => format!("reported {n} errors"),
        };
        Err(self.step_error(pass, None, message, None))
    }

    /// Reports undeclared operators that this pass is the first to call.
    fn check_operators(
        &self,
        pass: PassId,
        affected: &[Affected<'_>],
        before: &Module,
        after: &Module,
    ) -> Result<(), Error> {
        let found = undeclared_among(affected, before, &self.rules());
        if found.is_empty() {
            return Ok(());
        }
        let shown = Shown::new(self.engine, after, "the module that the pass returned");
        let place = |undeclared: &UndeclaredOperator| shown.place(&undeclared.function, undeclared.node);
        if let Some(first) = found.first().filter(|_| self.runner.deny_unknown) {
            return Err(self.step_error(pass, Some(first.function.clone()), first.to_string(), place(first)));
        }
        let warnings = found.iter().map(|undeclared| PassDiagnostic {
            pass: self.engine.registry().pass(pass).name.clone(),
            instrument: None,
            severity: Severity::Warning,
            function: Some(undeclared.function.clone()),
            message: undeclared.to_string(),
            place: place(undeclared),
            labels: Vec::new(),
        });
        self.services.said.borrow_mut().extend(warnings);
        Ok(())
    }

    /// Verifies the result of a pass. Reports the first violation, whatever the number of threads.
    fn verify(&self, before: &Module, after: &Module, affected: &[Affected<'_>]) -> Result<(), Violation> {
        let rules = self.rules();
        verify_attributes(before, after, &rules)?;
        let check = |stretch: &[Affected<'_>]| {
            let rules = KnownCalls::new(&rules, stretch.len());
            stretch.iter().try_for_each(|it| it.check(after, &rules))
        };
        self.runner.workers.run(affected, check).into_iter().collect()
    }

    /// Checks that a pass did not write to its input. Undoes such writes.
    fn check_input(&mut self, pass: PassId, before: &Module, snapshot: &Snapshot) -> Result<(), Error> {
        let Some(written) = snapshot.written(before) else { return Ok(()) };
        self.mark(pass, "wrote to the input of");
        let message = self.put_back(snapshot, format!("wrote to {}", written.part));
        Err(self.step_error(pass, written.function, message, None))
    }

    /// Restores the module of a snapshot, and returns the message to report.
    pub(super) fn put_back(&mut self, snapshot: &Snapshot, message: String) -> String {
        match snapshot.restore() {
            Ok(module) => {
                self.ledger.recount(&module);
                self.set_module(module);
                message
            }
            Err(error) => format!("{message}, which cannot be undone: {error}"),
        }
    }

    /// Returns the inference rules in the form that the run uses.
    fn rules(&self) -> Rules<'_> {
        Rules { engine: self.engine, marks: self.services.marks }
    }
}

/// Returns true if modules differ in more than names of variables.
fn changed(before: &Module, after: &Module) -> bool {
    if before.same(after) {
        return false;
    }
    pairs(before, after).is_none() || !before.structural_eq(after)
}

#[cfg(test)]
mod tests {
    use crate::{Engine, Input, RunReport, Runner, create_module_pass};
    use passhost_lang::PassError;
    use passhost_lang::ir::Module;
    use passhost_lang::metadata::PassInfo;
    use registry::{Outcome, Pipeline, Plan, Request};
    use std::time::Duration;

    /// Runs `t.Asked` with a result that the pass `called` returned before the run. `t.Asked` fails if it is called.
    fn run(called: &str, result: impl FnOnce(Module) -> Result<Module, PassError>) -> (Module, RunReport) {
        let mut engine = Engine::default();
        let pass = create_module_pass(PassInfo::new("t.Asked"), |_, _| Err(PassError::new("was called")));
        engine.add_pass(pass).expect("a new name");
        let text = "@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    return x\n";
        let module = engine.read_module(&Input::text("a.py", text)).module.expect("a module");
        let request = Request { pipeline: Pipeline::parse("t.Asked").expect("a pipeline"), ..Request::default() };
        let plan = Plan::new(&request, engine.registry()).expect("a plan");
        let runner = Runner::new(&engine, Default::default());
        let runner = runner.called(called, result(module.clone()), Duration::from_secs(3));
        let report = runner.run(&plan, module.clone()).expect("a run");
        (module, report)
    }

    #[test]
    fn what_was_called_before_the_run_is_not_called_again() {
        let (module, report) = run("t.Asked", Ok);
        assert!(report.error.is_none() && report.module.same(&module));
        let steps: Vec<_> = report.steps.iter().map(|step| (&step.outcome, step.time.as_secs())).collect();
        assert_eq!(steps, [(&Outcome::Unchanged, 3)]);

        let (_, report) = run("t.Asked", |_| Ok(Module::new(Vec::<(String, passhost_lang::ir::Body)>::new())));
        assert!(report.error.is_none() && report.module.is_empty());
        assert_eq!(report.steps[0].outcome, Outcome::Changed);
    }

    #[test]
    fn what_it_failed_with_is_an_error_of_its_step() {
        let (module, report) = run("t.Asked", |_| Err(PassError::new("failed before")));
        assert!(report.module.same(&module));
        let error = report.error.expect("an error").to_string();
        assert!(error.contains("t.Asked") && error.ends_with("failed before"), "{error}");
    }

    #[test]
    fn what_another_pass_returned_is_not_taken() {
        let (_, report) = run("t.Other", Ok);
        let error = report.error.expect("an error").to_string();
        assert!(error.ends_with("was called"), "{error}");
    }
}
