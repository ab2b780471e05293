use plugin_api::prelude::*;

declare_config! {
    /// Maximum number of calls.
    pub LIMIT: i64 = "acme.limit" { default: 16 }
}

declare_config! {
    /// Functions that are left alone.
    pub LEFT_ALONE: Vec<String> = "acme.left_alone" {}
}

fn read(ctx: &Ctx) -> bool {
    let limit: bool = LIMIT.get(ctx);
    let names: Vec<String> = LEFT_ALONE.get(ctx);
    limit || names.is_empty()
}

fn main() {
    read(&Ctx::detached());
}
