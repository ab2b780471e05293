//! Renders the parts of lists, explanations and summaries: tables, headings, options.

use crate::plugins::hashes::Hashes;
use passhost_lang::metadata::{OptionInfo, doc_lines};
use passhost_lang::names::visible::{push_padded, shortened, visible, visible_line};
use registry::Owner;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Maximum length of a table cell in characters, except in the last column.
const WIDEST: usize = 120;
/// Maximum length of a cell in the last column.
const LONGEST: usize = 2_000;

/// Renders rows as columns. The last column is not padded. Cells may contain strings from plugins, so control
/// characters are escaped, and long strings are cut.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let cell = |last: bool, cell: &String| {
        let most = if last { LONGEST } else { WIDEST };
        // An escaped control character takes up to ten characters.
        shortened(&visible_line(&shortened(cell, most)), most).into_owned()
    };
    let row = |row: &Vec<String>| -> Vec<String> {
        row.iter().enumerate().map(|(i, text)| cell(i + 1 == row.len(), text)).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in &rows {
        // The last cell of a row is not padded, so it must not widen its column.
        for (width, cell) in widths.iter_mut().zip(row).take(row.len().saturating_sub(1)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in &rows {
        let start = out.len();
        for (width, cell) in widths.iter().zip(row) {
            push_padded(&mut out, cell, *width);
            out.push_str("  ");
        }
        out.truncate(start + out[start..].trim_end().len());
        out.push('\n');
    }
    out
}

/// Returns the name and the documentation of an item.
pub(super) fn heading(name: &str, doc: &str) -> String {
    let mut out = format!("{name}\n\n");
    for line in doc_lines(&visible(doc)) {
        let _ = writeln!(out, "{}", format!("    {line}").trim_end());
    }
    out.push('\n');
    out
}

/// Returns table rows with the plugin and its file.
pub(super) fn owner_rows(owner: &Owner) -> Vec<Vec<String>> {
    vec![
        vec!["plugin".to_string(), format!("{} {}", owner.name, owner.version)],
        vec!["file".to_string(), owner.file.as_ref().map_or("-".to_string(), |file| file.display().to_string())],
    ]
}

pub(super) fn or_dash(items: Vec<String>) -> String {
    if items.is_empty() { "-".to_string() } else { items.join(", ") }
}

/// Returns the SHA-256 of a file, which distinguishes builds of one plugin.
pub(super) fn sha256(file: &Path) -> Option<String> {
    Hashes::fresh().sha256(file).ok()
}

pub(super) fn explain_option(out: &mut String, option: &OptionInfo) {
    let default = option.default.as_ref().map_or("must be given".to_string(), |value| format!("default {value}"));
    let (name, default) = (visible_line(&option.name), visible_line(&default));
    let allowed = option.allowed.text().map_or(String::new(), |allowed| format!(", {}", visible_line(&allowed)));
    let _ = writeln!(out, "    {name}: {}{allowed} ({default})", option.ty);
    for line in visible(&option.doc).trim().lines() {
        let _ = writeln!(out, "        {}", line.trim());
    }
}

/// Formats a time in milliseconds.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}
