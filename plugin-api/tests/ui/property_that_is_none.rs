use plugin_api::prelude::*;

declare_property! {
    /// All is well.
    pub WELL = "acme.well" { checks: well }
}

fn main() {}
