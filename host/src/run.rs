//! Runs a plan over a module: one pass after the other, each changed function verified.

use crate::engine::Engine;
use crate::error::Error;
use crate::verify::{Violation, verify_changed};
use plugin_api::abi::host::{Diagnostic, HostServices, RunFailure, with_current};
use plugin_api::ir::{Body, BodyKind, Call, Module};
use plugin_api::meta::{Granularity, OptionValue};
use plugin_api::op::{Infer, InferError, Inferred};
use plugin_api::pass::Severity;
use registry::{Driver, PassId, Plan, StepRun};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A step that was run or passed over, with what it cost.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// What the driver says of it.
    pub step: StepRun,
    /// Time in the pass.
    pub time: Duration,
    /// Time to verify what it changed.
    pub verify: Duration,
    /// Bindings before and after.
    pub bindings: (usize, usize),
}

/// A diagnostic that a pass reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassDiagnostic {
    /// Full name of the pass.
    pub pass: String,
    /// How bad it is.
    pub severity: Severity,
    /// Function that it is about.
    pub function: Option<String>,
    /// What it says.
    pub message: String,
    /// What the text shows, the text, and the place in it.
    pub place: Option<ShownPlace>,
}

/// A place in a printed module: what is shown, the text, and the range in it.
pub type ShownPlace = (String, String, std::ops::Range<usize>);

/// What a run gave.
#[derive(Debug)]
pub struct RunReport {
    /// The module after the last step that succeeded.
    pub module: Module,
    /// Steps in the order in which they were looked at.
    pub steps: Vec<StepReport>,
    /// Diagnostics of passes.
    pub diagnostics: Vec<PassDiagnostic>,
    /// What the driver noticed.
    pub warnings: Vec<String>,
    /// What stopped the run, if anything did.
    pub error: Option<Error>,
}

/// Runs plans.
pub struct Runner<'e> {
    engine: &'e Engine,
    config: BTreeMap<String, OptionValue>,
    opt_level: i32,
    pass: RefCell<String>,
    diagnostics: RefCell<Vec<PassDiagnostic>>,
    current: RefCell<Module>,
    position: Cell<usize>,
}

impl HostServices for Runner<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        self.engine.infer(call)
    }

    fn print(&self, body: &Body) -> String {
        script::print_function("main", body, self.engine)
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.config.get(key).cloned()
    }

    fn pass_name(&self) -> String {
        self.pass.borrow().clone()
    }

    fn target(&self) -> Option<String> {
        // A run over Relax has no target.
        None
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        let place = diagnostic
            .function
            .zip(diagnostic.node)
            .and_then(|(function, node)| self.place(&self.current.borrow(), function, node, "before the pass"));
        self.diagnostics.borrow_mut().push(PassDiagnostic {
            pass: self.pass_name(),
            severity: diagnostic.severity,
            function: diagnostic.function.map(str::to_string),
            message: diagnostic.message.to_string(),
            place,
        });
    }
}

/// Time and bindings of the pass that ran last.
struct Cost {
    time: Duration,
    verify: Duration,
    bindings: (usize, usize),
}

impl<'e> Runner<'e> {
    /// A runner with the config values of a run.
    pub fn new(engine: &'e Engine, config: BTreeMap<String, OptionValue>) -> Runner<'e> {
        Runner {
            engine,
            config,
            opt_level: registry::plan::DEFAULT_OPT_LEVEL,
            pass: RefCell::default(),
            diagnostics: RefCell::default(),
            current: RefCell::new(Module::new(Vec::<(String, Body)>::new())),
            position: Cell::new(0),
        }
    }

    /// Runs a plan. Plugins of the plan are opened before the first step.
    ///
    /// # Errors
    /// If a plugin cannot be opened; what stops a later step is in the report.
    pub fn run(mut self, plan: &Plan, module: Module) -> Result<RunReport, Error> {
        self.opt_level = plan.opt_level;
        let registry = self.engine.registry();
        self.engine.open_for(&plan.passes(registry))?;
        *self.current.borrow_mut() = module;
        let mut driver = Driver::new(registry);
        let mut steps = Vec::new();
        let cost = Cell::new(None);
        let mut run = |pass: PassId, options: &[OptionValue]| {
            let (changed, spent) = self.pass(pass, options)?;
            cost.set(Some(spent));
            Ok::<bool, Error>(changed)
        };
        let mut done = |step: StepRun| {
            let n = self.current.borrow().n_bindings();
            let spent = cost.take().unwrap_or(Cost { time: Duration::ZERO, verify: Duration::ZERO, bindings: (n, n) });
            steps.push(StepReport { step, time: spent.time, verify: spent.verify, bindings: spent.bindings });
        };
        let result = driver.run(plan, &mut run, &mut done);
        Ok(RunReport {
            module: self.current.borrow().clone(),
            steps,
            diagnostics: self.diagnostics.take(),
            warnings: driver.warnings().to_vec(),
            error: result.err(),
        })
    }

    /// Runs one pass; says whether the module changed in more than names.
    fn pass(&self, pass: PassId, options: &[OptionValue]) -> Result<(bool, Cost), Error> {
        let info = self.engine.registry().pass(pass);
        self.position.set(self.position.get() + 1);
        *self.pass.borrow_mut() = info.name.clone();
        let span = tracing::info_span!("pass", name = %info.name);
        let _entered = span.enter();
        let before = self.current.borrow().clone();
        let start = Instant::now();
        let after = with_current(self, self.opt_level, || self.call(pass, info.granularity, &before, options))?;
        let time = start.elapsed();
        let start = Instant::now();
        verify_changed(&before, &after, self.engine).map_err(|violation| self.violation(pass, &after, &violation))?;
        let verify = start.elapsed();
        let changed = changed(&before, &after);
        let bindings = (before.n_bindings(), after.n_bindings());
        tracing::debug!(changed, ?time, "done");
        *self.current.borrow_mut() = after;
        Ok((changed, Cost { time, verify, bindings }))
    }

    fn call(
        &self,
        pass: PassId,
        granularity: Granularity,
        module: &Module,
        options: &[OptionValue],
    ) -> Result<Module, Error> {
        let (owner, at) = self.engine.registry().pass_place(pass);
        let plugin = self.engine.open(owner)?;
        if granularity == Granularity::Module {
            return plugin.run_module(at, module, options).map_err(|failure| self.failed(pass, None, module, failure));
        }
        let wanted = if granularity == Granularity::PrimFunc { BodyKind::PrimFunc } else { BodyKind::Function };
        let skips = |body: &Body| body.function().is_some_and(|function| function.skips_optimization());
        let functions: Vec<(&str, &Body)> =
            module.functions().filter(|(_, body)| body.kind() == wanted && !skips(body)).collect();
        let results = plugin.run_functions(at, &functions, options);
        let mut new = Vec::with_capacity(functions.len());
        for ((name, old), result) in functions.into_iter().zip(results) {
            let body = result.map_err(|failure| self.failed(pass, Some(name), module, failure))?;
            if old.kind() != body.kind() {
                let message = "gave back a function of another kind".to_string();
                return Err(self.failed(pass, Some(name), module, RunFailure::Protocol(message)));
            }
            new.push((name, body));
        }
        let mut new = new.into_iter().peekable();
        module.map_functions(|name, body| match new.next_if(|(done, _)| *done == name) {
            Some((_, new)) => Ok(new),
            None => Ok(body.clone()),
        })
    }

    fn failed(&self, pass: PassId, function: Option<&str>, module: &Module, failure: RunFailure) -> Error {
        let (message, node, named) = match failure {
            RunFailure::Error(error) => (error.message, error.node, error.function),
            RunFailure::Panic(text) => (format!("panicked: {text}"), None, None),
            RunFailure::Protocol(text) => (text, None, None),
        };
        let function = named.or_else(|| function.map(str::to_string));
        let place =
            function.as_ref().zip(node).and_then(|(name, node)| self.place(module, name, node, "before the pass"));
        self.step_error(pass, function, message, place)
    }

    fn violation(&self, pass: PassId, after: &Module, violation: &Violation) -> Error {
        let place = self.place(after, &violation.function, violation.node, "what the pass returned");
        let message = format!("returned an ill-formed module: {}", violation.message);
        self.step_error(pass, Some(violation.function.clone()), message, place)
    }

    fn step_error(&self, pass: PassId, function: Option<String>, message: String, place: Option<ShownPlace>) -> Error {
        let registry = self.engine.registry();
        let owner = registry.pass_owner(pass);
        Error::Step {
            position: self.position.get(),
            pass: registry.pass(pass).name.clone(),
            plugin: owner.name.clone(),
            file: owner.file.clone(),
            function,
            message,
            place,
            kept: None,
        }
    }

    /// A node in the printed module.
    fn place(&self, module: &Module, function: &str, node: usize, what: &str) -> Option<ShownPlace> {
        let printed = script::print_with_spans(module, self.engine);
        let span = printed.spans.get(function)?.get(node)?.clone();
        let what = format!("<{what}>");
        (!span.is_empty()).then_some((what, printed.text, span))
    }
}

/// Whether anything but names of variables differs.
fn changed(before: &Module, after: &Module) -> bool {
    if before.same(after) {
        return false;
    }
    let same_names = before.len() == after.len() && before.functions().zip(after.functions()).all(|(a, b)| a.0 == b.0);
    !same_names || !before.structural_eq(after)
}
