//! Finds the plain entries in the tables of a body: its numbers, types and buffers. Each entry is checked once.

use crate::verify::plain::{plain_dtype, plain_text};
use passhost_lang::ir::records::*;
use passhost_lang::ir::{DType, RawView};

/// Maximum length of a name or string in a plain function, in bytes.
const LONGEST: usize = 200;
/// Alignment of a buffer whose text does not give one.
const ALIGN: u32 = 64;

/// A type whose text reads as the same record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainType {
    /// A scalar.
    Scalar(DType),
    /// A pointer into memory of the given scope, which is a string id, or [`NONE`] for global memory.
    Pointer {
        dtype: DType,
        scope: u32,
    },
    Buffer(PlainBuffer),
}

/// A compact buffer with constant extents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PlainBuffer {
    pub(super) dtype: DType,
    pub(super) rank: u32,
    /// The memory scope as a string id; [`NONE`] for global memory.
    pub(super) scope: u32,
    /// True if the text may use the buffer like a variable, by name alone.
    pub(super) is_scalar: bool,
}

/// A constant operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) dtype: DType,
    /// The value, if the constant is an integer.
    pub(super) int: Option<i64>,
}

/// The plain entries of the tables.
pub(super) struct Tables {
    types: Vec<Option<PlainType>>,
    numbers: Vec<Option<Number>>,
}

impl Tables {
    /// Returns `None` if a name or string can change the meaning of the text.
    pub(super) fn of(raw: &RawView<'_>) -> Option<Tables> {
        let strings = (0..raw.strs().len() as u32).map(|id| raw.str(id));
        (raw.var_names().is_empty() && strings.into_iter().all(is_short)).then_some(())?;
        let names = raw.names().iter().filter_map(|off| raw.name_at(*off));
        names.into_iter().all(|name| name.is_ascii() && name.len() <= LONGEST && !older(name)).then_some(())?;
        let types: Vec<_> = raw.types().iter().map(|rec| plain_type(raw, rec)).collect();
        let numbers = raw.leaves().iter().map(|leaf| number(raw, &types, leaf)).collect();
        Some(Tables { types, numbers })
    }

    pub(super) fn ty(&self, id: u32) -> Option<PlainType> {
        *self.types.get(id as usize)?
    }

    pub(super) fn scalar(&self, id: u32) -> Option<DType> {
        match self.ty(id)? {
            PlainType::Scalar(dtype) => Some(dtype),
            _ => None,
        }
    }

    /// Returns the number in an operand word.
    pub(super) fn number(&self, op: u32) -> Option<Number> {
        *self.numbers.get((op & !LEAF_BIT) as usize).filter(|_| op & LEAF_BIT != 0)?
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= LONGEST && plain_text(text) && !older(text)
}

/// Returns true for a text that makes the reader assume the older syntax, wherever it occurs.
fn older(text: &str) -> bool {
    text.contains("T.block(")
}

/// Returns true for a data type of numbers.
fn is_number(dtype: DType) -> bool {
    dtype.is_known() && plain_dtype(dtype)
}

fn plain_type(raw: &RawView<'_>, rec: &TypeRec) -> Option<PlainType> {
    let dtype = DType(rec.dtype);
    let alone = (rec.flags, rec.ndim, rec.off, rec.len, rec.aux) == (0, 0, 0, 0, NONE);
    match rec.kind {
        tykind::PRIM if alone && is_number(dtype) => Some(PlainType::Scalar(dtype)),
        tykind::POINTER if alone && plain_dtype(dtype) => Some(PlainType::Pointer { dtype, scope: NONE }),
        tykind::POINTER if plain_dtype(dtype) && (rec.flags, rec.ndim, rec.aux) == (tyflag::TYPES, 0, NONE) => {
            let [inner] = raw.list(rec.off, rec.len) else { return None };
            // The scope of a pointer is stored as a buffer without dimensions, of which only the scope is printed.
            let rec = raw.types().get(*inner as usize)?;
            let (buffer, tiled) = plain_buffer(raw, rec, plain_dtype)?;
            let usual = raw.buffers().get(rec.aux as usize)?.align == ALIGN;
            let scoped = (buffer.dtype, buffer.rank, tiled, usual) == (dtype, 0, false, true) && buffer.scope != NONE;
            scoped.then_some(PlainType::Pointer { dtype, scope: buffer.scope })
        }
        tykind::BUFFER => plain_buffer(raw, rec, is_number).map(|(buffer, _)| PlainType::Buffer(buffer)),
        _ => None,
    }
}

/// Returns a buffer, and true if it has a layout.
fn plain_buffer(raw: &RawView<'_>, rec: &TypeRec, allowed: fn(DType) -> bool) -> Option<(PlainBuffer, bool)> {
    let buffer = raw.buffers().get(rec.aux as usize)?;
    let same = (rec.dtype, rec.ndim) == (buffer.dtype, i32::try_from(buffer.shape_len).ok()?);
    let alone = (rec.flags & !tyflag::TILED, rec.off, rec.len) == (0, 0, 0) && rec.kind == tykind::BUFFER;
    let compact = (buffer.strides_len, buffer.elem_offset, buffer.offset_factor, buffer.reserved) == (0, NONE, 1, 0);
    let dtype = DType(buffer.dtype);
    (same && alone && compact && buffer.align > 0 && allowed(dtype)).then_some(())?;
    // An explicit global scope would be read as the default scope.
    (buffer.scope == NONE || !matches!(raw.str(buffer.scope), "" | "global")).then_some(())?;
    let shape = raw.list(buffer.shape_off, buffer.shape_len);
    let extents: Option<Vec<i64>> = shape.iter().map(|id| extent(raw, *id)).collect();
    let (extents, tiled) = (extents?, rec.flags & tyflag::TILED != 0);
    let is_scalar = tiled && buffer.align == ALIGN && extents == [1];
    Some((PlainBuffer { dtype, rank: buffer.shape_len, scope: buffer.scope, is_scalar }, tiled))
}

/// Returns the extents of a buffer type.
pub(super) fn extents_of(raw: &RawView<'_>, ty: u32) -> Option<Vec<i64>> {
    let buffer = raw.buffers().get(raw.types().get(ty as usize)?.aux as usize)?;
    raw.list(buffer.shape_off, buffer.shape_len).iter().map(|id| extent(raw, *id)).collect()
}

/// Returns an extent of a buffer.
fn extent(raw: &RawView<'_>, id: u32) -> Option<i64> {
    let rec = raw.prims().get(id as usize).filter(|rec| rec.op == prim::INT && rec.flags == 0)?;
    let value = int(rec);
    (matches!(DType(rec.dtype), DType::I32 | DType::I64) && value >= 0).then_some(value)
}

fn int(rec: &PrimRec) -> i64 {
    (u64::from(rec.a) | u64::from(rec.b) << 32) as i64
}

fn number(raw: &RawView<'_>, types: &[Option<PlainType>], leaf: &LeafRec) -> Option<Number> {
    let of = (leaf.kind == leaf::PRIM).then(|| types.get(leaf.ty as usize).copied()).flatten()?;
    let rec = raw.prims().get(leaf.val as usize).filter(|rec| rec.flags == 0)?;
    let dtype = DType(rec.dtype);
    let int = match rec.op {
        // Large unsigned 64-bit numbers are stored as negative numbers.
        prim::INT if dtype != DType::U64 => Some(int(rec)),
        prim::FLOAT => None,
        _ => return None,
    };
    (of == Some(PlainType::Scalar(dtype))).then_some(Number { dtype, int })
}
