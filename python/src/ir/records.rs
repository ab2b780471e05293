//! Exposes the records of a body to NumPy without a copy: objects with `__array_interface__` that keep the body alive.

use passhost::plugin_api::ir::records::*;
use passhost::plugin_api::ir::{self, RawView};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::module::Body;

/// The records of one section of a body, read-only.
#[pyclass(frozen, module = "passhost._passhost")]
pub(crate) struct Records {
    body: ir::Body,
    section: &'static Section,
}

/// Returns the address and number of the records.
type Found = fn(&RawView<'_>) -> (usize, usize);

/// A section of a body: its name, its location, and the name and type of each column.
struct Section {
    name: &'static str,
    found: Found,
    columns: &'static [(&'static str, &'static str)],
}

#[cfg(target_endian = "little")]
macro_rules! number {
    (u8) => {
        "|u1"
    };
    (u16) => {
        "<u2"
    };
    (u32) => {
        "<u4"
    };
    (u64) => {
        "<u8"
    };
    (i32) => {
        "<i4"
    };
}

macro_rules! sections {
    ($($name:ident { $($column:ident: $type:ident),* })*) => {
        const SECTIONS: &[Section] = &[$(Section {
            name: stringify!($name),
            found: |raw| (raw.$name().as_ptr() as usize, raw.$name().len()),
            columns: &[$((stringify!($column), number!($type))),*],
        }),*];
    };
}

sections! {
    nodes { kind: u16, flags: u16, ty: u32, ops: u32, n_ops: u32, attrs: u32, a: u32 }
    operands { word: u32 }
    leaves { kind: u16, flags: u16, ty: u32, val: u64 }
    types { kind: u16, flags: u16, dtype: u32, ndim: i32, off: u32, len: u32, aux: u32 }
    lists { id: u32 }
    prims { op: u16, flags: u16, dtype: u32, a: u32, b: u32 }
    strs { off: u32, len: u32 }
    str_bytes { byte: u8 }
    dicts { off: u32, len: u32 }
    attrs { key: u32, kind: u16, flags: u16, reserved: u64, val: u64 }
    consts { hash_lo: u64, hash_hi: u64, bytes: u64, dtype: u32, ty: u32 }
    buffers {
        dtype: u32, scope: u32, shape_off: u32, shape_len: u32, strides_off: u32, strides_len: u32, elem_offset: u32,
        align: u32, offset_factor: u32, reserved: u32
    }
    names { off: u32 }
    name_bytes { byte: u8 }
    var_names { off: u32 }
}

/// Returns the size in bytes of a NumPy number type.
fn width(number: &str) -> usize {
    number.bytes().last().map_or(0, |digit| usize::from(digit - b'0'))
}

#[pymethods]
impl Records {
    #[new]
    fn new(body: &Body, section: &str) -> PyResult<Records> {
        let section = SECTIONS.iter().find(|known| known.name == section).ok_or_else(|| {
            let names: Vec<&str> = SECTIONS.iter().map(|known| known.name).collect();
            PyValueError::new_err(format!("unknown table {section:?}; a function has {}", names.join(", ")))
        })?;
        Ok(Records { body: body.0.clone(), section })
    }

    /// The array interface of NumPy: address, number and columns of the records, marked as read-only.
    #[getter(__array_interface__)]
    fn array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (address, length) = (self.section.found)(self.body.raw());
        let made = PyDict::new(py);
        made.set_item("version", 3)?;
        made.set_item("data", (address, true))?;
        made.set_item("shape", (length,))?;
        if let [(_, number)] = self.section.columns {
            made.set_item("typestr", *number)?;
            return Ok(made);
        }
        let bytes: usize = self.section.columns.iter().map(|(_, number)| width(number)).sum();
        made.set_item("typestr", format!("|V{bytes}"))?;
        let columns = self.section.columns.iter().map(|(name, number)| PyTuple::new(py, [*name, *number]));
        made.set_item("descr", PyList::new(py, columns.collect::<PyResult<Vec<_>>>()?)?)?;
        Ok(made)
    }
}

macro_rules! named {
    ($module:ident: $($name:ident)*) => { vec![$((stringify!($name), u64::from($module::$name))),*] };
}

/// Names and numbers of node kinds, node flags, leaf kinds, and type kinds.
type Kinds = Vec<(&'static str, Vec<(&'static str, u64)>)>;

/// Returns the meanings of the numbers in the tables.
#[pyfunction]
pub(crate) fn record_kinds() -> Kinds {
    vec![
        (
            "Kind",
            named!(kind: FUNC PARAM BLOCK DATAFLOW CALL TUPLE TUPLE_GET IF BRANCH YIELD MATCH_CAST ALIAS EXTERN MODULE
            SEQ PRIM_FUNC BUFFER FOR SBLOCK ITER_VAR STORE LOAD ARITH EVALUATE INIT ACCESS LOOP_VAR WHILE BIND COND SCOPE
            ATTR ASSERT SELECT RAMP BROADCAST SHUFFLE LET VAR BUFFER_PART RETURN BREAK CONTINUE LAUNCH WHERE ANNOTATE
            COMBINER),
        ),
        ("Flag", named!(flag: BOUND REGION DATAFLOW TERM IMPURE OWNER INNER PRIVATE)),
        ("Leaf", named!(leaf: OP GLOBAL_VAR CONST SHAPE PRIM STR DTYPE EXTERN_FUNC TYPE ATTR)),
        ("TypeKind", named!(tykind: OBJECT PRIM SHAPE TENSOR TUPLE CALLABLE BUFFER POINTER DTENSOR)),
    ]
}
