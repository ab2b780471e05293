//! The host as seen by plugin code in a worker: a question is sent as a message, and a report is queued and sent with the next message.

use super::channel::{Channel, Frame};
use super::serve::one_value;
use super::words::{ask, tell};
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OptionValue;
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{InferError, Inferred};
use plugin_api::abi::host::{
    Diagnostic, HostServices, LogEvent, LogSink, LogSpan, TracingSink, Wanted, set_log_sink, set_max_level,
};
use plugin_api::abi::relay::{CallPart, Forged, Known, Reader, Writer, take_evaluated, take_inferred};
use plugin_api::services::evaluation::{Evaluated, EvaluationError, EvaluationLimits};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Objects that both processes share, and the connection to the host.
pub(super) struct Session {
    channel: &'static Channel,
    known: RefCell<Known>,
}

/// Number of messages sent to the host, not counting replies.
static SPOKEN: AtomicU64 = AtomicU64::new(0);

impl Session {
    pub(super) fn new(channel: &'static Channel) -> Session {
        Session { channel, known: RefCell::new(Known::new(false)) }
    }

    pub(super) fn known(&self) -> RefMut<'_, Known> {
        self.known.borrow_mut()
    }

    pub(super) fn spoken(&self) -> u64 {
        SPOKEN.load(Ordering::Relaxed)
    }
}

/// Ends the process because the host has exited. The code of the plugin must not run any more.
fn lost() -> ! {
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    std::process::abort()
}

/// Ends this process if the plugin forked it, because a copy must not send messages in the name of the worker.
pub(super) fn only_the_original() {
    if !crate::process::is_original() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        lost();
    }
}

/// The context of a call, as sent by the host.
pub(super) struct Header {
    pub(super) opt_level: i32,
    run: u64,
    pass: String,
}

impl Header {
    /// Reads the context of a call, if the call has one, and sets the maximum level of log events.
    pub(super) fn take(from: &mut Reader<'_>) -> Result<Option<Header>, Forged> {
        set_max_level(match from.byte()? {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        });
        if from.byte()? == 0 {
            return Ok(None);
        }
        let (opt_level, run) = (from.number()?.cast_signed() as i32, from.number()?);
        Ok(Some(Header { opt_level, run, pass: from.text()?.to_string() }))
    }
}

/// Performs a call that arrives while the worker waits for an answer.
type Nested<'a> = dyn Fn(u8, Option<Header>, &mut Reader<'_>, &mut Writer) -> Result<(), Forged> + 'a;

/// The host during one call. Values that cannot change during the call are requested once.
pub(super) struct Remote<'a> {
    session: &'a Session,
    header: Header,
    nested: &'a Nested<'a>,
    config: RefCell<HashMap<String, Option<OptionValue>>>,
    wanted: RefCell<HashMap<Option<String>, Wanted>>,
    target: Cell<Option<Option<String>>>,
}

impl<'a> Remote<'a> {
    pub(super) fn new(session: &'a Session, header: Header, nested: &'a Nested<'a>) -> Remote<'a> {
        let (config, wanted, target) = Default::default();
        Remote { session, header, nested, config, wanted, target }
    }

    /// Sends a question, and reads the answer.
    fn ask<R>(
        &self,
        what: u8,
        put: impl FnOnce(&mut Known, &mut Writer),
        take: impl FnOnce(&mut Known, &mut Reader<'_>) -> Result<R, Forged>,
    ) -> R {
        SPOKEN.fetch_add(1, Ordering::Relaxed);
        only_the_original();
        let mut out = Writer::of(what);
        put(&mut self.session.known(), &mut out);
        let reply = self.session.channel.send(Frame::Call, out.bytes()).map_err(|_| ()).and_then(|()| self.wait());
        let Ok(reply) = reply else { lost() };
        let mut from = Reader::new(reply.bytes());
        take(&mut self.session.known(), &mut from).unwrap_or_else(|_| lost())
    }

    /// Waits for the answer. Meanwhile, performs the calls that the host makes.
    fn wait(&self) -> Result<plugin_api::abi::relay::Buffer, ()> {
        loop {
            let (frame, buffer) = self.session.channel.wait().map_err(|_| ())?;
            match frame {
                Frame::Reply => return Ok(buffer),
                Frame::Tell => return Err(()),
                Frame::Call => {
                    let mut out = Writer::default();
                    let mut from = Reader::new(buffer.bytes());
                    self.do_nested(&mut from, &mut out).map_err(|_| ())?;
                    only_the_original();
                    self.session.channel.send(Frame::Reply, out.bytes()).map_err(|_| ())?;
                }
            }
        }
    }

    fn do_nested(&self, from: &mut Reader<'_>, out: &mut Writer) -> Result<(), Forged> {
        let what = from.byte()?;
        self.session.known().take_forgotten(from)?;
        let header = Header::take(from)?;
        (self.nested)(what, header, from, out)
    }

    fn tell(&self, out: &Writer) {
        tell_host(self.session.channel, out, false);
    }

    fn diagnostic(&self, what: u8, diagnostic: &Diagnostic<'_>) {
        let mut out = Writer::of(what);
        out.byte(diagnostic.severity as u8);
        out.maybe_text(diagnostic.function);
        out.number(diagnostic.node.map_or(u64::MAX, |node| node as u64));
        out.text(diagnostic.message);
        self.tell(&out);
    }
}

/// Sends a report to the host. Any thread may do so.
fn tell_host(channel: &Channel, out: &Writer, at_once: bool) {
    SPOKEN.fetch_add(1, Ordering::Relaxed);
    if channel.tell(out.bytes(), at_once).is_err() {
        lost();
    }
}

impl HostServices for Remote<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let part = CallPart::of(call)?;
        self.ask(ask::INFER, |known, out| part.put(known, out), |_, from| take_inferred(from))
    }

    fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        let part = CallPart::of(call)?;
        let take = |known: &mut Known, from: &mut Reader<'_>| part.take_legalized(known, from, call);
        self.ask(ask::LEGALIZE, |known, out| part.put(known, out), take)
    }

    fn evaluate(&self, function: &Body, limits: EvaluationLimits) -> Result<Evaluated, EvaluationError> {
        let put = |known: &mut Known, out: &mut Writer| {
            known.put_body(out, function);
            out.number(limits.memory);
            out.number(limits.work);
        };
        self.ask(ask::EVALUATE, put, take_evaluated)
    }

    fn print(&self, body: &Body) -> String {
        self.ask(ask::PRINT, |known, out| known.put_body(out, body), |_, from| from.text().map(str::to_string))
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        if let Some(known) = self.config.borrow().get(key) {
            return known.clone();
        }
        let value = self.ask(ask::CONFIG, |_, out| out.text(key), |_, from| one_value(from));
        self.config.borrow_mut().insert(key.to_string(), value.clone());
        value
    }

    fn put(&self, name: &str, bytes: &[u8]) -> bool {
        // Splits the bytes into messages of a length that every host accepts.
        let one = |bytes: &[u8]| {
            let put = |_: &mut Known, out: &mut Writer| {
                out.text(name);
                out.block(bytes);
            };
            self.ask(ask::PUT, put, |_, from| Ok(from.byte()? != 0))
        };
        if bytes.is_empty() { one(bytes) } else { bytes.chunks(PART).all(one) }
    }

    fn pass_name(&self) -> String {
        self.header.pass.clone()
    }

    fn run(&self) -> Option<u64> {
        Some(self.header.run).filter(|run| *run != 0)
    }

    fn target(&self) -> Option<String> {
        let known = self.target.take();
        let ask = || self.ask(ask::TARGET, |_, _| (), |_, from| Ok(from.maybe_text()?.map(str::to_string)));
        let target = known.unwrap_or_else(ask);
        self.target.set(Some(target.clone()));
        target
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        self.diagnostic(tell::DIAGNOSE, diagnostic);
    }

    fn label(&self, label: &Diagnostic<'_>) {
        self.diagnostic(tell::LABEL, label);
    }

    fn wanted(&self, function: Option<&str>) -> Wanted {
        let key = function.map(str::to_string);
        if let Some(known) = self.wanted.borrow().get(&key) {
            return known.clone();
        }
        let take = |_: &mut Known, from: &mut Reader<'_>| {
            Ok(match from.byte()? {
                0 => Wanted::Nothing,
                1 => Wanted::Missed,
                _ => Wanted::At(from.text()?.to_string()),
            })
        };
        let wanted = self.ask(ask::WANTED, |_, out| out.maybe_text(function), take);
        self.wanted.borrow_mut().insert(key, wanted.clone());
        wanted
    }

    fn statistic(&self, name: &str, n: u64) {
        let mut out = Writer::of(tell::STATISTIC);
        out.text(name);
        out.number(n);
        self.tell(&out);
    }

    fn show_module(&self, module: &Module, header: &str) {
        let mut out = Writer::of(tell::SHOW);
        self.session.known().put_module(&mut out, module);
        out.text(header);
        self.tell(&out);
    }
}

/// Maximum number of bytes of a file in one message.
const PART: usize = 16 << 20;

/// Forwards the log events and spans of this process to the host.
pub(super) fn start_log(channel: &'static Channel) {
    let _ = tracing::subscriber::set_global_default(ToHost { channel, last: AtomicU64::new(0) });
    set_log_sink(Box::new(Sink { channel, spans: TracingSink::default() }), LevelFilter::OFF);
}

/// A log sink that forwards the plugin's events. Only the level is filtered here; the host applies its own filter.
struct Sink {
    channel: &'static Channel,
    spans: TracingSink,
}

impl LogSink for Sink {
    fn enabled(&self, _: Level, _: &str) -> bool {
        true
    }

    fn log(&self, event: &LogEvent) {
        let mut out = Writer::of(tell::LOG);
        out.byte(number(event.level));
        put_place(&mut out, &event.target, &event.file, event.line);
        out.text(&event.message);
        put_pairs(&mut out, &event.fields);
        // Sent at once, because it may be the last event before a crash.
        tell_host(self.channel, &out, true);
    }

    fn span_enabled(&self, _: &LogSpan) -> bool {
        true
    }

    fn span(&self, span: &LogSpan) -> tracing::Span {
        self.spans.span(span)
    }
}

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

fn put_place(out: &mut Writer, target: &str, file: &str, line: u32) {
    out.text(target);
    out.text(file);
    out.number(u64::from(line));
}

fn put_pairs(out: &mut Writer, pairs: &[(String, String)]) {
    out.number(pairs.len() as u64);
    pairs.iter().for_each(|(name, value)| {
        out.text(name);
        out.text(value);
    });
}

/// A subscriber that forwards spans, and events of the host's own code in this process.
struct ToHost {
    channel: &'static Channel,
    last: AtomicU64,
}

/// Names and values of fields.
#[derive(Default)]
struct Values(Vec<(String, String)>);

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push((field.name().to_string(), format!("{value:?}")));
    }
}

impl ToHost {
    fn of_span(&self, what: u8, numbers: &[u64]) {
        let mut out = Writer::of(what);
        numbers.iter().for_each(|number| out.number(*number));
        tell_host(self.channel, &out, false);
    }
}

impl Subscriber for ToHost {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= plugin_api::abi::host::max_level()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let metadata = span.metadata();
        let mut out = Writer::of(tell::SPAN);
        out.number(number);
        out.byte(self::number(*metadata.level()));
        put_place(&mut out, metadata.target(), metadata.file().unwrap_or_default(), metadata.line().unwrap_or(0));
        out.text(metadata.name());
        match (span.parent(), span.is_root()) {
            (Some(parent), _) => {
                out.byte(2);
                out.number(parent.into_u64());
            }
            (None, root) => {
                out.byte(u8::from(root));
                out.number(0);
            }
        }
        let names: Vec<&str> = metadata.fields().iter().map(|field| field.name()).collect();
        out.number(names.len() as u64);
        names.iter().for_each(|name| out.text(name));
        let mut values = Values::default();
        span.record(&mut values);
        put_pairs(&mut out, &values.0);
        tell_host(self.channel, &out, false);
        Id::from_u64(number)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut found = Values::default();
        values.record(&mut found);
        let mut out = Writer::of(tell::RECORD);
        out.number(span.into_u64());
        put_pairs(&mut out, &found.0);
        tell_host(self.channel, &out, false);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.of_span(tell::FOLLOWS, &[span.into_u64(), follows.into_u64()]);
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut values = Values::default();
        event.record(&mut values);
        let (message, fields): (Vec<_>, Vec<_>) = values.0.into_iter().partition(|(name, _)| name == "message");
        let mut out = Writer::of(tell::LOG);
        out.byte(number(*metadata.level()));
        put_place(&mut out, metadata.target(), metadata.file().unwrap_or_default(), metadata.line().unwrap_or(0));
        out.text(message.first().map_or("", |(_, text)| text));
        put_pairs(&mut out, &fields);
        tell_host(self.channel, &out, true);
    }

    fn enter(&self, span: &Id) {
        self.of_span(tell::ENTER, &[span.into_u64()]);
    }

    fn exit(&self, span: &Id) {
        self.of_span(tell::EXIT, &[span.into_u64()]);
    }

    fn try_close(&self, span: Id) -> bool {
        self.of_span(tell::CLOSE, &[span.into_u64()]);
        true
    }
}
