//! The services of the host for passes, checkers and instruments, on any thread.

use super::execute::evaluate::Evaluations;
use super::marks::{Marks, Rules};
use super::statistics::Counters;
use super::{PassDiagnostic, ShownPlace};
use crate::context::{PassContext, Settings};
use crate::engine::Engine;
use crate::instruments::Speaking;
use crate::report::said::Statistic;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OptionValue;
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use plugin_api::abi::host::{Diagnostic, HostServices, Wanted};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::services::evaluation::{Evaluated, EvaluationError, EvaluationLimits};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// The services of the host for plugin code during one call, on one thread.
pub(super) struct Services<'a> {
    pub(super) engine: &'a Engine,
    pub(super) marks: &'a Marks,
    pub(super) settings: &'a Settings,
    /// Full name of the pass.
    pub(super) pass: &'a str,
    /// Full name of the instrument that is being called.
    pub(super) instrument: Option<String>,
    /// The module in which places are looked up, shared by all threads of a run.
    pub(super) input: &'a Input,
    /// The reported diagnostics.
    pub(super) said: RefCell<Vec<PassDiagnostic>>,
    /// True if the last diagnostic was kept, so that new labels are added to it.
    labelled: Cell<bool>,
    /// The counters.
    pub(super) counted: RefCell<Counters>,
}

impl<'a> Services<'a> {
    /// Creates services without any reports.
    pub(super) fn new(
        engine: &'a Engine,
        marks: &'a Marks,
        settings: &'a Settings,
        pass: &'a str,
        instrument: Option<String>,
        input: &'a Input,
    ) -> Services<'a> {
        let (said, counted, labelled) = Default::default();
        Services { engine, marks, settings, pass, instrument, input, said, labelled, counted }
    }

    /// Returns the place of a diagnostic or label.
    fn place(&self, diagnostic: &Diagnostic<'_>) -> Option<ShownPlace> {
        let (function, node) = diagnostic.function.zip(diagnostic.node)?;
        self.input.place(self.engine, function, node)
    }
}

/// Returns true if diagnostics of this severity are shown only on request.
fn is_on_request(severity: Severity) -> bool {
    matches!(severity, Severity::Missed | Severity::Matched)
}

/// A module on which passes run, with its text, once a place in it is reported, and its evaluations.
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

/// A printed module, in which places are shown.
pub(super) struct Shown {
    what: String,
    text: Arc<str>,
    spans: BTreeMap<String, Vec<Range<usize>>>,
}

impl Shown {
    /// Prints a module. `what` describes which one it is.
    pub(super) fn new(engine: &Engine, module: &Module, what: &str) -> Shown {
        // If a module cannot be printed, its nodes do not have places.
        let printed = script::print_shown(module, engine);
        let (text, spans) = printed.map_or_else(|_| Default::default(), |printed| (printed.text, printed.spans));
        Shown { what: format!("<{what}>"), text: text.into(), spans }
    }

    /// Returns the place of a node, if it has one.
    pub(super) fn place(&self, function: &str, node: usize) -> Option<ShownPlace> {
        let span = self.spans.get(function)?.get(node)?.clone();
        (!span.is_empty()).then(|| (self.what.clone(), Arc::clone(&self.text), span))
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
        self.input.evaluate(self.engine, function, limits)
    }

    fn print(&self, body: &Body) -> String {
        let text = script::print_function("main", body, self.engine);
        text.unwrap_or_else(|error| format!("# {error}\n"))
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.settings.config(key, self.engine)
    }

    fn pass_name(&self) -> String {
        self.pass.to_string()
    }

    fn run(&self) -> Option<u64> {
        Some(self.marks.run())
    }

    fn target(&self) -> Option<String> {
        self.settings.target()
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        let shown = !is_on_request(diagnostic.severity) || self.settings.missed.shows(self.pass);
        self.labelled.set(shown);
        if !shown {
            return;
        }
        self.said.borrow_mut().push(PassDiagnostic {
            pass: self.pass_name(),
            instrument: self.instrument.clone(),
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
        self.settings.missed.of(self.pass, function)
    }

    fn statistic(&self, name: &str, n: u64) {
        let whose = self.instrument.as_deref().unwrap_or(self.pass);
        self.counted.borrow_mut().add(whose, name, n);
    }

    fn show_module(&self, module: &Module, header: &str) {
        let _span = self.engine.span("print", "print the module", || json!({ "pass": self.pass }));
        let header = format!("{}: {}", self.pass, passhost_lang::names::visible::visible(header));
        let mut text: String = header.lines().map(|line| format!("# {}\n", line.trim_end())).collect();
        text.push_str(&script::print(module, self.engine).unwrap_or_else(|error| format!("# {error}\n")));
        text.push('\n');
        self.engine.print(&text);
    }
}

/// The services of the host for instruments and checkers between passes. Collects what was reported and counted.
pub(super) struct RunServices<'r> {
    engine: &'r Engine,
    settings: Arc<Settings>,
    /// The instrument that is being called.
    speaking: Speaking,
    pub(super) marks: Marks,
    /// Full name of the current pass.
    pass: RefCell<String>,
    /// The module in which places are looked up. It is printed at most once.
    input: RefCell<Rc<Input>>,
    pub(super) said: RefCell<Vec<PassDiagnostic>>,
    /// Like the field of the same name in [`Services`].
    labelled: Cell<bool>,
    /// Counters of passes, not summed.
    pub(super) counted: RefCell<Vec<Statistic>>,
}

impl<'r> RunServices<'r> {
    pub(super) fn new(engine: &'r Engine, context: &PassContext, module: &Module) -> RunServices<'r> {
        RunServices {
            engine,
            settings: Arc::clone(context.settings()),
            speaking: context.speaking(),
            marks: Marks::default(),
            pass: RefCell::default(),
            input: RefCell::new(Rc::new(Input::new(module.clone()))),
            said: RefCell::default(),
            labelled: Cell::default(),
            counted: RefCell::default(),
        }
    }

    /// Sets the current pass.
    pub(super) fn set_pass(&self, name: &str) {
        *self.pass.borrow_mut() = name.to_string();
    }

    /// Sets the module in which places are looked up.
    pub(super) fn see(&self, module: &Module) {
        let mut input = self.input.borrow_mut();
        if !input.module.same(module) {
            *input = Rc::new(Input::new(module.clone()));
        }
    }

    pub(super) fn input(&self) -> Rc<Input> {
        Rc::clone(&self.input.borrow())
    }

    /// Runs `f` with the current services, and keeps what it reports.
    pub(super) fn with<R>(&self, f: impl FnOnce(&Services<'_>) -> R) -> R {
        let (pass, input) = (self.pass.borrow().clone(), self.input());
        let instrument = self.speaking.borrow().as_deref().map(str::to_string);
        let services = Services::new(self.engine, &self.marks, &self.settings, &pass, instrument, &input);
        let result = f(&services);
        self.said.borrow_mut().append(&mut services.said.take());
        self.counted.borrow_mut().append(&mut services.counted.take().into_list());
        result
    }
}

impl HostServices for RunServices<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        Rules { engine: self.engine, marks: &self.marks }.infer(call)
    }

    fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        self.engine.legalize(call)
    }

    fn evaluate(&self, function: &Body, limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
        self.input().evaluate(self.engine, function, limits)
    }

    fn print(&self, body: &Body) -> String {
        self.with(|services| services.print(body))
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.with(|services| services.config(key))
    }

    fn pass_name(&self) -> String {
        self.pass.borrow().clone()
    }

    fn run(&self) -> Option<u64> {
        Some(self.marks.run())
    }

    fn target(&self) -> Option<String> {
        self.with(|services| services.target())
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        let before = self.said.borrow().len();
        self.with(|services| services.diagnose(diagnostic));
        self.labelled.set(self.said.borrow().len() > before);
    }

    fn label(&self, label: &Diagnostic<'_>) {
        if self.labelled.get() {
            let place = self.with(|services| services.place(label));
            self.said.borrow_mut().last_mut().into_iter().for_each(|said| said.label(place.clone(), label.message));
        }
    }

    fn wanted(&self, function: Option<&str>) -> Wanted {
        self.with(|services| services.wanted(function))
    }

    fn statistic(&self, name: &str, n: u64) {
        self.with(|services| services.statistic(name, n));
    }

    fn show_module(&self, module: &Module, header: &str) {
        self.with(|services| services.show_module(module, header));
    }
}
