//! Each planted fault is found, and the first binding whose value differs is the right one.

use super::planted::{Planted, all, more_accurate};
use passhost::run::validate::Verdict;
use passhost::{Engine, Manifest};
use passhost_tests::{root, shared_engine, validation};
use std::sync::OnceLock;

/// The standard operators and passes, and the passes with a fault each.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<(tempfile::TempDir, Engine)> = OnceLock::new();
    let make = || {
        // The standard plugins are built before another engine reads them.
        shared_engine();
        let folder = tempfile::tempdir().expect("a folder");
        let crates =
            ["plugins/relax-ops", "plugins/relax-passes", "plugins/tir-passes", "tests/bad-plugins/miscompiles"];
        let entry = |path: &str| format!("[[plugin]]\ncrate = \"{}\"\n", root().join(path).display());
        let file = folder.path().join("passes.toml");
        std::fs::write(&file, crates.map(entry).concat()).expect("a manifest");
        let manifest = Manifest::load(&file).expect("a manifest");
        let engine = Engine::new(&manifest).expect("the plugins");
        (folder, engine)
    };
    &ENGINE.get_or_init(make).1
}

/// What was found of a fault: whether it was detected, and whether at the right place; and what was said.
fn tried(planted: &Planted) -> (bool, bool, String) {
    let pass = format!("wrong.{}", planted.pass);
    let module = match script::read(&planted.module, engine()) {
        Ok(module) => module,
        Err(error) => return (false, false, format!("{pass}: the module is not read: {error}")),
    };
    let steps = match validation::steps(engine(), &pass, &module) {
        Ok((steps, None)) => steps,
        Ok((_, Some(error))) => return (false, false, format!("{pass}: {error}")),
        Err(error) => return (false, false, format!("{pass}: {error}")),
    };
    let Some(step) = steps.last() else { return (false, false, format!("{pass} did not run")) };
    let verdict = validation::verdict(engine(), step, 1);
    let Verdict::Different(difference) = &verdict else { return (false, false, format!("{pass}: {verdict:?}")) };
    let found = match &difference.binding {
        Some(binding) => binding.name.clone().unwrap_or("the result".to_string()),
        None => difference.function.clone(),
    };
    (true, planted.first.contains(&found.as_str()), format!("{pass}: {found}"))
}

#[test]
fn planted_faults_are_found_at_their_place() {
    let planted = all();
    let passes = engine().registry().passes().filter(|(_, pass)| pass.name.starts_with("wrong.")).count();
    assert_eq!(planted.len(), passes, "each pass has one module");
    assert!(planted.len() >= 40, "{} faults", planted.len());
    let (mut found, mut placed) = (0, 0);
    for one in &planted {
        let (is_found, is_placed, said) = tried(one);
        found += usize::from(is_found);
        placed += usize::from(is_placed);
        if !is_found || !is_placed {
            println!("{} {said}", if is_found { "at another place:" } else { "not found:" });
        }
    }
    println!("found {found} of {}, the first binding is right in {placed} of {found}", planted.len());
    assert!(found * 100 >= planted.len() * 95, "found {found} of {}", planted.len());
    assert!(placed * 100 >= found * 90, "the first binding is right in {placed} of {found}");
}

/// The same modules give no alarm if the pass is a right one.
#[test]
fn right_passes_over_the_same_modules_are_not_blamed() {
    let passes = "relax.Normalize,relax.CanonicalizeBindings,relax.EliminateCommonSubexpr,relax.DeadCodeElimination,\
                  relax.LegalizeOps,relax.AnnotateTIROpPattern,relax.FuseOps,relax.FuseTIR";
    for planted in all() {
        let module = script::read(&planted.module, engine()).expect("a module");
        let (steps, _) = validation::steps(engine(), passes, &module).expect("a plan");
        for step in steps {
            let verdict = validation::verdict(engine(), &step, 1);
            let is_fine = matches!(verdict, Verdict::Unchanged | Verdict::Same(_));
            assert!(is_fine, "{} over that of {}: {verdict:?}", step.pass, planted.pass);
        }
    }
}

/// The values differ by more than the contract allows, and those after the pass are the right ones.
#[test]
fn a_more_accurate_result_is_not_blamed() {
    let module = script::read(&more_accurate().module, engine()).expect("a module");
    let (steps, _) = validation::steps(engine(), "right.Cancel", &module).expect("a plan");
    let verdict = validation::verdict(engine(), &steps[0], 1);
    let Verdict::Same(same) = &verdict else { panic!("{verdict:?}") };
    assert!(same.largest > 0.1, "the values differ by {}", same.largest);
}
