//! Renders the results of `tune`.

use crate::cli::show::table;
use crate::tune::search::Search;
use serde_json::json;
use std::path::Path;

/// Maximum number of kernels in the table.
const SHOWN: usize = 20;

/// Renders the results as text.
pub(super) fn text(searches: &[Search], path: &Path) -> String {
    let mut rows = vec![["DEFAULT", "BEST", "GAIN", "SHARE", "TRIED", "KERNEL"].map(str::to_string).to_vec()];
    let total: f64 = searches.iter().map(|search| search.nanos).sum();
    for search in searches.iter().take(SHOWN) {
        let compared = search.compared().map(|(usual, best)| (usual as f64, best as f64));
        let micros = |nanos: f64| format!("{:.1} µs", nanos / 1e3);
        let dash = || "-".to_string();
        rows.push(vec![
            compared.map_or_else(dash, |(usual, _)| micros(usual)),
            compared.map_or_else(dash, |(_, best)| micros(best)),
            compared.map_or_else(dash, |(usual, best)| format!("{:.2}x", usual / best)),
            format!("{:.1} %", 100.0 * search.nanos / total.max(1.0)),
            search.tried().to_string(),
            name(search),
        ]);
    }
    let more = searches.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("and {more} other kernels; use --json to show all\n") } else { String::new() };
    format!("{}{more}\nuse the schedules with --tuned {}\n", table(&rows), path.display())
}

fn name(search: &Search) -> String {
    match search.kernel.names.as_slice() {
        [] => search.kernel.key.clone(),
        [name] => name.clone(),
        [name, others @ ..] => format!("{name} and {} equal ones", others.len()),
    }
}

/// Renders the results as JSON. Times are in seconds.
pub(super) fn json(searches: &[Search]) -> String {
    let kernel = |search: &Search| {
        let (usual, best) = search.compared().unzip();
        let seconds = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e9);
        json!({
            "names": search.kernel.names,
            "key": search.kernel.key,
            "time_in_model": search.nanos / 1e9,
            "default": seconds(usual),
            "best": seconds(best),
            "tried": search.tried(),
        })
    };
    format!("{}\n", json!({ "kernels": searches.iter().map(kernel).collect::<Vec<_>>() }))
}
