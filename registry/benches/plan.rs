//! Measures planning: `cargo bench -p passhost-registry --bench plan`. 1,000 passes must take less than 10 ms.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use plugin_api::metadata::{PassInfo, Required};
use registry::{Brought, Owner, Pipeline, Plan, Registry, Request};
use std::collections::BTreeSet;

/// Builds passes that each require up to five random earlier passes.
fn registry(n: usize) -> Registry {
    let mut seed = 0x2545_f491_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap_or(0) % below
    };
    let passes = (0..n).map(|i| {
        let required = (0..random(6)).filter(|_| i > 0).map(|_| random(i)).collect::<BTreeSet<_>>();
        let required = required.iter().map(|j| Required { name: format!("t.P{j}"), version: None }).collect();
        PassInfo { required, ..PassInfo::new(&format!("t.P{i}")) }
    });
    let mut registry = Registry::new();
    registry.add(Owner::embedder(), Brought::passes(passes.collect())).expect("names are unique");
    registry
}

fn plan(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    for n in [10, 100, 1000] {
        let registry = registry(n);
        let names: Vec<String> = (0..n).map(|i| format!("t.P{i}")).collect();
        let pipeline = Pipeline::parse(&names.join(",")).expect("a pipeline");
        let request = Request { pipeline, ..Request::default() };
        let tvm = Request { tvm_compat: true, ..request.clone() };
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("random dependencies", n), |b| b.iter(|| Plan::new(&request, &registry)));
        group.bench_function(BenchmarkId::new("as TVM", n), |b| b.iter(|| Plan::new(&tvm, &registry)));
    }
    group.finish();
}

criterion_group!(benches, plan);
criterion_main!(benches);
