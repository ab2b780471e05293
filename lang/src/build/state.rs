//! The function under construction: open regions, expressions not yet used, and defined variables.

use crate::ir::erase::seen_outside;
use crate::ir::records::{LEAF_BIT, flag, kind};
use crate::ir::{Attr, BodyBuilder, Dim, Expr, Sym, Type, TypeId, V};
use std::collections::BTreeMap;

/// An open region.
pub(super) struct Frame {
    pub(super) kind: u16,
    pub(super) header: V,
    /// True if a binding block is open in a function or branch.
    pub(super) block: bool,
    /// Expressions that are neither bound nor used yet.
    pub(super) pending: Vec<V>,
    pub(super) result: Option<V>,
    pub(super) effect: bool,
    /// The number of symbolic variables defined before the region and in its parameter types.
    pub(super) outer: usize,
    pub(super) known: usize,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) b: BodyBuilder,
    /// True if a value from another function was used.
    pub(super) foreign: bool,
    pub(super) frames: Vec<Frame>,
    /// Tuples nested in the operands of their user; the flag is true in a dataflow block.
    pub(super) inline: BTreeMap<u32, bool>,
    pub(super) counters: [u32; 2],
    /// Functions of the module that this function mentions.
    pub(super) globals: BTreeMap<String, V>,
    /// Defined symbolic variables, in the order of their definition.
    pub(super) defined: Vec<Sym>,
    /// The scalar variables, by the number of their symbolic variable.
    pub(super) scalars: BTreeMap<u32, V>,
}

impl State {
    /// Opens a block if necessary, so that a binding can be added.
    pub(super) fn open_block(&mut self) {
        if let Some(frame) = self.frames.last_mut().filter(|frame| frame.kind != kind::DATAFLOW && !frame.block) {
            frame.block = true;
            self.b.begin_block();
        }
    }

    /// Binds pending expressions, and ends the block.
    pub(super) fn close_block(&mut self) {
        let Some(frame) = self.frames.last_mut() else { return };
        let (pending, open) = (std::mem::take(&mut frame.pending), std::mem::replace(&mut frame.block, false));
        let flows = frame.kind == kind::DATAFLOW;
        pending.into_iter().for_each(|v| self.bind(v, flows, flows));
        if open {
            self.b.end();
        }
    }

    pub(super) fn bind(&mut self, v: V, flows: bool, inner: bool) {
        let (stem, counter) = if inner { ("lv", &mut self.counters[0]) } else { ("gv", &mut self.counters[1]) };
        let name = if *counter == 0 { stem.to_string() } else { format!("{stem}{counter}") };
        *counter += 1;
        self.bind_named(v, &name, flows && inner);
    }

    pub(super) fn bind_named(&mut self, v: V, name: &str, inner: bool) {
        self.b.bind(v, name);
        if let Some(sym) = self.b.make_symbol(v, name) {
            self.defined.push(sym);
            self.scalars.insert(sym.id, v);
        }
        if inner {
            self.b.add_flags(v, flag::INNER);
        }
    }

    /// Removes an expression from the pending expressions. Returns `Some(true)` if it was in a dataflow block, and
    /// `None` if it was not pending.
    pub(super) fn take(&mut self, v: V) -> Option<bool> {
        for frame in self.frames.iter_mut().rev() {
            if let Some(at) = frame.pending.iter().rposition(|waiting| *waiting == v) {
                frame.pending.remove(at);
                return Some(frame.kind == kind::DATAFLOW);
            }
        }
        self.inline.remove(&v.word())
    }

    /// Returns a value of this function. Replaces a value of another function by a placeholder; its error is reported
    /// at the end.
    pub(super) fn own(&mut self, v: V) -> V {
        if self.b.owns(v) {
            return v;
        }
        self.foreign = true;
        self.b.prim_value(&Dim::Int(0))
    }

    /// Returns a value as an operand: a nested call becomes a binding, and a tuple with no other use stays nested.
    pub(super) fn operand(&mut self, v: V) -> V {
        let v = self.own(v);
        if v.is_leaf() {
            return v;
        }
        let here = self.frames.last().is_some_and(|frame| frame.pending.contains(&v));
        if let Some(flows) = self.take(v) {
            if here && self.b.kind(v) == kind::TUPLE {
                self.inline.insert(v.word(), flows);
            } else {
                self.bind(v, flows, flows);
            }
        }
        v
    }

    /// Like `operand`, for other uses of a value. An external function without a type gets the type of an arbitrary callable.
    pub(super) fn item(&mut self, v: V) -> V {
        let v = self.own(v);
        let named = self.b.with(v, |value| match value.view() {
            Expr::ExternFunc(symbol) if !value.ty().is_known() => Some(symbol.to_string()),
            _ => None,
        });
        match named {
            Some(symbol) => {
                let ty = self.b.ty(&Type::opaque_callable());
                self.b.extern_func(&symbol, ty)
            }
            None => self.operand(v),
        }
    }

    /// Marks an expression as pending until its first use.
    pub(super) fn wait(&mut self, v: V) -> V {
        if let Some(frame) = self.frames.last_mut() {
            frame.pending.push(v);
        }
        v
    }

    pub(super) fn call(&mut self, callee: V, args: &[V], attrs: &[(&str, Attr)]) -> V {
        let args: Vec<V> = args.iter().map(|v| self.operand(*v)).collect();
        self.open_block();
        let attrs = self.b.attrs(attrs.iter().cloned());
        let v = self.b.call(callee, &args, attrs, TypeId::NONE, false, None);
        self.wait(v)
    }

    /// Removes the scalars of a dataflow block from the type of a value that is visible outside the block.
    pub(super) fn hide_inner(&mut self, v: V) {
        self.b.hide_inner(v, self.scalars.iter().map(|(id, scalar)| (*scalar, *id)));
    }

    pub(super) fn effect(&mut self, v: V) {
        self.b.mark_effect(v);
        for frame in self.frames.iter_mut().rev() {
            frame.effect = true;
            if frame.kind == kind::FUNC {
                break;
            }
        }
    }

    pub(super) fn set_type(&mut self, v: V, ty: &Type) {
        let ty = self.b.ty(ty);
        self.b.set_type(v, ty);
    }

    pub(super) fn type_of(&self, v: V) -> Type {
        self.b.type_owned(self.b.type_of(v))
    }

    /// Defines the symbolic variables that stand alone as a dimension in the type of a parameter or match_cast.
    pub(super) fn define_syms(&mut self, ty: &Type) {
        ty.each_defined(&mut |sym| self.defined.push(sym));
    }

    /// Returns the result type of a function, without variables that are known only inside the function.
    pub(super) fn ret_type(&mut self, result: V, known: usize) -> TypeId {
        let ty = self.b.type_of(result);
        if ty == TypeId::NONE {
            return ty;
        }
        let known = self.defined.get(..known).unwrap_or(&[]);
        let ret = seen_outside(self.b.type_owned(ty), &|sym| !known.contains(&sym));
        self.b.ty(&ret)
    }
}

impl State {
    /// Prepares the result of a function or branch. If the result is the most recent expression, a tuple without other users, it stays
    /// unnamed, and its elements are returned.
    pub(super) fn returned(&mut self, v: V) -> Option<Vec<V>> {
        let last = v.word() as usize + 1 == self.b.pool.s.nodes.len() && v.word() & LEAF_BIT == 0;
        let frame = self.frames.last_mut()?;
        let at = frame.pending.iter().rposition(|waiting| *waiting == v)?;
        if last && frame.kind == kind::FUNC && self.b.kind(v) == kind::TUPLE && self.b.follows_binding(v) {
            frame.pending.remove(at);
            return Some(self.b.pop_last());
        }
        self.take(v);
        self.bind(v, false, false);
        None
    }
}
