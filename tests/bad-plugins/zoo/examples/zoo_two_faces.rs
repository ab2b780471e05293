//! A plugin whose metadata contradicts its code.
#![allow(unsafe_code, reason = "the section and the entry are written by hand")]

use plugin_api::abi::entry::Entry;
use plugin_api::abi::export::{encode, encoded_len};
use plugin_api::declare::contributions::Contributions;
use plugin_api::declare::declarations::{PassDecl, PluginDecl};
use plugin_api::prelude::*;

declare_pass! {
    /// Described by the metadata in the file.
    pub function pass SHOWN = "zoo.Shown" { opt_level: 0, run: nothing }
}

declare_pass! {
    /// Is in the code.
    pub function pass HIDDEN = "zoo.Hidden" { opt_level: 0, run: nothing }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

const fn plugin(passes: &'static [&'static PassDecl]) -> PluginDecl {
    PluginDecl { name: "two-faces", version: "0.1.0", passes, operators: &[], more: Contributions::NONE }
}

const IN_FILE: PluginDecl = plugin(&[&SHOWN]);
const IN_CODE: PluginDecl = plugin(&[&HIDDEN]);

#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".passhost"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__passhost"))]
static SECTION: [u8; encoded_len(&IN_FILE)] = encode(&IN_FILE);

static METADATA: [u8; encoded_len(&IN_CODE)] = encode(&IN_CODE);
static ENTRY: Entry = Entry::new(&IN_CODE, &METADATA);

/// Returns the entry whose declarations differ from the metadata in the file.
#[unsafe(no_mangle)]
pub extern "C" fn passhost_plugin_entry_v1() -> *const Entry {
    &ENTRY
}
