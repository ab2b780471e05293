//! The validator behind `seal`: takes any records and says what is wrong, so that everything after it may trust ids.
//!
//! Checked: every id against its table, lists and strings against their bytes, depth of types, dimensions and
//! attributes, nesting of regions, definition before use, scope, one user for each unbound node. Not checked here:
//! types against inference and arity (the host knows the operators), and A-normal form (a property).

use crate::ir::make::usual_form::{Unusual, is_block, is_unusual_float};
use crate::ir::records::*;
use crate::ir::storage::sections::RawView;
use crate::ir::types::{DType, MAX_SIZE};

/// Why sections are not a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// No node at all.
    #[error("the body has no nodes; build a function with at least a result")]
    Empty,
    /// A table is longer than ids can say.
    #[error("section {section} has {len} records; at most 2^31 - 1 are possible: split the function")]
    TooLong {
        /// Which section.
        section: &'static str,
        /// Its number of records.
        len: usize,
    },
    /// An id or range points outside its table.
    #[error("{what} {index}: {field} is {found}, outside its table of {len}")]
    Dangling {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// Which field.
        field: &'static str,
        /// Value found.
        found: u64,
        /// Length of the table.
        len: usize,
    },
    /// A record refers to itself or to a later one.
    #[error("{what} {index}: refers to {found}; a record may refer only to earlier ones")]
    Forward {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// What it refers to.
        found: u32,
    },
    /// Nested too deeply.
    #[error("{what} {index}: nested more than {most} deep; name inner parts to flatten it")]
    TooDeep {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// How deep it may be.
        most: u32,
    },
    /// Small to store, but too large once shared parts are written out.
    #[error("{what} {index}: more than {MAX_SIZE} parts when written out; name inner parts")]
    TooLarge {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("{what} {index} is not UTF-8")]
    NotUtf8 {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
    },
    /// A record that contradicts itself.
    #[error("{what} {index}: {why}")]
    Malformed {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// In which way.
        why: &'static str,
    },
    /// A value used where it is not visible.
    #[error("node {index}{}: uses `{name}` outside the region that defines it", named(.user))]
    Scope {
        /// Node that uses it.
        index: usize,
        /// Name of the user, or empty.
        user: String,
        /// Name of the value.
        name: String,
    },
    /// An operand that refers to its own node or a later one.
    #[error("node {index}{}: uses `{name}` before its definition", named(.user))]
    UseBeforeDef {
        /// Node that uses it.
        index: usize,
        /// Name of the user, or empty.
        user: String,
        /// Name of the value.
        name: String,
    },
    /// A pass removed a value that is still used.
    #[error("node {index}{}: uses `{name}`, which was removed; replace its uses first", named(.user))]
    Removed {
        /// Node that uses it.
        index: usize,
        /// Name of the user, or empty.
        user: String,
        /// Name of the value.
        name: String,
    },
    /// A nested expression without a user, or with more than one.
    #[error(
        "node {index}: a nested expression has {uses} users; exactly one is allowed: give it a name (in a rewrite with `rw.emit`)"
    )]
    UnboundUses {
        /// Which node.
        index: usize,
        /// Number of its users.
        uses: u32,
    },
    /// The host refused.
    #[error("{0}")]
    Host(String),
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" (`{name}`)") }
}

/// Checks sections that come from anywhere; says what is valid, but not in the form that sealed bodies have.
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

/// Whether an attribute or dimension has a form that no text has.
fn unusual_values(raw: &RawView<'_>) -> bool {
    let of_attr = |rec: &AttrRec| rec.kind == attr::DTYPE || rec.kind == attr::FLOAT && is_unusual_float(rec.val);
    let of_prim = |rec: &PrimRec| rec.op == prim::FLOAT && is_unusual_float(u64::from(rec.b) << 32 | u64::from(rec.a));
    let of_node = |node: &NodeRec| raw.dicts().get(node.attrs as usize).is_some_and(|dict| dict.len == 0);
    raw.attrs().iter().any(of_attr)
        || raw.prims().iter().any(of_prim)
        || raw.dicts().iter().any(|dict| dict.len == 0) && raw.nodes().iter().any(of_node)
}

/// Checks types, dimensions and lists alone.
pub(crate) fn validate_types(raw: &RawView<'_>) -> Result<(), SealError> {
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
        return Err(SealError::Malformed { what: "names", index: names.len(), why: "not one row for each node" });
    }
    for (i, off) in names.iter().chain(raw.var_names()).enumerate() {
        if *off != NONE && raw.name_at(*off).is_none() {
            let (found, len) = (u64::from(*off), raw.name_bytes().len());
            return Err(SealError::Dangling { what: "name", index: i, field: "offset", found, len });
        }
    }
    Ok(())
}

/// Adds the sizes of the parts of a record to its own.
fn add_size(what: &'static str, index: usize, sizes: &mut [u32], part: u32) -> Result<(), SealError> {
    sizes[index] = sizes[index].saturating_add(part);
    if sizes[index] > MAX_SIZE { Err(SealError::TooLarge { what, index }) } else { Ok(()) }
}

/// A data type that texts can name.
fn named_dtype(what: &'static str, index: usize, dtype: u32) -> Result<(), SealError> {
    match DType(dtype).has_name() {
        true => Ok(()),
        false => Err(SealError::Malformed { what, index, why: "a data type that has no name" }),
    }
}

/// Size of each dimension expression.
/// Whether an integer is one of its data type. Those without a sign wrap into the 64 bits of the record.
fn is_integer_of(rec: &PrimRec) -> bool {
    let (dtype, value) = (DType(rec.dtype), (u64::from(rec.b) << 32 | u64::from(rec.a)) as i64);
    let value = if dtype == DType::U64 { i128::from(value as u64) } else { value.into() };
    matches!(dtype.code(), 0 | 1 | 6) && dtype.has_integer(value)
}

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
                    why: "its data type has no such integer",
                });
            }
            prim::FLOAT if !DType(rec.dtype).is_float() => {
                return Err(SealError::Malformed { what: "dimension", index: i, why: "a float of another data type" });
            }
            prim::FLOAT if !DType(rec.dtype).has_float(f64::from_bits(u64::from(rec.b) << 32 | u64::from(rec.a))) => {
                return Err(SealError::Malformed {
                    what: "dimension",
                    index: i,
                    why: "its data type has no such float",
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
                return Err(SealError::Malformed { what: "dimension", index: i, why: "IF and ELSE belong together" });
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

/// A dimension expression that stands for itself.
fn whole_dim(raw: &RawView<'_>, what: &'static str, i: usize, dim: u32) -> Result<(), SealError> {
    id(what, i, "dimension", dim, raw.prims().len())?;
    match raw.prims()[dim as usize].op {
        prim::ELSE => Err(SealError::Malformed { what, index: i, why: "IF and ELSE belong together" }),
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

/// Checks types; their lists refer to earlier types only.
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
                    why: "ndim is not the number of dimensions",
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
            return Err(SealError::Malformed { what: "type", index: i, why: "not a tensor and its placement" });
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
            return Err(SealError::Malformed { what: "attribute", index: i, why: "kind and value do not fit" });
        }
        if rec.kind == attr::DTYPE {
            named_dtype("attribute", i, rec.val as u32)?;
        }
    }
    // Children stand before their parent, so depth is one forward pass and cycles cannot be.
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
        // An empty one may begin anywhere.
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
        return Err(SealError::Malformed { what: "constants", index: consts.len(), why: "not one tensor for each" });
    }
    for (i, (rec, tensor)) in consts.iter().zip(tensors).enumerate() {
        id("constant", i, "type", rec.ty, raw.types().len())?;
        if rec.bytes != tensor.bytes().len() as u64 || (rec.hash_lo, rec.hash_hi) != tensor.hash128() {
            return Err(SealError::Malformed {
                what: "constant",
                index: i,
                why: "its record is not that of its tensor",
            });
        }
        const_type(raw, rec).map_err(|why| SealError::Malformed { what: "constant", index: i, why })?;
    }
    Ok(())
}

/// The type of a constant is that of a tensor of known shape, whose elements fill the data.
fn const_type(raw: &RawView<'_>, rec: &ConstRec) -> Result<(), &'static str> {
    let said = raw.types()[rec.ty as usize];
    let of = match said.kind {
        tykind::DTENSOR => raw.types()[raw.list(said.off, said.len)[0] as usize],
        _ => said,
    };
    if of.kind != tykind::TENSOR || of.flags & tyflag::PRIMS == 0 {
        return Err("its type is not that of a tensor of known shape");
    }
    if rec.dtype != of.dtype {
        return Err("its data type is not that of its type");
    }
    let dtype = DType(of.dtype);
    let bits = u64::from(dtype.bits()) * u64::from(dtype.lanes());
    let extent = |id: &u32| {
        let dim = raw.prims()[*id as usize];
        let extent = u64::from(dim.a) | u64::from(dim.b) << 32;
        (dim.op == prim::INT && i64::try_from(extent).is_ok()).then_some(extent)
    };
    let elements = raw.list(of.off, of.len).iter().try_fold(1u64, |n, id| n.checked_mul(extent(id)?));
    // Elements that are narrower than a byte are packed.
    match elements.and_then(|elements| elements.checked_mul(bits)) {
        Some(bits) if bits.div_ceil(8) == rec.bytes => Ok(()),
        _ => Err("its data is not as long as its type says"),
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
            return Err(SealError::Malformed { what: "leaf", index: i, why: "kind and value do not fit" });
        }
        if rec.kind == leaf::DTYPE {
            named_dtype("leaf", i, rec.val as u32)?;
        }
    }
    Ok(())
}

/// An open region while nodes are walked.
struct Open {
    /// Position after its content.
    end: u32,
    /// Where values defined directly in it stop being visible, unless they are INNER.
    visible: u32,
    /// Nested expressions directly in it that still wait for their user.
    pending: i32,
    /// Kind of the block directly in it that ended last, if only nested expressions follow it; else 0.
    block: u16,
}

impl Open {
    /// Takes a node directly in the region, which uses `nested` of the expressions that wait. Returns whether it is a block
    /// that sealed bodies do not have: one that follows a block of its kind, or an empty one.
    #[inline]
    fn take(&mut self, i: usize, node: &NodeRec, nested: i32) -> Result<bool, SealError> {
        self.pending -= nested;
        if self.pending < 0 {
            return Err(unbound_escapes(i));
        }
        self.pending += i32::from(!node.has(flag::BOUND) && is_expression(node));
        if !is_block(node.kind) {
            self.block = if is_nested(node) { self.block } else { 0 };
            return Ok(false);
        }
        let superfluous = self.block == node.kind || node.kind == kind::BLOCK && node.a == 0;
        self.block = node.kind;
        Ok(superfluous)
    }

    /// The region that a node directly in this one opens.
    #[inline]
    fn inner(&self, i: usize, node: &NodeRec) -> Result<Open, SealError> {
        let end = i as u64 + 1 + u64::from(node.a);
        if end > u64::from(self.end) {
            let why = "its content goes beyond the region around it";
            return Err(SealError::Malformed { what: "node", index: i, why });
        }
        let end = end as u32;
        // Blocks do not hide what they define; functions, branches and unknown regions do.
        let visible = if matches!(node.kind, kind::BLOCK | kind::DATAFLOW) { self.visible } else { end };
        Ok(Open { end, visible, pending: 0, block: 0 })
    }
}

/// Checks the nodes; says whether they have another order than sealed bodies have, or other blocks.
fn nodes(raw: &RawView<'_>) -> Result<bool, SealError> {
    let nodes = raw.nodes();
    let n = nodes.len() as u32;
    // For each node: where it stops being visible (bound), or how deep it is nested (unbound).
    let mut until = vec![0u32; nodes.len()];
    let mut uses: Vec<u8> = vec![0; nodes.len()];
    // For each nested expression where its first part stands.
    let mut starts = vec![0u32; nodes.len()];
    let mut moved = false;
    let mut open: Vec<Open> = vec![Open { end: n, visible: n, pending: 0, block: 0 }];
    for (i, node) in nodes.iter().enumerate() {
        close_ended(&mut open, i)?;
        record(raw, i, node)?;
        let (deepest, nested) = operands(raw, i, node, &until, &mut uses)?;
        if is_nested(node) || nested > 0 {
            moved |= !directly_before(raw, i, node, &mut starts);
        }
        let Some(around) = open.last_mut() else { return Err(SealError::Empty) };
        moved |= around.take(i, node, nested)?;
        let around_end = around.end;
        let visible = if node.has(flag::INNER) { around_end } else { around.visible };
        until[i] = if node.has(flag::BOUND) { visible } else { deepest + 1 };
        if deepest >= MAX_NESTED {
            return Err(SealError::TooDeep { what: "node", index: i, most: MAX_NESTED });
        }
        if node.has(flag::REGION) {
            let inner = around.inner(i, node)?;
            if node.a > 0 {
                open.push(inner);
            }
            if open.len() > MAX_DEPTH as usize {
                return Err(SealError::TooDeep { what: "region", index: i, most: MAX_DEPTH });
            }
        }
        in_place(node, i, nodes.len(), around_end)?;
    }
    finish(nodes, &uses)?;
    Ok(moved)
}

/// Closes the regions that end before node `i`: none may leave a nested expression without its user.
fn close_ended(open: &mut Vec<Open>, i: usize) -> Result<(), SealError> {
    while open.len() > 1 && open.last().is_some_and(|region| region.end <= i as u32) {
        if open.pop().is_some_and(|region| region.pending != 0) {
            return Err(unbound_escapes(i));
        }
    }
    Ok(())
}

/// Whether a node may be at place `i` of `n` nodes, in a region that ends at `end`.
fn in_place(node: &NodeRec, i: usize, n: usize, end: u32) -> Result<(), SealError> {
    let malformed = |why| Err(SealError::Malformed { what: "node", index: i, why });
    if i == 0 && n > 1 && !node.has(flag::REGION) && node.kind != kind::MODULE {
        return malformed("the root must be a region or the only node");
    }
    if node.has(flag::TERM) && i as u32 + 1 != end {
        return malformed("a terminator that is not the last of its region");
    }
    Ok(())
}

/// Whether what is nested in a node stands directly before it, in the order of the operands; notes where it begins.
fn directly_before(raw: &RawView<'_>, i: usize, node: &NodeRec, starts: &mut [u32]) -> bool {
    let (nodes, mut at) = (raw.nodes(), i as u32);
    for op in raw.operands()[node.op_range()].iter().rev() {
        if let Some(def) = nodes.get(*op as usize).filter(|def| is_nested(def)) {
            if def.end(*op) != at {
                return false;
            }
            at = starts[*op as usize];
        }
    }
    starts[i] = at;
    true
}

fn unbound_escapes(index: usize) -> SealError {
    let why = "a nested expression is used in another region than the one that holds it";
    SealError::Malformed { what: "node", index, why }
}

/// Facts that hold when all nodes were seen.
fn finish(nodes: &[NodeRec], uses: &[u8]) -> Result<(), SealError> {
    let n = nodes.len();
    if nodes[0].has(flag::REGION) && nodes[0].a as usize + 1 != n {
        return Err(SealError::Malformed { what: "node", index: 0, why: "the root does not span the body" });
    }
    for (i, node) in nodes.iter().enumerate() {
        let value = node.flags & (flag::BOUND | flag::TERM) == 0 && is_expression(node);
        if value && uses[i] != 1 {
            return Err(SealError::UnboundUses { index: i, uses: u32::from(uses[i]) });
        }
        let ends = |kind| matches!(kind, kind::FUNC | kind::BRANCH | kind::SEQ | kind::COMBINER);
        if ends(node.kind) && !nodes.get(i + node.a as usize).is_some_and(|last| node.a > 0 && last.has(flag::TERM)) {
            return Err(SealError::Malformed { what: "node", index: i, why: "a function or branch without a result" });
        }
    }
    Ok(())
}

/// Nodes that are values: they are bound or have one user, so that equal programs have equal nodes.
pub(crate) fn is_expression(node: &NodeRec) -> bool {
    matches!(
        node.kind,
        kind::CALL
            | kind::TUPLE
            | kind::TUPLE_GET
            | kind::IF
            | kind::MATCH_CAST
            | kind::ALIAS
            | kind::SEQ
            | kind::LOAD
            | kind::ARITH
            | kind::SELECT
            | kind::RAMP
            | kind::BROADCAST
            | kind::SHUFFLE
            | kind::LET
            | kind::BUFFER_PART
            | kind::COMBINER
    ) || node.kind == kind::ACCESS && node.a == ACCESS_OF_OPERAND
}

/// A nested expression: a value without a name. Kinds that may be statements, of TIR or unknown, are none.
pub(crate) fn is_nested(node: &NodeRec) -> bool {
    node.flags & (flag::BOUND | flag::TERM) == 0 && is_expression(node)
}

/// Payload of an ACCESS that a buffer matches or a call takes; those of blocks are statements.
const ACCESS_OF_OPERAND: u32 = 2;

fn record(raw: &RawView<'_>, i: usize, node: &NodeRec) -> Result<(), SealError> {
    if node.ty != NONE {
        id("node", i, "type", node.ty, raw.types().len())?;
    }
    if node.attrs != NONE {
        id("node", i, "attributes", node.attrs, raw.dicts().len())?;
    }
    range("node", i, "operands", node.ops, node.n_ops, raw.operands().len())?;
    let (region, least) = match node.kind {
        kind::FUNC | kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::SEQ => (true, 0),
        kind::IF => (true, 1),
        kind::CALL | kind::TUPLE_GET | kind::YIELD | kind::MATCH_CAST | kind::ALIAS | kind::EXTERN => (false, 1),
        kind::PARAM | kind::TUPLE => (false, 0),
        _ => return Ok(()),
    };
    let wrong = |why| Err(SealError::Malformed { what: "node", index: i, why });
    if node.has(flag::REGION) != region {
        return wrong("a region flag that does not fit its kind");
    }
    if node.n_ops < least {
        return wrong("too few operands for its kind");
    }
    let bound = node.has(flag::BOUND);
    if node.kind == kind::PARAM && !node.has(flag::BOUND | flag::INNER) {
        return wrong("a parameter must be bound and visible only in its function");
    }
    // Between those of a TIR function may stand what the types of buffers speak of.
    let content = |before: &NodeRec| {
        let relax = matches!(before.kind, kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::YIELD);
        relax || is_expression(before) && before.has(flag::BOUND)
    };
    if node.kind == kind::PARAM && i.checked_sub(1).is_none_or(|before| content(&raw.nodes()[before])) {
        return wrong("a parameter comes after other content of its function: parameters come first");
    }
    if matches!(node.kind, kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::YIELD) && bound {
        return wrong("a block, branch or result cannot be bound");
    }
    if node.has(flag::TERM) != (node.kind == kind::YIELD) {
        return wrong("a terminator flag that does not fit its kind");
    }
    if node.has(flag::DATAFLOW) != (node.kind == kind::DATAFLOW) {
        return wrong("a dataflow flag that does not fit its kind");
    }
    if node.kind == kind::IF {
        return if_shape(raw, i, node);
    }
    Ok(())
}

/// An If is followed by two branches and nothing else.
fn if_shape(raw: &RawView<'_>, i: usize, node: &NodeRec) -> Result<(), SealError> {
    let branch = |at: u64| {
        let rec = raw.nodes().get(usize::try_from(at).ok()?)?;
        (rec.kind == kind::BRANCH).then(|| at + 1 + u64::from(rec.a))
    };
    let end = branch(i as u64 + 1).and_then(branch);
    if end == Some(i as u64 + 1 + u64::from(node.a)) {
        return Ok(());
    }
    Err(SealError::Malformed { what: "node", index: i, why: "an If must be followed by two branches" })
}

/// Checks the operands; gives the depth of the deepest unbound one and their number.
fn operands(
    raw: &RawView<'_>,
    i: usize,
    node: &NodeRec,
    until: &[u32],
    uses: &mut [u8],
) -> Result<(u32, i32), SealError> {
    let name = |at: usize| {
        let name = raw.names().get(at).and_then(|off| raw.name_at(*off));
        name.map_or_else(|| if at == i { String::new() } else { format!("node {at}") }, str::to_string)
    };
    let (mut deepest, mut nested) = (0, 0);
    for op in &raw.operands()[node.op_range()] {
        if op & LEAF_BIT != 0 {
            id("node", i, "leaf operand", op & !LEAF_BIT, raw.leaves().len())?;
            continue;
        }
        let at = *op as usize;
        if at >= i {
            id("node", i, "operand", *op, raw.nodes().len())?;
            return Err(SealError::UseBeforeDef { index: i, user: name(i), name: name(at) });
        }
        let def = &raw.nodes()[at];
        if def.has(flag::BOUND) {
            if until[at] <= i as u32 {
                return Err(SealError::Scope { index: i, user: name(i), name: name(at) });
            }
        } else {
            if def.has(flag::TERM) || matches!(def.kind, kind::BLOCK | kind::DATAFLOW | kind::BRANCH) {
                let why = "an operand that is not a value";
                return Err(SealError::Malformed { what: "node", index: i, why });
            }
            deepest = deepest.max(until[at]);
            nested += i32::from(is_expression(def));
        }
        uses[at] = uses[at].saturating_add(1);
        if uses[at] > 1 && !def.has(flag::BOUND) && is_expression(def) {
            return Err(SealError::UnboundUses { index: at, uses: u32::from(uses[at]) });
        }
    }
    Ok((deepest, nested))
}
