//! `times FILE` prints how long reading a module, checking, printing, hashing it and comparing it with its like take, in
//! milliseconds, the shortest of several times each; for comparisons with other tools.
#![forbid(unsafe_code)]

use passhost::verify::verify_module;
use passhost_tests::engine;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

/// Each piece of work is done again until that much time is gone.
const LONG_ENOUGH: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: times FILE")?;
    let text = std::fs::read_to_string(path)?;
    let engine = engine();
    let module = script::read(&text, engine)?;
    verify_module(&module, engine)?;
    // A body keeps its hash: each time another one.
    let fresh = || script::read(&text, engine).unwrap_or_else(|_| module.clone());
    let rows = [
        ("read", shortest(|| (), |()| script::read(&text, engine).is_ok())),
        ("check", shortest(|| (), |()| verify_module(&module, engine).is_ok())),
        ("print", shortest(|| (), |()| script::print(&module, engine).expect("everything in it has a text"))),
        ("hash", shortest(fresh, |module| module.structural_hash())),
        ("equality", shortest(|| (fresh(), fresh()), |(one, other)| one.structural_eq(other))),
    ];
    let mut out = std::io::stdout().lock();
    rows.iter().try_for_each(|(name, time)| writeln!(out, "{name} {:.6}", time.as_secs_f64() * 1e3))?;
    Ok(())
}

fn shortest<S, T>(prepare: impl Fn() -> S, work: impl Fn(&S) -> T) -> Duration {
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while best == Duration::MAX || start.elapsed() < LONG_ENOUGH {
        let input = prepare();
        let lap = Instant::now();
        let result = black_box(work(&input));
        best = best.min(lap.elapsed());
        drop(result);
    }
    best
}
