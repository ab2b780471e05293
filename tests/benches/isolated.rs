//! Measures plugins in separate processes, compared with one process.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion};
use passhost::{Engine, Isolation, Manifest, Runner};
use passhost_tests::root;
use passhost_tests::synthetic::module_text;
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// A pass that changes nothing in modules of [`module_text`], because none of their functions has a PrimFunc or a branch.
const NOTHING: &str = "relax.LambdaLift";

fn engine(apart: bool) -> Engine {
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
    let engine = Engine::new(&manifest).expect("the standard plugins");
    let worker = std::env::current_exe().ok();
    engine.isolates(Isolation { worker, all: apart, ..Isolation::default() });
    engine
}

fn plan(engine: &Engine, passes: &str) -> Plan {
    let pipeline = Pipeline::parse(passes).expect("a pipeline");
    Plan::new(&Request { pipeline, ..Request::default() }, engine.registry()).expect("a plan")
}

fn run(engine: &Engine, plan: &Plan, module: &Module) {
    let report = Runner::new(engine, BTreeMap::new()).verified_input(true).run(plan, module.clone()).expect("a run");
    assert!(report.error.is_none(), "{:?}", report.error);
}

/// Measures the same work in both configurations.
fn both(c: &mut Criterion, what: &str, passes: &str, text: &str) {
    let mut group = c.benchmark_group("isolated");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for (name, apart) in [("here", false), ("apart", true)] {
        let engine = engine(apart);
        let (plan, module) = (plan(&engine, passes), script::read(text, &engine).expect("a module"));
        group.bench_function(BenchmarkId::new(what, name), |b| b.iter(|| run(&engine, &plan, &module)));
    }
    group.finish();
}

fn start(c: &mut Criterion) {
    let mut group = c.benchmark_group("isolated");
    group.sample_size(20);
    let plan = plan(&engine(false), NOTHING);
    for (name, apart) in [("here", false), ("apart", true)] {
        // All plugins with operators are opened, each in its own worker.
        group.bench_function(BenchmarkId::new("open three plugins", name), |b| {
            b.iter_with_setup(
                || engine(apart),
                |engine| engine.open_for(&plan).map(|_| engine).expect("they are opened"),
            );
        });
    }
    group.finish();
}

fn main() -> ExitCode {
    if let Some(code) = passhost::worker() {
        return ExitCode::from(code);
    }
    let mut criterion = Criterion::default().configure_from_args();
    start(&mut criterion);
    both(&mut criterion, "nothing, 1 function", NOTHING, &module_text(1, 20));
    both(&mut criterion, "nothing, 1000 functions", NOTHING, &module_text(1_000, 20));
    for bindings in [10_000, 100_000] {
        let what = format!("EliminateCommonSubexpr, {bindings} bindings");
        both(&mut criterion, &what, "relax.EliminateCommonSubexpr", &module_text(1, bindings));
    }
    let model = std::fs::read_to_string(root().join("tests/models/vgg19.py")).expect("the model");
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
    both(&mut criterion, "vgg19, default pipeline", &manifest.pipelines["default"].passes, &model);
    criterion.final_summary();
    ExitCode::SUCCESS
}
