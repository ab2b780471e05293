//! A plugin of an older API version, whose records are frozen beside it, under a host of today.

use passhost::{Engine, Manifest, Runner};
use passhost_tests::root;
use plugin_api::ir::Sections;
use plugin_api::ir::records::{flag, kind, leaf};
use plugin_api::prelude::*;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;

/// Leaves from here on are of vendors: no API version has this one.
const A_LEAF_KIND: u16 = 0x8001;

/// A function with a node kind that API 0.1 does not have, and a leaf kind that nobody has.
fn with_new_kinds(operator: &str) -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor(vec![Dim::Int(4)], DType::F32));
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let payload = b.string("payload");
    b.begin(NodeSpec::new(kind::WHILE).flags(flag::IMPURE), &[x], None);
    let inner = b.node(NodeSpec::new(0x8002).ty(ty), &[x, payload], Some("odd"));
    b.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[inner], None);
    b.end();
    let callee = b.op(operator);
    let y = b.call(callee, &[x], AttrsId::NONE, ty, false, Some("y"));
    b.end();
    b.end_function(y, ty);
    let mut sections = Sections::copy_of(&b.raw());
    let payload = sections.leaves.iter_mut().find(|record| record.kind == leaf::STR).expect("the string");
    payload.kind = A_LEAF_KIND;
    Body::seal(&sections).expect("valid")
}

/// The engine of the frozen plugin and of today's operators.
fn engine() -> Engine {
    let text = "[[plugin]]\ncrate = \"tests/evolution/plugin-0.1\"\n[[plugin]]\ncrate = \"plugins/relax-ops\"\n";
    let manifest = Manifest::parse(&root().join("evolution.toml"), text).expect("a manifest");
    Engine::new(&manifest).expect("both plugins are listed")
}

#[test]
fn a_plugin_of_api_0_1_walks_and_rewrites_what_it_does_not_know() {
    let engine = engine();
    let (_, info) = engine.registry().passes().find(|(_, pass)| pass.name == "old.Count").expect("is listed");
    assert!(!info.sequential, "a fact that pass records of 0.1 do not have");
    let relu = with_new_kinds("relax.nn.relu");
    let other = with_new_kinds("relax.exp");
    let module = Module::new([("main", relu.clone()), ("other", other.clone())]);
    let pipeline = Pipeline::parse("old.Count, old.TanhForRelu, old.Count").expect("a pipeline");
    let request = Request { pipeline, selections: Vec::new(), ..Request::default() };
    let plan = Plan::new(&request, engine.registry()).expect("a plan");
    let report = Runner::new(&engine, BTreeMap::new()).run(&plan, module.clone()).expect("both plugins open");
    assert!(report.error.is_none(), "{:?}", report.error);

    let seen: Vec<&str> = report.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    let operands: usize = module.functions().map(|(_, body)| body.raw().operands().len()).sum();
    let nodes: usize = module.functions().map(|(_, body)| body.raw().nodes().len()).sum();
    let expected = format!("{nodes} nodes, {operands} operands, unknown kinds: 4 nodes, 2 leaves");
    assert_eq!(seen, [expected.as_str(); 2], "the walk reaches everything");

    let new = report.module.get("main").expect("is there");
    assert!(new.structural_eq(&with_new_kinds("relax.tanh")), "only the operator is another one");
    let odd = new.values().find(|value| value.kind() == 0x8002).expect("is there");
    assert_eq!(odd.operand(1).and_then(|leaf| leaf.leaf()).map(|leaf| leaf.kind), Some(A_LEAF_KIND));
    assert!(new.values().any(|value| value.kind() == kind::WHILE));
    assert!(report.module.get("other").expect("is there").same(&other), "what it did not change is the same handle");
}
