//! A valid plugin, which tests damage byte by byte, with passes that panic in every way or keep borrowed objects.
#![forbid(unsafe_code)]

use plugin_api::prelude::*;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

export_plugin! { passes: [NOTHING, NOTES, AS_TEXT, AS_STRING, AS_NUMBER, IN_DROP, KEEPS, ASKS_LATER] }

declare_pass! {
    /// Does nothing.
    ///
    /// What follows is room for tests, which write other fields into its place: ----------------------------------------
    /// ------------------------------------------------------------------------------------------------------------------
    /// ------------------------------------------------------------------------------------------------------------------
    pub function pass NOTHING = "zoo.Nothing" {
        opt_level: 0,
        preserves: ["all"],
        options: NothingOptions {
            /// How often.
            times: i64 = 1,
        },
        run: nothing,
    }
}

fn nothing(body: &Body, _: &NothingOptions, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

declare_pass! {
    /// Adds a line to the file that `ZOO_LOG` names.
    pub module pass NOTES = "zoo.Notes" { opt_level: 0, run: notes }
}

fn notes(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    let Some(path) = std::env::var_os("ZOO_LOG") else { bail!("`ZOO_LOG` names no file") };
    let mut log = std::fs::read_to_string(&path).unwrap_or_default();
    log.push_str("pass ran\n");
    std::fs::write(&path, log).map_err(|error| pass_error!("{error}"))?;
    Ok(module.clone())
}

declare_pass! {
    /// Panics with a static string.
    pub function pass AS_TEXT = "zoo.PanicsAsText" { opt_level: 0, run: as_text }
}

#[allow(clippy::panic, reason = "the pass panics on purpose")]
fn as_text(_: &Body, _: &Ctx) -> Result<Body, PassError> {
    panic!("the pass lost its way");
}

declare_pass! {
    /// Panics with a formatted string.
    pub function pass AS_STRING = "zoo.PanicsAsString" { opt_level: 0, run: as_string }
}

#[allow(clippy::panic, reason = "the pass panics on purpose")]
fn as_string(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    panic!("lost after {} bindings", body.bindings().count());
}

declare_pass! {
    /// Panics with a value that is not a string.
    pub function pass AS_NUMBER = "zoo.PanicsAsNumber" { opt_level: 0, run: as_number }
}

fn as_number(_: &Body, _: &Ctx) -> Result<Body, PassError> {
    std::panic::panic_any(7_u32)
}

declare_pass! {
    /// Panics with a value that panics again when it is dropped.
    pub module pass IN_DROP = "zoo.PanicsInDrop" { opt_level: 0, run: in_drop }
}

struct Bomb;

impl Drop for Bomb {
    #[allow(clippy::panic, reason = "it panics on purpose")]
    fn drop(&mut self) {
        panic!("dropped");
    }
}

fn in_drop(_: &Module, _: &Ctx) -> Result<Module, PassError> {
    std::panic::panic_any(Bomb)
}

/// The thread of `zoo.Keeps`, and a sender that wakes it.
static KEPT: Mutex<Option<(Sender<()>, JoinHandle<String>)>> = Mutex::new(None);

declare_pass! {
    /// Passes its context to a thread, which queries it at once, and again when `zoo.AsksLater` runs.
    pub module pass KEEPS = "zoo.Keeps" { opt_level: 0, run: keeps }
}

fn keeps(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    let ctx = Ctx::current();
    let here = asked(&ctx);
    let kept = module.clone();
    let (wake, woken) = channel();
    let (done, first) = channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(asked(&ctx));
        let _ = woken.recv();
        // The thread also holds the module of the earlier step.
        ctx.diagnostics().report(Severity::Error, None, "nobody may see this");
        format!("{}, and the module of that step has {} bindings", asked(&ctx), kept.n_bindings())
    });
    let there = first.recv().map_err(|error| pass_error!("{error}"))?;
    Ctx::current().diagnostics().report(Severity::Remark, None, &format!("here {here}; on a thread {there}"));
    *KEPT.lock().map_err(|error| pass_error!("{error}"))? = Some((wake, thread));
    Ok(module.clone())
}

fn asked(ctx: &Ctx) -> String {
    format!("pass name {:?} at opt_level {}, target {:?}", ctx.pass_name(), ctx.opt_level(), ctx.target())
}

declare_pass! {
    /// Makes the thread of `zoo.Keeps` query its context again.
    pub module pass ASKS_LATER = "zoo.AsksLater" { opt_level: 0, run: asks_later }
}

fn asks_later(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let kept = KEPT.lock().map_err(|error| pass_error!("{error}"))?.take();
    let Some((wake, thread)) = kept else { bail!("`zoo.Keeps` did not run") };
    wake.send(()).map_err(|error| pass_error!("{error}"))?;
    let Ok(answer) = thread.join() else { bail!("the thread panicked") };
    ctx.diagnostics().report(Severity::Remark, None, &format!("afterwards {answer}"));
    Ok(module.clone())
}
