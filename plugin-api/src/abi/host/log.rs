//! Where log events and spans of plugins go: to a sink of the host.

pub use crate::abi::host::tracing_sink::TracingSink;
use crate::metadata::wire::{Fields, tag};
use crate::names::visible::visible_line;
use crate::services::{LogRecord, RawBytes, SpanRecord, level};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// An event of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// Level.
    pub level: Level,
    /// Target, by default the module that it comes from.
    pub target: String,
    /// Source file.
    pub file: String,
    /// Line in it.
    pub line: u32,
    /// Message.
    pub message: String,
    /// Names and values of the fields.
    pub fields: Vec<(String, String)>,
}

/// A new span of a plugin.
#[derive(Clone, Debug)]
pub struct LogSpan {
    /// Level.
    pub level: Level,
    /// Name.
    pub name: String,
    /// Target, by default the module that it comes from.
    pub target: String,
    /// Source file.
    pub file: String,
    /// Line in it.
    pub line: u32,
    /// What it lies in.
    pub parent: Parent,
    /// Names of all fields.
    pub fields: Vec<String>,
    /// Names and values of the fields that have one.
    pub values: Vec<(String, String)>,
}

/// What a span lies in.
#[derive(Clone, Debug)]
pub enum Parent {
    /// In the one that is current on the thread.
    Current,
    /// In none.
    None,
    /// In another one of the same plugin.
    Span(tracing::Span),
}

/// Takes log events and spans of plugins.
pub trait LogSink: Send + Sync {
    /// Whether an event of this level and target is wanted.
    fn enabled(&self, level: Level, target: &str) -> bool;
    /// Takes an event.
    fn log(&self, event: &LogEvent);
    /// Whether a span like this is wanted, whatever its parent and values.
    fn span_enabled(&self, _: &LogSpan) -> bool {
        false
    }
    /// Makes a span of the host's.
    fn span(&self, _: &LogSpan) -> tracing::Span {
        tracing::Span::none()
    }
}

static SINK: OnceLock<Box<dyn LogSink>> = OnceLock::new();
/// Highest level that anyone wants; plugins look at it before they call.
pub(crate) static MAX_LEVEL: AtomicUsize = AtomicUsize::new(level::NONE as usize);

/// Sets where log events of plugins go, and the highest level that is wanted. The first sink stays, the level can be
/// set again with [`set_max_level`].
pub fn set_log_sink(sink: Box<dyn LogSink>, max_level: LevelFilter) {
    let _ = SINK.set(sink);
    set_max_level(max_level);
}

/// Sets the highest level that is wanted; to be called whenever the host's filter changes.
pub fn set_max_level(level: LevelFilter) {
    MAX_LEVEL.store(level.into_level().map_or(level::NONE, number) as usize, Ordering::Relaxed);
}

/// The highest level that plugins send. Just after a change of the filter it can be higher than what is wanted.
pub fn max_level() -> LevelFilter {
    match MAX_LEVEL.load(Ordering::Relaxed) as u32 {
        level::NONE => LevelFilter::OFF,
        highest => LevelFilter::from_level(level(highest)),
    }
}

/// How a level crosses the boundary.
pub(crate) fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => level::ERROR,
        Level::WARN => level::WARN,
        Level::INFO => level::INFO,
        Level::DEBUG => level::DEBUG,
        Level::TRACE => level::TRACE,
    }
}

fn level(number: u32) -> Level {
    match number {
        level::NONE | level::ERROR => Level::ERROR,
        level::WARN => Level::WARN,
        level::INFO => Level::INFO,
        level::DEBUG => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// # Safety
/// The bytes live during the call.
unsafe fn text(bytes: RawBytes) -> String {
    // SAFETY: the caller vouches for the bytes.
    lossy(unsafe { bytes.get() })
}

/// Every text of an event or span, on one line and without what would act on a terminal: a log has a line for each event.
fn lossy(bytes: &[u8]) -> String {
    visible_line(&String::from_utf8_lossy(bytes)).into_owned()
}

/// Names with values, and names alone.
pub(in crate::abi) fn fields(bytes: &[u8]) -> (Vec<(String, String)>, Vec<String>) {
    let (mut values, mut names) = (Vec::new(), Vec::new());
    let mut all = Fields::new(bytes).filter_map(Result::ok).peekable();
    while let Some((_, name)) = all.next() {
        match all.next_if(|(what, _)| *what == tag::DEFAULT) {
            Some((_, value)) => values.push((lossy(name), lossy(value))),
            None => names.push(lossy(name)),
        }
    }
    (values, names)
}

/// Where log events of plugins go.
pub fn log_sink() -> Option<&'static dyn LogSink> {
    sink()
}

pub(in crate::abi) fn sink() -> Option<&'static dyn LogSink> {
    SINK.get().map(Box::as_ref)
}

/// # Safety
/// The bytes live during the call.
pub(crate) unsafe fn wanted(number: u32, target: RawBytes) -> bool {
    // SAFETY: the caller vouches for the bytes.
    let target = unsafe { text(target) };
    sink().is_some_and(|sink| sink.enabled(level(number), &target))
}

/// # Safety
/// The record and its texts live during the call.
pub(crate) unsafe fn take(record: *const LogRecord) {
    let Some(sink) = sink() else { return };
    // SAFETY: the caller vouches for the record.
    let event = unsafe {
        let record = &*record;
        LogEvent {
            level: level(record.level),
            target: text(record.target),
            file: text(record.file),
            line: record.line,
            message: text(record.message),
            fields: fields(record.fields.get()).0,
        }
    };
    sink.log(&event);
}

/// # Safety
/// The record and its texts live during the call.
pub(in crate::abi) unsafe fn span(record: *const SpanRecord, parent: impl FnOnce(u64) -> Parent) -> LogSpan {
    // SAFETY: the caller vouches for the record.
    unsafe {
        let record = &*record;
        let (values, fields) = fields(record.fields.get());
        LogSpan {
            level: level(record.level),
            name: text(record.name),
            target: text(record.target),
            file: text(record.file),
            line: record.line,
            parent: parent(record.parent),
            fields,
            values,
        }
    }
}
