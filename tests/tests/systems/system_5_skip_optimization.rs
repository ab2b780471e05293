//! Tests that function passes skip functions annotated with `SkipOptimization`.

use super::*;

#[test]
fn function_passes_leave_annotated_functions_alone() {
    let log = Log::default();
    let seen = log.clone();
    let made = create_function_pass(info("t.Names", 0, &[]), move |body, ctx| {
        seen.add(ctx.function_name().unwrap_or_default());
        Ok(body.clone())
    });
    let seen = log.clone();
    let all = create_module_pass(info("t.All", 0, &[]), move |module, _| {
        module.functions().for_each(|(name, _)| seen.add(name));
        Ok(module.clone())
    });
    let engine = engine([made, all]);
    let function = |name: &str, attrs: &str| {
        format!("    @R.function\n    def {name}(x: {TENSOR}) -> {TENSOR}:\n{attrs}        return x\n")
    };
    let skip = |value: u8| format!("        R.func_attr({{\"SkipOptimization\": {value}}})\n");
    let functions = [function("a", ""), function("b", &skip(1)), function("c", &skip(0))].join("\n");
    let module = read(&engine, &functions);
    pass(&engine, "t.Names").run(&module).expect("runs");
    assert_eq!(log.take(), "a c");
    pass(&engine, "t.All").run(&module).expect("runs");
    assert_eq!(log.take(), "a b c", "a module pass sees it");
}
