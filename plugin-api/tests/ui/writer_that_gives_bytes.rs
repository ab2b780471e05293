use plugin_api::prelude::*;

declare_writer! {
    /// Writes toys.
    pub writer TOY = "toy" { extensions: ["toy"], run: write }
}

fn write(_: &Module, _: &Ctx) -> Result<Vec<u8>, PassError> {
    Ok(Vec::new())
}

fn main() {}
