//! Tests `PassInstrument`: call order, behaviour on failure, nested contexts, `override_instruments`.

use super::*;
use passhost::{Runner, Sequential};
use registry::Pipeline;

#[test]
fn all_are_called_in_order_and_exit_is_not_reversed() {
    let log = Log::default();
    let engine = engine(["t.X", "t.Y"].map(|name| noted(name, 0, &[], &log)));
    let context = watched(&engine, &[("a", ""), ("b", "")], &log);
    let both = Sequential::new(["t.X", "t.Y"].map(|name| pass(&engine, name))).pass(&engine);
    both.run_in(&module(&engine, &["main"]), &context).expect("runs");
    let around = |pass: &str, inside: &str| {
        format!(
            "a.should:{pass} b.should:{pass} a.before:{pass} b.before:{pass} {inside} a.after:{pass} b.after:{pass}"
        )
    };
    // A Sequential is a pass, too.
    let both = around("Sequential", &[around("X", "t.X"), around("Y", "t.Y")].join(" "));
    assert_eq!(log.take(), format!("a.enter b.enter {both} a.exit b.exit"));
}

#[test]
fn a_context_that_is_entered_is_not_entered_again_by_a_run() {
    let log = Log::default();
    let engine = engine([noted("t.X", 0, &[], &log)]);
    let module = module(&engine, &["main"]);
    let x = pass(&engine, "t.X");
    let context = watched(&engine, &[("a", "")], &log);
    let run = "a.should:X a.before:X t.X a.after:X";
    let scope = context.enter().expect("enters");
    x.run(&module).expect("runs");
    x.run_in(&module, &context).expect("runs");
    let again = context.enter().expect("enters");
    again.exit().expect("leaves");
    scope.exit().expect("leaves");
    assert_eq!(log.take(), format!("a.enter {run} {run} a.exit"));
    // The context can be used again, which enters the instrument again.
    x.run_in(&module, &context).expect("runs");
    assert_eq!(log.take(), format!("a.enter {run} a.exit"));
}

#[test]
fn a_pass_can_run_passes_in_a_context_of_its_own() {
    let log = Log::default();
    let inner_engine = engine([noted("t.Inner", 0, &[], &log)]);
    let (shared, note) = (Arc::clone(&inner_engine), log.clone());
    let outer = create_module_pass(info("t.Outer", 0, &[]), move |module, _| {
        let context = watched(&shared, &[("inner", "")], &note);
        let after = pass(&shared, "t.Inner").run_in(module, &context);
        let after = after.map_err(|error| PassError::new(error.to_string()))?;
        // Without its own context, it is observed by the current context.
        pass(&shared, "t.Inner").run(&after).map_err(|error| PassError::new(error.to_string()))
    });
    let engine = engine([outer]);
    let context = watched(&engine, &[("outer", "")], &log);
    pass(&engine, "t.Outer").run_in(&module(&engine, &["main"]), &context).expect("runs");
    assert_eq!(
        log.take(),
        "outer.enter outer.should:Outer outer.before:Outer \
         inner.enter inner.should:Inner inner.before:Inner t.Inner inner.after:Inner inner.exit \
         outer.should:Inner outer.before:Inner t.Inner outer.after:Inner \
         outer.after:Outer outer.exit"
    );
}

/// Runs a pass when it is called.
struct Runs(Pass);

impl PassInstrument for Runs {
    fn run_before(&mut self, module: &Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        self.0.run(module).map(drop).map_err(|error| PassError::new(error.to_string()))
    }
}

#[test]
fn an_instrument_that_runs_a_pass_where_it_watches_fails() {
    let log = Log::default();
    let engine = engine([noted("t.A", 0, &[], &log)]);
    let runs = Instrument::new("runs", Box::new(Runs(pass(&engine, "t.A"))));
    let context = PassContext::builder().instrument(runs).build(&engine).expect("a context");
    let error = pass(&engine, "t.A").run_in(&module(&engine, &["main"]), &context).expect_err("it fails");
    assert!(shown(&error).contains("an instrument runs a pass in the context that it observes"), "{}", shown(&error));
    assert_eq!(log.take(), "");
}

/// A failed run inside another run does not affect the outer run.
#[test]
fn a_run_inside_another_leaves_its_ways() {
    let log = Log::default();
    let inner_engine = engine([noted("t.Inner", 0, &[], &log)]);
    let shared = Arc::clone(&inner_engine);
    let outer = create_module_pass(info("t.Outer", 0, &[]), move |module, _| {
        pass(&shared, "t.Inner").run(module).map_err(|error| PassError::new(error.to_string()))
    });
    let engine = engine([outer, noted("t.Last", 0, &[], &log)]);
    let fails = Instrument::new("fails", Box::new(FailsAfter("t.Last")));
    let context = PassContext::builder().instrument(fails).build(&engine).expect("a context");
    let plan = context.plan(Pipeline::parse("t.Outer,t.Last,t.Last").expect("a pipeline"), &engine).expect("a plan");
    let report = Runner::in_context(&engine, &context).keep_going(true).run(&plan, module(&engine, &["main"]));
    let report = report.expect("runs");
    assert!(report.error.is_none(), "{:?}", report.error);
    assert_eq!(report.failures.len(), 1);
    assert_eq!(log.take(), "t.Inner t.Last t.Last");
}

/// Fails after one pass.
struct FailsAfter(&'static str);

impl PassInstrument for FailsAfter {
    fn run_after(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        if pass.name == self.0 { Err(PassError::new("no")) } else { Ok(()) }
    }
}

/// Tests row 17 of the planner: the error names the failing instrument, and all entered instruments are exited.
#[test]
fn row_17_a_failing_instrument_is_named() {
    let log = Log::default();
    let engine = engine([noted("t.X", 0, &[], &log)]);
    let before = module(&engine, &["main"]);
    let run = |fails: &'static str| {
        let context = watched(&engine, &[("a", ""), ("b", fails), ("c", "")], &log);
        let error = pass(&engine, "t.X").run_in(&before, &context).expect_err("an instrument fails").to_string();
        (error, log.take())
    };
    let all = |event: &str| format!("a.{event} b.{event} c.{event}");
    let (enter, should) = (all("enter"), all("should:X"));
    let (error, calls) = run("enter");
    assert_eq!(error, "instrument `b` of plugin `host`, enter: no");
    assert_eq!(calls, "a.enter b.enter a.exit");
    let (error, calls) = run("should");
    assert_eq!(error, "instrument `b` of plugin `host`, should_run of step 1, pass `t.X`: no");
    assert_eq!(calls, format!("{enter} a.should:X b.should:X {}", all("exit")));
    let (error, calls) = run("before");
    assert_eq!(error, "instrument `b` of plugin `host`, run_before of step 1, pass `t.X`: no");
    assert_eq!(calls, format!("{enter} {should} a.before:X b.before:X a.failed:X {}", all("exit")));
    let (error, calls) = run("after");
    assert_eq!(error, "instrument `b` of plugin `host`, run_after of step 1, pass `t.X`: no");
    assert_eq!(calls, format!("{enter} {should} {} t.X {} {}", all("before:X"), all("after:X"), all("exit")));
    let (error, calls) = run("exit");
    assert_eq!(error, "instrument `b` of plugin `host`, exit: no");
    assert_eq!(calls, format!("{enter} {should} {} t.X {} a.exit b.exit", all("before:X"), all("after:X")));
}

#[test]
fn a_context_whose_instrument_cannot_be_entered_is_not_entered() {
    let log = Log::default();
    let engine = engine([noted("t.X", 0, &[], &log)]);
    let context = watched(&engine, &[("a", ""), ("b", "enter")], &log);
    context.enter().map(|_| ()).expect_err("b fails");
    assert!(!PassContext::current().same(&context));
    assert_eq!(log.take(), "a.enter b.enter a.exit");
    // Its list of instruments is now empty.
    pass(&engine, "t.X").run_in(&module(&engine, &["main"]), &context).expect("runs");
    assert_eq!(log.take(), "t.X");
}

#[test]
fn a_veto_stops_a_pass_but_not_one_that_the_context_requires() {
    let log = Log::default();
    let engine = engine([noted("t.Vetoed", 0, &[], &log), noted("t.User", 0, &["t.Vetoed"], &log)]);
    let module = module(&engine, &["main"]);
    let report = pass(&engine, "t.User").report_in(&module, &watched(&engine, &[("a", "")], &log)).expect("runs");
    assert_eq!(report.warnings, ["`t.User` is skipped because it needs `t.Vetoed`, vetoed by a"]);
    assert_eq!(log.take(), "a.enter a.should:Vetoed a.exit");
    let context = PassContext::builder().require(["t.Vetoed"]).instrument(watcher("a", "", &log)).build(&engine);
    pass(&engine, "t.Vetoed").run_in(&module, &context.expect("a context")).expect("runs");
    assert_eq!(log.take(), "a.enter a.before:Vetoed t.Vetoed a.after:Vetoed a.exit");
}

#[test]
fn instruments_can_be_replaced_between_passes() {
    let log = Log::default();
    let engine = engine([noted("t.X", 0, &[], &log)]);
    let context = watched(&engine, &[("a", ""), ("b", "")], &log);
    // Instruments that were not entered are not exited.
    context.override_instruments(vec![watcher("c", "", &log)]).expect("replaced");
    assert_eq!(log.take(), "");
    let scope = context.enter().expect("enters");
    context.override_instruments(vec![watcher("d", "", &log), watcher("e", "", &log)]).expect("replaced");
    assert_eq!(log.take(), "c.enter c.exit d.enter e.enter");
    pass(&engine, "t.X").run(&module(&engine, &["main"])).expect("runs");
    scope.exit().expect("leaves");
    let x = "d.should:X e.should:X d.before:X e.before:X t.X d.after:X e.after:X";
    assert_eq!(log.take(), format!("{x} d.exit e.exit"));
    // An instrument that fails to exit prevents the new instruments from being entered.
    let failing = watched(&engine, &[("f", "exit")], &log);
    let scope = failing.enter().expect("enters");
    let error = failing.override_instruments(vec![watcher("g", "", &log)]).expect_err("f fails").to_string();
    assert_eq!(error, "instrument `f` of plugin `host`, exit: no");
    scope.exit().expect("no instrument remains that could fail");
    assert_eq!(log.take(), "f.enter f.exit");
}

#[test]
fn instruments_stay_while_a_pass_runs() {
    let made = create_module_pass(info("t.Replaces", 0, &[]), |module, _| {
        let replaced = PassContext::current().override_instruments(Vec::new());
        replaced.map_err(|error| PassError::new(error.to_string()))?;
        Ok(module.clone())
    });
    let (engine, log) = (engine([made]), Log::default());
    let context = watched(&engine, &[("a", "")], &log);
    let error = pass(&engine, "t.Replaces").run_in(&module(&engine, &["main"]), &context).expect_err("it is refused");
    assert!(
        error.to_string().ends_with("instruments cannot be replaced while a pass runs in their context"),
        "{error}"
    );
    assert_eq!(log.take(), "a.enter a.should:Replaces a.before:Replaces a.failed:Replaces a.exit");
}

/// Follows TVM: a pass called alone runs regardless of its level, a Sequential is observed, and no further events about a
/// pass follow its failure.
#[test]
fn a_context_as_tvm_has_it() {
    let log = Log::default();
    let engine = engine([noted("t.Y", 0, &[], &log), noted("t.X", 3, &["t.Y"], &log), failing("t.Bad")]);
    let module = module(&engine, &["main"]);
    let builder = PassContext::builder().tvm_compat(true).opt_level(0);
    let context = builder.instrument(watcher("a", "", &log)).build(&engine).expect("a context");
    let scope = context.enter().expect("enters");
    pass(&engine, "t.X").run(&module).expect("runs");
    assert_eq!(log.take(), "a.enter a.should:X a.before:X t.X a.after:X");
    let late = Sequential::new(["t.Y", "t.Bad"].map(|name| pass(&engine, name))).name("late").pass(&engine);
    late.run(&module).expect_err("t.Bad fails");
    let y = "a.should:Y a.before:Y t.Y a.after:Y";
    assert_eq!(log.take(), format!("a.should:late a.before:late {y} a.should:Bad a.before:Bad"));
    let inner = PassContext::builder().inherit().build(&engine).expect("a context");
    let own = PassContext::builder().inherit().tvm_compat(false).build(&engine).expect("a context");
    assert!(inner.tvm_compat() && !own.tvm_compat());
    // Names are not looked up.
    let unknown = || PassContext::builder().disable(["nobody"]);
    assert!(unknown().build(&engine).is_err() && unknown().tvm_compat(true).build(&engine).is_ok());
    // No pass runs after this.
    context.override_instruments(vec![watcher("b", "", &log)]).expect("they are replaced");
    scope.exit().expect("leaves");
    assert_eq!(log.take(), "a.exit b.enter b.exit");
}
