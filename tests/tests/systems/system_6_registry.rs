//! Tests the registry and `GetPass(name)`, and that required passes are resolved by name.

use super::*;
use passhost::{Sequential, get_pass, register_pass};

/// Tests row 2 of the planner.
#[test]
fn row_02_a_pass_alone_is_planned_like_a_sequential_of_one() {
    let log = Log::default();
    let engine = engine([noted("t.A", 3, &[], &log), noted("t.B", 0, &["t.A"], &log), noted("t.C", 0, &["t.B"], &log)]);
    let (context, module) = (PassContext::default(), module(&engine, &["main"]));
    let c = pass(&engine, "t.C");
    let lines = |pass: &Pass| {
        let plan = pass.plan(&context).expect("a plan");
        plan.lines(engine.registry()).into_iter().map(|line| (line.text, line.reason)).collect::<Vec<_>>()
    };
    let alone = lines(&c);
    let reasons = [
        "required by t.B (host), unless still valid, although opt_level 3 > 2",
        "required by t.C (host), unless still valid",
    ];
    assert_eq!(alone.iter().map(|(_, reason)| reason.as_str()).collect::<Vec<_>>(), [reasons[0], reasons[1], "asked"]);
    c.run(&module).expect("runs");
    assert_eq!(log.take(), "t.A t.B t.C");
    let sequential = Sequential::new([c]).pass(&engine);
    sequential.run(&module).expect("runs");
    assert_eq!(log.take(), "t.A t.B t.C");
}

/// Tests row 8 of the planner.
#[test]
fn row_08_a_pass_made_at_run_time_is_found_by_name() {
    let log = Log::default();
    register_pass(noted("rt.User", 0, &["rt.Late"], &log)).expect("a new name");
    let module = module(&engine([]), &["main"]);
    let user = get_pass("rt.User").expect("it is registered");
    let error = user.run(&module).expect_err("nobody has it yet").to_string();
    assert_eq!(error, "pass `rt.User` (host) requires `rt.Late`, which no listed plugin contributes");
    register_pass(noted("rt.Late", 0, &[], &log)).expect("a new name");
    get_pass("User").expect("it is registered").run(&module).expect("runs");
    assert_eq!(log.take(), "rt.Late rt.User");
    // Tests row 11 of the planner, for passes without a file.
    let error = register_pass(noted("rt.Late", 0, &[], &log)).expect_err("the name is taken").to_string();
    assert!(error.starts_with("two plugins have the pass `rt.Late`: `host` and `host`"), "{error}");
    let error = get_pass("rt.Usr").expect_err("it is misspelt").to_string();
    assert_eq!(error, "unknown pass `rt.Usr`; did you mean `rt.User`?");
}

/// Tests row 12 of the planner.
#[test]
#[allow(clippy::panic, reason = "the pass is there for it")]
fn row_12_a_pass_that_fails_or_panics_is_named_and_the_module_unharmed() {
    let panics = create_function_pass(info("t.Panics", 0, &[]), |_, _| panic!("lost its way"));
    let engine = engine([failing("t.Fails"), panics]);
    let before = module(&engine, &["main"]);
    let printed = script::print(&before, &*engine).expect("the module can be printed");
    let text = shown(&pass(&engine, "t.Fails").run(&before).expect_err("it fails"));
    assert!(text.contains("step 1, pass `t.Fails` of plugin `host`: does not like it"), "{text}");
    assert!(text.contains("in function `main`") && text.contains("lv") && text.contains("^^"), "{text}");
    let text = shown(&pass(&engine, "t.Panics").run(&before).expect_err("it panics"));
    assert!(text.contains("step 1, pass `t.Panics` of plugin `host`: panicked: lost its way"), "{text}");
    assert!(text.contains("in function `main`"), "{text}");
    assert_eq!(script::print(&before, &*engine).expect("the module can be printed"), printed);
}

#[test]
fn what_cannot_be_added_is_told() {
    let mut engine = Engine::default();
    let nothing = |info: PassInfo| create_module_pass(info, |module, _| Ok(module.clone()));
    let error = engine.add_pass(nothing(PassInfo::new("Short"))).expect_err("no full name").to_string();
    assert_eq!(error, "`host` has a pass `Short`; the name of a pass must be `namespace.Name`");
}
