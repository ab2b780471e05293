//! Measures the time of simplification by number of nodes: `cargo bench -p passhost-plugin-api --bench
//! arith`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use plugin_api::arith::simplify;
use plugin_api::ir::records::{flag, kind};
use plugin_api::ir::{BodyBuilder, NodeSpec};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use std::hint::black_box;
use std::time::Duration;

/// Builds a balanced dimension with `n` leaves over three variables; every fourth level divides.
fn balanced(n: usize, level: usize) -> Dim {
    if n <= 1 {
        return Dim::Var(Sym { id: (level % 3) as u32, dtype: DType::I64 });
    }
    let (a, b) = (balanced(n / 2, level + 1), balanced(n - n / 2, level + 2));
    match level % 4 {
        0 => Dim::binary(PrimOp::FloorDiv, Dim::binary(PrimOp::Add, a, b), Dim::Int(3)),
        1 => Dim::binary(PrimOp::Min, a, b),
        _ => Dim::binary(PrimOp::Add, a, b),
    }
}

/// Builds `n / 4` indices as in flattened loops; with `deep`, one of them is `n` nodes deep.
fn body(n: usize, deep: bool) -> Body {
    let mut b = BodyBuilder::new();
    let int = b.ty(&Type::Prim { dtype: DType::I64, value: None });
    b.begin(NodeSpec::new(kind::PRIM_FUNC), &[], None);
    let (zero, eight) = (b.scalar(&Dim::Int(0)), b.scalar(&Dim::Int(8)));
    b.begin(NodeSpec::new(kind::FOR), &[zero, eight], None);
    let i = b.node(NodeSpec::new(kind::LOOP_VAR).ty(int).flags(flag::INNER), &[], Some("i"));
    let op =
        |b: &mut BodyBuilder, op: PrimOp, x, y| b.node(NodeSpec::new(kind::ARITH).ty(int).a(op.into()), &[x, y], None);
    if deep {
        let sum = (0..n).fold(i, |v, _| op(&mut b, PrimOp::Add, v, eight));
        b.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[sum], None);
    }
    for _ in 0..if deep { 0 } else { n / 4 } {
        let scaled = op(&mut b, PrimOp::Mul, i, eight);
        let sum = op(&mut b, PrimOp::Add, scaled, i);
        let index = op(&mut b, PrimOp::FloorDiv, sum, eight);
        b.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[index], None);
    }
    b.end();
    b.end();
    b.finish().expect("valid")
}

fn all(c: &mut Criterion) {
    let mut group = c.benchmark_group("arith");
    let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
    let small = Dim::binary(PrimOp::Sub, Dim::binary(PrimOp::Add, n, Dim::Int(1)), Dim::Int(1));
    group.bench_function("simplify n + 1 - 1", |b| b.iter(|| simplify(black_box(&small))));
    for n in [100, 1_000, 10_000, 100_000] {
        group.throughput(Throughput::Elements(n as u64));
        let dim = balanced(n / 2, 0);
        group.bench_function(BenchmarkId::new("dimension", n), |b| b.iter(|| simplify(black_box(&dim))));
        for (name, body) in [("deep sum", body(n, true)), ("indices", body(n, false))] {
            let run = || Analyzer::of_body(&body).simplify_body(&body).expect("valid");
            group.bench_function(BenchmarkId::new(name, n), |b| b.iter(run));
        }
    }
    group.finish();
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .without_plots()
}

criterion_group! { name = benches; config = config(); targets = all }
criterion_main!(benches);
