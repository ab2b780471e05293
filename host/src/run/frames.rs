//! A Sequential is a pass: instruments are asked about it, and see it begin and end around its members.

use super::{Runner, Stop};
use crate::instruments::Started;
use crate::report::error::{Error, Kept, exit};
use plugin_api::declare::instrument::PassFacts;
use plugin_api::ir::Module;
use plugin_api::metadata::{Granularity, Required};
use registry::{Frame, Owner, Plan, Step, Unit};
use std::cell::RefCell;

/// The Sequentials that began and did not end, the inner one last.
#[derive(Default)]
pub(super) struct Frames(RefCell<Vec<Open>>);

/// A Sequential that began.
struct Open {
    unit: Unit,
    opt_level: i32,
    required: Vec<Required>,
    position: usize,
    /// Who was told.
    started: Started,
    before: Module,
}

impl Runner<'_> {
    /// Tells instruments of a Sequential.
    pub(super) fn framed(&self, frame: Frame<'_>, plan: &Plan, frames: &Frames) -> Result<(), Stop> {
        match frame {
            Frame::Begin { step, number: position } => {
                let before = self.current.borrow().clone();
                let (unit, opt_level) = (step.unit.clone(), step.opt_level(self.engine.registry()));
                let required = step.required.clone();
                let pass = self.facts_of(&unit, opt_level, &required, position);
                *self.pass.borrow_mut() = pass.name.to_string();
                self.ask(&before, &pass, plan)?;
                let started = self.instruments().borrow_mut().run_before(&before, &pass).map_err(Stop::Before)?;
                frames.0.borrow_mut().push(Open { unit, opt_level, required, position, started, before });
                Ok(())
            }
            Frame::End(_) => {
                let Some(Open { unit, opt_level, required, position, started, before }) = frames.0.borrow_mut().pop()
                else {
                    return Ok(());
                };
                let pass = self.facts_of(&unit, opt_level, &required, position);
                *self.pass.borrow_mut() = pass.name.to_string();
                let after = self.current.borrow().clone();
                self.instruments().borrow_mut().run_after(started, &after, &pass).map_err(|error| {
                    if plan.tvm_compat {
                        *self.current.borrow_mut() = before;
                        return Stop::Before(error);
                    }
                    Stop::After(error, !before.same(&after), None)
                })
            }
            Frame::Lacking { needed, missing, .. } => {
                let needed = needed.unit.name(self.engine.registry());
                Err(Stop::Lacking(format!("needs {needed}, of which {missing}")))
            }
            Frame::Stuck { step, number, message } => Err(Stop::Failed(self.stuck(step, number, message))),
        }
    }

    /// Ends Sequentials in which something went wrong, from the inner one out.
    pub(super) fn unfinished(&self, frames: Frames, stop: &Stop, plan: &Plan) {
        for Open { unit, opt_level, required, position, started, .. } in frames.0.into_inner().into_iter().rev() {
            if plan.tvm_compat {
                self.instruments().borrow_mut().unfinished(started);
                continue;
            }
            let pass = self.facts_of(&unit, opt_level, &required, position);
            let module = self.current.borrow().clone();
            self.instruments().borrow_mut().run_failed(started, &module, &pass, &stop.message());
        }
    }

    fn stuck(&self, step: &Step, position: usize, message: String) -> Error {
        let registry = self.engine.registry();
        let owner = step.unit.pass().map(|pass| registry.pass_owner(pass));
        Error::Step {
            position,
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

    fn facts_of<'a>(
        &'a self,
        unit: &'a Unit,
        opt_level: i32,
        required: &'a [Required],
        position: usize,
    ) -> PassFacts<'a> {
        match unit {
            Unit::Pass(pass) => PassFacts { position, ..self.facts(*pass) },
            Unit::Sequential(name) => {
                let (granularity, plugin) = (Granularity::Composite, Owner::EMBEDDER);
                PassFacts { name, opt_level, granularity, required, plugin, position }
            }
        }
    }
}

impl Stop {
    /// What happened, for instruments.
    fn message(&self) -> String {
        match self {
            Stop::Failed(Error::Step { message, .. }) => message.clone(),
            Stop::Failed(error) | Stop::Before(error) | Stop::After(error, ..) => error.to_string(),
            Stop::Skipped(why) => format!("a member was skipped: {why}"),
            Stop::Vetoed(by) => format!("a member was vetoed by {by}"),
            Stop::Lacking(why) => format!("a member was skipped: it {why}"),
        }
    }
}
