//! Tests the analyzer on expressions of function bodies; `arith/tests/mod.rs` tests the rules.

use plugin_api::arith::{Bounds, ModularSet};
use plugin_api::ir::records::{flag, kind};
use plugin_api::ir::{BodyBuilder, BufferType, NodeSpec, TypeId};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// A PrimFunc that stores into `A` at indices written by a test.
struct Tir {
    b: BodyBuilder,
    a: V,
    int: TypeId,
    bool: TypeId,
    dtype: DType,
}

impl Tir {
    fn new(dtype: DType) -> Tir {
        let mut b = BodyBuilder::new();
        let int = b.ty(&Type::Prim { dtype, value: None });
        let bool = b.ty(&Type::Prim { dtype: DType::BOOL, value: None });
        let buffer = b.ty(&Type::Buffer(BufferType::new(vec![Dim::Int(64)], dtype)));
        b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
        let a = b.node(NodeSpec::new(kind::BUFFER).ty(buffer).flags(flag::INNER).a(3), &[], Some("A"));
        Tir { b, a, int, bool, dtype }
    }

    fn int(&mut self, value: i64) -> V {
        self.b.scalar(&Dim::int(value, self.dtype))
    }

    fn op(&mut self, op: PrimOp, a: V, b: V) -> V {
        let ty = if op.is_truth() { self.bool } else { self.int };
        self.b.node(NodeSpec::new(kind::ARITH).ty(ty).a(op.into()), &[a, b], None)
    }

    fn by(&mut self, op: PrimOp, a: V, b: i64) -> V {
        let b = self.int(b);
        self.op(op, a, b)
    }

    fn load(&mut self, at: V) -> V {
        self.b.node(NodeSpec::new(kind::LOAD).ty(self.int), &[self.a, at], None)
    }

    fn store(&mut self, value: V, at: V) {
        self.b.node(NodeSpec::new(kind::STORE).flags(flag::IMPURE), &[self.a, value, at], None);
    }

    fn begin_for(&mut self, name: &str, extent: i64) -> V {
        let (zero, extent) = (self.int(0), self.int(extent));
        self.b.begin(NodeSpec::new(kind::FOR), &[zero, extent], None);
        self.b.node(NodeSpec::new(kind::LOOP_VAR).ty(self.int).flags(flag::INNER), &[], Some(name))
    }

    fn finish(mut self, open: usize) -> Body {
        (0..=open).for_each(|_| self.b.end());
        self.b.finish().expect("valid")
    }
}

fn stores(body: &Body) -> Vec<Value<'_>> {
    body.values().filter(|value| value.kind() == kind::STORE).collect()
}

/// Formats an expression.
fn text(value: Value<'_>) -> String {
    let operands = |from: usize| value.operands().skip(from).map(text).collect::<Vec<_>>().join(", ");
    match value.view() {
        Expr::Prim => value.dim().and_then(|dim| dim.as_int()).expect("a number").to_string(),
        Expr::Load { .. } => format!("A[{}]", operands(1)),
        Expr::Arith { op, .. } => format!("{op:?}({})", operands(0)),
        Expr::Select { .. } => format!("select({})", operands(0)),
        Expr::Call(_) => format!("call({})", operands(1)),
        _ => value.name().expect("a name").to_string(),
    }
}

#[test]
fn indices_are_simplified_where_they_stand() {
    for dtype in [DType::I32, DType::I64] {
        let mut t = Tir::new(dtype);
        let (i, j) = (t.begin_for("i", 8), t.begin_for("j", 4));
        let scaled = t.by(PrimOp::Mul, i, 4);
        let flat = t.op(PrimOp::Add, scaled, j);
        let index = t.by(PrimOp::FloorDiv, flat, 4);
        // A[A[j % 4] + 2 - 2]
        let inner = t.by(PrimOp::FloorMod, j, 4);
        let load = t.load(inner);
        let more = t.by(PrimOp::Add, load, 2);
        let less = t.by(PrimOp::Sub, more, 2);
        let value = t.load(less);
        t.store(value, index);
        let body = t.finish(2);
        let mut analyzer = Analyzer::of_body(&body);
        let simple = analyzer.simplify_body(&body).expect("valid");
        let store = stores(&simple)[0];
        assert_eq!(
            (text(store.operand(2).expect("an index")), text(store.operand(1).expect("a value"))),
            ("i".into(), "A[A[j]]".into())
        );
        assert!(
            Analyzer::of_body(&simple).simplify_body(&simple).expect("valid").same(&simple),
            "nothing is left to do"
        );
        let index = stores(&body)[0].operand(2).expect("an index");
        assert_eq!(analyzer.index_bounds(index), Bounds::of(0, 7));
        assert_eq!(analyzer.prove_index_equal(index, body.lookup_binding("i").expect("is there")), Some(true));
    }
}

#[test]
fn what_does_not_get_smaller_stays() {
    let mut t = Tir::new(DType::I64);
    let i = t.begin_for("i", 8);
    let (one, scaled) = (t.int(1), t.by(PrimOp::Mul, i, 4));
    let index = t.op(PrimOp::Add, one, scaled);
    t.store(one, index);
    let body = t.finish(1);
    let mut analyzer = Analyzer::of_body(&body);
    assert!(analyzer.simplify_body(&body).expect("valid").same(&body));
    let index = stores(&body)[0].operand(2).expect("an index");
    assert_eq!(analyzer.index_modular_set(index), ModularSet::new(4, 1));
    assert_eq!(analyzer.index_bounds(index), Bounds::of(1, 29));
}

#[test]
fn choices_and_loads() {
    let mut t = Tir::new(DType::I64);
    let i = t.begin_for("i", 8);
    let (always, zero) = (t.by(PrimOp::Lt, i, 8), t.int(0));
    let load = t.load(i);
    let callee = t.b.op("tirx.if_then_else");
    let chosen = t.b.node(NodeSpec::new(kind::CALL).ty(t.int), &[callee, always, load, zero], None);
    t.store(chosen, i);
    // An unknown condition is kept, with its operands simplified and its sides in order.
    let (five, other) = (t.by(PrimOp::Lt, i, 5), t.load(i));
    let (more, sum) = (t.by(PrimOp::Add, i, 1), t.by(PrimOp::Mul, other, 1));
    let less = t.by(PrimOp::Sub, more, 1);
    let select = t.b.node(NodeSpec::new(kind::SELECT).ty(t.int), &[five, sum, less], None);
    t.store(select, i);
    // Two loads from the same place are different, because there may be a store in between.
    let (x, y) = (t.load(i), t.load(i));
    let difference = t.op(PrimOp::Sub, x, y);
    t.store(difference, i);
    // A load may be used only once, but `(A[i] + 1) * A[i]…` uses it twice.
    let (x, y) = (t.load(i), t.load(i));
    let (a, b) = (t.by(PrimOp::Add, x, 1), t.by(PrimOp::Add, y, 1));
    let product = t.op(PrimOp::Mul, a, b);
    t.store(product, i);
    let body = t.finish(1);
    let simple = Analyzer::of_body(&body).simplify_body(&body).expect("valid");
    let values: Vec<String> = stores(&simple).iter().map(|store| text(store.operand(1).expect("a value"))).collect();
    let (less, sub, add, mul) = (PrimOp::Lt, PrimOp::Sub, PrimOp::Add, PrimOp::Mul);
    let product = format!("{mul:?}({add:?}(A[i], 1), {add:?}(A[i], 1))");
    assert_eq!(
        values,
        ["A[i]", &format!("select({less:?}(i, 5), A[i], i)"), &format!("{sub:?}(A[i], A[i])"), &product]
    );
}

#[test]
fn effects_stay() {
    let mut t = Tir::new(DType::I64);
    let (callee, zero) = (t.b.op("tirx.call_extern"), t.int(0));
    let call = t.b.node(NodeSpec::new(kind::CALL).ty(t.int).flags(flag::IMPURE), &[callee], None);
    let product = t.op(PrimOp::Mul, call, zero);
    t.store(product, zero);
    let body = t.finish(0);
    assert!(Analyzer::new().simplify_body(&body).expect("valid").same(&body));
}

/// Simplifies 100,000 nested operations.
#[test]
fn depth_costs_no_stack() {
    const N: i64 = 100_000;
    let run = || {
        let ops = [
            PrimOp::Add,
            PrimOp::Sub,
            PrimOp::Mul,
            PrimOp::FloorDiv,
            PrimOp::FloorMod,
            PrimOp::Min,
            PrimOp::Max,
            PrimOp::And,
        ];
        for op in ops {
            let mut t = Tir::new(DType::I64);
            let i = t.begin_for("i", 8);
            let mut deep = if matches!(op, PrimOp::Add | PrimOp::Sub | PrimOp::And) { i } else { t.load(i) };
            for k in 0..N {
                deep = match op {
                    PrimOp::And => {
                        let less = t.by(PrimOp::Lt, i, k - N);
                        if k == 0 { less } else { t.op(op, deep, less) }
                    }
                    PrimOp::Add | PrimOp::Sub => t.by(op, deep, 1),
                    _ => {
                        // No operand ends the simplification early.
                        let next = t.op(op, deep, i);
                        t.by(PrimOp::BitXor, next, 1)
                    }
                };
            }
            let zero = t.int(0);
            t.store(deep, zero);
            let body = t.finish(1);
            let value = stores(&body)[0].operand(1).expect("a value");
            let mut analyzer = Analyzer::of_body(&body);
            let bounds = analyzer.index_bounds(value);
            let simple = analyzer.simplify_body(&body).expect("valid");
            match op {
                PrimOp::Add => assert_eq!((bounds, simple.len()), (Bounds::of(N, N + 7), 6)),
                PrimOp::Sub => assert_eq!((bounds, simple.len()), (Bounds::of(-N, 7 - N), 6)),
                PrimOp::And => assert_eq!(simple.len(), 5, "never"),
                _ => assert!(simple.same(&body)),
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread");
    thread.join().expect("no overflow");
}

#[test]
fn a_function_of_many_loops_is_simplified_throughout() {
    let n = 20_000;
    let mut t = Tir::new(DType::I64);
    for _ in 0..n {
        let i = t.begin_for("i", 8);
        let scaled = t.by(PrimOp::Mul, i, 4);
        let index = t.by(PrimOp::FloorDiv, scaled, 4);
        t.store(i, index);
        t.b.end();
    }
    let body = t.finish(0);
    let simple = Analyzer::of_body(&body).simplify_body(&body).expect("valid");
    assert_eq!(simple.len(), body.len() - 2 * n);
}

/// Logical operations on parameters, loads and calls, whose values are unknown, and whose content is not an operand.
#[test]
fn logic_of_variables_loads_and_calls() {
    let mut t = Tir::new(DType::I32);
    let buffer = t.b.ty(&Type::Buffer(BufferType::new(vec![Dim::Int(64)], DType::BOOL)));
    let b = t.b.node(NodeSpec::new(kind::BUFFER).ty(buffer).flags(flag::INNER).a(3), &[], Some("B"));
    let truth = t.bool;
    let [x, y] =
        ["x", "y"].map(|name| t.b.node(NodeSpec::new(kind::VAR).ty(truth).flags(flag::INNER), &[], Some(name)));
    let zero = t.int(0);
    let arith =
        |t: &mut Tir, op: PrimOp, ops: &[V]| t.b.node(NodeSpec::new(kind::ARITH).ty(truth).a(op.into()), ops, None);
    let call = |t: &mut Tir, op: &str, ops: &[V]| {
        let callee = t.b.op(op);
        t.b.node(NodeSpec::new(kind::CALL).ty(truth), &[&[callee], ops].concat(), None)
    };
    let load = |t: &mut Tir| t.b.node(NodeSpec::new(kind::LOAD).ty(truth), &[b, zero], None);
    let mut values = vec![arith(&mut t, PrimOp::Not, &[x]), arith(&mut t, PrimOp::And, &[x, y])];
    t.store(values[0], zero);
    t.store(values[1], zero);
    let loaded = load(&mut t);
    values.push(arith(&mut t, PrimOp::Not, &[loaded]));
    t.store(values[2], zero);
    let likely = call(&mut t, "tirx.likely", &[x]);
    let not = arith(&mut t, PrimOp::Not, &[likely]);
    t.store(not, zero);
    let not = arith(&mut t, PrimOp::Not, &[x]);
    let select = t.b.node(NodeSpec::new(kind::SELECT).ty(t.int), &[not, zero, zero], None);
    t.store(select, zero);
    let not = arith(&mut t, PrimOp::Not, &[x]);
    let never = arith(&mut t, PrimOp::And, &[x, not]);
    t.store(never, zero);
    let not = arith(&mut t, PrimOp::Not, &[y]);
    let not_not = arith(&mut t, PrimOp::Not, &[not]);
    let always = t.b.scalar(&Dim::int(1, DType::BOOL));
    let both = arith(&mut t, PrimOp::And, &[always, not_not]);
    t.store(both, zero);
    let body = t.finish(0);
    let simple = Analyzer::of_body(&body).simplify_body(&body).expect("valid");
    let values: Vec<String> = stores(&simple).iter().map(|store| text(store.operand(1).expect("a value"))).collect();
    let (and, not) = (PrimOp::And, PrimOp::Not);
    let kept = [format!("{not:?}(x)"), format!("{and:?}(x, y)"), format!("{not:?}(A[0])"), format!("{not:?}(call(x))")];
    assert_eq!(values[..4], kept);
    assert_eq!(values[4..], ["0", "0", "y"]);
}

/// Integers that do not fit 32 bits are not written, and divisions by 0 are kept.
#[test]
fn what_the_type_cannot_hold_stays() {
    let (max, min) = (i64::from(i32::MAX), i64::from(i32::MIN));
    let constants = [
        (PrimOp::TruncDiv, 5, 0),
        (PrimOp::TruncMod, 5, 0),
        (PrimOp::FloorDiv, 5, 0),
        (PrimOp::FloorMod, 5, 0),
        (PrimOp::Add, max, 1),
        (PrimOp::Mul, max, 2),
        (PrimOp::Sub, min, 1),
        (PrimOp::FloorDiv, min, -1),
    ];
    for (op, a, b) in constants {
        let mut t = Tir::new(DType::I32);
        let (zero, a) = (t.int(0), t.int(a));
        let value = t.by(op, a, b);
        t.store(value, zero);
        let body = t.finish(0);
        assert!(Analyzer::of_body(&body).simplify_body(&body).expect("valid").same(&body), "{op:?}({a:?}, {b})");
    }
    let mut t = Tir::new(DType::I32);
    let (zero, int) = (t.int(0), t.int);
    let n = t.b.node(NodeSpec::new(kind::VAR).ty(int).flags(flag::INNER), &[], Some("n"));
    let more = t.by(PrimOp::Mul, n, max);
    let more = t.by(PrimOp::Mul, more, 2);
    t.store(more, zero);
    let body = t.finish(0);
    assert!(Analyzer::of_body(&body).simplify_body(&body).expect("valid").same(&body));
}

/// The range of a loop may be empty, so it implies nothing outside the loop.
#[test]
fn what_a_loop_knows_stays_in_it() {
    let mut t = Tir::new(DType::I64);
    let (zero, int) = (t.int(0), t.int);
    let n = t.b.node(NodeSpec::new(kind::VAR).ty(int).flags(flag::INNER), &[], Some("n"));
    t.b.begin(NodeSpec::new(kind::FOR), &[zero, n], None);
    let i = t.b.node(NodeSpec::new(kind::LOOP_VAR).ty(int).flags(flag::INNER), &[], Some("i"));
    let (last, inside) = (t.by(PrimOp::Sub, n, 1), t.op(PrimOp::Le, i, n));
    let rest = t.op(PrimOp::FloorMod, i, n);
    let least = t.op(PrimOp::Min, i, last);
    for value in [inside, rest, least] {
        t.store(value, zero);
    }
    t.b.end();
    let positive = t.by(PrimOp::Gt, n, 0);
    t.store(positive, zero);
    let body = t.finish(0);
    let simple = Analyzer::of_body(&body).simplify_body(&body).expect("valid");
    let values: Vec<String> = stores(&simple).iter().map(|store| text(store.operand(1).expect("a value"))).collect();
    assert_eq!(values, ["1".into(), "i".into(), "i".into(), format!("{:?}(n, 0)", PrimOp::Gt)]);
}

/// Each value is the previous variable plus 1. Recomputing each value from all earlier values would take minutes.
#[test]
fn a_chain_of_values_takes_time_in_proportion() {
    const N: u32 = 20_000;
    let var = |id: u32| Dim::Var(Sym { id, dtype: DType::I64 });
    let mut analyzer = Analyzer::new();
    for id in 1..=N {
        let value = Dim::binary(PrimOp::Add, var(id - 1), Dim::Int(1));
        analyzer.bind_value(Sym { id, dtype: DType::I64 }, &value);
    }
    let whole = Dim::binary(PrimOp::Add, var(0), Dim::Int(N.into()));
    assert_eq!(analyzer.simplify(&var(N)), whole);
}
