//! Converts Python objects to attributes.

use crate::ir::classes::{Kind, classes};
use crate::ir::constants;
use crate::ir::types::{Draft, dtype};
use passhost::plugin_api::ir::{Attr, Parts};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Maximum nesting depth of Python lists and dicts in attributes.
const DEPTH: usize = 200;

/// Converts a Python object to an attribute.
pub(crate) fn sealed(draft: &mut Draft, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Attr> {
    let py = value.py();
    if depth > DEPTH {
        return Err(PyTypeError::new_err(format!("an attribute is nested more than {DEPTH} deep")));
    }
    if value.is_none() {
        return Ok(Attr::None);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Attr::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract();
        return number.map(Attr::Int).map_err(|_| PyOverflowError::new_err(format!("{value} does not fit 64 bits")));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Attr::Float(value.extract()?));
    }
    if value.is_instance(classes(py)?.data_type_name.bind(py))? {
        return Ok(Attr::DType(dtype(value)?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Attr::Str(value.extract()?));
    }
    if value.is_instance(classes(py)?.attr_object.bind(py))? {
        let (name, args): (String, Vec<(Option<String>, Bound<'_, PyAny>)>) = value.extract()?;
        let args = args.into_iter().map(|(key, arg)| Ok((key, sealed(draft, &arg, depth + 1)?)));
        return Ok(Attr::Object(name, args.collect::<PyResult<Vec<_>>>()?.into()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| sealed(draft, &item?, depth + 1));
        return Ok(Attr::List(items.collect::<PyResult<Vec<_>>>()?.into()));
    }
    object(draft, value, depth)
}

/// Converts an object of the package, or a dict, to an attribute.
fn object(draft: &mut Draft, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Attr> {
    let py = value.py();
    let classes = classes(py)?;
    match classes.kind(value) {
        Some(Kind::IntImm) => Ok(Attr::Int(value.getattr("value")?.extract()?)),
        Some(Kind::FloatImm) => Ok(Attr::Float(value.getattr("value")?.extract()?)),
        Some(Kind::StringImm) => Ok(Attr::Str(value.getattr("value")?.extract()?)),
        Some(Kind::PrimType) => Ok(Attr::Str(dtype(value)?.to_string())),
        Some(Kind::Constant) => {
            let ty = draft.ty(&value.getattr("ty")?)?;
            let ty = draft.b.type_owned(ty);
            Ok(Attr::Tensor(constants::tensor(&value.getattr("value")?)?, ty))
        }
        Some(Kind::Attrs | Kind::DictAttrs) => dict(draft, &value.getattr("_entries")?, depth).map(Attr::Dict),
        _ if value.is_instance_of::<PyDict>() => dict(draft, value, depth).map(Attr::Dict),
        _ if value.is_instance(classes.ty.bind(py))? => {
            let ty = draft.ty(value)?;
            Ok(Attr::Type(draft.b.type_owned(ty)))
        }
        _ if value.hasattr("ty")? => Ok(Attr::Dim(draft.dim(value, 0)?)),
        _ if value.hasattr("__index__")? => sealed(draft, &value.call_method0("__index__")?, depth),
        _ => Err(PyTypeError::new_err(format!("{} cannot be an attribute", value.get_type().name()?))),
    }
}

fn dict(draft: &mut Draft, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Parts<(String, Attr)>> {
    let entries = value.cast::<PyDict>()?.iter().map(|(key, value)| {
        let key: String = key.extract().map_err(|_| PyTypeError::new_err("the key of an attribute must be a str"))?;
        Ok((key, sealed(draft, &value, depth + 1)?))
    });
    Ok(entries.collect::<PyResult<Vec<_>>>()?.into())
}
