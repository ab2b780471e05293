//! Tests that every meaning has one form: a built body cannot be distinguished from a parsed body.

use super::normal::broken_up;
use super::{brief, cases, choices, made, shown};
use passhost::{Engine, Manifest, Runner, create_function_pass};
use passhost_tests::{engine, root};
use plugin_api::ir::records;
use plugin_api::ir::records::{LEAF_BIT, flag, kind};
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, Sections};
use plugin_api::metadata::PassInfo;
use plugin_api::prelude::*;
use plugin_api::typing::normalize::normalize;
use proptest::prelude::*;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;

/// Returns the records of a body with nested expressions moved earlier, to places where their operands are defined.
fn scattered(body: &Body, choose: impl Fn(usize) -> usize) -> Sections {
    let (parents, mut s) = (body.parents(), Sections::copy_of(body.raw()));
    // The node before which each node is placed; nodes with the same place keep their order.
    let mut keys: Vec<(usize, bool, usize)> = (0..body.len()).map(|at| (at, true, at)).collect();
    let head = |at: &usize| matches!(body.value_at(*at).kind(), kind::PARAM | kind::LOOP_VAR | kind::BRANCH);
    for value in body.values().filter(|value| value.is_nested() && !value.has(flag::REGION)) {
        let at = value.index().expect("a node");
        let operands = value.operands().filter_map(Value::index).max().map_or(0, |last| last + 1);
        let beside = |other: &usize| *other >= operands && parents[*other] == parents[at];
        let places: Vec<usize> = (0..=at).filter(|other| beside(other) && !head(other)).collect();
        if !places.is_empty() {
            keys[at] = (places[choose(at) % places.len()], false, at);
        }
    }
    let mut order: Vec<usize> = (0..body.len()).collect();
    order.sort_by_key(|at| keys[*at]);
    let mut becomes = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, old)| becomes[*old] = new as u32);
    let (nodes, names) = (s.nodes.clone(), s.names.clone());
    s.nodes = order.iter().map(|old| nodes[*old]).collect();
    s.names = if names.is_empty() { names } else { order.iter().map(|old| names[*old]).collect() };
    s.spans.clear();
    s.operands.iter_mut().filter(|word| **word & LEAF_BIT == 0).for_each(|word| *word = becomes[*word as usize]);
    s
}

proptest! {
    #![proptest_config(cases(300))]

    /// Equality, hash, the printer and Normalize do not depend on the positions of nested expressions.
    #[test]
    fn the_order_of_nested_expressions_is_one(bytes in choices(), mask in any::<u64>()) {
        let module = made(&bytes);
        let mut other = module.edit();
        let mut nested = module.edit();
        for (name, body) in module.functions() {
            let relax = body.function().is_some();
            let body = if relax { broken_up(body, |at| mask >> (at % 64) & 1 == 1).0 } else { body.clone() };
            let moved = Body::seal(&scattered(&body, |at| (mask >> (at % 61)) as usize)).expect("operands come first");
            prop_assert!(moved.structural_eq(&body), "{name}\n{}\n{}", plugin_api::walk::dump::dump(&body), plugin_api::walk::dump::dump(&moved));
            prop_assert_eq!(moved.structural_hash(), body.structural_hash());
            let (a, b) = (normalize(&body, engine()), normalize(&moved, engine()));
            prop_assert!(a.expect("well-typed").structural_eq(&b.expect("well-typed")));
            nested.set(name, body);
            other.set(name, moved);
        }
        let (nested, other) = (nested.finish(), other.finish());
        prop_assert_eq!(shown(&nested), shown(&other), "{}", brief(&module));
    }
}

const TWO_CALLS: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float16")) -> R.Tensor((2, 3), dtype="float32"):
        a: R.Tensor((2, 3), dtype="float32") = R.astype(x, dtype="float32")
        b: R.Tensor((2, 3), dtype="float32") = R.astype(x, dtype="float32")
        c: R.Tensor((2, 3), dtype="float32") = R.nn.leakyrelu(a, alpha=1.0)
        d: R.Tensor((2, 3), dtype="float32") = R.nn.leakyrelu(b, alpha=1.0)
        e: R.Tensor((2, 3), dtype="float32") = R.nn.softmax(c, axis=-1)
        f: R.Tensor((2, 3), dtype="float32") = R.nn.softmax(d, axis=-1)
        g: R.Tensor((2, 3), dtype="float32") = R.add(e, f)
        return g
"#;

/// Rewrites the attributes of half of the calls in other forms: as a data type, as an integer instead of a float, or
/// omitted if they have the default value.
fn other_forms(body: &Body) -> Result<Body, PassError> {
    let mut edit = body.edit();
    for (name, attrs) in
        [("b", vec![("dtype", Attr::DType(DType::F32))]), ("d", vec![("alpha", Attr::Int(1))]), ("f", Vec::new())]
    {
        let value = body.lookup_binding(name).expect("is there");
        let attrs = edit.builder().attrs(attrs);
        let v = edit.v(value);
        edit.set_attrs(v, attrs);
    }
    Ok(edit.finish()?)
}

#[test]
fn attributes_have_the_form_that_their_operator_declares() {
    let mut engine = Engine::new(&Manifest::load(&root().join("passes.toml")).expect("the manifest")).expect("plugins");
    let pass = create_function_pass(PassInfo::new("t.OtherForms"), |body, _| other_forms(body));
    engine.add_pass(pass).expect("a new name");
    let module = script::read(TWO_CALLS, &engine).expect("reads");
    let run = |pipeline: &str| {
        let request = Request { pipeline: Pipeline::parse(pipeline).expect("parses"), ..Request::default() };
        let plan = Plan::new(&request, engine.registry()).expect("planned");
        let report = Runner::new(&engine, BTreeMap::new()).run(&plan, module.clone()).expect("runs");
        assert!(report.error.is_none(), "{:?}", report.error.map(|error| error.to_string()));
        report.module
    };
    let rewritten = run("t.OtherForms");
    assert!(rewritten.structural_eq(&module), "{:?}", script::print(&rewritten, &engine));
    // The first pipeline passes the module directly from one pass to the next, without printing and reading it.
    let (merged, read) = (run("t.OtherForms, relax.EliminateCommonSubexpr"), run("relax.EliminateCommonSubexpr"));
    assert!(!read.structural_eq(&module), "calls are merged");
    assert!(merged.structural_eq(&read), "{:?}", script::print(&merged, &engine));
}

#[test]
fn data_types_and_nan_have_one_form() {
    let body = |attrs: &[(&str, Attr)]| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::tensor([8], DType::F32));
        let (x, op) = (b.param("x", ty), b.op("acme.op"));
        let attrs = b.attrs(attrs.iter().cloned());
        let y = b.call(op, &[x], attrs, ty, false, None);
        b.end_function(y, ty);
        b.finish().expect("valid")
    };
    let name = body(&[("t", Attr::from("float32")), ("n", Attr::Float(f64::NAN))]);
    let other = body(&[("t", Attr::DType(DType::F32)), ("n", Attr::Float(-f64::NAN))]);
    assert!(name.structural_eq(&other));
    // Writes other forms directly into the records.
    let mut s = Sections::copy_of(name.raw());
    for rec in &mut s.attrs {
        match rec.kind {
            records::attr::STR => (rec.kind, rec.flags, rec.val) = (records::attr::DTYPE, 0, u64::from(DType::F32.0)),
            _ => rec.val |= 1,
        }
    }
    let sealed = Body::seal(&s).expect("valid");
    assert!(sealed.structural_eq(&name), "{}", plugin_api::walk::dump::dump(&sealed));
    assert_eq!(sealed.structural_hash(), name.structural_hash());
}

/// Adjacent blocks of one kind are merged, and empty blocks are dropped.
#[test]
fn blocks_have_one_form() {
    let body = |split: bool| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::tensor([8], DType::F32));
        let (x, op) = (b.param("x", ty), b.op("relax.exp"));
        b.begin(NodeSpec::new(kind::BLOCK), &[], None);
        let y = b.call(op, &[x], AttrsId::NONE, ty, false, Some("y"));
        if split {
            b.end();
            b.begin(NodeSpec::new(kind::BLOCK), &[], None);
            b.end();
            b.begin(NodeSpec::new(kind::BLOCK), &[], None);
        }
        let z = b.call(op, &[y], AttrsId::NONE, ty, false, Some("z"));
        b.end();
        b.end_function(z, ty);
        b.finish().expect("valid")
    };
    let (one, three) = (body(false), body(true));
    assert!(
        one.structural_eq(&three),
        "{}\n{}",
        plugin_api::walk::dump::dump(&one),
        plugin_api::walk::dump::dump(&three)
    );
}
