//! The view of a type inside a body.

use super::{BufferType, DTensorType, DType, Dim, DimExpr, MAX_SIZE, Sym, TensorType, Type};
use crate::ir::records::*;
use crate::ir::storage::sections::RawView;
use crate::scalar::PrimOp;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// A view of a type inside a body.
#[derive(Clone, Copy)]
pub struct Ty<'a> {
    pub(crate) raw: &'a RawView<'a>,
    pub(crate) id: u32,
}

impl PartialEq for Ty<'_> {
    /// Compares only the body and the position in its table. To compare types of two bodies, use [`Ty::to_owned`] or
    /// `same_type`.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.raw, other.raw) && self.id == other.id
    }
}

impl fmt::Debug for Ty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", (*self).to_owned())
    }
}

impl<'a> Ty<'a> {
    /// Returns the id in the type table of its body.
    pub fn id(self) -> u32 {
        self.id
    }

    /// Returns the record; `None` if the type is missing.
    pub fn rec(self) -> Option<&'a TypeRec> {
        self.raw.types().get(self.id as usize)
    }

    /// Returns true if there is a type.
    pub fn is_known(self) -> bool {
        self.rec().is_some()
    }

    /// Returns the kind, one of [`crate::ir::records::tykind`]; 0 if the type is missing.
    pub fn kind(self) -> u16 {
        self.rec().map_or(0, |rec| rec.kind)
    }

    /// Returns the data type of a tensor, scalar or buffer.
    pub fn dtype(self) -> DType {
        self.rec().map_or(DType::VOID, |rec| DType(rec.dtype))
    }

    /// Returns the number of dimensions of a tensor or shape; -1 if unknown.
    pub fn ndim(self) -> i32 {
        self.rec().map_or(-1, |rec| rec.ndim)
    }

    fn list(self) -> &'a [u32] {
        self.rec().map_or(&[], |rec| self.raw.list(rec.off, rec.len))
    }

    /// Iterates over the dimensions of a tensor or shape; `None` if they are unknown.
    pub fn dims(self) -> Option<impl ExactSizeIterator<Item = Dim> + 'a> {
        let rec = self.rec()?;
        let known = rec.flags & tyflag::PRIMS != 0 && matches!(rec.kind, tykind::TENSOR | tykind::SHAPE);
        known.then(|| self.list().iter().map(move |id| dim_at(self.raw, *id)))
    }

    /// Returns the dimension expressions in the list of the type: the dimensions of a tensor, shape or buffer, or the value of
    /// a scalar.
    pub fn prims(self) -> Vec<Dim> {
        let rec = self.rec().filter(|rec| rec.flags & tyflag::PRIMS != 0 || rec.kind == tykind::BUFFER);
        let ids = match rec.map(|rec| (rec.kind, self.raw.buffers().get(rec.aux as usize))) {
            None => return Vec::new(),
            Some((tykind::BUFFER, Some(b))) => {
                let lists = [self.raw.list(b.shape_off, b.shape_len), self.raw.list(b.strides_off, b.strides_len)];
                let offset = (b.elem_offset != NONE).then_some(b.elem_offset);
                lists.concat().into_iter().chain(offset).collect()
            }
            Some(_) => self.list().to_vec(),
        };
        ids.into_iter().map(|id| dim_at(self.raw, id)).collect()
    }

    /// Returns the dimensions if each is an integer constant.
    pub fn static_dims(self) -> Option<Vec<i64>> {
        self.dims()?.map(|dim| dim.as_int()).collect()
    }

    /// Iterates over the types in the list of the type: the elements of a tuple, or the parameters of a function followed by
    /// its result.
    pub fn children(self) -> impl ExactSizeIterator<Item = Ty<'a>> + 'a {
        let ids = if self.rec().is_some_and(|rec| rec.flags & tyflag::TYPES != 0) { self.list() } else { &[] };
        ids.iter().map(move |id| Ty { raw: self.raw, id: *id })
    }

    /// Returns true for a tensor.
    pub fn is_tensor(self) -> bool {
        self.kind() == tykind::TENSOR
    }

    /// Returns true for a tuple.
    pub fn is_tuple(self) -> bool {
        self.kind() == tykind::TUPLE
    }

    /// Returns true for a shape.
    pub fn is_shape(self) -> bool {
        self.rec().is_some_and(|rec| rec.kind == tykind::SHAPE)
    }

    /// Returns true if both are the same type, even if they are separate entries of the table.
    pub fn same(self, other: Ty<'_>) -> bool {
        self.is_surely(other) || self.to_owned() == other.to_owned()
    }

    /// Returns true if the records show that both types are equal. `false` is inconclusive, because different records can
    /// describe the same type.
    fn is_surely(self, other: Ty<'_>) -> bool {
        // Parts can be shared, so there may be far more parts than records.
        const MOST_PARTS: usize = 10_000;
        let mut work = vec![(self, other)];
        for _ in 0..MOST_PARTS {
            let Some((a, b)) = work.pop() else { return true };
            if a == b {
                continue;
            }
            let (Some(one), Some(two)) = (a.rec(), b.rec()) else { return false };
            let head = |rec: &TypeRec| (rec.kind, rec.flags, rec.dtype, rec.ndim, rec.len, rec.aux);
            if head(one) != head(two) || matches!(one.kind, tykind::BUFFER | tykind::POINTER) {
                return false;
            }
            if one.flags & tyflag::TYPES != 0 {
                work.extend(a.children().zip(b.children()));
                continue;
            }
            let leaf = |prim: &&PrimRec| matches!(prim.op, prim::INT | prim::VAR);
            let dim = |ty: Ty<'_>, id: u32| ty.raw.prims().get(id as usize).filter(leaf).copied();
            let same = |(x, y): (&u32, &u32)| dim(a, *x).is_some_and(|x| dim(b, *y) == Some(x));
            if !a.list().iter().zip(b.list()).all(same) {
                return false;
            }
        }
        false
    }

    /// Returns the result type and the purity of a function.
    pub fn callable(self) -> Option<(Ty<'a>, bool)> {
        let rec = self.rec().filter(|rec| rec.kind == tykind::CALLABLE)?;
        let ret = self.children().last()?;
        Some((ret, rec.flags & tyflag::IMPURE == 0))
    }

    /// Returns the record of a buffer.
    pub fn buffer(self) -> Option<&'a BufferRec> {
        let rec = self.rec().filter(|rec| rec.kind == tykind::BUFFER)?;
        self.raw.buffers().get(rec.aux as usize)
    }

    /// Returns the memory scope of a pointer.
    pub fn pointer_scope(self) -> &'a str {
        match self.children().next().and_then(Ty::buffer) {
            None => "global",
            Some(buffer) if buffer.scope == NONE => "",
            Some(buffer) => self.raw.str(buffer.scope),
        }
    }

    /// Returns the memory scope of a buffer; `global` if unspecified.
    pub fn buffer_scope(self) -> &'a str {
        match self.buffer() {
            Some(buffer) if buffer.scope != NONE => self.raw.str(buffer.scope),
            _ => "global",
        }
    }

    /// Copies the type to an owned one. In a body under construction, parts beyond the size limit of sealed bodies are omitted.
    pub fn to_owned(self) -> Type {
        self.within(&Left::new())
    }

    /// Copies the type to an owned type of at most `left` parts.
    fn within(self, left: &Left) -> Type {
        left.part(Type::Object, || self.rec().map(|rec| self.part(rec, left)))
    }

    fn part(self, rec: &TypeRec, left: &Left) -> Type {
        let child = |ty: Ty<'a>| ty.within(left);
        let dim = |id: u32| dim_within(self.raw, id, left);
        let dims = |ids: &[u32]| ids.iter().map(|id| dim(*id)).collect::<Vec<_>>();
        match rec.kind {
            tykind::OBJECT => Type::Object,
            tykind::PRIM => Type::Prim { dtype: DType(rec.dtype), value: self.list().first().map(|id| dim(*id)) },
            tykind::SHAPE => {
                let known = rec.flags & tyflag::PRIMS != 0;
                Type::Shape { ndim: rec.ndim, dims: known.then(|| dims(self.list())) }
            }
            tykind::TENSOR => Type::Tensor(TensorType {
                dtype: DType(rec.dtype),
                ndim: rec.ndim,
                shape: (rec.flags & tyflag::PRIMS != 0).then(|| dims(self.list())),
                vdevice: (rec.aux != NONE).then_some(rec.aux),
            }),
            tykind::TUPLE => Type::Tuple(self.children().map(child).collect()),
            tykind::CALLABLE => {
                let mut types: Vec<Type> = self.children().map(child).collect();
                let ret = types.pop().unwrap_or(Type::Object);
                Type::callable((rec.ndim >= 0).then_some(types), ret, rec.flags & tyflag::IMPURE == 0)
            }
            tykind::DTENSOR => {
                let mut parts = self.children().map(child);
                match (parts.next(), parts.next()) {
                    (Some(Type::Tensor(tensor)), Some(Type::Shape { dims: Some(axes), .. })) => {
                        let axis = |dim: Dim| dim.as_int().and_then(|axis| u32::try_from(axis).ok());
                        let placement = axes.into_iter().map(axis).collect();
                        Type::DTensor(DTensorType { tensor, mesh: rec.aux, placement })
                    }
                    _ => Type::Unknown(rec.kind),
                }
            }
            tykind::BUFFER => match self.raw.buffers().get(rec.aux as usize) {
                Some(b) => Type::Buffer(BufferType {
                    dtype: DType(b.dtype),
                    shape: dims(self.raw.list(b.shape_off, b.shape_len)),
                    strides: dims(self.raw.list(b.strides_off, b.strides_len)),
                    elem_offset: (b.elem_offset != NONE).then(|| dim(b.elem_offset)),
                    scope: self.raw.str(b.scope).to_string(),
                    align: b.align,
                    offset_factor: b.offset_factor,
                    tiled: rec.flags & tyflag::TILED != 0,
                }),
                None => Type::Object,
            },
            tykind::POINTER => Type::Pointer { dtype: DType(rec.dtype), scope: self.pointer_scope().to_string() },
            other => Type::Unknown(other),
        }
    }
}

/// Returns the dimension with an id; 0 if the id is out of range. The validator bounds the depth.
pub fn dim_at(raw: &RawView<'_>, id: u32) -> Dim {
    dim_within(raw, id, &Left::new())
}

/// Returns the dimension with the number `id`, with at most `left` parts.
fn dim_within(raw: &RawView<'_>, id: u32, left: &Left) -> Dim {
    left.part(Dim::Int(0), || raw.prims().get(id as usize).map(|rec| dim_part(raw, rec, left)))
}

fn dim_part(raw: &RawView<'_>, rec: &PrimRec, left: &Left) -> Dim {
    let bits = u64::from(rec.a) | u64::from(rec.b) << 32;
    let dtype = DType(rec.dtype);
    let operand = |id| dim_within(raw, id, left);
    match rec.op {
        prim::INT => Dim::int(bits as i64, dtype),
        prim::FLOAT => Dim::Expr(Arc::new(DimExpr::Float(bits, dtype))),
        prim::VAR => Dim::Var(Sym { id: rec.a, dtype }),
        code => match PrimOp::of_code(code) {
            Some(op @ (PrimOp::Not | PrimOp::Cast)) => Dim::Expr(Arc::new(DimExpr::Unary(op, dtype, operand(rec.a)))),
            Some(op) => Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, operand(rec.a), operand(rec.b)))),
            // Validation rejects unknown codes.
            None => Dim::Int(0),
        },
    }
}

/// Number of parts that may still be expanded. The limit is needed because a few records that share parts can describe a tree
/// that exceeds memory.
struct Left {
    parts: Cell<u32>,
    depth: Cell<u32>,
}

impl Left {
    fn new() -> Left {
        Left { parts: Cell::new(MAX_SIZE), depth: Cell::new(MAX_DEPTH + 1) }
    }

    /// Counts one part and returns it, or `none` if the limit is reached.
    fn part<T>(&self, none: T, f: impl FnOnce() -> Option<T>) -> T {
        let (parts, depth) = (self.parts.get(), self.depth.get());
        if parts == 0 || depth == 0 {
            return none;
        }
        self.parts.set(parts - 1);
        self.depth.set(depth - 1);
        let out = f().unwrap_or(none);
        self.depth.set(depth);
        out
    }
}
