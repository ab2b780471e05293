//! Tests that every pass preserves the order between in-place calls and the reads of their arguments.

use passhost::run::validate::Verdict;
use passhost_tests::engine;
use passhost_tests::generate::{Choices, bytes_of, in_place_module};
use passhost_tests::validation::{steps, verdict};
use plugin_api::walk::in_place::WrittenParams;

/// Relax passes that accept a module as it is generated. The passes at the beginning of the list are also tried as the
/// first of two passes.
const PASSES: &[&str] = &[
    "relax.EliminateCommonSubexpr",
    "relax.CanonicalizeBindings",
    "relax.ConvertToDataflow",
    "relax.InlinePrivateFunctions",
    "relax.LegalizeOps,relax.AnnotateTIROpPattern,relax.FuseOps",
    "relax.TopologicalSort{direction=\"from-outputs\"}",
    "relax.LambdaLift",
    "relax.TopologicalSort{order=\"breadth-first\"}",
    "relax.TopologicalSort{order=\"breadth-first\", direction=\"from-outputs\"}",
    "relax.TopologicalSort",
    "relax.DeadCodeElimination",
    "relax.FoldConstant",
    "relax.RemoveUnusedOutputs",
    "relax.RemoveUnusedParameters",
    "relax.CombineParallelMatmul",
    "relax.FMARewrite",
    "relax.FuseOpsByPattern{patterns=[\"acme.conv2d_relu\", \"acme.matmul\"]}",
    "relax.ToNonDataflow,relax.RemovePurityChecking,relax.LegalizeOps,relax.CallTIRRewrite",
    "relax.LegalizeOps,relax.AnnotateTIROpPattern,relax.FuseOps,relax.FuseTIR",
    "relax.LegalizeOps,relax.RewriteDataflowReshape",
    "acme.GroupConvolutions",
];

/// Number of passes that are tried as the first of two.
const FIRST: usize = 7;

/// Runs each pass alone, and each pair, on modules of distinct seeds. `IN_PLACE_MODULES` sets the number of modules.
#[test]
fn updates_stay_where_they_are() {
    let asked = std::env::var("IN_PLACE_MODULES").ok().and_then(|text| text.parse().ok());
    let (modules, mut same, mut not, mut wrong) = (asked.unwrap_or(30u64), 0, Vec::new(), Vec::new());
    for seed in 0..modules {
        let text = in_place_module(&Choices::new(&bytes_of(seed + 1, 100)));
        let module = script::read(&text, engine()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for (at, pass) in PASSES.iter().enumerate() {
            let first = PASSES[(seed as usize + at) % FIRST];
            let pipeline = if seed % 2 == 0 { (*pass).to_string() } else { format!("{first},{pass}") };
            let (changed, error) = steps(engine(), &pipeline, &module).expect("a plan");
            wrong.extend(error.map(|error| format!("seed {seed}, {pipeline}: {error}")));
            for step in changed {
                match verdict(engine(), &step, 7) {
                    Verdict::Same(_) | Verdict::Unchanged => same += 1,
                    Verdict::NotValidated { why } => not.push(format!("seed {seed}, {}: {why}", step.pass)),
                    other => wrong.push(format!("seed {seed}, {pipeline}, {}: {other:?}", step.pass)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {same}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(not.len() * 20 <= same, "{} of {same} were not executed:\n{}", not.len(), not.join("\n"));
}

/// A call may pass one value for two parameters, which is checked at the call. Within a function, only parameters to
/// which the function itself writes count.
#[test]
fn a_private_function_writes_to_the_parameter_that_it_updates() {
    let module = script::read(&in_place_module(&Choices::new(&bytes_of(1, 100))), engine()).expect("is read");
    let written = WrittenParams::of(&module);
    assert_eq!(written.of_function("update"), [0], "`t`, not `u`");
    assert_eq!(written.of_function("add_to"), [0]);
    assert_eq!(written.of_function("neg"), [1]);
}
