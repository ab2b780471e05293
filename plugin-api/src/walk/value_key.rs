//! When two values compute the same.

use crate::ir::Value;

/// What a value computes, as a key: values with equal keys are equal, if neither has an effect. Kind, type, attributes,
/// payload (such as the index of an element) and operands count, those of nested expressions too; names do not.
///
/// `same` gives the value that stands for an operand: itself, or the first of those that were found equal to it.
pub fn value_key<'a>(value: Value<'a>, same: &impl Fn(Value<'a>) -> Value<'a>) -> Vec<u32> {
    let mut key = Vec::with_capacity(4 + value.n_operands());
    add_head(value, &mut key);
    let mut rest: Vec<Value<'a>> = value.operands().rev().collect();
    // More than a valid body can use up: while a pass edits, nested expressions can be a cycle.
    let mut left = value.raw.nodes().len();
    while let Some(operand) = rest.pop() {
        if operand.is_nested() && left > 0 {
            left -= 1;
            // No operand word is this number, and the count tells where the nested expression ends.
            key.extend([u32::MAX, operand.n_operands() as u32]);
            add_head(operand, &mut key);
            rest.extend(operand.operands().rev());
        } else {
            key.push(same(operand).word());
        }
    }
    key
}

fn add_head(value: Value<'_>, key: &mut Vec<u32>) {
    let payload = value.node().map_or(0, |node| node.a);
    key.extend([u32::from(value.kind()), value.ty().id(), value.attrs().id(), payload]);
}
