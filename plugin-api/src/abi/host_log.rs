//! Where log events of plugins go: to the host's `tracing`, with level, target, file, line, message and fields.

use super::services::{LogRecord, RawBytes};
use super::wire::Fields;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing::field::{FieldSet, Value, display};
use tracing::level_filters::LevelFilter;
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, callsite};

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

/// Takes log events of plugins.
pub trait LogSink: Send + Sync {
    /// Whether an event of this level and target is wanted.
    fn enabled(&self, level: Level, target: &str) -> bool;
    /// Takes an event.
    fn log(&self, event: &LogEvent);
}

static SINK: OnceLock<Box<dyn LogSink>> = OnceLock::new();
/// Highest level that anyone wants; plugins look at it before they call.
pub(crate) static MAX_LEVEL: AtomicUsize = AtomicUsize::new(0);

/// Sets where log events of plugins go, and the highest level that is wanted. The first sink stays, the level can be
/// set again with [`set_max_level`].
pub fn set_log_sink(sink: Box<dyn LogSink>, max_level: LevelFilter) {
    let _ = SINK.set(sink);
    set_max_level(max_level);
}

/// Sets the highest level that is wanted; to be called whenever the host's filter changes.
pub fn set_max_level(level: LevelFilter) {
    MAX_LEVEL.store(level.into_level().map_or(0, |level| number(level) as usize), Ordering::Relaxed);
}

/// 1 error … 5 trace.
pub(crate) fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

fn level(number: u32) -> Level {
    match number {
        0 | 1 => Level::ERROR,
        2 => Level::WARN,
        3 => Level::INFO,
        4 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// # Safety
/// The bytes live during the call.
unsafe fn text(bytes: RawBytes) -> String {
    // SAFETY: the caller vouches for the bytes.
    String::from_utf8_lossy(unsafe { bytes.get() }).into_owned()
}

/// # Safety
/// The bytes live during the call.
pub(crate) unsafe fn wanted(number: u32, target: RawBytes) -> bool {
    // SAFETY: the caller vouches for the bytes.
    let target = String::from_utf8_lossy(unsafe { target.get() });
    SINK.get().is_some_and(|sink| sink.enabled(level(number), &target))
}

/// # Safety
/// The record and its texts live during the call.
pub(crate) unsafe fn take(record: *const LogRecord) {
    let Some(sink) = SINK.get() else { return };
    // SAFETY: the caller vouches for the record.
    let event = unsafe {
        let record = &*record;
        let fields: Vec<&[u8]> = Fields::new(record.fields.get()).filter_map(|field| Some(field.ok()?.1)).collect();
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        LogEvent {
            level: level(record.level),
            target: text(record.target),
            file: text(record.file),
            line: record.line,
            message: text(record.message),
            fields: fields.as_chunks::<2>().0.iter().map(|[name, value]| (lossy(name), lossy(value))).collect(),
        }
    };
    sink.log(&event);
}

/// Hands events to the host's own `tracing`.
///
/// A callsite of `tracing` lives as long as the process, so one is leaked for each place in a plugin that logs.
#[derive(Default)]
pub struct TracingSink {
    places: Mutex<HashMap<PlaceKey, &'static Place>>,
}

/// Level, target, file, line, names of the fields.
type PlaceKey = (Level, String, String, u32, Vec<String>);

/// `tracing` takes the values of an event as an array, so its length is fixed. More fields go into the message.
const MOST_FIELDS: usize = 16;

struct Place {
    metadata: OnceLock<Metadata<'static>>,
}

impl callsite::Callsite for Place {
    // The host's filter is asked for each event, in `enabled`.
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.metadata.get().expect("set before the callsite is known to anyone")
    }
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_string().into_boxed_str())
}

impl Place {
    fn new((level, target, file, line, names): &PlaceKey) -> &'static Place {
        let place: &'static Place = Box::leak(Box::new(Place { metadata: OnceLock::new() }));
        let mut fields = vec!["message"];
        fields.extend(names.iter().map(|name| leak(name)));
        let fields = FieldSet::new(Vec::leak(fields), callsite::Identifier(place));
        let (file, line) = (Some(leak(file)), Some(*line));
        let _ = place.metadata.set(Metadata::new(
            "event of a plugin",
            leak(target),
            *level,
            file,
            line,
            None,
            fields,
            Kind::EVENT,
        ));
        callsite::register(place);
        place
    }
}

impl LogSink for TracingSink {
    fn enabled(&self, level: Level, target: &str) -> bool {
        let key = (level, target.to_string(), String::new(), 0, Vec::new());
        level <= LevelFilter::current() && self.place(key).enabled()
    }

    fn log(&self, event: &LogEvent) {
        let (shown, rest) = event.fields.split_at(event.fields.len().min(MOST_FIELDS - 1));
        let names = shown.iter().map(|(name, _)| name.clone()).collect();
        let place = self.place((event.level, event.target.clone(), event.file.clone(), event.line, names));
        let mut message = event.message.clone();
        rest.iter().for_each(|(name, value)| message.push_str(&format!(" {name}={value}")));
        let metadata = callsite::Callsite::metadata(place);
        let texts: Vec<_> = [&message].into_iter().chain(shown.iter().map(|(_, value)| value)).map(display).collect();
        let fields: Vec<_> = metadata.fields().iter().collect();
        let Some(first) = fields.first() else { return };
        let value = |i: usize| texts.get(i).map(|text| text as &dyn Value);
        let values: [_; MOST_FIELDS] = std::array::from_fn(|i| (fields.get(i).unwrap_or(first), value(i)));
        Event::dispatch(metadata, &metadata.fields().value_set(&values));
    }
}

impl Place {
    fn enabled(&'static self) -> bool {
        tracing::dispatcher::get_default(|current| current.enabled(callsite::Callsite::metadata(self)))
    }
}

impl TracingSink {
    fn place(&self, key: PlaceKey) -> &'static Place {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(key).or_insert_with_key(Place::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};

    /// Writes events down; wants what is not of target `quiet`.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl Visit for Lines {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0.lock().expect("lines").push(format!("{}={value:?}", field.name()));
        }
    }

    impl tracing::Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() != "quiet"
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let at = event.metadata();
            let place = format!("{} {} {:?}:{:?}", at.level(), at.target(), at.file(), at.line());
            self.0.lock().expect("lines").push(place);
            event.record(&mut self.clone());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn event(n_fields: usize) -> LogEvent {
        let fields = (0..n_fields).map(|i| (format!("f{i}"), format!("\"v{i}\""))).collect();
        let (target, file, message) = ("a::b".to_string(), "b.rs".to_string(), "done".to_string());
        LogEvent { level: Level::WARN, target, file, line: 7, message, fields }
    }

    #[test]
    fn events_reach_the_subscriber_of_the_host() {
        let (lines, sink) = (Lines::default(), TracingSink::default());
        tracing::subscriber::with_default(lines.clone(), || {
            assert!(sink.enabled(Level::WARN, "a::b"));
            assert!(!sink.enabled(Level::WARN, "quiet"));
            sink.log(&event(2));
            sink.log(&event(2));
            sink.log(&event(40));
        });
        let lines = lines.0.lock().expect("lines").clone();
        let first = ["WARN a::b Some(\"b.rs\"):Some(7)", "message=done", "f0=\"v0\"", "f1=\"v1\""];
        assert_eq!(lines[..4], first);
        assert_eq!(lines[4..8], first);
        assert!(lines[9].starts_with("message=done f15=\"v15\"") && lines[9].ends_with("f39=\"v39\""), "{}", lines[9]);
        assert_eq!(lines.len(), 9 + 16);
    }
}
