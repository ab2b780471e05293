//! Tests random schedules of legalized and fused functions: they verify and preserve values.
#![forbid(unsafe_code)]

#[path = "../../runtime/tests/schedules/steps.rs"]
mod steps;

use passhost::run::validate::Verdict;
use passhost::{Engine, Manifest, create_prim_func_pass};
use passhost_schedule::Schedule;
use passhost_tests::root;
use passhost_tests::validation::{self, Tally};
use plugin_api::metadata::PassInfo;
use plugin_api::prelude::*;
use runtime::{Arg, Backend, Interpreter, Limits, Tensor};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use steps::{Choices, step};

static SEED: AtomicU64 = AtomicU64::new(0);
static ACCEPTED: AtomicUsize = AtomicUsize::new(0);

/// Applies primitives to a function. The name of the function and the seed determine the
/// primitives.
fn schedule(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut sch = Schedule::new(body)?;
    if !sch.finish()?.structural_eq(body) {
        bail!("a schedule in which nothing was done is another function");
    }
    let mut hash = DefaultHasher::new();
    (SEED.load(Ordering::SeqCst), body.len()).hash(&mut hash);
    let mut choices = Choices(hash.finish() | 1);
    for _ in 0..20 {
        let accepted = step(&mut sch, &mut choices).is_ok();
        ACCEPTED.fetch_add(usize::from(accepted), Ordering::SeqCst);
    }
    let after = sch.finish().map_err(|error| pass_error!("{error}\n{}", sch.trace()))?;
    match sch.trace().apply(body)?.structural_eq(&after) {
        true => Ok(after),
        false => bail!("the trace makes another function\n{}", sch.trace()),
    }
}

/// Operators whose loops have different forms.
const MODULE: &str = r#"
@I.ir_module
class Module:
    @R.function
    def image(x: R.Tensor((1, 3, 9, 9), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), b: R.Tensor((4, 1, 1), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1])
            z = R.nn.relu(R.add(y, b))
            p = R.nn.max_pool2d(z, pool_size=[2, 2], strides=[2, 2])
            m = R.mean(p, axis=[2, 3])
            R.output(m)
        return m

    @R.function
    def text(x: R.Tensor((4, 6, 8), "float32"), w: R.Tensor((8, 8), "float32"), g: R.Tensor((8,), "float32")):
        with R.dataflow():
            n = R.nn.layer_norm(x, g, g, axes=[-1])
            q = R.matmul(n, w)
            t = R.permute_dims(q, [0, 2, 1])
            s = R.nn.softmax(R.matmul(q, t), axis=-1)
            r = R.reshape(R.matmul(s, q), [24, 8])
            c = R.concat([r, R.nn.gelu(r)], axis=1)
            u = R.strided_slice(c, [1], [1], [15], [2])
            R.output(u)
        return u

    @R.function
    def several(x: R.Tensor((5, 7), "int32"), i: R.Tensor((3,), "int32")):
        with R.dataflow():
            a = R.cumsum(x, axis=1)
            b = R.take(a, R.clip(i, 0, 6), axis=1)
            c = R.sum(R.multiply(b, b), axis=[0])
            d = R.argmax(a, axis=1)
            e = R.where(R.greater(x, R.const(0, "int32")), x, R.negative(x))
            R.output(c, d, e)
        return (c, d, e)

    @R.function
    def symbolic(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            z = R.add(y, R.sum(y, axis=[1], keepdims=True))
            R.output(z)
        return z
"#;

#[test]
fn schedules_of_legalized_functions_compute_the_same() {
    let mut engine = Engine::new(&Manifest::load(&root().join("passes.toml")).expect("the manifest")).expect("plugins");
    let tolerance = Tolerance::Reassociated { rtol: 1e-5, atol: 1e-5 };
    let info = PassInfo { tolerance, ..PassInfo::new("t.Schedule") };
    engine.add_pass(create_prim_func_pass(info, schedule)).expect("a new name");
    let module = script::read(MODULE, &engine).expect("a module");
    let seeds = std::env::var("SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    let mut tally = Tally::default();
    for seed in 1..=seeds {
        SEED.store(seed, Ordering::SeqCst);
        for before in ["", ",relax.AnnotateTIROpPattern,relax.FuseOps,relax.FuseTIR"] {
            let passes = format!("relax.LegalizeOps{before},t.Schedule");
            let (steps, error) = validation::steps(&engine, &passes, &module).expect("a plan");
            assert!(error.is_none(), "{error:?}");
            let Some(step) = steps.last().filter(|step| step.pass == "t.Schedule") else { continue };
            let blamed = tally.blamed.len();
            let verdict = validation::verdict(&engine, step, seed);
            assert!(!matches!(verdict, Verdict::NotValidated { .. }), "{verdict:?}");
            tally.add(&format!("seed {seed}, {passes}"), verdict);
            if tally.blamed.len() > blamed {
                println!("after seed {seed}:\n{}", script::print(&step.after, &engine).expect("a text"));
            }
        }
    }
    println!("{tally}{} primitives were accepted", ACCEPTED.load(Ordering::SeqCst));
    assert!(tally.blamed.is_empty(), "{}", tally.blamed.join("\n"));
    assert!(tally.same > 0 && ACCEPTED.load(Ordering::SeqCst) > 300, "{tally}");
}

/// Arguments of the kernel: two sequences of 21 and 7 positions, in pages of 16.
struct Paged {
    q: Tensor,
    pages: Tensor,
    begins: [i32; 3],
    table: [i32; 3],
    last: [i32; 2],
}

impl Paged {
    fn new() -> Paged {
        let random =
            |shape: &[i64], seed| Tensor::random(DType::F32, shape, seed, &Limits::unlimited()).expect("floats");
        let (q, pages) = (random(&[2, 4, 4], 1), random(&[4, 2, 2, 16, 4], 2));
        Paged { q, pages, begins: [0, 2, 3], table: [3, 0, 1], last: [5, 7] }
    }

    /// Returns the output of the kernel.
    fn executed(&self, body: &Body) -> Vec<f32> {
        let of = |numbers: &[i32]| Tensor::from_vec(&[numbers.len() as i64], numbers.to_vec()).expect("integers");
        let zeros = |shape: &[i64]| Tensor::zeros(DType::F32, shape, &Limits::unlimited()).expect("zeros");
        let (begins, table, last, none) = (of(&self.begins), of(&self.table), of(&self.last), of(&[0, 0]));
        let (mut out, mut lse) = (zeros(&[2, 4, 4]), zeros(&[2, 4]));
        let inputs = [&self.q, &self.pages, &begins, &table, &last, &none, &none];
        let mut args: Vec<Arg<'_>> = inputs.into_iter().map(Arg::In).collect();
        args.extend([Arg::Out(&mut out), Arg::Out(&mut lse), Arg::Int(0)]);
        args.extend([Arg::Float(1.0), Arg::Float(10000.0), Arg::Float(0.5)]);
        let kernel = Interpreter.prepare(body).expect("a kernel");
        kernel.run(&mut args, &Limits::unlimited()).unwrap_or_else(|fault| panic!("{fault}"));
        out.values::<f32>().expect("floats").to_vec()
    }

    /// Returns attention by its definition.
    fn expected(&self) -> Vec<f32> {
        let (q, pages) = (self.q.values::<f32>().expect("floats"), self.pages.values::<f32>().expect("floats"));
        let mut out = Vec::new();
        for (b, h) in (0..2).flat_map(|b| (0..4).map(move |h| (b, h))) {
            let (first, end) = (self.begins[b] as usize, self.begins[b + 1] as usize);
            let length = (end - first - 1) * 16 + self.last[b] as usize;
            let at = |t: usize, part: usize, d: usize| {
                let page = self.table[first + t / 16] as usize;
                f64::from(pages[(((page * 2 + part) * 2 + h / 2) * 16 + t % 16) * 4 + d])
            };
            let score = |t: usize| (0..4).map(|d| f64::from(q[(b * 4 + h) * 4 + d]) * at(t, 0, d)).sum::<f64>() * 0.5;
            let weights: Vec<f64> = (0..length).map(|t| score(t).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let value = |d: usize| (0..length).map(|t| weights[t] / sum * at(t, 1, d)).sum::<f64>() as f32;
            out.extend((0..4).map(value));
        }
        out
    }
}

/// The kernel is TVM's, for a paged cache of keys and values.
#[test]
fn a_kernel_of_paged_attention_is_scheduled_and_lowered() {
    let engine = Engine::new(&Manifest::load(&root().join("passes.toml")).expect("the manifest")).expect("plugins");
    let text = include_str!("../goldens/kernels/paged_decode.py");
    let module = script::read(text, &engine).unwrap_or_else(|error| panic!("{error}"));
    let (paged, passes) = (
        Paged::new(),
        "tir.ScheduleForCPU,s_tir.LowerInitBlock,\
         s_tir.PlanAndUpdateBufferAllocationLocation,s_tir.ConvertBlocksToOpaque,s_tir.CompactBufferAllocation,\
         s_tir.LowerMatchBuffer,s_tir.LowerOpaqueBlock,tirx.FlattenBuffer,tirx.StorageRewrite,tirx.UnrollLoop",
    );
    let (steps, error) = validation::steps(&engine, passes, &module).expect("a plan");
    assert!(error.is_none() && steps.len() >= 5, "{error:?}");
    let expected = paged.expected();
    for (pass, module) in [("none", &module)].into_iter().chain(steps.iter().map(|step| (&*step.pass, &step.after))) {
        let (_, body) = module.functions().next().expect("a function");
        let found = paged.executed(body);
        let is_near = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(found.len() == expected.len() && is_near, "after {pass}: {found:?}\n{expected:?}");
    }
}
