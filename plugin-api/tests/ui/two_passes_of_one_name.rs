use plugin_api::prelude::*;

export_plugin! { passes: [FIRST, SECOND] }

declare_pass! {
    /// Does nothing.
    pub function pass FIRST = "acme.Nothing" { opt_level: 0, run: nothing }
}

declare_pass! {
    /// Does nothing, too.
    pub function pass SECOND = "acme.Nothing" { opt_level: 0, run: nothing }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn main() {}
