//! Tests the built-in instruments: timing, print IR before, print IR after.

use super::*;
use passhost::instruments::print_ir::{Passes, PrintIr, Printed};
use passhost::instruments::timing::Timing;

#[test]
fn timing_knows_each_pass_also_after_a_failure() {
    let log = Log::default();
    let engine = engine([noted("t.A", 0, &[], &log), failing("t.Fails")]);
    let module = module(&engine, &["main"]);
    let timing = Timing::new();
    let context = PassContext::builder().instrument(Instrument::clock("timing", timing.instrument())).build(&engine);
    let scope = context.expect("a context").enter().expect("enters");
    pass(&engine, "t.A").run(&module).expect("runs");
    pass(&engine, "t.Fails").run(&module).expect_err("it fails");
    scope.exit().expect("leaves");
    let spans = timing.spans(&[]);
    let spans: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.depth, span.failed)).collect();
    assert_eq!(spans, [("total", 0, false), ("t.A", 1, false), ("t.Fails", 1, true)]);
}

/// A library does not print by itself: the output of passes goes where the program directs it.
#[test]
fn what_passes_print_goes_to_the_program() {
    let info = info("t.Shows", 0, &[]);
    let shows = passhost::create_module_pass(info, |module, ctx| {
        ctx.show_module(module, "here")?;
        Ok(module.clone())
    });
    let (engine, text) = (engine([shows]), Log::default());
    let out = text.clone();
    engine.prints_to(move |text| out.add(text));
    let module = module(&engine, &["main"]);
    pass(&engine, "t.Shows").run(&module).expect("runs");
    assert_eq!(
        text.take(),
        format!("# t.Shows: here\n{}\n", script::print(&module, &*engine).expect("the module can be printed"))
    );
}

#[test]
fn the_ir_is_printed_before_and_after_passes() {
    let log = Log::default();
    let engine = engine([noted("t.A", 0, &[], &log), failing("t.Fails")]);
    let module = module(&engine, &["main"]);
    let (text, printed) = (Log::default(), Printed { before: Passes::All, after: Passes::All, ..Printed::default() });
    let out = text.clone();
    let print = PrintIr::new(printed, Arc::clone(&engine) as _, Box::new(move |text| out.add(text)));
    let context = PassContext::builder().instrument(Instrument::new("print", Box::new(print))).build(&engine);
    let context = context.expect("a context");
    pass(&engine, "t.A").run_in(&module, &context).expect("runs");
    let ir = script::print(&module, &*engine).expect("the module can be printed");
    assert_eq!(text.take(), format!("# before step 1: t.A (host)\n{ir}\n # after step 1: t.A (host)\n{ir}\n"));
    pass(&engine, "t.Fails").run_in(&module, &context).expect_err("it fails");
    assert!(text.take().ends_with("# failed in step 1: t.Fails (host)\n# does not like it\n\n"));
}
