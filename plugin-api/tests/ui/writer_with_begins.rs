use plugin_api::prelude::*;

declare_writer! {
    /// Writes toys.
    pub writer TOY = "toy" { extensions: ["toy"], begins: [b"toy"], run: write }
}

fn write(_: &Module, _: &mut Output, _: &Ctx) -> Result<(), PassError> {
    Ok(())
}

fn main() {}
