//! Exports names that another plugin also exports.
#![allow(unsafe_code, reason = "names as they stand")]

use plugin_api::prelude::*;

mod exports;

const NUMBER: u32 = 1;

export_plugin! {
    /// Reports its number, 1.
    module pass "zoo.NumberOne" { opt_level: 0, run: exports::tell }
}
