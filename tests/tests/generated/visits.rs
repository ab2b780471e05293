//! Tests that visitors visit every node exactly once and in their documented order, by comparison with a walk over the
//! records.

use super::{cases, choices, made};
use plugin_api::ir::records::{LEAF_BIT, flag, kind};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tvm::{ExprVisitor, StmtVisitor, Walk, post_order_visit};
use proptest::prelude::*;

/// An event of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Leaf(u32),
    Node(usize),
    Enter(usize),
    Leave(usize),
}

/// Returns the walk that the documentation describes, computed by recursion over the records.
fn expected(body: &Body) -> Vec<Event> {
    fn region(body: &Body, from: usize, end: usize, out: &mut Vec<Event>) {
        let mut at = from;
        while at < end {
            let node = body.raw().nodes()[at];
            let operands = &body.raw().operands()[node.op_range()];
            out.extend(operands.iter().filter(|word| *word & LEAF_BIT != 0).map(|word| Event::Leaf(*word)));
            out.push(Event::Node(at));
            at += 1;
            if node.has(flag::REGION) {
                let inner = at + node.a as usize;
                out.push(Event::Enter(at - 1));
                region(body, at, inner, out);
                out.push(Event::Leave(at - 1));
                at = inner;
            }
        }
    }
    let mut out = Vec::new();
    region(body, 0, body.len(), &mut out);
    out
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    definitions: Vec<usize>,
    uses: usize,
    bindings: usize,
}

impl Log {
    fn node(&mut self, value: Value<'_>) {
        self.events.push(Event::Node(value.index().expect("a node")));
    }
}

impl<'a> ExprVisitor<'a> for Log {
    fn enter_region(&mut self, header: Value<'a>) -> Walk {
        self.events.push(Event::Enter(header.index().expect("a node")));
        Walk::Into
    }

    fn leave_region(&mut self, header: Value<'a>) {
        self.events.push(Event::Leave(header.index().expect("a node")));
    }

    fn visit_var_def(&mut self, var: Value<'a>) {
        self.definitions.push(var.index().expect("a node"));
    }

    fn visit_var(&mut self, var: Value<'a>, _: Value<'a>) {
        assert!(self.definitions.contains(&var.index().expect("a node")), "a use comes after its definition");
        self.uses += 1;
    }

    fn visit_binding(&mut self, _: Value<'a>) {
        self.bindings += 1;
    }

    fn visit_leaf(&mut self, leaf: Value<'a>, _: Value<'a>) {
        self.events.push(Event::Leaf(leaf.word()));
    }

    fn visit_param(&mut self, value: Value<'a>) {
        self.node(value);
    }

    fn visit_call(&mut self, call: Call<'a>) {
        self.node(call.value());
    }

    fn visit_tuple(&mut self, value: Value<'a>) {
        self.node(value);
    }

    fn visit_tuple_get(&mut self, value: Value<'a>, _: Value<'a>, _: u32) {
        self.node(value);
    }

    fn visit_if(&mut self, value: Value<'a>) {
        self.node(value);
    }

    fn visit_match_cast(&mut self, value: Value<'a>) {
        self.node(value);
    }

    fn visit_alias(&mut self, value: Value<'a>) {
        self.node(value);
    }

    fn visit_function(&mut self, function: Function<'a>) {
        self.node(function.value());
    }

    fn visit_yield(&mut self, value: Value<'a>) {
        self.node(value);
    }

    fn visit_block(&mut self, value: Value<'a>) {
        self.node(value);
    }

    fn visit_other(&mut self, value: Value<'a>) {
        self.node(value);
    }
}

/// Visits of statements. Every node is a statement, a variable, a buffer, an expression or something else.
#[derive(Default)]
struct Stmts(Vec<Event>);

impl Stmts {
    fn node(&mut self, value: Value<'_>) {
        self.0.push(Event::Node(value.index().expect("a node")));
    }
}

impl Stmts {
    /// The hook for a kind follows the hook for any expression.
    fn of_kind(&mut self, value: Value<'_>, kind: u16) {
        assert_eq!(value.kind(), kind);
        assert_eq!(self.0.last(), Some(&Event::Node(value.index().expect("a node"))));
    }
}

impl<'a> StmtVisitor<'a> for Stmts {
    fn enter_stmt(&mut self, header: Value<'a>) -> Walk {
        self.0.push(Event::Enter(header.index().expect("a node")));
        Walk::Into
    }

    fn leave_stmt(&mut self, header: Value<'a>) {
        self.0.push(Event::Leave(header.index().expect("a node")));
    }

    fn visit_stmt(&mut self, stmt: Value<'a>) {
        self.node(stmt);
    }

    fn visit_var_def(&mut self, var: Value<'a>) {
        self.node(var);
    }

    fn visit_buffer(&mut self, buffer: Value<'a>) {
        self.node(buffer);
    }

    fn visit_expr(&mut self, expr: Value<'a>) {
        self.node(expr);
    }

    fn visit_where(&mut self, stmt: Value<'a>, _: Value<'a>) {
        self.node(stmt);
    }

    fn visit_access(&mut self, access: Value<'a>, buffer: Value<'a>) {
        assert!(buffer.name().is_some());
        self.node(access);
    }

    fn visit_annotate(&mut self, stmt: Value<'a>) {
        self.node(stmt);
    }

    fn visit_init(&mut self, stmt: Value<'a>) {
        self.node(stmt);
    }

    fn visit_buffer_load(&mut self, load: Value<'a>, buffer: Value<'a>) {
        assert!(buffer.name().is_some());
        self.of_kind(load, kind::LOAD);
    }

    fn visit_call(&mut self, call: Call<'a>) {
        self.of_kind(call.value(), kind::CALL);
    }

    fn visit_arith(&mut self, value: Value<'a>, _: PrimOp) {
        self.of_kind(value, kind::ARITH);
    }

    fn visit_select(&mut self, value: Value<'a>, _: Value<'a>) {
        self.of_kind(value, kind::SELECT);
    }

    fn visit_let(&mut self, value: Value<'a>, var: Value<'a>) {
        assert_eq!(var.kind(), kind::VAR);
        self.of_kind(value, kind::LET);
    }

    fn visit_ramp(&mut self, value: Value<'a>) {
        self.of_kind(value, kind::RAMP);
    }

    fn visit_broadcast(&mut self, value: Value<'a>) {
        self.of_kind(value, kind::BROADCAST);
    }

    fn visit_shuffle(&mut self, value: Value<'a>) {
        self.of_kind(value, kind::SHUFFLE);
    }

    fn visit_buffer_part(&mut self, value: Value<'a>, _: Value<'a>) {
        self.of_kind(value, kind::BUFFER_PART);
    }

    fn visit_leaf(&mut self, leaf: Value<'a>, _: Value<'a>) {
        self.0.push(Event::Leaf(leaf.word()));
    }

    fn visit_other(&mut self, value: Value<'a>) {
        let has_hook = [kind::WHERE, kind::ACCESS, kind::ANNOTATE, kind::INIT].contains(&value.kind());
        assert!(!has_hook && !value.is_nested(), "{value:?}");
        self.node(value);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn visitors_see_each_node_once_and_in_order(bytes in choices()) {
        for (_, body) in made(&bytes).functions() {
            let expected = expected(body);
            let mut log = Log::default();
            log.visit_body(body);
            prop_assert_eq!(&log.events, &expected);
            let bound = |value: &Value<'_>| value.is_bound();
            prop_assert_eq!(log.definitions, body.values().filter(bound).filter_map(Value::index).collect::<Vec<_>>());
            prop_assert_eq!(log.uses, body.values().flat_map(Value::operands).filter(bound).count());
            prop_assert_eq!(log.bindings, body.n_bindings());
            let mut stmts = Stmts::default();
            stmts.visit_body(body);
            prop_assert_eq!(stmts.0, expected);
        }
    }

    /// Leaves and operands precede their users, content precedes its header, and everything is visited once.
    #[test]
    fn post_order_visit_sees_parts_first(bytes in choices()) {
        for (_, body) in made(&bytes).functions() {
            let mut order: Vec<u32> = Vec::new();
            post_order_visit(body, |value| order.push(value.word()));
            let place = |word: u32| order.iter().position(|seen| *seen == word);
            let mut words: Vec<u32> = order.clone();
            words.sort_unstable();
            words.dedup();
            prop_assert_eq!(words.len(), order.len(), "something is visited twice");
            let leaves = body.values().flat_map(Value::operands).filter(|operand| operand.is_leaf()).map(Value::word);
            let mut all: Vec<u32> = leaves.chain((0..body.len()).map(|at| at as u32)).collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(words, all);
            for value in body.values() {
                let own = place(value.word());
                // The operands of a header may be in its own content, as in a recursive function. These are uses.
                let operands = value.operands().filter(|operand| operand.kind() != kind::FUNC);
                for operand in operands {
                    prop_assert!(place(operand.word()) < own, "{operand:?} comes after {value:?}");
                }
                for child in value.region().children() {
                    prop_assert!(place(child.word()) < own, "{child:?} comes after its header");
                }
            }
        }
    }
}
