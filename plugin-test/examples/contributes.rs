//! A plugin with one of everything that a golden can test: config option, property, composite pass and instrument.
#![forbid(unsafe_code)]

use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use plugin_api::prelude::*;

export_plugin! {
    passes: [FOLD],
    config: [LIMIT],
    properties: [FOLDED],
    composites: [TIDY],
    instruments: [COUNTER],
}

declare_config! {
    /// Most calls that are folded in one function.
    pub LIMIT: i64 = "example.fold.limit" { default: 16, range: 0.. }
}

declare_pass! {
    /// Replaces `relu(relu(x))` by `relu(x)`.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2,), "float32")):
    ///     a = R.nn.relu(x)
    ///     b = R.nn.relu(a)
    ///     return b
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2,), "float32")):
    ///     a = R.nn.relu(x)
    ///     return a
    /// ```
    pub function pass FOLD = "example.Fold" { opt_level: 2, run: fold }
}

fn fold(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let (limit, mut folded) = (LIMIT.get(ctx), 0);
    let new = body.rewrite(|value, rw| match repeated(value) {
        Some(inner) if folded < limit => {
            folded += 1;
            Action::Replace(rw.v(inner))
        }
        _ => Action::Keep,
    })?;
    ctx.statistic("calls folded", usize::try_from(folded).unwrap_or_default());
    Ok(new)
}

/// Returns the call of `relu` that is the argument of another call of `relu`.
fn repeated(value: Value<'_>) -> Option<Value<'_>> {
    let inner = value.as_call_to("relax.nn.relu")?.arg(0)?;
    inner.as_call_to("relax.nn.relu").map(|_| inner)
}

declare_property! {
    /// No call of `relu` is applied to another one.
    pub FOLDED = "example.folded" { check: is_folded }
}

fn is_folded(function: &Body, _: &Ctx) -> Result<(), PassError> {
    match function.values().find(|value| repeated(*value).is_some()) {
        Some(value) => bail!(at value, "`relu` is applied to `relu`"),
        None => Ok(()),
    }
}

declare_composite! {
    /// Folds, and removes what nothing uses.
    pub TIDY = "example.Tidy" { opt_level: 0, passes: ["example.Fold", "relax.DeadCodeElimination"] }
}

declare_instrument! {
    /// Counts passes, and refuses those of some plugins.
    pub COUNTER = "example.Counter" {
        options: CounterOptions {
            /// Plugins whose passes do not run.
            refuses: Vec<String> = [],
        },
        new: Counter::new,
    }
}

struct Counter {
    refuses: Vec<String>,
    passes: usize,
}

impl Counter {
    fn new(options: &CounterOptions, _: &Ctx) -> Result<Counter, PassError> {
        Ok(Counter { refuses: options.refuses.clone(), passes: 0 })
    }
}

impl PassInstrument for Counter {
    fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        if self.refuses.iter().any(|plugin| plugin == pass.plugin) {
            bail!("no pass of `{}` may run", pass.plugin);
        }
        Ok(())
    }

    fn run_after(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.passes += 1;
        let ctx = Ctx::current();
        ctx.statistic("passes", 1);
        ctx.diagnostics().report(Severity::Remark, None, &format!("pass {} was {}", self.passes, pass.name));
        Ok(())
    }
}
