//! Runs passes with the plugins in this process, and with each plugin in a separate process. Everything that a run
//! reports must be the same.

use super::modules::read;
use super::passes::{PassCase, report_of};
use super::{Failure, Outcome, guarded};
use passhost::{Engine, Instrument};
use plugin_api::PassError;
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use plugin_api::ir::Module;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Runs a case in both configurations, and compares the reports.
pub fn run(case: &PassCase, here: &Arc<Engine>, apart: &Arc<Engine>) -> Outcome {
    let mut opaque_calls = 0;
    let failure = guarded(|| {
        let (before, opaque) = read("before not read", &case.before, here)?;
        opaque_calls = opaque;
        let (here, apart) = (told(case, &before, here)?, told(case, &before, apart)?);
        match here.iter().zip(&apart).find(|(here, apart)| here != apart) {
            None if here.len() == apart.len() => Ok(()),
            None => Err(Failure::new("another report", "one of the two runs reports more")),
            Some((here, apart)) => Err(Failure::new("another report", format!("here: {here}\napart: {apart}"))),
        }
    });
    Outcome { id: case.id.clone(), group: case.pass.clone(), failure: failure.err(), text: None, opaque_calls }
}

/// Returns everything that a run reports: the text of the module, errors, diagnostics, counters, warnings, and the
/// events of instruments.
fn told(case: &PassCase, before: &Module, engine: &Arc<Engine>) -> Result<Vec<String>, Failure> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let instrument = Instrument::new("tests.Watcher", Box::new(Watcher(Rc::clone(&seen))));
    let report = report_of(case, before.clone(), engine, Some(instrument))?;
    let text = script::print(&report.module, &**engine).map_err(|why| Failure::new("not printed", why))?;
    let mut all = vec![text];
    all.extend(report.error.iter().chain(&report.failures).map(ToString::to_string));
    all.extend(report.diagnostics.iter().map(|diagnostic| format!("{diagnostic:?}")));
    all.extend(report.statistics.iter().map(|statistic| format!("{statistic:?}")));
    all.extend(report.warnings.iter().chain(&report.unread_config).cloned());
    all.extend(report.rows().map(|(depth, step)| format!("{depth} {:?}", step.outcome)));
    all.append(&mut seen.borrow_mut());
    // A pass that returns its input must return the same handle.
    all.push(format!("the same module: {}", report.module.same(before)));
    Ok(all)
}

/// An instrument that records its calls.
struct Watcher(Rc<RefCell<Vec<String>>>);

impl Watcher {
    fn note(&self, event: &str, module: &Module, pass: &PassFacts<'_>, message: &str) {
        let hashes: Vec<u64> = module.functions().map(|(_, body)| body.structural_hash()).collect();
        self.0.borrow_mut().push(format!("{event} {pass:?} {hashes:x?} {message}"));
    }
}

impl PassInstrument for Watcher {
    fn should_run(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        self.note("should_run", module, pass, "");
        Ok(true)
    }

    fn run_before(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.note("run_before", module, pass, "");
        Ok(())
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.note("run_after", module, pass, "");
        Ok(())
    }

    fn run_failed(&mut self, module: &Module, pass: &PassFacts<'_>, message: &str) -> Result<(), PassError> {
        self.note("run_failed", module, pass, message);
        Ok(())
    }
}

/// The passes that run on a generated module.
const PASSES: [&str; 12] = [
    "relax.Normalize",
    "relax.CanonicalizeBindings",
    "relax.EliminateCommonSubexpr",
    "relax.DeadCodeElimination",
    "relax.ConvertToDataflow",
    "relax.LegalizeOps",
    "relax.FoldConstant",
    "relax.FuseOps",
    "relax.ToNonDataflow",
    "relax.LambdaLift",
    "tirx.StmtSimplify",
    "acme.GroupConvolutions",
];

/// Returns runs of one pass each on a module.
pub fn cases(id: &str, text: &str, engine: &Engine) -> Vec<PassCase> {
    let known = PASSES.into_iter().filter(|pass| engine.registry().find_full(pass).is_some());
    let case = |pass: &str| PassCase {
        id: format!("{id} {pass}"),
        pass: pass.to_string(),
        args: Vec::new(),
        kwargs: serde_json::Map::new(),
        context: serde_json::json!({ "opt_level": 9 }),
        before: text.to_string(),
        after: None,
    };
    known.map(case).collect()
}
