//! The smallest plugin: one function and one macro call.
#![forbid(unsafe_code)]

use plugin_api::prelude::*;

export_plugin! {
    /// Does nothing, politely.
    function pass "acme.Nothing" { opt_level: 0, run: nothing }
}

fn nothing(function: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(function.clone())
}
