//! Names within one function: of its variables, and of its symbolic variables with the place of their declaration.

use super::Printer;
use super::text::{each_sym, is_valid_name, valid_name};
use plugin_api::ir::records::kind;
use plugin_api::ir::{Body, DType, Sym};
use std::collections::{BTreeSet, HashMap};

/// Names within one function.
pub(super) struct Names {
    /// For each node its name.
    nodes: Vec<Option<Box<str>>>,
    /// For each symbolic variable its name.
    pub(super) syms: Vec<String>,
    /// Symbolic variables of each function, by the node of the function.
    pub(super) syms_of: HashMap<usize, Syms>,
}

/// Symbolic variables that a function brings in.
#[derive(Default)]
pub(super) struct Syms {
    /// Those of its signature.
    pub(super) signature: BTreeSet<String>,
    /// Those that its body defines.
    pub(super) local: Vec<(usize, DType)>,
}

impl Names {
    pub(super) fn new(body: &Body, printer: &mut Printer<'_>) -> Names {
        let n_syms = body.raw().var_names().len();
        let mut names =
            Names { nodes: vec![None; body.len()], syms: Vec::with_capacity(n_syms), syms_of: HashMap::new() };
        let mut used = Used::default();
        let (first, parents) = if n_syms > 0 { (first_uses(body), body.parents()) } else { Default::default() };
        for id in 0..n_syms {
            let hint = valid_name(body.sym_name(id as u32).unwrap_or("n"));
            let name = used.fresh(&hint);
            if let Some((at, dtype)) = first.get(&(id as u32)) {
                let own = names.syms_of.entry(function_around(body, &parents, *at)).or_default();
                if body.value_at(*at).kind() == kind::FUNC {
                    own.signature.insert(name.clone());
                } else {
                    own.local.push((id, *dtype));
                    printer.uses_tir = true;
                }
            }
            names.syms.push(name);
        }
        if let Some(root) = names.syms_of.get(&0) {
            root.signature.iter().for_each(|name| printer.declare_type_var(name.clone()));
        }
        names.assign(body, &mut used);
        names
    }

    /// Names in program order; those of a branch or nested function are free again after it.
    fn assign(&mut self, body: &Body, used: &mut Used) {
        let mut frames: Vec<(usize, usize)> = Vec::new();
        for value in body.values() {
            let at = value.index().unwrap_or(0);
            while frames.last().is_some_and(|(end, _)| *end <= at) {
                if let Some((_, mark)) = frames.pop() {
                    used.release(mark);
                }
            }
            if value.is_bound() && at > 0 {
                let hint = value.name().unwrap_or("v");
                self.nodes[at] = Some(used.fresh_or_keep(hint));
            }
            if at > 0 && matches!(value.kind(), kind::BRANCH | kind::FUNC) {
                frames.push((value.end(), used.mark()));
            }
        }
    }

    pub(super) fn node(&self, index: usize) -> &str {
        self.nodes.get(index).and_then(Option::as_deref).unwrap_or("_")
    }
}

/// Names that are taken.
#[derive(Default)]
struct Used {
    taken: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    log: Vec<Box<str>>,
}

impl Used {
    fn fresh_or_keep(&mut self, hint: &str) -> Box<str> {
        match hint {
            "_" => "_".into(),
            hint if is_valid_name(hint) => self.fresh(hint).into_boxed_str(),
            hint => self.fresh(&valid_name(hint)).into_boxed_str(),
        }
    }

    fn fresh(&mut self, hint: &str) -> String {
        let Some(count) = self.taken.get_mut(hint) else {
            self.take(hint);
            return hint.to_string();
        };
        let mut i = *count + 1;
        let mut name = format!("{hint}_{i}");
        while self.taken.contains_key(name.as_str()) {
            i += 1;
            name = format!("{hint}_{i}");
        }
        if let Some(count) = self.taken.get_mut(hint) {
            *count = i;
        }
        self.take(&name);
        name
    }

    fn take(&mut self, name: &str) {
        self.taken.insert(name.into(), 0);
        self.log.push(name.into());
    }

    fn mark(&self) -> usize {
        self.log.len()
    }

    fn release(&mut self, mark: usize) {
        for name in self.log.drain(mark..) {
            self.taken.remove(&name);
        }
    }
}

/// Where each symbolic variable first stands in anything that is printed (types of other functions are not), with its
/// data type. The header of a function stands before its content, and its type holds its signature.
fn first_uses(body: &Body) -> HashMap<u32, (usize, DType)> {
    let mut found = HashMap::new();
    for (at, value) in body.values().enumerate() {
        let mut add = |sym: Sym| {
            found.entry(sym.id).or_insert((at, sym.dtype));
        };
        if value.is_bound() || value.kind() == kind::FUNC {
            each_sym(&value.ty().to_owned(), &mut add);
        }
        for operand in value.operands().filter(|operand| operand.is_leaf()) {
            operand.dims().into_iter().flatten().chain(operand.dim()).for_each(|dim| dim.vars(&mut add));
        }
    }
    found
}

/// The function around a node that is no function itself.
fn function_around(body: &Body, parents: &[u32], at: usize) -> usize {
    let mut at = at;
    while at != 0 && body.value_at(at).kind() != kind::FUNC {
        at = parents.get(at).map_or(0, |parent| if *parent == u32::MAX { 0 } else { *parent as usize });
    }
    at
}
