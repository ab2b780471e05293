//! Tests a plugin of API 1.0 with handwritten records in a host that has node kinds unknown to it, and the same plugin
//! when it declares that it needs a later API.

#[path = "../../plugin-api/tests/opened/host.rs"]
mod host;

use host::Host;
use passhost::plugins::loader;
use passhost::{Engine, Manifest};
use passhost_tests::root;
use plugin_api::abi::host::{fingerprint, with_current};
use plugin_api::ir::records::{flag, kind, leaf};
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, Sections};
use plugin_api::metadata::Granularity;
use plugin_api::prelude::*;

/// Kinds from 0x8000 on are reserved for vendors: no API version uses them.
const A_LEAF_KIND: u16 = 0x8001;
const A_NODE_KIND: u16 = 0x8002;

/// Returns a function with a node kind and a leaf kind that no API version has.
fn with_new_kinds(operator: &str) -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor(vec![Dim::Int(4)], DType::F32));
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let payload = b.string("payload");
    b.begin(NodeSpec::new(kind::WHILE).flags(flag::IMPURE), &[x], None);
    let inner = b.node(NodeSpec::new(A_NODE_KIND).ty(ty), &[x, payload], Some("odd"));
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

/// Returns an engine with the frozen plugin and the current operators.
fn engine() -> Engine {
    let text = "[[plugin]]\ncrate = \"tests/evolution/plugin-1.0\"\n[[plugin]]\ncrate = \"plugins/relax-ops\"\n";
    let manifest = Manifest::parse(&root().join("evolution.toml"), text).expect("a manifest");
    Engine::new(&manifest).expect("both plugins are listed")
}

/// Calls the pass without verifying its result. A run would reject the result, because kinds of vendors cannot be
/// printed.
#[test]
fn a_frozen_plugin_walks_and_rewrites_what_it_does_not_know() {
    let engine = engine();
    let (_, info) = engine.registry().passes().find(|(_, pass)| pass.name == "frozen.Count").expect("is listed");
    assert!(!info.sequential, "a fact that is left out of its metadata");
    let files = engine.registry().owners().filter_map(|(_, owner)| owner.file.clone());
    let plugins = files.map(|file| loader::list(&file, None, None).expect("is listed"));
    let listed = plugins.into_iter().find(|listed| listed.meta.passes.iter().any(|pass| pass.name == "frozen.Count"));
    let listed = listed.expect("the frozen plugin");
    let plugin = loader::open(&listed).expect("opens");
    let relu = with_new_kinds("relax.nn.relu");
    let other = with_new_kinds("relax.exp");
    let module = Module::new([("main", relu.clone()), ("other", other.clone())]);
    let host = Host { pass: "frozen.Count", ..Host::default() };
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
    let result = run("frozen.Count", &run("frozen.TanhForRelu", &run("frozen.Count", &module)));

    let operands: usize = module.functions().map(|(_, body)| body.raw().operands().len()).sum();
    let nodes: usize = module.functions().map(|(_, body)| body.raw().nodes().len()).sum();
    let expected = format!("{nodes} nodes, {operands} operands, unknown kinds: 2 nodes, 2 leaves");
    let said: Vec<String> = host.told.take().into_iter().map(|(_, _, message)| message).collect();
    assert_eq!(said, [expected.as_str(); 2], "the walk reaches everything");

    let new = result.get("main").expect("is there");
    assert!(new.structural_eq(&with_new_kinds("relax.tanh")), "only the operator differs");
    let odd = new.values().find(|value| value.kind() == A_NODE_KIND).expect("is there");
    assert_eq!(odd.operand(1).and_then(|leaf| leaf.leaf()).map(|leaf| leaf.kind), Some(A_LEAF_KIND));
    assert!(new.values().any(|value| value.kind() == kind::WHILE));
    assert!(result.get("other").expect("is there").same(&other), "what it did not change is the same handle");
}

/// Returns the bytes of the frozen plugin, and the position of the API version in its metadata.
fn library() -> (Vec<u8>, usize) {
    let engine = engine();
    let (pass, _) = engine.registry().passes().find(|(_, pass)| pass.name == "frozen.Count").expect("is listed");
    let file = engine.registry().pass_owner(pass).file.clone().expect("a library");
    let bytes = std::fs::read(file).expect("the library");
    // Tag and length of the field, then its text.
    let field = [&3u16.to_le_bytes()[..], &5u32.to_le_bytes(), b"1.0.0"].concat();
    let at = bytes.windows(field.len()).position(|found| found == field).expect("the version of the API");
    (bytes, at + 6)
}

#[test]
fn a_plugin_of_a_later_api_is_refused_and_told_what_to_upgrade() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bytes, at) = library();
    let mut listed = |version: &str| {
        bytes[at..at + 5].copy_from_slice(version.as_bytes());
        let file = folder.path().join("plugin.so");
        std::fs::write(&file, &bytes).expect("can be written");
        let listed = loader::list(&file, None, None).map(|listed| listed.meta.name);
        listed.map_err(|error| error.reports().remove(0).render(false))
    };
    assert_eq!(listed("1.0.0").expect("fits"), "plugin-of-api-1.0");
    assert_eq!(listed("1.0.9").expect("the patch number has no meaning"), "plugin-of-api-1.0");
    let [newer, older] =
        ["upgrade passhost, or use an older build of the plugin", "upgrade the plugin: rebuild it against"];
    for (version, help) in [("1.9.0", newer), ("2.0.0", newer), ("0.3.0", older)] {
        let report = listed(version).expect_err("is refused");
        assert!(report.contains(&format!("was built against plugin API {version}, but this host has 1.")), "{report}");
        assert!(report.contains(help), "{report}");
    }
}

/// The frozen plugin never changes, and hosts of every version 1.x load it.
#[test]
fn the_frozen_plugin_has_the_fingerprint_of_1_0() {
    let of_version = fingerprint(&"1.0.0".parse().expect("a version")).expect("every host of 1.x has it");
    let digits = format!("{of_version:016x}");
    let groups: Vec<&str> = (0..4).map(|i| &digits[i * 4..i * 4 + 4]).collect();
    let expected = format!("pub const FINGERPRINT: u64 = 0x{};", groups.join("_"));
    let text = std::fs::read_to_string(root().join("tests/evolution/plugin-1.0/src/records.rs")).expect("the records");
    let found = text.lines().find(|line| line.starts_with("pub const FINGERPRINT")).expect("the fingerprint");
    assert_eq!(found, expected, "the records or the contract of 1.0 changed: 1.x only adds to them");
}
