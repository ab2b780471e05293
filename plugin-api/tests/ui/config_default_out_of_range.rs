use plugin_api::prelude::*;

declare_config! {
    /// How many.
    pub LIMIT: i64 = "acme.limit" { default: 16, range: 0..=15 }
}

fn main() {}
