use plugin_api::prelude::*;

declare_config! {
    /// Maximum number of calls.
    pub LIMIT: i64 = "acme.limit" {}
}
declare_config! {
    /// The same number, declared again.
    pub AGAIN: i64 = "acme.limit" {}
}

export_plugin! { config: [LIMIT, AGAIN] }

fn main() {}
