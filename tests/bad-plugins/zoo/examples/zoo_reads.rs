//! A plugin with a reader for files that another plugin also reads.
#![forbid(unsafe_code)]

use plugin_api::prelude::*;

export_plugin! { readers: [READER] }

declare_reader! {
    /// Reads toy models as empty modules.
    reader READER = "zoo" { extensions: ["toy"], run: read }
}

fn read(_: &Source, _: &Ctx) -> Result<Module, PassError> {
    Ok(Module::new(Vec::<(String, Body)>::new()))
}
