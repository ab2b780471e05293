use plugin_api::declare::instrument::PassInstrument;
use plugin_api::prelude::*;

declare_instrument! {
    /// Counts.
    pub COUNTER = "acme.Counter" {
        options: Options {
            /// Number of calls between two reports.
            every: i64 = 1,
        },
        new: counter,
    }
}

struct Counter;

impl PassInstrument for Counter {}

fn counter(_: &Ctx) -> Result<Counter, PassError> {
    Ok(Counter)
}

fn main() {}
