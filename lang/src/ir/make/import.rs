//! Imports types, leaves, attributes and nodes of one body into the tables of another.

use crate::ir::attrs::Attr;
use crate::ir::make::builder::{AttrsId, BodyBuilder, NodeSpec, TypeId, V};
use crate::ir::make::pool::Pool;
use crate::ir::make::usual_form::usual_float;
use crate::ir::records::*;
use crate::ir::storage::sections::{RawView, Sections};
use crate::ir::types::{DType, Ty};
use crate::ir::value::Value;
use std::collections::HashMap;

/// Records the imported entries, so that each entry is imported once.
pub struct Importer<'a> {
    from: &'a RawView<'a>,
    types: Slots,
    leaves: Slots,
    strs: Slots,
    prims: Slots,
    dicts: Slots,
    syms: Slots,
    nodes: Slots,
    /// Imported leaves that name a function of the module, by the operand word of the name.
    functions: HashMap<u64, Vec<u32>, foldhash::fast::RandomState>,
    with_names: bool,
    same_numbers: bool,
}

/// The new id of each entry of one table; `NONE` until the entry is imported.
#[derive(Clone)]
enum Slots {
    /// One id per entry. The table is allocated when the first id is stored.
    Dense(Vec<u32>),
    Sparse(HashMap<u32, u32, foldhash::fast::RandomState>),
}

fn slot(map: &mut Slots, i: u32, len: usize) -> &mut u32 {
    match map {
        Slots::Dense(ids) => {
            if ids.is_empty() {
                ids.resize(len, NONE);
            }
            &mut ids[i as usize]
        }
        Slots::Sparse(ids) => ids.entry(i).or_insert(NONE),
    }
}

impl<'a> Importer<'a> {
    /// Creates an importer for the values of a body.
    pub fn of(body: &'a crate::ir::Body) -> Importer<'a> {
        Importer::new(body.raw())
    }

    /// Creates an importer for a few values of a body that may be large: the cost depends on the imported values, not on the size of the
    /// body.
    pub fn sparse(body: &'a crate::ir::Body) -> Importer<'a> {
        Importer::of_few(body.raw())
    }

    /// Like `sparse`, but for sections.
    #[doc(hidden)]
    pub fn of_few(from: &'a RawView<'a>) -> Importer<'a> {
        Importer::with(from, &Slots::Sparse(HashMap::default()))
    }

    pub(crate) fn new(from: &'a RawView<'a>) -> Importer<'a> {
        Importer::with(from, &Slots::Dense(Vec::new()))
    }

    fn with(from: &'a RawView<'a>, none: &Slots) -> Importer<'a> {
        let new = || none.clone();
        let (types, leaves, strs, prims, dicts) = (new(), new(), new(), new(), new());
        Importer {
            from,
            types,
            leaves,
            strs,
            prims,
            dicts,
            syms: new(),
            nodes: new(),
            functions: HashMap::default(),
            with_names: true,
            same_numbers: false,
        }
    }

    fn str(&mut self, pool: &mut Pool, id: u32) -> u32 {
        let from = self.from;
        let slot = slot(&mut self.strs, id, from.strs().len());
        if *slot == NONE {
            *slot = pool.str(from.str(id));
        }
        *slot
    }

    fn sym(&mut self, pool: &mut Pool, id: u32, dtype: u32) -> u32 {
        let from = self.from;
        let slot = slot(&mut self.syms, id, from.var_names().len());
        if *slot == NONE {
            *slot = if self.same_numbers {
                pool.sym_at(id, crate::ir::body::sym_name(from, id).unwrap_or("n"))
            } else if self.with_names {
                pool.sym(crate::ir::body::sym_name(from, id).unwrap_or("n"), DType(dtype)).id
            } else {
                pool.s.var_names.push(NONE);
                pool.s.var_names.len() as u32 - 1
            };
        }
        *slot
    }

    /// Keeps the numbers of symbolic variables unchanged.
    #[doc(hidden)]
    pub fn keep_numbers_of_symbols(&mut self) {
        self.same_numbers = true;
    }

    /// Returns the pairs of new and old operand words of all imported nodes and leaves.
    #[doc(hidden)]
    pub fn words(&self) -> Vec<(u32, u32)> {
        let pairs = |slots: &Slots, bit: u32| -> Vec<(u32, u32)> {
            match slots {
                Slots::Dense(ids) => ids
                    .iter()
                    .zip(0..)
                    .filter(|(new, _)| **new != NONE)
                    .map(|(new, old)| (new | bit, old | bit))
                    .collect(),
                Slots::Sparse(ids) => {
                    ids.iter().filter(|(_, new)| **new != NONE).map(|(old, new)| (new | bit, old | bit)).collect()
                }
            }
        };
        [pairs(&self.nodes, 0), pairs(&self.leaves, LEAF_BIT)].concat()
    }

    /// Maps a symbolic variable of the other body to one of this body.
    pub fn map_sym(&mut self, from: u32, to: u32) {
        *slot(&mut self.syms, from, self.from.var_names().len()) = to;
    }

    fn prim(&mut self, pool: &mut Pool, id: u32) -> u32 {
        let known = *slot(&mut self.prims, id, self.from.prims().len());
        if known != NONE {
            return known;
        }
        let mut rec = self.from.prims()[id as usize];
        match rec.op {
            prim::INT => {}
            prim::FLOAT => {
                let bits = usual_float(u64::from(rec.b) << 32 | u64::from(rec.a));
                (rec.a, rec.b) = (bits as u32, (bits >> 32) as u32);
            }
            prim::VAR => rec.a = self.sym(pool, rec.a, rec.dtype),
            prim::NOT | prim::CAST => rec.a = self.prim(pool, rec.a),
            _ => (rec.a, rec.b) = (self.prim(pool, rec.a), self.prim(pool, rec.b)),
        }
        let new = pool.prim_rec(rec);
        *slot(&mut self.prims, id, self.from.prims().len()) = new;
        new
    }

    fn prim_list(&mut self, pool: &mut Pool, off: u32, len: u32) -> (u32, u32) {
        let ids: Vec<u32> = self.from.list(off, len).iter().map(|p| self.prim(pool, *p)).collect();
        pool.list(&ids)
    }

    pub(crate) fn ty_id(&mut self, pool: &mut Pool, id: u32) -> u32 {
        if id == NONE {
            return NONE;
        }
        let known = *slot(&mut self.types, id, self.from.types().len());
        if known != NONE {
            return known;
        }
        let mut rec = self.from.types()[id as usize];
        if rec.flags & tyflag::PRIMS != 0 {
            (rec.off, rec.len) = self.prim_list(pool, rec.off, rec.len);
        } else if rec.flags & tyflag::TYPES != 0 {
            let ids: Vec<u32> = self.from.list(rec.off, rec.len).iter().map(|t| self.ty_id(pool, *t)).collect();
            (rec.off, rec.len) = pool.list(&ids);
        }
        if rec.kind == tykind::BUFFER {
            rec.aux = self.buffer(pool, rec.aux);
        }
        let new = pool.type_rec(rec);
        *slot(&mut self.types, id, self.from.types().len()) = new;
        new
    }

    fn buffer(&mut self, pool: &mut Pool, id: u32) -> u32 {
        let mut rec = self.from.buffers()[id as usize];
        (rec.shape_off, rec.shape_len) = self.prim_list(pool, rec.shape_off, rec.shape_len);
        (rec.strides_off, rec.strides_len) = self.prim_list(pool, rec.strides_off, rec.strides_len);
        if rec.elem_offset != NONE {
            rec.elem_offset = self.prim(pool, rec.elem_offset);
        }
        if rec.scope != NONE {
            rec.scope = self.str(pool, rec.scope);
        }
        pool.buffer_rec(rec)
    }

    fn value(&mut self, pool: &mut Pool, flags: u16, value: u64) -> u64 {
        let (hi, lo) = ((value >> 32) as u32, value as u32);
        match flags {
            val::STR => u64::from(self.str(pool, lo)),
            val::PRIM => u64::from(self.prim(pool, lo)),
            val::PRIM_LIST => {
                let (off, len) = self.prim_list(pool, hi, lo);
                list_val(off, len)
            }
            val::CONST => {
                let rec = self.from.consts()[lo as usize];
                let ty = self.ty_id(pool, rec.ty);
                u64::from(pool.constant(&self.from.tensors()[lo as usize], ty))
            }
            val::TYPE => u64::from(self.ty_id(pool, lo)),
            val::DICT => u64::from(self.dict_id(pool, lo)),
            val::ATTR_LIST => {
                let recs = self.attr_recs(pool, hi, lo);
                let (off, len) = pool.attr_list(&recs);
                list_val(off, len)
            }
            _ => value,
        }
    }

    fn attr_recs(&mut self, pool: &mut Pool, off: u32, len: u32) -> Vec<AttrRec> {
        let from = self.from;
        self.imported(pool, &from.attrs()[off as usize..][..len as usize])
    }

    fn imported(&mut self, pool: &mut Pool, entries: &[AttrRec]) -> Vec<AttrRec> {
        let import = |rec: &AttrRec| {
            let key = if rec.key == NONE { NONE } else { self.str(pool, rec.key) };
            match rec.kind {
                attr::DTYPE => AttrRec { key, ..pool.attr(&Attr::DType(DType(rec.val as u32))) },
                attr::FLOAT => AttrRec { key, val: usual_float(rec.val), ..*rec },
                _ => AttrRec { key, val: self.value(pool, rec.flags, rec.val), ..*rec },
            }
        };
        entries.iter().map(import).collect()
    }

    /// Returns the entries of a dict. They are sorted when programs are compared, because their written order does not
    /// distinguish programs.
    fn dict_recs(&mut self, pool: &mut Pool, rec: DictRec) -> Vec<AttrRec> {
        let from = self.from;
        let entries = &from.attrs()[rec.off as usize..][..rec.len as usize];
        let key = |entry: &AttrRec| from.str(entry.key);
        if self.with_names || entries.is_sorted_by_key(key) {
            return self.imported(pool, entries);
        }
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(key);
        self.imported(pool, &sorted)
    }

    pub(crate) fn dict_id(&mut self, pool: &mut Pool, id: u32) -> u32 {
        if id == NONE {
            return NONE;
        }
        let known = *slot(&mut self.dicts, id, self.from.dicts().len());
        if known != NONE {
            return known;
        }
        let rec = self.from.dicts()[id as usize];
        if rec.len == 0 {
            return NONE;
        }
        let recs = self.dict_recs(pool, rec);
        let new = pool.dict_rec(&recs);
        *slot(&mut self.dicts, id, self.from.dicts().len()) = new;
        new
    }

    fn leaf_id(&mut self, pool: &mut Pool, id: u32) -> u32 {
        let known = *slot(&mut self.leaves, id, self.from.leaves().len());
        if known != NONE {
            return known;
        }
        let mut rec = self.from.leaves()[id as usize];
        let new = match self.same_function(id, &rec) {
            Some(other) => self.leaf_id(pool, other),
            None => {
                rec.ty = self.ty_id(pool, rec.ty);
                rec.val = self.value(pool, rec.flags, rec.val);
                pool.leaf_rec(rec)
            }
        };
        *slot(&mut self.leaves, id, self.from.leaves().len()) = new;
        new
    }

    /// Returns an imported leaf that names the same function of the module and has the same type, up to the symbolic variables that belong
    /// to the type itself. The printed form gives both the same type.
    fn same_function(&mut self, id: u32, rec: &LeafRec) -> Option<u32> {
        if rec.kind != leaf::GLOBAL_VAR || rec.ty == NONE {
            return None;
        }
        let from = self.from;
        let others = self.functions.entry(rec.val).or_default();
        let ty_of = |leaf: u32| from.leaves()[leaf as usize].ty;
        let same = |other: &u32| ty_of(*other) != rec.ty && of_type(from, ty_of(*other)) == of_type(from, rec.ty);
        let found = others.iter().copied().find(same);
        if found.is_none() {
            others.push(id);
        }
        found
    }

    /// Imports a type.
    pub fn ty(&mut self, b: &mut BodyBuilder, ty: Ty<'_>) -> TypeId {
        TypeId(self.ty_id(&mut b.pool, ty.id))
    }

    /// Imports the attributes of a value.
    pub fn attrs(&mut self, b: &mut BodyBuilder, value: Value<'_>) -> AttrsId {
        AttrsId(self.dict_id(&mut b.pool, value.node().map_or(NONE, |node| node.attrs)))
    }

    /// Records `v` as a copy of a value of the other body.
    pub(crate) fn copied(&mut self, b: &mut BodyBuilder, value: Value<'_>, v: V) {
        if value.op & LEAF_BIT == 0 {
            b.pool.s.take_origin(v.op as usize, self.from, value.op as usize);
        }
        self.map(value, v);
    }

    /// Maps uses of a value of the other body to `v`.
    pub fn map(&mut self, value: Value<'_>, v: V) {
        if value.op & LEAF_BIT == 0 {
            *slot(&mut self.nodes, value.op, self.from.nodes().len()) = v.op;
        }
    }

    /// Returns the value in this body for a value of the other body. A leaf is imported; a node must have been copied or mapped.
    pub fn value_of(&mut self, b: &mut BodyBuilder, value: Value<'_>) -> Option<V> {
        if value.op & LEAF_BIT != 0 {
            value.leaf()?;
            let id = self.leaf_id(&mut b.pool, value.op & !LEAF_BIT);
            return Some(b.v(id | LEAF_BIT));
        }
        value.node()?;
        let op = *slot(&mut self.nodes, value.op, self.from.nodes().len());
        (op != NONE).then(|| b.v(op))
    }

    /// Copies one node, including the content of a region. Returns `None` if an operand was neither copied nor mapped.
    pub fn copy(&mut self, b: &mut BodyBuilder, value: Value<'_>) -> Option<V> {
        self.copy_before(b, value, usize::MAX, MAX_DEPTH)
    }

    /// Adds a node like `value`, with different operands; `value` must not be a region. Later uses of `value` refer to the new node.
    #[doc(hidden)]
    pub fn copy_with(&mut self, b: &mut BodyBuilder, value: Value<'_>, ops: &[V]) -> Option<V> {
        let node = *value.node().filter(|node| !node.has(flag::REGION))?;
        let (ty, attrs) = (TypeId(self.ty_id(&mut b.pool, node.ty)), AttrsId(self.dict_id(&mut b.pool, node.attrs)));
        let v = b.node(NodeSpec { kind: node.kind, flags: node.flags, ty, attrs, a: node.a }, ops, value.name());
        self.copied(b, value, v);
        Some(v)
    }

    /// Like [`Importer::copy`], but stops at position `end` and below `depth`, because regions of a body under construction may overlap.
    fn copy_before(&mut self, b: &mut BodyBuilder, value: Value<'_>, end: usize, depth: u32) -> Option<V> {
        let node = *value.node()?;
        let mut ops = Vec::with_capacity(value.operands().len());
        for op in value.operands() {
            ops.push(self.value_of(b, op)?);
        }
        let spec = NodeSpec {
            kind: node.kind,
            flags: node.flags,
            ty: TypeId(self.ty_id(&mut b.pool, node.ty)),
            attrs: AttrsId(self.dict_id(&mut b.pool, node.attrs)),
            a: node.a,
        };
        let name = value.name().filter(|_| self.with_names);
        if !node.has(flag::REGION) {
            let v = b.node(spec, &ops, name);
            self.copied(b, value, v);
            return Some(v);
        }
        let depth = depth.checked_sub(1)?;
        let end = value.end().min(end);
        let v = b.begin(spec, &ops, name);
        self.copied(b, value, v);
        for child in value.region().children().take_while(|child| child.index().is_some_and(|at| at < end)) {
            self.copy_before(b, child, end, depth)?;
        }
        b.end();
        Some(v)
    }
}

/// Returns the records of a single type, without the names of its variables.
fn of_type(from: &RawView<'_>, ty: u32) -> (Vec<TypeRec>, Vec<u32>, Vec<PrimRec>, Vec<BufferRec>, Vec<u8>) {
    let (mut importer, mut pool) = (Importer::of_few(from), Pool::default());
    importer.with_names = false;
    importer.ty_id(&mut pool, ty);
    let Sections { types, lists, prims, buffers, str_bytes, .. } = pool.s;
    (types, lists, prims, buffers, str_bytes)
}

/// Returns the same body without names, with tables in order of first use: equal bodies have equal sections.
pub(crate) fn canonical(from: &RawView<'_>) -> Sections {
    let mut importer = Importer::new(from);
    importer.with_names = false;
    let mut s = brought(importer, from);
    s.var_names.clear();
    s
}

/// Returns the same body with tables in order of first use, and with values in the form of sealed bodies.
pub(crate) fn rebuilt(from: &RawView<'_>) -> Sections {
    let mut s = brought(Importer::new(from), from);
    let mut pool = Pool::over(std::mem::take(&mut s));
    for off in from.names() {
        let name = from.name_at(*off).map_or(NONE, |name| pool.name(name));
        pool.s.names.push(name);
    }
    let (origins, origin_lists, limit) = (from.origins().to_vec(), from.origin_lists().to_vec(), from.limit().to_vec());
    Sections { spans: from.spans().to_vec(), origins, origin_lists, limit, ..pool.s }
}

/// Imports all nodes, and the table entries that they use.
fn brought(mut importer: Importer<'_>, from: &RawView<'_>) -> Sections {
    let mut pool = Pool::default();
    pool.s.nodes.reserve(from.nodes().len());
    pool.s.operands.reserve(from.operands().len());
    for node in from.nodes() {
        let ops = pool.s.operands.len() as u32;
        for op in &from.operands()[node.op_range()] {
            let op = if op & LEAF_BIT == 0 { *op } else { importer.leaf_id(&mut pool, op & !LEAF_BIT) | LEAF_BIT };
            pool.s.operands.push(op);
        }
        let ty = importer.ty_id(&mut pool, node.ty);
        let attrs = importer.dict_id(&mut pool, node.attrs);
        pool.s.nodes.push(NodeRec { ops, ty, attrs, ..*node });
    }
    pool.s
}
