use plugin_api::prelude::*;

declare_property! { pub WELL = "acme.well" {} }

fn main() {}
