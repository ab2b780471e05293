//! The services of the host for passes, checkers and instruments, on any thread.

use super::execute::evaluate::Evaluations;
use super::ledger::statistics::Counters;
use super::marks::{Marks, Rules};
use super::shown::Shown;
use super::{PassDiagnostic, ShownPlace};
use crate::context::Settings;
use crate::engine::Engine;
use crate::instruments::Speaking;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OptionValue;
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use plugin_api::abi::host::{Diagnostic, HostServices, Wanted};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::services::evaluation::{Evaluated, EvaluationError, EvaluationLimits};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// The services of the host for plugin code on one thread: for instruments, checkers and module passes during a run, and for each stretch
/// of functions. Collects reports and counts.
pub(super) struct Services<'a> {
    engine: &'a Engine,
    pub(super) marks: &'a Marks,
    settings: &'a Settings,
    /// Full name of the current pass.
    pass: RefCell<String>,
    /// The name of the instrument that is being called.
    speaking: Speaking,
    /// The module in which places are looked up. All threads of a run share it, so that the module is printed at most
    /// once.
    input: RefCell<Arc<Input>>,
    /// The reported diagnostics.
    pub(super) said: RefCell<Vec<PassDiagnostic>>,
    /// True if the last diagnostic was kept. New labels are then added to it.
    labelled: Cell<bool>,
    pub(super) counted: RefCell<Counters>,
}

impl<'a> Services<'a> {
    /// Creates services without any reports.
    pub(super) fn new(
        engine: &'a Engine,
        marks: &'a Marks,
        settings: &'a Settings,
        speaking: Speaking,
        input: Arc<Input>,
    ) -> Services<'a> {
        let (pass, said, labelled, counted) = Default::default();
        Services { engine, marks, settings, pass, speaking, input: RefCell::new(input), said, labelled, counted }
    }

    /// Sets the current pass.
    pub(super) fn set_pass(&self, name: &str) {
        *self.pass.borrow_mut() = name.to_string();
    }

    /// Sets the module in which places are looked up.
    pub(super) fn see(&self, module: &Module) {
        let mut input = self.input.borrow_mut();
        if !input.module.same(module) {
            *input = Arc::new(Input::new(module.clone()));
        }
    }

    pub(super) fn input(&self) -> Arc<Input> {
        Arc::clone(&self.input.borrow())
    }

    /// Returns the place of a diagnostic or label.
    fn place(&self, diagnostic: &Diagnostic<'_>) -> Option<ShownPlace> {
        let (function, node) = diagnostic.function.zip(diagnostic.node)?;
        self.input().place(self.engine, function, node)
    }
}

/// The diagnostics that were already forwarded.
#[derive(Default)]
pub(super) struct Heard {
    n: usize,
    /// Forwarded warnings that are not about a function.
    of_all: HashSet<PassDiagnostic>,
}

impl Heard {
    /// Forwards new diagnostics. Drops repeated warnings that are not about a function, because each call of a pass emits them again.
    pub(super) fn hear(&mut self, services: &Services<'_>, hears: Option<&dyn Fn(&PassDiagnostic)>) {
        let mut said = services.said.borrow_mut();
        let mut new = said.split_off(self.n);
        new.retain(|new| {
            let is_of_all = new.function.is_none() && new.place.is_none() && new.severity == Severity::Warning;
            !is_of_all || self.of_all.insert(new.clone())
        });
        said.append(&mut new);
        drop(said);
        let said = services.said.borrow();
        hears.into_iter().for_each(|hears| said[self.n..].iter().for_each(hears));
        self.n = said.len();
    }
}

/// Returns true if diagnostics of this severity are shown only on request.
fn is_on_request(severity: Severity) -> bool {
    matches!(severity, Severity::Missed | Severity::Matched)
}

/// A module on which passes run, its evaluations, and, once a place in it has been reported, its text.
pub(super) struct Input {
    module: Module,
    shown: OnceLock<Shown>,
    evaluations: OnceLock<Evaluations>,
}

impl Input {
    pub(super) fn new(module: Module) -> Input {
        Input { module, shown: OnceLock::new(), evaluations: OnceLock::new() }
    }

    fn place(&self, engine: &Engine, function: &str, node: usize) -> Option<ShownPlace> {
        self.shown.get_or_init(|| Shown::new(engine, &self.module, "before the pass")).place(function, node)
    }

    fn evaluate(
        &self,
        engine: &Engine,
        function: &Body,
        limits: EvaluationLimits,
    ) -> Result<Evaluated, EvaluationError> {
        self.evaluations.get_or_init(Evaluations::default).evaluate(engine, &self.module, function, limits)
    }
}

impl HostServices for Services<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        Rules { engine: self.engine, marks: self.marks }.infer(call)
    }

    fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        self.engine.legalize(call)
    }

    fn evaluate(&self, function: &Body, limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
        self.input().evaluate(self.engine, function, limits)
    }

    fn print(&self, body: &Body) -> String {
        self.engine.text_of_body(body)
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.settings.config(key, self.engine)
    }

    fn pass_name(&self) -> String {
        self.pass.borrow().clone()
    }

    fn run(&self) -> Option<u64> {
        Some(self.marks.run())
    }

    fn target(&self) -> Option<String> {
        self.settings.target()
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        let shown = !is_on_request(diagnostic.severity) || self.settings.missed.shows(&self.pass.borrow());
        self.labelled.set(shown);
        if !shown {
            return;
        }
        self.said.borrow_mut().push(PassDiagnostic {
            pass: self.pass_name(),
            instrument: self.speaking.borrow().as_deref().map(str::to_string),
            severity: diagnostic.severity,
            function: diagnostic.function.map(str::to_string),
            message: diagnostic.message.to_string(),
            place: self.place(diagnostic),
            labels: Vec::new(),
        });
    }

    fn label(&self, label: &Diagnostic<'_>) {
        if let Some(said) = self.said.borrow_mut().last_mut().filter(|_| self.labelled.get()) {
            said.label(self.place(label), label.message);
        }
    }

    fn wanted(&self, function: Option<&str>) -> Wanted {
        self.settings.missed.of(&self.pass.borrow(), function)
    }

    fn statistic(&self, name: &str, n: u64) {
        let (speaking, pass) = (self.speaking.borrow(), self.pass.borrow());
        self.counted.borrow_mut().add(speaking.as_deref().unwrap_or(&pass), name, n);
    }

    fn show_module(&self, module: &Module, header: &str) {
        let pass = self.pass_name();
        let _span = self.engine.span("print", "print the module", || json!({ "pass": pass }));
        self.engine.show_module(module, &format!("{pass}: {header}"));
    }
}
