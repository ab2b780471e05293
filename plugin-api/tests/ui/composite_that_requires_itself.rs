use plugin_api::prelude::*;

declare_composite! {
    /// Does nothing.
    pub NOTHING = "acme.Nothing" { opt_level: 0, required: ["acme.Nothing"], passes: ["acme.First"] }
}

fn main() {}
