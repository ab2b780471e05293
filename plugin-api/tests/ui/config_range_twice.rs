use plugin_api::prelude::*;

declare_config! {
    /// How many.
    pub LIMIT: i64 = "acme.limit" { range: 0.., range: ..=3 }
}

fn main() {}
