//! Forwards plugin events and spans to the host's `tracing`.

use crate::abi::host::log::{LogEvent, LogSink, LogSpan, Parent, set_max_level};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing::field::{Field, FieldSet, Value, display};
use tracing::level_filters::LevelFilter;
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Span, callsite};

/// Forwards events and spans to the host's `tracing`, and keeps the highest wanted level up to date.
///
/// A callsite of `tracing` lives as long as the process, so one callsite is leaked per logging place in a
/// plugin.
pub struct TracingSink {
    places: Mutex<HashMap<PlaceKey, &'static Place>>,
}

impl Default for TracingSink {
    fn default() -> TracingSink {
        static WATCHED: OnceLock<()> = OnceLock::new();
        WATCHED.get_or_init(|| callsite::register(&WATCH));
        TracingSink { places: Mutex::default() }
    }
}

/// A callsite without events. Like any callsite, it is notified of filter changes.
struct Watch;

static WATCH: Watch = Watch;
static WATCH_METADATA: Metadata<'static> = Metadata::new(
    "filter of the host",
    module_path!(),
    Level::ERROR,
    None,
    None,
    None,
    FieldSet::new(&[], callsite::Identifier(&WATCH)),
    Kind::HINT,
);

/// True if the filter has changed since the highest level was set.
static CHANGED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SETTING: Cell<bool> = const { Cell::new(false) };
}

impl callsite::Callsite for Watch {
    fn set_interest(&self, _: Interest) {
        if SETTING.get() {
            return;
        }
        // `tracing` has not updated its highest level yet. Until `follow_filter` runs, plugins send everything.
        CHANGED.store(true, Ordering::SeqCst);
        set_max_level(LevelFilter::TRACE);
    }

    fn metadata(&self) -> &Metadata<'_> {
        &WATCH_METADATA
    }
}

/// Updates the highest level if the filter has changed.
fn follow_filter() {
    if CHANGED.load(Ordering::Relaxed) && CHANGED.swap(false, Ordering::SeqCst) {
        SETTING.set(true);
        // The thread that changed the filter may not have set the highest level yet, so set it here.
        callsite::rebuild_interest_cache();
        SETTING.set(false);
        set_max_level(LevelFilter::current());
        if CHANGED.load(Ordering::SeqCst) {
            // The filter changed again meanwhile.
            set_max_level(LevelFilter::TRACE);
        }
    }
}

/// Name of a span, level, target, file, line, names of the fields.
type PlaceKey = (Option<String>, Level, String, String, u32, Vec<String>);

/// Maximum number of fields. `tracing` takes values as an array of fixed length.
const MOST_FIELDS: usize = 32;

struct Place {
    metadata: OnceLock<Metadata<'static>>,
}

impl callsite::Callsite for Place {
    // The interest is not cached: the host's filter is evaluated for each event and span.
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.metadata.get().expect("set before the callsite is known to anyone")
    }
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_string().into_boxed_str())
}

impl Place {
    fn new((span, level, target, file, line, names): &PlaceKey) -> &'static Place {
        let place: &'static Place = Box::leak(Box::new(Place { metadata: OnceLock::new() }));
        let mut fields: Vec<&'static str> = if span.is_none() { vec!["message"] } else { Vec::new() };
        fields.extend(names.iter().map(|name| leak(name)));
        let fields = FieldSet::new(Vec::leak(fields), callsite::Identifier(place));
        let (file, line, target) = (Some(leak(file)), Some(*line), leak(target));
        let (name, kind) = match span {
            Some(name) => (leak(name), Kind::SPAN),
            None => ("event of a plugin", Kind::EVENT),
        };
        let _ = place.metadata.set(Metadata::new(name, target, *level, file, line, None, fields, kind));
        callsite::register(place);
        place
    }

    fn metadata(&'static self) -> &'static Metadata<'static> {
        self.metadata.get().expect("set before the callsite is known to anyone")
    }

    fn enabled(&'static self) -> bool {
        tracing::dispatcher::get_default(|current| current.enabled(self.metadata()))
    }

    /// Calls `f` with fields and their values in `tracing`'s form. Without fields, the values are ignored.
    fn with_values<R>(&'static self, values: &[(&str, &str)], f: impl FnOnce(&tracing::field::ValueSet<'_>) -> R) -> R {
        let fields = self.metadata().fields();
        let own: Vec<Field> = fields.iter().collect();
        let Some(first) = own.first() else { return f(&fields.value_set(&[])) };
        let of = |field: &Field| values.iter().find(|(name, _)| *name == field.name()).map(|(_, value)| display(value));
        let texts: Vec<_> = own.iter().map(of).collect();
        let value = |i: usize| texts.get(i)?.as_ref().map(|text| text as &dyn Value);
        let array: [_; MOST_FIELDS] = std::array::from_fn(|i| (own.get(i).unwrap_or(first), value(i)));
        f(&fields.value_set(&array))
    }
}

impl TracingSink {
    fn place(&self, key: PlaceKey) -> &'static Place {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.entry(key).or_insert_with_key(Place::new)
    }

    /// Returns the place of a span. Fields beyond the maximum are omitted.
    fn span_place(&self, span: &LogSpan) -> &'static Place {
        let names = span.fields.iter().take(MOST_FIELDS).cloned().collect();
        let name = Some(span.name.clone());
        self.place((name, span.level, span.target.clone(), span.file.clone(), span.line, names))
    }
}

impl LogSink for TracingSink {
    fn enabled(&self, level: Level, target: &str) -> bool {
        follow_filter();
        let key = (None, level, target.to_string(), String::new(), 0, Vec::new());
        level <= LevelFilter::current() && self.place(key).enabled()
    }

    fn log(&self, event: &LogEvent) {
        // Further fields are added to the message.
        let (shown, rest) = event.fields.split_at(event.fields.len().min(MOST_FIELDS - 1));
        let names = shown.iter().map(|(name, _)| name.clone()).collect();
        let place = self.place((None, event.level, event.target.clone(), event.file.clone(), event.line, names));
        let mut message = event.message.clone();
        rest.iter().for_each(|(name, value)| message.push_str(&format!(" {name}={value}")));
        let shown = shown.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let values: Vec<(&str, &str)> = [("message", message.as_str())].into_iter().chain(shown).collect();
        place.with_values(&values, |values| Event::dispatch(place.metadata(), values));
    }

    fn span_enabled(&self, span: &LogSpan) -> bool {
        follow_filter();
        span.level <= LevelFilter::current() && self.span_place(span).enabled()
    }

    fn span(&self, span: &LogSpan) -> Span {
        let place = self.span_place(span);
        let values: Vec<_> = span.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        place.with_values(&values, |values| match &span.parent {
            Parent::Current => Span::new(place.metadata(), values),
            Parent::None => Span::new_root(place.metadata(), values),
            Parent::Span(parent) => Span::child_of(parent.id(), place.metadata(), values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};

    /// Records events. Accepts all events except those with target `quiet`.
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
        assert!(lines[9].starts_with("message=done f31=\"v31\"") && lines[9].ends_with("f39=\"v39\""), "{}", lines[9]);
        assert_eq!(lines.len(), 9 + MOST_FIELDS);
    }
}
