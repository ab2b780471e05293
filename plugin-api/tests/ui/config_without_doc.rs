use plugin_api::prelude::*;

declare_config! { pub LIMIT: i64 = "acme.limit" { default: 16 } }

fn main() {}
