//! Merges the log events and spans of a worker into the host's log.

use super::worker::Worker;
use plugin_api::abi::host::{LogEvent, LogSpan, Parent, log_sink};
use plugin_api::abi::relay::{Forged, Reader};
use std::collections::HashMap;
use tracing::field::display;
use tracing::{Level, Span};

/// The spans of a worker by number, and the spans that are currently entered.
#[derive(Default)]
pub(super) struct Spans {
    open: HashMap<u64, Span>,
    entered: Vec<(u64, Span)>,
    /// Nesting depth of calls.
    depth: usize,
}

/// Maximum number of open spans that are kept.
const MOST: usize = 1 << 16;

impl Spans {
    /// Begins a call, and returns the number of enclosing calls.
    pub(super) fn begin(&mut self) -> usize {
        self.depth += 1;
        self.depth - 1
    }

    pub(super) fn end(&mut self, depth: usize) {
        self.depth = depth;
    }

    /// Closes all spans because the worker has exited.
    pub(super) fn leave_all(&mut self) {
        while let Some((_, span)) = self.entered.pop() {
            span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
        }
        self.open.clear();
    }

    pub(super) fn enter(&mut self, number: u64) {
        let Some(span) = self.open.get(&number).filter(|_| self.entered.len() < MOST).cloned() else { return };
        span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        self.entered.push((number, span));
    }

    pub(super) fn exit(&mut self, number: u64) {
        if let Some(at) = self.entered.iter().rposition(|(entered, _)| *entered == number) {
            let (_, span) = self.entered.remove(at);
            span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
        }
    }

    pub(super) fn close(&mut self, number: u64) {
        self.open.remove(&number);
    }

    pub(super) fn follows(&self, number: u64, other: u64) {
        if let (Some(span), Some(other)) = (self.open.get(&number), self.open.get(&other)) {
            span.follows_from(other);
        }
    }

    pub(super) fn record(&self, number: u64, values: &[(String, String)]) {
        if let Some(span) = self.open.get(&number) {
            for (name, value) in values {
                span.record(name.as_str(), display(value));
            }
        }
    }

    /// Creates a span in the host for a span of the worker.
    pub(super) fn make(&mut self, new: NewSpan) {
        let NewSpan { number, mut span, parent } = new;
        if let Some(parent) = parent {
            span.parent = self.open.get(&parent).cloned().map_or(Parent::Current, Parent::Span);
        }
        if let Some(sink) = log_sink().filter(|sink| self.open.len() < MOST && sink.span_enabled(&span)) {
            self.open.insert(number, sink.span(&span));
        }
    }
}

/// A new span of a worker, with its number and the number of its parent.
pub(super) struct NewSpan {
    number: u64,
    span: LogSpan,
    parent: Option<u64>,
}

impl NewSpan {
    /// Returns the total length of the strings of the span.
    pub(super) fn bytes(&self) -> u64 {
        let LogSpan { name, target, file, fields, values, .. } = &self.span;
        let names: usize = fields.iter().map(String::len).sum();
        (name.len() + target.len() + file.len() + names) as u64 + bytes(values)
    }
}

/// Reads a span.
pub(super) fn span(from: &mut Reader<'_>) -> Result<NewSpan, Forged> {
    let number = from.number()?;
    let (level, place) = (level(from)?, place(from)?);
    let name = from.text()?.to_string();
    let (parent, of) = match (from.byte()?, from.number()?) {
        (0, _) => (Parent::Current, None),
        (1, _) => (Parent::None, None),
        (_, of) => (Parent::Current, Some(of)),
    };
    let fields = (0..from.count()?).map(|_| from.text().map(str::to_string)).collect::<Result<_, _>>()?;
    let (target, file, line) = place;
    let span = LogSpan { level, name, target, file, line, parent, fields, values: pairs(from)? };
    Ok(NewSpan { number, span, parent: of })
}

/// Returns the total length of names and values.
pub(super) fn bytes(pairs: &[(String, String)]) -> u64 {
    pairs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
}

/// Records a log event of the worker.
pub(super) fn log(worker: &Worker, from: &mut Reader<'_>) -> Result<(), Forged> {
    let level = level(from)?;
    let (target, file, line) = place(from)?;
    let message = from.text()?.to_string();
    let event = LogEvent { level, target, file, line, message, fields: pairs(from)? };
    let texts = event.target.len() + event.file.len() + event.message.len();
    if !worker.hears(texts as u64 + bytes(&event.fields)) {
        return Ok(());
    }
    worker.logged(&format!("{level} {}: {}", event.target, event.message));
    if let Some(sink) = log_sink().filter(|sink| sink.enabled(event.level, &event.target)) {
        sink.log(&event);
    }
    Ok(())
}

fn level(from: &mut Reader<'_>) -> Result<Level, Forged> {
    Ok(match from.byte()? {
        1 => Level::ERROR,
        2 => Level::WARN,
        3 => Level::INFO,
        4 => Level::DEBUG,
        _ => Level::TRACE,
    })
}

/// Reads the target, file and line.
fn place(from: &mut Reader<'_>) -> Result<(String, String, u32), Forged> {
    Ok((from.text()?.to_string(), from.text()?.to_string(), from.number()? as u32))
}

/// Reads the names and values of fields.
pub(super) fn pairs(from: &mut Reader<'_>) -> Result<Vec<(String, String)>, Forged> {
    (0..from.count()?).map(|_| Ok((from.text()?.to_string(), from.text()?.to_string()))).collect()
}
