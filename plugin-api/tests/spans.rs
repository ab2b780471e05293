//! Events and spans of a plugin in the log of a host, whose filter changes.
#![allow(clippy::unwrap_used, reason = "helpers of tests; a test that cannot go on stops")]

mod opened;

use plugin_api::abi::host::*;
use plugin_api::ir::{Body, Call, Module};
use plugin_api::meta::OptionValue;
use plugin_api::op::{InferError, Inferred};
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

/// The log is the process's: one test at a time.
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

/// Changes the filter when it is asked.
#[derive(Default)]
struct Host {
    filter: Option<&'static str>,
}

impl HostServices for Host {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        Err(InferError::NoHost(call.op().unwrap_or_default().to_string()))
    }
    fn print(&self, _: &Body) -> String {
        String::new()
    }
    fn config(&self, _: &str) -> Option<OptionValue> {
        self.filter.iter().for_each(|filter| set_filter(filter));
        None
    }
    fn pass_name(&self) -> String {
        "logs.Log".to_string()
    }
    fn target(&self) -> Option<String> {
        None
    }
    fn diagnose(&self, _: &Diagnostic<'_>) {}
}

fn try_log(host: &Host, what: &str, times: i64) -> Result<Module, RunFailure> {
    static PLUGIN: OnceLock<OpenPlugin> = OnceLock::new();
    let plugin = PLUGIN.get_or_init(|| opened::open("logs").0);
    let options = [OptionValue::Str(what.into()), OptionValue::Int(times)];
    let module = Module::new([] as [(String, Body); 0]);
    with_current(host, 2, || plugin.run_module(0, &module, &options))
}

fn log(what: &str) {
    tracing::info_span!("pass", name = what).in_scope(|| try_log(&Host::default(), what, 1).unwrap());
}

/// What happens in the spans of the host is not told here.
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

/// In both directions, for one opened plugin, between two runs.
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
        // A span that is wanted wherever it stands, with all that is said in it.
        let found = run("[a_span]=debug");
        assert!(found.len() == 5 && found[2] == "DEBUG a_span: logs: after", "{found:?}");
    }
}

#[test]
fn a_filter_that_changes_while_a_pass_runs_applies() {
    let _alone = alone();
    let run = |before, after| {
        set_filter(before);
        try_log(&Host { filter: Some(after) }, "levels", 2).unwrap();
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
    let host = || tracing::info!(target: "host", "here");
    let here = |lines: Vec<String>| lines.into_iter().filter(|line| line.contains("host: here")).collect::<Vec<_>>();
    for what in ["forget", "keep", "panic"] {
        let _ = try_log(&Host::default(), what, 3);
        host();
        let found = lines();
        assert_eq!(here(found.clone()), ["INFO host: here"], "{found:?}");
        let count = |end: &str| found.iter().filter(|line| line.ends_with(end)).count();
        assert!(count(" enter") > 0 && count(" enter") == count(" exit"), "{found:?}");
    }
    // The guard of the run before is dropped in this one, and a span of the host is not mistaken for its.
    tracing::info_span!("pass").in_scope(|| {
        try_log(&Host::default(), "drop", 1).unwrap();
        try_log(&Host::default(), "nothing", 1).unwrap();
        host();
    });
    let found = lines();
    assert_eq!(here(found.clone()), ["INFO pass: host: here"], "{found:?}");
    assert!(found.iter().any(|line| line == "INFO kept: logs: close"), "{found:?}");
    assert!(found.iter().any(|line| line == "INFO pass: logs: nothing"), "{found:?}");
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
    // A new thread may get the number of the old one.
    for _ in 0..4 {
        std::thread::spawn(|| tracing::info!(target: "host", "here")).join().unwrap();
    }
    assert_eq!(lines(), ["INFO host: here"; 4]);
}
