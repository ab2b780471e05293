use plugin_api::prelude::*;

declare_pass! {
    /// Does nothing.
    pub block pass NOTHING = "acme.Nothing" { opt_level: 0, run: nothing }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn main() {}
