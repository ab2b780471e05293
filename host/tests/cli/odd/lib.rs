//! A plugin for the tests of the host. The environment variable ODD selects the action of its
//! constructor.

use plugin_api::prelude::*;

export_plugin! {
    passes: [
        PANICS, QUIET, FAILS, NEEDS_FAILS, NEEDS_NEEDS, WRITES, WRITES_NAMES, NEEDS_CHECK, LOGS, CATCHES, GOES_ON, SILENT,
        LOGS_ODDLY, GROWS, COPIES
    ],
    properties: [CHECKED],
}

/// Called by the loader when the library is opened.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    match std::env::var("ODD").as_deref() {
        Ok("segv") => unsafe { std::ptr::null_mut::<u8>().write_volatile(1) },
        Ok("abort") => {
            eprintln!("the constructor gives up");
            std::process::abort()
        }
        Ok("exit") => std::process::exit(0),
        Ok("file") => drop(std::fs::write("constructed", "")),
        _ => println!("a constructor may print"),
    }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

declare_pass! {
    /// Panics.
    pub function pass PANICS = "odd.Panics" { opt_level: 0, run: panics }
}

fn panics(_: &Body, _: &Ctx) -> Result<Body, PassError> {
    panic!("it lost its way");
}

declare_pass! {
    /// Does nothing.
    pub function pass QUIET = "odd.Quiet" { opt_level: 0, run: nothing }
}

declare_pass! {
    /// Returns an error.
    pub function pass FAILS = "odd.Fails" { opt_level: 0, run: fails }
}

fn fails(_: &Body, _: &Ctx) -> Result<Body, PassError> {
    bail!("it does not like this function");
}

declare_pass! {
    /// Requires a pass that fails, after a pass that succeeds.
    pub function pass NEEDS_FAILS = "odd.NeedsFails" {
        opt_level: 0, required: ["odd.Quiet", "odd.Fails"], run: nothing
    }
}

declare_pass! {
    /// Requires a pass that requires a failing pass.
    pub function pass NEEDS_NEEDS = "odd.NeedsNeeds" { opt_level: 0, required: ["odd.NeedsFails"], run: nothing }
}

declare_pass! {
    /// Changes every node of its input to kind 0, and returns the input.
    pub function pass WRITES = "odd.Writes" { opt_level: 0, run: writes }
}

fn writes(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let nodes = body.raw().nodes();
    for node in nodes {
        unsafe { std::ptr::from_ref(node).cast_mut().cast::<u16>().write_volatile(0) };
    }
    Ok(body.clone())
}

declare_pass! {
    /// Gives every function a different name, in place.
    pub module pass WRITES_NAMES = "odd.WritesNames" { opt_level: 0, run: writes_names }
}

fn writes_names(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    for (name, _) in module.functions() {
        unsafe { name.as_ptr().cast_mut().write_volatile(b'z') };
    }
    Ok(module.clone())
}

declare_property! {
    /// A property whose checker writes to its input.
    pub CHECKED = "odd.checked" { check: checked }
}

fn checked(body: &Body, ctx: &Ctx) -> Result<(), PassError> {
    writes(body, ctx).map(drop)
}

declare_pass! {
    /// Requires a property whose checker writes to its input.
    pub function pass NEEDS_CHECK = "odd.NeedsCheck" { opt_level: 0, requires: ["odd.checked"], run: nothing }
}

declare_pass! {
    /// Catches a panic of its own.
    pub function pass CATCHES = "odd.Catches" { opt_level: 0, run: catches }
}

fn catches(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let _ = std::panic::catch_unwind(|| panic!("this was caught"));
    Ok(body.clone())
}

declare_pass! {
    /// Resumes a panic of another thread, which no hook observes again.
    pub function pass GOES_ON = "odd.GoesOn" { opt_level: 0, run: goes_on }
}

fn goes_on(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let _ = catches(body, ctx);
    std::panic::resume_unwind(Box::new("this is the reason"))
}

declare_pass! {
    /// Logs an event at each level, an event with its own target, and an event in a span.
    pub function pass LOGS = "odd.Logs" { opt_level: 0, run: logs }
}

fn logs(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    tracing::error!("an error");
    tracing::warn!(answer = 42, "a warning");
    tracing::info!("an info");
    tracing::debug!("a debug");
    tracing::trace!("a trace");
    tracing::warn!(target: "elsewhere", "a warning from elsewhere");
    let span = tracing::info_span!("within", nodes = body.len()).entered();
    tracing::warn!("a warning in a span");
    // The span is left open, to test that it does not precede later messages.
    std::mem::forget(span);
    Ok(body.clone())
}

declare_pass! {
    /// Returns an error without a message.
    pub function pass SILENT = "odd.Silent" { opt_level: 0, run: silent }
}

fn silent(_: &Body, _: &Ctx) -> Result<Body, PassError> {
    Err(PassError::new(""))
}

declare_pass! {
    /// Logs terminal escapes, and text that imitates events of other sources.
    pub function pass LOGS_ODDLY = "odd.LogsOddly" { opt_level: 0, run: logs_oddly }
}

fn logs_oddly(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    const ODD: &str = "a\u{1b}[2J\u{0}\r\n WARN passhost: b\u{202e}c\u{200f}d\te";
    let _span = tracing::warn_span!(target: "odd\u{1b}[31m\r\nspan", "name\u{1b}[1m\r\n\u{202e}", field = ODD).entered();
    tracing::warn!(target: "odd\u{1b}[31m\r\nelsewhere\u{202e}", field = ODD, shown = %ODD, "{ODD}");
    Ok(body.clone())
}

declare_pass! {
    /// Counts its runs in an attribute of the function.
    pub function pass GROWS = "odd.Grows" { opt_level: 0, run: grows }
}

fn grows(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let Some(function) = body.function() else { return Ok(body.clone()) };
    let grown = function.value().attrs().get("grown").and_then(AttrView::as_int).unwrap_or(0);
    let mut edit = body.edit();
    edit.set_attr(function.value(), "grown", Attr::Int(grown + 1));
    Ok(edit.finish()?)
}

declare_pass! {
    /// Returns a copy of its input.
    pub function pass COPIES = "odd.Copies" { opt_level: 0, run: copies }
}

fn copies(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    body.values().filter(|value| value.is_binding()).for_each(|value| edit.set_name(value, "again"));
    Ok(edit.finish()?)
}
