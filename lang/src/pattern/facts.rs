//! Facts about a function that a search needs: users, regions, aliases, callees. Each is computed once, on first use.

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
    /// For each alias, the aliased node; for other nodes, the node itself; empty without aliases.
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

    /// Returns the value of a word, with aliases resolved.
    pub(super) fn origin(&self, word: u32) -> u32 {
        self.origins.get(word as usize).copied().unwrap_or(word)
    }

    /// Returns a value with aliases resolved.
    pub(super) fn origin_of(&self, value: Value<'_>) -> Value<'b> {
        self.value(self.origin(value.word()))
    }

    pub(super) fn value(&self, word: u32) -> Value<'b> {
        Value::of_word(self.body, word)
    }

    /// Returns the positions of the users of a value and of its aliases, once per use.
    pub(super) fn users(&self, word: u32) -> &[u32] {
        let users = self.users.get_or_init(|| match self.origins.is_empty() {
            true => self.body.users(),
            false => Users::of_origins(self.body, &self.origins),
        });
        if word & LEAF_BIT != 0 { &[] } else { users.at(word as usize) }
    }

    /// Returns true if all `nodes` are direct children of one region.
    pub(super) fn in_one_block(&self, nodes: &[u32]) -> bool {
        let regions = self.regions.get_or_init(|| self.body.regions());
        let around = |at: &u32| regions.around(self.value(*at));
        nodes.windows(2).all(|pair| around(&pair[0]) == around(&pair[1]))
    }

    /// Returns the arguments that calls in the function write to.
    pub(super) fn in_place(&self) -> &InPlace<'b> {
        self.in_place.get_or_init(|| {
            let alone = InPlace::of(self.body);
            // Without the module, any called function may write. The module is needed only if a call may write.
            match self.module.filter(|_| !alone.is_empty()) {
                Some(module) => InPlace::in_module(self.body, &WrittenParams::of(module)),
                None => alone,
            }
        })
    }

    /// Returns an argument of a call; if `prim` is true, of the called PrimFunc.
    pub(super) fn arg(&self, value: Value<'b>, i: usize, prim: bool) -> Option<u32> {
        let call = value.as_call()?;
        let arg = if prim { self.prim_args(call)?.operand(i)? } else { call.arg(i)? };
        Some(self.origin(arg.word()))
    }

    /// Returns the number of arguments of a call; `None` if unknown.
    pub(super) fn n_args(&self, value: Value<'b>, prim: bool) -> Option<usize> {
        let call = value.as_call()?;
        if prim { Some(self.prim_args(call)?.n_operands()) } else { Some(call.args().len()) }
    }

    /// Returns the tuple of arguments passed to a PrimFunc.
    pub(super) fn prim_args(&self, call: Call<'b>) -> Option<Value<'b>> {
        let tuple = self.value(self.origin(call.arg(1)?.word()));
        (tuple.kind() == kind::TUPLE).then_some(tuple)
    }
}

/// Returns the module function that is called, directly or through `relax.call_tir`.
pub(super) fn callee<'b>(call: Call<'b>) -> Option<&'b str> {
    if call.op() == Some(CALL_TIR) { call.arg(0)?.as_global() } else { call.global() }
}

/// Returns, for each alias, the aliased node, and for other nodes, the node itself; empty without aliases.
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

/// Maps each leaf of a body to the operator of a program. The body may contain several leaves for one operator.
pub(super) fn operators(body: &Body, program: &Program) -> Vec<u32> {
    let raw = body.raw();
    let of = |leaf: &LeafRec| {
        let name = (leaf.kind == leaf::OP).then(|| raw.str(leaf.val as u32))?;
        program.ops.iter().position(|op| **op == *name)
    };
    raw.leaves().iter().map(|leaf| of(leaf).map_or(NONE, |op| op as u32)).collect()
}
