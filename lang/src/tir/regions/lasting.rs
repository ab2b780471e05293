//! Determines which indices are invariant after a place in a function.

use crate::arith::value_of_atom;
use crate::ir::records::kind;
use crate::ir::{Body, Dim, Sym, Value};
use std::collections::{HashMap, HashSet};

/// Determines whether an index has the same value at every later position. If so, all iterations of a loop need the same region of a
/// buffer.
///
/// An index may vary if it mentions a loop variable, scalar or block iterator defined after the place, or an element of a written buffer.
pub struct Lasting<'b> {
    body: &'b Body,
    /// The defining position of the scalar of each symbolic variable.
    defined: HashMap<u32, usize>,
    /// Buffers with uses other than loads and regions.
    written: HashSet<u32>,
}

impl<'b> Lasting<'b> {
    /// Collects the definitions and the written buffers of a function.
    pub fn of(body: &'b Body) -> Lasting<'b> {
        let (mut defined, mut written) = (HashMap::new(), HashSet::new());
        for value in body.values() {
            if let (Some(sym), Some(at)) = (value.symbol(), value.index()) {
                defined.entry(sym.id).or_insert(at);
            }
            if let (Some(ty), Some(at)) = (value.as_buffer_type(), value.index()) {
                let dims = ty.shape.iter().chain(&ty.strides).chain(&ty.elem_offset);
                dims.for_each(|dim| {
                    dim.vars(&mut |sym| {
                        defined.entry(sym.id).or_insert(at);
                    });
                });
            }
            if !only_reads(value) {
                written.extend(value.operands().filter(|operand| operand.as_buffer_type().is_some()).map(Value::word));
            }
        }
        Lasting { body, defined, written }
    }

    /// Returns true if everything that an index mentions is defined before a value of the body and never changes.
    pub fn lasts_from(&self, index: &Dim, place: Value<'b>) -> bool {
        let mut lasts = true;
        index.vars(&mut |sym| lasts = lasts && self.variable_lasts(sym, place));
        lasts
    }

    fn variable_lasts(&self, sym: Sym, place: Value<'b>) -> bool {
        match value_of_atom(self.body, sym) {
            Some(value) => self.value_lasts(value, place),
            None => self.defined.get(&sym.id).is_none_or(|at| Some(*at) < place.index()),
        }
    }

    fn value_lasts(&self, root: Value<'b>, place: Value<'b>) -> bool {
        let mut work = vec![root];
        while let Some(value) = work.pop() {
            if !value.is_nested() {
                let mentions_later = |dim: Dim| !self.lasts_from(&dim, place);
                if value.index().is_some_and(|at| Some(at) >= place.index()) || value.dim().is_some_and(mentions_later)
                {
                    return false;
                }
                continue;
            }
            let is_choice = value.as_call_to("tirx.if_then_else").is_some();
            if value.kind() == kind::LET || value.as_call().is_some() && !is_choice {
                return false;
            }
            if value.as_element_access().is_some_and(|access| self.written.contains(&access.buffer.word())) {
                return false;
            }
            work.extend(value.operands());
        }
        true
    }
}

/// Returns true if a value only reads the buffers that it uses, as a load or a declared region of a block does.
fn only_reads(value: Value<'_>) -> bool {
    match value.kind() {
        kind::LOAD => true,
        // A nested region is the source of a matched buffer, through which elements may be written.
        kind::ACCESS => !value.is_nested(),
        _ => false,
    }
}
