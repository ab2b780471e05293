//! A plan as lines of text, each with its reason.

use super::{PIPELINE, Plan, Step, Unit};
use crate::pipeline::options_text;
use crate::registry::{PassId, Registry};
use plugin_api::meta::Required;
use plugin_api::visible::{push_padded, shortened, visible_line};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

/// After so many lines, what a pass requires is unfolded only where the plan has not done it yet: passes that require
/// each other in a long row would fill a page for each of their users.
const MANY: usize = 10_000;
/// People read no more characters of a step.
const WIDEST: usize = 200;

/// One printed line of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is about.
    pub unit: Unit,
    /// How many requirements lead to it from a step that was asked for; 0 for that step and its members.
    pub depth: usize,
    /// In how many composite passes and Sequentials it stands.
    pub nesting: usize,
    /// Name, with options that were given.
    pub text: String,
    /// Reason.
    pub reason: String,
}

impl Plan {
    /// The lines of the plan: before each step what it requires, as it would be looked at if nothing were valid; a
    /// pass that already stands before the same step is not unfolded again, in a very long plan also none that stands
    /// before another one. After a composite pass its members.
    pub fn lines(&self, registry: &Registry) -> Vec<Line> {
        let (unfolded, ever) = (HashSet::new(), HashSet::new());
        let mut lines = Lines { plan: self, registry, out: Vec::new(), unfolded, ever, work: Vec::new() };
        for step in &self.steps {
            lines.unfolded.clear();
            lines.work.push(Work::Step { step: Cow::Borrowed(step), why: "asked".into(), at: Place::default() });
            lines.run();
        }
        lines.out
    }

    /// The plan as text, one line a step.
    pub fn render(&self, registry: &Registry) -> String {
        let lines = self.lines(registry);
        let text = |line: &Line| {
            let text = visible_line(&line.text);
            format!("{}{}", "  ".repeat(line.nesting), shortened(&text, WIDEST))
        };
        let texts: Vec<String> = lines.iter().map(text).collect();
        let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let mut out = String::new();
        for (i, (line, text)) in lines.iter().zip(&texts).enumerate() {
            let _ = write!(out, "{:>3}  ", i + 1);
            push_padded(&mut out, text, width);
            let _ = writeln!(out, "  {}", shortened(&visible_line(&line.reason), 2 * WIDEST));
        }
        if lines.len() > MANY {
            let _ = writeln!(out, "from line {MANY} on, what a pass requires is shown once");
        }
        for planned in &self.instruments {
            let (info, owner) =
                (registry.instrument(planned.instrument), registry.instrument_owner(planned.instrument));
            let text = format!("{}{}", info.name, options_text(&planned.given));
            let _ = writeln!(out, "seen by {} ({})", shortened(&visible_line(&text), WIDEST), owner.name);
        }
        out
    }
}

/// Where a step stands.
#[derive(Clone, Copy, Default)]
struct Place {
    depth: usize,
    nesting: usize,
    /// Whether it is required, or part of what is.
    needed: bool,
}

/// What remains to be done, the next thing last: requirements can lead to each other 100,000 times.
enum Work<'a> {
    /// A step, after what it requires.
    Step { step: Cow<'a, Step>, why: String, at: Place },
    /// The line of that step, then its members.
    Line { step: Cow<'a, Step>, why: String, at: Place },
    /// What a step requires, from an entry on.
    Needs { user: &'a str, plugin: &'a str, needs: &'a [Required], at: Place },
    /// A required pass, before which all stands that it requires.
    Needed { pass: PassId, user: &'a str, plugin: &'a str, at: Place, first: bool },
    /// Members of a step, from one on.
    Members { members: &'a [Step], why: String, at: Place },
}

/// Collects the lines of a plan.
struct Lines<'a> {
    plan: &'a Plan,
    registry: &'a Registry,
    out: Vec<Line>,
    /// Passes that stand before the same step already.
    unfolded: HashSet<PassId>,
    /// Passes that stand before any step.
    ever: HashSet<PassId>,
    work: Vec<Work<'a>>,
}

impl<'a> Lines<'a> {
    fn run(&mut self) {
        while let Some(work) = self.work.pop() {
            match work {
                Work::Step { step, why, at } => self.step(step, why, at),
                Work::Line { step, why, at } => self.line(step, &why, at),
                Work::Needs { user, plugin, needs, at } => self.needs(user, plugin, needs, at),
                Work::Needed { pass, user, plugin, at, first } => self.needed(pass, user, plugin, at, first),
                Work::Members { members, why, at } => {
                    let Some((step, rest)) = members.split_first() else { continue };
                    self.work.push(Work::Members { members: rest, why: why.clone(), at });
                    self.work.push(Work::Step { step: Cow::Borrowed(step), why, at });
                }
            }
        }
    }

    fn step(&mut self, step: Cow<'a, Step>, why: String, at: Place) {
        let runs = step.skip_where(at.needed).is_none();
        let (user, needs) = match &step {
            Cow::Borrowed(step) => (step.unit.name(self.registry), step.needs(self.registry)),
            // One that is made here is a pass that runs alone.
            Cow::Owned(_) => ("", &[][..]),
        };
        let plugin = step.unit.pass().map_or(PIPELINE, |pass| &self.registry.pass_owner(pass).name);
        self.work.push(Work::Line { step, why, at });
        if runs {
            let at = Place { depth: at.depth + 1, needed: true, ..at };
            self.work.push(Work::Needs { user, plugin, needs, at });
        }
    }

    fn line(&mut self, step: Cow<'a, Step>, why: &str, at: Place) {
        let skip = step.skip_where(at.needed);
        let reason = match skip {
            None if step.skip.is_some() => format!("{why}{}", self.despite(step.opt_level(self.registry))),
            None => why.to_string(),
            Some(skip) => format!("skipped: {skip}"),
        };
        let text = match &step.unit {
            Unit::Pass(pass) => format!("{}{}", self.registry.pass(*pass).name, options_text(&step.given)),
            Unit::Sequential(name) => name.clone(),
        };
        let members = self.plan.members_of(&step);
        if skip.is_none() {
            self.members(members, step.unit.name(self.registry), at);
        }
        self.push(step.unit.clone(), at, text, reason);
    }

    fn push(&mut self, unit: Unit, Place { depth, nesting, .. }: Place, text: String, reason: String) {
        self.out.push(Line { unit, depth, nesting, text, reason });
    }

    fn members(&mut self, members: Option<&'a [Step]>, whole: &str, at: Place) {
        let at = Place { nesting: at.nesting + 1, ..at };
        self.work.extend(members.map(|members| Work::Members { members, why: format!("part of {whole}"), at }));
    }

    /// That something runs whatever its level, if that is higher than the context's.
    fn despite(&self, level: i32) -> String {
        let opt_level = self.plan.opt_level;
        if level > opt_level { format!(", in spite of opt_level {level} > {opt_level}") } else { String::new() }
    }

    fn needs(&mut self, user: &'a str, plugin: &'a str, needs: &'a [Required], at: Place) {
        let Some((req, rest)) = needs.split_first() else { return };
        self.work.push(Work::Needs { user, plugin, needs: rest, at });
        let found = self.registry.find_full(&req.name);
        if self.plan.tvm_compat {
            return self.needed_each_time(found, req, user, plugin, at);
        }
        let Some(pass) = found else { return };
        let fresh = self.ever.insert(pass);
        let first = self.unfolded.insert(pass) && (fresh || self.out.len() < MANY);
        self.work.push(Work::Needed { pass, user, plugin, at, first });
        if first {
            let (name, plugin) = (&self.registry.pass(pass).name, &self.registry.pass_owner(pass).name);
            let at = Place { depth: at.depth + 1, ..at };
            self.work.push(Work::Needs { user: name, plugin, needs: &self.registry.pass(pass).required, at });
        }
    }

    fn needed(&mut self, pass: PassId, user: &str, plugin: &str, at: Place, first: bool) {
        let info = self.registry.pass(pass);
        let despite = self.despite(info.opt_level);
        let reason = format!("required by {user} ({plugin}), unless still valid{despite}");
        self.push(Unit::Pass(pass), at, info.name.clone(), reason);
        if first {
            let members = self.plan.composites.get(&pass).map(Vec::as_slice);
            self.members(members, &info.name, at);
        }
    }

    /// What TVM runs before each user, whatever holds, but nothing before that.
    fn needed_each_time(&mut self, found: Option<PassId>, req: &Required, user: &str, plugin: &str, at: Place) {
        let reason = format!("required by {user} ({plugin})");
        let at = Place { depth: 1, needed: false, ..at };
        match found {
            Some(pass) => {
                let step = Cow::Owned(Step { alone: true, ..Step::of(pass, self.registry.pass(pass)) });
                self.work.push(Work::Step { step, why: reason, at });
            }
            None => {
                let reason = format!("{reason}, but no listed plugin has it: the run fails here");
                self.push(Unit::Sequential(req.name.clone()), at, req.name.clone(), reason);
            }
        }
    }
}
