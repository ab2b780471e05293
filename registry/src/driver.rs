//! What holds of the module while a plan runs, and the driver that decides from it which required steps run.

use crate::plan::{Numbers, Plan, Skip, Step, Unit, Why, without_default};
use crate::registry::{PassId, Registry};
use plugin_api::metadata::{OptionValue, PassInfo, Required};
use plugin_api::names::did_you_mean;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

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
            let preserved = Preserved::by(info);
            preserved.keep(&mut self.ran);
            preserved.keep(&mut self.properties);
        }
        if defaults {
            self.ran.insert(info.name.clone());
        }
        self.properties.extend(info.contract.establishes.iter().cloned());
    }
}

/// What a pass keeps when it changes the module: properties, and effects of passes.
pub struct Preserved<'a> {
    all: bool,
    names: HashSet<&'a str>,
    invalidated: HashSet<&'a str>,
}

impl<'a> Preserved<'a> {
    /// By this pass.
    pub fn by(info: &'a PassInfo) -> Preserved<'a> {
        let set = |names: &'a [String]| names.iter().map(String::as_str).collect::<HashSet<&str>>();
        let names = set(&info.contract.preserves);
        Preserved { all: names.contains("all"), names, invalidated: set(&info.contract.invalidates) }
    }

    /// Whether it keeps that.
    pub fn has(&self, name: &str) -> bool {
        (self.all || self.names.contains(name)) && !self.invalidated.contains(name)
    }

    /// Of what holds, leaves what is kept. It takes as long as the contract is, or as what is lost: a run of many passes
    /// must not look at all that holds after each of them.
    fn keep(&self, holds: &mut BTreeSet<String>) {
        if self.all {
            for name in &self.invalidated {
                holds.remove(*name);
            }
        } else {
            let kept = self.names.iter().filter(|name| self.has(name)).filter_map(|name| holds.take(*name));
            *holds = kept.collect();
        }
    }
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

/// A pass that is to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job<'a> {
    /// The pass.
    pub pass: PassId,
    /// All its options.
    pub options: &'a [OptionValue],
    /// Number of its line in the plan, from 1.
    pub number: usize,
}

/// Runs one pass with its options, and says whether the module changed. It may add facts that it finds.
pub type Run<'a, E> = dyn FnMut(Job<'_>, &mut Facts) -> Result<bool, E> + 'a;

/// What a run has beside passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// A Sequential or composite pass begins, after what it requires.
    Begin {
        /// The step.
        step: &'a Step,
        /// Number of its line in the plan, from 1.
        number: usize,
    },
    /// Its members are done.
    End(&'a Step),
    /// A step was reached that cannot run, in a run as TVM does it.
    Stuck {
        /// The step.
        step: &'a Step,
        /// Number of its line in the plan, from 1.
        number: usize,
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

/// A step that is being done, with where in it the run is.
struct Open<'p> {
    step: Cow<'p, Step>,
    /// Its entry in the numbers of the plan.
    line: usize,
    why: Why,
    nesting: usize,
    /// Whether it is required, or part of what is: it runs whatever its level.
    needed: bool,
    /// Whether `pass_over` may take its errors.
    may_fail: bool,
    /// How many steps were being done when it began.
    depth: usize,
    next: Next,
    done: Done,
}

/// What comes next in a step.
enum Next {
    /// It begins.
    Start,
    /// The entry of what it requires at this position.
    Need(usize),
    /// Its own work.
    Work,
    /// The member at this position.
    Member(usize),
}

impl<'p> Open<'p> {
    fn new(step: Cow<'p, Step>, line: usize, why: Why, nesting: usize) -> Open<'p> {
        let (next, done) = (Next::Start, Done::default());
        Open { step, line, why, nesting, needed: false, may_fail: false, depth: 0, next, done }
    }
}

/// Runs a plan: decides, and lets others do the work.
pub struct Driver<'a> {
    registry: &'a Registry,
    facts: Facts,
    warnings: Vec<String>,
    doing: Vec<Doing>,
    told: usize,
    /// Lines of the steps that it has come to.
    numbers: Numbers,
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
        let (facts, warnings, doing, numbers) = (Facts::default(), Vec::new(), Vec::new(), Numbers::default());
        Driver { registry, facts, warnings, doing, told: 0, numbers }
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

    /// Passes over a step of a plan that was asked for, which has its lines all the same.
    pub fn leave_out(&mut self, plan: &Plan, step: &Step) {
        self.numbers.add(plan, step, self.registry);
    }

    /// Runs one step of a plan that was asked for, with what it requires and contains. Each step must be given once and
    /// in order, here or to [`Driver::leave_out`]: the numbers of the lines follow from that.
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
        let mut run = |job: Job<'_>, facts: &mut Facts| run(job, facts);
        let mut framed = |frame: Frame<'_>| framed(frame);
        let mut pass_over = |error: E, ended: &[(Doing, usize)]| pass_over(error, ended);
        let mut work = Work { run: &mut run, framed: &mut framed, done, pass_over: &mut pass_over };
        // A stack of its own: what passes require can lead to each other 100,000 times.
        let line = self.numbers.add(plan, step, self.registry);
        let mut open = vec![Open::new(Cow::Borrowed(step), line, Why::Asked, 0)];
        while !open.is_empty() {
            if let Err(error) = self.advance(plan, &mut open, &mut work) {
                self.unwind(error, &mut open, &mut work)?;
            }
        }
        Ok(())
    }

    /// Does the next thing in the innermost step.
    fn advance<'p, E>(&mut self, plan: &'p Plan, open: &mut Vec<Open<'p>>, work: &mut Work<'_, E>) -> Result<(), E> {
        let Some(top) = open.last_mut() else { return Ok(()) };
        let registry = self.registry;
        match top.next {
            Next::Start => self.start(plan, open, work),
            Next::Need(at) => match top.step.needs(registry).get(at) {
                Some(req) => {
                    let req = req.clone();
                    top.next = Next::Need(at + 1);
                    let (line, why) = (self.numbers.required(top.line, at), Why::RequiredBy(top.step.unit.clone()));
                    match plan.tvm_compat {
                        true => self.need_each_time(&req, line, why, open, work),
                        false => self.need(&req, line, why, open, work),
                    }
                }
                None => {
                    top.next = Next::Work;
                    if !plan.tvm_compat {
                        self.warn_of_undone(&open[open.len() - 1].step);
                    }
                    Ok(())
                }
            },
            Next::Work => self.work(plan, open, work),
            Next::Member(at) => {
                if let Some(member) = plan.members_of(&top.step).and_then(|members| members.get(at)) {
                    top.next = Next::Member(at + 1);
                    let (why, nesting, needed) = (Why::PartOf(top.step.unit.clone()), top.nesting + 1, top.needed);
                    let member = Open::new(Cow::Borrowed(member), self.numbers.member(top.line, at), why, nesting);
                    open.push(Open { needed, may_fail: true, ..member });
                    return Ok(());
                }
                (work.framed)(Frame::End(&top.step))?;
                // Its members have done to the facts what they do; only all of them are the pass.
                let whole = top.step.unit.pass().filter(|_| top.done.missing.is_none());
                whole.into_iter().for_each(|pass| self.facts.after_run(registry.pass(pass), true, false));
                self.finish(plan, open, work)
            }
        }
    }

    /// The innermost step begins, or is skipped.
    fn start<E>(&mut self, plan: &Plan, open: &mut Vec<Open<'_>>, work: &mut Work<'_, E>) -> Result<(), E> {
        let Some(top) = open.last_mut() else { return Ok(()) };
        let (unit, given, why) = (top.step.unit.clone(), top.step.given.clone(), top.why.clone());
        top.depth = self.doing.len();
        top.next = Next::Need(0);
        self.doing.push(Doing { unit, given, why, nesting: top.nesting, began: self.told });
        let Some(skip) = top.step.skip_where(top.needed) else { return Ok(()) };
        let skip = skip.clone();
        top.done.missing = Some(format!("{} was skipped", top.step.unit.name(self.registry)));
        self.tell(Outcome::Skipped(skip), work);
        self.close(plan, open, work)
    }

    /// The innermost step has what it requires: a pass runs, a whole begins.
    fn work<E>(&mut self, plan: &Plan, open: &mut Vec<Open<'_>>, work: &mut Work<'_, E>) -> Result<(), E> {
        let Some(top) = open.last_mut() else { return Ok(()) };
        let number = self.numbers.of(top.line);
        self.doing.iter_mut().next_back().into_iter().for_each(|doing| doing.began = self.told);
        match (plan.members_of(&top.step), top.step.unit.pass()) {
            (Some(_), _) => {
                top.next = Next::Member(0);
                return (work.framed)(Frame::Begin { step: &top.step, number });
            }
            (None, Some(pass)) => {
                let job = Job { pass, options: &top.step.options, number };
                top.done.changed = (work.run)(job, &mut self.facts)?;
                self.facts.after_run(self.registry.pass(pass), top.step.defaults, top.done.changed);
            }
            (None, None) => {}
        }
        self.finish(plan, open, work)
    }

    /// The innermost step was done.
    fn finish<E>(&mut self, plan: &Plan, open: &mut Vec<Open<'_>>, work: &mut Work<'_, E>) -> Result<(), E> {
        let changed = open.last().is_some_and(|top| top.done.changed);
        self.tell(if changed { Outcome::Changed } else { Outcome::Unchanged }, work);
        self.close(plan, open, work)
    }

    /// The innermost step ended, which its user or what contains it learns.
    fn close<E>(&mut self, plan: &Plan, open: &mut Vec<Open<'_>>, work: &mut Work<'_, E>) -> Result<(), E> {
        let (Some(Open { step, done, .. }), Some(outer)) = (open.pop(), open.last_mut()) else { return Ok(()) };
        match (&outer.next, done.missing) {
            (Next::Member(_), missing) => {
                outer.done.changed |= done.changed;
                outer.done.missing = outer.done.missing.take().or(missing);
                Ok(())
            }
            (_, Some(missing)) if !plan.tvm_compat => {
                (work.framed)(Frame::Lacking { step: &outer.step, needed: &step, missing })
            }
            _ => Ok(()),
        }
    }

    /// The innermost step ended with an error, and so do all around it, up to the first that may fail.
    fn unwind<E>(&mut self, mut error: E, open: &mut Vec<Open<'_>>, work: &mut Work<'_, E>) -> Result<(), E> {
        while let Some(Open { step, may_fail, depth, .. }) = open.pop() {
            if !may_fail {
                continue;
            }
            let ended = self.abandoned_from(depth);
            match (work.pass_over)(error, &ended) {
                Ok(fate) => {
                    self.doing.truncate(depth);
                    self.told += ended.len();
                    // What it required may have run.
                    let missing = format!("{} {fate}", step.unit.name(self.registry));
                    if let Some(outer) = open.last_mut().filter(|outer| matches!(outer.next, Next::Member(_))) {
                        outer.done.missing.get_or_insert(missing);
                    }
                    return Ok(());
                }
                Err(same) => error = same,
            }
        }
        Err(error)
    }

    /// Tells what became of the step that is being done.
    fn tell<E>(&mut self, outcome: Outcome, work: &mut Work<'_, E>) {
        let Some(Doing { unit, given, why, nesting, began }) = self.doing.pop() else { return };
        let inner = self.told - began;
        self.told += 1;
        (work.done)(StepRun { unit, given, why, nesting, inner, outcome });
    }

    /// Runs an entry of what the innermost step requires as TVM does: each time, whatever holds, but not what that
    /// requires.
    fn need_each_time<E>(
        &mut self,
        req: &Required,
        line: usize,
        why: Why,
        open: &mut Vec<Open<'_>>,
        work: &mut Work<'_, E>,
    ) -> Result<(), E> {
        let Some(user) = open.last() else { return Ok(()) };
        match self.alone(req) {
            Ok(step) => {
                let needed = Open::new(Cow::Owned(step), line, why, user.nesting);
                open.push(Open { may_fail: true, ..needed });
                Ok(())
            }
            Err(message) => {
                (work.framed)(Frame::Stuck { step: &user.step, number: self.numbers.of(user.line), message })
            }
        }
    }

    /// A required pass as TVM makes it, or why it cannot.
    fn alone(&self, req: &Required) -> Result<Step, String> {
        let registry = self.registry;
        let Some(pass) = registry.find_full(&req.name) else {
            let near = did_you_mean(&registry.near_passes(&req.name));
            return Err(format!("requires `{}`, which no listed plugin contributes{near}", req.name));
        };
        match without_default(registry.pass(pass)) {
            Some(option) => Err(format!("requires `{}`, whose option `{option}` must be given", req.name)),
            None => Ok(Step { alone: true, ..Step::of(pass, registry.pass(pass)) }),
        }
    }

    /// Runs an entry of what the innermost step requires, unless it is still valid.
    fn need<E>(
        &mut self,
        req: &Required,
        line: usize,
        why: Why,
        open: &mut Vec<Open<'_>>,
        work: &mut Work<'_, E>,
    ) -> Result<(), E> {
        let (registry, nesting) = (self.registry, open.last().map_or(0, |user| user.nesting));
        let Some(pass) = registry.find_full(&req.name) else { return Ok(()) };
        let step = Step::of(pass, registry.pass(pass));
        if self.facts.is_valid(&req.name) {
            self.doing.push(Doing { unit: step.unit, given: step.given, why, nesting, began: self.told });
            self.tell(Outcome::StillValid, work);
        } else {
            open.push(Open { needed: true, ..Open::new(Cow::Owned(step), line, why, nesting) });
        }
        Ok(())
    }

    /// A list is satisfied once, from left to right: a later entry can undo an earlier one.
    fn warn_of_undone(&mut self, user: &Step) {
        let needs = user.needs(self.registry);
        if let Some(undone) = needs.iter().find(|req| !self.facts.is_valid(&req.name)) {
            self.warnings.push(format!(
                "`{}` requires `{}`, which a later requirement of it undid; it runs all the same",
                user.unit.name(self.registry),
                undone.name
            ));
        }
    }
}
