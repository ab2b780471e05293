//! 100,000 nested expressions on a thread of 2 MiB: built, checked, walked, rewritten. `tests/tests/deep.rs` prints them.

mod common;

use common::*;
use plugin_api::functor::Results;
use plugin_api::index::index_to_dim;
use plugin_api::ir::records::{flag, kind, prim};
use plugin_api::normalize::normalize;
use plugin_api::prelude::*;
use plugin_api::rewrite::ExprMutatorBase;
use plugin_api::visit::post_order_visit_value;

const N: usize = 100_000;

/// Runs `f` on a thread with a stack of 2 MiB.
fn on_2_mib(f: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(f).expect("a thread");
    thread.join().expect("no panic");
}

/// `y = relu(add(relu(add(… x …, x)), x))`, without names in between.
fn nested_calls() -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&tensor());
    let (x, relu, add) = (b.param("x", ty), b.op("relax.nn.relu"), b.op("relax.add"));
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let mut v = x;
    for _ in 0..N / 2 {
        v = b.call(add, &[v, x], AttrsId::NONE, ty, false, None);
        v = b.call(relu, &[v], AttrsId::NONE, ty, false, None);
    }
    b.bind(v, "y");
    b.end();
    b.end_function(v, ty);
    b.finish().expect("valid")
}

/// `T.evaluate(n + 1 + 1 + …)`.
fn nested_sums() -> Body {
    let mut b = BodyBuilder::new();
    let int = b.ty(&Type::Prim { dtype: DType::I64, value: None });
    b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
    let (mut v, one) = (b.param("n", int), b.scalar(&Dim::Int(1)));
    for _ in 0..N {
        v = b.node(NodeSpec::new(kind::ARITH).ty(int).a(prim::ADD.into()), &[v, one], None);
    }
    b.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[v], None);
    b.end();
    b.finish().expect("valid")
}

/// How deeply calls or sums are nested.
struct Depth;

impl<'a> ExprFunctor<'a> for Depth {
    type Output = usize;
    type Args = ();

    fn visit_var(&mut self, _: Value<'a>, _: ()) -> usize {
        0
    }

    fn visit_default(&mut self, value: Value<'a>, parts: Results<'_, usize>, _: ()) -> usize {
        parts.max().unwrap_or(0) + usize::from(matches!(value.kind(), kind::CALL | kind::ARITH))
    }
}

#[derive(Default)]
struct Count(usize);

impl<'a> ExprVisitor<'a> for Count {
    fn visit_call(&mut self, _: Call<'a>) {
        self.0 += 1;
    }
}

impl<'a> StmtVisitor<'a> for Count {
    fn visit_expr(&mut self, _: Value<'a>) {
        self.0 += 1;
    }
}

/// `relu(v)` becomes `exp(sqrt(v))`.
fn other_call<'b>(call: Call<'b>, rw: &mut Rewriter<'b>) -> Action {
    let Some(arg) = call.arg(0).filter(|_| call.op() == Some("relax.nn.relu")) else { return Action::Keep };
    let arg = rw.v(arg);
    let inner = rw.call("relax.sqrt", &[arg], &[], &tensor());
    Action::Replace(rw.call("relax.exp", &[inner], &[], &tensor()))
}

struct Swap;

impl<'b> ExprMutatorBase<'b> for Swap {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(other_call(call, rw))
    }
}

struct SwapAndName;

impl<'b> ExprMutator<'b> for SwapAndName {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(other_call(call, rw))
    }
}

/// Every sum becomes a difference.
struct Subtract;

impl<'b> StmtMutator<'b> for Subtract {
    fn visit_arith(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let v = rw.v(value);
        rw.edit().update(v, |node| node.a = prim::SUB.into());
        Ok(Action::Keep)
    }
}

fn use_all(body: &Body, root: Value<'_>) {
    assert_eq!(Depth.visit_expr(root, ()), N);
    let (mut all, mut of_root) = (0, 0);
    post_order_visit(body, |_| all += 1);
    post_order_visit_value(root, |value| of_root += usize::from(value.node().is_some()));
    assert!(all > N && of_root == N);
    assert!(!root.has_effect());
    assert!(value_key(root, &|operand| operand).len() > N);
    assert!(body.structural_eq(&body.edit().finish().expect("valid")));
    assert!(remove_all_unused(body).expect("valid").same(body));
    assert!(plugin_api::dump::dump(body).len() > N);
}

#[test]
fn nested_calls_are_walked_and_rewritten() {
    on_2_mib(|| {
        let body = nested_calls();
        let y = named(&body, "y");
        use_all(&body, y);
        let mut count = Count::default();
        ExprVisitor::visit_body(&mut count, &body);
        assert_eq!(count.0, N);
        let base = Swap.mutate(&body).expect("valid");
        assert_eq!((base.n_bindings(), base.len()), (1, body.len() + N / 2));
        let named = SwapAndName.mutate(&body).expect("valid");
        assert_eq!((named.n_bindings(), named.len()), (1 + N, body.len() + N / 2));
        let normal = normalize(&body, &Elementwise).expect("valid");
        assert_eq!((normal.n_bindings(), normal.len()), (N, body.len()));
    });
}

#[test]
fn nested_sums_are_walked_and_rewritten() {
    on_2_mib(|| {
        let body = nested_sums();
        let sum = body.values().find_map(|value| value.stmt()?.evaluated()).expect("a sum");
        use_all(&body, sum);
        assert!(index_to_dim(sum).is_none(), "no dimension is that deep");
        let mut count = Count::default();
        StmtVisitor::visit_body(&mut count, &body);
        assert_eq!(count.0, N);
        let new = Subtract.mutate(&body).expect("valid");
        let is_difference = |value: &Value<'_>| matches!(value.view(), Expr::Arith { op: prim::SUB, .. });
        assert_eq!(new.values().filter(is_difference).count(), N);
    });
}

#[test]
fn the_block_builder_names_what_is_nested() {
    on_2_mib(|| {
        let body = build(|b| {
            let x = b.param("x", tensor());
            let y = (0..N).fold(x, |v, _| b.relu(v));
            b.emit_func_output(y);
        });
        assert_eq!(body.n_bindings(), N);
        assert_eq!(Depth.visit_expr(body.function().and_then(|f| f.result()).expect("a result"), ()), 1);
    });
}
