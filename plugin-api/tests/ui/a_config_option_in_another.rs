use plugin_api::prelude::*;

declare_config! {
    /// How many.
    pub LIMIT: i64 = "acme.limit" {}
}
declare_config! {
    /// How many at most.
    pub MOST: i64 = "acme.limit.most" {}
}

export_plugin! { config: [LIMIT, MOST] }

fn main() {}
