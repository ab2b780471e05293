//! The driver, which walks through a plan and decides from what holds of the module which required steps run.

mod facts;

use crate::plan::{Numbers, Plan, Skip, Step, Unit, Why, without_default};
use crate::registry::{PassId, Registry};
use passhost_lang::metadata::{OptionValue, Required};
use passhost_lang::names::did_you_mean;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

pub use facts::{Facts, Preserved};

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

/// A step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRun {
    /// What it is about.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// Why it is there.
    pub why: Why,
    /// How many composite passes and Sequentials it is in.
    pub nesting: usize,
    /// How many rounds began, if its members run until nothing changes.
    pub rounds: Option<u32>,
}

/// A pass that is to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job<'p> {
    /// The pass.
    pub pass: PassId,
    /// All its options.
    pub options: Cow<'p, [OptionValue]>,
    /// Number of its line in the plan, from 1.
    pub number: usize,
}

/// The next thing in a run. Each but [`Todo::Ended`] can be answered with [`Driver::failed`].
#[derive(Clone, Debug, PartialEq)]
pub enum Todo<'p> {
    /// A step that was asked for is next. What it requires runs first.
    Asked(&'p Step),
    /// A pass is to run. The answer is [`Driver::done`] if it succeeds.
    Run(Job<'p>),
    /// A Sequential or composite pass begins, after what it requires.
    Begin {
        /// The step.
        step: Cow<'p, Step>,
        /// Number of its line in the plan, from 1.
        number: usize,
    },
    /// The members of a Sequential that runs until nothing changes have ended, and some of them changed the module. Without
    /// an answer they run again.
    Round(Round),
    /// The members of the Sequential or composite pass that began last have ended.
    End,
    /// A step requires something that is not available, which only a run as TVM does it finds out this late. Without an
    /// answer it runs all the same.
    Stuck {
        /// What the step is about.
        unit: Unit,
        /// Number of its line in the plan, from 1.
        number: usize,
        /// What it requires, and why that is not available.
        message: String,
    },
    /// Something that a step needs ran, but without some of its members. Without an answer the step runs all the same.
    Lacking {
        /// What the step needs.
        needed: Unit,
        /// Which member did not run, and why.
        missing: String,
    },
    /// A step has ended: a Sequential or composite pass after its members.
    Ended(StepRun, Outcome),
}

/// A round of a Sequential that runs until nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The Sequential.
    pub unit: Unit,
    /// Number of its line in the plan, from 1.
    pub number: usize,
    /// Which round it was, from 1.
    pub round: u32,
    /// How many there can be.
    pub limit: u32,
    /// The passes that changed the module in it.
    pub changed: BTreeSet<PassId>,
}

/// Where a run continues after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume<'t> {
    /// With the next member of the Sequential or composite pass that the failed step is in, otherwise with the next step
    /// that was asked for. The text is the fate of the failed step: `was vetoed by acme.Guard`.
    NextMember(&'t str),
    /// With the next step that was asked for.
    NextAsked,
    /// Nowhere: the run is over.
    Nowhere,
}

/// A step that is being done, with where in it the run is.
struct Open<'p> {
    step: Cow<'p, Step>,
    /// Its entry in the numbers of the plan.
    line: usize,
    why: Why,
    nesting: usize,
    /// Whether it is required, or part of a step that is: it runs at any level.
    needed: bool,
    /// Whether the run can continue with the next member after it failed.
    may_fail: bool,
    next: Next,
    /// Whether it changed the module.
    changed: bool,
    /// Whether something that it requires changed the module.
    prepared: bool,
    /// Which round it is in, from 1, if its members run until nothing changes.
    round: Option<u32>,
    /// Which part of it did not run, and why.
    missing: Option<String>,
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
    /// Its members have ended, and whoever pulls the driver knows it.
    Whole,
    /// Its end.
    End,
}

impl<'p> Open<'p> {
    fn new(step: Cow<'p, Step>, line: usize, why: Why, nesting: usize) -> Open<'p> {
        let (needed, may_fail, changed, prepared) = (false, false, false, false);
        let (next, round, missing) = (Next::Start, None, None);
        Open { step, line, why, nesting, needed, may_fail, next, changed, prepared, round, missing }
    }

    fn run(&self) -> StepRun {
        let (unit, given, why) = (self.step.unit.clone(), self.step.given.clone(), self.why.clone());
        StepRun { unit, given, why, nesting: self.nesting, rounds: self.round }
    }
}

/// The passes that changed the module in a step that is repeated.
#[derive(Default)]
struct Changes {
    /// In the round that runs.
    round: BTreeSet<PassId>,
    /// In the rounds before it.
    earlier: BTreeSet<PassId>,
}

/// Walks through a plan. It decides which required steps run; whoever pulls it does the work:
///
/// ```
/// # use registry::{Driver, Plan, Registry, Resume, Todo};
/// # fn run(registry: &Registry, plan: &Plan, call: impl Fn(registry::Job<'_>) -> Option<bool>) {
/// let mut driver = Driver::new(registry, plan);
/// while let Some(todo) = driver.next() {
///     let failed = match todo {
///         Todo::Run(job) => match call(job) {
///             Some(changed) => {
///                 driver.done(changed);
///                 false
///             }
///             None => true,
///         },
///         // Unless its answer is that it failed, a repetition whose passes undo each other never ends.
///         Todo::Round(round) => round.round >= round.limit,
///         _ => false,
///     };
///     if failed {
///         driver.failed(Resume::Nowhere);
///     }
/// }
/// # }
/// ```
pub struct Driver<'p> {
    registry: &'p Registry,
    plan: &'p Plan,
    /// How many of the steps that were asked for were begun.
    begun: usize,
    /// Lines of the steps that it has come to.
    numbers: Numbers,
    facts: Facts,
    /// Each once, however many rounds repeat it.
    warnings: Vec<String>,
    warned: HashSet<String>,
    /// The steps that are being done, each inside or for the one before it. A stack of its own: passes can require each
    /// other in a chain of 100,000.
    open: Vec<Open<'p>>,
    /// For each of these steps that is in a round the passes that changed the module.
    rounds: Vec<Changes>,
    /// What follows from the step that ended last.
    pending: Option<Todo<'p>>,
}

impl<'p> Driver<'p> {
    /// A driver for a module of which nothing is known.
    pub fn new(registry: &'p Registry, plan: &'p Plan) -> Driver<'p> {
        let (numbers, facts, open, rounds) = (Numbers::default(), Facts::default(), Vec::new(), Vec::new());
        let (warnings, warned) = Default::default();
        Driver { registry, plan, begun: 0, numbers, facts, warnings, warned, open, rounds, pending: None }
    }

    /// What holds now.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What holds now, for a pass that finds out more.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// What the run showed that the user should know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The pass of the last [`Todo::Run`] ran, and changed the module or not.
    pub fn done(&mut self, changed: bool) {
        let Some(top) = self.open.last_mut() else { return };
        top.changed = changed;
        if let Some(pass) = top.step.unit.pass() {
            self.facts.after_run(self.registry.pass(pass), top.step.defaults, changed);
            if let Some(changes) = self.rounds.last_mut().filter(|_| changed) {
                changes.round.insert(pass);
            }
        }
    }

    /// What was to be done failed. Returns the steps that it ends, the innermost one last: the one that failed, those
    /// that need it, and those that contain it, as far as the run does not continue in them.
    pub fn failed(&mut self, resume: Resume<'_>) -> Vec<StepRun> {
        let fate = if let Resume::NextMember(fate) = resume { Some(fate) } else { None };
        let depth = fate.and_then(|_| self.open.iter().rposition(|open| open.may_fail)).unwrap_or(0);
        let ended = self.open.split_off(depth);
        // What a repetition did that failed is undone, so it changed nothing in the rounds around it.
        self.rounds.truncate(self.open.iter().filter(|step| step.round.is_some()).count());
        self.pending = None;
        if resume == Resume::Nowhere {
            self.begun = self.plan.steps.len();
        }
        // What a member required may have run.
        let fate = fate.filter(|_| ended.len() == 1).unwrap_or("was skipped");
        let outer = self.open.last_mut().filter(|outer| matches!(outer.next, Next::Member(_)));
        if let (Some(outer), Some(member)) = (outer, ended.first()) {
            outer.changed |= ended.iter().any(|step| step.prepared || step.changed && step.round.is_none());
            outer.missing.get_or_insert(format!("{} {fate}", member.step.unit.name(self.registry)));
        }
        ended.iter().map(Open::run).collect()
    }

    /// The next step that was asked for.
    fn ask(&mut self) -> Option<Todo<'p>> {
        let step = self.plan.steps.get(self.begun)?;
        self.begun += 1;
        let line = self.numbers.add(self.plan, step, self.registry);
        self.open.push(Open::new(Cow::Borrowed(step), line, Why::Asked, 0));
        Some(Todo::Asked(step))
    }

    /// Takes the next step of the walk; returns something if others have to do with it.
    fn advance(&mut self) -> Option<Todo<'p>> {
        let top = self.open.last_mut()?;
        match top.next {
            Next::Start => {
                top.next = Next::Need(0);
                let skip = top.step.skip_where(top.needed)?.clone();
                top.missing = Some(format!("{} was skipped", top.step.unit.name(self.registry)));
                self.close(Outcome::Skipped(skip))
            }
            Next::Need(at) => self.need(at),
            Next::Work => self.work(),
            Next::Member(at) => self.member(at),
            Next::Whole => {
                // Its members have done to the facts what they do; only all of them are the pass.
                let whole = top.step.unit.pass().filter(|_| top.missing.is_none());
                whole.into_iter().for_each(|pass| self.facts.after_run(self.registry.pass(pass), true, false));
                self.end()
            }
            Next::End => self.end(),
        }
    }

    /// The innermost step comes to an entry of what it requires.
    fn need(&mut self, at: usize) -> Option<Todo<'p>> {
        let registry = self.registry;
        let user = self.open.last_mut()?;
        let Some(req) = user.step.needs(registry).get(at).cloned() else {
            user.next = Next::Work;
            if !self.plan.compat.runs_required_each_time() {
                self.warn_of_undone();
            }
            return None;
        };
        user.next = Next::Need(at + 1);
        let (line, why) = (self.numbers.required(user.line, at), Why::RequiredBy(user.step.unit.clone()));
        match self.plan.compat.runs_required_each_time() {
            true => self.need_each_time(&req, line, why),
            false => self.need_once(&req, line, why),
        }
    }

    /// Runs a required pass unless it is still valid.
    fn need_once(&mut self, req: &Required, line: usize, why: Why) -> Option<Todo<'p>> {
        let pass = self.registry.find_full(&req.name)?;
        let step = Cow::Owned(Step::of(pass, self.registry.pass(pass)));
        let needed = Open { needed: true, ..Open::new(step, line, why, self.open.last()?.nesting) };
        if self.facts.is_valid(&req.name) {
            return Some(Todo::Ended(needed.run(), Outcome::StillValid));
        }
        self.open.push(needed);
        None
    }

    /// Runs a required pass as TVM does: each time, whatever holds, but not what that requires.
    fn need_each_time(&mut self, req: &Required, line: usize, why: Why) -> Option<Todo<'p>> {
        let user = self.open.last()?;
        match self.alone(req) {
            Ok(step) => {
                let needed = Open::new(Cow::Owned(step), line, why, user.nesting);
                self.open.push(Open { may_fail: true, ..needed });
                None
            }
            Err(message) => {
                Some(Todo::Stuck { unit: user.step.unit.clone(), number: self.numbers.of(user.line), message })
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

    /// A list is satisfied once, from left to right: a later entry can undo an earlier one.
    fn warn_of_undone(&mut self) {
        let Some(user) = self.open.last() else { return };
        let needs = user.step.needs(self.registry);
        if let Some(undone) = needs.iter().find(|req| !self.facts.is_valid(&req.name)) {
            let warning = format!(
                "`{}` requires `{}`, which a later requirement of it undid; it runs all the same",
                user.step.unit.name(self.registry),
                undone.name
            );
            if self.warned.insert(warning.clone()) {
                self.warnings.push(warning);
            }
        }
    }

    /// The innermost step has what it requires: a pass runs, a whole begins.
    fn work(&mut self) -> Option<Todo<'p>> {
        let top = self.open.last_mut()?;
        let number = self.numbers.of(top.line);
        if self.plan.members_of(&top.step).is_some() {
            top.next = Next::Member(0);
            if top.step.rounds.is_some() {
                top.round = Some(1);
                self.rounds.push(Changes::default());
            }
            return Some(Todo::Begin { step: top.step.clone(), number });
        }
        top.next = Next::End;
        let options = match &top.step {
            Cow::Borrowed(step) => Cow::Borrowed(&step.options[..]),
            Cow::Owned(step) => Cow::Owned(step.options.clone()),
        };
        Some(Todo::Run(Job { pass: top.step.unit.pass()?, options, number }))
    }

    /// The innermost step comes to a member.
    fn member(&mut self, at: usize) -> Option<Todo<'p>> {
        let top = self.open.last_mut()?;
        if let Some(member) = self.plan.members_of(&top.step).and_then(|members| members.get(at)) {
            top.next = Next::Member(at + 1);
            let (why, nesting, needed) = (Why::PartOf(top.step.unit.clone()), top.nesting + 1, top.needed);
            let member = Open::new(Cow::Borrowed(member), self.numbers.member(top.line, at), why, nesting);
            self.open.push(Open { needed, may_fail: true, ..member });
            return None;
        }
        if let Some(round) = self.next_round() {
            return Some(Todo::Round(round));
        }
        self.open.last_mut()?.next = Next::Whole;
        Some(Todo::End)
    }

    /// Begins the next round of the innermost step, if it is one of rounds and the last one changed something. Returns the
    /// last one.
    fn next_round(&mut self) -> Option<Round> {
        let top = self.open.last_mut()?;
        let (round, limit) = (top.round?, top.step.rounds?);
        let changes = self.rounds.last_mut()?;
        if changes.round.is_empty() {
            return None;
        }
        let changed = std::mem::take(&mut changes.round);
        changes.earlier.extend(&changed);
        top.next = Next::Member(0);
        top.round = Some(round.saturating_add(1));
        let (unit, number) = (top.step.unit.clone(), self.numbers.of(top.line));
        Some(Round { unit, number, round, limit, changed })
    }

    /// A step ends, and with it its rounds. What changed the module in them changed it in the round around them, too.
    fn leave_rounds(&mut self, ended: &Open<'_>) {
        let changes = ended.round.and_then(|_| self.rounds.pop());
        if let (Some(changes), Some(outer)) = (changes, self.rounds.last_mut()) {
            outer.round.extend(changes.earlier.iter().chain(&changes.round));
        }
    }

    /// The innermost step was done.
    fn end(&mut self) -> Option<Todo<'p>> {
        let changed = self.open.last()?.changed;
        self.close(if changed { Outcome::Changed } else { Outcome::Unchanged })
    }

    /// The innermost step has ended. The step that needs or contains it takes note.
    fn close(&mut self, outcome: Outcome) -> Option<Todo<'p>> {
        let ended = self.open.pop()?;
        self.leave_rounds(&ended);
        let run = ended.run();
        let did = ended.changed || ended.prepared;
        match self.open.last_mut() {
            Some(outer) if matches!(outer.next, Next::Member(_)) => outer.changed |= did,
            Some(outer) => outer.prepared |= did,
            None => {}
        }
        match (self.open.last_mut(), ended.missing) {
            (Some(whole), missing) if matches!(whole.next, Next::Member(_)) => {
                whole.missing = whole.missing.take().or(missing);
            }
            (Some(_), Some(missing)) if !self.plan.compat.runs_in_spite_of_missing_members() => {
                self.pending = Some(Todo::Lacking { needed: run.unit.clone(), missing });
            }
            _ => {}
        }
        Some(Todo::Ended(run, outcome))
    }
}

impl<'p> Iterator for Driver<'p> {
    type Item = Todo<'p>;

    fn next(&mut self) -> Option<Todo<'p>> {
        loop {
            let todo = self.pending.take().or_else(|| if self.open.is_empty() { self.ask() } else { self.advance() });
            if todo.is_some() || self.open.is_empty() && self.begun == self.plan.steps.len() {
                return todo;
            }
        }
    }
}
