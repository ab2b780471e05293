//! Tests passes over functions on several threads: only the time may differ.

use passhost::{Engine, Manifest, RunReport, Runner};
use passhost_tests::root;
use passhost_tests::synthetic::module_text;
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;

const PLUGINS: [&str; 3] = ["plugins/relax-ops", "plugins/relax-passes", "tests/bad-plugins/misbehaves"];

fn run(engine: &Engine, passes: &str, module: &Module, jobs: usize) -> RunReport {
    let request = Request {
        pipeline: Pipeline::parse(passes).expect("a pipeline"),
        selections: Vec::new(),
        ..Request::default()
    };
    let plan = Plan::new(&request, engine.registry()).expect("a plan");
    Runner::new(engine, BTreeMap::new()).jobs(jobs).run(&plan, module.clone()).expect("plugins open")
}

#[test]
fn results_diagnostics_and_errors_are_those_of_one_thread() {
    let list: String = PLUGINS.iter().map(|plugin| format!("[[plugin]]\ncrate = \"{plugin}\"\n")).collect();
    let manifest = Manifest::parse(&root().join("parallel.toml"), &list).expect("a manifest");
    let engine = Engine::new(&manifest).expect("plugins");
    let module = script::read(&module_text(2_000, 20), &engine).expect("a module");
    let standard = "relax.CanonicalizeBindings,relax.EliminateCommonSubexpr,relax.DeadCodeElimination";
    for passes in [standard, "bad.Warns", "bad.UsesRemoved"] {
        let [one, four] = [1, 4].map(|jobs| run(&engine, passes, &module, jobs));
        assert!(one.module.structural_eq(&four.module), "{passes}");
        let outcomes = |report: &RunReport| report.rows().map(|(_, step)| step.outcome.clone()).collect::<Vec<_>>();
        assert_eq!(outcomes(&one), outcomes(&four), "{passes}");
        assert_eq!(one.diagnostics, four.diagnostics, "{passes}");
        let text = |report: &RunReport| report.error.as_ref().map(ToString::to_string);
        assert_eq!(text(&one), text(&four), "{passes}");
    }
    assert_eq!(run(&engine, "bad.Warns", &module, 4).diagnostics.len(), 2_000);
}
