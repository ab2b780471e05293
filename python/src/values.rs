//! Converts option values between Python and the host.

use passhost::plugin_api::metadata::OptionValue;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

/// A Python option value: bool, int, float, str, or a list of these.
pub(crate) struct Given(pub(crate) OptionValue);

impl<'py> FromPyObject<'_, 'py> for Given {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Given> {
        if value.is_instance_of::<PyBool>() {
            return Ok(Given(OptionValue::Bool(value.extract()?)));
        }
        if value.is_instance_of::<PyInt>() {
            let number =
                value.extract().map_err(|_| PyOverflowError::new_err(format!("{} does not fit 64 bits", *value)));
            return Ok(Given(OptionValue::Int(number?)));
        }
        if value.is_instance_of::<PyFloat>() {
            return Ok(Given(OptionValue::Float(value.extract()?)));
        }
        if value.is_instance_of::<PyString>() {
            return Ok(Given(OptionValue::Str(value.extract()?)));
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            let items: PyResult<Vec<OptionValue>> =
                value.try_iter()?.map(|item| Ok(item?.extract::<Given>()?.0)).collect();
            return Ok(Given(OptionValue::List(items?.into_iter().collect())));
        }
        let found = value.get_type().name()?;
        Err(PyTypeError::new_err(format!("an option must be a bool, int, float, str or list of these, not {found}")))
    }
}

/// Converts an option value for Python.
pub(crate) fn taken(py: Python<'_>, value: &OptionValue) -> PyResult<Py<PyAny>> {
    Ok(match value {
        OptionValue::Bool(value) => PyBool::new(py, *value).to_owned().into_any().unbind(),
        OptionValue::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
        OptionValue::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
        OptionValue::Str(value) => value.into_pyobject(py)?.into_any().unbind(),
        OptionValue::List(items) => {
            let items: PyResult<Vec<Py<PyAny>>> = items.iter().map(|item| taken(py, item)).collect();
            PyList::new(py, items?)?.into_any().unbind()
        }
    })
}
