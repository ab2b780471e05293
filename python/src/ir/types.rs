//! Converts Python types, dimensions and symbolic variables to those of a body.

use crate::ir::classes::{Kind, classes};
use crate::ir::tables::Tables;
use passhost::plugin_api::ir::{BodyBuilder, DType, Dim, DimExpr, Sym, TensorType, Type, TypeId};
use passhost::plugin_api::scalar::PrimOp;
use passhost::plugin_api::scalar::{Computes, DTypePlace, Intrinsic, ResultRule};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum nesting depth of Python types and scalar expressions.
const DEPTH: usize = 500;

/// Returns the name of a data type in the form of the host.
#[pyfunction]
pub(crate) fn parse_dtype(name: &str) -> PyResult<String> {
    dtype_of_name(name).map(|dtype| dtype.to_string())
}

/// Returns the names of functions of scalars that TIR writes as calls, each with its kind: `float` of one float, `rounding`, or `other`.
#[pyfunction]
pub(crate) fn scalar_functions() -> Vec<(&'static str, &'static str)> {
    let is_written = |row: &&Intrinsic| row.dtype == DTypePlace::No && row.result != ResultRule::Unwritten;
    let rows = Intrinsic::all().iter().filter(is_written);
    let functions = rows.filter(|row| !matches!(row.computes, None | Some(Computes::Hint | Computes::Choice)));
    let kind =
        |row: &Intrinsic| row.math().map_or("other", |math| if math.is_rounding() { "rounding" } else { "float" });
    functions.map(|row| (row.name, kind(row))).collect()
}

/// Returns the data type with a name.
pub(crate) fn dtype_of_name(name: &str) -> PyResult<DType> {
    name.parse().map_err(|error| PyValueError::new_err(format!("{error}")))
}

/// Returns the data type that an object names: a str, a PrimType, or None for an unknown one.
pub(crate) fn dtype(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    if value.is_none() {
        return Ok(DType::VOID);
    }
    let name = match classes(value.py())?.kind(value) {
        Some(Kind::PrimType) => value.getattr(intern!(value.py(), "dtype"))?,
        _ => value.clone(),
    };
    let name: String = name.extract().map_err(|_| PyTypeError::new_err(format!("{value} is not a data type")))?;
    dtype_of_name(&name)
}

fn too_deep() -> PyErr {
    PyValueError::new_err(format!("nested more than {DEPTH} deep"))
}

/// A body that is being built, with the Python objects from which its types and symbolic variables were made.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) b: BodyBuilder,
    /// Types, by the address of their object, which is kept alive.
    pub(crate) types: HashMap<usize, (Py<PyAny>, TypeId)>,
    syms: HashMap<usize, (Py<PyAny>, Sym)>,
    /// Objects created from the tables, for inferred types.
    pub(crate) tables: Tables,
}

impl Draft {
    /// Returns the symbolic variable of a scalar variable.
    pub(super) fn symbol(&mut self, var: &Bound<'_, PyAny>) -> PyResult<Dim> {
        let key = var.as_ptr() as usize;
        if let Some((_, sym)) = self.syms.get(&key) {
            return Ok(Dim::Var(*sym));
        }
        let py = var.py();
        let ty = var.getattr(intern!(py, "ty"))?;
        if classes(py)?.kind(&ty) != Some(Kind::PrimType) {
            return Err(PyTypeError::new_err(format!("{var} is not a scalar, so it cannot be in a dimension")));
        }
        let name: String = var.getattr(intern!(py, "name"))?.extract()?;
        let sym = self.b.sym(&name, dtype(&ty)?);
        self.tables.syms.insert(sym.id, var.clone().unbind());
        self.syms.insert(key, (var.clone().unbind(), sym));
        Ok(Dim::Var(sym))
    }

    /// Returns the current symbolic variables in two forms: by the address of their object, and as objects by number.
    pub(crate) fn symbols(&mut self) -> (HashMap<usize, Sym>, HashMap<u32, Py<PyAny>>) {
        let by_object = self.syms.iter().map(|(key, (_, sym))| (*key, *sym)).collect();
        (by_object, std::mem::take(&mut self.tables.syms))
    }

    /// Converts a type with its own symbolic variables: the type of another function, or the external type of this one.
    pub(crate) fn type_of_its_own(&mut self, ty: &Bound<'_, PyAny>) -> PyResult<TypeId> {
        let (syms, types) = (std::mem::take(&mut self.syms), std::mem::take(&mut self.types));
        let made = self.ty(ty);
        (self.syms, self.types) = (syms, types);
        made
    }

    /// Adds a Python type to the table of the body; an unknown type becomes None.
    pub(crate) fn ty(&mut self, ty: &Bound<'_, PyAny>) -> PyResult<TypeId> {
        let key = ty.as_ptr() as usize;
        if let Some((_, known)) = self.types.get(&key) {
            return Ok(*known);
        }
        let id = match self.owned_type(ty, 0)? {
            Some(owned) => self.b.ty(&owned),
            None => TypeId::NONE,
        };
        self.types.insert(key, (ty.clone().unbind(), id));
        Ok(id)
    }

    /// Converts a Python type to an owned type.
    pub(crate) fn owned_type(&mut self, ty: &Bound<'_, PyAny>, depth: usize) -> PyResult<Option<Type>> {
        let py = ty.py();
        if depth > DEPTH {
            return Err(too_deep());
        }
        let classes = classes(py)?;
        Ok(Some(match classes.kind(ty) {
            Some(Kind::TensorType) => return self.tensor_type(ty).map(Some),
            Some(Kind::ShapeType) => {
                let dims = self.dims(&ty.getattr(intern!(py, "values"))?)?;
                Type::Shape { ndim: ty.getattr(intern!(py, "ndim"))?.extract()?, dims }
            }
            Some(Kind::PrimType) => Type::Prim { dtype: dtype(ty)?, value: None },
            Some(Kind::TupleType) => {
                let fields = ty.getattr(intern!(py, "fields"))?;
                let fields = fields.try_iter()?.map(|field| self.known_type(&field?, depth + 1));
                Type::Tuple(fields.collect::<PyResult<Vec<_>>>()?.into())
            }
            Some(Kind::FuncType) => {
                let params = ty.getattr(intern!(py, "params"))?;
                let params = match params.is_none() {
                    true => None,
                    false => Some(
                        params
                            .try_iter()?
                            .map(|param| self.known_type(&param?, depth + 1))
                            .collect::<PyResult<Vec<_>>>()?,
                    ),
                };
                let ret = self.known_type(&ty.getattr(intern!(py, "ret"))?, depth + 1)?;
                Type::callable(params, ret, ty.getattr(intern!(py, "purity"))?.extract()?)
            }
            Some(Kind::AnyType | Kind::StringType) => Type::Object,
            Some(Kind::PackedFuncType) => Type::opaque_callable(),
            _ if ty.is(classes.missing.bind(py)) => return Ok(None),
            _ if ty.get_type().is(classes.ty.bind(py)) => return Ok(None),
            _ => return Err(PyTypeError::new_err(format!("{} is not a type of a Relax value", ty.repr()?))),
        }))
    }

    /// Converts a Python type; an unknown type becomes the type of any value.
    fn known_type(&mut self, ty: &Bound<'_, PyAny>, depth: usize) -> PyResult<Type> {
        Ok(self.owned_type(ty, depth)?.unwrap_or(Type::Object))
    }

    fn tensor_type(&mut self, ty: &Bound<'_, PyAny>) -> PyResult<Type> {
        let py = ty.py();
        let shape = ty.getattr(intern!(py, "shape"))?;
        // Only the number of dimensions of a shape variable is known.
        let shape = if shape.is_none() || classes(py)?.kind(&shape) != Some(Kind::ShapeExpr) {
            None
        } else {
            self.dims(&shape.getattr(intern!(py, "values"))?)?
        };
        let device = ty.getattr(intern!(py, "vdevice"))?;
        let vdevice = if device.is_none() { None } else { self.vdevice(&device)? };
        let ndim = ty.getattr(intern!(py, "ndim"))?.extract()?;
        Ok(Type::Tensor(TensorType { dtype: dtype(&ty.getattr(intern!(py, "dtype"))?)?, ndim, shape, vdevice }))
    }

    fn vdevice(&mut self, device: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        device.getattr("index")?.extract()
    }

    /// Converts dimensions. `None` means that they are unknown, and is returned as `None`.
    pub(crate) fn dims(&mut self, dims: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Dim>>> {
        if dims.is_none() {
            return Ok(None);
        }
        dims.try_iter()?.map(|dim| self.dim(&dim?, 0)).collect::<PyResult<Vec<_>>>().map(Some)
    }

    /// Converts a scalar expression.
    pub(crate) fn dim(&mut self, dim: &Bound<'_, PyAny>, depth: usize) -> PyResult<Dim> {
        let py = dim.py();
        if depth > DEPTH {
            return Err(too_deep());
        }
        let kind = classes(py)?.kind(dim);
        match kind {
            Some(Kind::IntImm) => {
                let value = dim.getattr(intern!(py, "value"))?;
                let dtype = dtype(&dim.getattr(intern!(py, "ty"))?)?;
                let number = value.extract::<i64>().or_else(|_| value.extract::<u64>().map(|number| number as i64))?;
                Ok(Dim::int(number, dtype))
            }
            Some(Kind::Var | Kind::DataflowVar) => self.symbol(dim),
            Some(Kind::FloatImm) => {
                let value = dim.getattr(intern!(py, "value"))?.extract()?;
                Ok(Dim::float(value, dtype(&dim.getattr(intern!(py, "ty"))?)?))
            }
            Some(Kind::Not) => Ok(unary(PrimOp::Not, DType::BOOL, self.dim(&dim.getattr("a")?, depth + 1)?)),
            Some(Kind::Cast) => {
                let of = self.dim(&dim.getattr("value")?, depth + 1)?;
                Ok(unary(PrimOp::Cast, dtype(&dim.getattr("ty")?)?, of))
            }
            Some(Kind::Call) => self.chosen_dim(dim, depth),
            Some(Kind::EqualOp) => self.dim(&dim.call_method0("asobject")?, depth + 1),
            _ => self.binary_dim(dim, kind, depth),
        }
    }

    fn binary_dim(&mut self, dim: &Bound<'_, PyAny>, kind: Option<Kind>, depth: usize) -> PyResult<Dim> {
        let py = dim.py();
        let Some(number) = kind.and_then(super::scalars::number_of) else {
            return Err(PyTypeError::new_err(format!("{} is not a dimension", dim.get_type().name()?)));
        };
        let a = self.dim(&dim.getattr(intern!(py, "a"))?, depth + 1)?;
        let b = self.dim(&dim.getattr(intern!(py, "b"))?, depth + 1)?;
        let truncates = number == PrimOp::Div && a.dtype().is_int();
        Ok(Dim::binary(if truncates { PrimOp::TruncDiv } else { number }, a, b))
    }

    /// Converts `tirx.if_then_else`, the only call that a dimension may contain.
    fn chosen_dim(&mut self, call: &Bound<'_, PyAny>, depth: usize) -> PyResult<Dim> {
        let name: String = call.getattr("op")?.getattr("name")?.extract().unwrap_or_default();
        let args: Vec<Bound<'_, PyAny>> = call.getattr("args")?.extract()?;
        match (name.as_str(), &args[..]) {
            ("tirx.if_then_else", [cond, then, other]) => {
                let cond = self.dim(cond, depth + 1)?;
                let (then, other) = (self.dim(then, depth + 1)?, self.dim(other, depth + 1)?);
                Ok(Dim::if_then_else(cond, then, other))
            }
            _ => Err(PyValueError::new_err(format!("a call of {name} cannot be a dimension"))),
        }
    }
}

fn unary(op: PrimOp, dtype: DType, of: Dim) -> Dim {
    Dim::Expr(Arc::new(DimExpr::Unary(op, dtype, of)))
}
