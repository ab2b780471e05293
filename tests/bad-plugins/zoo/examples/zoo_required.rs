//! Passes whose `required` lists TVM and passhost interpret differently, in addition to the passes of
//! `zoo_instruments`.
#![forbid(unsafe_code)]

use plugin_api::prelude::*;
use std::io::Write;

export_plugin! {
    passes: [HIGH, NEEDS_HIGH, UNMET],
    composites: [BOTH],
}

declare_pass! {
    /// Does nothing, at a high opt_level.
    pub module pass HIGH = "zoo.High" { opt_level: 9, run: high }
}

declare_pass! {
    /// Requires a pass with a high opt_level.
    pub module pass NEEDS_HIGH = "zoo.NeedsHigh" { opt_level: 0, required: ["zoo.High"], run: needs_high }
}

declare_pass! {
    /// Requires a pass that does not exist.
    pub module pass UNMET = "zoo.Unmet" { opt_level: 0, required: ["zoo.Nowhere"], run: unmet }
}

declare_composite! {
    /// Requires two passes after a third.
    pub BOTH = "zoo.Both" { opt_level: 1, required: ["zoo.High"], passes: ["zoo.Second", "zoo.Adds"] }
}

/// Adds a line to the file in `ZOO_LOG`, if it is set.
fn note(line: &str) {
    let Some(path) = std::env::var_os("ZOO_LOG") else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = writeln!(file, "{line}");
    }
}

fn high(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    note("zoo.High runs");
    Ok(module.clone())
}

fn needs_high(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    note("zoo.NeedsHigh runs");
    Ok(module.clone())
}

fn unmet(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    note("zoo.Unmet runs");
    Ok(module.clone())
}
