//! Calls passes on the module or on its functions, and decides which results are accepted.

use super::PassDiagnostic;
use super::parallel::Named;
use super::services::Services;
use super::steps::Run;
use crate::engine::Engine;
use crate::engine::made::Code;
use crate::instruments::Speaking;
use crate::process::{self, Kind};
use crate::report::error::Error;
use passhost_lang::ir::{Body, BodyKind, Module, SealError};
use passhost_lang::metadata::{Granularity, OptionValue, PassInfo};
use passhost_lang::names::few_suggestions;
use plugin_api::abi::host::{RunFailure, with_current};
use plugin_api::declare::diagnostics::Severity;
use registry::{PassId, Registry};
use serde_json::json;
use std::sync::Arc;

impl Run<'_> {
    pub(super) fn call(
        &self,
        pass: PassId,
        granularity: Granularity,
        module: &Module,
        options: &[OptionValue],
    ) -> Result<Module, Error> {
        let (code, at) = (self.code(pass)?, self.engine.registry().pass_place(pass).1);
        if granularity == Granularity::Module {
            let _doing = doing(self.engine.registry(), pass, self.position, "");
            let result = with_current(self.services, self.runner.context.opt_level(), || {
                few_suggestions(|| code.run_module(at, module, options))
            });
            return result.map_err(|failure| self.failure(pass, None, module, failure));
        }
        let functions: Vec<(&str, &Body)> = module.functions().filter(|(_, body)| wants(granularity, body)).collect();
        let results = self.call_on_functions(pass, code, &functions, options);
        let (mut new, mut errors, mut more) = (Vec::with_capacity(functions.len()), Vec::new(), 0);
        for ((name, old), result) in functions.into_iter().zip(results) {
            if errors.len() == TOLD {
                more += usize::from(result.is_err());
                continue;
            }
            let result = result.map_err(|failure| self.failure(pass, Some(name), module, failure));
            match result.and_then(|body| self.fits(pass, granularity, (name, old), body, module)) {
                Ok(body) => new.push((name, body)),
                Err(error) => errors.push(error),
            }
        }
        self.several_failed(pass, errors, more)?;
        let mut new = new.into_iter().peekable();
        let with_new = module.map_functions(|name, body| match new.next_if(|(done, _)| *done == name) {
            Some((_, new)) => Ok::<_, SealError>(new),
            None => Ok(body.clone()),
        });
        with_new.map_err(|error| self.failure(pass, None, module, RunFailure::Protocol(error.to_string())))
    }

    fn code(&self, pass: PassId) -> Result<Code<'_>, Error> {
        let registry = self.engine.registry();
        let linked = self.runner.linked.filter(|plugin| plugin.name == registry.pass_owner(pass).name);
        let name = &registry.pass(pass).name;
        match linked.and_then(|plugin| plugin.passes.iter().find(|linked| linked.name == name)) {
            Some(linked) => Ok(Code::Linked(linked)),
            None => self.engine.code(registry.pass_place(pass).0),
        }
    }

    /// Reports the failures of a pass that visited all functions. Returns the first failure; the others become
    /// diagnostics of the pass. `more` is the number of further failures, which are only counted.
    fn several_failed(&self, pass: PassId, errors: Vec<Error>, more: usize) -> Result<(), Error> {
        let mut errors = errors.into_iter();
        let Some(first) = errors.next() else { return Ok(()) };
        let mut diagnostics = self.services.said.borrow_mut();
        diagnostics.extend(errors.filter_map(told_beside));
        if more > 0 {
            let (pass, message) =
                (self.engine.registry().pass(pass).name.clone(), format!("failed on {more} more functions"));
            let (instrument, function, place, labels) = (None, None, None, Vec::new());
            let severity = Severity::Error;
            diagnostics.push(PassDiagnostic { pass, instrument, severity, function, message, place, labels });
        }
        Err(first)
    }

    /// Returns the result of a pass for a function, after checking that it is of the right kind.
    fn fits(
        &self,
        pass: PassId,
        granularity: Granularity,
        (name, old): Named<'_>,
        body: Body,
        module: &Module,
    ) -> Result<Body, Error> {
        if granularity == Granularity::DataflowBlock {
            self.check_blocks(pass, (name, old), &body, module)?;
        }
        if old.kind() != body.kind() {
            let message = "returned a different kind of function".to_string();
            return Err(self.failure(pass, Some(name), module, RunFailure::Protocol(message)));
        }
        Ok(body)
    }

    /// Calls a pass on each function, on as many threads as the amount of work justifies. Diagnostics are in the order
    /// of the functions.
    fn call_on_functions(
        &self,
        pass: PassId,
        code: Code<'_>,
        functions: &[Named<'_>],
        options: &[OptionValue],
    ) -> Vec<Result<Body, RunFailure>> {
        let registry = self.engine.registry();
        let (info, at, step) = (registry.pass(pass), registry.pass_place(pass).1, self.position);
        let (engine, settings, input) = (self.engine, self.runner.context.settings(), self.services.input());
        let marks = self.services.marks;
        let outer = tracing::Span::current();
        let run = |functions: &[Named<'_>]| {
            let _entered = tracing::Span::current().is_none().then(|| outer.enter());
            let services = Services::new(engine, marks, settings, Speaking::default(), Arc::clone(&input));
            services.set_pass(&info.name);
            let only = if let [(name, _)] = functions { *name } else { "" };
            let _doing = doing(registry, pass, step, only);
            let work = || {
                with_current(&services, settings.opt_level, || {
                    traced(engine, info, functions, |functions| code.run_functions(at, functions, options))
                })
            };
            let results = settings.seen(|| few_suggestions(work));
            (results, services.said.into_inner(), services.counted.into_inner())
        };
        let stretches = if info.sequential { vec![run(functions)] } else { self.runner.workers.run(functions, run) };
        let mut all = Vec::with_capacity(functions.len());
        for (results, said, counted) in stretches {
            all.extend(results);
            self.services.said.borrow_mut().extend(said);
            self.services.counted.borrow_mut().extend(counted);
        }
        all
    }
}

/// Returns true if a pass of this granularity is called on the function.
pub(super) fn wants(granularity: Granularity, body: &Body) -> bool {
    match granularity {
        Granularity::Module | Granularity::Composite => true,
        Granularity::PrimFunc => body.kind() == BodyKind::PrimFunc && !skips(body),
        _ => body.kind() == BodyKind::Function && !skips(body),
    }
}

/// Returns true if passes must not change the function.
pub(super) fn skips(body: &Body) -> bool {
    body.function().is_some_and(|function| function.skips_optimization())
}

/// Records, for the crash handler, that a step starts.
pub(super) fn begins(registry: &Registry, pass: PassId, step: usize) -> process::Doing {
    process::begin(&noted(registry, Kind::Step, pass, step, ""))
}

/// Records that a pass runs on this thread, and the function on which it runs, if known.
fn doing<'a>(registry: &'a Registry, pass: PassId, step: usize, about: &'a str) -> process::Doing {
    process::begin_pass(about, |about| noted(registry, Kind::Pass, pass, step, about))
}

fn noted<'a>(registry: &'a Registry, kind: Kind, pass: PassId, step: usize, about: &'a str) -> process::Call<'a> {
    let (owner, name) = (registry.pass_owner(pass), &registry.pass(pass).name);
    let file = owner.file.as_ref().map_or(&b""[..], |file| file.as_os_str().as_encoded_bytes());
    process::Call { kind, step, name, plugin: &owner.name, file, about }
}

/// Runs a pass over consecutive functions. When a trace is recorded, the range and each function get a span, so a plugin is called once per
/// function, unless the pass needs all functions at once.
fn traced(
    engine: &Engine,
    info: &PassInfo,
    functions: &[Named<'_>],
    mut run: impl FnMut(&[Named<'_>]) -> Vec<Result<Body, RunFailure>>,
) -> Vec<Result<Body, RunFailure>> {
    let Some(_span) = engine.span("stretch", &info.name, || json!({ "functions": functions.len() })) else {
        return run(functions);
    };
    if info.sequential {
        return run(functions);
    }
    let one = |function: &Named<'_>| {
        let _span = engine.span("function", function.0, || json!({ "pass": info.name }));
        run(std::slice::from_ref(function))
    };
    functions.iter().flat_map(one).collect()
}

/// Maximum number of failures of one pass that are reported separately, because locating a failure needs the text of
/// the whole module.
const TOLD: usize = 10;

/// Turns a failure in a further function into a diagnostic of the pass.
fn told_beside(error: Error) -> Option<PassDiagnostic> {
    let Error::Step { pass, function, message, place, .. } = error else { return None };
    let (instrument, severity, labels) = (None, Severity::Error, Vec::new());
    Some(PassDiagnostic { pass, instrument, severity, function, message, place, labels })
}
