//! `sizes` measures large modules: the time to parse, check, print and compare them, and the peak memory of each step.
//!
//! `cargo run --release -p passhost-tests --bin sizes` prints a table for growing numbers of bindings, functions and
//! bytes of constants; `sizes KIND N` prints one row. Each row is measured in a separate process; times are CPU times,
//! and memory is that of Linux.
#![forbid(unsafe_code)]

use passhost::verify::verify_module;
use passhost_tests::engine;
use passhost_tests::synthetic::{functions_text, module_text};
use plugin_api::ir::{AttrsId, BodyBuilder, Module, NodeSpec};
use plugin_api::prelude::*;
use std::io::{Error, Write};
use std::process::Command;
use std::time::{Duration, Instant};

/// The sizes for each kind: bindings of one function, functions, or bytes of constants.
const ROWS: &[(&str, &[usize])] = &[
    ("bindings", &[1_000, 10_000, 100_000, 1_000_000]),
    ("functions", &[1_000, 10_000, 100_000]),
    ("constants", &[1_000_000, 10_000_000, 100_000_000, 1_000_000_000]),
];

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [kind, n] = args.as_slice() {
        let n = n.parse().map_err(|error| Error::other(format!("{n}: {error}")))?;
        return row(kind, n);
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "kind             n  text MB | read ms  MB/s  peak B/n  rest B/n | check ms | print ms  MB/s | equal ms"
    )?;
    let own = std::env::current_exe()?;
    for (kind, sizes) in ROWS {
        for n in *sizes {
            let output = Command::new(&own).args([kind, n.to_string().as_str()]).output()?;
            if !output.status.success() {
                return Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
            }
            out.write_all(&output.stdout)?;
        }
    }
    Ok(())
}

fn row(kind: &str, n: usize) -> Result<(), Error> {
    let text = match kind {
        "bindings" => module_text(1, n),
        "functions" => functions_text(n),
        "constants" => constants_text(n),
        _ => return Err(Error::other(format!("no kind `{kind}`; bindings, functions or constants"))),
    };
    engine();
    let mb = text.len() as f64 / 1e6;
    // Opens the operators before they are measured.
    let warm = script::read(&module_text(1, 10), engine()).map_err(|error| Error::other(error.to_string()))?;
    verify_module(&warm, engine()).map_err(|error| Error::other(error.to_string()))?;
    let before = resident("VmRSS");
    reset_peak();
    let (read, module) = timed(|| script::read(&text, engine()));
    let module = module.map_err(|error| Error::other(error.to_string()))?;
    let peak = resident("VmHWM").saturating_sub(before);
    let tensors =
        module.functions().flat_map(|(_, body)| body.raw().tensors().iter().map(|tensor| tensor.bytes().len()));
    let rest = module.functions().map(|(_, body)| body.byte_size()).sum::<usize>() + tensors.sum::<usize>();
    let (check, checked) = timed(|| verify_module(&module, engine()));
    checked.map_err(|error| Error::other(error.to_string()))?;
    let (print, printed) = timed(|| script::print(&module, engine()).expect("the module can be printed"));
    let printed_mb = printed.len() as f64 / 1e6;
    drop(printed);
    let again = script::read(&text, engine()).map_err(|error| Error::other(error.to_string()))?;
    let (equal, same) = timed(|| again.structural_eq(&module));
    if !same {
        return Err(Error::other("the same text reads as another module"));
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let rate = |mb: f64, time: Duration| mb / time.as_secs_f64();
    writeln!(
        std::io::stdout().lock(),
        "{kind:<9} {n:>10} {mb:>8.1} | {:>7.1} {:>5.0} {:>9} {:>9} | {:>8.1} | {:>8.1} {:>5.0} | {:>8.1}",
        ms(read),
        rate(mb, read),
        peak / n,
        rest / n,
        ms(check),
        ms(print),
        rate(printed_mb, print),
        ms(equal),
    )
}

/// Measures the CPU time of `f`, which is less than the elapsed time on a shared machine.
fn timed<R>(f: impl FnOnce() -> R) -> (Duration, R) {
    let (start, used) = (Instant::now(), on_processor());
    let out = f();
    let time = used.zip(on_processor()).map(|(before, after)| after.saturating_sub(before));
    (time.unwrap_or_else(|| start.elapsed()), out)
}

/// Returns the CPU time of this thread, if the system provides it.
fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns the text of a module whose function returns sums of 64 constants.
fn constants_text(bytes: usize) -> String {
    const COUNT: usize = 64;
    let elements = (bytes / COUNT / 4).max(1);
    let ty = Type::tensor([elements as i64], DType::F32);
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let id = b.ty(&ty);
    let x = b.param("x", id);
    b.begin(NodeSpec::new(plugin_api::ir::records::kind::BLOCK), &[], None);
    let add = b.op("relax.add");
    let mut sum = x;
    for i in 0..COUNT {
        let data: Vec<u8> = (0..elements).flat_map(|at| ((at * 31 + i) as f32).to_le_bytes()).collect();
        let constant = b.constant(&Tensor::new(&data), &ty);
        sum = b.call(add, &[sum, constant], AttrsId::NONE, id, false, Some("sum"));
    }
    b.end();
    b.end_function(sum, id);
    let body = b.finish().unwrap_or_else(|error| panic!("{error}"));
    script::print(&Module::new([("main", body)]), engine()).expect("the module can be printed")
}

/// Resets the peak of resident memory.
fn reset_peak() {
    // Without `clear_refs`, the peak is that of the whole process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns an amount of resident memory in bytes; 0 if the system does not provide it.
fn resident(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) * 1024
}
