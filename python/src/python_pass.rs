//! Passes that are functions of Python, and what they raised.

use crate::module::Module;
use passhost::plugin_api::metadata::PassInfo;
use passhost::plugin_api::{PassError, ir};
use passhost::{MadePass, create_module_pass};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::time::Duration;

thread_local! {
    /// What a pass or an instrument of the run on this thread raised, as it was.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// What was raised since the last call, if anything was.
pub(crate) fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// The class and message of what was raised.
pub(crate) fn described(py: Python<'_>, error: &PyErr) -> String {
    let message = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    let class = error.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
    if message.is_empty() { class } else { format!("{class}: {message}") }
}

/// Keeps what was raised for whoever started the run; gives it as an error of a pass.
pub(crate) fn keep(py: Python<'_>, error: PyErr) -> PassError {
    let message = described(py, &error);
    RAISED.set(Some(error));
    PassError::new(message)
}

/// What a pass that Python called itself returned or raised, and seconds that it took.
#[derive(FromPyObject)]
pub(crate) struct Called(Outcome, f64);

#[derive(FromPyObject)]
enum Outcome {
    Returned(Py<Module>),
    Raised(Py<PyBaseException>),
}

impl Called {
    /// As a run takes it; what was raised is kept as if the run had called the pass.
    pub(crate) fn result(self, py: Python<'_>) -> (Result<ir::Module, PassError>, Duration) {
        let result = match self.0 {
            Outcome::Returned(module) => Ok(module.get().0.clone()),
            Outcome::Raised(error) => Err(keep(py, PyErr::from_value(error.into_bound(py).into_any()))),
        };
        (result, Duration::try_from_secs_f64(self.1).unwrap_or_default())
    }
}

/// A pass over modules: `function` takes a handle of a module and returns one.
pub(crate) fn made(info: PassInfo, function: Py<PyAny>) -> MadePass {
    create_module_pass(PassInfo { sequential: true, ..info }, move |module, _| {
        Python::attach(|py| called(py, &function, module).map_err(|error| keep(py, error)))
    })
}

fn called(py: Python<'_>, function: &Py<PyAny>, module: &ir::Module) -> PyResult<ir::Module> {
    let result = function.call1(py, (Module::of(module.clone()),))?;
    Ok(result.bind(py).cast::<Module>()?.get().0.clone())
}
