//! Tests A-normal form for any nesting (branches, nested functions, blocks inside expressions) and with missing
//! types.

mod common;

use common::*;
use plugin_api::ir::records::kind;
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, TypeId, records};
use plugin_api::prelude::*;
use plugin_api::typing::normalize::{first_not_normal, normalize};
use plugin_api::walk::dump::dump;
use proptest::prelude::*;

/// Parts that the tests combine.
struct Parts {
    b: BodyBuilder,
    ty: TypeId,
    x: V,
    c: V,
}

impl Parts {
    fn new() -> Parts {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let (ty, bool) = (b.ty(&tensor()), b.ty(&cond()));
        let (x, c) = (b.param("x", ty), b.param("c", bool));
        Parts { b, ty, x, c }
    }

    fn call(&mut self, op: &str, arg: V) -> V {
        let (op, ty) = (self.b.op(op), self.ty);
        self.b.call(op, &[arg], AttrsId::NONE, ty, false, None)
    }

    fn begin(&mut self, kind: u16, ops: &[V]) -> V {
        let ty = if matches!(kind, kind::IF | kind::SEQ) { self.ty } else { TypeId::NONE };
        self.b.begin(NodeSpec::new(kind).ty(ty), ops, None)
    }

    fn yields(&mut self, v: V) {
        self.b.node(NodeSpec::new(kind::YIELD), &[v], None);
        self.b.end();
    }

    fn normal(mut self, result: V) -> Body {
        let ty = self.ty;
        self.b.end_function(result, ty);
        let body = self.b.finish().expect("valid");
        assert!(first_not_normal(&body).is_some());
        let normal = normalize(&body, &Elementwise).expect("valid");
        assert!(first_not_normal(&normal).is_none(), "{}", dump(&normal));
        assert!(normalize(&normal, &Elementwise).expect("valid").same(&normal), "a second time changes nothing");
        normal
    }
}

/// Formats kind, name and operators, one line per node.
fn shape(body: &Body) -> String {
    let line = |value: Value<'_>| match (value.kind(), value.as_call().and_then(Call::op)) {
        (_, Some(op)) => format!("{}={op}", value.name().unwrap_or("_")),
        (kind::FUNC, _) => "func".into(),
        (kind::BLOCK, _) => "block".into(),
        (kind::DATAFLOW, _) => "dataflow".into(),
        (kind::BRANCH, _) => "branch".into(),
        (kind::IF, _) => format!("{}=if", value.name().unwrap_or("_")),
        (kind::YIELD, _) => format!("yield {}", value.operand(0).and_then(Value::name).unwrap_or("_")),
        (kind::ALIAS, _) => format!("{}=alias", value.name().unwrap_or("_")),
        _ => value.name().unwrap_or("_").to_string(),
    };
    body.values().map(line).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_nested_if_and_what_its_branches_return() {
    let mut p = Parts::new();
    let (x, c) = (p.x, p.c);
    let header = p.begin(kind::IF, &[c]);
    p.begin(kind::BRANCH, &[]);
    let inner = p.call("relax.exp", x);
    let inner = p.call("relax.sqrt", inner);
    p.yields(inner);
    p.begin(kind::BRANCH, &[]);
    p.yields(x);
    p.b.end();
    let result = p.call("relax.nn.relu", header);
    assert_eq!(
        shape(&p.normal(result)),
        "func; x; c; block; gv=if; branch; block; gv=relax.exp; gv=relax.sqrt; yield gv; branch; yield x; \
         gv=relax.nn.relu; yield gv"
    );
}

#[test]
fn what_a_nested_function_returns() {
    let mut p = Parts::new();
    p.begin(kind::BLOCK, &[]);
    let f = p.b.begin_function(0, AttrsId::NONE, Some("f"));
    let ty = p.ty;
    let t = p.b.param("t", ty);
    let inner = p.call("relax.exp", t);
    let inner = p.call("relax.sqrt", inner);
    p.b.end_function(inner, ty);
    let _ = f;
    p.b.end();
    let x = p.x;
    assert_eq!(
        shape(&p.normal(x)),
        "func; x; c; block; func; t; block; gv=relax.exp; gv=relax.sqrt; yield gv; yield x"
    );
}

#[test]
fn blocks_inside_an_expression_stand_before_it() {
    // Case: in a dataflow block, as the value of a binding, with an inner dataflow block.
    let mut p = Parts::new();
    let x = p.x;
    p.begin(kind::DATAFLOW, &[]);
    let seq = p.begin(kind::SEQ, &[]);
    p.begin(kind::BLOCK, &[]);
    let a = p.call("relax.exp", x);
    p.b.bind(a, "a");
    p.b.end();
    let b = p.call("relax.sqrt", a);
    p.yields(b);
    let y = p.call("relax.nn.relu", seq);
    p.b.bind(y, "y");
    p.b.end();
    let body = p.normal(y);
    assert_eq!(
        shape(&body),
        "func; x; c; dataflow; a=relax.exp; lv=relax.sqrt; y=relax.nn.relu; yield y",
        "{}",
        dump(&body)
    );
    assert!(named(&body, "a").has(records::flag::INNER) && !named(&body, "y").has(records::flag::INNER));
}

#[test]
fn blocks_that_are_returned_or_bound() {
    for bound in [false, true] {
        let mut p = Parts::new();
        let x = p.x;
        if bound {
            p.begin(kind::BLOCK, &[]);
        }
        let seq = p.begin(kind::SEQ, &[]);
        p.begin(kind::DATAFLOW, &[]);
        let a = p.call("relax.exp", x);
        p.b.bind(a, "a");
        p.b.end();
        p.yields(a);
        if bound {
            p.b.bind(seq, "s");
            p.b.end();
        }
        let expected = match bound {
            false => "func; x; c; dataflow; a=relax.exp; yield a",
            true => "func; x; c; block; a=relax.exp; s=alias; yield s",
        };
        assert_eq!(shape(&p.normal(seq)), expected);
    }
}

#[test]
fn missing_types_are_inferred_and_said_ones_kept() {
    let mut p = Parts::new();
    let (x, c) = (p.x, p.c);
    p.begin(kind::BLOCK, &[]);
    p.ty = TypeId::NONE;
    let a = p.call("relax.exp", x);
    p.b.bind(a, "a");
    let unknown = p.call("other.op", a);
    p.b.bind(unknown, "u");
    p.ty = p.b.ty(&Type::Object);
    let said = p.call("relax.exp", a);
    p.b.bind(said, "said");
    p.ty = TypeId::NONE;
    let pair = p.b.tuple(&[a, c], Some("pair"));
    p.b.tuple_get(pair, 0, Some("first"));
    let header = p.begin(kind::IF, &[c]);
    p.begin(kind::BRANCH, &[]);
    p.yields(a);
    p.begin(kind::BRANCH, &[]);
    p.yields(x);
    p.b.end();
    p.b.bind(header, "either");
    p.b.end();
    p.ty = p.b.ty(&tensor());
    let ty = p.ty;
    p.b.end_function(header, ty);
    let body = normalize(&p.b.finish().expect("valid"), &Elementwise).expect("valid");
    let ty = |name: &str| named(&body, name).ty().is_known().then(|| named(&body, name).ty().to_owned());
    assert_eq!((ty("a"), ty("u"), ty("said")), (Some(tensor()), None, Some(Type::Object)));
    assert_eq!(ty("pair"), Some(Type::tuple([tensor(), cond()])));
    assert_eq!((ty("first"), ty("either")), (Some(tensor()), Some(tensor())));
}

/// An arbitrarily nested expression.
#[derive(Clone, Debug)]
enum Tree {
    X,
    Call(u8, Box<Tree>),
    /// An element of a tuple.
    Pair(Box<Tree>, Box<Tree>),
    If(Box<Tree>, Box<Tree>),
    /// Blocks (dataflow blocks if the flag is set) that bind the first expression, with the second as result.
    Seq(bool, Box<Tree>, Box<Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    Just(Tree::X).prop_recursive(6, 40, 2, |tree| {
        let two = || (tree.clone().prop_map(Box::new), tree.clone().prop_map(Box::new));
        prop_oneof![
            (any::<u8>(), tree.clone()).prop_map(|(op, arg)| Tree::Call(op, Box::new(arg))),
            two().prop_map(|(a, b)| Tree::Pair(a, b)),
            two().prop_map(|(a, b)| Tree::If(a, b)),
            (any::<bool>(), two()).prop_map(|(flows, (a, b))| Tree::Seq(flows, a, b)),
        ]
    })
}

impl Parts {
    fn tree(&mut self, tree: &Tree) -> V {
        match tree {
            Tree::X => self.x,
            Tree::Call(op, arg) => {
                let arg = self.tree(arg);
                self.call(&format!("relax.f{op}"), arg)
            }
            Tree::Pair(a, b) => {
                let (a, b) = (self.tree(a), self.tree(b));
                let pair = self.b.tuple(&[a, b], None);
                self.b.tuple_get(pair, 0, None)
            }
            Tree::If(then, other) => {
                let c = self.c;
                let header = self.begin(kind::IF, &[c]);
                for tree in [then, other] {
                    self.begin(kind::BRANCH, &[]);
                    let v = self.tree(tree);
                    self.yields(v);
                }
                self.b.end();
                header
            }
            Tree::Seq(flows, bound, result) => {
                let header = self.begin(kind::SEQ, &[]);
                self.begin(if *flows { kind::DATAFLOW } else { kind::BLOCK }, &[]);
                let v = self.tree(bound);
                if !v.is_leaf() && v != self.x && !is_bound(&self.b, v) {
                    self.b.bind(v, "bound");
                }
                self.call_bound("relax.last", v);
                self.b.end();
                let v = self.tree(result);
                self.yields(v);
                header
            }
        }
    }

    fn call_bound(&mut self, op: &str, arg: V) {
        let v = self.call(op, arg);
        self.b.bind(v, "last");
    }
}

fn is_bound(b: &BodyBuilder, v: V) -> bool {
    b.with(v, |value| value.is_bound())
}

fn ops(body: &Body) -> Vec<String> {
    body.values().filter_map(|value| value.as_call()?.op().map(str::to_string)).collect()
}

proptest! {
    #[test]
    fn any_nesting_is_brought_into_normal_form_in_the_order_of_evaluation(tree in trees(), flows in any::<bool>()) {
        let mut p = Parts::new();
        p.begin(if flows { kind::DATAFLOW } else { kind::BLOCK }, &[]);
        let v = p.tree(&tree);
        p.call_bound("relax.last", v);
        p.b.end();
        let (result, ty) = (p.tree(&tree), p.ty);
        p.b.end_function(result, ty);
        let body = p.b.finish().expect("valid");
        let normal = normalize(&body, &Elementwise).expect("valid");
        prop_assert!(first_not_normal(&normal).is_none(), "{}\n{}", dump(&body), dump(&normal));
        prop_assert!(normalize(&normal, &Elementwise).expect("valid").same(&normal));
        prop_assert_eq!(ops(&body), ops(&normal));
        let ifs = |body: &Body| body.values().filter(|value| value.kind() == kind::IF).count();
        prop_assert_eq!(ifs(&body), ifs(&normal));
    }
}
