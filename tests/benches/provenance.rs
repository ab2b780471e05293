//! Measures the cost of recording provenance, compared with the same run without it.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use passhost::{Engine, Manifest, Runner};
use passhost_tests::root;
use passhost_tests::synthetic::module_text;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::time::Duration;

/// Measures the same run in both configurations.
fn both(c: &mut Criterion, engine: &Engine, (what, passes): (&str, &str), text: &str) {
    let pipeline = Pipeline::parse(passes).expect("a pipeline");
    let plan = Plan::new(&Request { pipeline, ..Request::default() }, engine.registry()).expect("a plan");
    let module = script::read(text, engine).expect("a module");
    let mut group = c.benchmark_group("provenance");
    group.sample_size(10).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    for (name, provenance) in [("off", false), ("on", true)] {
        let run = || {
            let runner = Runner::new(engine, BTreeMap::new()).verified_input(true).provenance(provenance);
            let report = runner.run(&plan, module.clone()).expect("a run");
            assert!(report.error.is_none() && report.provenance.is_some() == provenance);
        };
        group.bench_function(BenchmarkId::new(what, name), |b| b.iter(run));
    }
    group.finish();
}

fn provenance(c: &mut Criterion) {
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
    let engine = Engine::new(&manifest).expect("the standard plugins");
    for bindings in [10_000, 100_000] {
        for pass in ["relax.EliminateCommonSubexpr", "relax.DeadCodeElimination", "relax.LegalizeOps", "relax.FuseOps"]
        {
            let what = format!("{pass}, {bindings} bindings");
            both(c, &engine, (&what, pass), &module_text(1, bindings));
        }
    }
    for model in ["vgg19", "resnet50"] {
        let text = std::fs::read_to_string(root().join(format!("tests/models/{model}.py"))).expect("the model");
        for pipeline in ["default", "compile"] {
            let passes = &manifest.pipelines[pipeline].passes;
            both(c, &engine, (&format!("{model}, pipeline {pipeline}"), passes), &text);
        }
    }
}

criterion_group!(benches, provenance);
criterion_main!(benches);
