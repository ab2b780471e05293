use plugin_api::prelude::*;

declare_reader! {
    /// Reads toys.
    pub reader TOY = "toy" { extensions: ["toy"] }
}

fn main() {}
