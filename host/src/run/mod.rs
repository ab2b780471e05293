//! Runs a plan over a module: calls one pass after the other, and verifies each changed function.

mod begun;
mod blocks;
mod calls;
mod claims;
mod errors;
pub mod execute;
mod ledger;
mod marks;
mod notes;
mod one_pass;
mod parallel;
mod properties;
mod runner;
mod services;
mod shown;
mod steps;
pub mod validate;
mod wholes;

use crate::context::missed::Missed;
use crate::instruments::Mode;
use crate::report::error::Error;
use crate::verify::verify_kinds;
use passhost_lang::ir::Module;
use plugin_api::abi::host::with_current;
use registry::Plan;
use std::sync::Arc;

pub use crate::report::expect::Expectation;
pub use crate::report::said::{PassDiagnostic, ShownPlace, Statistic};
pub use ledger::outcomes::{Failure, Part, RunReport, StepReport};
use marks::Marks;
pub use notes::limits::Rewrites;
pub use notes::{limits, provenance};
use provenance::Provenance;
pub use runner::Runner;
use services::Services;
use steps::Run;

impl Runner<'_> {
    /// Runs a plan. Opens the plugins of the plan, and creates and enters its instruments, before the first step.
    ///
    /// # Errors
    /// If the plan is for other passes, a plugin cannot be opened, an instrument cannot be created or entered, or an instrument of its
    /// context is already being called. An error in a later step is in the report.
    pub fn run(mut self, plan: &Plan, module: Module) -> Result<RunReport, Error> {
        if !plan.is_of(self.engine.registry()) {
            let message = "the plan was made for an engine with different passes".to_string();
            return Err(Error::Request { message, help: "plan again with the engine that runs the plan".to_string() });
        }
        verify_kinds(&module).map_err(not_a_module)?;
        self.context = self.context.at_level(plan.opt_level);
        if !matches!(self.missed, Missed::Nothing) {
            self.context = self.context.wanting(std::mem::take(&mut self.missed));
        }
        let traced = self.provenance.then(|| Provenance::of(&module)).transpose();
        let (provenance, module) = match traced.map_err(not_a_module)? {
            Some((provenance, numbered)) => (Some(provenance), numbered),
            None => (None, module),
        };
        let unrecorded = self.engine.open_for(plan)?;
        let mode = Mode { keep_going: self.keep_going, compat: plan.compat, trace: self.engine.trace().cloned() };
        let more = std::mem::take(&mut self.more);
        let outer = self.context.watch(mode, more)?;
        let (marks, input) = (Marks::default(), Arc::new(services::Input::new(module.clone())));
        let (settings, speaking) = (self.context.settings(), self.context.speaking());
        let services = Services::new(self.engine, &marks, settings, speaking, input);
        let run = || Run::new(&self, plan, &services, module, provenance).report();
        let report = with_current(&services, plan.opt_level, run);
        // A pass can run other passes in its own context.
        self.context.watch(outer, Vec::new())?;
        let mut report = report?;
        report.warnings.splice(0..0, unrecorded.map(|warning| warning.title));
        Ok(report)
    }
}

fn not_a_module(why: impl std::fmt::Display) -> Error {
    Error::Request {
        message: format!("the input module is invalid: {why}"),
        help: "create it from functions that were read from text, or built with a builder".to_string(),
    }
}
