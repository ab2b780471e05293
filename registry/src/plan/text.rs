//! Prints a plan as lines of text, each with the reason for the step.

use super::walk::{About, Item, MANY, Numbers, Reason, Walk};
use super::{Plan, Unit};
use crate::pipeline::options_text;
use crate::registry::Registry;
use passhost_lang::names::visible::{push_padded, shortened, visible_line};
use std::fmt::Write;

/// Maximum number of characters of a printed step.
const WIDEST: usize = 200;

/// One printed line of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The pass or Sequential.
    pub unit: Unit,
    /// Number of requirements from a requested step to this line; 0 for the requested step and its members.
    pub depth: usize,
    /// Number of composite passes and Sequentials that contain the line.
    pub nesting: usize,
    /// Name and given options.
    pub text: String,
    /// Reason.
    pub reason: String,
}

impl Plan {
    /// Returns the lines of the plan. Each step is preceded by its requirements, as if nothing were valid yet. The
    /// requirements of a pass that already precedes the same step are not repeated, and in a very long plan,
    /// requirements already shown for another step are not repeated either. A composite pass is followed by its
    /// members.
    pub fn lines(&self, registry: &Registry) -> Vec<Line> {
        let mut numbers = Numbers::default();
        let mut walk = Walk::new(self, registry, &mut numbers);
        let mut lines = Vec::new();
        for step in &self.steps {
            walk.begin(step);
            while let Some(item) = walk.next() {
                lines.push(self.line(&item, registry));
            }
        }
        lines
    }

    fn line(&self, item: &Item<'_>, registry: &Registry) -> Line {
        let &Item { about, reason, skip, at } = item;
        let reason = match (skip, reason) {
            (Some(skip), _) => format!("skipped: {skip}"),
            (None, Reason::Asked) => format!("asked{}{}", about.rounds(), self.despite(about, registry)),
            (None, Reason::PartOf(whole)) => {
                format!("part of {whole}{}{}", about.rounds(), self.despite(about, registry))
            }
            (None, Reason::RequiredBy { user, plugin }) => match about {
                About::Missing(_) => {
                    format!("required by {user} ({plugin}), but no listed plugin contributes it: the run fails here")
                }
                _ if self.compat.runs_required_each_time() => format!("required by {user} ({plugin})"),
                _ => format!("required by {user} ({plugin}), unless still valid{}", self.despite(about, registry)),
            },
        };
        let options = match about {
            About::Step(step) if step.unit.pass().is_some() => options_text(&step.given),
            _ => String::new(),
        };
        let text = format!("{}{options}", about.name(registry));
        Line { unit: about.unit(), depth: at.depth, nesting: at.nesting, text, reason }
    }

    /// Formats the note that a step runs although its opt_level is higher than the context's.
    fn despite(&self, about: About<'_>, registry: &Registry) -> String {
        let context = self.opt_level;
        match about.level_passed_over(registry) {
            Some(level) if level > context => format!(", although opt_level {level} > {context}"),
            _ => String::new(),
        }
    }

    /// Prints the plan, one line per step.
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
            let _ = writeln!(out, "after line {MANY}, the requirements of each pass are shown only once");
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
