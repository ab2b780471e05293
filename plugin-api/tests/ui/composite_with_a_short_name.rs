use plugin_api::prelude::*;

declare_composite! {
    /// Both.
    pub BOTH = "acme.Both" { opt_level: 0, passes: ["acme.One", "Two{times=2}"] }
}

fn main() {}
