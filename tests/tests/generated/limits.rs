//! What a host notes in bodies for a search: limits of rewrites, and where values are from. Neither makes a pass fail.

use super::{brief, cases, choices, made, shown};
use passhost::verify::verify_module;
use passhost::{RunReport, Runner};
use passhost_tests::engine;
use plugin_api::prelude::*;
use proptest::prelude::*;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;

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

/// Those of which each change is one of an edit, within one block. A part of what others change can leave a block without its
/// output, or a function that was lifted without its caller.
const EDITS: &[&str] = &["relax.EliminateCommonSubexpr", "relax.DeadCodeElimination"];

fn run(text: &str, module: &Module, how: impl FnOnce(Runner<'_>) -> Runner<'_>) -> RunReport {
    let pipeline = Pipeline::parse(text).expect("a pipeline");
    let plan = Plan::new(&Request { pipeline, ..Request::default() }, engine().registry()).expect("a plan");
    how(Runner::new(engine(), BTreeMap::new())).run(&plan, module.clone()).expect("a run")
}

fn limited(runner: Runner<'_>, most: u32) -> Runner<'_> {
    runner.rewrites(Some(passhost::run::Rewrites { function: None, most }))
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn the_first_rewrites_are_whole(bytes in choices(), most in 0u32..6) {
        let module = made(&bytes);
        for pass in EDITS {
            let all = run(pass, &module, |runner| runner);
            let first = run(pass, &module, |runner| limited(runner, most));
            if all.error.is_some() {
                continue;
            }
            let why = first.error.as_ref().map(ToString::to_string);
            prop_assert_eq!(why, None, "{} {}: {}", pass, most, brief(&module));
            prop_assert_eq!(verify_module(&first.module, engine()), Ok(()), "{} {}", pass, most);
            let many = run(pass, &module, |runner| limited(runner, u32::MAX));
            prop_assert_eq!(shown(&many.module), shown(&all.module), "{}: {}", pass, brief(&module));
            prop_assert!(run(pass, &module, |runner| limited(runner, 0)).module.structural_eq(&module), "{pass}");
        }
    }

    #[test]
    fn to_know_where_values_are_from_changes_nothing(bytes in choices()) {
        let module = made(&bytes);
        for pass in PASSES {
            let (plain, traced) = (run(pass, &module, |runner| runner), run(pass, &module, |runner| runner.provenance(true)));
            prop_assert_eq!(shown(&traced.module), shown(&plain.module), "{}", pass);
            prop_assert!(traced.module.structural_eq(&plain.module));
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
