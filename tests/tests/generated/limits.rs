//! Tests the notes that a host keeps in bodies for a search: limits of rewrites, and provenance of values.

use super::passes::report;
use super::{brief, cases, choices, made};
use passhost::Runner;
use passhost::verify::verify_module;
use passhost_tests::engine;
use plugin_api::ir::Body;
use proptest::prelude::*;

/// Passes that change functions by edits.
const PASSES: &[&str] = &[
    "relax.CanonicalizeBindings",
    "relax.EliminateCommonSubexpr",
    "relax.DeadCodeElimination",
    "relax.FoldConstant",
    "relax.InlinePrivateFunctions",
    "relax.LambdaLift",
    "relax.LegalizeOps",
    "relax.DecomposeOpsForInference",
];

/// Passes whose changes are independent edits within one block. Applying other passes' changes partially can leave a
/// block without its output, or a lifted function without its caller.
const EDITS: &[&str] = &["relax.EliminateCommonSubexpr", "relax.DeadCodeElimination"];

fn limited(runner: Runner<'_>, most: u32) -> Runner<'_> {
    runner.rewrites(vec![passhost::run::Rewrites { function: None, most }])
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn the_first_rewrites_are_whole(bytes in choices(), most in 0u32..6) {
        let module = made(&bytes);
        for pass in EDITS {
            let all = report(pass, &module, |runner| runner);
            let first = report(pass, &module, |runner| limited(runner, most));
            if all.error.is_some() {
                continue;
            }
            let why = first.error.as_ref().map(ToString::to_string);
            prop_assert_eq!(why, None, "{} {}: {}", pass, most, brief(&module));
            prop_assert_eq!(verify_module(&first.module, engine()), Ok(()), "{} {}", pass, most);
            // Edits do not change the set of functions of a module.
            let none = report(pass, &module, |runner| limited(runner, 0)).module;
            let is_as_before = |(name, body): (&str, &Body)| module.get(name).is_some_and(|it| it.structural_eq(body));
            prop_assert!(none.functions().all(is_as_before), "{pass}: {}", brief(&module));
        }
    }

    #[test]
    fn each_binding_is_from_somewhere(bytes in choices()) {
        let module = made(&bytes);
        for pass in PASSES {
            let traced = report(pass, &module, |runner| runner.provenance(true));
            let provenance = traced.provenance.expect("it was asked for");
            for (name, body) in traced.module.functions() {
                for value in body.bindings() {
                    let at = value.index().expect("a node");
                    prop_assert!(!provenance.chain(body, at).is_empty(), "{pass}: {name}");
                }
            }
        }
    }
}
