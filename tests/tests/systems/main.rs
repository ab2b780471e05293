//! Tests, with the real engine, the systems that passhost re-creates, as the Relay and Relax documents describe
//! them. Also tests the rows of the planner that need an engine. The passes are created at run time, so no plugin is
//! built.
#![forbid(unsafe_code)]

mod system_1_pass_info;
mod system_2_pass_context;
mod system_3_config;
mod system_4_granularities;
mod system_5_skip_optimization;
mod system_6_registry;
mod system_7_instruments;
mod system_8_built_in_instruments;

use passhost::{Engine, Error, Instrument, MadePass, Pass, PassContext, create_function_pass, create_module_pass};
use plugin_api::PassError;
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use plugin_api::ir::Module;
use plugin_api::metadata::{Allowed, ConfigInfo, OptionType, OptionValue, PassInfo, Required};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// The recorded events in order; passes write to it from any thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().expect("no panic").push(line.into());
    }

    /// Returns all events and clears the log.
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().expect("no panic")).join(" ")
    }
}

/// Returns the description of a pass.
fn info(name: &str, opt_level: i32, required: &[&str]) -> PassInfo {
    let required = required.iter().map(|name| Required::parse(name).expect("an entry")).collect();
    PassInfo { opt_level, required, ..PassInfo::new(name) }
}

/// Returns a module pass that changes nothing and records its name in `log`.
fn noted(name: &str, opt_level: i32, required: &[&str], log: &Log) -> MadePass {
    let (log, own) = (log.clone(), name.to_string());
    create_module_pass(info(name, opt_level, required), move |module, _| {
        log.add(&own);
        Ok(module.clone())
    })
}

/// Returns a function pass that fails.
fn failing(name: &str) -> MadePass {
    create_function_pass(info(name, 0, &[]), |body, _| match body.bindings().next() {
        Some(value) => Err(PassError::new("does not like it").at(value)),
        None => Err(PassError::new("finds nothing")),
    })
}

fn engine(passes: impl IntoIterator<Item = MadePass>) -> Arc<Engine> {
    let mut engine = Engine::default();
    for pass in passes {
        engine.add_pass(pass).expect("a new name");
    }
    let limit = ConfigInfo {
        name: "t.limit".to_string(),
        ty: OptionType::Int,
        default: Some(OptionValue::Int(4)),
        allowed: Allowed::Range(Some(OptionValue::Int(0)), Some(OptionValue::Int(16))),
        doc: "How many at most.".to_string(),
    };
    engine.add_config(limit).expect("a new key");
    Arc::new(engine)
}

fn pass(engine: &Arc<Engine>, name: &str) -> Pass {
    Pass::find(engine, name).expect("it was added")
}

const TENSOR: &str = "R.Tensor((2,), dtype=\"float32\")";

/// Returns a module of functions, each with one dataflow block, without operators.
fn module(engine: &Engine, functions: &[&str]) -> Module {
    let function = |name: &&str| {
        format!(
            "    @R.function\n    def {name}(x: {TENSOR}) -> {TENSOR}:\n        with R.dataflow():\n            \
             lv: {TENSOR} = x\n            gv: {TENSOR} = lv\n            R.output(gv)\n        return gv\n"
        )
    };
    read(engine, &functions.iter().map(function).collect::<Vec<_>>().join("\n"))
}

fn read(engine: &Engine, functions: &str) -> Module {
    script::read(&format!("@I.ir_module\nclass Module:\n{functions}"), engine).expect("a module")
}

/// An instrument that records its calls, and fails in one event.
struct Watcher {
    name: &'static str,
    fails: &'static str,
    log: Rc<RefCell<Log>>,
}

impl Watcher {
    fn told(&self, event: &str, pass: &str) -> Result<(), PassError> {
        self.log.borrow().add(if pass.is_empty() {
            format!("{}.{event}", self.name)
        } else {
            format!("{}.{event}:{}", self.name, pass.trim_start_matches("t."))
        });
        if self.fails == event { Err(PassError::new("no")) } else { Ok(()) }
    }
}

impl PassInstrument for Watcher {
    fn enter(&mut self) -> Result<(), PassError> {
        self.told("enter", "")
    }

    fn exit(&mut self) -> Result<(), PassError> {
        self.told("exit", "")
    }

    fn should_run(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        self.told("should", pass.name).map(|()| pass.name != "t.Vetoed")
    }

    fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.told("before", pass.name)
    }

    fn run_after(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.told("after", pass.name)
    }

    fn run_failed(&mut self, _: &Module, pass: &PassFacts<'_>, _: &str) -> Result<(), PassError> {
        self.told("failed", pass.name)
    }
}

fn watcher(name: &'static str, fails: &'static str, log: &Log) -> Instrument {
    Instrument::new(name, Box::new(Watcher { name, fails, log: Rc::new(RefCell::new(log.clone())) }))
}

/// Returns a context with watchers, each with the event in which it fails.
fn watched(engine: &Arc<Engine>, watchers: &[(&'static str, &'static str)], log: &Log) -> PassContext {
    let builder = PassContext::builder();
    let builder = watchers.iter().fold(builder, |builder, (name, fails)| builder.instrument(watcher(name, fails, log)));
    builder.build(engine).expect("a context")
}

/// Returns the text of an error for the user.
fn shown(error: &Error) -> String {
    error.reports().iter().map(|report| report.render(false)).collect()
}
