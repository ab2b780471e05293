//! Tests cached analyses of several plugins.
#![forbid(unsafe_code)]

use passhost::{Engine, Manifest, Runner, create_function_pass};
use passhost_tests::root;
use passhost_tests::synthetic::module_text;
use plugin_api::declare::analysis::Analysis;
use plugin_api::metadata::PassInfo;
use plugin_api::prelude::*;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// Number of analyses that are currently kept.
static KEPT: AtomicI64 = AtomicI64::new(0);

struct Probe;

impl Analysis for Probe {
    const NAME: &'static str = "probe";
    fn compute(_: &Body) -> Probe {
        KEPT.fetch_add(1, Ordering::SeqCst);
        Probe
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Requests an analysis, and returns a different function.
fn probes(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    ctx.analysis::<Probe>(body);
    let round = body.root().attr("round").and_then(|round| round.as_int()).unwrap_or(0);
    let mut edit = body.edit();
    edit.set_attr(body.root(), "round", Attr::Int(round + 1));
    Ok(edit.finish()?)
}

/// Two copies of the plugin API cache analyses of the same functions: the copy of this program, and the copy of a
/// plugin. Each plugin sees that another user keeps the functions alive. Functions of earlier rounds must still be
/// dropped.
#[test]
fn functions_that_only_caches_of_several_plugins_keep_are_forgotten() {
    const ROUNDS: usize = 120;
    let mut engine = Engine::new(&Manifest::load(&root().join("passes.toml")).expect("the manifest")).expect("plugins");
    engine.add_pass(create_function_pass(PassInfo::new("t.Probes"), probes)).expect("a new name");
    let text = module_text(1, 2_000).replace("@R.function", "@R.function(private=True)");
    let module = script::read(&text, &engine).expect("a module");
    // This pass requests the number of uses of each parameter of a private function.
    let pipeline = vec!["relax.RemoveUnusedParameters,t.Probes"; ROUNDS].join(",");
    let request = Request { pipeline: Pipeline::parse(&pipeline).expect("a pipeline"), ..Request::default() };
    let plan = Plan::new(&request, engine.registry()).expect("a plan");
    let report = Runner::new(&engine, BTreeMap::new()).run(&plan, module).expect("plugins open");
    assert!(report.error.is_none(), "{:?}", report.error);
    for counter in ["analysis `probe`: computed", "analysis `use counts`: computed"] {
        let counted = report.statistics.iter().find(|statistic| statistic.name == counter);
        assert_eq!(counted.map(|statistic| statistic.sum), Some(ROUNDS as u64), "{counter}");
    }
    let kept = KEPT.load(Ordering::SeqCst);
    assert!(kept < 60, "{kept} of {ROUNDS} are kept");
}
