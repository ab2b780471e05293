//! Tests groups of bindings that cannot become functions.
#![forbid(unsafe_code)]

use plugin_api::ir::{AttrsId, BodyBuilder};
use plugin_api::prelude::*;
use plugin_api::rewrite::grouping::{Constants, GroupedFunctions, Groups};

/// `a`, `p` and `c`, each the exponential of the previous value; `p` is in a plain block between two dataflow blocks.
fn three_blocks() -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor([2, 3], DType::F32));
    let (x, exp) = (b.param("x", ty), b.op("relax.exp"));
    b.begin_dataflow();
    let a = b.call(exp, &[x], AttrsId::NONE, ty, false, Some("a"));
    b.end();
    b.begin_block();
    let p = b.call(exp, &[a], AttrsId::NONE, ty, false, Some("p"));
    b.end();
    b.begin_dataflow();
    let c = b.call(exp, &[p], AttrsId::NONE, ty, false, Some("c"));
    b.end();
    b.end_function(c, ty);
    b.finish().expect("a valid body")
}

fn grouped(body: &Body, names: &[&str]) -> Result<Module, PassError> {
    let module = Module::new([("main", body.clone())]);
    let mut groups = Groups::new(body);
    groups.add(names.iter().filter_map(|name| body.lookup_binding(name)), &[]);
    let mut grouped = GroupedFunctions::new(&module, Constants::Bound);
    grouped.make("main", &groups)?;
    Ok(grouped.finish())
}

#[test]
fn a_group_of_two_blocks_is_refused() {
    let error = grouped(&three_blocks(), &["a", "c"]).expect_err("two blocks");
    assert!(error.message.contains("bindings from two blocks"), "{error}");
}

#[test]
fn a_group_in_a_plain_block_stays() {
    let body = three_blocks();
    let module = grouped(&body, &["p"]).expect("nothing to do");
    assert!(module.get("main").expect("`main`").same(&body));
    assert_eq!(module.len(), 1);
}

#[test]
fn each_group_becomes_a_function() {
    let module = grouped(&three_blocks(), &["a"]).expect("one group");
    assert_eq!(module.functions().map(|(name, _)| name).collect::<Vec<_>>(), ["fused_relax_exp", "main"]);
}
