use plugin_api::prelude::*;

declare_config! {
    /// Which.
    pub NAME: String = "acme.name" { range: 0.. }
}

fn main() {}
