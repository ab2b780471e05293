//! Differences of two texts.

use std::time::Duration;

/// A longer search for the smallest difference helps nobody; what is found until then is shown.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lines that went and came, each with three lines around it, as `diff -u` shows them; empty if the texts are equal.
pub fn unified(before: &str, after: &str) -> String {
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    diff.unified_diff().header("before", "after").to_string()
}
