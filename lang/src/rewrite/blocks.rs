//! Edits of blocks, and of the outputs of dataflow blocks.

use super::{Edit, Operand};
use crate::ir::records::{flag, kind};
use crate::ir::{Attr, Block, NodeSpec, V, Value};

impl Edit<'_> {
    /// Turns a dataflow block into a plain block, so that its variables are visible after it.
    pub fn to_plain_block(&mut self, block: Block<'_>) {
        let header = self.v(block.header());
        self.update(header, |node| {
            node.kind = kind::BLOCK;
            node.flags &= !flag::DATAFLOW;
        });
        let inner = block.bindings().filter(|binding| binding.is_dataflow_var());
        inner.for_each(|binding| self.make_output(binding));
    }

    /// Wraps the bindings from `first` to `last`, which are directly in one sequence, in a new dataflow block.
    pub fn wrap_dataflow(&mut self, first: Value<'_>, last: Value<'_>) -> V {
        self.wrap(first, last, NodeSpec::new(kind::DATAFLOW).flags(flag::DATAFLOW))
    }

    /// Wraps the bindings from `first` to `last`, which are directly in one sequence, in a new plain block.
    pub fn wrap_plain(&mut self, first: Value<'_>, last: Value<'_>) -> V {
        self.wrap(first, last, NodeSpec::new(kind::BLOCK))
    }

    /// Makes a variable of a dataflow block an output of the block.
    pub fn make_output(&mut self, binding: impl Operand) {
        self.update(binding, |node| node.flags &= !flag::INNER);
    }

    /// Makes an output of a dataflow block visible only in the block.
    pub fn make_dataflow_var(&mut self, binding: impl Operand) {
        self.update(binding, |node| node.flags |= flag::INNER);
    }

    /// Reorders the bindings of a block, each with its nested expressions; returns true if the order changed. A binding with a region, such
    /// as a local function, cannot be moved.
    pub fn reorder(&mut self, block: Block<'_>, order: &[Value<'_>]) -> bool {
        if block.bindings().eq(order.iter().copied()) {
            return false;
        }
        self.at_start(block.header());
        order.iter().for_each(|binding| self.move_here(*binding));
        true
    }

    /// Sets one attribute of a value; keeps the others.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| t.serial("i", 8, |i| t.evaluate(i)))?;
    /// let is_loop = |value: &Value<'_>| matches!(value.stmt(), Some(Stmt::For { .. }));
    /// let mut edit = body.edit();
    /// let header = body.values().find(is_loop).expect("a loop");
    /// edit.set_attr(header, "annotations", Attr::dict([("pragma", 1i64)]));
    /// edit.set_attr(header, "kind", "unroll".into());
    /// edit.set_attr(header, "kind", "parallel".into());
    /// let body = edit.finish()?;
    /// let header = body.values().find(is_loop).expect("a loop");
    /// assert!(matches!(header.stmt(), Some(Stmt::For { kind: "parallel", .. })));
    /// assert_eq!(header.attrs().iter().count(), 2);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn set_attr(&mut self, value: impl Operand, key: &str, attr: Attr) {
        let v = value.of(self);
        let mut attrs: Vec<(String, Attr)> =
            self.with(v, |value| value.attrs().iter().map(|(key, attr)| (key.to_string(), attr.to_owned())).collect());
        match attrs.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = attr,
            None => attrs.push((key.to_string(), attr)),
        }
        let attrs = self.builder().attrs(attrs.iter().map(|(key, attr)| (key.as_str(), attr.clone())));
        self.set_attrs(v, attrs);
    }

    /// Removes one attribute of a value; keeps the others.
    pub fn remove_attr(&mut self, value: impl Operand, key: &str) {
        let v = value.of(self);
        let attrs: Vec<(String, Attr)> = self.with(v, |value| value.attrs().to_owned());
        if attrs.iter().any(|(known, _)| known == key) {
            let kept = attrs.iter().filter(|(known, _)| known != key);
            let attrs = self.builder().attrs(kept.map(|(key, attr)| (key.as_str(), attr.clone())));
            self.set_attrs(v, attrs);
        }
    }
}
