//! Progress of an execution: a bar on a terminal, and each binding with `--trace`.

use super::args::ExecArgs;
use super::show;
use crate::cli::messages::Messages;
use indicatif::{ProgressBar, ProgressStyle};
use passhost_lang::ir::Module;
use passhost_lang::names::visible::visible_line;
use runtime::vm::{Binding, Observer, Value, calls_of};
use std::io::IsTerminal;
use std::time::Duration;

/// Shows the progress of an execution.
pub(super) struct Watching {
    messages: Messages,
    bar: Option<ProgressBar>,
    trace: bool,
}

impl Watching {
    pub(super) fn new(module: &Module, args: &ExecArgs, messages: Messages) -> Watching {
        let on_terminal = std::io::stderr().is_terminal() && !messages.is_json() && !args.trace;
        let bar = on_terminal.then(|| ProgressBar::new(calls_of(module, &args.function)));
        let style = "{bar:30} {pos} of {len} kernels, {elapsed} of about {duration}  {wide_msg}";
        if let (Some(bar), Ok(style)) = (&bar, ProgressStyle::with_template(style)) {
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Watching { messages, bar, trace: args.trace }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Observer for Watching {
    fn before(&mut self, binding: &Binding<'_>) {
        if let Some(bar) = &self.bar {
            bar.set_message(visible_line(binding.binding().name().unwrap_or("_")).into_owned());
        }
    }

    fn after(&mut self, binding: &Binding<'_>, value: &Value) {
        if self.trace {
            let (function, name) = (binding.function(), binding.binding().name().unwrap_or("_"));
            self.messages.table(
                "trace",
                || format!("{}{}\n", "  ".repeat(binding.depth()), visible_line(&show::traced(function, name, value))),
                || show::traced_json(function, name, value),
            );
        }
    }

    fn called(&mut self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    fn printed(&mut self, text: &str) {
        let say = || self.messages.text("printed", &format!("{}\n", visible_line(text)));
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}
