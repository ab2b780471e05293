use plugin_api::prelude::*;

declare_config! {
    /// How many.
    pub LIMIT: i64 = "acme.limit" {}
}
declare_config! {
    /// How many again.
    pub AGAIN: i64 = "acme.limit" {}
}

export_plugin! { config: [LIMIT, AGAIN] }

fn main() {}
