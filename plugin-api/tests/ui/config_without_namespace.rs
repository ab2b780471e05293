use plugin_api::prelude::*;

declare_config! {
    /// How many.
    pub LIMIT: i64 = "limit" { default: 16 }
}

fn main() {}
