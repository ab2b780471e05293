//! Plans and runs.

use crate::engine;
use crate::errors::raised;
use crate::module::Module;
use crate::python_pass::{Called, described, take_raised};
use crate::values::Given;
use crate::watch::{Signals, Watcher};
use passhost::plugin_api::ir;
use passhost::{Engine, Error, Instrument, Pass, PassContext, RunReport, Runner, Sequential};
use pyo3::prelude::*;
use std::sync::Arc;

/// A pass or Sequential, as received from Python.
#[derive(FromPyObject)]
pub(crate) enum Asked {
    Pass { name: String, options: Vec<(String, Given)> },
    Sequential { title: Option<String>, opt_level: Option<i32>, required: Vec<String>, members: Vec<Asked> },
}

impl Asked {
    fn pass(self, engine: &Arc<Engine>) -> Result<Pass, Error> {
        match self {
            Asked::Pass { name, options } => {
                let pass = Pass::find(engine, &name)?;
                Ok(options.into_iter().fold(pass, |pass, (name, value)| pass.option(&name, value.0)))
            }
            Asked::Sequential { title, opt_level, required, members } => {
                let members = members.into_iter().map(|member| member.pass(engine)).collect::<Result<Vec<_>, _>>()?;
                let all = Sequential::new(members).required(required.iter().map(String::as_str));
                let all = opt_level.into_iter().fold(all, Sequential::opt_level);
                Ok(title.iter().fold(all, |all, title| all.name(title)).pass(engine))
            }
        }
    }
}

/// The context of a run, as received from Python.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    opt_level: i32,
    required: Vec<String>,
    disabled: Vec<String>,
    config: Vec<(String, Given)>,
    target: Option<String>,
    tvm_compat: bool,
    jobs: Option<usize>,
    missed: bool,
    plugin_instruments: Vec<String>,
    watchers: Vec<Watcher>,
}

impl Settings {
    /// Returns the context. Its instruments observe only passes, because Python enters and leaves them.
    fn context(self, engine: &Arc<Engine>) -> Result<PassContext, Error> {
        let builder = PassContext::builder().opt_level(self.opt_level).tvm_compat(self.tvm_compat);
        let builder = builder.require(self.required).disable(self.disabled);
        let builder = self.config.into_iter().fold(builder, |builder, (key, value)| builder.config(&key, value.0));
        let builder = self.target.iter().fold(builder, |builder, target| builder.target(target));
        let builder = builder.instrument(Instrument::new("signals", Box::new(Signals)));
        let watchers = self.watchers.into_iter();
        let builder = watchers.fold(builder, |builder, watcher| {
            let name = watcher.name().to_string();
            builder.instrument(Instrument::new(&name, Box::new(watcher)))
        });
        let plugins = self.plugin_instruments.iter();
        plugins.fold(builder, |builder, text| builder.plugin_instrument(text)).build(engine)
    }
}

/// One row of the summary of a run: depth, pass with its options, outcome, reason, seconds in the pass, seconds of
/// verification, bindings before and after.
type Row = (usize, String, String, String, f64, f64, (usize, usize));

/// The result of a run for Python: the module, diagnostics as lines of JSON, warnings, rows, and counters of passes
/// (pass, counter, sum).
pub(crate) type Ran = (Module, Vec<String>, Vec<String>, Vec<Row>, Vec<(String, String, u64)>);

/// Runs a pass or Sequential on a module. If the pass was already `called`, its result is used instead of a call.
#[pyfunction]
#[pyo3(signature = (module, asked, settings, called = None))]
pub(crate) fn run(
    py: Python<'_>,
    module: &Module,
    asked: Asked,
    settings: Settings,
    called: Option<Called>,
) -> PyResult<Ran> {
    let engine = engine::current(py)?;
    drop(take_raised());
    let called = called.map(|called| called.result(py));
    let report = py.detach(|| {
        report(&engine, &module.0, asked, settings, |runner, pass| match called {
            Some((result, time)) => runner.called(pass, result, time),
            None => runner,
        })
    });
    ended(py, &engine, report)
}

/// Returns the result of a run, or the exception if it failed.
pub(crate) fn ended(py: Python<'_>, engine: &Engine, report: Result<RunReport, Error>) -> PyResult<Ran> {
    let error = match report {
        Ok(RunReport { error: None, failures, .. }) if !failures.is_empty() => Error::Several(failures),
        Ok(RunReport { error: Some(error), .. }) | Err(error) => error,
        Ok(report) => return Ok(ran(engine, report)),
    };
    Err(match take_raised() {
        // A Python exception propagates unchanged, with the position in the run.
        Some(own) => {
            own.value(py).call_method1("add_note", (place(&error.to_string(), &described(py, &own)),))?;
            own
        }
        None => raised(py, &error),
    })
}

/// Strips the text of the Python exception from a host error, because the exception itself contains it.
fn place<'e>(error: &'e str, raised: &str) -> &'e str {
    error.split_once(raised).map_or(error, |(place, _)| place.trim_end_matches([':', ' ']))
}

/// Runs a pass or Sequential; `with` configures the runner further, given the full name of a pass.
pub(crate) fn report(
    engine: &Arc<Engine>,
    module: &ir::Module,
    asked: Asked,
    settings: Settings,
    with: impl for<'e> FnOnce(Runner<'e>, &str) -> Runner<'e>,
) -> Result<RunReport, Error> {
    let (jobs, missed) = (settings.jobs, settings.missed);
    let context = settings.context(engine)?;
    let pass = asked.pass(engine)?;
    let plan = pass.plan(&context)?;
    let runner = Runner::in_context(engine, &context).missed(missed);
    let runner = with(runner, pass.info().map_or("", |info| &info.name));
    let mut report = jobs.into_iter().fold(runner, Runner::jobs).run(&plan, module.clone())?;
    report.warnings.splice(0..0, plan.warnings.iter().map(ToString::to_string));
    Ok(report)
}

fn ran(engine: &Engine, report: RunReport) -> Ran {
    let registry = engine.registry();
    let rows = report.rows().map(|(depth, step)| {
        let (time, verify) = (step.time.as_secs_f64(), step.verify.as_secs_f64());
        (depth, step.text(registry), step.outcome.to_string(), step.reason(registry), time, verify, step.bindings)
    });
    let rows = rows.collect();
    let statistics = report.statistics.iter();
    let statistics = statistics.map(|counted| (counted.pass.clone(), counted.name.clone(), counted.sum)).collect();
    let diagnostics = report.diagnostics.iter().map(|diagnostic| diagnostic.report(registry).json()).collect();
    (Module::of(report.module), diagnostics, report.warnings, rows, statistics)
}

/// The plan of a pass or Sequential: depth, nesting, pass with its options, plugin, and reason of each step; and
/// warnings.
type Planned = (Vec<(usize, usize, String, Option<String>, String)>, Vec<String>);

/// Plans a pass or Sequential.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, asked: Asked, settings: Settings) -> PyResult<Planned> {
    let engine = engine::current(py)?;
    let registry = engine.registry();
    let plan = py.detach(|| asked.pass(&engine)?.plan(&settings.context(&engine)?));
    let plan = plan.map_err(|error| raised(py, &error))?;
    let lines = plan.lines(registry).into_iter().map(|line| {
        let plugin = line.unit.pass().map(|pass| registry.pass_owner(pass).name.clone());
        (line.depth, line.nesting, line.text, plugin, line.reason)
    });
    Ok((lines.collect(), plan.warnings.iter().map(ToString::to_string).collect()))
}
