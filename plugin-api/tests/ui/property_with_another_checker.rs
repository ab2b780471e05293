use plugin_api::prelude::*;

declare_property! {
    /// All is well.
    pub WELL = "acme.well" { check: well }
}

fn well(_: &Body) -> bool {
    true
}

fn main() {}
