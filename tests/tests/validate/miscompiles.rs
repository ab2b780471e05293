//! Tests that each planted fault is found, with the correct first binding whose value differs.

use super::mutants::{self, Mutant};
use super::planted::{Planted, all, more_accurate};
use super::rarer;
use passhost::run::validate::Verdict;
use passhost::{Engine, Manifest};
use passhost_tests::{root, shared_engine, validation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Returns an engine with the standard operators and passes, and the passes that have one fault each.
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

/// Tests a fault: returns whether the fault was detected, whether the reported place is correct, and the
/// message.
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

/// Correct passes give no alarm on the same modules.
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

/// The values differ by more than the contract allows, but the values after the pass are more accurate.
#[test]
fn a_more_accurate_result_is_not_blamed() {
    let module = script::read(&more_accurate().module, engine()).expect("a module");
    let (steps, _) = validation::steps(engine(), "right.Cancel", &module).expect("a plan");
    let verdict = validation::verdict(engine(), &steps[0], 1);
    let Verdict::Same(same) = &verdict else { panic!("{verdict:?}") };
    assert!(same.largest > 0.1, "the values differ by {}", same.largest);
}

/// Returns the verdict on a mutant, or the reason why the mutant is not a fair test.
fn judged(mutant: &Mutant, seed: u64) -> Result<Verdict, String> {
    let read = |text: &str| script::read(text, engine()).map_err(|errors| format!("{errors:?}\n{text}"));
    let (before, after) = (read(&mutant.before)?, read(&mutant.after)?);
    let pass = if mutant.before.contains("@R.function") { "relax.CanonicalizeBindings" } else { "tirx.StmtSimplify" };
    let step = validation::step(engine(), pass, &before, &after).ok_or("no such pass")?;
    let step = passhost::run::validate::ValidatedStep { tolerance: mutant.tolerance, ..step };
    Ok(validation::verdict(engine(), &step, seed))
}

/// `VALIDATE_SEED=7` selects a different seed, and `VALIDATE_KIND=race` selects one kind.
#[test]
fn mutants_of_each_kind_are_found() {
    let seed = std::env::var("VALIDATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let only = std::env::var("VALIDATE_KIND").ok();
    let mut mutants = [mutants::all(), rarer::all()].into_iter().flatten().collect::<Vec<_>>();
    mutants.retain(|mutant| only.as_ref().is_none_or(|only| mutant.kind == only));
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut missed = Vec::new();
    for mutant in &mutants {
        let counted = kinds.entry(mutant.kind).or_default();
        counted.1 += 1;
        match judged(mutant, seed) {
            Ok(Verdict::Different(_)) => counted.0 += 1,
            other => missed.push(format!("{}: {}: {other:?}", mutant.kind, mutant.name)),
        }
    }
    kinds.iter().for_each(|(kind, (found, of))| println!("{kind}: {found} of {of}"));
    let found: usize = kinds.values().map(|(found, _)| found).sum();
    println!("found {found} of {}", mutants.len());
    missed.iter().for_each(|missed| println!("not found: {missed}"));
    assert!(only.is_some() || mutants.len() >= 350, "{} mutants", mutants.len());
    assert!(found * 100 >= mutants.len() * 97, "found {found} of {}\n{}", mutants.len(), missed.join("\n"));
}

/// Correct passes give no alarm on the modules of the mutants.
#[test]
fn right_passes_over_modules_of_mutants_are_not_blamed() {
    let passes = "tirx.StmtSimplify,s_tir.CompactBufferAllocation,tirx.FlattenBuffer,tirx.NarrowDataType{target_bits=64},\
                  s_tir.HoistIfThenElse,tirx.UnrollLoop,tirx.RemoveNoOp,tirx.VectorizeLoop,tirx.CommonSubexprElim";
    let known: Vec<&str> = passes
        .split(',')
        .filter(|pass| {
            let name = pass.split('{').next().unwrap_or_default();
            engine().registry().passes().any(|(_, info)| info.name == name)
        })
        .collect();
    let mut before = BTreeSet::new();
    for mutant in mutants::all().iter().chain(&rarer::all()).filter(|mutant| before.insert(mutant.before.clone())) {
        let module = script::read(&mutant.before, engine()).expect("a module");
        for pass in &known {
            let Ok((steps, None)) = validation::steps(engine(), pass, &module) else { continue };
            for step in steps {
                let verdict = validation::verdict(engine(), &step, 1);
                let is_blamed = matches!(verdict, Verdict::Different(_) | Verdict::CheckerFailed { .. });
                assert!(!is_blamed, "{pass} over {}: {verdict:?}", mutant.before);
            }
        }
    }
}
