//! `tracing` events of a plugin, forwarded to the host. A plugin has its own copy of `tracing`, and handing a dispatcher
//! over would silently drop every event, so events are written out here and sent as text.

use super::services;
use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

struct Forward;

/// Makes the host the subscriber of this copy of `tracing`.
pub(crate) fn forward() {
    // A second call finds the first one's subscriber, which does the same.
    let _ = tracing::subscriber::set_global_default(Forward);
}

fn number(level: &Level) -> u32 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        services::log_enabled(number(metadata.level()), metadata.target())
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
        text.message.push_str(&text.fields);
        let metadata = event.metadata();
        let (file, line) = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
        services::log(number(metadata.level()), metadata.target(), file, line, &text.message);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
