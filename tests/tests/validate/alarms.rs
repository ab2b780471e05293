//! Tests that no standard pass is blamed on generated modules. `VALIDATE_MODULES=1000 cargo test -p passhost-tests
//! --test validate` tests more modules, and `VALIDATE_SEED=1000` tests different modules.

use passhost::run::validate::Verdict;
use passhost_tests::engine;
use passhost_tests::generate::{Choices, algebra_module, bytes_of, module};
use passhost_tests::validation::{self, Tally};
use plugin_api::prelude::Module;

/// Default number of modules.
const USUAL: u64 = 8;

/// Returns a pipeline with the pass, the passes that must run before it, and the options that it needs to change
/// anything.
fn pipeline(pass: &str) -> String {
    let before = match pass {
        "relax.RemovePurityChecking" => "relax.ToNonDataflow,",
        "relax.CallTIRRewrite" => "relax.ToNonDataflow,relax.RemovePurityChecking,",
        "relax.RewriteDataflowReshape" => "relax.LegalizeOps,",
        "relax.FuseOps" => "relax.LegalizeOps,relax.AnnotateTIROpPattern,",
        "relax.FuseTIR" => "relax.LegalizeOps,relax.AnnotateTIROpPattern,relax.FuseOps,",
        name if name.starts_with("tirx.") || name.starts_with("s_tir.") => "relax.LegalizeOps,",
        _ => "",
    };
    let options = match pass {
        "relax.FuseOpsByPattern" => r#"{patterns=["acme.conv2d_relu", "acme.matmul"]}"#,
        "relax.BindParams" => r#"{params=["s=2"]}"#,
        "relax.BindSymbolicVars" => r#"{binding_map=["n=16"]}"#,
        _ => "",
    };
    format!("{before}{pass}{options}")
}

fn generated(seed: u64) -> Module {
    if seed.is_multiple_of(2) {
        let made = algebra_module(&Choices::new(&bytes_of(seed, 60)), engine());
        // The parser adds default attributes, which algebra passes look at.
        return script::read(&script::print(&made, engine()).expect("a text"), engine()).expect("a module");
    }
    module(&Choices::new(&bytes_of(seed, 500)), engine())
}

#[test]
fn no_standard_pass_is_blamed() {
    let count = std::env::var("VALIDATE_MODULES").ok().and_then(|n| n.parse().ok()).unwrap_or(USUAL);
    let mut passes: Vec<String> = engine().registry().passes().map(|(_, pass)| pass.name.clone()).collect();
    if let Ok(only) = std::env::var("VALIDATE_PASS") {
        passes.retain(|pass| *pass == only);
    }
    let mut tally = Tally::default();
    let first = std::env::var("VALIDATE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for seed in first..first + count {
        let module = generated(seed);
        for pass in &passes {
            let Ok((steps, _)) = validation::steps(engine(), &pipeline(pass), &module) else { continue };
            let Some(step) = steps.last().filter(|step| step.pass == *pass) else { continue };
            let blamed = tally.blamed.len();
            tally.add(&format!("{pass}, seed {seed}"), validation::verdict(engine(), step, seed));
            if tally.blamed.len() > blamed {
                println!("before {pass}, seed {seed}:\n{}", script::print(&step.before, engine()).expect("a text"));
            }
        }
    }
    println!("{tally}");
    assert!(tally.same > 0, "nothing was validated");
    assert!(tally.blamed.is_empty(), "{}", tally.blamed.join("\n"));
}

/// FuseTIR turns a kernel, which need not be private, into a PrimFunc with a different signature.
const KERNEL: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({"op_pattern": 0})
        for i in range(T.int64(4)):
            with T.sblock("twice"):
                v = T.axis.spatial(T.int64(4), i)
                y[v] = x[v] * T.float32(2)

    @R.function
    def fused(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.twice, (lv,), out_ty=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            gv = cls.fused(x)
            R.output(gv)
        return gv
"#;

#[test]
fn a_kernel_is_seen_through_its_callers() {
    let module = script::read(KERNEL, engine()).expect("a module");
    let (steps, error) = validation::steps(engine(), "relax.FuseTIR", &module).expect("a plan");
    let step = steps.last().unwrap_or_else(|| panic!("{error:?}"));
    let verdict = validation::verdict(engine(), step, 1);
    assert!(matches!(&verdict, Verdict::Same(same) if same.functions == 1), "{verdict:?}");
}
