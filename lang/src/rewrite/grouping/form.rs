//! A key for the content of a group's function, so that the function is written only once for all groups with equal keys.

use super::write::{Input, Outlined};
use crate::ir::Value;
use crate::ir::records::flag;
use std::collections::HashMap;

/// The numbers of values in a form: parameters first, then computed values.
type Numbers = HashMap<u32, u32, foldhash::fast::RandomState>;

impl<'b> Outlined<'b, '_> {
    /// Returns a key. Groups with equal keys, within one outer function, become equal functions. The key contains types, attributes,
    /// constants, operators and the use of values, but not names. Returns `None` if some part of the group lacks a number, such as the
    /// content of a region.
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
        // Visibility outside the block depends only on the outputs.
        let flags = node.flags & !flag::INNER;
        form.extend([u32::from(node.kind) << 16 | u32::from(flags), node.ty, node.attrs, node.a, node.n_ops]);
        for (at, used) in part.operands().enumerate() {
            form.push(match self.inputs.lifted(part, at) {
                Some(input) => input as u32,
                // Numbers of values never coincide with operand words of leaves.
                None if used.is_leaf() => used.word(),
                None => *numbers.get(&used.word())?,
            });
        }
        Some(())
    }
}
