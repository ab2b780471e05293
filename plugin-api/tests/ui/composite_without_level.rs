use plugin_api::prelude::*;

declare_composite! {
    /// Both.
    pub BOTH = "acme.Both" { passes: ["acme.One"] }
}

fn main() {}
