//! Tests events and spans of a plugin in the log of a host whose filter changes.
#![allow(clippy::unwrap_used, reason = "test helpers may panic, which fails the test")]

mod opened;

use opened::host::Host;
use plugin_api::abi::host::*;
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use plugin_api::ir::{AttrsId, Body, BodyBuilder, DType, Module, Type};
use plugin_api::metadata::{Granularity, OptionValue};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl std::io::Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn set_filter(filter: &str) {
    static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();
    let handle = FILTER.get_or_init(|| {
        let (filter, handle) = reload::Layer::new(EnvFilter::new("off"));
        let lines = fmt::layer().without_time().with_ansi(false).with_span_events(FmtSpan::FULL).with_writer(|| ToLog);
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(filter).with(lines)).unwrap();
        set_log_sink(Box::new(TracingSink::default()), tracing::level_filters::LevelFilter::current());
        handle
    });
    handle.reload(EnvFilter::new(filter)).unwrap();
}

/// Serializes the tests, because the log is shared by the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_filter("off");
    LOG.lock().unwrap().clear();
    alone
}

fn lines() -> Vec<String> {
    let text = String::from_utf8(std::mem::take(&mut *LOG.lock().unwrap())).unwrap();
    text.lines().map(|line| line.trim_start().to_string()).collect()
}

/// Returns a host that changes the filter when config options are read.
fn with_filter(filter: &'static str) -> Host {
    let config = move |_: &str| {
        set_filter(filter);
        None
    };
    Host { config: Some(Box::new(config)), ..Host::default() }
}

fn plugin() -> &'static OpenPlugin {
    static PLUGIN: OnceLock<OpenPlugin> = OnceLock::new();
    PLUGIN.get_or_init(|| opened::open("logs").0)
}

fn nothing() -> Module {
    Module::new([] as [(String, Body); 0])
}

fn try_log(host: &Host, what: &str, times: i64) -> Result<Module, RunFailure> {
    let options = [OptionValue::Str(what.into()), OptionValue::Int(times)];
    with_current(host, 2, || plugin().run_module(0, &nothing(), &options))
}

fn log(what: &str) {
    tracing::info_span!("pass", name = what).in_scope(|| try_log(&Host::default(), what, 1).unwrap());
}

/// Removes the lines of host spans.
fn of_the_plugin(lines: Vec<String>) -> Vec<String> {
    let own = |line: &String| !line.contains(": spans: ");
    lines.into_iter().filter(own).collect()
}

#[test]
fn spans_lie_in_those_of_the_host() {
    let _alone = alone();
    set_filter("trace");
    log("all");
    let outer = r#"INFO pass{name="all"}:outer{name="x"}: own:"#;
    let late = r#"pass{name="all"}:outer{name="x" late=7}"#;
    let expected = [
        format!("{outer} new"),
        format!("{outer} enter"),
        r#"INFO pass{name="all"}:outer{name="x"}: logs: in outer"#.to_string(),
        format!("DEBUG {late}:inner: logs: new"),
        format!("DEBUG {late}:inner: logs: enter"),
        format!("INFO {late}:inner: logs: in inner"),
        format!("DEBUG {late}:inner: logs: exit"),
        format!("DEBUG {late}:inner: logs: close"),
        "INFO root: logs: new".to_string(),
        "INFO root: logs: enter".to_string(),
        "INFO root: logs: in root".to_string(),
        "INFO root: logs: exit".to_string(),
        "INFO root: logs: close".to_string(),
        format!("INFO {late}: own: exit"),
        r#"INFO pass{name="all"}: logs: outside"#.to_string(),
        format!("INFO {late}: own: enter"),
        format!("INFO {late}: logs: said of outer"),
        format!("INFO {late}: own: exit"),
        format!("INFO {late}:child: logs: new"),
        format!("INFO {late}:child: logs: enter"),
        format!("INFO {late}:child: logs: exit"),
        format!("INFO {late}:child: logs: close"),
        format!("INFO {late}: own: close"),
    ];
    let found = of_the_plugin(lines());
    assert_eq!(found, expected, "\n{}", found.join("\n"));
}

#[test]
fn spans_know_where_they_are_from() {
    static SEEN: Mutex<Option<String>> = Mutex::new(None);
    struct Place;
    impl tracing::Subscriber for Place {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.is_span()
        }
        fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            let at = span.metadata();
            let file = at.file().unwrap().replace('\\', "/").rsplit('/').next().unwrap().to_string();
            let fields: Vec<_> = at.fields().iter().map(|field| field.name()).collect();
            let place = format!("{} {} {} {file} {fields:?}", at.level(), at.target(), at.name());
            assert!(at.line().unwrap() > 0);
            SEEN.lock().unwrap().get_or_insert(place);
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    let _alone = alone();
    tracing::subscriber::with_default(Place, || try_log(&Host::default(), "all", 1).unwrap());
    assert_eq!(SEEN.lock().unwrap().take().unwrap(), r#"INFO own outer logs.rs ["name", "late"]"#);
}

/// The filter changes in both directions between runs of one opened plugin.
#[test]
fn a_filter_that_changes_applies() {
    let _alone = alone();
    let run = |filter: &str| {
        set_filter(filter);
        log("levels");
        of_the_plugin(lines())
    };
    for _ in 0..2 {
        assert_eq!(run("info"), [""; 0]);
        assert_eq!(max_level(), tracing::level_filters::LevelFilter::INFO, "disabled levels do not reach the host");
        let found = run("debug");
        assert_eq!(found.len(), 6, "{found:?}");
        assert_eq!(found[0], r#"DEBUG pass{name="levels"}: logs: before"#);
        assert_eq!(found[3], r#"DEBUG pass{name="levels"}:a_span: logs: after"#);
        assert_eq!(max_level(), tracing::level_filters::LevelFilter::DEBUG);
        assert_eq!(run("debug,logs=warn"), [""; 0]);
        assert_eq!(run("off"), [""; 0]);
        assert_eq!(max_level(), tracing::level_filters::LevelFilter::OFF);
        // The filter enables a span anywhere, and everything in it.
        let found = run("[a_span]=debug");
        assert!(found.len() == 5 && found[2] == "DEBUG a_span: logs: after", "{found:?}");
    }
}

#[test]
fn a_filter_that_changes_while_a_pass_runs_applies() {
    let _alone = alone();
    let run = |before, after| {
        set_filter(before);
        try_log(&with_filter(after), "levels", 2).unwrap();
        of_the_plugin(lines())
    };
    let up = run("info", "debug");
    assert_eq!(up.iter().filter(|line| line.ends_with("after")).count(), 2, "{up:?}");
    assert_eq!(up.iter().filter(|line| line.ends_with("before")).count(), 1, "{up:?}");
    let down = run("debug", "info");
    assert_eq!(down, ["DEBUG logs: before"]);
}

#[test]
fn what_is_left_open_is_left_at_the_end_of_the_call() {
    let _alone = alone();
    set_filter("info");
    for what in ["forget", "keep", "panic"] {
        let _ = try_log(&Host::default(), what, 3);
        host();
        let found = lines();
        assert_eq!(here(&found), ["INFO "], "{found:?}");
    }
    // The guard of the previous run is dropped in this run, but does not leave a host span.
    tracing::info_span!("pass").in_scope(|| {
        try_log(&Host::default(), "drop", 1).unwrap();
        try_log(&Host::default(), "nothing", 1).unwrap();
        host();
    });
    let found = lines();
    assert_eq!(here(&found), ["INFO pass: "], "{found:?}");
    assert!(found.iter().any(|line| line == "INFO kept: logs: close"), "{found:?}");
    assert!(found.iter().any(|line| line == "INFO pass: logs: nothing"), "{found:?}");
}

/// Logs the current spans of the host; each entered span was left exactly once.
fn host() {
    tracing::info!(target: "host", "here");
}

fn here(found: &[String]) -> Vec<&str> {
    let count = |end: &str| found.iter().filter(|line| line.ends_with(end)).count();
    assert!(count(" enter") > 0 && count(" enter") == count(" exit"), "{found:?}");
    found.iter().filter_map(|line| line.strip_suffix("host: here")).collect()
}

#[test]
fn what_a_checker_leaves_open_is_left_at_its_end() {
    let _alone = alone();
    set_filter("info");
    let ty = Type::tensor([2], DType::F32);
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let id = b.ty(&ty);
    let x = b.param("x", id);
    b.end_function(x, id);
    let body = b.finish().unwrap();
    with_current(&Host::default(), 2, || plugin().check_property(0, ("main", &body))).unwrap();
    host();
    assert_eq!(here(&lines()), ["INFO "]);
}

fn pass(name: &str) -> PassFacts<'_> {
    PassFacts::new(name, "p", Granularity::Module, 0, &[], 1)
}

/// A span entered in `run_before` encloses the pass, and a span entered in `enter` encloses the run.
#[test]
fn an_instrument_can_have_a_span_around_a_pass() {
    let _alone = alone();
    set_filter("info");
    with_current(&Host::default(), 2, || {
        let mut spans = plugin().make_instrument(0, &[]).unwrap();
        spans.enter().unwrap();
        host();
        spans.run_before(&nothing(), &pass("p.Outer")).unwrap();
        spans.run_before(&nothing(), &pass("p.Inner")).unwrap();
        plugin().run_module(0, &nothing(), &[OptionValue::Str("forget".into()), OptionValue::Int(1)]).unwrap();
        host();
        spans.run_after(&nothing(), &pass("p.Inner")).unwrap();
        host();
        spans.run_after(&nothing(), &pass("p.Outer")).unwrap();
        host();
        spans.exit().unwrap();
        host();
    });
    let found = lines();
    let (outer, inner) = (r#"INFO of_enter:of_pass{name="p.Outer"}: "#, r#"of_pass{name="p.Inner"}: "#);
    let inner = format!("{}:{inner}", outer.trim_end_matches(": "));
    assert_eq!(here(&found), ["INFO of_enter: ", &inner, outer, "INFO of_enter: ", "INFO "], "{found:?}");
    assert!(found.contains(&format!("{inner}logs: after")), "{found:?}");
}

#[test]
fn what_an_instrument_leaves_open_is_left() {
    let _alone = alone();
    set_filter("info");
    let make = |panics: &str| {
        let made = plugin().make_instrument(1, &[OptionValue::List([OptionValue::Str(panics.into())].into())]);
        host();
        made.unwrap()
    };
    let of_pass = |name| format!("INFO of_enter:of_pass{{name=\"{name}\"}}: ");
    with_current(&Host::default(), 2, || {
        let mut forgets = make("");
        forgets.enter().unwrap();
        for name in ["p.One", "p.Two"] {
            forgets.should_run(&nothing(), &pass(name)).unwrap();
            host();
            forgets.run_before(&nothing(), &pass(name)).unwrap();
            host();
            match name {
                "p.One" => forgets.run_after(&nothing(), &pass(name)).unwrap(),
                _ => forgets.run_failed(&nothing(), &pass(name), "why").unwrap(),
            }
            host();
        }
        forgets.exit().unwrap();
        host();
        forgets.close().unwrap();
        host();
    });
    let run = "INFO of_enter: ";
    let expected = ["INFO ", run, &of_pass("p.One"), run, run, &of_pass("p.Two"), run, "INFO ", "INFO "];
    let found = lines();
    assert_eq!(here(&found), expected, "{found:?}");
    // After a panic, the event that matches `run_before` is never sent. The same holds for a dropped instrument.
    with_current(&Host::default(), 2, || {
        let mut forgets = make("p.Two");
        forgets.enter().unwrap();
        forgets.run_before(&nothing(), &pass("p.One")).unwrap();
        forgets.run_before(&nothing(), &pass("p.Two")).unwrap_err();
        host();
        let mut forgets = make("");
        forgets.enter().unwrap();
        drop(forgets);
        host();
    });
    let found = lines();
    assert_eq!(here(&found), ["INFO "; 4], "{found:?}");
}

#[test]
fn what_a_thread_leaves_open_is_left_when_it_ends() {
    let _alone = alone();
    set_filter("info");
    log("thread");
    let found = lines();
    let place = r#"INFO pass{name="thread"}:of_the_run:of_the_thread: logs:"#;
    assert!(found.contains(&format!("{place} on a thread")), "{found:?}");
    assert!(found.contains(&format!("{place} exit")), "{found:?}");
    // A new thread may reuse the number of an old thread.
    for _ in 0..4 {
        std::thread::spawn(|| tracing::info!(target: "host", "here")).join().unwrap();
    }
    assert_eq!(lines(), ["INFO host: here"; 4]);
}
