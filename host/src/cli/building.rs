//! Shows cargo's progress while it builds plugin crates: one line, or, on a terminal, a spinner with cargo's
//! latest line of output.

use super::messages::Messages;
use crate::plugins::crates::Watcher;
use indicatif::{ProgressBar, ProgressStyle};
use passhost_lang::names::visible::visible_line;
use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::Duration;

/// Shows the progress of cargo.
pub(super) struct Building {
    messages: Messages,
    bar: RefCell<Option<ProgressBar>>,
}

impl Building {
    pub(super) fn new(messages: Messages) -> Building {
        Building { messages, bar: RefCell::default() }
    }
}

impl Watcher for Building {
    fn begin(&self, what: &str) {
        if self.messages.is_json() || !std::io::stderr().is_terminal() {
            return self.messages.tell(&format!("passhost: {what} …"));
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_string());
        bar.enable_steady_tick(Duration::from_millis(120));
        *self.bar.borrow_mut() = Some(bar);
    }

    fn says(&self, line: &str) {
        // Without the spinner, this line explains the delay.
        if self.bar.borrow().is_none() && line.starts_with("Blocking") {
            self.messages.tell(&format!("passhost: waiting for another cargo: {}", visible_line(line)));
        }
        self.bar.borrow().iter().for_each(|bar| bar.set_message(line.to_string()));
    }

    fn end(&self) {
        self.bar.take().iter().for_each(ProgressBar::finish_and_clear);
    }
}
