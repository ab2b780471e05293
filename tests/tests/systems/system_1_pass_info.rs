//! Tests `PassInfo`: name, opt_level, required, traceable.

use super::*;

#[test]
fn a_pass_has_a_name_an_opt_level_and_what_it_requires() {
    let log = Log::default();
    let facts = PassInfo { traceable: true, ..info("t.B", 1, &["t.A (>= 0.0)"]) };
    let engine = engine([noted("t.A", 0, &[], &log), create_module_pass(facts, |module, _| Ok(module.clone()))]);
    let pass = pass(&engine, "B");
    let info = pass.info().expect("a pass, no Sequential");
    assert_eq!((info.name.as_str(), info.opt_level, info.traceable), ("t.B", 1, true));
    assert_eq!(info.required.iter().map(ToString::to_string).collect::<Vec<_>>(), ["t.A (>=0.0)"]);
}

#[test]
fn its_opt_level_decides_whether_it_runs() {
    let log = Log::default();
    let engine = engine([0, 1, 2, 3, 4].map(|level| noted(&format!("t.P{level}"), level, &[], &log)));
    let module = module(&engine, &["main"]);
    let run = |context: &PassContext| {
        (0..5).for_each(|level| drop(pass(&engine, &format!("t.P{level}")).run_in(&module, context).expect("runs")));
        log.take()
    };
    assert_eq!(run(&PassContext::default()), "t.P0 t.P1 t.P2");
    assert_eq!(run(&PassContext::builder().opt_level(-1).build(&engine).expect("a context")), "");
    let chosen = PassContext::builder().opt_level(0).require(["t.P4"]).disable(["P0"]).build(&engine);
    assert_eq!(run(&chosen.expect("a context")), "t.P4");
}
