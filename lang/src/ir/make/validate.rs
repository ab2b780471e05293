//! The validator used by `seal`: checks arbitrary records and reports the first error, so that all later code can rely on ids.
//!
//! It checks that ids lie within their tables, and lists and strings within their bytes; the depth of types, dimensions and
//! attributes; the nesting of regions; definition before use, and scope; and that each unbound node has a single user. It
//! checks neither types and arity, because only the host knows the operators, nor A-normal form, which is a property.

mod error;
mod nodes;

use crate::ir::make::usual_form::{Unusual, is_unusual_float};
use crate::ir::records::*;
use crate::ir::storage::sections::RawView;
use crate::ir::types::{DType, MAX_SIZE};
use nodes::nodes;

pub use error::SealError;
pub(crate) use nodes::{is_expression, is_nested};

/// Checks sections from any source. Returns the parts that are valid but not in canonical form.
pub(crate) fn validate(raw: &RawView<'_>) -> Result<Unusual, SealError> {
    lengths(raw)?;
    strings(raw)?;
    let prims = prims(raw)?;
    buffers(raw)?;
    types(raw, &prims)?;
    attributes(raw)?;
    consts(raw)?;
    leaves(raw)?;
    let order = nodes(raw)?;
    Ok(Unusual { order, values: unusual_values(raw) })
}

/// Returns true if an attribute or dimension has a form that cannot be printed.
fn unusual_values(raw: &RawView<'_>) -> bool {
    let of_attr = |rec: &AttrRec| rec.kind == attr::DTYPE || rec.kind == attr::FLOAT && is_unusual_float(rec.val);
    let of_prim = |rec: &PrimRec| rec.op == prim::FLOAT && is_unusual_float(u64::from(rec.b) << 32 | u64::from(rec.a));
    let of_node = |node: &NodeRec| raw.dicts().get(node.attrs as usize).is_some_and(|dict| dict.len == 0);
    raw.attrs().iter().any(of_attr)
        || raw.prims().iter().any(of_prim)
        || raw.dicts().iter().any(|dict| dict.len == 0) && raw.nodes().iter().any(of_node)
}

/// Checks only types, dimensions and lists.
#[doc(hidden)]
pub fn validate_types(raw: &RawView<'_>) -> Result<(), SealError> {
    let prims = prims(raw)?;
    buffers(raw)?;
    types(raw, &prims)
}

fn lengths(raw: &RawView<'_>) -> Result<(), SealError> {
    let table = [
        ("nodes", raw.nodes().len()),
        ("operands", raw.operands().len()),
        ("leaves", raw.leaves().len()),
        ("types", raw.types().len()),
        ("lists", raw.lists().len()),
        ("prims", raw.prims().len()),
        ("strs", raw.strs().len()),
        ("attrs", raw.attrs().len()),
    ];
    for (section, len) in table {
        if len >= LEAF_BIT as usize {
            return Err(SealError::TooLong { section, len });
        }
    }
    if raw.nodes().is_empty() {
        return Err(SealError::Empty);
    }
    Ok(())
}

fn id(what: &'static str, index: usize, field: &'static str, found: u32, len: usize) -> Result<(), SealError> {
    if (found as usize) < len {
        Ok(())
    } else {
        Err(SealError::Dangling { what, index, field, found: u64::from(found), len })
    }
}

fn range(what: &'static str, i: usize, field: &'static str, off: u32, n: u32, len: usize) -> Result<(), SealError> {
    let end = u64::from(off) + u64::from(n);
    if end <= len as u64 { Ok(()) } else { Err(SealError::Dangling { what, index: i, field, found: end, len }) }
}

fn strings(raw: &RawView<'_>) -> Result<(), SealError> {
    for (i, rec) in raw.strs().iter().enumerate() {
        range("string", i, "end", rec.off, rec.len, raw.str_bytes().len())?;
        let bytes = &raw.str_bytes()[rec.off as usize..][..rec.len as usize];
        std::str::from_utf8(bytes).map_err(|_| SealError::NotUtf8 { what: "string", index: i })?;
    }
    let names = raw.names();
    if !names.is_empty() && names.len() != raw.nodes().len() {
        return Err(SealError::Malformed {
            what: "names",
            index: names.len(),
            why: "the number of rows differs from the number of nodes",
        });
    }
    for (i, off) in names.iter().chain(raw.var_names()).enumerate() {
        if *off != NONE && raw.name_at(*off).is_none() {
            let (found, len) = (u64::from(*off), raw.name_bytes().len());
            return Err(SealError::Dangling { what: "name", index: i, field: "offset", found, len });
        }
    }
    Ok(())
}

/// Adds the size of a part to the size of its record.
fn add_size(what: &'static str, index: usize, sizes: &mut [u32], part: u32) -> Result<(), SealError> {
    sizes[index] = sizes[index].saturating_add(part);
    if sizes[index] > MAX_SIZE { Err(SealError::TooLarge { what, index }) } else { Ok(()) }
}

/// Checks that a data type has a printable name.
fn named_dtype(what: &'static str, index: usize, dtype: u32) -> Result<(), SealError> {
    match DType(dtype).has_name() {
        true => Ok(()),
        false => Err(SealError::Malformed { what, index, why: "its data type is unnamed" }),
    }
}

/// Returns true if an integer fits its data type. Unsigned integers wrap into the 64 bits of the record.
fn is_integer_of(rec: &PrimRec) -> bool {
    let (dtype, value) = (DType(rec.dtype), (u64::from(rec.b) << 32 | u64::from(rec.a)) as i64);
    let value = if dtype == DType::U64 { i128::from(value as u64) } else { value.into() };
    matches!(dtype.code(), 0 | 1 | 6) && dtype.has_integer(value)
}

/// Checks dimension expressions, and returns the size of each.
fn prims(raw: &RawView<'_>) -> Result<Vec<u32>, SealError> {
    let mut depth = vec![0u16; raw.prims().len()];
    let mut sizes = vec![1u32; raw.prims().len()];
    for (i, rec) in raw.prims().iter().enumerate() {
        named_dtype("dimension", i, rec.dtype)?;
        let operands: &[u32] = match rec.op {
            prim::INT if !is_integer_of(rec) => {
                return Err(SealError::Malformed {
                    what: "dimension",
                    index: i,
                    why: "its value does not fit its data type",
                });
            }
            prim::FLOAT if !DType(rec.dtype).is_float() => {
                return Err(SealError::Malformed {
                    what: "dimension",
                    index: i,
                    why: "a float value, but its data type is not a float",
                });
            }
            prim::FLOAT if !DType(rec.dtype).has_float(f64::from_bits(u64::from(rec.b) << 32 | u64::from(rec.a))) => {
                return Err(SealError::Malformed {
                    what: "dimension",
                    index: i,
                    why: "its value does not fit its data type",
                });
            }
            prim::INT | prim::FLOAT => &[],
            prim::VAR => {
                id("dimension", i, "variable", rec.a, raw.var_names().len())?;
                &[]
            }
            prim::NOT | prim::CAST => &[rec.a],
            prim::ADD..=prim::BITXOR | prim::IF | prim::ELSE => &[rec.a, rec.b],
            _ => return Err(SealError::Malformed { what: "dimension", index: i, why: "unknown operation" }),
        };
        for (at, found) in operands.iter().enumerate() {
            if *found as usize >= i {
                return Err(SealError::Forward { what: "dimension", index: i, found: *found });
            }
            if (raw.prims()[*found as usize].op == prim::ELSE) != (rec.op == prim::IF && at == 1) {
                return Err(SealError::Malformed {
                    what: "dimension",
                    index: i,
                    why: "IF and ELSE must come in pairs",
                });
            }
            depth[i] = depth[i].max(depth[*found as usize] + 1);
            let part = sizes[*found as usize];
            add_size("dimension", i, &mut sizes, part)?;
        }
        if u32::from(depth[i]) > MAX_DEPTH {
            return Err(SealError::TooDeep { what: "dimension", index: i, most: MAX_DEPTH });
        }
    }
    Ok(sizes)
}

fn prim_list(raw: &RawView<'_>, what: &'static str, i: usize, off: u32, len: u32) -> Result<(), SealError> {
    range(what, i, "list", off, len, raw.lists().len())?;
    raw.list(off, len).iter().try_for_each(|p| whole_dim(raw, what, i, *p))
}

/// Checks that a dimension expression is a complete expression, not a part of one.
fn whole_dim(raw: &RawView<'_>, what: &'static str, i: usize, dim: u32) -> Result<(), SealError> {
    id(what, i, "dimension", dim, raw.prims().len())?;
    match raw.prims()[dim as usize].op {
        prim::ELSE => Err(SealError::Malformed { what, index: i, why: "IF and ELSE must come in pairs" }),
        _ => Ok(()),
    }
}

fn buffers(raw: &RawView<'_>) -> Result<(), SealError> {
    for (i, b) in raw.buffers().iter().enumerate() {
        named_dtype("buffer", i, b.dtype)?;
        prim_list(raw, "buffer", i, b.shape_off, b.shape_len)?;
        prim_list(raw, "buffer", i, b.strides_off, b.strides_len)?;
        if b.elem_offset != NONE {
            whole_dim(raw, "buffer", i, b.elem_offset)?;
        }
        if b.scope != NONE {
            id("buffer", i, "scope", b.scope, raw.strs().len())?;
        }
    }
    Ok(())
}

/// Checks types; the lists in a type may refer only to earlier types.
fn types(raw: &RawView<'_>, prims: &[u32]) -> Result<(), SealError> {
    let mut depth = vec![0u16; raw.types().len()];
    let mut sizes = vec![1u32; raw.types().len()];
    for (i, rec) in raw.types().iter().enumerate() {
        let lists = rec.flags & (tyflag::PRIMS | tyflag::TYPES);
        if lists == tyflag::PRIMS {
            prim_list(raw, "type", i, rec.off, rec.len)?;
            for found in raw.list(rec.off, rec.len) {
                add_size("type", i, &mut sizes, prims[*found as usize])?;
            }
            if matches!(rec.kind, tykind::TENSOR | tykind::SHAPE) && rec.ndim != rec.len as i32 {
                return Err(SealError::Malformed {
                    what: "type",
                    index: i,
                    why: "ndim differs from the number of dimensions",
                });
            }
        } else if lists == tyflag::TYPES {
            range("type", i, "list", rec.off, rec.len, raw.lists().len())?;
            for found in raw.list(rec.off, rec.len) {
                if *found as usize >= i {
                    return Err(SealError::Forward { what: "type", index: i, found: *found });
                }
                depth[i] = depth[i].max(depth[*found as usize] + 1);
                let part = sizes[*found as usize];
                add_size("type", i, &mut sizes, part)?;
            }
        } else if lists != 0 || rec.len != 0 {
            return Err(SealError::Malformed { what: "type", index: i, why: "a list of unknown content" });
        }
        if u32::from(depth[i]) > MAX_DEPTH {
            return Err(SealError::TooDeep { what: "type", index: i, most: MAX_DEPTH });
        }
        let typed = [tykind::PRIM, tykind::TENSOR, tykind::DTENSOR, tykind::BUFFER, tykind::POINTER];
        if typed.contains(&rec.kind) {
            named_dtype("type", i, rec.dtype)?;
        }
        if rec.kind == tykind::CALLABLE && rec.len == 0 {
            return Err(SealError::Malformed { what: "type", index: i, why: "a function type without a result" });
        }
        if rec.kind == tykind::DTENSOR && (lists != tyflag::TYPES || rec.len != 2) {
            return Err(SealError::Malformed { what: "type", index: i, why: "expected a tensor and its placement" });
        }
        if rec.kind == tykind::BUFFER {
            id("type", i, "buffer", rec.aux, raw.buffers().len())?;
        }
    }
    Ok(())
}

fn plain_val(raw: &RawView<'_>, what: &'static str, i: usize, flags: u16, value: u64) -> Result<(), SealError> {
    let (hi, lo) = ((value >> 32) as u32, value as u32);
    let small = || u32::try_from(value).unwrap_or(u32::MAX);
    match flags {
        val::PLAIN => Ok(()),
        val::STR => id(what, i, "string", small(), raw.strs().len()),
        val::PRIM => whole_dim(raw, what, i, small()),
        val::PRIM_LIST => prim_list(raw, what, i, hi, lo),
        val::CONST => id(what, i, "constant", small(), raw.consts().len()),
        val::TYPE => id(what, i, "type", small(), raw.types().len()),
        val::DICT if value == u64::from(NONE) => Ok(()),
        val::DICT => id(what, i, "dict", small(), raw.dicts().len()),
        val::ATTR_LIST => range(what, i, "list", hi, lo, raw.attrs().len()),
        _ => Err(SealError::Malformed { what, index: i, why: "unknown kind of value" }),
    }
}

fn attributes(raw: &RawView<'_>) -> Result<(), SealError> {
    let attrs = raw.attrs();
    for (i, rec) in attrs.iter().enumerate() {
        if rec.key != NONE {
            id("attribute", i, "key", rec.key, raw.strs().len())?;
        }
        plain_val(raw, "attribute", i, rec.flags, rec.val)?;
        let expected = match rec.kind {
            attr::NONE | attr::BOOL | attr::INT | attr::FLOAT | attr::DTYPE => val::PLAIN,
            attr::STR => val::STR,
            attr::LIST | attr::OBJECT => val::ATTR_LIST,
            attr::DICT => val::DICT,
            attr::TYPE => val::TYPE,
            attr::PRIM => val::PRIM,
            attr::CONST => val::CONST,
            _ => rec.flags,
        };
        if rec.flags != expected {
            return Err(SealError::Malformed { what: "attribute", index: i, why: "its value does not fit its kind" });
        }
        if rec.kind == attr::DTYPE {
            named_dtype("attribute", i, rec.val as u32)?;
        }
    }
    // Children precede their parent, so one forward pass computes the depth, and cycles are impossible.
    let mut depth = vec![0u16; attrs.len()];
    let mut sizes = vec![1u32; attrs.len()];
    for (i, rec) in attrs.iter().enumerate() {
        let (off, len) = match rec.flags {
            val::ATTR_LIST => ((rec.val >> 32) as u32, rec.val as u32),
            val::DICT if rec.val as u32 != NONE => {
                let dict = raw.dicts()[rec.val as usize];
                (dict.off, dict.len)
            }
            _ => continue,
        };
        // An empty list may start anywhere.
        if len == 0 {
            depth[i] = 1;
            continue;
        }
        let end = off as usize + len as usize;
        if end > i {
            return Err(SealError::Forward { what: "attribute", index: i, found: off });
        }
        depth[i] = 1 + depth[off as usize..end].iter().copied().max().unwrap_or(0);
        for part in off as usize..end {
            let part = sizes[part];
            add_size("attribute", i, &mut sizes, part)?;
        }
        if u32::from(depth[i]) > MAX_DEPTH {
            return Err(SealError::TooDeep { what: "attribute", index: i, most: MAX_DEPTH });
        }
    }
    for (i, dict) in raw.dicts().iter().enumerate() {
        range("dict", i, "end", dict.off, dict.len, attrs.len())?;
        if attrs[dict.off as usize..][..dict.len as usize].iter().any(|rec| rec.key == NONE) {
            return Err(SealError::Malformed { what: "dict", index: i, why: "an entry without a key" });
        }
    }
    Ok(())
}

fn consts(raw: &RawView<'_>) -> Result<(), SealError> {
    let (consts, tensors) = (raw.consts(), raw.tensors());
    if consts.len() != tensors.len() {
        return Err(SealError::Malformed {
            what: "constants",
            index: consts.len(),
            why: "the number of constants differs from the number of \
                                                                                        tensors",
        });
    }
    for (i, (rec, tensor)) in consts.iter().zip(tensors).enumerate() {
        id("constant", i, "type", rec.ty, raw.types().len())?;
        if rec.bytes != tensor.bytes().len() as u64 || (rec.hash_lo, rec.hash_hi) != tensor.hash128() {
            return Err(SealError::Malformed { what: "constant", index: i, why: "its record contradicts its tensor" });
        }
        const_type(raw, rec).map_err(|why| SealError::Malformed { what: "constant", index: i, why })?;
    }
    Ok(())
}

/// Checks that the type of a constant is a tensor of known shape whose elements fill the data.
fn const_type(raw: &RawView<'_>, rec: &ConstRec) -> Result<(), &'static str> {
    let said = raw.types()[rec.ty as usize];
    let of = match said.kind {
        tykind::DTENSOR => raw.types()[raw.list(said.off, said.len)[0] as usize],
        _ => said,
    };
    if of.kind != tykind::TENSOR || of.flags & tyflag::PRIMS == 0 {
        return Err("its type must be a tensor of known shape");
    }
    if rec.dtype != of.dtype {
        return Err("its data type differs from the data type of its type");
    }
    let dtype = DType(of.dtype);
    let bits = u64::from(dtype.bits()) * u64::from(dtype.lanes());
    let extent = |id: &u32| {
        let dim = raw.prims()[*id as usize];
        let extent = u64::from(dim.a) | u64::from(dim.b) << 32;
        (dim.op == prim::INT && i64::try_from(extent).is_ok()).then_some(extent)
    };
    let elements = raw.list(of.off, of.len).iter().try_fold(1u64, |n, id| n.checked_mul(extent(id)?));
    // Elements narrower than a byte are packed.
    match elements.and_then(|elements| elements.checked_mul(bits)) {
        Some(bits) if bits.div_ceil(8) == rec.bytes => Ok(()),
        _ => Err("the length of its data contradicts its type"),
    }
}

fn leaves(raw: &RawView<'_>) -> Result<(), SealError> {
    for (i, rec) in raw.leaves().iter().enumerate() {
        if rec.ty != NONE {
            id("leaf", i, "type", rec.ty, raw.types().len())?;
        }
        plain_val(raw, "leaf", i, rec.flags, rec.val)?;
        let expected = match rec.kind {
            leaf::OP | leaf::GLOBAL_VAR | leaf::EXTERN_FUNC | leaf::STR => val::STR,
            leaf::CONST => val::CONST,
            leaf::SHAPE => val::PRIM_LIST,
            leaf::PRIM => val::PRIM,
            leaf::TYPE => val::TYPE,
            leaf::ATTR => val::ATTR_LIST,
            leaf::DTYPE => val::PLAIN,
            _ => rec.flags,
        };
        if rec.flags != expected {
            return Err(SealError::Malformed { what: "leaf", index: i, why: "its value does not fit its kind" });
        }
        if rec.kind == leaf::DTYPE {
            named_dtype("leaf", i, rec.val as u32)?;
        }
    }
    Ok(())
}
