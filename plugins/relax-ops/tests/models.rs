//! Tests that the rules infer the types that the texts of whole models contain.

mod common;

use plugin_api::ir::{Expr, Module, Type};
use plugin_api::typing::operators::Infer;
use plugin_api::typing::relations::{Relation, relation};

/// Lists the bindings whose annotation differs from the type that the operator's rule infers.
fn contradictions(module: &Module, ops: &common::Ops) -> (usize, Vec<String>) {
    let (mut calls, mut wrong) = (0, Vec::new());
    for (name, body) in module.functions() {
        for value in body.values() {
            let Expr::Call(call) = value.view() else { continue };
            if !matches!(call.callee().view(), Expr::Op(_)) {
                continue;
            }
            calls += 1;
            let said: Type = value.ty().to_owned();
            let found = match ops.infer(call) {
                Ok(inferred) => inferred.ty,
                Err(error) => {
                    wrong.push(format!("{name}: {}: {error}", value.name().unwrap_or("_")));
                    continue;
                }
            };
            // With a less specific annotation, the call is unbound, and an alias of it has the annotation.
            if !value.is_bound() || relation(&said, &found) != Relation::Equal {
                let op = call.op().unwrap_or("?");
                wrong.push(format!("{name}: {} = {op}: {said:?} but {found:?}", value.name().unwrap_or("_")));
            }
        }
    }
    (calls, wrong)
}

/// `PASSHOST_MODELS` overrides the folder.
#[test]
fn annotations_of_the_models_are_inferred() {
    let folder = std::env::var("PASSHOST_MODELS");
    let folder = folder.unwrap_or_else(|_| format!("{}/../../tests/models", env!("CARGO_MANIFEST_DIR")));
    let ops = common::Ops::new();
    let mut models = 0;
    for entry in std::fs::read_dir(folder).expect("folder of the models").flatten() {
        let with_prim_funcs = |name: &str| name.contains(".fused") || name.contains(".legalized");
        if entry.path().extension().is_some_and(|ext| ext == "py")
            && !with_prim_funcs(&entry.file_name().to_string_lossy())
        {
            let text = std::fs::read_to_string(entry.path()).expect("a text file");
            let module = script::read(&text, &ops).unwrap_or_else(|error| panic!("{:?}: {error:?}", entry.path()));
            let (calls, wrong) = contradictions(&module, &ops);
            assert!(wrong.is_empty(), "{:?}, {} of {calls} calls:\n{}", entry.path(), wrong.len(), wrong.join("\n"));
            assert!(calls > 50, "{:?} has {calls} calls", entry.path());
            models += 1;
        }
    }
    assert!(models >= 3, "found {models} models");
}
