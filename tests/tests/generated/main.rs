//! Tests properties that hold for any module, on generated modules (`tests/src/generate.rs`).
#![forbid(unsafe_code)]

mod between;
mod carried;
mod faults;
mod forms;
mod identity;
mod in_place;
mod limits;
mod normal;
mod passes;
mod patterns;
mod rebound;
mod simple;
mod text;
mod visits;

use passhost_tests::engine;
use passhost_tests::generate::{Choices, module};
use plugin_api::prelude::*;
use proptest::prelude::*;

/// Returns a strategy for choice bytes: fewer and smaller bytes give smaller modules.
fn choices() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..500)
}

/// Returns the module for these choices.
fn made(bytes: &[u8]) -> Module {
    module(&Choices::new(bytes), engine())
}

/// Returns the number of cases of each property; `PROPTEST_CASES` overrides it.
fn cases(default: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(default),
        max_shrink_iters: 40_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Returns a module as text, for messages.
fn shown(module: &Module) -> String {
    script::print(module, engine()).expect("the module can be printed")
}

/// Returns a module as text without the metadata, for messages.
fn brief(module: &Module) -> String {
    let text = shown(module);
    text.split_once("\"\"\")\n").map_or(text.clone(), |(_, rest)| rest.to_string())
}

#[test]
fn modules_have_everything() {
    use passhost_tests::generate::bytes_of;
    use plugin_api::ir::records::{attr, kind, leaf, prim, tykind};
    use plugin_api::scalar::PrimOp;
    let mut found = [const { std::collections::BTreeSet::new() }; 5];
    for seed in 0..400 {
        for (_, body) in made(&bytes_of(seed, 500)).functions() {
            let raw = body.raw();
            found[0].extend(raw.nodes().iter().map(|rec| rec.kind));
            found[1].extend(raw.leaves().iter().map(|rec| rec.kind));
            found[2].extend(raw.types().iter().map(|rec| rec.kind));
            found[3].extend(raw.prims().iter().map(|rec| rec.op));
            found[3].extend(raw.nodes().iter().filter(|rec| rec.kind == kind::ARITH).map(|rec| rec.a as u16));
            found[4].extend(raw.attrs().iter().map(|rec| rec.kind));
        }
    }
    let missing = |found: &std::collections::BTreeSet<u16>, all: &mut dyn Iterator<Item = u16>| {
        all.filter(|wanted| !found.contains(wanted)).collect::<Vec<_>>()
    };
    // Blocks inside an expression have no TVM text; the attributes of a module are a separate body.
    let relax = (kind::FUNC..=kind::EXTERN).filter(|kind| *kind != kind::SEQ);
    assert_eq!(missing(&found[0], &mut relax.chain(kind::PRIM_FUNC..=kind::COMBINER)), [0u16; 0]);
    assert_eq!(missing(&found[1], &mut (leaf::OP..=leaf::TYPE)), [0u16; 0]);
    assert_eq!(missing(&found[2], &mut (tykind::OBJECT..=tykind::POINTER)), [0u16; 0]);
    assert_eq!(
        missing(&found[3], &mut (prim::INT..=prim::FLOAT).chain(PrimOp::ALL.iter().map(|op| op.code()))),
        [0u16; 0]
    );
    assert_eq!(
        missing(&found[4], &mut [attr::BOOL, attr::INT, attr::FLOAT, attr::STR, attr::LIST, attr::DICT].into_iter()),
        [0u16; 0]
    );
}
