//! `tracing` events of a plugin, forwarded to the host. A plugin has its own copy of `tracing`, and handing a dispatcher
//! over would silently drop every event, so events are written out here and sent as text.

use super::host_log::number;
use super::services;
use super::wire::{put_field, tag};
use std::fmt::Debug;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

struct Forward;

/// Makes the host the subscriber of this copy of `tracing`.
pub(crate) fn forward() {
    // A second call finds the first one's subscriber, which does the same.
    let _ = tracing::subscriber::set_global_default(Forward);
}

#[derive(Default)]
struct Text {
    message: String,
    fields: Vec<u8>,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = if field.name() == "message" { value.to_string() } else { format!("{value:?}") };
        self.put(field, text);
    }
}

impl Text {
    fn put(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            put_field(&mut self.fields, tag::NAME, field.name().as_bytes());
            put_field(&mut self.fields, tag::DEFAULT, value.as_bytes());
        }
    }
}

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        services::log_enabled(number(*metadata.level()), metadata.target())
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        // The host's filter may change, so it is asked each time.
        tracing::subscriber::Interest::sometimes()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        let place = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
        services::log(number(*metadata.level()), metadata.target(), place, &text.message, &text.fields);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
