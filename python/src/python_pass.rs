//! Passes that are Python functions, and the exceptions they raise.

use crate::engine::change;
use crate::errors::raised;
use crate::module::Module;
use passhost::plugin_api::metadata::{PassInfo, Required};
use passhost::plugin_api::{PassError, ir};
use passhost::{Engine, MadePass, create_module_pass};
use pyo3::exceptions::{PyBaseException, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::time::Duration;

thread_local! {
    /// The original exception raised by a pass or an instrument of the run on this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Takes the exception raised since the last call, if any.
pub(crate) fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// Returns the class and message of an exception.
pub(crate) fn described(py: Python<'_>, error: &PyErr) -> String {
    let message = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    let class = error.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
    if message.is_empty() { class } else { format!("{class}: {message}") }
}

/// Keeps an exception for the caller of the run; returns it as a pass error.
pub(crate) fn keep(py: Python<'_>, error: PyErr) -> PassError {
    let message = described(py, &error);
    RAISED.set(Some(error));
    PassError::new(message)
}

/// The result or exception of a pass that Python called itself, and the time in seconds.
#[derive(FromPyObject)]
pub(crate) struct Called(Outcome, f64);

#[derive(FromPyObject)]
enum Outcome {
    Returned(Py<Module>),
    Raised(Py<PyBaseException>),
}

impl Called {
    /// Converts the result to the form that a run takes; an exception is kept as if the run had called the pass.
    pub(crate) fn result(self, py: Python<'_>) -> (Result<ir::Module, PassError>, Duration) {
        let result = match self.0 {
            Outcome::Returned(module) => Ok(module.get().0.clone()),
            Outcome::Raised(error) => Err(keep(py, PyErr::from_value(error.into_bound(py).into_any()))),
        };
        (result, Duration::try_from_secs_f64(self.1).unwrap_or_default())
    }
}

/// Adds a module pass that is a Python function, and returns its full name: `name` if it has a namespace, and
/// otherwise a name in the namespace `python`. If the name is taken, a number is added to it. With `strict`, a name
/// with a namespace stays: the pass then replaces an earlier pass from Python, and raises an error if the name belongs
/// to a pass of a plugin.
#[pyfunction]
pub(crate) fn register(
    py: Python<'_>,
    name: &str,
    opt_level: i32,
    required: Vec<String>,
    doc: String,
    function: Py<PyAny>,
    strict: bool,
) -> PyResult<String> {
    let required = required
        .iter()
        .map(|text| Required::parse(text).map_err(|why| PyValueError::new_err(format!("required of `{name}`: {why}"))));
    let required = required.collect::<PyResult<Vec<Required>>>()?;
    change(|engine| {
        let name = full_name(engine, name, strict);
        let made = made(PassInfo { opt_level, required, doc, ..PassInfo::new(&name) }, function);
        if strict && engine.replace_pass(made.clone()).map_err(|error| raised(py, &error))? {
            return Ok(name);
        }
        let added = engine.add_pass(made);
        added.map(|_| name).map_err(|error| raised(py, &error))
    })
}

fn full_name(engine: &Engine, name: &str, strict: bool) -> String {
    let whole = name.contains('.');
    let word = |c: char| if c.is_alphanumeric() || c == '_' || (whole && c == '.') { c } else { '_' };
    let name: String = name.chars().map(word).collect();
    let name = if whole { name } else { format!("python.{name}") };
    let is_taken = |name: &String| engine.registry().find_full(name).is_some();
    if !is_taken(&name) || (whole && strict) {
        return name;
    }
    (2..).map(|number| format!("{name}_{number}")).find(|name| !is_taken(name)).unwrap_or(name)
}

/// Creates a module pass: `function` takes a handle of a module and returns a handle.
fn made(info: PassInfo, function: Py<PyAny>) -> MadePass {
    create_module_pass(PassInfo { sequential: true, ..info }, move |module, _| {
        Python::attach(|py| called(py, &function, module).map_err(|error| keep(py, error)))
    })
}

fn called(py: Python<'_>, function: &Py<PyAny>, module: &ir::Module) -> PyResult<ir::Module> {
    let result = function.call1(py, (Module::of(module.clone()),))?;
    Ok(result.bind(py).cast::<Module>()?.get().0.clone())
}
