//! A plugin of an older API version, whose records are frozen beside it, under a host of today.

#[path = "../../plugin-api/tests/opened/host.rs"]
mod host;

use host::Host;
use passhost::plugins::loader;
use passhost::{Engine, Manifest};
use passhost_tests::root;
use plugin_api::abi::host::with_current;
use plugin_api::ir::Sections;
use plugin_api::ir::records::{flag, kind, leaf};
use plugin_api::metadata::Granularity;
use plugin_api::prelude::*;

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

/// The pass is called without the check after it: no text has vendors' kinds, so a run refuses what has them.
#[test]
fn a_plugin_of_api_0_1_walks_and_rewrites_what_it_does_not_know() {
    let engine = engine();
    let (_, info) = engine.registry().passes().find(|(_, pass)| pass.name == "old.Count").expect("is listed");
    assert!(!info.sequential, "a fact that pass records of 0.1 do not have");
    let files = engine.registry().owners().filter_map(|(_, owner)| owner.file.clone());
    let plugins = files.map(|file| loader::list(&file, None, None).expect("is listed"));
    let listed = plugins.into_iter().find(|listed| listed.meta.passes.iter().any(|pass| pass.name == "old.Count"));
    let listed = listed.expect("the frozen plugin");
    let plugin = loader::open(&listed).expect("opens");
    let relu = with_new_kinds("relax.nn.relu");
    let other = with_new_kinds("relax.exp");
    let module = Module::new([("main", relu.clone()), ("other", other.clone())]);
    let host = Host { pass: "old.Count", ..Host::default() };
    let run = |name: &str, module: &Module| {
        let at = listed.meta.passes.iter().position(|pass| pass.name == name).expect("is listed");
        let functions: Vec<(&str, &Body)> = module.functions().collect();
        match listed.meta.passes[at].granularity {
            Granularity::Module => with_current(&host, 2, || plugin.run_module(at, module, &[])).expect("runs"),
            _ => {
                let results = with_current(&host, 2, || plugin.run_functions(at, &functions, &[]));
                let bodies = results.into_iter().map(|body| body.expect("runs"));
                Module::new(functions.iter().map(|(name, _)| *name).zip(bodies))
            }
        }
    };
    let result = run("old.Count", &run("old.TanhForRelu", &run("old.Count", &module)));

    let operands: usize = module.functions().map(|(_, body)| body.raw().operands().len()).sum();
    let nodes: usize = module.functions().map(|(_, body)| body.raw().nodes().len()).sum();
    let expected = format!("{nodes} nodes, {operands} operands, unknown kinds: 4 nodes, 2 leaves");
    let said: Vec<String> = host.told.take().into_iter().map(|(_, _, message)| message).collect();
    assert_eq!(said, [expected.as_str(); 2], "the walk reaches everything");

    let new = result.get("main").expect("is there");
    assert!(new.structural_eq(&with_new_kinds("relax.tanh")), "only the operator is another one");
    let odd = new.values().find(|value| value.kind() == 0x8002).expect("is there");
    assert_eq!(odd.operand(1).and_then(|leaf| leaf.leaf()).map(|leaf| leaf.kind), Some(A_LEAF_KIND));
    assert!(new.values().any(|value| value.kind() == kind::WHILE));
    assert!(result.get("other").expect("is there").same(&other), "what it did not change is the same handle");
}
