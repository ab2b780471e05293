//! Renders the results of a measurement as a table and as JSON.

use super::results::{Bench, Kernel};
use super::turns::least_and_median;
use crate::cli::show::table;
use native::Made;
use passhost_lang::ir::{Body, Dim};
use passhost_lang::names::counted;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Number of kernels in the table. One more row sums up the other kernels.
const SHOWN: usize = 30;
/// Minimum share of the time of a kernel that a note mentions, and the share of the peak that it does not reach.
const NOTED: f64 = 0.1;
const FAR: f64 = 0.25;
/// Maximum number of characters of a kernel's name in a note.
const LONGEST_NAME: usize = 48;
/// A measurement is reported as disturbed by other programs if its median is this many times the shortest run.
const NOISY: f64 = 1.5;

/// Formats a time with three digits.
fn time(of: Duration) -> String {
    let seconds = of.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Measurements of a kernel, averaged over the runs.
struct Figures {
    calls: f64,
    time: Duration,
    share: f64,
    /// Operations per second; `None` if their number is unknown, or the kernel was too fast to be measured.
    operations: Option<f64>,
    bytes: Option<f64>,
}

impl Bench {
    fn figures(&self, kernel: &Kernel) -> Figures {
        let ours = &self.measured.turns.ours;
        let (runs, total) = (ours.len().max(1) as f64, ours.iter().sum::<Duration>().as_secs_f64());
        let timed = &kernel.timed;
        let seconds = timed.time.as_secs_f64();
        let in_a_second = |amount: u64| (seconds > 0.0).then(|| amount as f64 * timed.calls as f64 / seconds);
        Figures {
            calls: timed.calls as f64 / runs,
            time: timed.time.div_f64(runs),
            share: if total > 0.0 { seconds / total } else { 0.0 },
            operations: timed.operations.and_then(in_a_second),
            bytes: in_a_second(timed.bytes),
        }
    }

    /// Returns the time of a run outside of these kernels, and its share.
    fn without(&self, kernels: &[Kernel]) -> (Duration, f64) {
        let ours = &self.measured.turns.ours;
        let total: Duration = ours.iter().sum();
        let left = total.saturating_sub(kernels.iter().map(|kernel| kernel.timed.time).sum());
        let share = if total.is_zero() { 0.0 } else { left.as_secs_f64() / total.as_secs_f64() };
        (left.div_f64(ours.len().max(1) as f64), share)
    }
}

/// Renders the results as text.
pub(super) fn text(bench: &Bench) -> String {
    let Bench { function, passes, backend, threads, .. } = bench;
    let mut out = format!("{function} after {passes}, by {backend} with {}\n", counted(*threads, "thread"));
    out.push_str(&code(bench.cold.as_ref(), &bench.made));
    if let Some(peaks) = &bench.measured.peaks {
        let (operations, bytes) = (peaks.operations / 1e9, peaks.bytes / 1e9);
        out.push_str(&format!(
            "this machine: {operations:.0} GF/s of multiply-adds, {bytes:.1} GB/s from memory
"
        ));
    }
    out.push_str(&format!("\n{}{}\n{}", kernels(bench), far_from_peak(bench), runs(bench)));
    out
}

/// Names the kernels that take much of the time and are far from both limits of the machine.
fn far_from_peak(bench: &Bench) -> String {
    let Some(peaks) = bench.measured.peaks else { return String::new() };
    let is_far = |kernel: &&Kernel| {
        let figures = bench.figures(kernel);
        let [operations, bytes] = [(figures.operations, peaks.operations), (figures.bytes, peaks.bytes)]
            .map(|(reached, peak)| reached.is_some_and(|reached| reached >= FAR * peak));
        figures.share >= NOTED && figures.operations.is_some() && !operations && !bytes
    };
    let far: Vec<&Kernel> = bench.kernels.iter().filter(is_far).collect();
    if far.is_empty() {
        return String::new();
    }
    let names = quoted(far.iter().map(|kernel| short_name(&kernel.name)));
    let symbols: BTreeSet<String> = far.iter().flat_map(|kernel| symbols(&kernel.timed.function)).collect();
    let bind = match symbols.is_empty() {
        true => String::new(),
        false => format!("; `relax.BindSymbolicVars` compiles the model for certain values of {}", quoted(symbols)),
    };
    format!(
        "note: less than a quarter of the peak: {names}; `passhost run --missed` shows blocks that are not scheduled, and why{bind}\n"
    )
}

fn quoted(names: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Returns the names of the symbolic dimensions of a kernel's buffers.
fn symbols(body: &Body) -> Vec<String> {
    let dims = body.root().param_buffers().into_iter().flat_map(|buffer| buffer.ty().prims());
    let name = |dim| if let Dim::Var(sym) = dim { body.sym_name(sym.id).map(str::to_string) } else { None };
    dims.filter_map(name).collect()
}

/// Shortens the name of a kernel that was fused from many operators.
fn short_name(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

/// Describes how many kernels were compiled, and how many were loaded from the cache.
fn code(cold: Option<&Made>, made: &Made) -> String {
    let compiled = |made: &Made| format!("{} compiled in {}", counted(made.compiled, "kernel"), time(made.compiling));
    let cached =
        |made: &Made| format!("{} loaded from the cache in {}", counted(made.cached, "kernel"), time(made.loading));
    let parts: Vec<String> =
        [cold.map(compiled), (made.compiled > 0).then(|| compiled(made)), (made.cached > 0).then(|| cached(made))]
            .into_iter()
            .flatten()
            .collect();
    if parts.is_empty() { String::new() } else { format!("code: {}\n", parts.join(", ")) }
}

/// Renders the table of the slowest kernels.
fn kernels(bench: &Bench) -> String {
    let head = ["TIME", "SHARE", "CALLS", "GF/s", "OF PEAK", "GB/s", "OF PEAK", "KERNEL"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let peaks = bench.measured.peaks;
    let with_peak = |value: Option<f64>, peak: Option<f64>| {
        let of_peak = value.zip(peak).map_or("-".to_string(), |(value, peak)| format!("{:.0} %", 100.0 * value / peak));
        [value.map_or("-".to_string(), |value| format!("{:.1}", value / 1e9)), of_peak]
    };
    let share = |share: f64| format!("{:.1} %", 100.0 * share);
    for kernel in bench.kernels.iter().take(SHOWN) {
        let figures = bench.figures(kernel);
        let mut row = vec![time(figures.time), share(figures.share), short(figures.calls)];
        row.extend(with_peak(figures.operations, peaks.map(|peaks| peaks.operations)));
        row.extend(with_peak(figures.bytes, peaks.map(|peaks| peaks.bytes)));
        row.push(kernel.name.clone());
        rows.push(row);
    }
    let (outside, part) = bench.without(&bench.kernels);
    let rest = |name: String, calls: String, of: Duration, part: f64| {
        let none = || "-".to_string();
        vec![time(of), share(part), calls, none(), none(), none(), none(), name]
    };
    if let Some(others) = bench.kernels.get(SHOWN..).filter(|others| !others.is_empty()) {
        let (after, part_after) = bench.without(&bench.kernels[..SHOWN]);
        let calls = others.iter().map(|kernel| bench.figures(kernel).calls).sum();
        let name = format!("{} other kernels; use --json to show all", others.len());
        rows.push(rest(name, short(calls), after.saturating_sub(outside), part_after - part));
    }
    rows.push(rest("outside kernels: memory for results, calls".to_string(), "-".to_string(), outside, part));
    table(&rows)
}

/// Formats a mean number of calls, which is a fraction if it differs from run to run.
fn short(calls: f64) -> String {
    if calls.fract() == 0.0 { format!("{calls:.0}") } else { format!("{calls:.1}") }
}

/// Renders the runs of both programs, and their ratio.
fn runs(bench: &Bench) -> String {
    let mut rows = vec![["MIN", "MEDIAN", "RUNS", "PROGRAM"].map(str::to_string).to_vec()];
    let mut noisy = false;
    let turns = &bench.measured.turns;
    let mut program = |name: String, times: &[Duration]| {
        let Some((least, median)) = least_and_median(times) else { return };
        noisy |= median.as_secs_f64() > NOISY * least.as_secs_f64();
        rows.push(vec![time(least), time(median), times.len().to_string(), name]);
    };
    program("passhost".to_string(), &turns.ours);
    let mut last = String::new();
    if let Some(against) = &bench.measured.against {
        let weights = if against.constants { "constants" } else { "inputs" };
        program(format!("onnxruntime {}; weights are {weights}", against.version), &turns.theirs);
        if let Some((by_median, by_least)) = ratios(bench) {
            last = format!(
                "\npasshost takes {by_median:.2} times as long as onnxruntime ({by_least:.2} for the fastest runs); the results differ by {:.1e} of the largest element\n",
                against.difference.relative
            );
        }
    }
    let mut out = table(&rows);
    if noisy {
        out.push_str("note: the times of the runs vary a lot; another program may have used the machine\n");
    }
    out + &last
}

/// Returns the ratio of passhost's time to the other program's time: for the medians, and for the shortest
/// runs.
fn ratios(bench: &Bench) -> Option<(f64, f64)> {
    let turns = &bench.measured.turns;
    let (ours, theirs) = (least_and_median(&turns.ours)?, least_and_median(&turns.theirs)?);
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    Some((ratio(ours.1, theirs.1), ratio(ours.0, theirs.0)))
}

/// Renders the results as JSON. Times are in seconds.
pub(super) fn data(bench: &Bench) -> Value {
    let kernel = |kernel: &Kernel| {
        let figures = bench.figures(kernel);
        json!({
            "name": kernel.name,
            "calls": figures.calls,
            "time": figures.time.as_secs_f64(),
            "share": figures.share,
            "operations": kernel.timed.operations,
            "bytes": kernel.timed.bytes,
            "operations_per_second": figures.operations,
            "bytes_per_second": figures.bytes,
        })
    };
    let made = |made: &Made| {
        json!({
            "compiled": made.compiled,
            "compiling": made.compiling.as_secs_f64(),
            "cached": made.cached,
            "loading": made.loading.as_secs_f64(),
        })
    };
    let runs = |times: &[Duration]| {
        let (least, median) = least_and_median(times).unzip();
        let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        json!({ "min": least.map(|it| it.as_secs_f64()), "median": median.map(|it| it.as_secs_f64()), "all": seconds })
    };
    let turns = &bench.measured.turns;
    let against = bench.measured.against.as_ref().map(|against| {
        json!({
            "program": "onnxruntime",
            "version": against.version,
            "weights": if against.constants { "constants" } else { "inputs" },
            "loading": against.loaded.as_secs_f64(),
            "runs": runs(&turns.theirs),
            "ratio": ratios(bench).map(|(by_median, _)| by_median),
            "ratio_of_min": ratios(bench).map(|(_, by_least)| by_least),
            "difference": against.difference.relative,
        })
    });
    json!({
        "input": bench.input,
        "function": bench.function,
        "passes": bench.passes,
        "backend": bench.backend,
        "threads": bench.threads,
        "first_run": turns.first.as_secs_f64(),
        "cold": bench.cold.as_ref().map(made),
        "code": made(&bench.made),
        "peaks": bench.measured.peaks.map(|peaks| json!({
            "operations_per_second": peaks.operations, "bytes_per_second": peaks.bytes,
        })),
        "runs": runs(&turns.ours),
        "outside_of_kernels": bench.without(&bench.kernels).0.as_secs_f64(),
        "kernels": bench.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "against": against,
    })
}
