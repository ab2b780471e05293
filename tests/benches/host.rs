//! What the host costs: reading, printing, each pass, the boundary.
//!
//! `cargo bench -p passhost-tests` runs everything but the largest sizes; `PASSHOST_BENCH_LARGE=1` adds 10^6 bindings.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use passhost::verify::{verify_changed, verify_module};
use passhost::{Engine, Runner};
use passhost_tests::synthetic::{convolutions_text, module_text};
use passhost_tests::{engine, root};
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

fn plan(engine: &Engine, passes: &str) -> Plan {
    let request = Request { pipeline: Pipeline::parse(passes).expect("a pipeline"), selections: Vec::new() };
    Plan::new(&request, engine.registry()).expect("a plan")
}

/// Functions and bindings of each size.
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

/// The models that the project ships, and densenet121 where it lies beside the project.
#[allow(clippy::print_stderr, reason = "what is left out is said")]
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
            b.iter(|| script::print(black_box(module), engine));
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

/// Grouping makes a function of every second binding; a pass over so many groups must stay linear.
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

fn boundary(c: &mut Criterion) {
    let engine = engine();
    let mut group = c.benchmark_group("boundary");
    group.sample_size(20).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    for functions in [1, 1_000] {
        // In normal form, so that Normalize gives every function back as it is.
        let module = script::read(&module_text(functions, 20), engine).expect("a module");
        let plan = plan(engine, "relax.Normalize");
        group.throughput(Throughput::Elements(functions as u64));
        group.bench_function(BenchmarkId::new("function pass without change", functions), |b| {
            b.iter(|| Runner::new(engine, BTreeMap::new()).run(&plan, module.clone()).expect("plugins open"));
        });
    }
    group.finish();
}

criterion_group!(benches, text, passes, groups, boundary);
criterion_main!(benches);
