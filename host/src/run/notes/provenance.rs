//! Where the values of a run are from: which pass made each, in which step, and from which others.
//!
//! Every node of the input gets a number, and so does what a pass made, after the pass; see
//! [`origins`](passhost_lang::ir::origins) for what happens in between. What is noted here grows with what passes make.

use crate::engine::Engine;
use crate::report::error::Error;
use crate::run::steps::Run;
use passhost_lang::ir::origins::Origin;
use passhost_lang::ir::{Body, Module, SealError, Value};
use passhost_lang::names::visible::visible_line;
use registry::PassId;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// A pass that made values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// Number of the step, as in the plan.
    pub position: usize,
    /// Full name of the pass.
    pub pass: String,
    /// Name of its plugin.
    pub plugin: String,
    /// What the plugin is pinned to: sha256 of its library or digest of its sources, where that is known.
    pub hash: Option<String>,
}

/// Where the values of the modules of a run are from. The module of the report has the numbers that this is about.
#[derive(Debug, Default)]
pub struct Provenance {
    makers: Vec<Maker>,
    /// Functions in which something was new, with their names: first those of the input.
    bodies: Vec<(String, Body)>,
    /// The number of the first node of each function of the input; the other nodes follow it.
    starts: Vec<u32>,
    /// How many numbers the input has.
    given: u32,
    /// What passes made; the first one has the number after those of the input.
    nodes: Vec<Node>,
    /// Numbers that nodes were made from.
    lists: Vec<u32>,
}

#[derive(Debug)]
struct Node {
    maker: u32,
    body: u32,
    at: u32,
    from: Range<u32>,
}

/// A value in the chain that led to another one.
#[derive(Clone, Copy, Debug)]
pub struct Link<'p> {
    /// How many steps it is away.
    pub depth: usize,
    /// The function in which it was new.
    pub function: &'p str,
    /// That function then.
    pub body: &'p Body,
    /// Its node in it.
    pub at: usize,
    /// The pass that made it; `None`: it is in the input.
    pub maker: Option<&'p Maker>,
    /// Whether the chain has it, and what led to it, already.
    pub again: bool,
}

impl Link<'_> {
    /// The value.
    pub fn value(&self) -> Value<'_> {
        self.body.value_at(self.at)
    }
}

impl Provenance {
    /// Of a module that is the input of a run; and it with numbers.
    ///
    /// # Errors
    /// If the functions cannot be those of a module again.
    pub(in crate::run) fn of(module: &Module) -> Result<(Provenance, Module), SealError> {
        let mut new = Provenance::default();
        // The input can be the result of another run, which has other numbers.
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

    /// The module with numbers for what a pass made of another one.
    fn after(&mut self, before: &Module, after: Module, maker: impl FnOnce() -> Maker) -> Result<Module, SealError> {
        let mut maker = Some(maker);
        after.map_functions(|name, body| {
            if before.get(name).is_some_and(|old| old.same(body)) || self.knows(body) {
                return Ok(body.clone());
            }
            self.makers.extend(maker.take().map(|maker| maker()));
            Ok(self.numbered(self.makers.len() as u32 - 1, name, body))
        })
    }

    /// Whether each node of a function has a number.
    fn knows(&self, body: &Body) -> bool {
        (0..body.len()).all(|at| self.number(body, at).is_some())
    }

    /// The number of a node.
    fn number(&self, body: &Body, at: usize) -> Option<u32> {
        match body.origin(at) {
            Origin::Is(number) if number < self.known() => Some(number),
            _ => None,
        }
    }

    /// How many numbers there are.
    fn known(&self) -> u32 {
        self.given + self.nodes.len() as u32
    }

    /// A function with numbers for what this pass made in it.
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

    /// The node of a number that a pass made.
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

    /// What led to a value of the module of the report, the value itself first, and after each what it was made from.
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

    /// In a few words, where a value of a function is from, as in `step 3, acme.Fuse: from lv, lv1`. Nothing for a value of the
    /// input that has the function and name that it had.
    pub fn says(&self, function: &str, value: Value<'_>, body: &Body) -> Option<String> {
        let number = self.number(body, value.index()?)?;
        let link = self.link(number, 0, false);
        let named = |link: &Link<'_>| {
            let name = link.value().name().unwrap_or("_");
            if link.function == function { name.to_string() } else { format!("{}.{name}", link.function) }
        };
        let Some(maker) = link.maker else {
            let moved = link.function != function || link.value().name() != value.name();
            return moved.then(|| visible_line(&format!("from {}", named(&link))).into_owned());
        };
        let mut sources: Vec<String> = Vec::new();
        for source in self.sources(number) {
            let name = named(&self.link(*source, 1, false));
            if !sources.contains(&name) {
                sources.push(name);
            }
        }
        let from = if sources.is_empty() { String::new() } else { format!(": from {}", sources.join(", ")) };
        Some(visible_line(&format!("step {}, {}{from}", maker.position, maker.pass)).into_owned())
    }

    /// For each line of a text of a module, where the binding on it is from: positions of the ends of lines, and what is
    /// said of them.
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

    /// The text of a module of the run, with comments that say where bindings are from.
    ///
    /// # Errors
    /// If the module has a part without a text.
    pub fn text(&self, module: &Module, engine: &Engine) -> Result<String, Error> {
        let printed = script::print_with_spans(module, engine)?;
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

impl Run<'_> {
    /// What a pass returned, with numbers for what it made, if that is asked for.
    pub(in crate::run) fn numbered(&self, pass: PassId, before: &Module, after: Module) -> Result<Module, SealError> {
        let (engine, position) = (self.engine, self.position);
        let Some(provenance) = &self.provenance else { return Ok(after) };
        provenance.borrow_mut().after(before, after, || {
            let registry = engine.registry();
            let plugin = registry.pass_owner(pass).name.clone();
            let hash = engine.lock().hash_of(&plugin).map(str::to_string);
            Maker { position, pass: registry.pass(pass).name.clone(), plugin, hash }
        })
    }
}
