use plugin_api::prelude::*;

declare_config! {
    /// How many.
    pub LIMIT: i64 = "acme.limit" { least: 0 }
}

fn main() {}
