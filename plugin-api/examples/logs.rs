//! A plugin that logs events and spans, and leaves spans open, in a pass, a checker and an instrument.
#![forbid(unsafe_code)]

use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use plugin_api::prelude::*;
use std::cell::RefCell;
use tracing::field::Empty;
use tracing::span::EnteredSpan;

export_plugin! {
    passes: [LOG],
    properties: [CHECKED],
    instruments: [SPANS, FORGETS],
}

declare_pass! {
    /// Logs as its option says.
    module pass LOG = "logs.Log" {
        opt_level: 0,
        options: Options {
            /// The text to log.
            what: String = "all",
            /// Number of events.
            times: i64 = 1,
        },
        run: log,
    }
}

fn log(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    let times = 0..options.times;
    match options.what.as_str() {
        "all" => times.for_each(|_| all()),
        "levels" => times.for_each(|_| levels(ctx)),
        "event" => times.for_each(|_| tracing::debug!(n = 1, "an event")),
        "span" => times.for_each(|_| drop(tracing::debug_span!("a_span", n = 1).entered())),
        "forget" => times.for_each(|_| std::mem::forget(tracing::info_span!("forgotten").entered())),
        "panic" => tracing::info_span!("panics").in_scope(|| panic!("in a span")),
        "keep" => times.for_each(|_| KEPT.set(Some(tracing::info_span!("kept").entered()))),
        "drop" => drop(KEPT.take()),
        "thread" => thread(),
        "nothing" => tracing::info!("nothing"),
        other => bail!("`what` is `{other}`"),
    }
    Ok(module.clone())
}

fn all() {
    let outer = tracing::info_span!(target: "own", "outer", name = "x", late = Empty);
    let entered = outer.enter();
    tracing::info!("in outer");
    outer.record("late", 7);
    tracing::debug_span!("inner").in_scope(|| {
        tracing::Span::current().record("unknown", 1);
        tracing::info!("in inner");
    });
    tracing::info_span!(parent: None, "root").in_scope(|| tracing::info!("in root"));
    let twin = outer.clone();
    drop(entered);
    drop(outer);
    tracing::info!("outside");
    tracing::info!(parent: &twin, "said of outer");
    let child = tracing::info_span!(parent: &twin, "child").entered();
    tracing::Span::current().follows_from(&twin);
    drop(child);
}

fn levels(ctx: &Ctx) {
    tracing::debug!("before");
    // The host may change its filter during the call.
    let _ = ctx.config("logs.key");
    tracing::debug_span!("a_span").in_scope(|| tracing::debug!("after"));
}

thread_local! {
    static KEPT: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
}

declare_property! {
    /// Nothing; its checker forgets a span.
    pub CHECKED = "logs.checked" { check: forget }
}

fn forget(_: &Body, _: &Ctx) -> Result<(), PassError> {
    std::mem::forget(tracing::info_span!("of_the_checker").entered());
    Ok(())
}

declare_instrument! {
    /// Has a span around the run and one around each pass.
    pub SPANS = "logs.Spans" { new: spans }
}

#[derive(Default)]
struct Spans(Vec<EnteredSpan>);

fn spans(_: &Ctx) -> Result<Spans, PassError> {
    Ok(Spans::default())
}

impl PassInstrument for Spans {
    fn enter(&mut self) -> Result<(), PassError> {
        self.0.push(tracing::info_span!("of_enter").entered());
        Ok(())
    }
    fn exit(&mut self) -> Result<(), PassError> {
        self.0.pop();
        Ok(())
    }
    fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.0.push(tracing::info_span!("of_pass", name = pass.name).entered());
        Ok(())
    }
    fn run_after(&mut self, _: &Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        tracing::info!("after");
        self.0.pop();
        Ok(())
    }
}

declare_instrument! {
    /// Forgets a span in each event.
    pub FORGETS = "logs.Forgets" {
        options: ForgetsOptions {
            /// Passes before which it panics.
            panics: Vec<String> = [],
        },
        new: forgets,
    }
}

struct Forgets(ForgetsOptions);

fn forgets(options: &ForgetsOptions, _: &Ctx) -> Result<Forgets, PassError> {
    std::mem::forget(tracing::info_span!("of_new").entered());
    Ok(Forgets(options.clone()))
}

impl PassInstrument for Forgets {
    fn enter(&mut self) -> Result<(), PassError> {
        std::mem::forget(tracing::info_span!("of_enter").entered());
        Ok(())
    }
    fn exit(&mut self) -> Result<(), PassError> {
        std::mem::forget(tracing::info_span!("of_exit").entered());
        Ok(())
    }
    fn should_run(&mut self, _: &Module, _: &PassFacts<'_>) -> Result<bool, PassError> {
        std::mem::forget(tracing::info_span!("of_should_run").entered());
        Ok(true)
    }
    fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        std::mem::forget(tracing::info_span!("of_pass", name = pass.name).entered());
        if self.0.panics.iter().any(|name| name == pass.name) {
            panic!("in a span");
        }
        Ok(())
    }
    fn run_failed(&mut self, _: &Module, _: &PassFacts<'_>, _: &str) -> Result<(), PassError> {
        std::mem::forget(tracing::info_span!("of_run_failed").entered());
        Ok(())
    }
}

impl Drop for Forgets {
    fn drop(&mut self) {
        std::mem::forget(tracing::info_span!("of_drop").entered());
    }
}

fn thread() {
    let span = tracing::info_span!("of_the_run");
    let inside = move || {
        std::mem::forget(span.clone().entered());
        std::mem::forget(tracing::info_span!("of_the_thread").entered());
        tracing::info!("on a thread");
    };
    if std::thread::spawn(inside).join().is_err() {
        tracing::error!("the thread failed");
    }
}
