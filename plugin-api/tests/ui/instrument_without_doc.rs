use plugin_api::declare::instrument::PassInstrument;
use plugin_api::prelude::*;

declare_instrument! {
    pub COUNTER = "acme.Counter" { new: counter }
}

struct Counter;

impl PassInstrument for Counter {}

fn counter(_: &Ctx) -> Result<Counter, PassError> {
    Ok(Counter)
}

fn main() {}
