//! Checks values against their types, and binds symbolic variables.

use super::failure::Cause;
use super::symbols::Symbols;
use super::value::{Value, shape_text};
use passhost_lang::ir::TensorType;
use passhost_lang::ir::{Body, DType, Dim, Type};

/// A deferred check of an extent, for when all variables are bound.
struct Waiting {
    what: String,
    axis: Option<usize>,
    found: i64,
    dim: Dim,
}

/// Checks values against types in sequence; checks compound dimensions at the end.
pub(super) struct Binder<'s> {
    symbols: &'s mut Symbols,
    body: &'s Body,
    waiting: Vec<Waiting>,
}

impl<'s> Binder<'s> {
    /// Creates a binder for the symbolic variables of a body.
    pub(super) fn new(symbols: &'s mut Symbols, body: &'s Body) -> Binder<'s> {
        Binder { symbols, body, waiting: Vec::new() }
    }

    /// Checks one value; messages call it `what`.
    pub(super) fn bind(&mut self, what: &str, ty: &Type, value: &Value) -> Result<(), Cause> {
        let wrong = |wanted: String| Err(Cause::OtherKind { what: what.to_string(), found: value.described(), wanted });
        match (ty, value) {
            (Type::Tensor(ty), Value::Tensor(tensor)) => {
                if ty.dtype.is_known() && ty.dtype != tensor.dtype() {
                    return other_type(what, "dtype", tensor.dtype(), ty.dtype);
                }
                if ty.ndim >= 0 && ty.ndim as usize != tensor.shape().len() {
                    return other_type(what, "ndim", tensor.shape().len(), ty.ndim);
                }
                match &ty.shape {
                    Some(dims) => self.extents(what, dims, tensor.shape()),
                    None => Ok(()),
                }
            }
            (Type::DTensor(ty), Value::Tensor(_)) => self.bind(what, &Type::Tensor(ty.tensor.clone()), value),
            (Type::Tensor(ty), _) => wrong(self.tensor_text(ty)),
            (Type::Shape { ndim, dims }, Value::Shape(extents)) => {
                if *ndim >= 0 && *ndim as usize != extents.len() {
                    return other_type(what, "ndim", extents.len(), ndim);
                }
                match dims {
                    Some(dims) => self.extents(what, dims, extents),
                    None => Ok(()),
                }
            }
            (Type::Shape { .. }, _) => wrong("a shape".to_string()),
            (Type::Prim { dtype, value: dim }, Value::Scalar(scalar)) => {
                if dtype.is_known() && *dtype != scalar.dtype {
                    return wrong(format!("a scalar of {dtype}"));
                }
                match (dim, value.as_int()) {
                    (Some(dim), Some(found)) => self.dimension(what, None, dim, found),
                    _ => Ok(()),
                }
            }
            (Type::Prim { dtype, .. }, _) => wrong(format!("a scalar of {dtype}")),
            (Type::Tuple(types), Value::Tuple(tuple)) => {
                if types.len() != tuple.fields().len() {
                    return wrong(format!("a tuple of {} values", types.len()));
                }
                for (i, (ty, field)) in types.iter().zip(tuple.fields()).enumerate() {
                    self.bind(&format!("{what}[{i}]"), ty, field)?;
                }
                Ok(())
            }
            (Type::Tuple(types), _) => wrong(format!("a tuple of {} values", types.len())),
            (Type::Callable { .. }, Value::Closure(_) | Value::Function(_) | Value::Packed(_)) => Ok(()),
            (Type::Callable { .. }, _) => wrong("a function".to_string()),
            _ => Ok(()),
        }
    }

    /// Checks compound dimensions, after all variables are bound.
    pub(super) fn finish(self) -> Result<(), Cause> {
        for Waiting { what, axis, found, dim } in self.waiting {
            let wanted = self.symbols.extent(&dim, self.body)?;
            if wanted != found {
                let (what, found) = extent_text(&what, axis, found);
                return Err(Cause::mismatch(what, found, wanted.to_string()));
            }
        }
        Ok(())
    }

    fn extents(&mut self, what: &str, dims: &[Dim], found: &[i64]) -> Result<(), Cause> {
        if dims.len() != found.len() {
            let wanted = format!("a shape of {} dimensions", dims.len());
            return Err(Cause::mismatch(what, format!("the shape {}", shape_text(found)), wanted));
        }
        for (axis, (dim, extent)) in dims.iter().zip(found).enumerate() {
            self.dimension(what, Some(axis), dim, *extent)?;
        }
        Ok(())
    }

    fn dimension(&mut self, what: &str, axis: Option<usize>, dim: &Dim, found: i64) -> Result<(), Cause> {
        let known = match dim {
            Dim::Var(sym) => match self.symbols.get(*sym) {
                Some(known) => known,
                None => {
                    self.symbols.set(*sym, found);
                    return Ok(());
                }
            },
            dim => match dim.as_int() {
                Some(known) => known,
                None => {
                    self.waiting.push(Waiting { what: what.to_string(), axis, found, dim: dim.clone() });
                    return Ok(());
                }
            },
        };
        if known == found {
            return Ok(());
        }
        let (what, found) = extent_text(what, axis, found);
        let wanted = match dim {
            Dim::Var(sym) => format!("{known}, the value of `{}`,", self.body.sym_name(sym.id).unwrap_or("_")),
            _ => known.to_string(),
        };
        Err(Cause::mismatch(what, found, wanted))
    }

    fn tensor_text(&self, ty: &TensorType) -> String {
        let dtype = if ty.dtype == DType::VOID { String::new() } else { format!(" of {}", ty.dtype) };
        match (&ty.shape, ty.ndim) {
            (Some(dims), _) => format!("a tensor{dtype} of shape {}", self.dims_text(dims)),
            (None, -1) => format!("a tensor{dtype}"),
            (None, ndim) => format!("a tensor{dtype} of {ndim} dimensions"),
        }
    }

    fn dims_text(&self, dims: &[Dim]) -> String {
        let dim = |dim: &Dim| match dim {
            Dim::Var(sym) => self.body.sym_name(sym.id).unwrap_or("_").to_string(),
            dim => self.symbols.extent(dim, self.body).map_or("?".to_string(), |extent| extent.to_string()),
        };
        let list = dims.iter().map(dim).collect::<Vec<_>>().join(", ");
        if dims.len() == 1 { format!("({list},)") } else { format!("({list})") }
    }
}

fn other_type(what: &str, aspect: &'static str, found: impl ToString, wanted: impl ToString) -> Result<(), Cause> {
    let (found, wanted) = (found.to_string(), wanted.to_string());
    Err(Cause::OtherType { what: what.to_string(), aspect, found, wanted })
}

fn extent_text(what: &str, axis: Option<usize>, found: i64) -> (String, String) {
    match axis {
        Some(axis) => (format!("dimension {axis} of {what}"), found.to_string()),
        None => (what.to_string(), found.to_string()),
    }
}
