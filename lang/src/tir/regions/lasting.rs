//! What keeps its value from one place of a function on.

use crate::arith::value_of_atom;
use crate::ir::records::kind;
use crate::ir::{Body, Dim, Sym, Value};
use std::collections::{HashMap, HashSet};

/// Tells whether the value of an index is the same wherever it is computed after a place: then what one iteration of a loop
/// needs of a buffer can be said for all iterations.
///
/// An index that mentions a variable of a loop, a name or a block iterator that is defined after the place has another value in
/// each iteration, and so does an element of a buffer that something writes.
pub struct Lasting<'b> {
    body: &'b Body,
    /// Where the scalar of each symbolic variable is defined.
    defined: HashMap<u32, usize>,
    /// Buffers that something but a load or a region uses.
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

    /// Returns true if all that an index mentions is defined before a value of the body, and never changes.
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

/// Whether a value does not write the buffers that it uses: a load, or a region that a block says.
fn only_reads(value: Value<'_>) -> bool {
    match value.kind() {
        kind::LOAD => true,
        // A nested one is what a buffer matches.
        kind::ACCESS => !value.is_nested(),
        _ => false,
    }
}
