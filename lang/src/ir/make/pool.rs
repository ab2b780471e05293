//! Tables of a body under construction: types, dimensions, leaves, strings and attributes, with each entry stored once.

use crate::ir::attrs::Attr;
use crate::ir::make::usual_form::usual_float;
use crate::ir::make::validate::SealError;
use crate::ir::nested::{Nests, TOO_DEEP, TOO_LARGE};
use crate::ir::records::*;
use crate::ir::storage::sections::{RawView, Sections};
use crate::ir::storage::tensor::Tensor;
use crate::ir::types::*;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

type Index = HashTable<u32>;

/// Hash tables over the entries, built when the first new entry is added.
#[derive(Default)]
struct Indices {
    types: Index,
    prims: Index,
    leaves: Index,
    strs: Index,
    lists: HashTable<(u32, u32)>,
    dicts: Index,
    attr_lists: HashTable<(u32, u32)>,
    consts: Index,
    buffers: Index,
}

/// The size of a record as a tree without sharing: number of parts, and depth.
#[derive(Clone, Copy)]
pub(crate) struct Tree {
    pub(crate) size: u32,
    pub(crate) depth: u32,
}

impl Tree {
    fn of(parts: impl Iterator<Item = Tree>) -> Tree {
        parts.fold(Tree { size: 1, depth: 0 }, |all, part| Tree {
            size: all.size.saturating_add(part.size),
            depth: all.depth.max(part.depth.saturating_add(1)),
        })
    }
}

/// The sizes of the first types and dimensions; the others are measured on demand.
#[derive(Default)]
struct Trees {
    prims: Vec<Tree>,
    types: Vec<Tree>,
}

impl Trees {
    fn prim(&mut self, prims: &[PrimRec], id: u32) -> Tree {
        for rec in prims.get(self.prims.len()..=id as usize).unwrap_or(&[]) {
            let operands: &[u32] = match rec.op {
                prim::INT | prim::FLOAT | prim::VAR => &[],
                prim::NOT | prim::CAST => &[rec.a],
                _ => &[rec.a, rec.b],
            };
            let tree = Tree::of(operands.iter().filter_map(|id| self.prims.get(*id as usize).copied()));
            self.prims.push(tree);
        }
        self.prims.get(id as usize).copied().unwrap_or(Tree { size: 0, depth: 0 })
    }
}

const NO_TYPE: TypeRec = TypeRec { kind: 0, flags: 0, dtype: 0, ndim: 0, off: 0, len: 0, aux: NONE };

/// Interning tables over [`Sections`].
pub(crate) struct Pool {
    pub(crate) s: Sections,
    idx: Option<Box<Indices>>,
    trees: Trees,
    hasher: foldhash::fast::FixedState,
    /// The depth, within its value, of the part that is being added.
    level: u32,
    /// Shared expressions of the value being added, by address, so that each is added only once.
    shared: HashMap<usize, u32, foldhash::fast::RandomState>,
    /// The last result of [`Pool::scalar_type`].
    last_scalar: Option<(DType, u32)>,
    /// The reason why the tables cannot be sealed: a value was too deep or too large, and part of it was omitted.
    refused: Option<SealError>,
}

impl Default for Pool {
    fn default() -> Self {
        Pool::over(Sections::default())
    }
}

impl Pool {
    /// Continues with existing sections.
    pub(crate) fn over(s: Sections) -> Pool {
        let hasher = foldhash::fast::FixedState::with_seed(0x7061_7373);
        Pool {
            s,
            idx: None,
            trees: Trees::default(),
            hasher,
            level: 0,
            shared: HashMap::default(),
            last_scalar: None,
            refused: None,
        }
    }

    /// Checks that no added value was truncated.
    pub(crate) fn check_whole(&self) -> Result<(), SealError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    fn too_deep(&mut self, what: &'static str) {
        self.refused.get_or_insert(SealError::TooDeep { what, index: 0, most: MAX_DEPTH });
    }

    /// Adds a part of a value, one level deeper. Beyond `MAX_DEPTH` it adds `none` instead and records `what`.
    fn part<T>(&mut self, what: &'static str, none: fn(&mut Self) -> T, add: impl FnOnce(&mut Self) -> T) -> T {
        if self.level > MAX_DEPTH {
            self.too_deep(what);
            return none(self);
        }
        self.level += 1;
        let added = add(self);
        self.level -= 1;
        if self.level == 0 && !self.shared.is_empty() {
            // From here on, other values may reuse the addresses in `shared`.
            self.shared.clear();
        }
        added
    }

    /// Records a value with omitted parts.
    fn whole(&mut self, what: &'static str, value: &impl Nests) {
        if value.depth() == TOO_DEEP {
            self.too_deep(what);
        }
        if value.size() == TOO_LARGE {
            self.refused.get_or_insert(SealError::TooLarge { what, index: 0 });
        }
    }

    fn ready(&mut self) {
        if self.idx.is_some() {
            return;
        }
        let (h, s) = (&self.hasher, &self.s);
        // Most functions have some of these entries; reserving space avoids rehashing all entries when a table grows.
        let room = |entries: usize| Index::with_capacity(2 * entries + 16);
        let (types, prims, leaves) = (room(s.types.len()), room(s.prims.len()), room(s.leaves.len()));
        let mut idx = Box::new(Indices { types, prims, leaves, ..Indices::default() });
        for (i, r) in s.types.iter().enumerate() {
            idx.types.insert_unique(h.hash_one(r), i as u32, |i| h.hash_one(s.types[*i as usize]));
        }
        for (i, r) in s.prims.iter().enumerate() {
            idx.prims.insert_unique(h.hash_one(r), i as u32, |i| h.hash_one(s.prims[*i as usize]));
        }
        for (i, r) in s.leaves.iter().enumerate() {
            idx.leaves.insert_unique(h.hash_one(r), i as u32, |i| h.hash_one(s.leaves[*i as usize]));
            let list = r.list();
            if r.flags == val::PRIM_LIST {
                insert_list(&mut idx.lists, h, &s.lists, list);
            }
        }
        for r in s.types.iter() {
            insert_list(&mut idx.lists, h, &s.lists, (r.off, r.len));
        }
        for i in 0..s.strs.len() as u32 {
            idx.strs.insert_unique(h.hash_one(str_of(s, i)), i, |i| h.hash_one(str_of(s, *i)));
        }
        for (i, d) in s.dicts.iter().enumerate() {
            let key = |d: &DictRec| h.hash_one(attr_slice(s, d.off, d.len));
            idx.dicts.insert_unique(key(d), i as u32, |i| key(&s.dicts[*i as usize]));
        }
        for r in s.attrs.iter().filter(|r| r.flags == val::ATTR_LIST) {
            let (off, len) = ((r.val >> 32) as u32, r.val as u32);
            let key = |off, len| h.hash_one(attr_slice(s, off, len));
            idx.attr_lists.insert_unique(key(off, len), (off, len), |(o, l)| key(*o, *l));
        }
        for (i, c) in s.consts.iter().enumerate() {
            idx.consts.insert_unique(h.hash_one(c), i as u32, |i| h.hash_one(s.consts[*i as usize]));
        }
        for (i, b) in s.buffers.iter().enumerate() {
            idx.buffers.insert_unique(h.hash_one(b), i as u32, |i| h.hash_one(s.buffers[*i as usize]));
        }
        self.idx = Some(idx);
    }

    fn idx(&mut self) -> (&mut Indices, &mut Sections, &foldhash::fast::FixedState) {
        self.ready();
        let Pool { s, idx, hasher, .. } = self;
        (idx.get_or_insert_with(Default::default), s, hasher)
    }

    /// Returns the size of a type as a tree. Each record is measured once, because records only refer to earlier
    /// records.
    pub(crate) fn type_tree(&mut self, id: u32) -> Tree {
        let (s, trees) = (&self.s, &mut self.trees);
        let measured = trees.types.len();
        for rec in s.types.get(measured..=id as usize).unwrap_or(&[]) {
            let parts = list_slice(&s.lists, rec.off, rec.len);
            let tree = match rec.flags & (tyflag::PRIMS | tyflag::TYPES) {
                tyflag::PRIMS => Tree::of(parts.iter().map(|id| trees.prim(&s.prims, *id))),
                tyflag::TYPES => Tree::of(parts.iter().filter_map(|id| trees.types.get(*id as usize).copied())),
                _ => Tree::of(std::iter::empty()),
            };
            trees.types.push(tree);
        }
        trees.types.get(id as usize).copied().unwrap_or(Tree { size: 0, depth: 0 })
    }

    pub(crate) fn raw(&self) -> RawView<'_> {
        self.s.raw()
    }

    pub(crate) fn str(&mut self, text: &str) -> u32 {
        let (idx, s, h) = self.idx();
        let hash = h.hash_one(text);
        if let Some(i) = idx.strs.find(hash, |i| str_of(s, *i) == text) {
            return *i;
        }
        let id = s.strs.len() as u32;
        s.strs.push(StrRec { off: s.str_bytes.len() as u32, len: text.len() as u32 });
        s.str_bytes.extend_from_slice(text.as_bytes());
        idx.strs.insert_unique(hash, id, |i| h.hash_one(str_of(s, *i)));
        id
    }

    pub(crate) fn list(&mut self, items: &[u32]) -> (u32, u32) {
        if items.is_empty() {
            return (0, 0);
        }
        let (idx, s, h) = self.idx();
        let hash = h.hash_one(items);
        if let Some(found) = idx.lists.find(hash, |(o, l)| list_slice(&s.lists, *o, *l) == items) {
            return *found;
        }
        let entry = (s.lists.len() as u32, items.len() as u32);
        s.lists.extend_from_slice(items);
        idx.lists.insert_unique(hash, entry, |(o, l)| h.hash_one(list_slice(&s.lists, *o, *l)));
        entry
    }

    pub(crate) fn prim_rec(&mut self, rec: PrimRec) -> u32 {
        let (idx, s, h) = self.idx();
        intern(&mut idx.prims, &mut s.prims, h, rec)
    }

    pub(crate) fn type_rec(&mut self, rec: TypeRec) -> u32 {
        let (idx, s, h) = self.idx();
        intern(&mut idx.types, &mut s.types, h, rec)
    }

    pub(crate) fn leaf_rec(&mut self, rec: LeafRec) -> u32 {
        let (idx, s, h) = self.idx();
        intern(&mut idx.leaves, &mut s.leaves, h, rec)
    }

    pub(crate) fn dim(&mut self, dim: &Dim) -> u32 {
        self.part("dimension", |pool| pool.prim_rec(bits_rec(prim::INT, DType::I64, 0)), |pool| pool.add_dim(dim))
    }

    fn add_dim(&mut self, dim: &Dim) -> u32 {
        let shared = match dim {
            Dim::Expr(e) if Arc::strong_count(e) > 1 => Some(Arc::as_ptr(e) as usize),
            _ => None,
        };
        if let Some(known) = shared.and_then(|at| self.shared.get(&at)) {
            return *known;
        }
        let rec = match dim {
            Dim::Int(v) => bits_rec(prim::INT, DType::I64, *v as u64),
            Dim::Var(sym) => PrimRec { op: prim::VAR, flags: 0, dtype: sym.dtype.0, a: sym.id, b: 0 },
            Dim::Expr(e) => match &**e {
                DimExpr::Int(v, t) => bits_rec(prim::INT, *t, *v as u64),
                DimExpr::Float(v, t) => bits_rec(prim::FLOAT, *t, usual_float(*v)),
                DimExpr::Unary(op, t, a) => {
                    let a = self.dim(a);
                    PrimRec { op: op.code(), flags: 0, dtype: t.0, a, b: 0 }
                }
                DimExpr::Binary(op, t, a, b) => {
                    let (a, b) = (self.dim(a), self.dim(b));
                    PrimRec { op: op.code(), flags: 0, dtype: t.0, a, b }
                }
            },
        };
        let id = self.prim_rec(rec);
        if let Some(at) = shared {
            self.shared.insert(at, id);
        }
        id
    }

    pub(crate) fn dims(&mut self, dims: &[Dim]) -> (u32, u32) {
        let ids: Vec<u32> = dims.iter().map(|dim| self.dim(dim)).collect();
        self.list(&ids)
    }

    pub(crate) fn ty(&mut self, ty: &Type) -> u32 {
        if let Type::Prim { dtype, value: None } = ty {
            return self.scalar_type(*dtype);
        }
        self.whole("type", ty);
        self.part("type", |pool| pool.add_type(&Type::Object), |pool| pool.add_type(ty))
    }

    /// Returns the type of a scalar whose value is unknown. Almost every node of a TIR function has such a type.
    pub(crate) fn scalar_type(&mut self, dtype: DType) -> u32 {
        if let Some((known, id)) = self.last_scalar
            && known == dtype
        {
            return id;
        }
        let id = self.type_rec(TypeRec { kind: tykind::PRIM, dtype: dtype.0, ..NO_TYPE });
        self.last_scalar = Some((dtype, id));
        id
    }

    fn add_type(&mut self, ty: &Type) -> u32 {
        let mut rec = NO_TYPE;
        match ty {
            Type::Object | Type::Unknown(_) => rec.kind = tykind::OBJECT,
            Type::Prim { dtype, value } => {
                (rec.kind, rec.dtype) = (tykind::PRIM, dtype.0);
                if let Some(value) = value {
                    rec.flags = tyflag::PRIMS;
                    (rec.off, rec.len) = self.dims(std::slice::from_ref(value));
                }
            }
            Type::Shape { ndim, dims } => {
                (rec.kind, rec.ndim) = (tykind::SHAPE, *ndim);
                self.shape_of(&mut rec, dims.as_deref());
            }
            Type::Tensor(t) => {
                (rec.kind, rec.dtype, rec.ndim) = (tykind::TENSOR, t.dtype.0, t.ndim);
                rec.aux = t.vdevice.unwrap_or(NONE);
                self.shape_of(&mut rec, t.shape.as_deref());
            }
            Type::Tuple(fields) => {
                (rec.kind, rec.flags, rec.ndim) = (tykind::TUPLE, tyflag::TYPES, fields.len() as i32);
                let ids: Vec<u32> = fields.iter().map(|field| self.ty(field)).collect();
                (rec.off, rec.len) = self.list(&ids);
            }
            Type::Callable { params, ret, pure } => {
                rec.kind = tykind::CALLABLE;
                rec.flags = tyflag::TYPES | if *pure { 0 } else { tyflag::IMPURE };
                rec.ndim = params.as_ref().map_or(-1, |p| p.len() as i32);
                let mut ids: Vec<u32> = params.iter().flatten().map(|p| self.ty(p)).collect();
                ids.push(self.ty(ret));
                (rec.off, rec.len) = self.list(&ids);
            }
            Type::DTensor(t) => {
                (rec.kind, rec.flags) = (tykind::DTENSOR, tyflag::TYPES);
                (rec.dtype, rec.ndim, rec.aux) = (t.tensor.dtype.0, t.tensor.ndim, t.mesh);
                let axes = t.placement.iter().map(|axis| Dim::Int(axis.map_or(-1, i64::from))).collect();
                let parts = [self.ty(&Type::Tensor(t.tensor.clone())), self.ty(&Type::shape(axes))];
                (rec.off, rec.len) = self.list(&parts);
            }
            Type::Buffer(b) => {
                (rec.kind, rec.dtype, rec.ndim) = (tykind::BUFFER, b.dtype.0, b.shape.len() as i32);
                rec.aux = self.buffer(b);
                rec.flags = if b.tiled { tyflag::TILED } else { 0 };
            }
            Type::Pointer { dtype, scope } => {
                (rec.kind, rec.dtype) = (tykind::POINTER, dtype.0);
                if scope != "global" {
                    let scope = BufferType { scope: scope.clone(), ..BufferType::new(Vec::new(), *dtype) };
                    let scope = self.ty(&Type::Buffer(scope));
                    rec.flags = tyflag::TYPES;
                    (rec.off, rec.len) = self.list(&[scope]);
                }
            }
        }
        self.type_rec(rec)
    }

    fn shape_of(&mut self, rec: &mut TypeRec, dims: Option<&[Dim]>) {
        if let Some(dims) = dims {
            rec.flags |= tyflag::PRIMS;
            (rec.off, rec.len) = self.dims(dims);
        }
    }

    fn buffer(&mut self, b: &BufferType) -> u32 {
        let (shape_off, shape_len) = self.dims(&b.shape);
        let (strides_off, strides_len) = self.dims(&b.strides);
        let rec = BufferRec {
            dtype: b.dtype.0,
            scope: if b.scope.is_empty() { NONE } else { self.str(&b.scope) },
            shape_off,
            shape_len,
            strides_off,
            strides_len,
            elem_offset: b.elem_offset.as_ref().map_or(NONE, |dim| self.dim(dim)),
            align: b.align,
            offset_factor: b.offset_factor,
            reserved: 0,
        };
        self.buffer_rec(rec)
    }

    pub(crate) fn buffer_rec(&mut self, rec: BufferRec) -> u32 {
        let (idx, s, h) = self.idx();
        intern(&mut idx.buffers, &mut s.buffers, h, rec)
    }

    /// Appends a name and returns its offset.
    pub(crate) fn name(&mut self, name: &str) -> u32 {
        let bytes = &mut self.s.name_bytes;
        let off = bytes.len() as u32;
        let mut end = name.len().min(usize::from(u16::MAX));
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        bytes.extend_from_slice(&(end as u16).to_le_bytes());
        bytes.extend_from_slice(&name.as_bytes()[..end]);
        off
    }

    /// Adds a symbolic variable.
    pub(crate) fn sym(&mut self, name: &str, dtype: DType) -> Sym {
        let off = self.name(name);
        self.s.var_names.push(off);
        Sym { id: self.s.var_names.len() as u32 - 1, dtype }
    }

    /// Adds a symbolic variable with the number `id`. Missing lower numbers are filled with unnamed variables.
    pub(crate) fn sym_at(&mut self, id: u32, name: &str) -> u32 {
        let off = self.name(name);
        let names = &mut self.s.var_names;
        names.resize(names.len().max(id as usize + 1), NONE);
        names[id as usize] = off;
        id
    }

    /// Adds a constant. Equal data of equal type is stored once.
    pub(crate) fn constant(&mut self, tensor: &Tensor, ty: u32) -> u32 {
        let (hash_lo, hash_hi) = tensor.hash128();
        let dtype = self.s.types.get(ty as usize).map_or(0, |t| t.dtype);
        let rec = ConstRec { hash_lo, hash_hi, bytes: tensor.bytes().len() as u64, dtype, ty };
        let (idx, s, h) = self.idx();
        let before = s.consts.len();
        let id = intern(&mut idx.consts, &mut s.consts, h, rec);
        if s.consts.len() > before {
            s.tensors.push(tensor.clone());
        }
        id
    }

    /// Adds consecutive attribute entries as a list.
    pub(crate) fn attr_list(&mut self, entries: &[AttrRec]) -> (u32, u32) {
        if entries.is_empty() {
            return (0, 0);
        }
        let (idx, s, h) = self.idx();
        let hash = h.hash_one(entries);
        if let Some(found) = idx.attr_lists.find(hash, |(o, l)| attr_slice(s, *o, *l) == entries) {
            return *found;
        }
        let entry = (s.attrs.len() as u32, entries.len() as u32);
        s.attrs.extend_from_slice(entries);
        idx.attr_lists.insert_unique(hash, entry, |(o, l)| h.hash_one(attr_slice(s, *o, *l)));
        entry
    }

    /// Adds a dict from entries that are sorted by key.
    pub(crate) fn dict_rec(&mut self, entries: &[AttrRec]) -> u32 {
        let (idx, s, h) = self.idx();
        let hash = h.hash_one(entries);
        let same = |s: &Sections, i: u32| {
            let d = s.dicts[i as usize];
            attr_slice(s, d.off, d.len) == entries
        };
        if let Some(i) = idx.dicts.find(hash, |i| same(s, *i)) {
            return *i;
        }
        let id = s.dicts.len() as u32;
        s.dicts.push(DictRec { off: s.attrs.len() as u32, len: entries.len() as u32 });
        s.attrs.extend_from_slice(entries);
        let key = |i: &u32| {
            let d = s.dicts[*i as usize];
            h.hash_one(attr_slice(s, d.off, d.len))
        };
        idx.dicts.insert_unique(hash, id, key);
        id
    }

    /// Adds a dict with sorted keys. If a key occurs twice, the last entry wins.
    pub(crate) fn dict<'k>(&mut self, entries: impl IntoIterator<Item = (&'k str, Attr)>) -> u32 {
        let entries: Vec<(&str, Attr)> = entries.into_iter().collect();
        self.dict_of(entries.iter().map(|(key, value)| (*key, value)).collect())
    }

    fn dict_of(&mut self, mut entries: Vec<(&str, &Attr)>) -> u32 {
        if entries.is_empty() {
            return NONE;
        }
        entries.sort_by_key(|(key, _)| *key);
        let mut recs: Vec<AttrRec> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let rec = self.entry(key, value);
            match recs.last_mut() {
                Some(last) if last.key == rec.key => *last = rec,
                _ => recs.push(rec),
            }
        }
        self.dict_rec(&recs)
    }

    /// Adds a dict whose entries keep the given order and have distinct keys.
    pub(crate) fn dict_as_given<'k>(&mut self, entries: impl IntoIterator<Item = (&'k str, Attr)>) -> u32 {
        let recs: Vec<AttrRec> = entries.into_iter().map(|(key, value)| self.entry(key, &value)).collect();
        if recs.is_empty() { NONE } else { self.dict_rec(&recs) }
    }

    fn entry(&mut self, key: &str, value: &Attr) -> AttrRec {
        let rec = self.attr(value);
        AttrRec { key: self.str(key), ..rec }
    }

    /// Returns one attribute entry without a key.
    pub(crate) fn attr(&mut self, value: &Attr) -> AttrRec {
        self.whole("attribute", value);
        self.part("attribute", |pool| pool.add_attr(&Attr::None), |pool| pool.add_attr(value))
    }

    fn add_attr(&mut self, value: &Attr) -> AttrRec {
        let entry = |kind, flags, val| AttrRec { key: NONE, kind, flags, reserved: 0, val };
        match value {
            Attr::None => entry(attr::NONE, val::PLAIN, 0),
            Attr::Bool(v) => entry(attr::BOOL, val::PLAIN, u64::from(*v)),
            Attr::Int(v) => entry(attr::INT, val::PLAIN, *v as u64),
            Attr::Float(v) => entry(attr::FLOAT, val::PLAIN, usual_float(v.to_bits())),
            Attr::Str(v) => {
                let id = self.str(v);
                entry(attr::STR, val::STR, u64::from(id))
            }
            // The printed form contains the name of a data type, so the name is stored.
            Attr::DType(v) => self.attr(&Attr::Str(v.to_string())),
            Attr::Type(v) => {
                let id = self.ty(v);
                entry(attr::TYPE, val::TYPE, u64::from(id))
            }
            Attr::Dim(v) => {
                let id = self.dim(v);
                entry(attr::PRIM, val::PRIM, u64::from(id))
            }
            Attr::Tensor(v, ty) => {
                let ty = self.ty(ty);
                let id = self.constant(v, ty);
                entry(attr::CONST, val::CONST, u64::from(id))
            }
            Attr::List(items) => {
                let recs: Vec<AttrRec> = items.iter().map(|item| self.attr(item)).collect();
                let (off, len) = self.attr_list(&recs);
                entry(attr::LIST, val::ATTR_LIST, list_val(off, len))
            }
            Attr::Dict(items) => {
                let id = self.dict_of(items.iter().map(|(key, value)| (key.as_str(), value)).collect());
                entry(attr::DICT, val::DICT, u64::from(id))
            }
            Attr::Object(name, args) => {
                let mut recs = vec![self.attr(&Attr::Str(name.clone()))];
                for (key, value) in args {
                    let mut rec = self.attr(value);
                    rec.key = key.as_ref().map_or(NONE, |key| self.str(key));
                    recs.push(rec);
                }
                let (off, len) = self.attr_list(&recs);
                entry(attr::OBJECT, val::ATTR_LIST, list_val(off, len))
            }
        }
    }
}

fn intern<T: Copy + Eq + Hash>(index: &mut Index, table: &mut Vec<T>, h: &foldhash::fast::FixedState, rec: T) -> u32 {
    let hash = h.hash_one(rec);
    if let Some(i) = index.find(hash, |i| table[*i as usize] == rec) {
        return *i;
    }
    let id = table.len() as u32;
    table.push(rec);
    index.insert_unique(hash, id, |i| h.hash_one(table[*i as usize]));
    id
}

fn insert_list(index: &mut HashTable<(u32, u32)>, h: &foldhash::fast::FixedState, lists: &[u32], entry: (u32, u32)) {
    if entry.1 == 0 {
        return;
    }
    let items = list_slice(lists, entry.0, entry.1);
    let hash = h.hash_one(items);
    if index.find(hash, |(o, l)| list_slice(lists, *o, *l) == items).is_none() {
        index.insert_unique(hash, entry, |(o, l)| h.hash_one(list_slice(lists, *o, *l)));
    }
}

fn list_slice(lists: &[u32], off: u32, len: u32) -> &[u32] {
    lists.get(off as usize..off as usize + len as usize).unwrap_or(&[])
}

fn attr_slice(s: &Sections, off: u32, len: u32) -> &[AttrRec] {
    s.attrs.get(off as usize..off as usize + len as usize).unwrap_or(&[])
}

fn str_of(s: &Sections, id: u32) -> &str {
    let rec = s.strs[id as usize];
    let bytes = s.str_bytes.get(rec.off as usize..(rec.off + rec.len) as usize).unwrap_or(&[]);
    std::str::from_utf8(bytes).unwrap_or("")
}

fn bits_rec(op: u16, dtype: DType, bits: u64) -> PrimRec {
    PrimRec { op, flags: 0, dtype: dtype.0, a: bits as u32, b: (bits >> 32) as u32 }
}
