//! Tests rewriting that keeps a function, and rewriting that makes small changes.

use super::{brief, cases, choices, made, shown};
use passhost::Runner;
use passhost::verify::verify_module;
use passhost_tests::engine;
use plugin_api::ir::BodyBuilder;
use plugin_api::prelude::*;
use plugin_api::tvm::{ExprMutator, StmtMutator};
use proptest::prelude::*;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;

struct Keep;
impl ExprMutator<'_> for Keep {}
impl StmtMutator<'_> for Keep {}

/// Replaces each call by an equal call.
struct Again;
impl<'b> ExprMutator<'b> for Again {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
        Ok(Action::Replace(rw.call_like(call, &args)))
    }
}

/// Replaces an operator by an operator of the same type.
struct Swap;
impl<'b> ExprMutator<'b> for Swap {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let Some(other) = call.op().and_then(swapped) else { return Ok(Action::Keep) };
        let (args, ty) = (call.args().map(|arg| rw.v(arg)).collect::<Vec<V>>(), call.ty().to_owned());
        Ok(Action::Replace(rw.call(other, &args, &[], &ty)))
    }
}

fn swapped(op: &str) -> Option<&'static str> {
    Some(match op {
        "relax.add" => "relax.maximum",
        "relax.less" => "relax.equal",
        "relax.nn.relu" => "relax.abs",
        "relax.exp" => "relax.tanh",
        _ => return None,
    })
}

fn mutated(module: &Module, f: impl Fn(&Body) -> Result<Body, PassError>) -> Module {
    module.map_functions(|_, body| f(body)).unwrap_or_else(|error| panic!("{error}\n{}", shown(module)))
}

/// Runs passes of the standard plugins.
pub(super) fn run(passes: &str, module: &Module) -> Result<Module, String> {
    let pipeline = Pipeline::parse(passes).expect("a pipeline");
    let request = Request { pipeline, ..Request::default() };
    let plan = Plan::new(&request, engine().registry()).expect("a plan");
    let report = Runner::new(engine(), BTreeMap::new()).run(&plan, module.clone()).expect("plugins open");
    report.error.map_or(Ok(report.module), |error| Err(error.to_string()))
}

const PASSES: &[&str] = &[
    "relax.Normalize",
    "relax.CanonicalizeBindings",
    "relax.EliminateCommonSubexpr",
    "relax.DeadCodeElimination",
    "relax.ConvertToDataflow",
    "relax.ToNonDataflow",
];

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn mutators_that_keep_give_the_same_handle(bytes in choices()) {
        let module = made(&bytes);
        let kept = mutated(&module, |body| ExprMutator::mutate(&mut Keep, body));
        prop_assert!(kept.same(&module));
        let kept = mutated(&module, |body| StmtMutator::mutate(&mut Keep, body));
        prop_assert!(kept.same(&module));
        let kept = mutated(&module, |body| Ok(body.rewrite(|_, _| Action::Keep)?));
        prop_assert!(kept.same(&module));
    }

    #[test]
    fn calls_replaced_by_themselves_are_the_same_module(bytes in choices()) {
        let module = made(&bytes);
        let again = mutated(&module, |body| ExprMutator::mutate(&mut Again, body));
        prop_assert!(again.structural_eq(&module), "{}\n{}", brief(&module), brief(&again));
    }

    #[test]
    fn an_importer_copies(bytes in choices()) {
        for (name, body) in made(&bytes).functions() {
            let mut b = BodyBuilder::new();
            b.importer(body.raw()).copy(&mut b, body.root()).expect("all operands are in the body");
            let copy = b.finish().expect("valid");
            prop_assert!(copy.structural_eq(body), "{name}\n{}", plugin_api::walk::dump::dump(body));
        }
    }

    #[test]
    fn rewrites_leave_well_formed_modules(bytes in choices()) {
        let module = made(&bytes);
        let swapped = mutated(&module, |body| ExprMutator::mutate(&mut Swap, body));
        prop_assert_eq!(verify_module(&swapped, engine()), Ok(()), "{}\n{}", brief(&module), brief(&swapped));
        let removed = mutated(&module, |body| Ok(remove_all_unused(body)?));
        prop_assert_eq!(verify_module(&removed, engine()), Ok(()), "{}\n{}", brief(&module), brief(&removed));
        let again = mutated(&removed, |body| Ok(remove_all_unused(body)?));
        prop_assert!(again.same(&removed));
    }

    /// The runner verifies changed functions. If a pass completes its work in one run, a second run changes nothing.
    #[test]
    fn standard_passes_leave_well_formed_modules(bytes in choices(), which in 0..PASSES.len()) {
        let module = made(&bytes);
        let once = run(PASSES[which], &module);
        let once = once.map_err(|error| TestCaseError::fail(format!("{}: {error}\n{}", PASSES[which], brief(&module))))?;
        prop_assert_eq!(verify_module(&once, engine()), Ok(()), "{}", brief(&once));
        let printed = shown(&once);
        let read = script::read(&printed, engine());
        let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{printed}")))?;
        // Adjacent dataflow blocks are parsed as one.
        prop_assert_eq!(verify_module(&read, engine()), Ok(()), "{}", printed);
        if !matches!(PASSES[which], "relax.Normalize" | "relax.DeadCodeElimination") {
            return Ok(());
        }
        let twice = run(PASSES[which], &once).expect("ran before");
        prop_assert!(twice.structural_eq(&once), "{}\n{}\n{}", PASSES[which], brief(&once), brief(&twice));
    }
}
