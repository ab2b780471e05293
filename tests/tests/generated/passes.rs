//! Tests every pass of the default manifest on generated modules.

use super::{brief, cases, choices, made, shown};
use passhost::run::Rewrites;
use passhost::verify::verify_module;
use passhost::{RunReport, Runner};
use passhost_tests::engine;
use passhost_tests::generate::{Choices, algebra_module, bytes_of, wide_module};
use plugin_api::prelude::*;
use proptest::prelude::*;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;

/// A pass, with the preparation and the options with which it is tested.
pub(super) struct Trial {
    pass: &'static str,
    /// Passes that run before it, because its documentation requires them, or because it would otherwise change
    /// nothing.
    before: &'static str,
    /// The text of the pass, with the options that it needs to change anything.
    text: String,
}

/// Returns all passes, including composite ones. `TRY_PASS` selects a single one.
pub(super) fn trials() -> Vec<Trial> {
    let asked = std::env::var("TRY_PASS").ok();
    let wanted = |name: &&str| asked.as_deref().is_none_or(|asked| asked == *name);
    engine().registry().passes().map(|(_, pass)| pass.name.as_str()).filter(wanted).map(trial).collect()
}

fn trial(pass: &'static str) -> Trial {
    let before = match pass {
        "relax.RemovePurityChecking" => "relax.ToNonDataflow",
        "relax.CallTIRRewrite" => "relax.ToNonDataflow,relax.RemovePurityChecking",
        "relax.RewriteDataflowReshape" | "tir.JoinRows" => "relax.LegalizeOps",
        "relax.FuseOps" => "relax.LegalizeOps,relax.AnnotateTIROpPattern",
        "relax.FuseTIR" => "relax.LegalizeOps,relax.AnnotateTIROpPattern,relax.FuseOps",
        _ => "",
    };
    let options = match pass {
        "relax.FuseOpsByPattern" => r#"{patterns=["acme.conv2d_relu", "acme.matmul"]}"#,
        "relax.BindParams" => r#"{params=["s=2"]}"#,
        "relax.BindSymbolicVars" => r#"{binding_map=["n=16"]}"#,
        _ => "",
    };
    Trial { pass, before, text: format!("{pass}{options}") }
}

impl Trial {
    pub(super) fn name(&self) -> &str {
        self.pass
    }

    /// Returns the input of the pass; `None` if an earlier pass refuses the module.
    pub(super) fn prepared(&self, module: &Module) -> Option<Module> {
        match self.pass {
            "relax.NormalizeGlobalVar" => Some(visible_elsewhere(module)),
            _ => run(self.before, module, |runner| runner).ok(),
        }
    }

    /// Returns the result of the pass.
    fn run(&self, module: &Module, jobs: usize) -> Result<Module, String> {
        run(&self.text, module, |runner| runner.jobs(jobs))
    }

    /// Runs the pass, and checks its result; returns `None` if the pass refuses the module.
    pub(super) fn checked(&self, module: &Module) -> Option<Module> {
        let pass = self.pass;
        let once = match self.run(module, 1) {
            Ok(once) => once,
            Err(error) => {
                let blamed = ["ill-formed", "panicked", "contract"].iter().any(|word| error.contains(word));
                assert!(!blamed, "{pass}: {error}\n{}", brief(module));
                return None;
            }
        };
        assert_eq!(verify_module(&once, engine()), Ok(()), "{pass}: {}", brief(&once));
        let printed = shown(&once);
        let read = script::read(&printed, engine());
        assert!(read.is_ok(), "{pass}: {}\n{printed}", read.err().map(|error| error.to_string()).unwrap_or_default());
        let again = self.run(module, 1).expect("ran before");
        assert_eq!(shown(&again), printed, "{pass}");
        if once.structural_eq(module) && shown(module) == printed {
            assert!(once.same(module), "{pass} returns a copy of\n{}", brief(module));
        }
        self.ignores_notes(module, &printed);
        Some(once)
    }

    /// Checks that the pass has the same result and counters with a limit of rewrites that it does not reach, and with
    /// provenance numbers.
    fn ignores_notes(&self, module: &Module, printed: &str) {
        let told = |how: fn(Runner<'static>) -> Runner<'static>| {
            let RunReport { module, error, statistics, .. } = report(&self.text, module, how);
            (shown(&module), error.map(|error| error.to_string()), statistics)
        };
        let plain = told(|runner| runner);
        assert_eq!(plain.0, printed, "{}", self.pass);
        let limited = told(|runner| runner.rewrites(vec![Rewrites { function: None, most: u32::MAX }]));
        assert!(limited == plain, "{}, limited: {limited:#?}\n{}", self.pass, brief(module));
        let traced = told(|runner| runner.provenance(true));
        assert!(traced == plain, "{}, traced: {traced:#?}\n{}", self.pass, brief(module));
    }
}

/// Returns the module with functions whose external names differ. Only NormalizeGlobalVar accepts such a module.
fn visible_elsewhere(module: &Module) -> Module {
    let renamed = module.map_functions(|name, body| match body.root().attr("global_symbol") {
        None if body.function().is_some() && !body.is_private() => {
            let mut edit = body.edit();
            edit.set_attr(body.root(), "global_symbol", Attr::Str(format!("{name}_outside")));
            edit.finish()
        }
        _ => Ok(body.clone()),
    });
    renamed.expect("the attribute fits")
}

/// Runs passes of the standard plugins.
pub(super) fn report(passes: &str, module: &Module, how: impl FnOnce(Runner<'static>) -> Runner<'static>) -> RunReport {
    let pipeline = Pipeline::parse(passes).expect("a pipeline");
    let request = Request { pipeline, ..Request::default() };
    let plan = Plan::new(&request, engine().registry()).expect("a plan");
    how(Runner::new(engine(), BTreeMap::new())).run(&plan, module.clone()).expect("plugins open")
}

fn run(passes: &str, module: &Module, how: impl FnOnce(Runner<'static>) -> Runner<'static>) -> Result<Module, String> {
    let report = report(passes, module, how);
    report.error.map_or(Ok(report.module), |error| Err(error.to_string()))
}

proptest! {
    #![proptest_config(cases(200))]

    /// A pass may refuse a module with an error. Its result must be well-formed, parse back from its text, and be
    /// deterministic. If it equals the input, it must be the same handle.
    #[test]
    fn every_pass_leaves_well_formed_modules(bytes in choices(), which in any::<prop::sample::Index>()) {
        let trials = trials();
        let trial = &trials[which.index(trials.len())];
        if let Some(module) = trial.prepared(&made(&bytes)) {
            trial.checked(&module);
        }
    }
}

/// Seeds of the tested modules, starting at 1, because StmtSimplify takes minutes on seed 0; and the number of modules
/// that each pass must change.
const SEEDS: u64 = 400;
const ENOUGH: usize = 3;

/// Passes that change the result again in a second run on some modules, or that refuse their own result because nothing
/// is left to bind.
const NOT_IDEMPOTENT: &[&str] = &[
    "relax.CanonicalizeBindings",
    "relax.ConvertToDataflow",
    "relax.EliminateCommonSubexpr",
    "relax.MergeCompositeFunctions",
    "relax.BindParams",
    "relax.BindSymbolicVars",
    "tirx.StmtSimplify",
    "s_tir.StmtSimplify",
    "s_tir.HoistIfThenElse",
    "s_tir.CompactBufferAllocation",
    "tirx.FlattenBuffer",
    // A block's declared access to a buffer allocated elsewhere is removed, so the next run sees fewer accesses.
    "s_tir.PlanAndUpdateBufferAllocationLocation",
    // In nested vectorized loops, the inner loop remains, as in TVM.
    "tirx.VectorizeLoop",
];

/// Passes that change no generated module: PrintIR changes nothing; see [`TEXTS`] for the others.
const RARE: &[&str] = &["transform.PrintIR", "tirx.ConvertSSA"];

/// Modules with constructs that the generator cannot create.
const TEXTS: &[&str] = &[
    // One variable that is defined several times.
    r#"@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((4,), "int32")):
        n: T.let[T.int32] = 1
        A[0] = n
        n = 2
        A[1] = n
"#,
];

/// Returns the generated modules, and the modules of the texts. The texts are parsed because algebra passes look at the
/// default attributes that the parser adds.
fn modules() -> Vec<Module> {
    let read = |text: &str| script::read(text, engine()).expect("a module");
    let algebra = (0..SEEDS / 4).map(|seed| algebra_module(&Choices::new(&bytes_of(seed, 60)), engine()));
    let algebra = algebra.map(|module| read(&shown(&module)));
    let any = (1..SEEDS).map(|seed| made(&bytes_of(seed, 500)));
    TEXTS.iter().map(|text| read(text)).chain(algebra).chain(any).collect()
}

/// The generator must reach every pass. The contract of a pass must hold on each module that it changes: the host does
/// not repeat a pass whose effect is still valid, so a second run must change nothing.
#[test]
fn every_pass_changes_modules_and_a_second_run_changes_nothing() {
    let modules = modules();
    let mut wrong = Vec::new();
    for trial in trials() {
        let (mut changed, mut tried, mut repeated) = (0, 0, 0);
        for module in modules.iter().filter_map(|module| trial.prepared(module)) {
            tried += 1;
            let is_changed = |once: &Module| !once.structural_eq(&module);
            if trial.run(&module, 1).ok().is_none_or(|once| !is_changed(&once)) {
                continue;
            }
            let Some(once) = trial.checked(&module) else { continue };
            changed += 1;
            for jobs in [2, 8] {
                let other = trial.run(&module, jobs).map(|other| shown(&other));
                assert_eq!(other.as_ref(), Ok(&shown(&once)), "{} with {jobs} jobs", trial.text);
            }
            let twice = trial.run(&once, 1);
            repeated += usize::from(!twice.is_ok_and(|twice| twice.structural_eq(&once)));
            if changed == ENOUGH {
                break;
            }
        }
        if changed < ENOUGH && !RARE.contains(&trial.pass) {
            wrong.push(format!("{}: changes only {changed} of {tried} modules", trial.text));
        }
        if repeated > 0 && !NOT_IDEMPOTENT.contains(&trial.pass) {
            wrong.push(format!("{}: {repeated} of {changed} second runs change something", trial.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Uses many functions, so that the threads of a run share work. Results, reports and counters must be equal.
#[test]
fn every_pass_does_the_same_with_any_number_of_jobs() {
    for trial in trials() {
        let module = wide_module(&Choices::new(&bytes_of(5, 10_000)), engine(), 16);
        let pipeline = [trial.before, &trial.text].join(",");
        let of = |jobs: usize| {
            let report = report(pipeline.trim_start_matches(','), &module, |runner| runner.jobs(jobs));
            let error = report.error.as_ref().map(ToString::to_string);
            (shown(&report.module), error, report.diagnostics, report.statistics)
        };
        let one = of(1);
        for jobs in [2, 8] {
            assert!(of(jobs) == one, "{} with {jobs} jobs", trial.text);
        }
    }
}
