//! `times FILE [PASS…] [then PASS…]` prints the time to parse, check, print and hash a module, to compare it with an
//! equal module, and to run each pass on one thread with verification. Times are in milliseconds; each is the shortest
//! of several runs. A pass after `then` runs on the result of the previous pass. The program is used for comparisons
//! with other tools.
#![forbid(unsafe_code)]

use passhost::verify::verify_module;
use passhost::{Engine, Runner};
use passhost_tests::engine;
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

/// Each piece of work is repeated for at least this time, and at least three times, because the system may still be
/// allocating memory during the first run.
const LONG_ENOUGH: Duration = Duration::from_millis(300);
const LAPS: u32 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: times FILE [PASS…] [then PASS…]")?;
    let text = std::fs::read_to_string(path)?;
    let engine = engine();
    let module = script::read(&text, engine)?;
    verify_module(&module, engine)?;
    // A body caches its hash, so each run needs a new one.
    let fresh = || script::read(&text, engine).unwrap_or_else(|_| module.clone());
    let mut rows = vec![
        ("read".to_string(), shortest(|| (), |()| script::read(&text, engine).is_ok())),
        ("check".to_string(), shortest(|| (), |()| verify_module(&module, engine).is_ok())),
        ("print".to_string(), shortest(|| (), |()| script::print(&module, engine).expect("the module can be printed"))),
        ("hash".to_string(), shortest(fresh, |module| module.structural_hash())),
        ("equality".to_string(), shortest(|| (fresh(), fresh()), |(one, other)| one.structural_eq(other))),
    ];
    let passes: Vec<String> = args.collect();
    let (alone, in_turn) = passes.split_at(passes.iter().position(|arg| arg == "then").unwrap_or(passes.len()));
    for pass in alone {
        rows.push((pass.clone(), of_pass(pass, &module, engine)?.0));
    }
    let mut module = module;
    for pass in in_turn.iter().skip(1) {
        let (time, result) = of_pass(pass, &module, engine)?;
        rows.push((pass.clone(), time));
        module = result;
    }
    let mut out = std::io::stdout().lock();
    rows.iter().try_for_each(|(name, time)| writeln!(out, "{name} {:.6}", time.as_secs_f64() * 1e3))?;
    Ok(())
}

/// Measures a pass, from a module to the verified result; also returns the result.
fn of_pass(pass: &str, module: &Module, engine: &Engine) -> Result<(Duration, Module), Box<dyn std::error::Error>> {
    let request = Request { pipeline: Pipeline::parse(pass)?, ..Request::default() };
    let plan = Plan::new(&request, engine.registry())?;
    let run =
        |module: &Module| Runner::new(engine, BTreeMap::new()).verified_input(true).jobs(1).run(&plan, module.clone());
    let done = run(module)?;
    if let Some(error) = done.error {
        return Err(error.into());
    }
    Ok((shortest(|| module.clone(), run), done.module))
}

fn shortest<S, T>(prepare: impl Fn() -> S, work: impl Fn(&S) -> T) -> Duration {
    let (start, mut best, mut laps) = (Instant::now(), Duration::MAX, 0);
    while laps < LAPS || start.elapsed() < LONG_ENOUGH {
        laps += 1;
        let input = prepare();
        let lap = Instant::now();
        let result = black_box(work(&input));
        best = best.min(lap.elapsed());
        drop(result);
    }
    best
}
