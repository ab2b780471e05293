//! Compares the flat body with a tree of reference-counted nodes, for decision 0001:
//! `cargo bench -p passhost-plugin-api`.
//!
//! As in TVM, variable, call and binding are separate objects of the tree; types and operators are shared.

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use plugin_api::ir::records::kind;
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, Sections};
use plugin_api::prelude::*;
use plugin_api::tvm::ExprMutator;
use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Numbers of functions, and of bindings in each.
const SIZES: &[(usize, usize)] = &[(1, 1_000), (1, 10_000), (1, 100_000), (1, 1_000_000), (1_000, 20)];

/// Returns true for dead bindings: one in ten.
fn is_dead(i: usize) -> bool {
    i % 10 == 6
}

fn flat(n: usize) -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor([8, 8], DType::F32));
    let (x, y) = (b.param("x", ty), b.param("y", ty));
    b.begin(NodeSpec::new(kind::DATAFLOW), &[], None);
    let (add, subtract) = (b.op("relax.add"), b.op("relax.subtract"));
    let mut last = x;
    for i in 0..n {
        let op = if is_dead(i) { subtract } else { add };
        let v = b.call(op, &[last, y], AttrsId::NONE, ty, false, Some("lv"));
        last = if is_dead(i) { last } else { v };
    }
    b.end();
    b.end_function(last, ty);
    b.finish().expect("valid")
}

struct Mutator;
impl ExprMutator<'_> for Mutator {}

fn flat_walk(body: &Body) -> usize {
    body.bindings().filter_map(Value::as_call).map(|call| call.args().filter(|arg| arg.is_bound()).count()).sum()
}

struct Var {
    _name: Arc<str>,
    _ty: Arc<Type>,
}

enum Tree {
    Var { _var: Arc<Var> },
    Call { _op: Arc<str>, args: Vec<Arc<Tree>>, _ty: Arc<Type> },
}

#[derive(Clone)]
struct Binding {
    var: Arc<Tree>,
    value: Arc<Tree>,
}

struct TreeFunc {
    _params: Vec<Arc<Tree>>,
    bindings: Vec<Binding>,
    result: Arc<Tree>,
}

fn tree(n: usize) -> TreeFunc {
    let ty = Arc::new(Type::tensor([8, 8], DType::F32));
    let (add, subtract): (Arc<str>, Arc<str>) = ("relax.add".into(), "relax.subtract".into());
    let var = |name: &str| Arc::new(Tree::Var { _var: Arc::new(Var { _name: name.into(), _ty: ty.clone() }) });
    let (x, y) = (var("x"), var("y"));
    let (mut bindings, mut last) = (Vec::new(), x.clone());
    for i in 0..n {
        let op = if is_dead(i) { &subtract } else { &add };
        let value = Arc::new(Tree::Call { _op: op.clone(), args: vec![last.clone(), y.clone()], _ty: ty.clone() });
        let bound = var("lv");
        bindings.push(Binding { var: bound.clone(), value });
        last = if is_dead(i) { last } else { bound };
    }
    TreeFunc { _params: vec![x, y], bindings, result: last }
}

fn tree_walk(func: &TreeFunc) -> usize {
    let args = |binding: &Binding| match &*binding.value {
        Tree::Call { args, .. } => args.iter().filter(|arg| matches!(&***arg, Tree::Var { .. })).count(),
        Tree::Var { .. } => 0,
    };
    func.bindings.iter().map(args).sum()
}

fn tree_use_counts(func: &TreeFunc) -> HashMap<*const Tree, u32, foldhash::fast::RandomState> {
    let mut counts = HashMap::default();
    for binding in &func.bindings {
        if let Tree::Call { args, .. } = &*binding.value {
            args.iter().for_each(|arg| *counts.entry(Arc::as_ptr(arg)).or_insert(0) += 1);
        }
    }
    counts
}

fn tree_dce(func: &TreeFunc) -> TreeFunc {
    let mut live: HashSet<*const Tree, foldhash::fast::RandomState> = HashSet::default();
    live.insert(Arc::as_ptr(&func.result));
    let mut bindings = Vec::with_capacity(func.bindings.len());
    for binding in func.bindings.iter().rev() {
        if live.contains(&Arc::as_ptr(&binding.var)) {
            if let Tree::Call { args, .. } = &*binding.value {
                live.extend(args.iter().map(Arc::as_ptr));
            }
            bindings.push(binding.clone());
        }
    }
    bindings.reverse();
    TreeFunc { _params: func._params.clone(), bindings, result: func.result.clone() }
}

fn all(c: &mut Criterion) {
    for (functions, n) in SIZES.iter().copied() {
        let name = format!("{functions}x{n}");
        let bodies: Vec<Body> = (0..functions).map(|_| flat(n)).collect();
        let copies: Vec<Sections> = bodies.iter().map(|body| Sections::copy_of(body.raw())).collect();
        let seal = || copies.iter().map(|copy| Body::seal(copy).expect("valid")).collect::<Vec<Body>>();
        let mut group = c.benchmark_group("flat");
        let mut bench = |what: &str, f: &mut dyn FnMut()| {
            group.bench_function(BenchmarkId::new(what, &name), |b| b.iter(&mut *f));
        };
        bench("build", &mut || (0..functions).for_each(|_| drop(black_box(flat(n)))));
        bench("walk", &mut || drop(black_box(bodies.iter().map(flat_walk).sum::<usize>().to_string())));
        bench("use counts", &mut || bodies.iter().for_each(|body| drop(black_box(body.use_counts()))));
        bench("dce", &mut || bodies.iter().for_each(|body| drop(black_box(remove_all_unused(body).expect("valid")))));
        bench("retain", &mut || {
            let keep = |value: Value<'_>| value.as_call_to("relax.subtract").is_none();
            bodies.iter().for_each(|body| drop(black_box(body.retain(keep).expect("valid"))));
        });
        bench("mutator, no change", &mut || {
            bodies.iter().for_each(|body| drop(black_box(Mutator.mutate(body).expect("valid"))));
        });
        bench("seal", &mut || drop(black_box(seal())));
        bench("clone and drop", &mut || bodies.iter().for_each(|body| drop(black_box(body.clone()))));
        group.bench_function(BenchmarkId::new("hash", &name), |b| {
            let hash = |bodies: Vec<Body>| bodies.iter().fold(0u64, |sum, body| sum ^ body.structural_hash());
            b.iter_batched(seal, hash, BatchSize::PerIteration);
        });
        let others = seal();
        group.bench_function(BenchmarkId::new("equality", &name), |b| {
            b.iter(|| bodies.iter().zip(&others).all(|(a, b)| a.structural_eq(b)));
        });
        group.finish();
        tree_all(c, &name, functions, n);
    }
}

fn tree_all(c: &mut Criterion, name: &str, functions: usize, n: usize) {
    let trees: Vec<TreeFunc> = (0..functions).map(|_| tree(n)).collect();
    let mut group = c.benchmark_group("tree");
    let mut bench = |what: &str, f: &mut dyn FnMut()| {
        group.bench_function(BenchmarkId::new(what, name), |b| b.iter(&mut *f));
    };
    bench("build and drop", &mut || (0..functions).for_each(|_| drop(black_box(tree(n)))));
    bench("walk", &mut || drop(black_box(trees.iter().map(tree_walk).sum::<usize>().to_string())));
    bench("use counts", &mut || trees.iter().for_each(|func| drop(black_box(tree_use_counts(func)))));
    bench("dce", &mut || trees.iter().for_each(|func| drop(black_box(tree_dce(func)))));
    group.bench_function(BenchmarkId::new("drop", name), |b| {
        let make = || (0..functions).map(|_| tree(n)).collect::<Vec<_>>();
        b.iter_batched(make, drop, BatchSize::PerIteration);
    });
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
