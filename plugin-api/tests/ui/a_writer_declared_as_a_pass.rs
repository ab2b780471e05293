use plugin_api::prelude::*;

declare_writer! {
    /// Writes toys.
    pub module pass TOY = "toy" { extensions: ["toy"], run: write }
}

fn main() {}
