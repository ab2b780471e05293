//! Runs passes over modules and validates each of them, as `passhost validate` does.

use passhost::run::validate::{ChangedSteps, ValidatedStep, Validation, Validator, Verdict};
use passhost::{Engine, Instrument, PassContext, Runner};
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};

/// Bytes that tensors may take at a time.
const MEMORY: u64 = 1 << 30;
/// Scalar operations for one function of one pass.
const WORK: u64 = 50_000_000;

/// Runs a pipeline; gives its passes with the modules before and after each, and why it stopped, if it did.
///
/// # Errors
/// If the pipeline cannot be planned.
pub fn steps(
    engine: &Engine,
    passes: &str,
    module: &Module,
) -> Result<(Vec<ValidatedStep>, Option<passhost::Error>), String> {
    let pipeline = Pipeline::parse(passes).map_err(|error| error.to_string())?;
    let request = Request { pipeline, ..Request::default() };
    let plan = Plan::new(&request, engine.registry()).map_err(|errors| format!("{errors:?}"))?;
    let steps = ChangedSteps::default();
    let collecting = Instrument::new("validate", steps.instrument(engine.registry()));
    let runner = Runner::in_context(engine, &PassContext::default()).instrument(collecting);
    let report = runner.run(&plan, module.clone()).map_err(|error| error.to_string())?;
    Ok((steps.take(), report.error))
}

/// The verdict on a pass.
pub fn verdict(engine: &Engine, step: &ValidatedStep, seed: u64) -> Verdict {
    let how = Validation { work: WORK, ..Validation::new(seed, MEMORY) };
    Validator::new(engine, how).check(step, &mut |_| {})
}

/// A pass of the registry with modules that it was given and that it returned.
pub fn step(engine: &Engine, pass: &str, before: &Module, after: &Module) -> Option<ValidatedStep> {
    let (_, info) = engine.registry().passes().find(|(_, info)| info.name == pass)?;
    Some(ValidatedStep {
        position: 1,
        pass: pass.to_string(),
        plugin: String::new(),
        granularity: info.granularity,
        tolerance: info.tolerance,
        before: before.clone(),
        after: after.clone(),
    })
}
