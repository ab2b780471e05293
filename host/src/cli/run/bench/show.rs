//! What was measured, as a table and as JSON.

use super::turns::least_and_median;
use super::{Bench, Kernel};
use crate::cli::show::table;
use serde_json::json;
use std::time::Duration;

/// A time with three digits.
fn time(of: Duration) -> String {
    let seconds = of.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// For people.
pub(super) fn text(bench: &Bench) -> String {
    let mut out = format!("{} after {}: {}, {} threads\n", bench.function, bench.passes, bench.backend, bench.threads);
    let made = &bench.made;
    if made.compiled + made.cached > 0 {
        out.push_str(&format!(
            "code: {} kernels compiled in {}, {} from the cache in {}\n",
            made.compiled,
            time(made.compiling),
            made.cached,
            time(made.loading)
        ));
    }
    let mut rows = vec![["KERNEL", "CALLS", "TIME", "SHARE", "GF/s", "GB/s"].map(str::to_string).to_vec()];
    rows.extend(bench.kernels.iter().map(|kernel| row(bench, kernel)));
    out.push_str(&format!("\n{}\n", table(&rows)));
    let mut rows = vec![["RUNS", "MIN", "MEDIAN", ""].map(str::to_string).to_vec()];
    let mut whole = |name: &str, times: &[Duration]| {
        let Some((least, median)) = least_and_median(times) else { return };
        rows.push(vec![times.len().to_string(), time(least), time(median), name.to_string()]);
    };
    whole("passhost", &bench.turns.ours);
    if let Some(against) = &bench.against {
        let weights = if against.constants { "weights are constants" } else { "weights are inputs" };
        whole(&format!("onnxruntime {}, {weights}", against.version), &bench.turns.theirs);
    }
    out.push_str(&table(&rows));
    if let (Some(ratio), Some(against)) = (ratio(bench), &bench.against) {
        out.push_str(&format!(
            "\npasshost takes {ratio:.2} times as long as onnxruntime; the results differ by {:.1e} at most\n",
            against.difference.relative
        ));
    }
    out
}

fn row(bench: &Bench, kernel: &Kernel) -> Vec<String> {
    let runs = bench.turns.ours.len().max(1) as f64;
    let total: f64 = bench.turns.ours.iter().map(Duration::as_secs_f64).sum();
    let timed = &kernel.timed;
    let seconds = timed.time.as_secs_f64();
    let per_second = |amount: u64| amount as f64 * timed.calls as f64 / seconds.max(1e-12) / 1e9;
    vec![
        kernel.name.clone(),
        format!("{:.0}", timed.calls as f64 / runs),
        time(Duration::from_secs_f64(seconds / runs)),
        format!("{:.1} %", 100.0 * seconds / total),
        timed.operations.map_or("-".to_string(), |n| format!("{:.1}", per_second(n))),
        format!("{:.1}", per_second(timed.bytes)),
    ]
}

/// Our time in parts of the other one's.
fn ratio(bench: &Bench) -> Option<f64> {
    let (ours, theirs) = (least_and_median(&bench.turns.ours)?.1, least_and_median(&bench.turns.theirs)?.1);
    Some(ours.as_secs_f64() / theirs.as_secs_f64())
}

/// For programs.
pub(super) fn json(bench: &Bench) -> String {
    format!("{}\n", json!({ "ratio": ratio(bench) }))
}
