use plugin_api::prelude::*;

export_plugin! { NOTHING }

declare_pass! {
    /// Does nothing.
    pub function pass NOTHING = "acme.Nothing" { opt_level: 0, run: nothing }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn main() {}
