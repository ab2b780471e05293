//! Converts constant data between NumPy and the host.

use crate::ir::classes::{classes, made};
use passhost::plugin_api::ir::{DType, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Returns the value of a constant as a read-only NumPy array.
pub(crate) fn array<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    dtype: DType,
    shape: &[i64],
    ty: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import("passhost._tensor")?;
    let bytes = PyBytes::new(py, tensor.bytes());
    let value = module.getattr("Tensor")?.call_method1("_of_bytes", (bytes, dtype.to_string(), shape.to_vec()))?;
    Ok(made!(py, classes(py)?.constant, "_value": value, "_ty": ty))
}

/// Returns the data of a constant.
pub(crate) fn tensor(value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let module = value.py().import("passhost._tensor")?;
    let bytes = module.call_method1("bytes_of", (value,))?;
    Ok(Tensor::new(bytes.cast::<PyBytes>()?.as_bytes()))
}
