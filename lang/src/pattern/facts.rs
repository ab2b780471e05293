//! What a search asks of a function: users, regions, aliases, functions that are called. Each is found once, when it is
//! first wanted.

use crate::ir::records::{LEAF_BIT, LeafRec, NONE, kind, leaf};
use crate::ir::{Body, Call, Module, Value};
use crate::walk::in_place::{InPlace, WrittenParams};
use crate::walk::users::{Regions, Users};
use std::cell::OnceCell;

use super::program::{CALL_TIR, Program};

/// A function in which patterns are searched.
pub(super) struct Facts<'m, 'b> {
    pub(super) body: &'b Body,
    pub(super) module: Option<&'m Module>,
    /// What each node is another name of; empty if there are no aliases.
    origins: Vec<u32>,
    users: OnceCell<Users>,
    regions: OnceCell<Regions<'b>>,
    in_place: OnceCell<InPlace<'b>>,
}

impl<'m, 'b> Facts<'m, 'b> {
    pub(super) fn of(body: &'b Body, module: Option<&'m Module>) -> Facts<'m, 'b> {
        let (users, regions, in_place) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Facts { body, module, origins: origins(body), users, regions, in_place }
    }

    /// The value that a word means, whatever names it got.
    pub(super) fn origin(&self, word: u32) -> u32 {
        self.origins.get(word as usize).copied().unwrap_or(word)
    }

    /// The value that is meant by another name of it.
    pub(super) fn origin_of(&self, value: Value<'_>) -> Value<'b> {
        self.value(self.origin(value.word()))
    }

    pub(super) fn value(&self, word: u32) -> Value<'b> {
        Value::of_word(self.body, word)
    }

    /// Positions of the users of a value: as often as they use it, and those of its other names.
    pub(super) fn users(&self, word: u32) -> &[u32] {
        let users = self.users.get_or_init(|| match self.origins.is_empty() {
            true => self.body.users(),
            false => Users::of_origins(self.body, &self.origins),
        });
        if word & LEAF_BIT != 0 { &[] } else { users.at(word as usize) }
    }

    /// Whether all of these nodes are directly in one region.
    pub(super) fn in_one_block(&self, nodes: &[u32]) -> bool {
        let regions = self.regions.get_or_init(|| self.body.regions());
        let around = |at: &u32| regions.around(self.value(*at));
        nodes.windows(2).all(|pair| around(&pair[0]) == around(&pair[1]))
    }

    /// What calls of the function write to their arguments.
    pub(super) fn in_place(&self) -> &InPlace<'b> {
        self.in_place.get_or_init(|| {
            let alone = InPlace::of(self.body);
            // Without the module, functions that are called may write: nothing to ask it for if none may.
            match self.module.filter(|_| !alone.is_empty()) {
                Some(module) => InPlace::in_module(self.body, &WrittenParams::of(module)),
                None => alone,
            }
        })
    }

    /// An argument of a call; of the PrimFunc that is called, if `prim`.
    pub(super) fn arg(&self, value: Value<'b>, i: usize, prim: bool) -> Option<u32> {
        let call = value.as_call()?;
        let arg = if prim { self.prim_args(call)?.operand(i)? } else { call.arg(i)? };
        Some(self.origin(arg.word()))
    }

    /// Number of arguments of a call; `None` where it is not known.
    pub(super) fn n_args(&self, value: Value<'b>, prim: bool) -> Option<usize> {
        let call = value.as_call()?;
        if prim { Some(self.prim_args(call)?.n_operands()) } else { Some(call.args().len()) }
    }

    /// The tuple of the arguments that a PrimFunc is called with.
    pub(super) fn prim_args(&self, call: Call<'b>) -> Option<Value<'b>> {
        let tuple = self.value(self.origin(call.arg(1)?.word()));
        (tuple.kind() == kind::TUPLE).then_some(tuple)
    }
}

/// The function of the module that a call calls, directly or by `relax.call_tir`.
pub(super) fn callee<'b>(call: Call<'b>) -> Option<&'b str> {
    if call.op() == Some(CALL_TIR) { call.arg(0)?.as_global() } else { call.global() }
}

/// For each node the one that it is another name of, or itself; empty if there are no aliases.
fn origins(body: &Body) -> Vec<u32> {
    if !body.values().any(|value| value.kind() == kind::ALIAS) {
        return Vec::new();
    }
    let mut origins: Vec<u32> = Vec::with_capacity(body.len());
    for (at, value) in body.values().enumerate() {
        let source = value.operand(0).filter(|_| value.kind() == kind::ALIAS).map(Value::word);
        let origin = source.map(|word| origins.get(word as usize).copied().unwrap_or(word));
        origins.push(origin.unwrap_or(at as u32));
    }
    origins
}

/// For each leaf of a body, which operator of a program it is. An operator can be there several times.
pub(super) fn operators(body: &Body, program: &Program) -> Vec<u32> {
    let raw = body.raw();
    let of = |leaf: &LeafRec| {
        let name = (leaf.kind == leaf::OP).then(|| raw.str(leaf.val as u32))?;
        program.ops.iter().position(|op| **op == *name)
    };
    raw.leaves().iter().map(|leaf| of(leaf).map_or(NONE, |op| op as u32)).collect()
}
