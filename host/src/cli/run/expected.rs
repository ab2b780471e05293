//! Expectations of counters, from the command line and the manifest.

use crate::cli::arguments::Select;
use crate::cli::select::named_pipeline;
use crate::plugins::manifest::Manifest;
use crate::report::error::Error;
use crate::report::expect::{Expectation, Source};
use registry::{PassId, Plan, Registry};
use std::collections::BTreeSet;

/// Returns the expectations for the run of a plan: all expectations from the command line (`asked`), and expectations
/// from the manifest about passes and instruments in the plan. For the same counter, an expectation of the pipeline
/// overrides an expectation of the whole manifest.
///
/// # Errors
/// Every expectation that does not name a pass or an instrument.
pub(super) fn expected(
    asked: &[String],
    select: &Select,
    manifest: &Manifest,
    plan: &Plan,
    registry: &Registry,
) -> Result<Vec<Expectation>, Error> {
    let passes: BTreeSet<PassId> = plan.passes(registry).into_iter().collect();
    let in_plan = |source: Source| match source {
        Source::Pass(pass) => passes.contains(&pass),
        Source::Instrument(instrument) => plan.instruments.iter().any(|planned| planned.instrument == instrument),
    };
    let pipeline = match select.passes {
        None => Some(&named_pipeline(select.pipeline.as_deref(), manifest)?.1.settings),
        Some(_) => None,
    };
    let (mut expected, mut errors) = (Vec::new(), Vec::new());
    for text in asked {
        let known = |expectation: Expectation| expectation.source(registry).map(|_| expectation.clone());
        match Expectation::parse(text).and_then(known) {
            Ok(expectation) => expected.push(expectation),
            Err(error) => errors.push(error),
        }
    }
    let of_pipeline: Vec<&Expectation> = pipeline.into_iter().flat_map(|settings| &settings.expect).collect();
    let replaced: BTreeSet<&str> = of_pipeline.iter().map(|expectation| expectation.counter()).collect();
    let general = manifest.settings.expect.iter().filter(|expectation| !replaced.contains(expectation.counter()));
    for expectation in of_pipeline.iter().copied().chain(general) {
        match expectation.source(registry) {
            Ok((source, _)) if in_plan(source) => expected.push(expectation.clone()),
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    Error::unless_any(errors, Ok(expected))
}
