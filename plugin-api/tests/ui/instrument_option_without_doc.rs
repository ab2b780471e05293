use plugin_api::declare::instrument::PassInstrument;
use plugin_api::prelude::*;

declare_instrument! {
    /// Counts.
    pub COUNTER = "acme.Counter" {
        options: Options {
            every: i64 = 1,
        },
        new: with_options,
    }
}

fn with_options(_: &Options, _: &Ctx) -> Result<Counter, PassError> {
    Ok(Counter)
}

struct Counter;

impl PassInstrument for Counter {}

fn counter(_: &Ctx) -> Result<Counter, PassError> {
    Ok(Counter)
}

fn main() {}
