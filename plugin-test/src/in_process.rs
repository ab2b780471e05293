//! Runs a plan as the host does, but passes of the tested plugin as functions of this process.

use crate::Tested;
use crate::outcome::{Failure, Run, diagnostic};
use passhost::verify::declared_form::in_declared_form;
use passhost::verify::{undeclared_operators, verify_changed};
use plugin_api::abi::host::{Diagnostic, HostServices, RunFailure, with_current};
use plugin_api::abi::in_process;
use plugin_api::declare::declarations::PassDecl;
use plugin_api::ir::{Body, BodyKind, Call, Module};
use plugin_api::metadata::{Granularity, OptionValue};
use plugin_api::typing::operators::{Infer, InferError, Inferred};
use registry::{Driver, PassId, Plan, Todo};
use std::cell::RefCell;

pub(crate) struct InProcess<'t> {
    tested: &'t Tested,
    opt_level: i32,
    pass: RefCell<String>,
    said: RefCell<Vec<String>>,
}

/// Why a run ends: a pass failed, or the test cannot go on.
enum Stop {
    Failure(Failure),
    Problem(String),
}

impl HostServices for InProcess<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        self.tested.engine.infer(call)
    }

    fn print(&self, body: &Body) -> String {
        let text = script::print_function("main", body, &self.tested.engine);
        text.unwrap_or_else(|error| format!("# {error}\n"))
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.tested.engine.registry().config(key).and_then(|(info, _)| info.default.clone())
    }

    fn pass_name(&self) -> String {
        self.pass.borrow().clone()
    }

    fn target(&self) -> Option<String> {
        None
    }

    fn diagnose(&self, found: &Diagnostic<'_>) {
        self.said.borrow_mut().push(diagnostic(&self.pass.borrow(), found.function, found.message));
    }
}

impl<'t> InProcess<'t> {
    pub(crate) fn new(tested: &'t Tested, opt_level: i32) -> InProcess<'t> {
        InProcess { tested, opt_level, pass: RefCell::default(), said: RefCell::default() }
    }

    /// Runs a plan.
    ///
    /// # Errors
    /// If a plugin that the plan needs cannot be opened.
    pub(crate) fn run(self, plan: &Plan, module: Module) -> Result<Run, String> {
        let mut current = module;
        let mut driver = Driver::new(self.tested.engine.registry(), plan);
        while let Some(todo) = driver.next() {
            let Todo::Run(job) = todo else { continue };
            match self.pass(job.pass, &current, &job.options) {
                Ok(after) => {
                    driver.done(!current.structural_eq(&after));
                    current = after;
                }
                Err(Stop::Failure(failure)) => return Ok(Run { result: Err(failure), said: self.said.take() }),
                Err(Stop::Problem(problem)) => return Err(problem),
            }
        }
        Ok(Run { result: Ok(current), said: self.said.take() })
    }

    fn pass(&self, pass: PassId, before: &Module, options: &[OptionValue]) -> Result<Module, Stop> {
        let info = self.tested.engine.registry().pass(pass);
        *self.pass.borrow_mut() = info.name.clone();
        let after = with_current(self, self.opt_level, || match info.granularity {
            Granularity::Module => self.module(pass, before, options),
            Granularity::PrimFunc => self.functions(pass, BodyKind::PrimFunc, before, options),
            _ => self.functions(pass, BodyKind::Function, before, options),
        })?;
        let after = in_declared_form(before, after, &self.tested.engine)
            .map_err(|(function, why)| self.failure(Some(&function), why.to_string()))?;
        verify_changed(before, &after, &self.tested.engine).map_err(|violation| {
            let message = format!("returned an ill-formed module: {}", violation.message);
            self.failure(Some(&violation.function), message)
        })?;
        match undeclared_operators(before, &after, &self.tested.engine).first() {
            Some(undeclared) => Err(self.failure(Some(&undeclared.function), undeclared.to_string())),
            None => Ok(after),
        }
    }

    fn failure(&self, function: Option<&str>, message: String) -> Stop {
        let function = function.map(str::to_string);
        Stop::Failure(Failure { pass: self.pass_name(), function, message })
    }

    fn failed(&self, function: Option<&str>, failure: RunFailure) -> Stop {
        match failure {
            RunFailure::Error(error) => self.failure(error.function.as_deref().or(function), error.message),
            RunFailure::Panic(text) => self.failure(function, format!("panicked: {text}")),
            RunFailure::Protocol(text) => self.failure(function, text),
        }
    }

    /// The pass in this process, if it is one of the tested plugin.
    fn own(&self, pass: PassId) -> Option<&'static PassDecl> {
        let registry = self.tested.engine.registry();
        let is_own = registry.pass_owner(pass).name == self.tested.plugin.name;
        let name = &registry.pass(pass).name;
        self.tested.plugin.passes.iter().copied().find(|own| is_own && own.name == name)
    }

    fn module(&self, pass: PassId, module: &Module, options: &[OptionValue]) -> Result<Module, Stop> {
        let result = match self.own(pass) {
            Some(own) => in_process::run_module(own, module, options),
            None => self.open(pass)?.run_module(self.place(pass).1, module, options),
        };
        result.map_err(|failure| self.failed(None, failure))
    }

    fn functions(
        &self,
        pass: PassId,
        kind: BodyKind,
        module: &Module,
        options: &[OptionValue],
    ) -> Result<Module, Stop> {
        let skips = |body: &Body| body.function().is_some_and(|function| function.skips_optimization());
        let wanted = module.functions().filter(|(_, body)| body.kind() == kind && !skips(body));
        let functions: Vec<(&str, &Body)> = wanted.collect();
        let results = match self.own(pass) {
            Some(own) => in_process::run_functions(own, &functions, options),
            None => self.open(pass)?.run_functions(self.place(pass).1, &functions, options),
        };
        let mut edit = module.edit();
        for ((name, _), result) in functions.into_iter().zip(results) {
            edit.set(name, result.map_err(|failure| self.failed(Some(name), failure))?);
        }
        Ok(edit.finish())
    }

    fn place(&self, pass: PassId) -> (registry::OwnerId, usize) {
        self.tested.engine.registry().pass_place(pass)
    }

    fn open(&self, pass: PassId) -> Result<plugin_api::abi::host::OpenPlugin, Stop> {
        self.tested.engine.open(self.place(pass).0).map_err(|error| Stop::Problem(crate::text(&error)))
    }
}
