//! Tests that parsing, a verified pass, and printing take linear time on modules far larger than handwritten ones.
#![forbid(unsafe_code)]

use passhost::{Engine, Pass, PassContext, Runner};
use passhost_tests::large::{Much, module};
use passhost_tests::shared_engine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Measures parsing a text, running a pass and printing the result.
fn measured(engine: &Arc<Engine>, pass: &str, text: &str) -> Duration {
    let start = Instant::now();
    let module = script::read(text, &**engine).expect("a module");
    let plan = Pass::find(engine, pass).expect("a standard pass").plan(&PassContext::default()).expect("a plan");
    let report = Runner::new(engine, BTreeMap::new()).run(&plan, module).expect("plugins open");
    assert!(report.error.is_none(), "{:?}", report.error);
    let printed = script::print(&report.module, &**engine).expect("the module can be printed");
    assert!(!printed.is_empty());
    start.elapsed()
}

/// With eight times the size, a quadratic algorithm would take 64 times as long; at this size, it would take
/// minutes.
#[test]
fn modules_of_any_size_take_time_in_proportion() {
    const FEW: usize = 3_000;
    const LONGEST: Duration = Duration::from_secs(60);
    let engine = shared_engine();
    for (much, pass) in [
        (Much::Functions, "relax.CanonicalizeBindings"),
        (Much::Symbols, "relax.CanonicalizeBindings"),
        (Much::Casts, "relax.CanonicalizeBindings"),
        (Much::Undeclared, "relax.EliminateCommonSubexpr"),
        (Much::Devices, "relax.CanonicalizeBindings"),
    ] {
        let (few, many) = (module(much, FEW), module(much, 8 * FEW));
        let ratio = || {
            let few = measured(engine, pass, &few).max(Duration::from_millis(20));
            let many = measured(engine, pass, &many);
            assert!(many < LONGEST, "{much:?}: {many:?}");
            many.as_secs_f64() / few.as_secs_f64()
        };
        // Even this ratio varies on a busy machine.
        let found: Vec<f64> = (0..3).map(|_| ratio()).take_while(|ratio| *ratio > 20.0).collect();
        assert!(found.len() < 3, "{much:?} took {found:.1?} times as long with eight times as much");
    }
}
