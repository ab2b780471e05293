//! Forwards `tracing` events and spans of a plugin to the host. A plugin has its own copy of `tracing`, and a
//! dispatcher passed to it would silently drop everything, so events and spans are sent as text. Only the host
//! tracks the current span; it also leaves forgotten spans.

use crate::abi::host::log::number;
use crate::metadata::wire::{put_field, tag};
use crate::services::{self, NO_SPAN, RawBytes, SpanOp, SpanRecord, parent};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_core::span::Current;

/// The handles of a span in this plugin.
struct Open {
    handles: usize,
    metadata: &'static Metadata<'static>,
}

#[derive(Default)]
struct Forward {
    open: Mutex<HashMap<u64, Open>>,
}

/// The number of a span that the host does not want.
const UNWANTED: u64 = u64::MAX;

/// Makes the host the subscriber for this copy of `tracing`.
pub(crate) fn forward() {
    // On a second call, an equivalent subscriber is already set.
    let _ = tracing::subscriber::set_global_default(Forward::default());
}

/// The values of an event or span, in their boundary form.
#[derive(Default)]
pub(super) struct Text {
    /// True for an event, whose field `message` is special.
    pub(super) event: bool,
    pub(super) message: String,
    pub(super) fields: Vec<u8>,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let plain = self.event && field.name() == "message";
        self.put(field, if plain { value.to_string() } else { format!("{value:?}") });
    }
}

impl Text {
    fn put(&mut self, field: &Field, value: String) {
        if self.event && field.name() == "message" {
            self.message = value;
        } else {
            put_field(&mut self.fields, tag::NAME, field.name().as_bytes());
            put_field(&mut self.fields, tag::DEFAULT, value.as_bytes());
        }
    }
}

/// Calls `f` with a span with these values.
pub(super) fn describe<R>(
    metadata: &Metadata<'_>,
    parent: u64,
    mut values: Vec<u8>,
    f: impl FnOnce(&SpanRecord) -> R,
) -> R {
    for field in metadata.fields() {
        put_field(&mut values, tag::NAME, field.name().as_bytes());
    }
    let bytes = |text: &str| RawBytes::of(text.as_bytes());
    f(&SpanRecord {
        level: number(*metadata.level()),
        line: metadata.line().unwrap_or(0),
        parent,
        name: bytes(metadata.name()),
        target: bytes(metadata.target()),
        file: bytes(metadata.file().unwrap_or("")),
        fields: RawBytes::of(&values),
    })
}

impl Forward {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = number(*metadata.level());
        if metadata.is_span() {
            return services::level_wanted(level)
                && describe(metadata, parent::CURRENT, Vec::new(), services::span_wanted);
        }
        services::log_enabled(level, metadata.target())
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        // The host's filter may change, so it is evaluated each time.
        tracing::subscriber::Interest::sometimes()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text::default();
        span.record(&mut text);
        let parent = match span.parent() {
            Some(parent) => parent.into_u64(),
            None if span.is_root() => parent::NONE,
            None => parent::CURRENT,
        };
        match describe(span.metadata(), parent, text.fields, services::span_new) {
            NO_SPAN => Id::from_u64(UNWANTED),
            id => {
                self.open().insert(id, Open { handles: 1, metadata: span.metadata() });
                Id::from_u64(id)
            }
        }
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut text = Text::default();
        values.record(&mut text);
        services::span_record(span.into_u64(), &text.fields);
    }

    fn record_follows_from(&self, span: &Id, other: &Id) {
        services::span(span.into_u64(), SpanOp::Follows, other.into_u64());
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text { event: true, ..Text::default() };
        event.record(&mut text);
        let metadata = event.metadata();
        let place = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
        let log = || services::log(number(*metadata.level()), metadata.target(), place, &text.message, &text.fields);
        match event.parent() {
            None => log(),
            Some(parent) => {
                // The host takes its current span as the parent of an event, so enter the parent first.
                self.enter(parent);
                log();
                self.exit(parent);
            }
        }
    }

    fn enter(&self, span: &Id) {
        services::span(span.into_u64(), SpanOp::Enter, 0);
    }

    fn exit(&self, span: &Id) {
        services::span(span.into_u64(), SpanOp::Exit, 0);
    }

    fn clone_span(&self, span: &Id) -> Id {
        if let Some(open) = self.open().get_mut(&span.into_u64()) {
            open.handles += 1;
        }
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let id = span.into_u64();
        let mut all = self.open();
        let Some(open) = all.get_mut(&id) else { return false };
        open.handles -= 1;
        if open.handles > 0 {
            return false;
        }
        all.remove(&id);
        // Releases the lock first, because the host may take long to close the span.
        drop(all);
        services::span(id, SpanOp::Close, 0);
        true
    }

    fn current_span(&self) -> Current {
        let id = services::span(0, SpanOp::Current, 0);
        match self.open().get(&id) {
            Some(open) => Current::new(Id::from_u64(id), open.metadata),
            None => Current::none(),
        }
    }
}
