//! Tests that every operator documents its effect and type rule, with a correct example.

mod common;
#[path = "common/examples.rs"]
mod examples;

use common::Ops;
use examples::{Example, example};
use plugin_api::ir::Type;
use plugin_api::typing::operators::OpDecl;
use plugin_api::typing::relations::{Relation, relation};

/// Explains why the call of an example does not have the documented type.
fn fault(ops: &Ops, Example { params, call, ty }: &Example) -> Option<String> {
    let comma = if params.is_empty() { "" } else { ", " };
    let text = format!(
        "@I.ir_module
class Module:
    I.module_global_infos({{\"mesh\": [R.device_mesh((2,), I.Range(0, 2))], \"vdevice\": [I.vdevice(\"llvm\")]}})

    @T.prim_func
    def f(x: T.Buffer((2, 3), \"float32\"), y: T.Buffer((2, 3), \"float32\")):
        T.evaluate(0)

    @R.function
    def g(x: R.Tensor((2, 3), \"float32\")) -> R.Tensor((2, 3), \"float32\"):
        return x

    @R.function(pure=False)
    def main({params}{comma}expected: {ty}):
        cls = Module
        gv = {call}
        return gv
"
    );
    let module = match script::read(&text, ops) {
        Err(error) => return Some(format!("{error}")),
        Ok(module) => module,
    };
    let root = module.get("main")?.root().as_function()?;
    let found = root.result()?.ty().to_owned();
    let expected: Type = root.params().last()?.ty().to_owned();
    (relation(&expected, &found) != Relation::Equal).then(|| format!("the type is {found:?}"))
}

#[test]
fn examples_hold() {
    let ops = Ops::new();
    let wrong = |decl: &OpDecl| match example(decl) {
        Err(missing) => Some(format!("{} {missing}", decl.name)),
        Ok(example) => fault(&ops, &example).map(|why| format!("{}: {}\n    {why}", decl.name, example.call)),
    };
    let wrong: Vec<String> = relax_ops::OPERATORS.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{} operators:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_missing_is_found() {
    let Some(decl) = relax_ops::OPERATORS.iter().find(|decl| decl.name == "relax.max") else { panic!("no relax.max") };
    let of = |doc: &'static str| example(&OpDecl { doc, ..*decl });
    for doc in
        ["", "Largest.", "Largest.\n\n Type: that of `x`.", "Largest.\n\n Type: a.\n\n     R.min(x)\n     # R.Any"]
    {
        assert!(of(doc).is_err(), "{doc}");
    }
    let wrong =
        of("Largest.\n\n Type: a.\n\n     x: R.Tensor((2, 3), \"float32\")\n     R.max(x, axis=[1])\n     # R.Any");
    assert!(wrong.is_ok_and(|example| fault(&Ops::new(), &example).is_some()));
}
