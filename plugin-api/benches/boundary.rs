//! Measures calls across the boundary, log events and spans: `cargo bench -p passhost-plugin-api --bench boundary`.
#![allow(clippy::unwrap_used, reason = "test helpers may panic, which fails the test")]

#[path = "../tests/opened/mod.rs"]
mod opened;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use opened::host::Host;
use plugin_api::abi::host::*;
use plugin_api::ir::records::kind;
use plugin_api::ir::{AttrsId, Body, BodyBuilder, DType, Module, NodeSpec, Type};
use plugin_api::metadata::{OptionValue, PluginMeta};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, fmt, reload};

/// `f(x) { with dataflow: lv = example.identity(x); return lv }`
fn function() -> Body {
    let mut b = BodyBuilder::new();
    let ty = b.ty(&Type::tensor([2, 3], DType::F32));
    b.begin_function(0, AttrsId::NONE, None);
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(kind::DATAFLOW), &[], None);
    let op = b.op("example.identity");
    let lv = b.call(op, &[x], AttrsId::NONE, ty, false, Some("lv"));
    b.end();
    b.end_function(lv, ty);
    b.finish().unwrap()
}

/// Returns the position of a pass, and the defaults of its options.
fn pass(meta: &PluginMeta, name: &str) -> (usize, Vec<OptionValue>) {
    let at = meta.passes.iter().position(|info| info.name == name).unwrap();
    (at, meta.passes[at].options.iter().map(|option| option.default.clone().unwrap()).collect())
}

fn open(c: &mut Criterion) {
    let mut group = c.benchmark_group("open");
    let file = opened::library("every_kind");
    let section = opened::section(&file);
    let meta = PluginMeta::decode(&section).unwrap();
    group.bench_function("decode metadata", |b| b.iter(|| PluginMeta::decode(&section)));
    let entry = opened::symbol(&file);
    group.bench_function("compare, layouts, init", |b| {
        // SAFETY: `symbol` returns the entry function of a library that is never unloaded.
        b.iter(|| unsafe { OpenPlugin::open(entry, &meta) }.map(drop));
    });
    group.finish();
}

fn calls(c: &mut Criterion) {
    let (plugin, meta) = opened::open("every_kind");
    let body = function();
    let module = Module::new((0..1000).map(|i| (format!("f{i}"), body.clone())));
    let functions: Vec<_> = module.functions().collect();
    let call = body.values().find_map(|value| value.as_call_to("example.identity")).unwrap();
    let mut group = c.benchmark_group("call");
    with_current(&Host::default(), 2, || {
        let (same, none) = pass(&meta, "example.SameModule");
        group.bench_function("module pass", |b| b.iter(|| plugin.run_module(same, &module, &none)));
        let (talks, options) = pass(&meta, "example.WithOptions");
        group.bench_function("module pass, 8 options, error", |b| {
            b.iter(|| plugin.run_module(talks, &module, &options));
        });
        let (same, none) = pass(&meta, "example.SameFunction");
        for n in [1, 1_000] {
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(BenchmarkId::new("function pass", n), |b| {
                b.iter(|| plugin.run_functions(same, &functions[..n], &none));
            });
        }
        group.throughput(Throughput::Elements(1));
        group.bench_function("infer", |b| b.iter(|| plugin.infer(0, call)));
        let (fail, _) = pass(&meta, "example.Fail");
        let (bad, how) = ([("bad", &body)], [OptionValue::Str("text".into())]);
        group.bench_function("panic caught", |b| b.iter(|| plugin.run_functions(fail, &bad, &how)));
    });
    group.finish();
}

/// Number of events and spans in a run; high enough to make the cost of the run negligible.
const MANY: i64 = 10_000;

fn logs(c: &mut Criterion) {
    let (filter, handle) = reload::Layer::new(EnvFilter::new("off"));
    let lines = fmt::layer().with_ansi(false).with_writer(std::io::sink);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(filter).with(lines)).unwrap();
    set_log_sink(Box::new(TracingSink::default()), LevelFilter::current());
    let (plugin, _) = opened::open("logs");
    let module = Module::new([] as [(String, Body); 0]);
    let mut group = c.benchmark_group("log");
    group.throughput(Throughput::Elements(MANY as u64));
    for (state, filter) in [("level disabled", "info"), ("target disabled", "debug,logs=off"), ("enabled", "debug")] {
        handle.reload(EnvFilter::new(filter)).unwrap();
        for what in ["event", "span"] {
            let options = [OptionValue::Str(what.into()), OptionValue::Int(MANY)];
            group.bench_function(BenchmarkId::new(what, state), |b| {
                b.iter(|| with_current(&Host::default(), 2, || plugin.run_module(0, &module, &options)).unwrap());
            });
        }
        // Events of the host, for comparison.
        group.bench_function(BenchmarkId::new("event of the host", state), |b| {
            b.iter(|| (0..MANY).for_each(|_| tracing::debug!(target: "logs", n = 1, "an event")));
        });
        group.bench_function(BenchmarkId::new("span of the host", state), |b| {
            b.iter(|| (0..MANY).for_each(|_| drop(tracing::debug_span!(target: "logs", "a_span", n = 1).entered())));
        });
    }
    group.finish();
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
}

criterion_group! { name = benches; config = config(); targets = open, calls, logs }
criterion_main!(benches);
