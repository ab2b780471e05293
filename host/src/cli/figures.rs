//! Tables of a run's memory use and statistics.

use super::show::table;
use crate::instruments::memory::Row;
use crate::run::Statistic;

/// Returns a table of the memory before and after each pass. Resident memory is shown only if the system reports it.
pub(super) fn memory(passes: &[Row]) -> String {
    let resident = passes.iter().any(|row| row.resident.is_some());
    let mut rows = vec![["PASS", "BODIES BEFORE", "BODIES AFTER"].map(str::to_string).to_vec()];
    rows[0].extend(resident.then(|| "RESIDENT".to_string()));
    for row in passes {
        let failed = if row.failed { " (failed)" } else { "" };
        let mut cells = vec![format!("{}{failed}", row.pass)];
        cells.extend([row.bodies.0, row.bodies.1].map(|bytes| format!("{bytes} B")));
        let change = row.resident.map_or("-".to_string(), |bytes| format!("{:+} KiB", bytes / 1024));
        cells.extend(resident.then_some(change));
        rows.push(cells);
    }
    format!("\n{}", table(&rows))
}

/// Renders the table as JSON.
pub(super) fn memory_json(passes: &[Row]) -> serde_json::Value {
    let row = |row: &Row| {
        let (before, after) = row.bodies;
        serde_json::json!({
            "pass": row.pass, "failed": row.failed, "bodies": { "before": before, "after": after },
            "resident": row.resident,
        })
    };
    passes.iter().map(row).collect()
}

/// Returns a table of the counters of passes.
pub(super) fn statistics(counted: &[Statistic]) -> String {
    if counted.is_empty() {
        return "\nno pass counted anything\n".to_string();
    }
    let mut rows = vec![["PASS", "STATISTIC", "SUM"].map(str::to_string).to_vec()];
    let row = |counter: &Statistic| vec![counter.pass.clone(), counter.name.clone(), counter.sum.to_string()];
    rows.extend(counted.iter().map(row));
    format!("\n{}", table(&rows))
}

/// Renders the table as JSON.
pub(super) fn statistics_json(counted: &[Statistic]) -> serde_json::Value {
    let row = |Statistic { pass, name, sum }: &Statistic| serde_json::json!({ "pass": pass, "name": name, "sum": sum });
    counted.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_left_out_where_nobody_tells_it() {
        let row = |failed, resident| Row { pass: "t.Pass".to_string(), failed, bodies: (1200, 80), resident };
        let text = memory(&[row(false, None), row(true, None)]);
        let expected = "
PASS             BODIES BEFORE  BODIES AFTER
t.Pass           1200 B         80 B
t.Pass (failed)  1200 B         80 B
";
        assert_eq!(text, expected);
        let text = memory(&[row(false, Some(-4096)), row(true, Some(8192))]);
        let expected = "
PASS             BODIES BEFORE  BODIES AFTER  RESIDENT
t.Pass           1200 B         80 B          -4 KiB
t.Pass (failed)  1200 B         80 B          +8 KiB
";
        assert_eq!(text, expected);
    }
}
