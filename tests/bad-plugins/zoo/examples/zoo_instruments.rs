//! An instrument that records its calls, and fails, panics or vetoes when configured to; and passes for it to observe.
#![forbid(unsafe_code)]

use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use plugin_api::prelude::*;
use std::io::Write;

export_plugin! {
    passes: [FIRST, SECOND, THIRD, ADDS, FAILS],
    instruments: [RECORDER, SILENT],
}

declare_pass! {
    /// Does nothing.
    pub module pass FIRST = "zoo.First" { opt_level: 0, run: first }
}

declare_pass! {
    /// Requires `zoo.First`.
    pub function pass SECOND = "zoo.Second" { opt_level: 1, required: ["zoo.First (>= 0.1)"], run: second }
}

declare_pass! {
    /// Requires `zoo.Second`.
    pub module pass THIRD = "zoo.Third" { opt_level: 2, required: ["zoo.Second"], run: third }
}

declare_pass! {
    /// Adds a function.
    pub module pass ADDS = "zoo.Adds" { opt_level: 0, run: adds }
}

declare_pass! {
    /// Fails.
    pub module pass FAILS = "zoo.Fails" { opt_level: 0, run: fails }
}

/// Adds a line to the file in `ZOO_LOG`, if it is set.
fn note(line: &str) {
    let Some(path) = std::env::var_os("ZOO_LOG") else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = writeln!(file, "{line}");
    }
}

fn first(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    note("zoo.First runs");
    Ok(module.clone())
}

fn second(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    note("zoo.Second runs");
    ctx.statistic("functions seen", 1);
    Ok(body.clone())
}

fn third(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    note("zoo.Third runs");
    Ok(module.clone())
}

fn adds(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    note("zoo.Adds runs");
    let Some((_, body)) = module.functions().next() else { bail!("there is no function") };
    let mut edit = module.edit();
    edit.set("one_more", body.clone());
    Ok(edit.finish())
}

fn fails(_: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    note("zoo.Fails runs");
    ctx.statistic("what it never did", 1);
    bail!("this pass always fails")
}

declare_instrument! {
    /// Records its calls.
    ///
    /// It fails, panics and vetoes as its options specify.
    pub RECORDER = "zoo.Recorder" {
        options: RecorderOptions {
            /// The name that it records.
            name: String = "a",
            /// The event in which it returns an error.
            fails: String = "",
            /// The event in which it panics; also `drop`.
            panics: String = "",
            /// Passes that must not run.
            vetoes: Vec<String> = [],
            /// True if it reports the events that it sees.
            talks: bool = false,
        },
        new: Recorder::new,
    }
}

struct Recorder {
    options: RecorderOptions,
}

impl Recorder {
    fn new(options: &RecorderOptions, ctx: &Ctx) -> Result<Recorder, PassError> {
        let recorder = Recorder { options: options.clone() };
        recorder.told("new", &format!("at opt_level {}", ctx.opt_level()))?;
        Ok(recorder)
    }

    #[allow(clippy::panic, reason = "one of the things that it is for")]
    fn told(&self, event: &str, what: &str) -> Result<(), PassError> {
        let RecorderOptions { name, fails, panics, .. } = &self.options;
        note(format!("{name}.{event} {what}").trim_end());
        if panics == event {
            panic!("{name} lost its way in {event}");
        }
        if fails == event {
            bail!("{name} does not like it");
        }
        Ok(())
    }

    fn pass(&self, event: &str, module: &Module, pass: &PassFacts<'_>, more: &str) -> Result<(), PassError> {
        let PassFacts { name, opt_level, granularity, required, plugin, position, .. } = pass;
        let required: Vec<String> = required.iter().map(ToString::to_string).collect();
        let functions = module.functions().count();
        if self.options.talks {
            let text = format!("{name} is a {granularity} pass of {plugin}, level {opt_level}, requires {required:?}");
            Ctx::current().diagnostics().report(Severity::Remark, None, &text);
            Ctx::current().statistic("remarks", 1);
        }
        self.told(event, &format!("{name} (step {position}, {functions} functions){more}"))
    }
}

impl PassInstrument for Recorder {
    fn enter(&mut self) -> Result<(), PassError> {
        self.told("enter", "")
    }

    fn exit(&mut self) -> Result<(), PassError> {
        self.told("exit", "")
    }

    fn should_run(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        self.pass("should_run", module, pass, "")?;
        Ok(!self.options.vetoes.iter().any(|name| name == pass.name))
    }

    fn run_before(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.pass("run_before", module, pass, "")
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.pass("run_after", module, pass, "")
    }

    fn run_failed(&mut self, module: &Module, pass: &PassFacts<'_>, message: &str) -> Result<(), PassError> {
        self.pass("run_failed", module, pass, &format!(": {message}"))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A destructor that runs during a panic must not panic itself.
        if !std::thread::panicking() {
            let _ = self.told("drop", "");
        }
    }
}

declare_instrument! {
    /// Does nothing, to measure the cost of an instrument.
    pub SILENT = "zoo.Silent" { new: silent }
}

struct Silent;

impl PassInstrument for Silent {}

fn silent(_: &Ctx) -> Result<Silent, PassError> {
    Ok(Silent)
}
