//! Shows the progress of `tune`.

use crate::cli::messages::Messages;
use crate::tune::search::Search;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines of progress, if standard error is not a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// Shows how many schedules were measured, and the gain: a bar on a terminal, otherwise a line from time to time.
pub(super) struct Watch {
    messages: Messages,
    bar: Option<ProgressBar>,
    begin: Instant,
    /// Number of measured schedules.
    measured: AtomicU64,
    /// Milliseconds at the last line.
    told: AtomicU64,
}

impl Watch {
    pub(super) fn new(messages: Messages, path: &Path) -> Watch {
        let on_terminal = std::io::stderr().is_terminal() && !messages.is_json();
        let bar = on_terminal.then(ProgressBar::new_spinner);
        if let Some(bar) = &bar {
            bar.set_style(ProgressStyle::default_spinner());
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        messages.tell(&format!("measurements are added to {}; Ctrl-C ends the search and keeps them", path.display()));
        Watch { messages, bar, begin: Instant::now(), measured: AtomicU64::new(0), told: AtomicU64::new(0) }
    }

    /// Shows that a kernel cannot be measured.
    pub(super) fn note(&self, kernel: &str, why: &str) {
        let tell = || self.messages.tell(&format!("note: kernel {kernel} keeps its usual schedule: {why}"));
        self.bar.as_ref().map_or_else(tell, |bar| bar.suspend(tell));
    }

    /// Shows the progress after a measurement.
    pub(super) fn measured(&self, searches: &[Search]) {
        let measured = self.measured.fetch_add(1, Ordering::Relaxed) + 1;
        let usual: f64 = searches.iter().map(|search| search.nanos).sum();
        let best: f64 = searches.iter().map(|search| search.nanos * search.best()).sum();
        let elapsed = self.begin.elapsed();
        let text = || {
            let [usual, best] = [usual, best].map(|nanos| nanos / 1e6);
            let seconds = elapsed.as_secs();
            format!("{seconds} s: {measured} schedules measured; kernels of the model: {usual:.2} ms, now {best:.2} ms")
        };
        if let Some(bar) = &self.bar {
            bar.set_message(text());
            return;
        }
        let now = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let told = self.told.load(Ordering::Relaxed);
        if Duration::from_millis(now.saturating_sub(told)) >= BETWEEN_LINES {
            self.told.store(now, Ordering::Relaxed);
            self.messages.tell(&text());
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
