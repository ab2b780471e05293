//! Replaces an If by one of its branches.

use crate::PassError;
use crate::ir::records::{flag, kind};
use crate::ir::{AttrsId, NodeSpec, TypeId, Value};
use crate::rewrite::Edit;

impl Edit<'_> {
    /// Replaces an If by one of its branches (0: then, 1: else). The bindings of the branch replace the If in its
    /// block, and uses of the If refer to the result of the branch. If the If has a wider type than that result,
    /// the result is bound with the wider type.
    ///
    /// # Errors
    /// If the value is not an If, or the branch does not exist.
    pub fn inline_region(&mut self, value: Value<'_>, branch: usize) -> Result<(), PassError> {
        let branches: Vec<Value<'_>> = value.region().children().collect();
        let (true, Some(kept)) = (value.kind() == kind::IF, branches.get(branch).copied()) else {
            return Err(PassError::new("only an If can be replaced by one of its branches").at(value));
        };
        let Some(result) = kept.region().result() else {
            return Err(PassError::new("the branch must have a result").at(kept));
        };
        branches.iter().filter(|other| **other != kept).for_each(|other| self.discard(*other));
        self.dissolve(value);
        self.dissolve(kept);
        for child in kept.region().children() {
            match child.kind() {
                kind::BLOCK => self.dissolve(child),
                kind::DATAFLOW => self.dissolve_dataflow(child),
                kind::YIELD => self.discard(child),
                _ => {}
            }
        }
        let v = self.v(result);
        if result.ty() == value.ty() && !result.is_nested() {
            self.forward_to(value, v);
        } else {
            self.after(kept);
            let spec = NodeSpec::new(kind::ALIAS).ty(TypeId(value.ty().id())).attrs(AttrsId::NONE);
            let flags = value.node().map_or(0, |node| node.flags & flag::INNER);
            let alias = self.node(spec.flags(flags), &[v], Some(value.name().unwrap_or("gv")));
            self.forward_to(value, alias);
        }
        Ok(())
    }

    /// Moves the bindings of a dataflow block into the enclosing block.
    fn dissolve_dataflow(&mut self, block: Value<'_>) {
        self.dissolve(block);
        for value in block.region().children() {
            let v = self.v(value);
            self.update(v, |node| node.flags &= !flag::INNER);
        }
    }
}
