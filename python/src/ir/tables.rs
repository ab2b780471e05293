//! Converts the tables of a body to Python objects: scalars, types, leaves and attributes. Records refer to earlier
//! records, so each table is converted from its beginning, as far as needed.

use crate::ir::classes::{Classes, classes, made};
use crate::ir::{constants, scalars};
use passhost::plugin_api::ir::records::{NONE, PrimRec, TypeRec, attr, leaf, prim, tyflag, tykind};
use passhost::plugin_api::ir::types::dim_at;
use passhost::plugin_api::ir::{Attr, AttrView, DType, Dict, Dim, Expr, RawView, Ty, Value};
use passhost::plugin_api::scalar::PrimOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple, PyType};
use std::collections::HashMap;

/// The objects created from the tables of one body.
#[derive(Default)]
pub(crate) struct Tables {
    prims: Vec<Py<PyAny>>,
    types: Vec<Py<PyAny>>,
    leaves: HashMap<u32, Py<PyAny>>,
    /// Symbolic variables by number.
    pub(crate) syms: HashMap<u32, Py<PyAny>>,
    /// Variables that may be reused, by name.
    pub(crate) known: Option<Py<PyDict>>,
}

impl Tables {
    /// Creates tables in which some symbolic variables, by number, are these objects.
    pub(crate) fn with_symbols(syms: HashMap<u32, Py<PyAny>>) -> Tables {
        Tables { syms, ..Tables::default() }
    }

    /// Returns a symbolic variable.
    pub(crate) fn sym<'py>(
        &mut self,
        py: Python<'py>,
        raw: &RawView<'_>,
        id: u32,
        dtype: DType,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.syms.get(&id) {
            return Ok(known.bind(py).clone());
        }
        let name = raw.var_names().get(id as usize).and_then(|at| raw.name_at(*at)).unwrap_or("n");
        let (class, ty) = (&classes(py)?.var, scalar_type(py, dtype)?);
        let var = match self.take_known(py, name, class, &ty)? {
            Some(known) => known,
            None => made!(py, class, "_name": name, "_ty": ty),
        };
        self.syms.insert(id, var.clone().unbind());
        Ok(var)
    }

    /// Returns the known variable with a name, class and type, and removes it from the known variables.
    pub(crate) fn take_known<'py>(
        &mut self,
        py: Python<'py>,
        name: &str,
        class: &Py<PyType>,
        ty: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(known) = &self.known else { return Ok(None) };
        let known = known.bind(py);
        let Some(var) = known.get_item(name)? else { return Ok(None) };
        if !var.get_type().is(class.bind(py)) || !ty.eq(var.getattr("ty")?)? {
            return Ok(None);
        }
        known.del_item(name)?;
        Ok(Some(var))
    }

    /// Returns a scalar expression.
    pub(crate) fn prim<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, id: u32) -> PyResult<Bound<'py, PyAny>> {
        while self.prims.len() <= id as usize {
            let Some(rec) = raw.prims().get(self.prims.len()) else { return Err(broken()) };
            let object = self.new_prim(py, raw, rec)?;
            self.prims.push(object.unbind());
        }
        Ok(self.prims[id as usize].bind(py).clone())
    }

    fn new_prim<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, rec: &PrimRec) -> PyResult<Bound<'py, PyAny>> {
        let classes = classes(py)?;
        let dtype = DType(rec.dtype);
        let bits = u64::from(rec.a) | u64::from(rec.b) << 32;
        let operand = |tables: &Tables, id: u32| tables.prims.get(id as usize).map(|known| known.clone_ref(py));
        let before = |id: u32| operand(self, id).ok_or_else(broken);
        let ty = || scalar_type(py, dtype);
        Ok(match rec.op {
            prim::INT if dtype == DType::BOOL => classes.scalar.bind(py).call1((bits as i64 != 0, "bool"))?,
            prim::INT if dtype.code() == 1 => classes.scalar.bind(py).call1((bits, dtype.to_string()))?,
            prim::INT => classes.scalar.bind(py).call1((bits as i64, dtype.to_string()))?,
            prim::FLOAT => made!(py, classes.float, "_value": f64::from_bits(bits), "_ty": ty()?),
            prim::VAR => self.sym(py, raw, rec.a, dtype)?,
            prim::NOT => made!(py, classes.not, "_a": before(rec.a)?, "_ty": ty()?),
            prim::CAST => made!(py, classes.cast, "_value": before(rec.a)?, "_ty": ty()?),
            // The two branches of a choice; only `prim::IF` uses the pair.
            prim::ELSE => PyTuple::new(py, [before(rec.a)?, before(rec.b)?])?.into_any(),
            prim::IF => {
                let both = before(rec.b)?.into_bound(py);
                let args = (before(rec.a)?, both.get_item(0)?, both.get_item(1)?);
                let op = classes.op_of.bind(py).call1(("tirx.if_then_else",))?;
                let (nothing, none) = (PyTuple::empty(py), py.None());
                made!(py, classes.call, "_op": op, "_args": args, "_attrs": none, "_ty_args": nothing, "_ty": ty()?)
            }
            number => {
                let Some(class) = PrimOp::of_code(number).and_then(|op| scalars::class_of(classes, op)) else {
                    return Err(PyValueError::new_err(format!("an operation on scalars of an unknown kind, {number}")));
                };
                made!(py, class, "_a": before(rec.a)?, "_b": before(rec.b)?, "_ty": ty()?)
            }
        })
    }

    /// Returns a type, or the missing type if there is none.
    pub(crate) fn ty<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, id: u32) -> PyResult<Bound<'py, PyAny>> {
        if id == NONE {
            return Ok(classes(py)?.missing.bind(py).clone());
        }
        while self.types.len() <= id as usize {
            let Some(rec) = raw.types().get(self.types.len()) else { return Err(broken()) };
            let object = self.new_type(py, raw, rec)?;
            self.types.push(object.unbind());
        }
        Ok(self.types[id as usize].bind(py).clone())
    }

    fn prim_tuple<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, ids: &[u32]) -> PyResult<Bound<'py, PyTuple>> {
        let dims = ids.iter().map(|id| self.prim(py, raw, *id)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, dims)
    }

    fn new_type<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, rec: &TypeRec) -> PyResult<Bound<'py, PyAny>> {
        let classes = classes(py)?;
        let list = raw.list(rec.off, rec.len);
        let known = rec.flags & tyflag::PRIMS != 0;
        Ok(match rec.kind {
            tykind::PRIM => scalar_type(py, DType(rec.dtype))?,
            tykind::SHAPE => {
                let dims = if known { self.prim_tuple(py, raw, list)?.into_any() } else { py.None().into_bound(py) };
                made!(py, classes.shape_type, "_values": dims, "_ndim": rec.ndim)
            }
            tykind::TENSOR => {
                let shape = if known { self.shape(py, raw, list)? } else { py.None().into_bound(py) };
                let dtype = DType(rec.dtype);
                let dtype = if dtype.is_known() { scalar_type(py, dtype)? } else { py.None().into_bound(py) };
                let device = match rec.aux {
                    NONE => py.None().into_bound(py),
                    index => classes.vdevice.bind(py).call_method1("_at", (index,))?,
                };
                made!(py, classes.tensor_type, "_shape": shape, "_dtype": dtype, "_ndim": rec.ndim, "_vdevice": device)
            }
            tykind::TUPLE => {
                let fields = self.type_list(py, raw, list)?;
                made!(py, classes.tuple_type, "_fields": PyTuple::new(py, fields)?)
            }
            tykind::CALLABLE => {
                let mut types = self.type_list(py, raw, list)?;
                let ret = types.pop().ok_or_else(broken)?;
                let params = if rec.ndim >= 0 { PyTuple::new(py, types)?.into_any() } else { py.None().into_bound(py) };
                let pure = rec.flags & tyflag::IMPURE == 0;
                made!(py, classes.func_type, "_params": params, "_ret": ret, "_purity": pure)
            }
            tykind::BUFFER | tykind::POINTER | tykind::DTENSOR => return self.other_type(py, raw, rec),
            _ => made!(py, classes.any_type,),
        })
    }

    fn other_type<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, rec: &TypeRec) -> PyResult<Bound<'py, PyAny>> {
        let module = py.import("passhost.tirx.buffer")?;
        let dtype = DType(rec.dtype).to_string();
        match rec.kind {
            tykind::POINTER => {
                let at = raw.list(rec.off, rec.len).first().and_then(|id| raw.types().get(*id as usize));
                let scope = at
                    .and_then(|ty| raw.buffers().get(ty.aux as usize))
                    .map_or("global", |buffer| if buffer.scope == NONE { "" } else { raw.str(buffer.scope) });
                module.call_method1("pointer_type", (dtype, scope))
            }
            tykind::BUFFER => {
                let Some(buffer) = raw.buffers().get(rec.aux as usize) else { return Err(broken()) };
                let shape = self.prim_tuple(py, raw, raw.list(buffer.shape_off, buffer.shape_len))?;
                let strides = self.prim_tuple(py, raw, raw.list(buffer.strides_off, buffer.strides_len))?;
                let offset = match buffer.elem_offset {
                    NONE => py.None().into_bound(py),
                    id => self.prim(py, raw, id)?,
                };
                let scope = if buffer.scope == NONE { "global" } else { raw.str(buffer.scope) };
                let dtype = DType(buffer.dtype).to_string();
                let tiled = rec.flags & tyflag::TILED != 0;
                let facts = (shape, dtype, strides, offset, scope, buffer.align, buffer.offset_factor, tiled);
                module.call_method1("buffer_type", facts)
            }
            _ => {
                let parts = self.type_list(py, raw, raw.list(rec.off, rec.len))?;
                module.call_method1("dtensor_type", (PyTuple::new(py, parts)?, rec.aux))
            }
        }
    }

    fn type_list<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, ids: &[u32]) -> PyResult<Vec<Bound<'py, PyAny>>> {
        ids.iter().map(|id| self.ty(py, raw, *id)).collect()
    }

    fn shape<'py>(&mut self, py: Python<'py>, raw: &RawView<'_>, ids: &[u32]) -> PyResult<Bound<'py, PyAny>> {
        let classes = classes(py)?;
        let dims = self.prim_tuple(py, raw, ids)?;
        let ty = made!(py, classes.shape_type, "_values": &dims, "_ndim": ids.len());
        Ok(made!(py, classes.shape, "_values": dims, "_ty": ty))
    }

    /// Returns a leaf as an expression, or as a type if it is a type argument.
    pub(crate) fn leaf<'py>(
        &mut self,
        py: Python<'py>,
        value: Value<'_>,
        raw: &RawView<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.leaves.get(&value.word()) {
            return Ok(known.bind(py).clone());
        }
        let object = self.new_leaf(py, value, raw)?;
        self.leaves.insert(value.word(), object.clone().unbind());
        Ok(object)
    }

    fn new_leaf<'py>(&mut self, py: Python<'py>, value: Value<'_>, raw: &RawView<'_>) -> PyResult<Bound<'py, PyAny>> {
        let classes: &Classes = classes(py)?;
        let ty = value.ty().id();
        let Some(rec) = value.leaf() else { return Err(broken()) };
        Ok(match value.view() {
            Expr::Op(name) => classes.op_of.bind(py).call1((name,))?,
            Expr::GlobalVar(name) => made!(py, classes.global_var, "_name_hint": name, "_ty": self.ty(py, raw, ty)?),
            Expr::ExternFunc(name) => {
                let known = if ty == NONE { py.None().into_bound(py) } else { self.ty(py, raw, ty)? };
                classes.extern_func.bind(py).call1((name, known))?
            }
            Expr::Const(tensor) => {
                let Some(constant) = value.as_constant() else { return Err(broken()) };
                let ty = self.ty(py, raw, ty)?;
                constants::array(py, tensor, constant.dtype(), constant.shape(), &ty)?
            }
            Expr::Shape => {
                let (off, len) = rec.list();
                self.shape(py, raw, raw.list(off, len))?
            }
            Expr::Prim => self.prim(py, raw, rec.val as u32)?,
            Expr::Str(text) => classes.string.bind(py).call1((text,))?,
            Expr::DType(dtype) => classes.data_type.bind(py).call1((dtype.to_string(),))?,
            Expr::TypeArg(of) => self.ty(py, raw, of.id())?,
            Expr::Attr(view) => classes.opaque.bind(py).call1((self.attr(py, view, raw)?,))?,
            _ => return Err(PyValueError::new_err(format!("a value of an unknown kind, {}", leaf_kind(rec.kind)))),
        })
    }

    /// Converts the value of an attribute to a Python object. Attributes are nested at most [`MAX_DEPTH`] deep.
    ///
    /// [`MAX_DEPTH`]: passhost::plugin_api::ir::records::MAX_DEPTH
    pub(crate) fn attr<'py>(
        &mut self,
        py: Python<'py>,
        view: AttrView<'_>,
        raw: &RawView<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let classes = classes(py)?;
        Ok(match view.kind() {
            attr::LIST => {
                let items = view.items().map(|item| self.attr(py, item, raw)).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, items)?.into_any()
            }
            attr::DICT => match view.as_dict() {
                Some(dict) => self.entries(py, dict, raw)?.into_any(),
                None => PyDict::new(py).into_any(),
            },
            attr::TYPE => match view.as_type() {
                Some(ty) => self.of_ty(py, ty, raw)?,
                None => py.None().into_bound(py),
            },
            attr::OBJECT => {
                let args = view.items().map(|item| Ok((item.key(), self.attr(py, item, raw)?)));
                let args = args.collect::<PyResult<Vec<_>>>()?;
                classes.attr_object.bind(py).call1((view.object_name(), PyTuple::new(py, args)?))?
            }
            _ => match view.to_owned() {
                Attr::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
                Attr::Int(value) => value.into_pyobject(py)?.into_any(),
                Attr::Float(value) => value.into_pyobject(py)?.into_any(),
                Attr::Str(text) => PyString::new(py, &text).into_any(),
                Attr::DType(dtype) => classes.data_type_name.bind(py).call1((dtype.to_string(),))?,
                Attr::Dim(dim) => self.dim_object(py, &dim, raw)?,
                Attr::Tensor(tensor, ty) => {
                    let shape = ty.as_tensor().and_then(|tensor| tensor.shape.clone()).unwrap_or_default();
                    let shape: Vec<i64> = shape.iter().filter_map(Dim::as_int).collect();
                    let dtype = ty.as_tensor().map_or(DType::VOID, |tensor| tensor.dtype);
                    let of = classes.tensor_type.bind(py).call1((shape.clone(), dtype.to_string()))?;
                    constants::array(py, &tensor, dtype, &shape, &of)?
                }
                _ => py.None().into_bound(py),
            },
        })
    }

    /// Converts a dimension in an attribute.
    fn dim_object<'py>(&mut self, py: Python<'py>, dim: &Dim, raw: &RawView<'_>) -> PyResult<Bound<'py, PyAny>> {
        let at = (0..raw.prims().len() as u32).find(|id| dim_at(raw, *id) == *dim);
        match at {
            Some(id) => self.prim(py, raw, id),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Converts the entries of a dict.
    pub(crate) fn entries<'py>(
        &mut self,
        py: Python<'py>,
        dict: Dict<'_>,
        raw: &RawView<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let made = PyDict::new(py);
        for (key, value) in dict.iter() {
            made.set_item(key, self.attr(py, value, raw)?)?;
        }
        Ok(made)
    }

    /// Converts the attributes of a call; `None` if there are none.
    pub(crate) fn attrs_of_call<'py>(
        &mut self,
        py: Python<'py>,
        dict: Dict<'_>,
        raw: &RawView<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dict.is_empty() {
            return Ok(py.None().into_bound(py));
        }
        let entries = self.entries(py, dict, raw)?;
        Ok(made!(py, classes(py)?.attrs, "_entries": entries))
    }

    /// Returns the object for a type of a view.
    pub(crate) fn of_ty<'py>(&mut self, py: Python<'py>, ty: Ty<'_>, raw: &RawView<'_>) -> PyResult<Bound<'py, PyAny>> {
        self.ty(py, raw, ty.id())
    }
}

fn leaf_kind(kind: u16) -> String {
    if kind >= 0x8000 { format!("{kind} of a vendor") } else { format!("{kind}, not one of {}", leaf::ATTR) }
}

/// Returns the type of scalars of a data type.
pub(crate) fn scalar_type(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    classes(py)?.prim_type.bind(py).call1((dtype.to_string(),))
}

/// Returns the error for an inconsistent body, which sealed bodies never cause.
pub(crate) fn broken() -> PyErr {
    PyValueError::new_err("the function is inconsistent: a record refers to a later one")
}
