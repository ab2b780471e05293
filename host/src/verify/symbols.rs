//! Tracks the symbolic variables that are visible at the current position.

use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Sym, Ty, Type, Value};
use std::collections::HashSet;

/// Symbolic variables that are defined at the current position of a walk. Variables of a branch or nested function end with it, as do scalar
/// variables that are local to a dataflow block.
#[derive(Default)]
pub(crate) struct Symbols {
    defined: Vec<bool>,
    /// Variables in the order of their definition.
    order: Vec<usize>,
    /// Open scopes: the position at which each ends, and the number of variables defined before it.
    scopes: Vec<(usize, usize)>,
    /// Open dataflow blocks: the position at which each ends, and its local scalar variables.
    pub(crate) flows: Vec<(usize, Vec<u32>)>,
    /// Local scalar variables of dataflow blocks that have ended. They cannot be defined again.
    ended: Vec<u32>,
}

impl Symbols {
    /// Moves the walk to a value.
    pub(crate) fn come_to(&mut self, value: Value<'_>) {
        let at = value.index().unwrap_or(0);
        while let Some((_, before)) = self.scopes.pop_if(|(end, _)| *end <= at) {
            self.order.drain(before..).for_each(|id| self.defined[id] = false);
        }
        while let Some((_, mut inner)) = self.flows.pop_if(|(end, _)| *end <= at) {
            inner.iter().for_each(|id| self.defined[*id as usize] = false);
            self.ended.append(&mut inner);
        }
        match value.kind() {
            kind::FUNC | kind::BRANCH => self.scopes.push((value.end(), self.order.len())),
            kind::DATAFLOW => self.flows.push((value.end(), Vec::new())),
            _ => {}
        }
        if let Some(sym) = value.symbol().filter(|sym| !self.has(sym.id)) {
            self.define(value.ty());
            if let Some((_, inner)) = self.flows.last_mut().filter(|_| value.has(flag::INNER)) {
                inner.push(sym.id);
            }
        }
    }

    pub(crate) fn define(&mut self, ty: Ty<'_>) {
        ty.to_owned().each_defined(&mut |Sym { id, .. }| {
            if self.ended.contains(&id) {
                return;
            }
            let id = id as usize;
            if self.defined.len() <= id {
                self.defined.resize(id + 1, false);
            }
            if !std::mem::replace(&mut self.defined[id], true) {
                self.order.push(id);
            }
        });
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.defined.get(id as usize).copied().unwrap_or(false)
    }
}

/// Calls `look` with the symbolic variables that a type needs from outside. Variables that the parameters of a function
/// type define are skipped.
pub(crate) fn all_symbols(ty: &Type, look: &mut dyn FnMut(u32)) {
    match ty {
        Type::Tuple(fields) => fields.iter().for_each(|field| all_symbols(field, look)),
        Type::Callable { params, ret, .. } => {
            let mut own = HashSet::new();
            let params = params.as_deref().unwrap_or(&[]);
            params.iter().for_each(|param| {
                param.each_defined(&mut |sym| {
                    own.insert(sym.id);
                })
            });
            let mut free = |id: u32| {
                if !own.contains(&id) {
                    look(id)
                }
            };
            params.iter().chain([&**ret]).for_each(|ty| all_symbols(ty, &mut free));
        }
        other => other.each_dim(false, &mut |dim| dim.vars(&mut |sym| look(sym.id))),
    }
}
