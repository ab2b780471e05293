//! Checks the scopes of variables in a TIR function: undefined variables, threads, and loops around blocks.

use crate::verify::tir::called;
use passhost_lang::ir::records::{attr, buffer_of, flag, kind, tykind};
use passhost_lang::ir::{Body, Dim, Value};
use std::collections::{HashMap, HashSet};

/// Collects facts about variables while the nodes are visited in order.
pub(crate) struct Scopes<'b> {
    body: &'b Body,
    /// For each nested expression, the statement or other node to which it belongs.
    part_of: Vec<u32>,
    /// The headers of open blocks with iterators.
    blocks: Vec<Value<'b>>,
    /// For each loop variable, the number of open blocks with iterators around its loop.
    loops: HashMap<u32, usize>,
    /// Declared variables that are not parameters, loop variables or bindings.
    free: HashMap<u32, Free>,
    /// The declared variable of each symbolic variable.
    owners: HashMap<u32, u32>,
    /// Handles with which buffers were matched.
    matched: HashSet<u32>,
}

/// A variable that is only declared.
#[derive(Default)]
struct Free {
    /// True if a buffer of the signature or a LET defines it.
    defined: bool,
    /// The regions in which the variable is bound to a thread or attribute.
    regions: Vec<(usize, usize)>,
    /// Number of threads.
    extent: Option<i64>,
}

impl<'b> Scopes<'b> {
    pub(crate) fn new(body: &'b Body) -> Scopes<'b> {
        let mut part_of: Vec<u32> = (0..body.len() as u32).collect();
        let mut free: HashMap<u32, Free> = HashMap::new();
        let mut owners = HashMap::new();
        for value in body.values().rev() {
            let at = value.index().unwrap_or(0);
            for operand in value.operands().filter(|operand| operand.is_nested()) {
                if let Some(operand) = operand.index() {
                    part_of[operand] = part_of[at];
                }
            }
            if value.kind() == kind::VAR {
                // An execution scope is defined by its declaration.
                free.entry(at as u32).or_default().defined |= value.attr("scope_id").is_some();
                if let Some(Dim::Var(sym)) = value.ty().prims().first() {
                    owners.insert(sym.id, at as u32);
                }
            }
        }
        let (blocks, loops, matched) = (Vec::new(), HashMap::new(), HashSet::new());
        let mut scopes = Scopes { body, part_of, blocks, loops, free, owners, matched };
        if !scopes.free.is_empty() {
            scopes.find_definitions();
        }
        scopes
    }

    /// Finds the definitions of declared variables. A variable is defined by a matched or declared buffer if it is a whole dimension of
    /// its shape, by a LET, and by the region of a thread or attribute.
    fn find_definitions(&mut self) {
        for value in self.body.values() {
            match value.kind() {
                kind::PARAM | kind::BUFFER if is_matched(value) => {
                    for dim in value.ty().prims() {
                        if let Dim::Var(sym) = dim
                            && let Some(var) = self.owners.get(&sym.id)
                        {
                            self.free.entry(*var).or_default().defined = true;
                        }
                    }
                }
                kind::LET => {
                    if let Some(free) = value.operand(0).and_then(|var| self.free.get_mut(&var.word())) {
                        free.defined = true;
                    }
                }
                kind::LAUNCH | kind::ATTR => {
                    for operand in value.operands() {
                        if let Some(free) = self.free.get_mut(&operand.word()) {
                            free.regions.push((value.index().unwrap_or(0), value.end()));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Checks the next node.
    pub(crate) fn node(&mut self, value: Value<'b>) -> Result<(), String> {
        let at = value.index().unwrap_or(0);
        while self.blocks.pop_if(|block| block.end() <= at).is_some() {}
        match value.kind() {
            kind::LOOP_VAR => drop(self.loops.insert(value.word(), self.blocks.len())),
            kind::SBLOCK if value.region().children().any(|child| child.kind() == kind::ITER_VAR) => {
                self.blocks.push(value);
            }
            kind::LAUNCH => self.launch(value)?,
            kind::BUFFER => self.buffer(value)?,
            _ => {}
        }
        self.operands(value, at)
    }

    fn operands(&self, value: Value<'b>, at: usize) -> Result<(), String> {
        let whole = self.body.value_at(self.part_of[at] as usize);
        // The iterator values and the predicate of a block are outside of it.
        let outside = matches!(whole.kind(), kind::ITER_VAR | kind::WHERE);
        let depth = self.blocks.len() - usize::from(outside && !self.blocks.is_empty());
        for operand in value.operands().filter(|operand| !operand.is_leaf()) {
            match operand.kind() {
                kind::LOOP_VAR
                    if depth > 0 && self.loops.get(&operand.word()).is_some_and(|around| *around < depth) =>
                {
                    let block = self.blocks.last().and_then(|block| block.name()).unwrap_or("");
                    return Err(format!(
                        "block `{block}` uses {}, the variable of a loop around it; bind an iterator to it, as in `v = T.axis.spatial(extent, {})`",
                        called(operand),
                        operand.name().unwrap_or("i")
                    ));
                }
                kind::VAR => self.declared(value, operand, at)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks a use of a variable that is only declared.
    fn declared(&self, user: Value<'b>, var: Value<'b>, at: usize) -> Result<(), String> {
        let Some(free) = self.free.get(&var.word()) else { return Ok(()) };
        let defines = matches!(user.kind(), kind::LET | kind::LAUNCH | kind::ATTR | kind::LOOP_VAR);
        let inside = free.regions.iter().any(|(from, end)| (*from..*end).contains(&at));
        if free.defined || defines || inside || var.ty().kind() != tykind::PRIM {
            return Ok(());
        }
        Err(match var.attr("thread").is_some_and(|thread| thread.kind() == attr::STR) {
            true => format!("{} is a thread outside its T.launch_thread", called(var)),
            false => {
                format!("{} is declared, but not defined; make it a parameter, or give it a value", called(var))
            }
        })
    }

    /// Checks that a thread has the same extent everywhere.
    fn launch(&mut self, value: Value<'b>) -> Result<(), String> {
        let Some(var) = value.operand(1) else { return Ok(()) };
        let extent = value.operand(0).and_then(Value::dim).and_then(|dim| dim.as_int());
        let Some(free) = self.free.get_mut(&var.word()) else { return Ok(()) };
        match (free.extent, extent) {
            (Some(before), Some(now)) if before != now => {
                Err(format!("{} is launched with {now} threads here, but with {before} earlier", called(var)))
            }
            _ => {
                free.extent = extent;
                Ok(())
            }
        }
    }

    fn buffer(&mut self, value: Value<'b>) -> Result<(), String> {
        let of = value.node().map_or(0, |node| node.a);
        let handle = value.operand(0).filter(|handle| handle.kind() == kind::PARAM && handle.has(flag::BOUND));
        if let Some(handle) = handle.filter(|_| of == buffer_of::MATCH)
            && !self.matched.insert(handle.word())
        {
            return Err(format!(
                "{} is matched with a second buffer; use T.decl_buffer for another view",
                called(handle)
            ));
        }
        if matches!(of, buffer_of::ALLOC | buffer_of::BLOCK) {
            return self.dims(value);
        }
        Ok(())
    }

    /// Checks the dimensions of an allocated buffer.
    fn dims(&self, value: Value<'b>) -> Result<(), String> {
        let mut found = Ok(());
        for dim in value.ty().prims() {
            dim.vars(&mut |sym| {
                if let Some(var) = self.owners.get(&sym.id).filter(|_| found.is_ok()) {
                    let var = self.body.value_at(*var as usize);
                    found = self.declared(value, var, value.index().unwrap_or(0));
                }
            });
        }
        found
    }
}

/// Returns true for a buffer of the signature, whose shape defines variables.
fn is_matched(value: Value<'_>) -> bool {
    let of = value.node().map_or(0, |node| node.a);
    value.ty().kind() == tykind::BUFFER
        && (value.kind() == kind::PARAM
            || matches!(of, buffer_of::PARAM | buffer_of::MATCH | buffer_of::DECL | buffer_of::VIEW))
}
