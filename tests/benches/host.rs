//! Measures the host: parsing, printing, each pass, the plugin boundary.
//!
//! `cargo bench -p passhost-tests` runs everything but the largest sizes; `PASSHOST_BENCH_LARGE=1` adds 10^6 bindings.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use passhost::verify::{verify_changed, verify_module};
use passhost::{Engine, Instrument, Manifest, Runner};
use passhost_tests::synthetic::{convolutions_text, module_text};
use passhost_tests::{engine, root};
use plugin_api::declare::instrument::PassInstrument;
use plugin_api::ir::Module;
use plugin_api::pattern::{Matcher, is_call, is_chain, is_op, is_param};
use registry::{Pipeline, Plan, Request, Selection};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

fn plan(engine: &Engine, passes: &str) -> Plan {
    let request = Request {
        pipeline: Pipeline::parse(passes).expect("a pipeline"),
        selections: Vec::new(),
        ..Request::default()
    };
    Plan::new(&request, engine.registry()).expect("a plan")
}

/// Returns the numbers of functions and bindings.
fn sizes() -> Vec<(usize, usize)> {
    let mut sizes = vec![(1, 1_000), (1, 10_000), (1, 100_000), (1_000, 20)];
    if std::env::var_os("PASSHOST_BENCH_LARGE").is_some() {
        sizes.push((1, 1_000_000));
    }
    sizes
}

fn name((functions, bindings): (usize, usize)) -> String {
    format!("{functions}x{bindings}")
}

/// Returns the models in the project, and densenet121 if it is next to the project.
#[allow(clippy::print_stderr, reason = "the benchmark prints what it leaves out")]
fn models() -> Vec<(String, String)> {
    let shipped = ["vgg19", "resnet50"].map(|name| root().join(format!("tests/models/{name}.py")));
    let beside = root().join("../shared/models/densenet121.py");
    let paths: Vec<PathBuf> = shipped.into_iter().chain([beside]).collect();
    let read = |path: &PathBuf| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        match std::fs::read_to_string(path) {
            Ok(text) => Some((name, text)),
            Err(_) => {
                eprintln!("{name}: not there, left out");
                None
            }
        }
    };
    paths.iter().filter_map(read).collect()
}

fn text(c: &mut Criterion) {
    let engine = engine();
    let mut inputs = models();
    inputs.extend(sizes().into_iter().map(|size| (name(size), module_text(size.0, size.1))));
    let mut group = c.benchmark_group("text");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for (name, text) in &inputs {
        let module = script::read(text, engine).expect("a module");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_with_input(BenchmarkId::new("read", name), text, |b, text| {
            b.iter(|| script::read(black_box(text), engine));
        });
        group.bench_with_input(BenchmarkId::new("print", name), &module, |b, module| {
            b.iter(|| script::print(black_box(module), engine).expect("the module can be printed"));
        });
    }
    group.finish();
}

fn passes(c: &mut Criterion) {
    let engine = engine();
    let mut group = c.benchmark_group("passes");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for size in sizes() {
        let module = script::read(&module_text(size.0, size.1), engine).expect("a module");
        group.throughput(Throughput::Elements((size.0 * size.1) as u64));
        for (_, info) in engine.registry().passes() {
            let plan = plan(engine, &info.name);
            if plan.steps.iter().any(|step| step.skip.is_some()) {
                continue;
            }
            group.bench_function(BenchmarkId::new(&info.name, name(size)), |b| {
                b.iter(|| Runner::new(engine, BTreeMap::new()).run(&plan, module.clone()).expect("plugins open"));
            });
        }
        group.bench_function(BenchmarkId::new("verify", name(size)), |b| b.iter(|| verify_module(&module, engine)));
        let copy = Module::new(module.functions().map(|(name, body)| (name, body.clone())));
        group.bench_function(BenchmarkId::new("verify unchanged", name(size)), |b| {
            b.iter(|| verify_changed(&module, &copy, engine));
        });
        group.bench_function(BenchmarkId::new("structural equality", name(size)), |b| {
            let again = script::read(&module_text(size.0, size.1), engine).expect("a module");
            b.iter(|| module.structural_eq(&again));
        });
    }
    group.finish();
}

/// Measures the passes of the lowering pipelines, each on the result of the previous pass.
fn lowering(c: &mut Criterion) {
    let engine = engine();
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
    let mut group = c.benchmark_group("lowering");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for size in sizes() {
        let mut module = script::read(&module_text(size.0, size.1), engine).expect("a module");
        group.throughput(Throughput::Elements((size.0 * size.1) as u64));
        for pipeline in ["compile", "lower-tir"] {
            for step in plan(engine, &manifest.pipelines[pipeline].passes).steps {
                let pass = step.unit.name(engine.registry()).to_string();
                let plan = plan(engine, &pass);
                let run = |module: &Module| {
                    Runner::new(engine, BTreeMap::new()).run(&plan, module.clone()).expect("plugins open")
                };
                group.bench_function(BenchmarkId::new(&pass, name(size)), |b| b.iter(|| run(&module)));
                module = run(&module).module;
            }
        }
    }
    group.finish();
}

/// Measures grouping, which creates a function for every second binding; a pass over so many groups must stay linear.
fn groups(c: &mut Criterion) {
    let engine = engine();
    let plan = plan(engine, "acme.GroupConvolutions");
    let mut group = c.benchmark_group("groups");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for convolutions in [1_000, 10_000] {
        let module = script::read(&convolutions_text(convolutions), engine).expect("a module");
        group.throughput(Throughput::Elements(convolutions as u64));
        group.bench_function(BenchmarkId::new("row of convolutions", convolutions), |b| {
            b.iter(|| Runner::new(engine, BTreeMap::new()).run(&plan, module.clone()).expect("plugins open"));
        });
    }
    group.finish();
}

/// Measures pattern searches, which are linear in the function: a fixed root, alternatives with a common part, and a
/// chain.
fn patterns(c: &mut Criterion) {
    let engine = engine();
    let mut group = c.benchmark_group("patterns");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    let call = || is_call(..);
    let shared = (0..6).fold(call(), |below, _| is_call([&below]) | is_call([&below, &below]));
    let patterns = [
        ("relu of a sum", is_op("relax.nn.relu", [is_op("relax.add", ..).used_once()])),
        ("alternatives that share a part", shared),
        ("chain", is_chain(is_param().bind("x"), |inner| is_call(..).any_arg(inner))),
    ];
    for size in sizes() {
        let module = script::read(&module_text(size.0, size.1), engine).expect("a module");
        group.throughput(Throughput::Elements((size.0 * size.1) as u64));
        for (what, pattern) in &patterns {
            let matcher = Matcher::new(pattern);
            group.bench_function(BenchmarkId::new(*what, name(size)), |b| {
                b.iter(|| module.functions().map(|(_, body)| matcher.on(body).disjoint().count()).sum::<usize>());
            });
        }
    }
    group.finish();
}

fn boundary(c: &mut Criterion) {
    let engine = engine();
    let mut group = c.benchmark_group("boundary");
    group.sample_size(20).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    for functions in [1, 1_000] {
        // In normal form, so that Normalize returns every function unchanged.
        let module = script::read(&module_text(functions, 20), engine).expect("a module");
        let plan = plan(engine, "relax.Normalize");
        group.throughput(Throughput::Elements(functions as u64));
        group.bench_function(BenchmarkId::new("function pass without change", functions), |b| {
            b.iter(|| Runner::new(engine, BTreeMap::new()).run(&plan, module.clone()).expect("plugins open"));
        });
    }
    group.finish();
}

/// An instrument on the host's side that observes everything and does nothing.
struct Silent;

impl PassInstrument for Silent {}

/// Returns an engine with the plugin of `zoo.First` (a module pass), `zoo.Second` (a function pass) and `zoo.Silent`,
/// which do nothing.
fn zoo() -> Engine {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "-p", "passhost-zoo", "--example", "zoo_instruments"]);
    assert!(cargo.current_dir(root()).status().expect("cargo runs").success(), "the plugin does not build");
    let bench = std::env::current_exe().expect("a benchmark has a path");
    let release = bench.ancestors().nth(2).expect("a target folder");
    let file = libloading_name("zoo_instruments");
    let text = format!("[[plugin]]\npath = '{}'\n", release.join("examples").join(file).display());
    let manifest = Manifest::parse(&root().join("passes.toml"), &text).expect("a manifest");
    Engine::new(&manifest).expect("the plugin")
}

fn libloading_name(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// Measures the overhead of instruments on a pass that does nothing.
fn instruments(c: &mut Criterion) {
    let zoo = zoo();
    let mut group = c.benchmark_group("instruments");
    group.sample_size(20).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    // With a single function, nothing hides the cost of the calls.
    for (what, functions, passes) in
        [("module pass", 1, "zoo.First"), ("function pass over 1000", 1_000, "zoo.First,zoo.Second")]
    {
        let module = script::read(&module_text(functions, 20), engine()).expect("a module");
        for n in [0, 1, 4] {
            let plain = plan(&zoo, passes);
            group.bench_function(BenchmarkId::new(format!("{what}, host's"), n), |b| {
                b.iter(|| {
                    let runner = (0..n).fold(Runner::new(&zoo, BTreeMap::new()), |runner, _| {
                        runner.instrument(Instrument::new("silent", Box::new(Silent)))
                    });
                    runner.run(&plain, module.clone()).expect("plugins open")
                });
            });
            let instruments = vec!["zoo.Silent".to_string(); n];
            let selections = vec![Selection { instruments, ..Selection::default() }];
            let request =
                Request { pipeline: Pipeline::parse(passes).expect("a pipeline"), selections, ..Request::default() };
            let with = Plan::new(&request, zoo.registry()).expect("a plan");
            group.bench_function(BenchmarkId::new(format!("{what}, plugin's"), n), |b| {
                b.iter(|| Runner::new(&zoo, BTreeMap::new()).run(&with, module.clone()).expect("plugins open"));
            });
        }
    }
    group.finish();
}

/// Measures passes over functions with one and two threads: a costly pass, and a pass with nothing to do.
fn threads(c: &mut Criterion) {
    let engine = engine();
    let module = script::read(&module_text(1_000, 100), engine).expect("a module");
    let mut group = c.benchmark_group("threads");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for pass in ["relax.EliminateCommonSubexpr", "relax.Normalize"] {
        let plan = plan(engine, pass);
        for jobs in [1, 2] {
            group.bench_function(BenchmarkId::new(pass, jobs), |b| {
                b.iter_custom(|rounds| {
                    let run = || Runner::new(engine, BTreeMap::new()).jobs(jobs).run(&plan, module.clone());
                    let time = |_| run().expect("plugins open").rows().map(|(_, step)| step.time).sum::<Duration>();
                    (0..rounds).map(time).sum()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, text, passes, lowering, groups, patterns, boundary, instruments, threads);
criterion_main!(benches);
