//! Receives log events and spans from plugins, and passes them to a host sink.

pub use crate::abi::host::tracing_sink::TracingSink;
use crate::metadata::wire::{Fields, tag};
use crate::names::visible::visible_line;
use crate::services::{LogRecord, RawBytes, SpanRecord, level};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// A log event from a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// Level.
    pub level: Level,
    /// Target; the module of origin by default.
    pub target: String,
    /// Source file.
    pub file: String,
    /// Line in the source file.
    pub line: u32,
    /// Message.
    pub message: String,
    /// Names and values of the fields.
    pub fields: Vec<(String, String)>,
}

/// A new span from a plugin.
#[derive(Clone, Debug)]
pub struct LogSpan {
    /// Level.
    pub level: Level,
    /// Name.
    pub name: String,
    /// Target; the module of origin by default.
    pub target: String,
    /// Source file.
    pub file: String,
    /// Line in the source file.
    pub line: u32,
    /// The enclosing span.
    pub parent: Parent,
    /// Names of all fields.
    pub fields: Vec<String>,
    /// Names and values of the fields that have values.
    pub values: Vec<(String, String)>,
}

/// The parent of a span.
#[derive(Clone, Debug)]
pub enum Parent {
    /// The current span of the thread.
    Current,
    /// No parent.
    None,
    /// A span of the same plugin.
    Span(tracing::Span),
}

/// Receives log events and spans from plugins.
pub trait LogSink: Send + Sync {
    /// Returns true if events of this level and target are wanted.
    fn enabled(&self, level: Level, target: &str) -> bool;
    /// Logs an event.
    fn log(&self, event: &LogEvent);
    /// Returns true if spans like this are wanted, regardless of parent and values.
    fn span_enabled(&self, _: &LogSpan) -> bool {
        false
    }
    /// Creates a span of the host.
    fn span(&self, _: &LogSpan) -> tracing::Span {
        tracing::Span::none()
    }
}

static SINK: OnceLock<Box<dyn LogSink>> = OnceLock::new();
/// Highest wanted level; plugins check it before each call.
pub(crate) static MAX_LEVEL: AtomicUsize = AtomicUsize::new(level::NONE as usize);

/// Sets the sink for log events from plugins, and the highest wanted level. Later calls do not replace the sink;
/// change the level with [`set_max_level`].
pub fn set_log_sink(sink: Box<dyn LogSink>, max_level: LevelFilter) {
    let _ = SINK.set(sink);
    set_max_level(max_level);
}

/// Sets the highest wanted level. Call this whenever the host's filter changes.
pub fn set_max_level(level: LevelFilter) {
    MAX_LEVEL.store(level.into_level().map_or(level::NONE, number) as usize, Ordering::Relaxed);
}

/// Returns the highest level that plugins send. Directly after a filter change, it may exceed the wanted level.
pub fn max_level() -> LevelFilter {
    match MAX_LEVEL.load(Ordering::Relaxed) as u32 {
        level::NONE => LevelFilter::OFF,
        highest => LevelFilter::from_level(level(highest)),
    }
}

/// Encodes a level for the boundary.
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
    // SAFETY: guaranteed by the caller.
    lossy(unsafe { bytes.get() })
}

/// Converts a string of an event or span to a single line without control characters, because logs are line-based.
fn lossy(bytes: &[u8]) -> String {
    visible_line(&String::from_utf8_lossy(bytes)).into_owned()
}

/// Decodes names with values, and names without values.
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

/// Returns the sink for log events from plugins.
pub fn log_sink() -> Option<&'static dyn LogSink> {
    sink()
}

pub(in crate::abi) fn sink() -> Option<&'static dyn LogSink> {
    SINK.get().map(Box::as_ref)
}

/// # Safety
/// The bytes live during the call.
pub(crate) unsafe fn wanted(number: u32, target: RawBytes) -> bool {
    // SAFETY: guaranteed by the caller.
    let target = unsafe { text(target) };
    sink().is_some_and(|sink| sink.enabled(level(number), &target))
}

/// # Safety
/// The record and its strings are alive during the call.
pub(crate) unsafe fn take(record: *const LogRecord) {
    let Some(sink) = sink() else { return };
    // SAFETY: guaranteed by the caller.
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
/// The record and its strings are alive during the call.
pub(in crate::abi) unsafe fn span(record: *const SpanRecord, parent: impl FnOnce(u64) -> Parent) -> LogSpan {
    // SAFETY: guaranteed by the caller.
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
