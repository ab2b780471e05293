//! Log events and spans of a worker, among the host's own.

use super::worker::Worker;
use plugin_api::abi::host::{LogEvent, LogSpan, Parent, log_sink};
use plugin_api::abi::relay::{Forged, Reader};
use std::collections::HashMap;
use tracing::field::display;
use tracing::{Level, Span};

/// Spans of a worker by its numbers, and those that are entered.
#[derive(Default)]
pub(super) struct Spans {
    open: HashMap<u64, Span>,
    entered: Vec<(u64, Span)>,
    /// Calls inside each other.
    depth: usize,
}

/// More spans than these are not kept.
const MOST: usize = 1 << 16;

impl Spans {
    /// A call begins; gives how many are around it.
    pub(super) fn begin(&mut self) -> usize {
        self.depth += 1;
        self.depth - 1
    }

    pub(super) fn end(&mut self, depth: usize) {
        self.depth = depth;
    }

    /// The worker is gone.
    pub(super) fn leave_all(&mut self) {
        while let Some((_, span)) = self.entered.pop() {
            span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
        }
        self.open.clear();
    }

    pub(super) fn enter(&mut self, number: u64) {
        let Some(span) = self.open.get(&number).cloned() else { return };
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

    pub(super) fn record(&self, number: u64, from: &mut Reader<'_>) -> Result<(), Forged> {
        let values = pairs(from)?;
        if let Some(span) = self.open.get(&number) {
            for (name, value) in &values {
                span.record(name.as_str(), display(value));
            }
        }
        Ok(())
    }

    /// Makes a span of the host's for one of the worker.
    pub(super) fn make(&mut self, from: &mut Reader<'_>) -> Result<(), Forged> {
        let number = from.number()?;
        let (level, place) = (level(from)?, place(from)?);
        let name = from.text()?.to_string();
        let parent = match (from.byte()?, from.number()?) {
            (0, _) => Parent::Current,
            (1, _) => Parent::None,
            (_, parent) => self.open.get(&parent).cloned().map_or(Parent::Current, Parent::Span),
        };
        let fields = (0..from.count()?).map(|_| from.text().map(str::to_string)).collect::<Result<_, _>>()?;
        let (target, file, line) = place;
        let span = LogSpan { level, name, target, file, line, parent, fields, values: pairs(from)? };
        let Some(sink) = log_sink().filter(|sink| self.open.len() < MOST && sink.span_enabled(&span)) else {
            return Ok(());
        };
        self.open.insert(number, sink.span(&span));
        Ok(())
    }
}

/// An event of the worker.
pub(super) fn log(worker: &Worker, from: &mut Reader<'_>) -> Result<(), Forged> {
    let level = level(from)?;
    let (target, file, line) = place(from)?;
    let message = from.text()?.to_string();
    let event = LogEvent { level, target, file, line, message, fields: pairs(from)? };
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

/// Target, file, line.
fn place(from: &mut Reader<'_>) -> Result<(String, String, u32), Forged> {
    Ok((from.text()?.to_string(), from.text()?.to_string(), from.number()? as u32))
}

fn pairs(from: &mut Reader<'_>) -> Result<Vec<(String, String)>, Forged> {
    (0..from.count()?).map(|_| Ok((from.text()?.to_string(), from.text()?.to_string()))).collect()
}
