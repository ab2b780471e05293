//! What holds of the module while a plan runs, and the driver that decides from it which required steps run.

use crate::plan::{Plan, Skip, Step, Unit, Why, without_default};
use crate::registry::{PassId, Registry};
use plugin_api::meta::{OptionValue, PassInfo, Required};
use plugin_api::names::did_you_mean;
use std::collections::BTreeSet;

/// Passes and properties that hold of the module now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    ran: BTreeSet<String>,
    properties: BTreeSet<String>,
}

impl Facts {
    /// Whether the effect of a pass still holds.
    pub fn is_valid(&self, pass: &str) -> bool {
        self.ran.contains(pass)
    }

    /// Whether a property holds.
    pub fn holds(&self, property: &str) -> bool {
        self.properties.contains(property)
    }

    /// Properties that hold.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(String::as_str)
    }

    /// A property was found to hold.
    pub fn found(&mut self, property: &str) {
        self.properties.insert(property.to_string());
    }

    /// A property was found not to hold.
    pub fn refuted(&mut self, property: &str) {
        self.properties.remove(property);
    }

    /// After a pass ran. Only a run with default options makes the pass itself valid.
    pub fn after_run(&mut self, info: &PassInfo, defaults: bool, changed: bool) {
        if changed {
            self.ran.retain(|name| preserves(info, name));
            self.properties.retain(|name| preserves(info, name));
        }
        if defaults {
            self.ran.insert(info.name.clone());
        }
        self.properties.extend(info.contract.establishes.iter().cloned());
    }
}

/// Whether a pass keeps a property, or the effect of a pass, when it changes the module.
pub fn preserves(info: &PassInfo, name: &str) -> bool {
    let has = |list: &[String], name: &str| list.iter().any(|item| item == name);
    let contract = &info.contract;
    (has(&contract.preserves, "all") || has(&contract.preserves, name)) && !has(&contract.invalidates, name)
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and changed the module.
    Changed,
    /// It ran and changed nothing.
    Unchanged,
    /// It did not run, because its effect still holds.
    StillValid,
    /// It was skipped by the plan.
    Skipped(Skip),
}

/// One step as it was run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRun {
    /// What it is about.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// Why it was there.
    pub why: Why,
    /// In how many composite passes and Sequentials it stands.
    pub nesting: usize,
    /// How many of the steps that were told before it ran inside it.
    pub inner: usize,
    /// What became of it.
    pub outcome: Outcome,
}

/// A step that is being done.
#[derive(Clone, Debug, PartialEq)]
pub struct Doing {
    /// What it is about.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// Why it is there.
    pub why: Why,
    /// In how many composite passes and Sequentials it stands.
    pub nesting: usize,
    /// How many steps were told before its members began.
    began: usize,
}

/// Runs one pass with its options, and says whether the module changed. It may add facts that it finds.
pub type Run<'a, E> = dyn FnMut(PassId, &[OptionValue], &mut Facts) -> Result<bool, E> + 'a;

/// What a run has beside passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// A Sequential or composite pass begins, after what it requires.
    Begin(&'a Step),
    /// Its members are done.
    End(&'a Step),
    /// A step was reached that cannot run, in a run as TVM does it.
    Stuck {
        /// The step.
        step: &'a Step,
        /// What it requires, and why that is not to be had.
        message: String,
    },
    /// What a step needs ran, but not all of its members.
    Lacking {
        /// The step.
        step: &'a Step,
        /// What it needs.
        needed: &'a Step,
        /// Which member did not run, and why.
        missing: String,
    },
}

/// Is told of frames.
pub type Framed<'a, E> = dyn FnMut(Frame<'_>) -> Result<(), E> + 'a;

/// Takes an error of a member, and the steps that it ends: the member first, then what it requires, each with the
/// number of steps told since its members began. It tells of each of them itself. `Ok`: what became of the member, as
/// in `was vetoed by acme.Guard`; the next member runs.
pub type PassOver<'a, E> = dyn FnMut(E, &[(Doing, usize)]) -> Result<String, E> + 'a;

/// A step that was done, or skipped by the plan.
#[derive(Default)]
struct Done {
    /// Whether the module changed.
    changed: bool,
    /// What did not run of it, and why.
    missing: Option<String>,
}

/// How a step stands in a run.
struct Place {
    why: Why,
    nesting: usize,
    /// Whether it is required, or part of what is: it runs whatever its level.
    needed: bool,
}

/// Runs a plan: decides, and lets others do the work.
pub struct Driver<'a> {
    registry: &'a Registry,
    facts: Facts,
    warnings: Vec<String>,
    doing: Vec<Doing>,
    told: usize,
}

/// Who does the work, and who is told of it.
struct Work<'w, E> {
    run: &'w mut Run<'w, E>,
    framed: &'w mut Framed<'w, E>,
    done: &'w mut dyn FnMut(StepRun),
    pass_over: &'w mut PassOver<'w, E>,
}

impl<'a> Driver<'a> {
    /// A driver for a module of which nothing is known.
    pub fn new(registry: &'a Registry) -> Driver<'a> {
        Driver { registry, facts: Facts::default(), warnings: Vec::new(), doing: Vec::new(), told: 0 }
    }

    /// What holds now.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Things that were seen during the run.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// After an error: the steps that were being done, the failed one last, each with the number of steps told since
    /// its members began.
    pub fn abandoned(&mut self) -> Vec<(Doing, usize)> {
        let all = self.abandoned_from(0);
        self.doing.clear();
        all
    }

    fn abandoned_from(&self, depth: usize) -> Vec<(Doing, usize)> {
        self.doing[depth..].iter().map(|doing| (doing.clone(), self.told - doing.began)).collect()
    }

    /// Runs all steps. `run` runs one pass; `done` is told what became of each step, of a composite pass behind its
    /// members.
    ///
    /// # Errors
    /// The first error of `run`; nothing runs after it.
    pub fn run<E>(&mut self, plan: &Plan, run: &mut Run<'_, E>, done: &mut dyn FnMut(StepRun)) -> Result<(), E> {
        let steps = &mut plan.steps.iter();
        steps.try_for_each(|step| self.run_step(plan, step, run, &mut |_| Ok(()), done, &mut |error, _| Err(error)))
    }

    /// Runs one step of a plan that was asked for, with what it requires and contains.
    ///
    /// # Errors
    /// The first error of `run`, but for those of members that `pass_over` takes.
    pub fn run_step<E>(
        &mut self,
        plan: &Plan,
        step: &Step,
        run: &mut Run<'_, E>,
        framed: &mut Framed<'_, E>,
        done: &mut dyn FnMut(StepRun),
        pass_over: &mut PassOver<'_, E>,
    ) -> Result<(), E> {
        let mut run = |pass: PassId, options: &[OptionValue], facts: &mut Facts| run(pass, options, facts);
        let mut framed = |frame: Frame<'_>| framed(frame);
        let mut pass_over = |error: E, ended: &[(Doing, usize)]| pass_over(error, ended);
        let mut work = Work { run: &mut run, framed: &mut framed, done, pass_over: &mut pass_over };
        self.step(plan, step, Place { why: Why::Asked, nesting: 0, needed: false }, &mut work).map(|_| ())
    }

    fn step<E>(&mut self, plan: &Plan, step: &Step, at: Place, work: &mut Work<'_, E>) -> Result<Done, E> {
        let (unit, given, Place { why, nesting, needed }) = (step.unit.clone(), step.given.clone(), at);
        self.doing.push(Doing { unit, given, why, nesting, began: self.told });
        if let Some(skip) = step.skip_where(needed) {
            self.tell(Outcome::Skipped(skip.clone()), work);
            return Ok(Done {
                changed: false,
                missing: Some(format!("{} was skipped", step.unit.name(self.registry))),
            });
        }
        match plan.tvm_compat {
            true => self.required_each_time(plan, step, nesting, work)?,
            false => self.requirements(plan, step, nesting, work)?,
        }
        if let Some(doing) = self.doing.last_mut() {
            doing.began = self.told;
        }
        let mut all = Done::default();
        match (plan.members(step), step.unit.pass()) {
            (Some(members), pass) => {
                (work.framed)(Frame::Begin(step))?;
                for member in members {
                    let why = Why::PartOf(step.unit.clone());
                    let done = self.member(plan, member, Place { why, nesting: nesting + 1, needed }, work)?;
                    all.changed |= done.changed;
                    all.missing = all.missing.or(done.missing);
                }
                (work.framed)(Frame::End(step))?;
                // Its members have done to the facts what they do; only all of them are the pass.
                let whole = pass.filter(|_| all.missing.is_none());
                whole.into_iter().for_each(|pass| self.facts.after_run(self.registry.pass(pass), true, false));
            }
            (None, Some(pass)) => {
                all.changed = (work.run)(pass, &step.options, &mut self.facts)?;
                self.facts.after_run(self.registry.pass(pass), step.defaults, all.changed);
            }
            (None, None) => {}
        }
        self.tell(if all.changed { Outcome::Changed } else { Outcome::Unchanged }, work);
        Ok(all)
    }

    /// Runs a member of a composite pass, which `pass_over` may pass over.
    fn member<E>(&mut self, plan: &Plan, member: &Step, at: Place, work: &mut Work<'_, E>) -> Result<Done, E> {
        let depth = self.doing.len();
        let error = match self.step(plan, member, at, work) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let ended = self.abandoned_from(depth);
        let fate = (work.pass_over)(error, &ended)?;
        self.doing.truncate(depth);
        self.told += ended.len();
        // What it required may have run.
        Ok(Done { changed: false, missing: Some(format!("{} {fate}", member.unit.name(self.registry))) })
    }

    /// Tells what became of the step that is being done.
    fn tell<E>(&mut self, outcome: Outcome, work: &mut Work<'_, E>) {
        let Some(Doing { unit, given, why, nesting, began }) = self.doing.pop() else { return };
        let inner = self.told - began;
        self.told += 1;
        (work.done)(StepRun { unit, given, why, nesting, inner, outcome });
    }

    /// Runs what `user` requires as TVM does: each time, whatever holds, but not what that requires.
    fn required_each_time<E>(
        &mut self,
        plan: &Plan,
        user: &Step,
        nesting: usize,
        work: &mut Work<'_, E>,
    ) -> Result<(), E> {
        for req in user.needs(self.registry) {
            match self.alone(req) {
                Ok(step) => {
                    let why = Why::RequiredBy(user.unit.clone());
                    self.member(plan, &step, Place { why, nesting, needed: false }, work)?;
                }
                Err(message) => (work.framed)(Frame::Stuck { step: user, message })?,
            }
        }
        Ok(())
    }

    /// A required pass as TVM makes it, or why it cannot.
    fn alone(&self, req: &Required) -> Result<Step, String> {
        let registry = self.registry;
        let Some(pass) = registry.find_full(&req.name) else {
            let near = did_you_mean(&registry.near_passes(&req.name));
            return Err(format!("requires `{}`, which no listed plugin has{near}", req.name));
        };
        match without_default(registry.pass(pass)) {
            Some(option) => Err(format!("requires `{}`, whose option `{option}` must be given", req.name)),
            None => Ok(Step { alone: true, ..Step::of(pass, registry.pass(pass)) }),
        }
    }

    /// Satisfies the list of `user` once, from left to right.
    fn requirements<E>(&mut self, plan: &Plan, user: &Step, nesting: usize, work: &mut Work<'_, E>) -> Result<(), E> {
        let registry = self.registry;
        for req in user.needs(registry) {
            let Some(pass) = registry.find_full(&req.name) else { continue };
            let (step, why) = (Step::of(pass, registry.pass(pass)), Why::RequiredBy(user.unit.clone()));
            if self.facts.is_valid(&req.name) {
                self.doing.push(Doing { unit: step.unit, given: step.given, why, nesting, began: self.told });
                self.tell(Outcome::StillValid, work);
                continue;
            }
            if let Some(missing) = self.step(plan, &step, Place { why, nesting, needed: true }, work)?.missing {
                (work.framed)(Frame::Lacking { step: user, needed: &step, missing })?;
            }
        }
        if let Some(undone) = user.needs(registry).iter().find(|req| !self.facts.is_valid(&req.name)) {
            self.warnings.push(format!(
                "`{}` requires `{}`, which a later requirement of it undid; it runs all the same",
                user.unit.name(registry),
                undone.name
            ));
        }
        Ok(())
    }
}
