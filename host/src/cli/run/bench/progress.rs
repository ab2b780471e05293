//! Progress of a measurement, as a bar on a terminal.

use crate::cli::messages::Messages;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Shows the progress of a measurement.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new(messages: Messages) -> Progress {
        let on_terminal = std::io::stderr().is_terminal() && !messages.is_json();
        let bar = on_terminal.then(ProgressBar::new_spinner);
        if let Some(bar) = &bar {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Progress { bar }
    }

    /// Shows that a phase of unknown length begins.
    pub(super) fn says(&self, what: &'static str) {
        if let Some(bar) = &self.bar {
            bar.set_style(ProgressStyle::default_spinner());
            bar.set_message(what);
        }
    }

    /// Shows a bar for a number of runs.
    pub(super) fn runs(&self, runs: usize) {
        if let (Some(bar), Ok(style)) =
            (&self.bar, ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {elapsed}"))
        {
            bar.set_style(style);
            bar.set_length(runs as u64);
            bar.set_position(0);
        }
    }

    /// Advances the bar by one run.
    pub(super) fn ran(&self) {
        self.bar.iter().for_each(|bar| bar.inc(1));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
