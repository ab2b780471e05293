//! Walks the lines of a plan in order, and numbers them for the driver.

use super::{PIPELINE, Plan, Skip, Step, Unit};
use crate::registry::{PassId, Registry};
use passhost_lang::metadata::Required;
use std::collections::HashMap;

/// Number of lines after which the requirements of a pass are shown only once. Otherwise, a long requirement chain
/// would be repeated for each of its users.
pub(super) const MANY: usize = 10_000;

/// The subject of a line.
#[derive(Clone, Copy)]
pub(super) enum About<'a> {
    /// A step of the plan.
    Step(&'a Step),
    /// A required pass, with its default options.
    Pass(PassId),
    /// A required pass that does not exist.
    Missing(&'a str),
}

impl<'a> About<'a> {
    pub(super) fn unit(self) -> Unit {
        match self {
            About::Step(step) => step.unit.clone(),
            About::Pass(pass) => Unit::Pass(pass),
            About::Missing(name) => Unit::Sequential(name.to_string()),
        }
    }

    pub(super) fn name(self, registry: &'a Registry) -> &'a str {
        match self {
            About::Step(step) => step.unit.name(registry),
            About::Pass(pass) => &registry.pass(pass).name,
            About::Missing(name) => name,
        }
    }

    /// Formats the maximum number of rounds of a step that repeats until nothing changes; empty for other steps.
    pub(super) fn rounds(self) -> String {
        match self {
            About::Step(Step { rounds: Some(limit), .. }) => format!(", until nothing changes, at most {limit} times"),
            _ => String::new(),
        }
    }

    /// Returns the opt_level from which the pass runs without being required, if that level is a reason to skip it.
    pub(super) fn level_passed_over(self, registry: &Registry) -> Option<i32> {
        match self {
            About::Step(step) => step.skip.as_ref().map(|_| step.opt_level(registry)),
            About::Pass(pass) => Some(registry.pass(pass).opt_level),
            About::Missing(_) => None,
        }
    }
}

/// The reason for a line.
#[derive(Clone, Copy)]
pub(super) enum Reason<'a> {
    Asked,
    /// The line is a member of the composite pass or Sequential with the given name.
    PartOf(&'a str),
    /// A pass requires the line.
    RequiredBy {
        user: &'a str,
        plugin: &'a str,
    },
}

/// The position of a line.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// Number of requirements that lead to the line.
    pub(super) depth: usize,
    /// Number of composite passes and Sequentials that contain the line.
    pub(super) nesting: usize,
    /// True if the line is required, or part of a required step.
    needed: bool,
}

/// One line of a plan.
pub(super) struct Item<'a> {
    pub(super) about: About<'a>,
    pub(super) reason: Reason<'a>,
    /// The reason why the line does not run.
    pub(super) skip: Option<&'a Skip>,
    pub(super) at: Place,
}

/// The line numbers of a plan, which are the numbers of the steps in a run. Requirements already shown are not
/// repeated; the line refers to the earlier lines.
#[derive(Default)]
pub(crate) struct Numbers {
    entries: Vec<Entry>,
    /// Number of lines.
    lines: usize,
    /// The last entry at which each required pass was unfolded.
    unfolded: HashMap<PassId, usize>,
}

/// A line, with its number and the first entries of its requirements and members.
#[derive(Clone, Copy, Default)]
struct Entry {
    number: usize,
    required: usize,
    members: usize,
}

impl Numbers {
    /// Numbers the lines of the next step of a plan. Returns the entry of the step.
    pub(crate) fn add(&mut self, plan: &Plan, step: &Step, registry: &Registry) -> usize {
        let mut walk = Walk::new(plan, registry, self);
        let entry = walk.begin(step);
        while walk.next().is_some() {}
        entry
    }

    /// Returns the number of an entry, from 1.
    pub(crate) fn of(&self, entry: usize) -> usize {
        self.entries[entry].number
    }

    /// Returns the entry of a requirement of an entry, by its position.
    pub(crate) fn required(&self, entry: usize, at: usize) -> usize {
        self.entries[entry].required + at
    }

    /// Returns the entry of a member of an entry.
    pub(crate) fn member(&self, entry: usize, at: usize) -> usize {
        self.entries[entry].members + at
    }

    fn reserve(&mut self, count: usize) -> usize {
        let first = self.entries.len();
        self.entries.resize(first + count, Entry::default());
        first
    }
}

/// An item of remaining work. The top of the stack is next. The stack is explicit, because requirement chains can have
/// 100,000 links.
enum Work<'a> {
    /// A step and, before it, its requirements.
    Step { step: &'a Step, reason: Reason<'a>, at: Place, entry: usize },
    /// A line and, after it, its members unless they were already shown.
    Line { about: About<'a>, reason: Reason<'a>, at: Place, entry: usize, first: bool },
    /// The requirements of a step, from a given position on.
    Needs { user: &'a str, plugin: &'a str, needs: &'a [Required], at: Place, entry: usize },
    /// The members of a step, from a given position on.
    Members { members: &'a [Step], whole: &'a str, at: Place, entry: usize },
}

/// Walks the lines of a plan, requested step by requested step.
pub(super) struct Walk<'a, 'n> {
    plan: &'a Plan,
    registry: &'a Registry,
    numbers: &'n mut Numbers,
    /// Passes that already precede the current step, each with the entry that shows its requirements.
    unfolded: HashMap<PassId, usize>,
    work: Vec<Work<'a>>,
}

impl<'a, 'n> Walk<'a, 'n> {
    pub(super) fn new(plan: &'a Plan, registry: &'a Registry, numbers: &'n mut Numbers) -> Walk<'a, 'n> {
        Walk { plan, registry, numbers, unfolded: HashMap::new(), work: Vec::new() }
    }

    /// Starts a requested step, and returns its entry.
    pub(super) fn begin(&mut self, step: &'a Step) -> usize {
        self.unfolded.clear();
        let entry = self.numbers.reserve(1);
        self.work.push(Work::Step { step, reason: Reason::Asked, at: Place::default(), entry });
        entry
    }

    /// Returns the next line of the step.
    pub(super) fn next(&mut self) -> Option<Item<'a>> {
        loop {
            match self.work.pop()? {
                Work::Step { step, reason, at, entry } => self.step(step, reason, at, entry),
                Work::Line { about, reason, at, entry, first } => {
                    let skip = self.line(about, at, entry, first);
                    return Some(Item { about, reason, skip, at });
                }
                Work::Needs { user, plugin, needs, at, entry } => self.needs(user, plugin, needs, at, entry),
                Work::Members { members, whole, at, entry } => {
                    let Some((step, rest)) = members.split_first() else { continue };
                    self.work.push(Work::Members { members: rest, whole, at, entry: entry + 1 });
                    self.work.push(Work::Step { step, reason: Reason::PartOf(whole), at, entry });
                }
            }
        }
    }

    fn step(&mut self, step: &'a Step, reason: Reason<'a>, at: Place, entry: usize) {
        self.work.push(Work::Line { about: About::Step(step), reason, at, entry, first: true });
        if step.skip_where(at.needed).is_none() {
            let plugin = step.unit.pass().map_or(PIPELINE, |pass| &self.registry.pass_owner(pass).name);
            let at = Place { depth: at.depth + 1, needed: true, ..at };
            self.all_needs(step.unit.name(self.registry), plugin, step.needs(self.registry), at, entry);
        }
    }

    fn all_needs(&mut self, user: &'a str, plugin: &'a str, needs: &'a [Required], at: Place, entry: usize) {
        let required = self.numbers.reserve(needs.len());
        self.numbers.entries[entry].required = required;
        self.work.push(Work::Needs { user, plugin, needs, at, entry: required });
    }

    /// Numbers a line, and schedules its members to follow. Returns the reason if the line is skipped.
    fn line(&mut self, about: About<'a>, at: Place, entry: usize, first: bool) -> Option<&'a Skip> {
        self.numbers.lines += 1;
        self.numbers.entries[entry].number = self.numbers.lines;
        let (skip, members) = match about {
            About::Step(step) => (step.skip_where(at.needed), self.plan.members(step)),
            About::Pass(pass) => (None, self.plan.composites.get(&pass).map(Vec::as_slice)),
            About::Missing(_) => (None, None),
        };
        if let Some(members) = members.filter(|_| first && skip.is_none()) {
            let (whole, first) = (about.name(self.registry), self.numbers.reserve(members.len()));
            self.numbers.entries[entry].members = first;
            let at = Place { nesting: at.nesting + 1, ..at };
            self.work.push(Work::Members { members, whole, at, entry: first });
        }
        skip
    }

    fn needs(&mut self, user: &'a str, plugin: &'a str, needs: &'a [Required], at: Place, entry: usize) {
        let Some((req, rest)) = needs.split_first() else { return };
        self.work.push(Work::Needs { user, plugin, needs: rest, at, entry: entry + 1 });
        let reason = Reason::RequiredBy { user, plugin };
        let found = self.registry.find_full(&req.name);
        if self.plan.compat.runs_required_each_time() {
            // The pass runs each time, regardless of the facts, and without its own requirements.
            let (about, at) =
                (found.map_or(About::Missing(&req.name), About::Pass), Place { depth: 1, needed: false, ..at });
            self.work.push(Work::Line { about, reason, at, entry, first: true });
        } else if let Some(pass) = found {
            self.required(pass, reason, at, entry);
        }
    }

    /// Schedules a required pass and, before it, its requirements unless they were already shown.
    fn required(&mut self, pass: PassId, reason: Reason<'a>, at: Place, entry: usize) {
        let earlier = || self.numbers.unfolded.get(&pass).filter(|_| self.numbers.lines >= MANY);
        let known = self.unfolded.get(&pass).or_else(earlier).copied();
        self.work.push(Work::Line { about: About::Pass(pass), reason, at, entry, first: known.is_none() });
        if let Some(known) = known {
            self.numbers.entries[entry] = self.numbers.entries[known];
            return;
        }
        self.unfolded.insert(pass, entry);
        self.numbers.unfolded.insert(pass, entry);
        let info = self.registry.pass(pass);
        let at = Place { depth: at.depth + 1, ..at };
        self.all_needs(&info.name, &self.registry.pass_owner(pass).name, &info.required, at, entry);
    }
}
