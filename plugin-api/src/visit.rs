//! Visiting: one forward loop over the stream, no recursion. Nested expressions come before their users, so program
//! order is post-order already; region headers are met on the way in and on the way out.

use crate::ir::records::{LEAF_BIT, flag, kind};
use crate::ir::{Body, Call, Function, Value};

/// Whether the content of a region is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Go into it.
    Into,
    /// Leave it out; [`ExprVisitor::leave_region`] is not called for it.
    Skip,
}

/// A hook for each kind of node. All have empty defaults; call [`ExprVisitor::visit_body`].
#[allow(unused_variables, reason = "the defaults do nothing")]
pub trait ExprVisitor<'a> {
    /// Visits all nodes of a body.
    fn visit_body(&mut self, body: &'a Body)
    where
        Self: Sized,
    {
        walk(self, body);
    }

    /// Header of any region, before its content and after the hook of its kind.
    fn enter_region(&mut self, header: Value<'a>) -> Walk {
        Walk::Into
    }

    /// Header of any region, after its content.
    fn leave_region(&mut self, header: Value<'a>) {}

    /// A binding, before the hook of its kind.
    fn visit_binding(&mut self, binding: Value<'a>) {}

    /// A leaf operand (operator, constant, shape…), before its user; once for each use.
    fn visit_leaf(&mut self, leaf: Value<'a>, user: Value<'a>) {}

    /// A parameter.
    fn visit_param(&mut self, param: Value<'a>) {}

    /// A call.
    fn visit_call(&mut self, call: Call<'a>) {}

    /// A tuple.
    fn visit_tuple(&mut self, tuple: Value<'a>) {}

    /// An element of a tuple.
    fn visit_tuple_get(&mut self, get: Value<'a>, tuple: Value<'a>, index: u32) {}

    /// An If, before its branches.
    fn visit_if(&mut self, value: Value<'a>) {}

    /// A match_cast.
    fn visit_match_cast(&mut self, value: Value<'a>) {}

    /// Another name for a value.
    fn visit_alias(&mut self, value: Value<'a>) {}

    /// A function, the root too, before its content.
    fn visit_function(&mut self, function: Function<'a>) {}

    /// The result of a function or branch.
    fn visit_yield(&mut self, value: Value<'a>) {}

    /// A block, branch or nested expression of blocks, before its content.
    fn visit_block(&mut self, header: Value<'a>) {}

    /// A kind that is not Relax, or that this API does not know.
    fn visit_other(&mut self, value: Value<'a>) {}
}

fn walk<'a, V: ExprVisitor<'a>>(visitor: &mut V, body: &'a Body) {
    let mut open: Vec<(usize, Value<'a>)> = Vec::new();
    let mut at = 0;
    while at < body.len() {
        while let Some((_, header)) = open.pop_if(|(end, _)| *end <= at) {
            visitor.leave_region(header);
        }
        let value = body.value_at(at);
        at += 1;
        value.operands().filter(|operand| operand.is_leaf()).for_each(|leaf| visitor.visit_leaf(leaf, value));
        if value.is_binding() {
            visitor.visit_binding(value);
        }
        visit_node(visitor, value);
        if value.has(flag::REGION) {
            match visitor.enter_region(value) {
                Walk::Into => open.push((value.end(), value)),
                Walk::Skip => at = value.end(),
            }
        }
    }
    while let Some((_, header)) = open.pop() {
        visitor.leave_region(header);
    }
}

fn visit_node<'a, V: ExprVisitor<'a>>(visitor: &mut V, value: Value<'a>) {
    let first = value.operand(0).unwrap_or(value);
    match value.kind() {
        kind::PARAM => visitor.visit_param(value),
        kind::CALL => value.as_call().into_iter().for_each(|call| visitor.visit_call(call)),
        kind::TUPLE => visitor.visit_tuple(value),
        kind::TUPLE_GET => visitor.visit_tuple_get(value, first, value.node().map_or(0, |node| node.a)),
        kind::IF => visitor.visit_if(value),
        kind::MATCH_CAST => visitor.visit_match_cast(value),
        kind::ALIAS => visitor.visit_alias(value),
        kind::FUNC => value.as_function().into_iter().for_each(|function| visitor.visit_function(function)),
        kind::YIELD => visitor.visit_yield(value),
        kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::SEQ => visitor.visit_block(value),
        _ => visitor.visit_other(value),
    }
}

/// Calls `f` with every value of a body after what it is made of: each leaf before its first user, each node after its
/// operands and its content; the function itself comes last.
pub fn post_order_visit<'a>(body: &'a Body, mut f: impl FnMut(Value<'a>)) {
    let mut seen = vec![false; body.raw().leaves().len()];
    let mut open: Vec<Value<'a>> = Vec::new();
    for value in body.values() {
        let at = value.index().unwrap_or(0);
        while let Some(header) = open.pop_if(|header| header.end() <= at) {
            f(header);
        }
        for leaf in value.operands().filter(|operand| operand.is_leaf()) {
            let known = seen.get_mut((leaf.word() & !LEAF_BIT) as usize);
            if known.is_some_and(|known| !std::mem::replace(known, true)) {
                f(leaf);
            }
        }
        if value.has(flag::REGION) { open.push(value) } else { f(value) }
    }
    while let Some(header) = open.pop() {
        f(header);
    }
}
