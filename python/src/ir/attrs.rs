//! Converts attributes between Python and the host.

use crate::ir::classes::{Kind, classes, made};
use crate::ir::constants;
use crate::ir::seal::Sealer;
use crate::ir::tables::Tables;
use passhost::plugin_api::ir::records::attr;
use passhost::plugin_api::ir::{Attr, AttrView, Dict, Dim, RawView};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Converts the value of an attribute to a Python object. Attributes are nested at most [`MAX_DEPTH`] deep.
///
/// [`MAX_DEPTH`]: passhost::plugin_api::ir::records::MAX_DEPTH
pub(crate) fn expanded<'py>(
    tables: &mut Tables,
    py: Python<'py>,
    view: AttrView<'_>,
    raw: &RawView<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let classes = classes(py)?;
    Ok(match view.kind() {
        attr::LIST => {
            let items = view.items().map(|item| expanded(tables, py, item, raw)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, items)?.into_any()
        }
        attr::DICT => match view.as_dict() {
            Some(dict) => entries(tables, py, dict, raw)?.into_any(),
            None => PyDict::new(py).into_any(),
        },
        attr::TYPE => match view.as_type() {
            Some(ty) => tables.of_ty(py, ty, raw)?,
            None => py.None().into_bound(py),
        },
        attr::OBJECT => {
            let args = view.items().map(|item| Ok((item.key(), expanded(tables, py, item, raw)?)));
            let args = args.collect::<PyResult<Vec<_>>>()?;
            classes.attr_object.bind(py).call1((view.object_name(), PyTuple::new(py, args)?))?
        }
        _ => match view.to_owned() {
            Attr::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
            Attr::Int(value) => value.into_pyobject(py)?.into_any(),
            Attr::Float(value) => value.into_pyobject(py)?.into_any(),
            Attr::Str(text) => PyString::new(py, &text).into_any(),
            Attr::DType(dtype) => classes.data_type_name.bind(py).call1((dtype.to_string(),))?,
            Attr::Dim(dim) => dim_object(tables, py, &dim, raw)?,
            Attr::Tensor(tensor, ty) => {
                let shape = ty.as_tensor().and_then(|tensor| tensor.shape.clone()).unwrap_or_default();
                let shape: Vec<i64> = shape.iter().filter_map(Dim::as_int).collect();
                let dtype = ty.as_tensor().map_or(passhost::plugin_api::ir::DType::VOID, |tensor| tensor.dtype);
                let of = classes.tensor_type.bind(py).call1((shape.clone(), dtype.to_string()))?;
                constants::array(py, &tensor, dtype, &shape, &of)?
            }
            _ => py.None().into_bound(py),
        },
    })
}

/// Converts a dimension in an attribute.
fn dim_object<'py>(tables: &mut Tables, py: Python<'py>, dim: &Dim, raw: &RawView<'_>) -> PyResult<Bound<'py, PyAny>> {
    let at = (0..raw.prims().len() as u32).find(|id| passhost::plugin_api::ir::types::dim_at(raw, *id) == *dim);
    match at {
        Some(id) => tables.prim(py, raw, id),
        None => Ok(py.None().into_bound(py)),
    }
}

/// Converts the entries of a dict.
pub(crate) fn entries<'py>(
    tables: &mut Tables,
    py: Python<'py>,
    dict: Dict<'_>,
    raw: &RawView<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    for (key, value) in dict.iter() {
        made.set_item(key, expanded(tables, py, value, raw)?)?;
    }
    Ok(made)
}

/// Converts the attributes of a call; `None` if there are none.
pub(crate) fn of_call<'py>(
    tables: &mut Tables,
    py: Python<'py>,
    dict: Dict<'_>,
    raw: &RawView<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    if dict.is_empty() {
        return Ok(py.None().into_bound(py));
    }
    let entries = entries(tables, py, dict, raw)?;
    Ok(made!(py, classes(py)?.attrs, "_entries": entries))
}

/// Maximum nesting depth of Python lists and dicts in attributes.
const DEPTH: usize = 200;

/// Converts a Python object to an attribute.
pub(crate) fn sealed(sealer: &mut Sealer, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Attr> {
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
        return Ok(Attr::DType(super::types::dtype(value)?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Attr::Str(value.extract()?));
    }
    if value.is_instance(classes(py)?.attr_object.bind(py))? {
        let (name, args): (String, Vec<(Option<String>, Bound<'_, PyAny>)>) = value.extract()?;
        let args = args.into_iter().map(|(key, arg)| Ok((key, sealed(sealer, &arg, depth + 1)?)));
        return Ok(Attr::Object(name, args.collect::<PyResult<Vec<_>>>()?.into()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| sealed(sealer, &item?, depth + 1));
        return Ok(Attr::List(items.collect::<PyResult<Vec<_>>>()?.into()));
    }
    object(sealer, value, depth)
}

/// Converts an object of the package, or a dict, to an attribute.
fn object(sealer: &mut Sealer, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Attr> {
    let py = value.py();
    let classes = classes(py)?;
    match classes.kind(value) {
        Some(Kind::IntImm) => Ok(Attr::Int(value.getattr("value")?.extract()?)),
        Some(Kind::FloatImm) => Ok(Attr::Float(value.getattr("value")?.extract()?)),
        Some(Kind::StringImm) => Ok(Attr::Str(value.getattr("value")?.extract()?)),
        Some(Kind::PrimType) => Ok(Attr::Str(super::types::dtype(value)?.to_string())),
        Some(Kind::Constant) => {
            let ty = sealer.ty(&value.getattr("ty")?)?;
            let ty = sealer.b.type_owned(ty);
            Ok(Attr::Tensor(constants::tensor(&value.getattr("value")?)?, ty))
        }
        Some(Kind::Attrs | Kind::DictAttrs) => dict(sealer, &value.getattr("_entries")?, depth).map(Attr::Dict),
        _ if value.is_instance_of::<PyDict>() => dict(sealer, value, depth).map(Attr::Dict),
        _ if value.is_instance(classes.ty.bind(py))? => {
            let ty = sealer.ty(value)?;
            Ok(Attr::Type(sealer.b.type_owned(ty)))
        }
        _ if value.hasattr("ty")? => Ok(Attr::Dim(sealer.dim(value, 0)?)),
        _ if value.hasattr("__index__")? => sealed(sealer, &value.call_method0("__index__")?, depth),
        _ => Err(PyTypeError::new_err(format!("{} cannot be an attribute", value.get_type().name()?))),
    }
}

fn dict(
    sealer: &mut Sealer,
    value: &Bound<'_, PyAny>,
    depth: usize,
) -> PyResult<passhost::plugin_api::ir::Parts<(String, Attr)>> {
    let entries = value.cast::<PyDict>()?.iter().map(|(key, value)| {
        let key: String = key.extract().map_err(|_| PyTypeError::new_err("the key of an attribute must be a str"))?;
        Ok((key, sealed(sealer, &value, depth + 1)?))
    });
    Ok(entries.collect::<PyResult<Vec<_>>>()?.into())
}
