//! Executes a plan: pulls steps from the driver and runs them.

use super::RunReport;
use super::begun::Whole;
use super::claims::Claims;
use super::ledger::outcomes::Rest;
use super::ledger::{Closed, Cost, Ledger};
use super::provenance::Provenance;
use super::runner::Runner;
use super::services::{Heard, Services};
use crate::context::Asked;
use crate::engine::Engine;
use crate::instruments::Instruments;
use crate::report::error::Error;
use crate::verify::Unverified;
use passhost_lang::ir::Module;
use passhost_lang::metadata::OptionValue;
use registry::{Driver, Job, Outcome, OwnerId, PassId, Plan, Resume, Step, Todo};
use std::cell::{RefCell, RefMut};
use std::collections::HashMap;

/// A plan that is being run over a module.
pub(super) struct Run<'r> {
    pub(super) runner: &'r Runner<'r>,
    pub(super) engine: &'r Engine,
    pub(super) plan: &'r Plan,
    /// The services for plugins between passes, which collect all reports.
    pub(super) services: &'r Services<'r>,
    pub(super) module: Module,
    /// Number of the current step in the plan.
    pub(super) position: usize,
    pub(super) claims: Claims,
    /// The origins of values, if requested.
    pub(super) provenance: Option<RefCell<Provenance>>,
    /// Functions that have not been checked yet.
    pub(super) unverified: Unverified,
    /// Sequentials and composite passes that have begun, the innermost last.
    pub(super) wholes: Vec<Whole<'r>>,
    failed: Failed,
    /// The passes that remain to be called, and the outcomes of the others.
    pub(super) rest: Rest,
    pub(super) ledger: Ledger<'r>,
    heard: Heard,
}

/// For each failed pass, its options and the module on which it failed.
type Failed = HashMap<PassId, Vec<(Vec<OptionValue>, Module)>>;

/// The reason why a step did not run. It decides where the run resumes, and the outcomes of the steps that need or contain the step.
pub(super) enum Stop {
    /// The step failed.
    Failed(Error),
    /// Skipped because an earlier failure makes it pointless.
    Skipped(String),
    /// Vetoed by these instruments.
    Vetoed(String),
    /// Skipped because a composite pass that it needs ran without a vetoed member. The text names the member and the instruments.
    Lacking(String),
    /// An instrument failed before the pass ran.
    Before(Error),
    /// An instrument failed after the pass had run. Contains true if the pass changed the module, and the cost of the
    /// pass, except for a Sequential.
    After(Error, bool, Option<Cost>),
}

impl<'r> Run<'r> {
    pub(super) fn new(
        runner: &'r Runner<'r>,
        plan: &'r Plan,
        services: &'r Services<'r>,
        module: Module,
        provenance: Option<Provenance>,
    ) -> Run<'r> {
        let unverified = if runner.verified { Unverified::default() } else { Unverified::of(&module) };
        Run {
            runner,
            engine: runner.engine,
            plan,
            services,
            module,
            position: 0,
            claims: Claims::default(),
            provenance: provenance.map(RefCell::new),
            unverified,
            wholes: Vec::new(),
            failed: Failed::default(),
            rest: Rest::of(&runner.part),
            ledger: Ledger::new(runner.engine.registry()),
            heard: Heard::default(),
        }
    }

    /// Runs the plan while the context is entered.
    pub(super) fn report(mut self) -> Result<RunReport, Error> {
        let (engine, planned, linked) = (self.engine, self.plan.instruments.as_slice(), self.runner.linked);
        let scope = self.runner.context.begin(Some(Asked { engine, planned, linked }));
        self.hear();
        let mut scope = scope?;
        let mut driver = Driver::new(self.engine.registry(), self.plan);
        let mut error = self.drive(&mut driver).err();
        self.hear();
        let (exited, beside) = scope.leave();
        match exited {
            Err(first) if error.is_none() => error = Some(first),
            exited => self.ledger.errors.extend(exited.err()),
        }
        self.ledger.errors.extend(beside);
        // Instruments can still report and count on exit.
        self.hear();
        let statistics = self.services.counted.take().sums();
        let Closed { steps, warnings, errors: failures, failed_at } = self.ledger.close();
        Ok(RunReport {
            module: self.module,
            steps,
            diagnostics: self.services.said.take(),
            statistics,
            unread_config: self.runner.context.settings().unread(),
            warnings: [driver.warnings(), &warnings].concat(),
            failures,
            error,
            failed_at,
            provenance: self.provenance.map(RefCell::into_inner),
        })
    }

    /// Pulls steps from the driver until the plan is done, or an error stops the run.
    fn drive(&mut self, driver: &mut Driver<'r>) -> Result<(), Error> {
        while let Some(todo) = driver.next() {
            let done = match todo {
                Todo::Asked(step) => self.may_try(step),
                Todo::Run(job) => self.run(&job, driver),
                Todo::Begin { step, number } => self.begin(step, number, driver.facts()),
                Todo::Round(round) => self.round(round, driver.facts_mut()),
                Todo::End => self.end(),
                Todo::Stuck { unit, number, message } => Err(Stop::Failed(self.stuck(&unit, number, message))),
                Todo::Lacking { needed, missing } => Err(self.lacking(&needed, &missing)),
                Todo::Ended(step, outcome) => {
                    let outcome = self.rest.take_uncalled().map_or(outcome, Outcome::Uncalled);
                    self.ledger.row(step, outcome, &self.module);
                    Ok(())
                }
            };
            if let Err(stop) = done {
                self.stopped(stop, driver)?;
            }
        }
        // After a failure, the rest may not have begun.
        if self.ledger.errors.is_empty() { self.rest.has_begun() } else { Ok(()) }
    }

    /// Handles a step that did not run: records the outcome of the step and of the steps that need or contain it, and
    /// stops or continues the run.
    fn stopped(&mut self, stop: Stop, driver: &mut Driver<'_>) -> Result<(), Error> {
        let keep_going = self.runner.keep_going;
        let vetoed = if let Stop::Vetoed(by) = &stop { format!("was vetoed by {by}") } else { String::new() };
        let resume = match &stop {
            Stop::Vetoed(_) => Resume::NextMember(&vetoed),
            Stop::Failed(Error::Step { .. }) if keep_going => Resume::NextMember("failed"),
            Stop::Skipped(_) if !keep_going => Resume::NextAsked,
            Stop::Skipped(_) | Stop::Lacking(_) => Resume::NextMember("was skipped"),
            Stop::Failed(_) | Stop::Before(_) | Stop::After(..) => Resume::Nowhere,
        };
        let ended = driver.failed(resume);
        // If the next member runs, the steps that contain it continue.
        if !matches!(resume, Resume::NextMember(_)) {
            self.unfinished(&stop);
        }
        let (ledger, module) = (&mut self.ledger, &self.module);
        match stop {
            Stop::Vetoed(by) => ledger.rows_of_vetoed(&ended, by, module),
            Stop::Lacking(why) => ledger.rows_of_lacking(&ended, why, module),
            Stop::Skipped(why) => ledger.rows_of(&ended, &Outcome::Skipped(why), module, |_| true),
            Stop::Failed(error) => {
                ledger.rows_of(&ended, &Outcome::Failed, module, |_| true);
                if resume == Resume::Nowhere {
                    return Err(error);
                }
                ledger.goes_on_after(error);
            }
            Stop::After(error, changed, cost) => {
                ledger.cost = cost;
                ledger.rows_of_done(&ended, changed, module);
                return Err(error);
            }
            // The pass itself neither ran nor failed.
            Stop::Before(error) => {
                ledger.rows_of(&ended, &Outcome::Failed, module, |row| row.has_members);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns an error if running a requested step is pointless because the plugin of its pass is quarantined. The
    /// requirements of the step do not run either.
    fn may_try(&self, step: &Step) -> Result<(), Stop> {
        let pass = step.unit.pass().filter(|_| step.skip.is_none() && self.plan.members(step).is_none());
        pass.and_then(|pass| self.marked(pass)).map_or(Ok(()), |why| Err(Stop::Skipped(why)))
    }

    /// Runs a pass, unless it is not among the passes to call, its plugin is quarantined, or it already failed on the
    /// same module.
    fn run(&mut self, job: &Job<'_>, driver: &mut Driver<'_>) -> Result<(), Stop> {
        self.rest.begins(job.number).map_err(Stop::Failed)?;
        match self.rest.instead(job.pass) {
            Some(Outcome::Vetoed(by)) => return Err(Stop::Vetoed(by)),
            Some(past) => {
                driver.done(past == Outcome::Changed);
                return Ok(());
            }
            None => {}
        }
        if let Some(why) = self.marked(job.pass).or_else(|| self.failed_before(job)) {
            return Err(Stop::Skipped(why));
        }
        let before = self.module.clone();
        match self.pass(job, driver.facts_mut()) {
            Ok((changed, cost)) => {
                self.ledger.cost = Some(cost);
                self.rest.ended(Outcome::of_run(changed));
                driver.done(changed);
                Ok(())
            }
            Err(stop) => {
                match &stop {
                    Stop::Failed(_) => {
                        self.failed.entry(job.pass).or_default().push((job.options.to_vec(), before.clone()));
                        self.ledger.fails_at(before, self.rest.outcomes());
                    }
                    Stop::Before(_) | Stop::After(..) => self.ledger.fails_at(before, self.rest.outcomes()),
                    Stop::Vetoed(by) => self.rest.ended(Outcome::Vetoed(by.clone())),
                    Stop::Skipped(_) | Stop::Lacking(_) => {}
                }
                Err(stop)
            }
        }
    }

    /// Returns a reason if the pass already failed on the same module with the same options.
    fn failed_before(&self, job: &Job<'_>) -> Option<String> {
        let same = |(given, on): &&(Vec<OptionValue>, Module)| *given == *job.options && on.same(&self.module);
        self.failed.get(&job.pass)?.iter().rev().find(same).map(|_| "it already failed on the same module".to_string())
    }

    /// Returns the reason why the plugin of a pass is quarantined.
    fn marked(&self, pass: PassId) -> Option<String> {
        self.marked_plugin(self.engine.registry().pass_place(pass).0)
    }

    pub(super) fn marked_plugin(&self, owner: OwnerId) -> Option<String> {
        let file = self.engine.registry().owner(owner).file.as_deref();
        let by_instrument = || self.instruments().panicked(file?);
        self.services.marks.of(owner).or_else(by_instrument)
    }

    pub(super) fn instruments(&self) -> RefMut<'r, Instruments> {
        self.runner.context.instruments().borrow_mut()
    }

    /// Sets the current module.
    pub(super) fn set_module(&mut self, module: Module) {
        self.services.see(&module);
        self.module = module;
    }

    /// Forwards new diagnostics.
    pub(super) fn hear(&mut self) {
        self.heard.hear(self.services, self.runner.hears.as_deref());
    }
}
