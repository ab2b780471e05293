//! Instruments that are Python objects, and the instrument that checks for Ctrl-C between passes.

use crate::module::Module;
use crate::python_pass::keep;
use passhost::plugin_api::PassError;
use passhost::plugin_api::declare::instrument::{PassFacts, PassInstrument};
use passhost::plugin_api::ir;
use pyo3::prelude::*;

/// The hooks that an object defines; missing hooks are never called.
#[derive(FromPyObject)]
pub(crate) struct Watcher {
    name: String,
    should_run: Option<Py<PyAny>>,
    run_before_pass: Option<Py<PyAny>>,
    run_after_pass: Option<Py<PyAny>>,
}

impl Watcher {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

fn call(hook: Option<&Py<PyAny>>, module: &ir::Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
    let Some(hook) = hook else { return Ok(true) };
    let required: Vec<&str> = pass.required.iter().map(|required| required.name.as_str()).collect();
    Python::attach(|py| {
        let facts = (pass.name, pass.opt_level, required, pass.plugin, pass.position);
        let said = hook.call1(py, (Module::of(module.clone()), facts)).and_then(|said| said.bind(py).is_truthy());
        said.map_err(|error| keep(py, error))
    })
}

impl PassInstrument for Watcher {
    fn should_run(&mut self, module: &ir::Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        call(self.should_run.as_ref(), module, pass)
    }

    fn run_before(&mut self, module: &ir::Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        call(self.run_before_pass.as_ref(), module, pass).map(drop)
    }

    fn run_after(&mut self, module: &ir::Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        call(self.run_after_pass.as_ref(), module, pass).map(drop)
    }
}

/// Ends a run between two passes when the user presses Ctrl-C.
pub(crate) struct Signals;

impl PassInstrument for Signals {
    fn run_before(&mut self, _: &ir::Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        Python::attach(|py| py.check_signals().map_err(|error| keep(py, error)))
    }
}
