//! Tests module, function, dataflow-block and PrimFunc passes, and Sequential, which is itself a pass and nests.

use super::*;
use passhost::{Sequential, create_dataflow_block_pass, create_prim_func_pass};
use plugin_api::declare::pass::Ctx;
use plugin_api::ir::records::kind;
use plugin_api::ir::{Body, BodyBuilder, BodyKind, NodeSpec, Value};
use plugin_api::rewrite::Edit;

/// Returns an empty PrimFunc, created by hand.
fn prim_func() -> Body {
    let mut b = BodyBuilder::new();
    b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
    b.end();
    b.finish().expect("a body")
}

#[test]
fn each_pass_sees_what_it_works_on() {
    let log = Log::default();
    let note = |log: &Log| {
        let log = log.clone();
        move |body: &Body, ctx: &Ctx| {
            log.add(format!("{:?}:{}", body.kind(), ctx.function_name().unwrap_or_default()));
            Ok(body.clone())
        }
    };
    let (whole, blocks) = (log.clone(), log.clone());
    let engine = engine([
        create_module_pass(info("t.Module", 0, &[]), move |module, _| {
            whole.add(format!("{} functions", module.len()));
            Ok(module.clone())
        }),
        create_function_pass(info("t.Function", 0, &[]), note(&log)),
        create_prim_func_pass(info("t.PrimFunc", 0, &[]), note(&log)),
        create_dataflow_block_pass(info("t.Block", 0, &[]), move |_, block, ctx| {
            let n = block.region().bindings().count();
            blocks.add(format!("{n} bindings of {}", ctx.function_name().unwrap_or_default()));
            Ok(())
        }),
    ]);
    let mut edit = module(&engine, &["main"]).edit();
    edit.set("add", prim_func());
    let module = edit.finish();
    let run = |name: &str| {
        let after = pass(&engine, name).run(&module).expect("runs");
        assert!(after.same(&module), "{name}");
        log.take()
    };
    assert_eq!(run("t.Module"), "2 functions");
    assert_eq!(run("t.Function"), "Function:main");
    assert_eq!(run("t.PrimFunc"), "PrimFunc:add");
    assert_eq!(run("t.Block"), "2 bindings of main");
}

#[test]
fn a_sequential_is_a_pass_and_nests() {
    let log = Log::default();
    let engine = engine(["t.A", "t.B", "t.C", "t.D"].map(|name| noted(name, 0, &[], &log)));
    let module = module(&engine, &["main"]);
    let inner = Sequential::new([pass(&engine, "t.B")]).name("late").opt_level(3).required(["t.C"]).pass(&engine);
    let outer = Sequential::new([pass(&engine, "t.A"), inner, pass(&engine, "t.D")]).pass(&engine);
    assert_eq!(outer.to_string(), "Sequential[t.A,Sequential(name=late,opt_level=3,required=[t.C])[t.B],t.D]");
    outer.run(&module).expect("runs");
    assert_eq!(log.take(), "t.A t.D", "the inner one has opt_level 3");
    let context = PassContext::builder().opt_level(3).build(&engine).expect("a context");
    outer.run_in(&module, &context).expect("runs");
    assert_eq!(log.take(), "t.A t.C t.B t.D");
    let plan = outer.plan(&context).expect("a plan").render(engine.registry());
    assert_eq!(
        plan,
        "  1  Sequential  asked\n  2    t.A       part of Sequential\n  \
         3    t.C       required by late (the pipeline), unless still valid\n  4    late      part of Sequential\n  \
         5      t.B     part of late\n  6    t.D       part of Sequential\n"
    );
    let disabled = PassContext::builder().opt_level(3).disable(["t.C"]).build(&engine).expect("a context");
    let error = outer.run_in(&module, &disabled).expect_err("it is needed").to_string();
    assert_eq!(
        error,
        "`t.C` is disabled by the context, but `late` (the pipeline) requires it; enable it, or also disable `late`"
    );
    let missing = Sequential::new([pass(&engine, "t.A")]).required(["t.Z"]).pass(&engine);
    let error = missing.run(&module).expect_err("nobody has it").to_string();
    assert!(error.contains("requires `t.Z`, which no listed plugin contributes"), "{error}");
}

/// Tests row 14 of the planner.
#[test]
fn row_14_a_function_of_another_kind_is_an_error() {
    let prim = prim_func();
    assert_eq!(prim.kind(), BodyKind::PrimFunc);
    let engine = engine([create_function_pass(info("t.Other", 0, &[]), move |_, _| Ok(prim.clone()))]);
    let error = pass(&engine, "t.Other").run(&module(&engine, &["main"])).expect_err("another kind");
    let text = shown(&error);
    assert!(text.contains("step 1, pass `t.Other` of plugin `host`: returned a different kind of function"), "{text}");
    assert!(text.contains("in function `main`"), "{text}");
}

/// Tests row 13 of the planner.
#[test]
fn row_13_an_ill_formed_result_is_stopped_at_the_pass() {
    use plugin_api::ir::{DType, Type};
    let made = create_function_pass(info("t.WrongType", 0, &[]), |body, _| {
        let mut edit = body.edit();
        if let Some(value) = body.bindings().next() {
            let v = edit.v(value);
            edit.set_type(v, &Type::tensor([1i64, 2, 3], DType::F16));
        }
        Ok(edit.finish()?)
    });
    let engine = engine([made]);
    let before = module(&engine, &["main"]);
    let text = shown(&pass(&engine, "t.WrongType").run(&before).expect_err("ill-formed"));
    assert!(text.contains("step 1, pass `t.WrongType` of plugin `host`: returned an ill-formed module"), "{text}");
    assert!(text.contains("<the module that the pass returned>:") && text.contains("^^"), "{text}");
}

/// Runs a dataflow-block pass on `functions` and returns the host's report.
fn blocks(
    functions: &str,
    run: impl Fn(&mut Edit<'_>, Value<'_>) -> Result<(), PassError> + Send + Sync + 'static,
) -> Result<Module, Error> {
    let engine = engine([create_dataflow_block_pass(info("t.Blocks", 0, &[]), move |edit, block, _| run(edit, block))]);
    pass(&engine, "t.Blocks").run(&read(&engine, functions))
}

fn block_error(functions: &str, run: impl Fn(&mut Edit<'_>, Value<'_>) + Send + Sync + 'static) -> String {
    let result = blocks(functions, move |edit, block| {
        run(edit, block);
        Ok(())
    });
    result.map(|_| ()).expect_err("it is not left alone").to_string()
}

#[test]
fn a_dataflow_block_pass_leaves_alone_what_lives_outside_of_its_block() {
    let two = format!(
        "    @R.function\n    def main(x: {TENSOR}) -> {TENSOR}:\n        y: {TENSOR} = x\n        with R.dataflow():\n            \
         lv: {TENSOR} = y\n            gv: {TENSOR} = lv\n            hv: {TENSOR} = y\n            R.output(gv, hv)\n        \
         z: {TENSOR} = gv\n        return z\n"
    );
    let said = |what: &str| format!("step 1, pass `t.Blocks` of plugin `host`: {what}");
    // An inner variable may be removed.
    let after = blocks(&two, |edit, block| {
        let mut bindings = block.region().bindings();
        if let (Some(inner), Some(first)) = (bindings.next(), block.region().bindings().next()) {
            let with = first.operand(0).map(|operand| edit.v(operand));
            with.into_iter().for_each(|with| edit.replace(inner, with));
        }
        Ok(())
    });
    assert_eq!(after.expect("it is allowed").get("main").map(Body::n_bindings), Some(4));
    let dropped = block_error(&two, |edit, block| {
        block.region().bindings().nth(2).into_iter().for_each(|output| edit.remove(output));
    });
    assert_eq!(dropped, said("dropped `hv`, an output of a dataflow block, which is visible outside the block"));
    let outer = block_error(&two, |edit, _| {
        let body = edit.old();
        let mut outside = body.bindings().filter(|value| matches!(value.name(), Some("y" | "z")));
        if let (Some(y), Some(z)) = (outside.next(), outside.next()) {
            let (y, z) = (edit.v(y), edit.v(z));
            edit.set_operand(z, 0, y);
        }
    });
    assert_eq!(outer, said("rewrote `z`, which is outside the dataflow blocks"));
}

#[test]
fn a_dataflow_block_pass_leaves_symbolic_variables_alone() {
    let functions = format!(
        "    @R.function\n    def main(x: R.Tensor(ndim=1, dtype=\"float32\"), w: {TENSOR}) -> {TENSOR}:\n        \
         n = T.int64()\n        with R.dataflow():\n            \
         lv: R.Tensor((n,), dtype=\"float32\") = R.match_cast(x, R.Tensor((n,), dtype=\"float32\"))\n            \
         gv: {TENSOR} = w\n            R.output(gv)\n        return gv\n"
    );
    let error = block_error(&functions, |edit, block| {
        block.region().bindings().next().into_iter().for_each(|cast| edit.remove(cast));
    });
    assert_eq!(
        error,
        "step 1, pass `t.Blocks` of plugin `host`: dropped the symbolic variable `n`, which is defined outside the dataflow block"
    );
}
