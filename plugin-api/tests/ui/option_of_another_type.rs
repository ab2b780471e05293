use plugin_api::prelude::*;

declare_pass! {
    /// Does nothing.
    pub function pass NOTHING = "acme.Nothing" {
        opt_level: 0,
        options: Options {
            /// Number of repetitions.
            times: u32 = 1,
        },
        run: with_options,
    }
}

fn with_options(body: &Body, _: &Options, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn main() {}
