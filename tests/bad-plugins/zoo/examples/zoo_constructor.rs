//! Code that runs when the library is opened, before any function is called: it adds a line to the file in `ZOO_LOG`,
//! and ends the process if `ZOO_EXIT` is set.
#![allow(unsafe_code, reason = "a constructor is a function in a section")]

use plugin_api::prelude::*;

export_plugin! {
    /// Does nothing.
    function pass "zoo.Constructed" { opt_level: 0, run: nothing }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    if let Some(path) = std::env::var_os("ZOO_LOG") {
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::write(&path, log + "constructor ran\n");
    }
    if std::env::var_os("ZOO_EXIT").is_some() {
        std::process::exit(0);
    }
}
