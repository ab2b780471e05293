//! When two values compute the same.

use crate::ir::Value;
use crate::ir::records::MAX_DEPTH;

/// What a value computes, as a key: values with equal keys are equal, if neither has an effect. Kind, type, attributes,
/// payload (such as the index of an element) and operands count, those of nested expressions too; names do not.
///
/// `same` gives the value that stands for an operand: itself, or the first of those that were found equal to it.
pub fn value_key<'a>(value: Value<'a>, same: &impl Fn(Value<'a>) -> Value<'a>) -> Vec<u32> {
    let mut key = Vec::with_capacity(4 + value.operands().len());
    add_key(value, same, &mut key, &mut (MAX_DEPTH as usize).max(value.raw.nodes().len()), MAX_DEPTH);
    key
}

/// `left` and `depth` are more than a valid body can use up: while a pass edits, nested expressions can be a cycle.
fn add_key<'a>(
    value: Value<'a>,
    same: &impl Fn(Value<'a>) -> Value<'a>,
    key: &mut Vec<u32>,
    left: &mut usize,
    depth: u32,
) {
    let payload = value.node().map_or(0, |node| node.a);
    key.extend([u32::from(value.kind()), value.ty().id(), value.attrs().id(), payload]);
    for operand in value.operands() {
        if operand.is_nested() && *left > 0 && depth > 0 {
            *left -= 1;
            // No operand word is this number, and the count tells where the nested expression ends.
            key.extend([u32::MAX, operand.n_operands() as u32]);
            add_key(operand, same, key, left, depth - 1);
        } else {
            key.push(same(operand).word());
        }
    }
}
