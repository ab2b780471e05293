//! `native FILE…` executes the PrimFuncs of modules with the interpreter and as native code, and compares the results
//! bitwise. Files are modules (`.py`) or recorded modules (`.jsonl`). PASSHOST_LLVM selects a different library;
//! `--cache FOLDER` keeps the code.
#![forbid(unsafe_code)]

use native::{Cache, Llvm, Native};
use passhost_tests::engine;
use passhost_tests::kernels::{Verdict, compare, prim_funcs};
use plugin_api::ir::Module;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// The extents tried for symbolic dimensions.
const EXTENTS: [i64; 3] = [5, 1, 16];

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let cache = match args.iter().position(|arg| arg == "--cache") {
        Some(at) => Cache::new(args.drain(at..(at + 2).min(args.len())).next_back().unwrap_or_default()),
        None => Cache::none(),
    };
    let llvm = Llvm::find()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{llvm:?}")?;
    let native = Native::new(llvm, cache);
    let (mut same, mut faults, mut seen, mut differ, mut unread) = (0, 0, HashSet::new(), 0, 0);
    let mut not: BTreeMap<String, usize> = BTreeMap::new();
    let mut sums = [Duration::ZERO; 3];
    for path in &args {
        let before = sums;
        for (at, text) in texts(path)? {
            let module: Module = match script::read(&text, engine()) {
                Ok(module) => module,
                Err(_) => {
                    unread += 1;
                    continue;
                }
            };
            for (name, body) in prim_funcs(&module).filter(|(_, body)| seen.insert(body.structural_hash())) {
                let symbolic = body.sym_name(0).is_some();
                for extent in EXTENTS.into_iter().take(if symbolic { EXTENTS.len() } else { 1 }) {
                    match compare(&native, body, extent, 1) {
                        Verdict::Same { interpreted, native, first } => {
                            same += 1;
                            sums = [sums[0] + interpreted, sums[1] + native, sums[2] + first];
                            if std::env::var_os("TIMES").is_some() {
                                let speed = interpreted.as_secs_f64() / native.as_secs_f64();
                                writeln!(out, "{name} {interpreted:.1?} {native:.1?} {speed:.1}x, first {first:.1?}")?;
                            }
                        }
                        Verdict::Fault(_) => faults += 1,
                        Verdict::Not(why) => *not.entry(why.chars().take(60).collect()).or_default() += 1,
                        Verdict::Differs(why) => {
                            differ += 1;
                            writeln!(out, "differs: {path} {at} `{name}` extent {extent}: {why}")?;
                        }
                    }
                }
            }
        }
        let [interpreted, native, first] = [0, 1, 2].map(|i| sums[i] - before[i]);
        writeln!(out, "{path}: interpreted {interpreted:.1?}, native {native:.1?}, first calls {first:.1?}")?;
    }
    writeln!(out, "{same} calls have the same bits, {faults} the same fault, {differ} differ")?;
    let made = native.made().compiled + native.made().cached;
    writeln!(out, "{} functions, of {made} code was made; {unread} modules cannot be read", seen.len())?;
    let mut not: Vec<(String, usize)> = not.into_iter().collect();
    not.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    not.iter().try_for_each(|(why, n)| writeln!(out, "not called: {n} x {why}"))?;
    Ok(if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the texts of a file, with their line numbers.
fn texts(path: &str) -> Result<Vec<(usize, String)>, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    if !path.ends_with(".jsonl") {
        return Ok(vec![(1, text)]);
    }
    let line = |(at, line): (usize, &str)| {
        let case: serde_json::Value = serde_json::from_str(line).ok()?;
        Some((at + 1, case["text"].as_str()?.to_string()))
    };
    Ok(text.lines().enumerate().filter_map(line).collect())
}
