use plugin_api::prelude::*;

declare_pass! {
    /// Does it.
    pub function pass A = "acme.A" { opt_level: 0, preserves: [keeps_shape], run: a }
}

fn a(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn main() {}
