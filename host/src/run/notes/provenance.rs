//! Provenance of the values of a run: the pass and the step that created each value, and its source values.
//!
//! Every node of the input gets a number. Nodes that a pass creates get numbers after the pass. [`origins`](passhost_lang::ir::origins)
//! describes what happens in between. The size of this record grows with the number of created nodes.

use crate::engine::Engine;
use crate::report::error::Error;
use passhost_lang::ir::origins::Origin;
use passhost_lang::ir::{Body, Module, SealError, Value};
use passhost_lang::names::visible::visible_line;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// Maximum number of steps in a comment on the origin of a value, and of values that are looked at for it.
/// `passhost blame` shows all of them.
const MOST_STEPS: usize = 8;
const MOST_SOURCES: usize = 1_000;

/// A pass that created values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// Number of the step in the plan.
    pub position: usize,
    /// Full name of the pass.
    pub pass: String,
    /// Name of its plugin.
    pub plugin: String,
    /// The hash that pins the plugin, if known: the sha256 of its library, or the digest of its sources.
    pub hash: Option<String>,
}

/// The origins of all values in a run. The nodes in the report's module carry the numbers used here.
#[derive(Debug, Default)]
pub struct Provenance {
    makers: Vec<Maker>,
    /// Functions with new nodes, with their names; the functions of the input come first.
    bodies: Vec<(String, Body)>,
    /// For each input function, the number of its first node; its other nodes follow.
    starts: Vec<u32>,
    /// Number of nodes in the input.
    given: u32,
    /// Nodes created by passes, numbered after those of the input.
    nodes: Vec<Node>,
    /// For each created node, the numbers of the nodes from which it was made.
    lists: Vec<u32>,
}

#[derive(Debug)]
struct Node {
    maker: u32,
    body: u32,
    at: u32,
    from: Range<u32>,
}

/// A value in the chain that led to another value.
#[derive(Clone, Copy, Debug)]
pub struct Link<'p> {
    /// Number of steps from the start of the chain.
    pub depth: usize,
    /// The function in which the value was created.
    pub function: &'p str,
    /// The body of that function at that time.
    pub body: &'p Body,
    /// The node of the value in that body.
    pub at: usize,
    /// The pass that created the value; `None` if it is in the input.
    pub maker: Option<&'p Maker>,
    /// True if the value and its sources are already in the chain.
    pub again: bool,
}

impl Link<'_> {
    /// Returns the value.
    pub fn value(&self) -> Value<'_> {
        self.body.value_at(self.at)
    }
}

impl Provenance {
    /// Numbers the input module of a run, and returns its provenance together with the numbered module.
    ///
    /// # Errors
    /// If the functions cannot be assembled into a module again.
    pub(in crate::run) fn of(module: &Module) -> Result<(Provenance, Module), SealError> {
        let mut new = Provenance::default();
        // The input may be numbered by another run.
        let numbered = module.map_functions(|name, body| {
            let start = new.given;
            new.given += body.len() as u32;
            let numbered = body.with_numbers(&(start..new.given).collect::<Vec<_>>());
            new.starts.push(start);
            new.bodies.push((name.to_string(), numbered.clone()));
            Ok::<_, SealError>(numbered)
        });
        Ok((new, numbered?))
    }

    /// Returns a pass's result with numbers for the nodes that the pass created.
    pub(in crate::run) fn after(
        &mut self,
        before: &Module,
        after: Module,
        maker: impl FnOnce() -> Maker,
    ) -> Result<Module, SealError> {
        let mut maker = Some(maker);
        after.map_functions(|name, body| {
            if before.get(name).is_some_and(|old| old.same(body)) || self.knows(body) {
                return Ok(body.clone());
            }
            self.makers.extend(maker.take().map(|maker| maker()));
            Ok(self.numbered(self.makers.len() as u32 - 1, name, body))
        })
    }

    /// Returns true if each node of a function has a number.
    fn knows(&self, body: &Body) -> bool {
        (0..body.len()).all(|at| self.number(body, at).is_some())
    }

    /// Returns the number of a node.
    fn number(&self, body: &Body, at: usize) -> Option<u32> {
        match body.origin(at) {
            Origin::Is(number) if number < self.known() => Some(number),
            _ => None,
        }
    }

    /// Returns the count of all numbers.
    fn known(&self) -> u32 {
        self.given + self.nodes.len() as u32
    }

    /// Returns a function in which the nodes that the pass created have numbers.
    fn numbered(&mut self, maker: u32, name: &str, body: &Body) -> Body {
        let (place, known) = (self.bodies.len() as u32, self.known());
        let mut numbers = Vec::with_capacity(body.len());
        for at in 0..body.len() {
            let start = self.lists.len() as u32;
            match body.origin(at) {
                Origin::Is(number) if number < known => {
                    numbers.push(number);
                    continue;
                }
                Origin::Made(from) => self.lists.extend(from.iter().filter(|number| **number < known)),
                _ => {}
            }
            numbers.push(self.known());
            self.nodes.push(Node { maker, body: place, at: at as u32, from: start..self.lists.len() as u32 });
        }
        let numbered = body.with_numbers(&numbers);
        self.bodies.push((name.to_string(), numbered.clone()));
        numbered
    }

    /// Returns the created node with this number.
    fn made(&self, number: u32) -> Option<&Node> {
        self.nodes.get(number.checked_sub(self.given)? as usize)
    }

    fn link(&self, number: u32, depth: usize, again: bool) -> Link<'_> {
        let made = self.made(number);
        let (place, at) = match made {
            Some(node) => (node.body as usize, node.at),
            None => {
                let place = self.starts.partition_point(|start| *start <= number) - 1;
                (place, number - self.starts[place])
            }
        };
        let (function, body) = &self.bodies[place];
        let maker = made.and_then(|node| self.makers.get(node.maker as usize));
        Link { depth, function, body, at: at as usize, maker, again }
    }

    fn sources(&self, number: u32) -> &[u32] {
        self.made(number).map_or(&[], |node| &self.lists[node.from.start as usize..node.from.end as usize])
    }

    /// Returns the values that led to a value of the report's module: the value itself first, and each value followed by its sources.
    pub fn chain(&self, body: &Body, at: usize) -> Vec<Link<'_>> {
        let mut seen: HashSet<u32> = HashSet::new();
        let mut work: Vec<(u32, usize)> = self.number(body, at).map(|number| (number, 0)).into_iter().collect();
        let mut out = Vec::new();
        while let Some((number, depth)) = work.pop() {
            let again = !seen.insert(number);
            out.push(self.link(number, depth, again));
            if !again {
                work.extend(self.sources(number).iter().rev().map(|from| (*from, depth + 1)));
            }
        }
        out
    }

    /// Describes briefly where a value of a function comes from: the steps that led to it, the last one first, each with its source values,
    /// as in `step 4, relax.FuseTIR: from c; step 3, relax.FuseOps: from lv, lv1`. Returns `None` for an input value that still has its
    /// function and name.
    pub fn says(&self, function: &str, value: Value<'_>, body: &Body) -> Option<String> {
        let number = self.number(body, value.index()?)?;
        let link = self.link(number, 0, false);
        let said = match link.maker {
            Some(_) => self.steps_to(number, function),
            None => {
                let moved = link.function != function || link.value().name() != value.name();
                moved.then(|| format!("from {}", name_in(function, &link)))?
            }
        };
        Some(visible_line(&said).into_owned())
    }

    /// Describes the last steps that led to a value that a pass created.
    fn steps_to(&self, number: u32, function: &str) -> String {
        let mut steps: Vec<(&Maker, Vec<String>)> = Vec::new();
        // Sources have smaller numbers than the values made from them, and later steps assigned larger numbers.
        let (mut left, mut last, mut earlier) = (BTreeSet::from([number]), None, false);
        for _ in 0..MOST_SOURCES {
            let Some((number, node)) = left.pop_last().and_then(|number| Some((number, self.made(number)?))) else {
                break;
            };
            if last.replace(node.maker) != Some(node.maker) {
                earlier = steps.len() == MOST_STEPS;
                let Some(maker) = self.makers.get(node.maker as usize).filter(|_| !earlier) else { break };
                steps.push((maker, Vec::new()));
            }
            let Some((_, names)) = steps.last_mut() else { break };
            for source in self.sources(number) {
                let name = name_in(function, &self.link(*source, 1, false));
                if !names.contains(&name) {
                    names.push(name);
                }
                left.insert(*source);
            }
        }
        earlier |= left.last().is_some_and(|number| *number >= self.given);
        let of_step = |(maker, names): (&Maker, Vec<String>)| {
            let from = if names.is_empty() { String::new() } else { format!(": from {}", names.join(", ")) };
            format!("step {}, {}{from}", maker.position, maker.pass)
        };
        let mut said: Vec<String> = steps.into_iter().map(of_step).collect();
        said.extend(earlier.then(|| "earlier steps".to_string()));
        said.join("; ")
    }

    /// Returns the origin of the binding on each line of a printed module, keyed by the position of the line's end.
    pub fn lines(&self, module: &Module, printed: &script::Printed) -> BTreeMap<usize, String> {
        let mut lines = BTreeMap::new();
        for (name, body) in module.functions() {
            let spans = printed.spans.get(name).map_or(&[][..], Vec::as_slice);
            for value in body.bindings() {
                let span = value.index().and_then(|at| spans.get(at)).filter(|span| !span.is_empty());
                let (Some(span), Some(said)) = (span, self.says(name, value, body)) else { continue };
                let rest = &printed.text[span.start..];
                lines.entry(span.start + rest.find('\n').unwrap_or(rest.len())).or_insert(said);
            }
        }
        lines
    }

    /// Prints a module of the run, with comments on the origins of its bindings. The text refers to the constants that
    /// `references` names.
    ///
    /// # Errors
    /// If a part of the module cannot be printed.
    pub fn text(
        &self,
        module: &Module,
        engine: &Engine,
        references: Option<script::References<'_>>,
    ) -> Result<String, Error> {
        let printed = match references {
            Some(references) => script::print_referring(module, engine, true, references)?,
            None => script::print_with_spans(module, engine)?,
        };
        let (mut out, mut done) = (String::new(), 0);
        for (end, said) in self.lines(module, &printed) {
            out.push_str(&printed.text[done..end]);
            out.push_str("  # ");
            out.push_str(&said);
            done = end;
        }
        out.push_str(&printed.text[done..]);
        Ok(out)
    }
}

/// Returns the name of a value, with its function if that is not `function`.
fn name_in(function: &str, link: &Link<'_>) -> String {
    let name = link.value().name().unwrap_or("_");
    if link.function == function { name.to_string() } else { format!("{}.{name}", link.function) }
}
