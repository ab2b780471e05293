//! Tests `PassContext`: its contents; entering, leaving and nesting; and its visibility.

use super::*;
use passhost::Runner;
use plugin_api::declare::diagnostics::Severity;
use plugin_api::declare::pass::Ctx;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Returns a pass that records three contexts: the context that it receives, the current context, and the
/// context of the program.
fn seeing(name: &str, log: &Log) -> MadePass {
    let log = log.clone();
    create_function_pass(info(name, 0, &[]), move |body, ctx| {
        let (current, program) = (Ctx::current(), PassContext::current());
        log.add(format!("{}/{}/{}", ctx.opt_level(), current.opt_level(), program.opt_level()));
        let limit = |ctx: &Ctx| ctx.config("t.limit").map(|value| value.to_string()).unwrap_or_default();
        log.add(format!("{}/{}", limit(ctx), limit(&current)));
        Ok(body.clone())
    })
}

#[test]
fn the_default_context_has_opt_level_2_and_nothing_else() {
    let context = PassContext::current();
    assert_eq!((context.opt_level(), context.target(), context.config("t.limit")), (2, None, None));
    assert_eq!(context.required().chain(context.disabled()).count(), 0);
}

#[test]
fn a_pass_sees_the_context_in_which_it_runs() {
    let log = Log::default();
    let engine = engine([seeing("t.Sees", &log)]);
    let module = module(&engine, &["main"]);
    let sees = pass(&engine, "t.Sees");
    let context = PassContext::builder().opt_level(3).config("t.limit", OptionValue::Int(7)).build(&engine);
    let context = context.expect("a context");
    sees.run(&module).expect("runs");
    assert_eq!(log.take(), "2/2/2 4/4");
    sees.run_in(&module, &context).expect("runs");
    assert_eq!(log.take(), "3/3/3 7/7");
    let scope = context.enter().expect("enters");
    assert!(PassContext::current().same(&context));
    sees.run(&module).expect("runs");
    assert_eq!(log.take(), "3/3/3 7/7");
    scope.exit().expect("leaves");
    assert_eq!(PassContext::current().opt_level(), 2);
}

/// Tests row 15 of the planner.
#[test]
fn row_15_nested_contexts_inherit_nothing_unless_they_say_so() {
    let log = Log::default();
    let engine = engine([noted("t.A", 0, &[], &log)]);
    let outer = PassContext::builder().opt_level(3).disable(["t.A"]).config("t.limit", OptionValue::Int(9));
    let outer = outer.target("cuda").instrument(watcher("outer", "", &log)).build(&engine).expect("a context");
    let module = module(&engine, &["main"]);
    let scope = outer.enter().expect("enters");
    let fresh = PassContext::builder().build(&engine).expect("a context");
    assert_eq!((fresh.opt_level(), fresh.target(), fresh.config("t.limit")), (2, None, None));
    let heir = PassContext::builder().inherit().require(["t.A"]).instrument(watcher("inner", "", &log));
    let heir = heir.build(&engine).expect("a context");
    assert_eq!(heir.opt_level(), 3);
    assert_eq!(heir.target().map(ToString::to_string).as_deref(), Some("cuda"));
    assert_eq!(heir.config("t.limit"), Some(&OptionValue::Int(9)));
    assert_eq!(log.take(), "outer.enter");
    let a = pass(&engine, "t.A");
    a.run(&module).expect("skipped");
    assert_eq!(log.take(), "", "the outer context disables it");
    a.run_in(&module, &fresh).expect("runs");
    assert_eq!(log.take(), "t.A");
    // A pass that the inner context requires runs even if the outer context disables it, and instruments are not
    // consulted.
    a.run_in(&module, &heir).expect("runs");
    assert_eq!(
        log.take(),
        "inner.enter outer.before:A inner.before:A t.A outer.after:A inner.after:A inner.exit",
        "the outer instrument is not entered again"
    );
    scope.exit().expect("leaves");
    assert_eq!(log.take(), "outer.exit");
}

/// Tests row 16 of the planner.
#[test]
fn row_16_worker_threads_see_the_context_of_the_run() {
    let log = Log::default();
    let threads = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let (seen, slow) = (log.clone(), Arc::clone(&threads));
    let made = create_function_pass(info("t.Slow", 0, &[]), move |body, ctx| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        slow.lock().expect("no panic").insert(std::thread::current().id());
        let program = PassContext::current();
        let limit = ctx.config("t.limit").map(|value| value.to_string()).unwrap_or_default();
        seen.add(format!("{}/{}/{limit}", Ctx::current().opt_level(), program.opt_level()));
        Ok(body.clone())
    });
    let engine = engine([made]);
    let names: Vec<String> = (0..40).map(|at| format!("f{at:02}")).collect();
    let module = module(&engine, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let context = PassContext::builder().opt_level(1).config("t.limit", OptionValue::Int(5)).build(&engine);
    let context = context.expect("a context");
    let plan = pass(&engine, "t.Slow").plan(&context).expect("a plan");
    passhost::Runner::in_context(&engine, &context).jobs(4).run(&plan, module).expect("runs");
    assert_eq!(log.take(), vec!["1/1/5"; 40].join(" "));
    assert!(threads.lock().expect("no panic").len() > 1, "it ran on one thread only");
    // A thread of the program has its own context.
    let scope = context.enter().expect("enters");
    let other = std::thread::spawn(|| PassContext::current().opt_level()).join().expect("no panic");
    assert_eq!(other, 2);
    scope.exit().expect("leaves");
}

#[test]
fn the_target_is_that_of_the_function_else_of_the_run() {
    let log = Log::default();
    let seen = log.clone();
    let by_function = create_function_pass(info("t.Target", 0, &[]), move |body, ctx| {
        seen.add(format!("{}={}", ctx.function_name().unwrap_or_default(), ctx.target().unwrap_or_default()));
        Ok(body.clone())
    });
    let seen = log.clone();
    let by_module = create_module_pass(info("t.Targets", 0, &[]), move |module, ctx| {
        seen.add(ctx.target().unwrap_or_default());
        module.functions().for_each(|(_, body)| seen.add(ctx.target_of(body).unwrap_or_default()));
        Ok(module.clone())
    });
    let engine = engine([by_function, by_module]);
    let function = |name: &str, attrs: &str| {
        format!("    @R.function\n    def {name}(x: {TENSOR}) -> {TENSOR}:\n{attrs}        return x\n")
    };
    let module = read(
        &engine,
        &[
            function("a", ""),
            function("b", "        R.func_attr({\"target\": \"cuda\"})\n"),
            function("c", "        R.func_attr({\"target\": T.target({\"kind\": \"llvm\", \"keys\": [\"cpu\"]})})\n"),
        ]
        .join("\n"),
    );
    let context = PassContext::builder().target("opencl").build(&engine).expect("a context");
    pass(&engine, "t.Target").run_in(&module, &context).expect("runs");
    assert_eq!(log.take(), "a=opencl b=cuda c={\"keys\": [\"cpu\"], \"kind\": \"llvm\"}");
    pass(&engine, "t.Targets").run_in(&module, &context).expect("runs");
    assert_eq!(log.take(), "opencl opencl cuda {\"keys\": [\"cpu\"], \"kind\": \"llvm\"}");
    pass(&engine, "t.Target").run(&module).expect("runs");
    assert_eq!(log.take(), "a= b=cuda c={\"keys\": [\"cpu\"], \"kind\": \"llvm\"}");
    let error = PassContext::builder().target("{\"keys\": []}").build(&engine).expect_err("no kind").to_string();
    assert_eq!(error, "target `{\"keys\": []}` has neither a `kind` nor a `tag`");
}

#[test]
fn what_passes_report_is_left_in_the_context() {
    let made = create_function_pass(info("t.Warns", 0, &[]), |body, ctx| {
        body.bindings().take(1).for_each(|value| ctx.diagnostics().warning(value, "odd"));
        Ok(body.clone())
    });
    let engine = engine([made]);
    let context = PassContext::builder().build(&engine).expect("a context");
    pass(&engine, "t.Warns").run_in(&module(&engine, &["main"]), &context).expect("runs");
    let said = context.take_diagnostics();
    let said: Vec<_> = said.iter().map(|said| (said.pass.as_str(), said.function.as_deref(), &*said.message)).collect();
    assert_eq!(said, [("t.Warns", Some("main"), "odd")]);
    assert!(context.take_diagnostics().is_empty());
}

/// The result of the pass is discarded, and its reports are delivered.
#[test]
fn a_pass_that_reports_an_error_fails() {
    let made = create_module_pass(info("t.Errs", 0, &[]), |module, ctx| {
        ctx.diagnostics().report(Severity::Error, None, "wrong");
        ctx.diagnostics().in_function("main").report(Severity::Error, None, "wrong, too");
        Ok(module.clone())
    });
    let log = Log::default();
    let engine = engine([made]);
    let context = watched(&engine, &[("a", "")], &log);
    let error = pass(&engine, "t.Errs").run_in(&module(&engine, &["main"]), &context).expect_err("it fails");
    assert!(error.to_string().contains("reported 2 errors"), "{error}");
    assert_eq!(context.take_diagnostics().len(), 2);
    assert_eq!(log.take(), "a.enter a.should:Errs a.before:Errs a.failed:Errs a.exit");
}

/// The outermost context belongs to the thread, as in TVM.
#[test]
fn what_is_reported_outside_of_contexts_is_kept() {
    let made = create_module_pass(info("t.Says", 0, &[]), |module, ctx| {
        ctx.diagnostics().report(Severity::Remark, None, "hello");
        Ok(module.clone())
    });
    let engine = engine([made]);
    assert!(PassContext::current().same(&PassContext::current()));
    pass(&engine, "t.Says").run(&module(&engine, &["main"])).expect("runs");
    assert_eq!(PassContext::current().take_diagnostics().len(), 1);
}

/// The warnings of a plan are part of the report.
#[test]
fn an_embedder_is_warned() {
    let log = Log::default();
    let engine = engine([noted("t.High", 4, &[], &log)]);
    let report = pass(&engine, "t.High").report_in(&module(&engine, &["main"]), &PassContext::current());
    let warnings = report.expect("runs").warnings.join("; ");
    assert!(warnings.contains("t.High") && log.take().is_empty(), "{warnings}");
}

/// The same limit stops a pass that runs itself and a program that enters contexts without leaving them.
#[test]
fn a_pass_that_runs_itself_without_end_is_stopped() {
    let shared: Arc<OnceLock<Arc<Engine>>> = Arc::default();
    let own = Arc::clone(&shared);
    let made = create_module_pass(info("t.Itself", 0, &[]), move |module, _| {
        let engine = own.get().expect("it was made");
        pass(engine, "t.Itself").run(module).map_err(|error| PassError::new(error.to_string()))
    });
    let engine = shared.get_or_init(|| engine([made]));
    let error = pass(engine, "t.Itself").run(&module(engine, &["main"])).expect_err("it is stopped").to_string();
    let limit = "runs and contexts are nested more than 32 deep";
    assert!(error.contains(limit), "{error}");
    // Each run ended and exited its context, so all 32 contexts can be entered, but a run inside them cannot.
    let entered: Vec<_> = (0..32).map(|_| PassContext::current().enter().expect("all were left")).collect();
    assert_eq!(PassContext::current().enter().err().expect("one too many").to_string(), limit);
    assert_eq!(pass(engine, "t.Itself").run(&module(engine, &["main"])).expect_err("too deep").to_string(), limit);
    entered.into_iter().rev().for_each(|scope| scope.exit().expect("leaves"));
    PassContext::current().enter().expect("all were left again").exit().expect("leaves");
}

#[test]
fn a_plan_is_of_its_engine() {
    let log = Log::default();
    let (one, other) = (engine([noted("t.A", 0, &[], &log)]), engine([noted("t.B", 0, &[], &log)]));
    let plan = pass(&one, "t.A").plan(&PassContext::current()).expect("a plan");
    let error = Runner::new(&other, BTreeMap::new()).run(&plan, module(&one, &["main"])).expect_err("another engine");
    assert_eq!(error.to_string(), "the plan was made for an engine with different passes");
    Runner::new(&one, BTreeMap::new()).run(&plan, module(&one, &["main"])).expect("its engine");
    assert_eq!(log.take(), "t.A");
}

#[test]
fn scopes_are_left_in_reverse_order() {
    let log = Log::default();
    let engine = engine([]);
    let (a, b) = (watched(&engine, &[("a", "")], &log), watched(&engine, &[("b", "")], &log));
    let (outer, inner) = (a.enter().expect("enters"), b.enter().expect("enters"));
    let error = outer.exit().expect_err("the other is still entered").to_string();
    assert_eq!(error, "a context was left before a context inside it");
    assert!(PassContext::current().same(&b));
    drop(inner);
    assert_eq!(log.take(), "a.enter b.enter a.exit b.exit");
}

#[test]
fn a_manifest_can_name_the_target() {
    let read = |text: &str| passhost::Manifest::parse(std::path::Path::new("passes.toml"), text);
    let manifest = read("target = \"cuda\"\n[pipelines.late]\npasses = \"\"\ntarget = '{\"kind\": \"llvm\"}'\n");
    let manifest = manifest.expect("a manifest");
    let text = |target: &Option<passhost::Target>| target.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(text(&manifest.settings.target), "cuda");
    assert_eq!(text(&manifest.pipelines["late"].settings.target), "{\"kind\": \"llvm\"}");
    let error = read("target = \"a b\"\n").expect_err("no target").to_string();
    assert_eq!(error, "manifest passes.toml: target `a b` is neither a name nor a JSON object");
}

/// Values requested in an inner context come from the outer context, unless the inner context has its own.
#[test]
fn values_that_are_read_in_an_inner_context_are_read_in_the_outer_one() {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    fn runs_reads(name: &str, own: Option<i64>) -> MadePass {
        create_module_pass(info(name, 0, &[]), move |module, _| {
            let engine = ENGINE.get().expect("an engine");
            let mut inner = PassContext::builder().inherit();
            if let Some(own) = own {
                inner = inner.config("t.limit", OptionValue::Int(own));
            }
            let inner = inner.build(engine).map_err(|error| PassError::new(error.to_string()))?;
            pass(engine, "t.Reads").run_in(module, &inner).map_err(|error| PassError::new(error.to_string()))
        })
    }
    let reads = create_module_pass(info("t.Reads", 0, &[]), |module, ctx| {
        ctx.config("t.limit");
        Ok(module.clone())
    });
    let engine =
        ENGINE.get_or_init(|| engine([reads, runs_reads("t.Inherits", None), runs_reads("t.HasItsOwn", Some(2))]));
    let module = module(engine, &["main"]);
    let unread = |name: &str| {
        let context = PassContext::builder().config("t.limit", OptionValue::Int(7)).build(engine).expect("a context");
        let plan = pass(engine, name).plan(&context).expect("a plan");
        let report = Runner::in_context(engine, &context).run(&plan, module.clone()).expect("runs");
        assert!(report.error.is_none(), "{:?}", report.error);
        report.unread_config.join(" ")
    };
    assert_eq!(["t.Reads", "t.Inherits", "t.HasItsOwn"].map(unread), ["", "", "t.limit"]);
}
