//! A requested run, and the part of its plan that runs.

use crate::cli::select::Asked;
use crate::engine::Engine;
use crate::plugins::manifest::Manifest;
use crate::report::error::Error;
use crate::run::Part;
use crate::text::Input;
use passhost_lang::names::listed;
use registry::{Outcome, PassId, Plan};
use std::collections::BTreeSet;

/// A requested run.
pub(super) struct Job {
    pub(super) manifest: Manifest,
    pub(super) asked: Asked,
    pub(super) input: Input,
    pub(super) names: Names,
}

/// The names of the passes that run, if only a part of the plan runs.
#[derive(Default)]
pub(super) struct Names {
    pub(super) past: Vec<Outcome>,
    /// The first step to run; `None` to run all of them.
    pub(super) first: Option<usize>,
    pub(super) only: Option<String>,
    pub(super) until: Option<String>,
}

impl Names {
    /// Returns the part of the plan that runs.
    ///
    /// # Errors
    /// If the plan does not contain the pass, or contains it only before the part that runs.
    pub(super) fn part(self, plan: &Plan, engine: &Engine) -> Result<Part, Error> {
        let registry = engine.registry();
        let steps: Vec<Option<PassId>> = plan.lines(registry).iter().map(|line| line.unit.pass()).collect();
        let left: Vec<PassId> =
            steps.iter().skip(self.first.map_or(0, |step| step.saturating_sub(1))).copied().flatten().collect();
        let find = |name: Option<String>, option: &str| {
            let Some(name) = name else { return Ok(None) };
            let pass = registry.find(&name)?;
            if left.contains(&pass) {
                return Ok(Some(pass));
            }
            let why = match steps.contains(&Some(pass)) {
                true => format!("it ran before the bundle, which starts with step {}", self.first.unwrap_or(1)),
                false => "the plan does not contain this pass".to_string(),
            };
            let known: BTreeSet<&str> = left.iter().map(|pass| &*registry.pass(*pass).name).collect();
            let help = format!("passes of this part of the plan: {}", listed(&known.into_iter().collect::<Vec<_>>()));
            Err(Error::Request { message: format!("{option} {name}: {why}"), help })
        };
        let (only, until) = (find(self.only, "--only")?, find(self.until, "--until")?);
        Ok(Part { past: self.past, first: self.first, only, until })
    }
}
