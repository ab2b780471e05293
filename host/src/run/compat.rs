//! What a run as TVM does it has beside passes: a Sequential is a pass, and instruments see it.

use super::{Runner, Stop};
use crate::error::{Error, Kept, exit};
use crate::instruments::Started;
use plugin_api::instrument::PassFacts;
use plugin_api::ir::Module;
use plugin_api::meta::Granularity;
use registry::{Frame, Owner, Plan, Step, Unit};
use std::cell::RefCell;

/// The Sequentials that began and did not end, the inner one last: who was told, at which position, on which module.
#[derive(Default)]
pub(super) struct Frames(RefCell<Vec<(Started, usize, Module)>>);

impl Runner<'_> {
    /// Tells instruments of a Sequential.
    pub(super) fn framed(&self, frame: Frame<'_>, plan: &Plan, frames: &Frames) -> Result<(), Stop> {
        match frame {
            Frame::Begin(step) => {
                self.position.set(self.position.get() + 1);
                let before = self.current.borrow().clone();
                let pass = self.facts_of(step, self.position.get());
                *self.pass.borrow_mut() = pass.name.to_string();
                self.ask(&before, &pass, plan)?;
                let started = self.instruments().borrow_mut().run_before(&before, &pass).map_err(Stop::Before)?;
                frames.0.borrow_mut().push((started, pass.position, before));
                Ok(())
            }
            Frame::End(step) => {
                let Some((started, position, before)) = frames.0.borrow_mut().pop() else { return Ok(()) };
                let pass = self.facts_of(step, position);
                *self.pass.borrow_mut() = pass.name.to_string();
                let after = self.current.borrow().clone();
                self.instruments().borrow_mut().run_after(started, &after, &pass).map_err(|error| {
                    *self.current.borrow_mut() = before;
                    Stop::Before(error)
                })
            }
            Frame::Stuck { step, message } => {
                self.position.set(self.position.get() + 1);
                Err(Stop::Failed(self.stuck(step, message)))
            }
        }
    }

    /// Sequentials in which something failed.
    pub(super) fn unfinished(&self, frames: Frames) {
        for (started, ..) in frames.0.into_inner() {
            self.instruments().borrow_mut().unfinished(started);
        }
    }

    fn stuck(&self, step: &Step, message: String) -> Error {
        let registry = self.engine.registry();
        let owner = step.unit.pass().map(|pass| registry.pass_owner(pass));
        Error::Step {
            position: self.position.get(),
            pass: step.unit.name(registry).to_string(),
            plugin: owner.map_or(Owner::EMBEDDER, |owner| &owner.name).to_string(),
            file: owner.and_then(|owner| owner.file.clone()),
            function: None,
            message,
            place: None,
            kept: Kept::Nothing,
            code: exit::REQUEST,
        }
    }

    fn facts_of<'a>(&'a self, step: &'a Step, position: usize) -> PassFacts<'a> {
        match &step.unit {
            Unit::Pass(pass) => PassFacts { position, ..self.facts(*pass) },
            Unit::Sequential(name) => {
                let opt_level = step.opt_level(self.engine.registry());
                let (granularity, plugin) = (Granularity::Composite, Owner::EMBEDDER);
                PassFacts { name, opt_level, granularity, required: &step.required, plugin, position }
            }
        }
    }
}
