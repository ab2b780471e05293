//! Builds, checks, traverses and rewrites 100,000 nested expressions on a thread of 2 MiB. `tests/tests/deep.rs`
//! prints them.

mod common;

use common::*;
use plugin_api::arith::index_to_dim;
use plugin_api::arith::substitute;
use plugin_api::ir::nested::{Nests, TOO_DEEP, TOO_LARGE};
use plugin_api::ir::records::{flag, kind};
use plugin_api::ir::{AttrsId, BodyBuilder, MAX_SIZE, NodeSpec, Part, TypeId};
use plugin_api::metadata::{OptionType, OptionValue};
use plugin_api::prelude::*;
use plugin_api::rewrite::mutators::ExprMutatorBase;
use plugin_api::scalar::PrimOp;
use plugin_api::tvm::{ExprFunctor, ExprMutator, ExprVisitor, StmtMutator, StmtVisitor, post_order_visit};
use plugin_api::typing::normalize::normalize;
use plugin_api::typing::relations::{Relation, relation, substitute_type};
use plugin_api::walk::functor::Results;
use plugin_api::walk::value_key::value_key;
use plugin_api::walk::visitors::post_order_visit_value;
use std::hash::{Hash, Hasher};

const N: usize = 100_000;

/// Runs `f` on a thread with a stack of 2 MiB.
fn on_2_mib(f: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(f).expect("a thread");
    thread.join().expect("no panic");
}

/// Nests a million values of a kind.
fn million<T>(inner: T, outer: impl Fn(T) -> T) -> T {
    (0..1_000_000).fold(inner, |inner, _| outer(inner))
}

/// Uses a value through all standard traits.
fn use_value<T: Clone + PartialEq + std::fmt::Debug>(value: T) {
    let copy = value.clone();
    assert!(value == copy);
    assert!(!format!("{copy:?}").is_empty());
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Types, attributes, option values and dimensions of any depth are created, used and dropped without a deep stack.
#[test]
fn values_of_any_depth_cost_no_stack() {
    on_2_mib(|| {
        let tuples = million(Type::Object, |ty| Type::tuple([ty]));
        assert_eq!(Nests::depth(&tuples), TOO_DEEP);
        let results = million(tuples.clone(), |ret| Type::callable(None, ret, true));
        let params = million(Type::Object, |param| Type::callable(Some(vec![param]), Type::Object, true));
        for ty in [tuples, results, params] {
            assert_eq!(hash(&ty), hash(&ty.clone()));
            ty.each_dim(true, &mut |_| ());
            assert!(!matches!(relation(&ty, &Type::tuple([Type::Object])), Relation::Equal));
            use_value(substitute_type(&ty, &|_| None));
            use_value(Attr::list([Attr::Type(ty)]));
        }
        use_value(million(Attr::None, |item| Attr::list([item])));
        use_value(million(Attr::None, |value| Attr::dict([("k", value)])));
        use_value(million(Attr::None, |arg| Attr::Object("o".into(), [(None, arg)].into())));
        let list = million(OptionValue::Int(1), |item| OptionValue::List([item].into()));
        assert_eq!(list.clone().coerce(OptionType::IntList), None);
        use_value(list);
        let sum = million(Dim::Int(1), |dim| Dim::binary(PrimOp::Add, dim, Dim::Int(2)));
        let other = million(Dim::Int(1), |dim| Dim::binary(PrimOp::Add, Dim::Int(2), dim));
        assert!(sum != other && hash(&sum) != hash(&other));
        assert_eq!(hash(&sum), hash(&million(Dim::Int(1), |dim| Dim::binary(PrimOp::Add, dim, Dim::Int(2)))));
        sum.vars(&mut |_| ());
        assert!(substitute(&sum, &|_| None) == sum);
        use_value(Type::shape(vec![sum, other]));
    });
}

/// The greatest allowed depth is kept, even after an in-place change.
#[test]
fn parts_know_their_depth() {
    let nest = |depth: usize| (0..depth).fold(Type::Object, |ty, _| Type::tuple([ty]));
    assert_eq!((Nests::depth(&nest(1_000)), Nests::depth(&nest(1_001))), (1_000, TOO_DEEP));
    let mut ty = nest(600);
    let Type::Tuple(fields) = &mut ty else { panic!("a tuple") };
    fields.edit(|fields| fields.push(nest(700)));
    assert_eq!((fields.len(), fields.depth()), (2, 701));
    fields.edit(|fields| fields.push(nest(1_000)));
    assert_eq!((fields.len(), fields.depth()), (0, TOO_DEEP));
    assert_ne!(ty, Type::tuple([]));
    let mut ret = Part::from(nest(3));
    ret.edit(|ret| *ret = Type::tuple([Type::Object, nest(1)]));
    assert_eq!((ret.depth(), ret.into_inner()), (3, Type::tuple([Type::Object, Type::tuple([Type::Object])])));
}

/// Builds a value that contains two copies of a value that contains two copies, and so on, so that its parts exceed
/// any memory.
fn doubled<T: Clone>(inner: T, outer: impl Fn(T, T) -> T) -> T {
    (0..60).fold(inner, |inner, _| outer(inner.clone(), inner))
}

/// Runs `f`. Fails if the time is proportional to the number of parts.
fn in_time(f: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        f();
        // If this took too long, the receiver was dropped.
        let _ = done.send(());
    });
    wait.recv_timeout(std::time::Duration::from_secs(100)).expect("it ends without a panic");
    thread.expect("a thread").join().expect("no panic");
}

/// Returns the error of a body that contains such a large type or attribute.
fn refusal(add: impl FnOnce(&mut BodyBuilder) -> (TypeId, AttrsId)) -> String {
    let mut b = BodyBuilder::new();
    let (ty, attrs) = add(&mut b);
    b.begin_function(0, attrs, None);
    let x = b.param("x", ty);
    b.end_function(x, ty);
    b.finish().expect_err("too large").to_string()
}

/// Types, attributes and option values that double are bounded on construction, so bodies cannot contain them.
#[test]
fn values_that_double_are_refused() {
    in_time(|| {
        let tuples = doubled(Type::Object, |a, b| Type::tuple([a, b]));
        let shapes = doubled(Type::shape(vec![Dim::Int(1); 1_000]), |a, b| Type::tuple([a, b]));
        let functions = doubled(Type::Object, |a, b| Type::callable(Some(vec![a]), b, true));
        for ty in [tuples, shapes, functions] {
            assert_eq!((Nests::size(&ty) > MAX_SIZE, hash(&ty)), (true, hash(&ty.clone())));
            let said = refusal(|b| (b.ty(&ty), AttrsId::NONE));
            assert!(said.contains("type 0: more than 1048576 parts"), "{said}");
            use_value(ty);
        }
        let lists = doubled(Attr::None, |a, b| Attr::list([a, b]));
        let dicts = doubled(Attr::None, |a, b| Attr::dict([("a", a), ("b", b)]));
        let objects = doubled(Attr::None, |a, b| Attr::Object("o".into(), [(None, a), (None, b)].into()));
        for attr in [lists, dicts, objects] {
            let said = refusal(|b| (b.ty(&tensor()), b.attrs([("k", attr.clone())])));
            assert!(said.contains("attribute 0: more than 1048576 parts"), "{said}");
            use_value(attr);
        }
        let list = doubled(OptionValue::Int(1), |a, b| OptionValue::List([a, b].into()));
        assert_eq!((Nests::size(&list), list.coerce(OptionType::IntList)), (TOO_LARGE, None));
    });
}

/// Dimensions share their operands, so they can be created; traversals exploit that.
#[test]
fn dimensions_that_double_are_refused() {
    in_time(|| {
        let mut b = BodyBuilder::new();
        let n = Dim::Var(b.sym("n", DType::I64));
        let sum = |inner: &Dim| doubled(inner.clone(), |a, b| Dim::binary(PrimOp::Add, a, b));
        let (one, other) = (sum(&n), sum(&n));
        assert!(one == other && hash(&one) == hash(&other) && one != sum(&Dim::Int(1)));
        let mut vars = 0;
        one.vars(&mut |_| vars += 1);
        assert!(vars > 0);
        assert!(substitute(&one, &|_| Some(Dim::Int(1))) == sum(&Dim::Int(1)));
        use_value(Type::shape(vec![one.clone()]));
        let shape = Type::shape(vec![one.clone(), other]);
        let said = refusal(|b| {
            b.sym("n", DType::I64);
            (b.ty(&shape), b.attrs([("k", Attr::Dim(one))]))
        });
        assert!(said.contains("dimension") && said.contains("more than 1048576 parts"), "{said}");
    });
}

/// The greatest allowed number of parts is kept, even after an in-place change.
#[test]
fn parts_know_their_size() {
    let wide = |n: u32| Type::tuple((1..n).map(|_| Type::Object));
    assert_eq!((Nests::size(&wide(MAX_SIZE)), Nests::size(&wide(MAX_SIZE + 1))), (MAX_SIZE, MAX_SIZE + 1));
    assert!(Nests::size(&wide(MAX_SIZE + 2)) == TOO_LARGE);
    let mut ty = Type::tuple([wide(1_000)]);
    let Type::Tuple(fields) = &mut ty else { panic!("a tuple") };
    fields.edit(|fields| fields.push(Type::Object));
    assert_eq!((fields.size(), fields.is_whole()), (1_001, true));
    fields.edit(|fields| fields.push(wide(MAX_SIZE)));
    assert_eq!((fields.size(), fields.len(), fields.is_whole()), (TOO_LARGE, 0, false));
    let mut ret = Part::from(wide(3));
    ret.edit(|ret| *ret = wide(MAX_SIZE));
    assert_eq!((ret.size(), ret.depth()), (MAX_SIZE, 2));
}

/// Returns `y = relu(add(relu(add(… x …, x)), x))`, without names in between.
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

/// Returns `T.evaluate(n + 1 + 1 + …)`.
fn nested_sums() -> Body {
    let mut b = BodyBuilder::new();
    let int = b.ty(&Type::Prim { dtype: DType::I64, value: None });
    b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
    let (mut v, one) = (b.param("n", int), b.scalar(&Dim::Int(1)));
    for _ in 0..N {
        v = b.node(NodeSpec::new(kind::ARITH).ty(int).a(PrimOp::Add.into()), &[v, one], None);
    }
    b.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[v], None);
    b.end();
    b.finish().expect("valid")
}

/// Measures how deeply calls or sums are nested.
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

/// Replaces `relu(v)` by `exp(sqrt(v))`.
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

/// Replaces every sum by a difference.
struct Subtract;

impl<'b> StmtMutator<'b> for Subtract {
    fn visit_arith(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let v = rw.v(value);
        rw.edit().update(v, |node| node.a = PrimOp::Sub.into());
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
    assert!(plugin_api::walk::dump::dump(body).len() > N);
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
        assert!(index_to_dim(sum).is_none(), "dimensions cannot be nested this deeply");
        let mut count = Count::default();
        StmtVisitor::visit_body(&mut count, &body);
        assert_eq!(count.0, N);
        let new = Subtract.mutate(&body).expect("valid");
        let is_difference = |value: &Value<'_>| matches!(value.view(), Expr::Arith { op: PrimOp::Sub, .. });
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
