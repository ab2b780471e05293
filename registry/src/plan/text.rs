//! A plan as lines of text, each with its reason.

use super::{PIPELINE, Plan, Step, Unit};
use crate::pipeline::options_text;
use crate::registry::{PassId, Registry};
use plugin_api::meta::PassInfo;
use std::collections::BTreeSet;
use std::fmt::Write;

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
    /// pass that already stands before the same step is not unfolded again. Behind a composite pass its members.
    pub fn lines(&self, registry: &Registry) -> Vec<Line> {
        let mut lines = Lines { plan: self, registry, out: Vec::new(), unfolded: BTreeSet::new() };
        for step in &self.steps {
            lines.unfolded.clear();
            lines.step(step, "asked", 0, 0, false);
        }
        lines.out
    }

    /// The plan as text, one line a step.
    pub fn render(&self, registry: &Registry) -> String {
        let lines = self.lines(registry);
        let texts: Vec<String> =
            lines.iter().map(|line| format!("{}{}", "  ".repeat(line.nesting), line.text)).collect();
        let width = texts.iter().map(String::len).max().unwrap_or(0);
        let mut out = String::new();
        for (i, (line, text)) in lines.iter().zip(&texts).enumerate() {
            let _ = writeln!(out, "{:>3}  {text:width$}  {}", i + 1, line.reason);
        }
        for planned in &self.instruments {
            let (info, owner) =
                (registry.instrument(planned.instrument), registry.instrument_owner(planned.instrument));
            let _ = writeln!(out, "seen by {}{} ({})", info.name, options_text(&planned.given), owner.name);
        }
        out
    }
}

/// Collects the lines of a plan.
struct Lines<'a> {
    plan: &'a Plan,
    registry: &'a Registry,
    out: Vec<Line>,
    /// Passes that stand before the same step already.
    unfolded: BTreeSet<PassId>,
}

impl Lines<'_> {
    fn step(&mut self, step: &Step, why: &str, depth: usize, nesting: usize, needed: bool) {
        let skip = step.skip_where(needed);
        if skip.is_none() {
            match self.plan.tvm_compat {
                true => self.required_each_time(step, nesting),
                false => self.required(step, depth + 1, nesting),
            }
        }
        let reason = match skip {
            None if step.skip.is_some() => format!("{why}{}", self.despite(step.opt_level(self.registry))),
            None => why.to_string(),
            Some(skip) => format!("skipped: {skip}"),
        };
        let text = match &step.unit {
            Unit::Pass(pass) => format!("{}{}", self.registry.pass(*pass).name, options_text(&step.given)),
            Unit::Sequential(name) => name.replace('\n', "\\n").replace('\t', "\\t"),
        };
        self.out.push(Line { unit: step.unit.clone(), depth, nesting, text, reason });
        if skip.is_none() {
            self.members(step, depth, nesting, needed);
        }
    }

    /// That something runs whatever its level, if that is higher than the context's.
    fn despite(&self, level: i32) -> String {
        let opt_level = self.plan.opt_level;
        if level > opt_level { format!(", in spite of opt_level {level} > {opt_level}") } else { String::new() }
    }

    fn members(&mut self, step: &Step, depth: usize, nesting: usize, needed: bool) {
        let why = format!("part of {}", step.unit.name(self.registry));
        for member in self.plan.members(step).unwrap_or_default() {
            self.step(member, &why, depth, nesting + 1, needed);
        }
    }

    fn required(&mut self, user: &Step, depth: usize, nesting: usize) {
        let registry = self.registry;
        let plugin = user.unit.pass().map_or(PIPELINE, |pass| &registry.pass_owner(pass).name);
        for req in user.needs(registry) {
            let Some(pass) = registry.find_full(&req.name) else { continue };
            let step = Step::of(pass, registry.pass(pass));
            let first = self.unfolded.insert(pass);
            if first {
                self.required(&step, depth + 1, nesting);
            }
            let PassInfo { name, opt_level: level, .. } = registry.pass(pass);
            let despite = self.despite(*level);
            let reason = format!("required by {} ({plugin}), unless still valid{despite}", user.unit.name(registry));
            self.out.push(Line { unit: Unit::Pass(pass), depth, nesting, text: name.clone(), reason });
            if first {
                self.members(&step, depth, nesting, true);
            }
        }
    }

    /// What TVM runs before each user, whatever holds, but nothing before that.
    fn required_each_time(&mut self, user: &Step, nesting: usize) {
        let registry = self.registry;
        let plugin = user.unit.pass().map_or(PIPELINE, |pass| &registry.pass_owner(pass).name);
        for req in user.needs(registry) {
            let reason = format!("required by {} ({plugin})", user.unit.name(registry));
            match registry.find_full(&req.name) {
                Some(pass) => {
                    let step = Step { alone: true, ..Step::of(pass, registry.pass(pass)) };
                    self.step(&step, &reason, 1, nesting, false);
                }
                None => {
                    let (unit, text) = (Unit::Sequential(req.name.clone()), req.name.clone());
                    let reason = format!("{reason}, but no listed plugin has it: the run fails here");
                    self.out.push(Line { unit, depth: 1, nesting, text, reason });
                }
            }
        }
    }
}
