use plugin_api::prelude::*;

declare_config! {
    /// Maximum number of calls.
    pub LIMIT: i64 = "acme.limit" {}
}
declare_config! {
    /// Maximum number of all calls.
    pub MOST: i64 = "acme.limit.most" {}
}

export_plugin! { config: [LIMIT, MOST] }

fn main() {}
