//! No standard pass is blamed on generated modules. `VALIDATE_MODULES=1000 cargo test -p passhost-tests --test validate`
//! takes more of them.

use passhost_tests::engine;
use passhost_tests::generate::{Choices, algebra_module, bytes_of, module};
use passhost_tests::validation::{self, Tally};
use plugin_api::prelude::Module;

/// How many modules, unless the environment says otherwise.
const USUAL: u64 = 8;

/// What a pass needs before it, and the options without which it does nothing.
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
        // The reader adds attributes with their defaults, which passes of algebra look at.
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
    for seed in 1..=count {
        let module = generated(seed);
        for pass in &passes {
            let Ok((steps, _)) = validation::steps(engine(), &pipeline(pass), &module) else { continue };
            let Some(step) = steps.last().filter(|step| step.pass == *pass) else { continue };
            tally.add(&format!("{pass}, seed {seed}"), validation::verdict(engine(), step, seed));
        }
    }
    println!("{tally}");
    assert!(tally.same > 0, "nothing was validated");
    assert!(tally.blamed.is_empty(), "{}", tally.blamed.join("\n"));
}
