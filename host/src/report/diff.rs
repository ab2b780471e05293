//! Differences between two texts.

use std::time::Duration;

/// Time limit of the search for the smallest diff. When it expires, the best diff so far is shown.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns removed and added lines, each with three lines of context, in the format of `diff -u`; empty if the texts are equal.
pub fn unified(before: &str, after: &str) -> String {
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    diff.unified_diff().header("before", "after").to_string()
}
