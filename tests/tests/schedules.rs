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
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use steps::{Choices, step};

static SEED: AtomicU64 = AtomicU64::new(0);
static ACCEPTED: AtomicUsize = AtomicUsize::new(0);

/// Applies primitives to a function, chosen by its name and the seed.
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
