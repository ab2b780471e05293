use plugin_api::prelude::*;

declare_pass! {
    /// Does nothing.
    pub function pass NOTHING = "acme.Nothing" {
        opt_level: 0,
        options: Options {
            /// Number of repetitions.
            times: i64 = 1,
        },
        run: nothing,
    }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn main() {}
