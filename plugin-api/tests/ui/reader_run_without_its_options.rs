use plugin_api::prelude::*;

declare_reader! {
    /// Reads toys.
    pub reader TOY = "toy" {
        extensions: ["toy"],
        options: Options {
            /// Maximum number of toys.
            most: i64 = 1,
        },
        run: read,
    }
}

fn read(_: &Source, _: &Ctx) -> Result<Module, PassError> {
    Ok(Module::new(Vec::<(String, Body)>::new()))
}

fn main() {}
