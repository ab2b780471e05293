use plugin_api::prelude::*;

declare_config! {
    /// How many.
    pub LIMIT: u8 = "acme.limit" {}
}

fn main() {}
