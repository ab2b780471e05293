//! Validated runs, which execute the module before and after each pass.

use crate::engine;
use crate::errors::raised_as;
use crate::execute::Array;
use crate::executors::{Named, fresh};
use crate::module::Module;
use crate::python_pass::take_raised;
use crate::run::{Asked, Ran, Settings, ended, report};
use passhost::Instrument;
use passhost::plugin_api::names::{did_you_mean, nearest};
use passhost::run::validate::{ChangedSteps, Checked, Validation, Validator, parameter_names, symbolic_dims};
use passhost::runtime::vm::{Between, Bounds};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Validation settings, as received from Python: the seed of all inputs, extents of symbolic dimensions, the function
/// to execute, the memory limit in bytes, the work limit (if not the default), the backend for PrimFuncs, arrays by
/// parameter name, lowest and highest values of one or all parameters, and the number of inputs per size.
#[derive(FromPyObject)]
pub(crate) struct How {
    seed: u64,
    dims: BTreeMap<String, i64>,
    function: Option<String>,
    memory: u64,
    work: Option<u64>,
    backend: Named,
    inputs: BTreeMap<String, Py<Array>>,
    ranges: Vec<(Option<String>, f64, f64)>,
    inputs_per_size: usize,
}

impl How {
    fn checked(self, py: Python<'_>, module: &Module) -> PyResult<Validation> {
        let How { seed, dims, function, memory, work, backend, inputs, ranges, inputs_per_size } = self;
        if let Some(name) = function.as_deref().filter(|name| module.0.get(name).is_none()) {
            return Err(PyValueError::new_err(format!("the module does not have a function `{name}`")));
        }
        let known = symbolic_dims(&module.0);
        if let Some(name) = dims.keys().find(|name| !known.contains(*name)) {
            let message = format!("the parameters of the module do not have a symbolic dimension `{name}`");
            return Err(PyValueError::new_err(message));
        }
        if let Some((name, extent)) = dims.iter().find(|(_, extent)| **extent < 0) {
            return Err(PyValueError::new_err(format!("the dimension `{name}` cannot have the extent {extent}")));
        }
        let params: BTreeSet<String> = module.0.functions().flat_map(|(_, body)| parameter_names(body)).collect();
        let named = inputs.keys().chain(ranges.iter().filter_map(|(name, ..)| name.as_ref()));
        if let Some(name) = named.into_iter().find(|name| !params.contains(*name)) {
            let near = did_you_mean(&nearest(name, params.iter().map(String::as_str)));
            let message = format!("the functions of the module do not have a parameter `{name}`{near}");
            return Err(PyValueError::new_err(message));
        }
        let mut bounds = Bounds::default();
        for (name, low, high) in ranges {
            let between = Between { low, high };
            match name {
                Some(name) => drop(bounds.by_name.insert(name, between)),
                None => bounds.all = Some(between),
            }
        }
        let arrays = inputs.into_iter().map(|(name, array)| (name, array.get().tensor().clone())).collect();
        let usual = Validation::new(seed, memory);
        let work = work.unwrap_or(usual.work);
        let executor = py.detach(|| fresh(backend)).map_err(|error| raised_as(py, &error, "execution"))?;
        Ok(Validation { dims, function, work, executor, bounds, arrays, inputs_per_size, ..usual })
    }
}

/// Runs a pass or Sequential, and validates each pass that ran. Returns the result of the run, and a line of JSON with
/// a summary for each pass.
#[pyfunction]
pub(crate) fn validate(
    py: Python<'_>,
    module: &Module,
    asked: Asked,
    settings: Settings,
    how: How,
) -> PyResult<(Ran, Vec<(String, String)>)> {
    let engine = engine::current(py)?;
    let how = how.checked(py, module)?;
    drop(take_raised());
    let (report, checked) = py.detach(|| {
        let steps = ChangedSteps::default();
        let collecting = Instrument::new("passhost.validate", steps.instrument(engine.registry()));
        let report = report(&engine, &module.0, asked, settings, |runner, _| runner.instrument(collecting));
        let mut validator = Validator::new(&engine, how);
        let (mut checked, mut stopped) = (Vec::new(), None);
        for step in steps.take() {
            // Ctrl-C ends a validation between two passes.
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                stopped = Some(error);
                break;
            }
            let one = Checked::new(&step, validator.check(&step, &mut |_| {}));
            checked.push((one.json(), one.what()));
        }
        (report, stopped.map_or(Ok(checked), Err))
    });
    let ran = ended(py, &engine, report)?;
    Ok((ran, checked?))
}
