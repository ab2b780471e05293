//! Exports names that another plugin also exports.
#![allow(unsafe_code, reason = "names as they stand")]

use plugin_api::prelude::*;

mod exports;

const NUMBER: u32 = 2;

export_plugin! {
    /// Reports its number, 2.
    module pass "zoo.NumberTwo" { opt_level: 0, run: exports::tell }
}
