use plugin_api::prelude::*;

export_plugin! { readers: [FIRST, SECOND] }

declare_reader! {
    /// Reads toys.
    reader FIRST = "toy" { extensions: ["toy"], run: read }
}

declare_reader! {
    /// Reads other toys.
    reader SECOND = "toy" { extensions: ["toy2"], run: read }
}

fn read(_: &Source, _: &Ctx) -> Result<Module, PassError> {
    Ok(Module::new(Vec::<(String, Body)>::new()))
}

fn main() {}
