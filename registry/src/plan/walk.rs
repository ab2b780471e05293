//! The lines of a plan in their order, and the number of each line for those who run it.

use super::{PIPELINE, Plan, Skip, Step, Unit};
use crate::registry::{PassId, Registry};
use passhost_lang::metadata::Required;
use std::collections::HashMap;

/// After so many lines, what a pass requires is unfolded only where the plan has not done it yet: passes that require
/// each other in a long row would fill a page for each of their users.
pub(super) const MANY: usize = 10_000;

/// What a line is about.
#[derive(Clone, Copy)]
pub(super) enum About<'a> {
    /// A step of the plan.
    Step(&'a Step),
    /// A required pass, with its default options.
    Pass(PassId),
    /// A required pass that no plugin has.
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

    /// How often it runs, if it runs until nothing changes.
    pub(super) fn rounds(self) -> String {
        match self {
            About::Step(Step { rounds: Some(limit), .. }) => format!(", until nothing changes, at most {limit} times"),
            _ => String::new(),
        }
    }

    /// The opt_level at which it would run by itself, where it may run in spite of it.
    pub(super) fn level_passed_over(self, registry: &Registry) -> Option<i32> {
        match self {
            About::Step(step) => step.skip.as_ref().map(|_| step.opt_level(registry)),
            About::Pass(pass) => Some(registry.pass(pass).opt_level),
            About::Missing(_) => None,
        }
    }
}

/// Why a line is there.
#[derive(Clone, Copy)]
pub(super) enum Reason<'a> {
    Asked,
    /// It is a member of the composite pass or Sequential of that name.
    PartOf(&'a str),
    /// A pass of a plugin requires it.
    RequiredBy {
        user: &'a str,
        plugin: &'a str,
    },
}

/// Where a line is.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// How many requirements lead to it.
    pub(super) depth: usize,
    /// How many composite passes and Sequentials contain it.
    pub(super) nesting: usize,
    /// Whether it is required, or part of what is.
    needed: bool,
}

/// One line.
pub(super) struct Item<'a> {
    pub(super) about: About<'a>,
    pub(super) reason: Reason<'a>,
    /// Why it does not run.
    pub(super) skip: Option<&'a Skip>,
    pub(super) at: Place,
}

/// The numbers of the lines of a plan, from which a run takes the number of each step. A requirement whose own
/// requirements are not shown again has the lines of those that were shown before.
#[derive(Default)]
pub(crate) struct Numbers {
    entries: Vec<Entry>,
    /// How many lines there are.
    lines: usize,
    /// Where each required pass was unfolded last.
    unfolded: HashMap<PassId, usize>,
}

/// A line: its number, and where the entries of what it requires and of its members begin.
#[derive(Clone, Copy, Default)]
struct Entry {
    number: usize,
    required: usize,
    members: usize,
}

impl Numbers {
    /// Numbers the lines of the next step of a plan. Gives the entry of the step.
    pub(crate) fn add(&mut self, plan: &Plan, step: &Step, registry: &Registry) -> usize {
        let mut walk = Walk::new(plan, registry, self);
        let entry = walk.begin(step);
        while walk.next().is_some() {}
        entry
    }

    /// The number of an entry, from 1.
    pub(crate) fn of(&self, entry: usize) -> usize {
        self.entries[entry].number
    }

    /// The entry of what an entry requires at a position of its list.
    pub(crate) fn required(&self, entry: usize, at: usize) -> usize {
        self.entries[entry].required + at
    }

    /// The entry of a member of an entry.
    pub(crate) fn member(&self, entry: usize, at: usize) -> usize {
        self.entries[entry].members + at
    }

    fn reserve(&mut self, count: usize) -> usize {
        let first = self.entries.len();
        self.entries.resize(first + count, Entry::default());
        first
    }
}

/// What remains to be done, the next thing last: requirements can lead to each other 100,000 times.
enum Work<'a> {
    /// A step, after what it requires.
    Step { step: &'a Step, reason: Reason<'a>, at: Place, entry: usize },
    /// A line, then its members, unless they were shown.
    Line { about: About<'a>, reason: Reason<'a>, at: Place, entry: usize, first: bool },
    /// What a step requires, from an entry on.
    Needs { user: &'a str, plugin: &'a str, needs: &'a [Required], at: Place, entry: usize },
    /// Members of a step, from one on.
    Members { members: &'a [Step], whole: &'a str, at: Place, entry: usize },
}

/// Walks the lines of a plan, one step that was asked for after the other.
pub(super) struct Walk<'a, 'n> {
    plan: &'a Plan,
    registry: &'a Registry,
    numbers: &'n mut Numbers,
    /// Passes that come before the same step already, with the entry where they are unfolded.
    unfolded: HashMap<PassId, usize>,
    work: Vec<Work<'a>>,
}

impl<'a, 'n> Walk<'a, 'n> {
    pub(super) fn new(plan: &'a Plan, registry: &'a Registry, numbers: &'n mut Numbers) -> Walk<'a, 'n> {
        Walk { plan, registry, numbers, unfolded: HashMap::new(), work: Vec::new() }
    }

    /// Goes on with a step that was asked for. Gives its entry.
    pub(super) fn begin(&mut self, step: &'a Step) -> usize {
        self.unfolded.clear();
        let entry = self.numbers.reserve(1);
        self.work.push(Work::Step { step, reason: Reason::Asked, at: Place::default(), entry });
        entry
    }

    /// The next line of the step.
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

    /// Gives a line its number, and puts its members after it. Gives why it does not run.
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
            // Each time, whatever holds, but nothing before it.
            let (about, at) =
                (found.map_or(About::Missing(&req.name), About::Pass), Place { depth: 1, needed: false, ..at });
            self.work.push(Work::Line { about, reason, at, entry, first: true });
        } else if let Some(pass) = found {
            self.required(pass, reason, at, entry);
        }
    }

    /// A required pass. What it requires is put before it, unless it was shown.
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
