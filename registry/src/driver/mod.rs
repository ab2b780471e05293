//! The driver. It walks a plan, and decides from the current facts which required steps run.

mod facts;
mod outcome;

use crate::plan::{Numbers, Plan, Step, Unit, Why, without_default};
use crate::registry::{PassId, Registry};
use passhost_lang::metadata::{OptionValue, Required};
use passhost_lang::names::did_you_mean;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

pub use facts::{Facts, Preserved};
pub use outcome::Outcome;

/// A step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRun {
    /// The pass or Sequential.
    pub unit: Unit,
    /// Options as given.
    pub given: Vec<(String, OptionValue)>,
    /// The reason for the step.
    pub why: Why,
    /// Number of composite passes and Sequentials that contain the step.
    pub nesting: usize,
    /// Number of rounds begun, if the members run until nothing changes.
    pub rounds: Option<u32>,
}

/// A pass to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job<'p> {
    /// The pass.
    pub pass: PassId,
    /// All options of the pass.
    pub options: Cow<'p, [OptionValue]>,
    /// Number of the line in the plan, from 1.
    pub number: usize,
}

/// The next action of a run. All except [`Todo::Ended`] can be answered with [`Driver::failed`].
#[derive(Clone, Debug, PartialEq)]
pub enum Todo<'p> {
    /// A requested step is next. Its requirements run first.
    Asked(&'p Step),
    /// The caller must run a pass, and answer with [`Driver::done`] on success.
    Run(Job<'p>),
    /// A Sequential or composite pass begins; its requirements have run.
    Begin {
        /// The step.
        step: Cow<'p, Step>,
        /// Number of the line in the plan, from 1.
        number: usize,
    },
    /// A round of a Sequential that runs until nothing changes has ended, after changing the module. Without an answer,
    /// the members run again.
    Round(Round),
    /// The members of the current Sequential or composite pass have ended.
    End,
    /// A requirement of a step is not available, which is detected this late only in TVM-compatible runs. Without an
    /// answer, the step still runs.
    Stuck {
        /// The pass or Sequential.
        unit: Unit,
        /// Number of the line in the plan, from 1.
        number: usize,
        /// The requirement, and the reason why it is unavailable.
        message: String,
    },
    /// A requirement of a step ran, but without some of its members. Without an answer, the step still runs.
    Lacking {
        /// The requirement.
        needed: Unit,
        /// The member that did not run, with the reason.
        missing: String,
    },
    /// A step has ended. A Sequential or composite pass ends after its members.
    Ended(StepRun, Outcome),
}

/// A round of a Sequential that runs until nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The Sequential.
    pub unit: Unit,
    /// Number of the line in the plan, from 1.
    pub number: usize,
    /// Number of the round, from 1.
    pub round: u32,
    /// Maximum number of rounds.
    pub limit: u32,
    /// The passes that changed the module in this round.
    pub changed: BTreeSet<PassId>,
}

/// The point where a run continues after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume<'t> {
    /// The next member of the Sequential or composite pass that contains the failed step, otherwise the next requested
    /// step. The string describes the outcome of the failed step: `was vetoed by acme.Guard`.
    NextMember(&'t str),
    /// The next requested step.
    NextAsked,
    /// The run does not continue.
    Nowhere,
}

/// An unfinished step, and the progress within it.
struct Open<'p> {
    step: Cow<'p, Step>,
    /// Entry of the step in the line numbers of the plan.
    line: usize,
    why: Why,
    nesting: usize,
    /// True if the step is required, or part of a required step. Required steps run at any level.
    needed: bool,
    /// True if the run can continue with the next member when this step fails.
    may_fail: bool,
    next: Next,
    /// True if the step changed the module.
    changed: bool,
    /// True if a requirement of the step changed the module.
    prepared: bool,
    /// Number of the current round, from 1, if the members run until nothing changes.
    round: Option<u32>,
    /// A part of the step that did not run, and the reason.
    missing: Option<String>,
}

/// The next phase of a step.
enum Next {
    /// Start of the step.
    Start,
    /// The requirement at this position.
    Need(usize),
    /// The step's own work.
    Work,
    /// The member at this position.
    Member(usize),
    /// The end of the members, already reported.
    Whole,
    /// End of the step.
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

/// The passes that changed the module during a repeated step.
#[derive(Default)]
struct Changes {
    /// The passes of the current round.
    round: BTreeSet<PassId>,
    /// The passes that changed the module in earlier rounds.
    earlier: BTreeSet<PassId>,
}

/// Walks a plan. The driver decides which required steps run; the caller executes them:
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
    /// Number of requested steps that have begun.
    begun: usize,
    /// Line numbers of the steps reached.
    numbers: Numbers,
    facts: Facts,
    /// The warnings, without duplicates.
    warnings: Vec<String>,
    warned: HashSet<String>,
    /// The unfinished steps. Each step is part of the previous step, or required by it. The stack is explicit, because
    /// requirement chains can contain 100,000 passes.
    open: Vec<Open<'p>>,
    /// For each unfinished step with rounds, the passes that changed the module.
    rounds: Vec<Changes>,
    /// The remaining work for the last ended step.
    pending: Option<Todo<'p>>,
}

impl<'p> Driver<'p> {
    /// Creates a driver for a module without known facts.
    pub fn new(registry: &'p Registry, plan: &'p Plan) -> Driver<'p> {
        let (numbers, facts, open, rounds) = (Numbers::default(), Facts::default(), Vec::new(), Vec::new());
        let (warnings, warned) = Default::default();
        Driver { registry, plan, begun: 0, numbers, facts, warnings, warned, open, rounds, pending: None }
    }

    /// Returns the current facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the current facts, mutably, for a pass that discovers facts.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Returns the warnings of the run.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Records that the pass of the last [`Todo::Run`] ran, and whether it changed the module.
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

    /// Records that the last action failed. Returns the steps that end with the failure: the failed step, and the steps
    /// that require or contain it, up to the point where the run continues; the innermost step is last.
    pub fn failed(&mut self, resume: Resume<'_>) -> Vec<StepRun> {
        let fate = if let Resume::NextMember(fate) = resume { Some(fate) } else { None };
        let depth = fate.and_then(|_| self.open.iter().rposition(|open| open.may_fail)).unwrap_or(0);
        let ended = self.open.split_off(depth);
        // The changes of a failed repetition are undone, so they do not count in the enclosing rounds.
        self.rounds.truncate(self.open.iter().filter(|step| step.round.is_some()).count());
        self.pending = None;
        if resume == Resume::Nowhere {
            self.begun = self.plan.steps.len();
        }
        // If a step that the member requires or contains failed, the member itself counts as skipped.
        let fate = fate.filter(|_| ended.len() == 1).unwrap_or("was skipped");
        let outer = self.open.last_mut().filter(|outer| matches!(outer.next, Next::Member(_)));
        if let (Some(outer), Some(member)) = (outer, ended.first()) {
            outer.changed |= ended.iter().any(|step| step.prepared || step.changed && step.round.is_none());
            outer.missing.get_or_insert(format!("{} {fate}", member.step.unit.name(self.registry)));
        }
        ended.iter().map(Open::run).collect()
    }

    /// Starts the next requested step.
    fn ask(&mut self) -> Option<Todo<'p>> {
        let step = self.plan.steps.get(self.begun)?;
        self.begun += 1;
        let line = self.numbers.add(self.plan, step, self.registry);
        self.open.push(Open::new(Cow::Borrowed(step), line, Why::Asked, 0));
        Some(Todo::Asked(step))
    }

    /// Advances by one phase. Returns the action for the caller, if any.
    fn advance(&mut self) -> Option<Todo<'p>> {
        let top = self.open.last_mut()?;
        match top.next {
            Next::Start => {
                top.next = Next::Need(0);
                let skip = top.step.skip_where(top.needed)?.to_string();
                top.missing = Some(format!("{} was skipped", top.step.unit.name(self.registry)));
                self.close(Outcome::Skipped(skip))
            }
            Next::Need(at) => self.need(at),
            Next::Work => self.work(),
            Next::Member(at) => self.member(at),
            Next::Whole => {
                // The facts already include the effects of the members. The effect of the pass itself holds only after
                // all members.
                let whole = top.step.unit.pass().filter(|_| top.missing.is_none());
                whole.into_iter().for_each(|pass| self.facts.after_run(self.registry.pass(pass), true, false));
                self.end()
            }
            Next::End => self.end(),
        }
    }

    /// Handles a requirement of the innermost step.
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

    /// Runs a required pass like TVM: every time, regardless of the facts, and without its own requirements.
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

    /// Returns the step that runs a required pass like TVM, or the reason why there is none.
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

    /// Warns about requirements that are undone by later requirements in the same list, because a list is satisfied
    /// only once, from left to right.
    fn warn_of_undone(&mut self) {
        let Some(user) = self.open.last() else { return };
        let needs = user.step.needs(self.registry);
        if let Some(undone) = needs.iter().find(|req| !self.facts.is_valid(&req.name)) {
            let warning = format!(
                "`{}` requires `{}`, which a later requirement invalidated; it runs anyway",
                user.step.unit.name(self.registry),
                undone.name
            );
            if self.warned.insert(warning.clone()) {
                self.warnings.push(warning);
            }
        }
    }

    /// Starts the innermost step, whose requirements have run: runs a pass, or starts a group.
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

    /// Handles a member of the innermost step.
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

    /// Starts the next round of the innermost step, if the step has rounds and the last round changed the module.
    /// Returns the last round.
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

    /// Ends the rounds of a step. Its changes also belong to the current round of the enclosing step.
    fn leave_rounds(&mut self, ended: &Open<'_>) {
        let changes = ended.round.and_then(|_| self.rounds.pop());
        if let (Some(changes), Some(outer)) = (changes, self.rounds.last_mut()) {
            outer.round.extend(changes.earlier.iter().chain(&changes.round));
        }
    }

    /// Ends the work of the innermost step.
    fn end(&mut self) -> Option<Todo<'p>> {
        let changed = self.open.last()?.changed;
        self.close(Outcome::of_run(changed))
    }

    /// Closes the innermost step, and updates the step that requires or contains it.
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
