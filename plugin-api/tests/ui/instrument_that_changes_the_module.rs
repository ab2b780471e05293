use plugin_api::declare::instrument::PassInstrument;
use plugin_api::prelude::*;

declare_instrument! {
    /// Counts.
    pub COUNTER = "acme.Counter" { new: changer }
}

struct Changer;

impl PassInstrument for Changer {
    fn run_before(
        &mut self,
        module: &mut Module,
        _: &plugin_api::declare::instrument::PassFacts<'_>,
    ) -> Result<(), PassError> {
        *module = Module::new(Vec::<(String, Body)>::new());
        Ok(())
    }
}

fn changer(_: &Ctx) -> Result<Changer, PassError> {
    Ok(Changer)
}

struct Counter;

impl PassInstrument for Counter {}

fn counter(_: &Ctx) -> Result<Counter, PassError> {
    Ok(Counter)
}

fn main() {}
