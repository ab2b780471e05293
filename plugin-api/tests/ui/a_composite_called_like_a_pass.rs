use plugin_api::prelude::*;

declare_pass! {
    /// One.
    pub function pass ONE = "acme.One" { opt_level: 0, run: one }
}

fn one(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

declare_composite! {
    /// All.
    pub ALL = "acme.One" { opt_level: 0, passes: ["acme.Two"] }
}

export_plugin! { passes: [ONE], composites: [ALL] }

fn main() {}
