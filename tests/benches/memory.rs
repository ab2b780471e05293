//! Measures the memory of the host and of modules: at rest, and at the peak of parsing. It measures sizes, not times.
//!
//! `cargo bench -p passhost-tests --bench memory`. Each row is measured in a separate process; resident memory is that
//! of Linux (`/proc/self/status`).
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "prints its table")]

use passhost_tests::engine;
use passhost_tests::synthetic::module_text;
use std::process::Command;

/// The numbers of functions and of bindings in each.
const SIZES: &[(usize, usize)] =
    &[(1, 1), (1, 1_000), (1, 10_000), (1, 100_000), (1, 1_000_000), (1_000, 20), (50_000, 20)];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, mode, functions, bindings] = args.as_slice()
        && mode == "child"
    {
        return child(functions.parse().expect("a number"), bindings.parse().expect("a number"));
    }
    println!("functions  bindings  text B/binding  at rest B/binding  peak of reading B/binding  resident MB");
    let own = std::env::current_exe().expect("the path of this program");
    for (functions, bindings) in SIZES {
        let output = Command::new(&own).args(["child", &functions.to_string(), &bindings.to_string()]).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
}

fn child(functions: usize, bindings: usize) {
    let engine = engine();
    let text = module_text(functions, bindings);
    let before = resident("VmRSS");
    let module = script::read(&text, engine).expect("a module");
    let rest: usize = module.functions().map(|(_, body)| body.byte_size()).sum();
    let peak = resident("VmHWM").saturating_sub(before);
    let n = (functions * bindings).max(1);
    println!(
        "{functions:>9}  {bindings:>8}  {:>14}  {:>17}  {:>25}  {:>11.1}",
        text.len() / n,
        rest / n,
        peak / n,
        resident("VmHWM") as f64 / 1e6,
    );
}

/// Returns an amount of resident memory in bytes; 0 if the system does not provide it.
fn resident(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) * 1024
}
