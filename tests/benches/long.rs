//! Measures a long pipeline: 1,000 passes that do nothing, with instruments, and with verification.
//!
//! `cargo bench -p passhost-tests --bench long`.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use passhost::{Engine, Instrument, Runner, create_function_pass, create_module_pass};
use passhost_tests::synthetic::module_text;
use plugin_api::declare::instrument::PassInstrument;
use plugin_api::ir::Module;
use plugin_api::metadata::PassInfo;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of passes in a pipeline.
const PASSES: usize = 1_000;

/// An instrument that observes everything and does nothing.
struct Silent;

impl PassInstrument for Silent {}

/// Returns an engine in which `t.Module` and `t.Function` return their input, and `t.One` rebuilds one function of a
/// thousand.
fn engine() -> Engine {
    // Includes the operators of the functions, which verification needs.
    let mut engine = passhost_tests::engine().clone();
    let passes = [
        create_module_pass(PassInfo::new("t.Module"), |module, _| Ok(module.clone())),
        create_function_pass(PassInfo::new("t.Function"), |body, _| Ok(body.clone())),
        create_function_pass(PassInfo::new("t.One"), |body, ctx| {
            if ctx.function_name().as_deref() != Some("f000500") {
                return Ok(body.clone());
            }
            let Some(first) = body.bindings().next() else { return Ok(body.clone()) };
            let mut edit = body.edit();
            let v = edit.v(first);
            let name = if first.name() == Some("a") { "b" } else { "a" };
            edit.set_name(v, name);
            Ok(edit.finish()?)
        }),
    ];
    for pass in passes {
        engine.add_pass(pass).expect("a new name");
    }
    engine
}

fn plan(engine: &Engine, pass: &str, n: usize) -> Plan {
    let pipeline = Pipeline::parse(&vec![pass; n].join(",")).expect("a pipeline");
    Plan::new(&Request { pipeline, ..Request::default() }, engine.registry()).expect("a plan")
}

fn module(functions: usize) -> Module {
    script::read(&module_text(functions, 20), passhost_tests::engine()).expect("a module")
}

fn nothing(c: &mut Criterion) {
    let engine = engine();
    let mut group = c.benchmark_group("1000 passes that do nothing");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(PASSES as u64));
    for functions in [1, 1_000] {
        let module = module(functions);
        for pass in ["t.Module", "t.Function"] {
            let plan = plan(&engine, pass, PASSES);
            for instruments in [0, 1, 4] {
                let id = BenchmarkId::new(format!("{pass}, {functions} functions, instruments"), instruments);
                group.bench_function(id, |b| {
                    b.iter(|| {
                        let runner = (0..instruments).fold(Runner::new(&engine, BTreeMap::new()), |runner, _| {
                            runner.instrument(Instrument::new("silent", Box::new(Silent)))
                        });
                        runner.run(&plan, module.clone()).expect("nothing to open")
                    });
                });
            }
        }
    }
    group.finish();
}

/// Measures the passes alone, and with verification after each: the budget is twice the time.
fn verification(c: &mut Criterion) {
    let engine = engine();
    let module = module(1_000);
    let mut group = c.benchmark_group("verification");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for (what, pass) in [("no change", "t.Function"), ("one function of 1000", "t.One")] {
        let plan = plan(&engine, pass, 100);
        for verified in [false, true] {
            let name = if verified { "passes and verification" } else { "passes alone" };
            group.bench_function(BenchmarkId::new(what, name), |b| {
                b.iter_custom(|rounds| {
                    let time = |_| {
                        let report = Runner::new(&engine, BTreeMap::new()).run(&plan, module.clone());
                        let report = report.expect("nothing to open");
                        let of = |step: &passhost::run::StepReport| step.time + step.verify * u32::from(verified);
                        report.rows().map(|(_, step)| of(step)).sum::<Duration>()
                    };
                    (0..rounds).map(time).sum()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, nothing, verification);
criterion_main!(benches);
