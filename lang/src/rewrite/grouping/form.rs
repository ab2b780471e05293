//! What the function of a group consists of, as a key: it is written once for all groups with the same.

use super::write::{Input, Outlined};
use crate::ir::Value;
use crate::ir::records::flag;
use std::collections::HashMap;

/// The numbers that values have in a form: parameters first, then what is computed.
type Numbers = HashMap<u32, u32, foldhash::fast::RandomState>;

impl<'b> Outlined<'b, '_> {
    /// Groups of one function with equal forms have equal functions. Types, attributes, constants and operators count, and
    /// which value is used where; names do not. `None` if some part of the group has no number, such as the content of a
    /// region.
    pub(super) fn form(&self) -> Option<Vec<u32>> {
        let counts = [self.group.attrs, self.inputs.all.len(), self.outputs.len()];
        let (mut form, mut numbers) = (Vec::from(counts.map(|count| count as u32)), Numbers::default());
        for (number, input) in self.inputs.all.iter().enumerate() {
            let (ty, is_scalar) = match input {
                Input::Value(value) => {
                    numbers.insert(value.word(), number as u32);
                    (value.ty(), input.ty().is_none())
                }
                Input::Element { ty, .. } => (*ty, false),
            };
            form.extend([ty.id(), u32::from(is_scalar)]);
        }
        numbers.extend(self.inputs.elements.iter().map(|(word, input)| (*word, *input as u32)));
        form.push(self.symbols.len() as u32);
        form.extend(self.symbols.iter().flat_map(|sym| [sym.id, sym.dtype.0]));
        let first = self.inputs.all.len() as u32;
        for (number, part) in (first..).zip(self.computed().flat_map(Value::with_nested)) {
            self.add_part(part, &numbers, &mut form)?;
            numbers.insert(part.word(), number);
        }
        for output in self.outputs {
            form.push(*numbers.get(&output.word())?);
        }
        Some(form)
    }

    fn add_part(&self, part: Value<'b>, numbers: &Numbers, form: &mut Vec<u32>) -> Option<()> {
        let node = part.node().filter(|node| !node.has(flag::REGION))?;
        // Whether a binding is visible outside depends on the outputs alone.
        let flags = node.flags & !flag::INNER;
        form.extend([u32::from(node.kind) << 16 | u32::from(flags), node.ty, node.attrs, node.a, node.n_ops]);
        for (at, used) in part.operands().enumerate() {
            form.push(match self.inputs.lifted(part, at) {
                Some(input) => input as u32,
                // No number of a value is a word of a leaf.
                None if used.is_leaf() => used.word(),
                None => *numbers.get(&used.word())?,
            });
        }
        Some(())
    }
}
