//! Buffers: parameters, allocations, loads and stores.

use super::expr::Write;
use super::{ExprArg, PrimExpr, Tir};
use crate::ir::records::{buffer_of, flag, kind};
use crate::ir::{AttrsId, BufferType, DType, Dim, NodeSpec, Type, V};

/// A buffer of the function being written or rewritten: a parameter, an allocation, or a buffer from [`Tir::buffer`].
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::BodyKind;
/// use plugin_api::tir::prim_func;
///
/// let body = prim_func(|t| {
///     let a = t.buffer_param("A", &[8], DType::F32);
///     let half = t.alloc_buffer("half", &[8], DType::F16, "shared");
///     t.serial("i", 8, |i| {
///         t.store(half, [i], t.load(a, [i]).cast(DType::F16));
///     });
///     assert_eq!((half.dtype(), half.ndim()), (DType::F16, 1));
/// })?;
/// assert_eq!(body.kind(), BodyKind::PrimFunc);
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub(super) v: V,
    dtype: DType,
    ndim: usize,
}

impl Buffer {
    /// Returns the value, for the methods of an edit.
    pub fn v(self) -> V {
        self.v
    }

    /// Returns the data type of the elements.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// Returns the number of dimensions.
    pub fn ndim(self) -> usize {
        self.ndim
    }
}

impl<'t, 'b> Tir<'t, 'b> {
    /// Returns a buffer of the body being rewritten, or a buffer that was already written.
    pub fn buffer<'a>(&self, value: impl Into<ExprArg<'a>>) -> Buffer {
        let (v, _) = self.operand(value.into(), DType::I32);
        let ty = self.edit.borrow().with(v, |value| value.ty().to_owned());
        match ty {
            Type::Buffer(ty) => Buffer { v, dtype: ty.dtype, ndim: ty.shape.len() },
            other => {
                self.fail(format!("expected a buffer, found a value of type {other:?}"));
                Buffer { v, dtype: DType::F32, ndim: 0 }
            }
        }
    }

    /// Adds a buffer parameter of known shape. Parameters precede all statements.
    pub fn buffer_param(&self, name: &str, shape: &[i64], dtype: DType) -> Buffer {
        self.new_buffer(NodeSpec::new(kind::PARAM), name, self.buffer_type(shape, dtype))
    }

    /// Adds a scalar parameter.
    pub fn param<'s>(&'s self, name: &str, dtype: DType) -> PrimExpr<'s> {
        let v = self.scalar(NodeSpec::new(kind::PARAM), &[], dtype, name);
        PrimExpr { tir: self, v, dtype }
    }

    /// Allocates a buffer of known shape here, in a memory scope such as `global` or `shared`. Inside a block, this is a block allocation;
    /// outside of blocks, a statement.
    pub fn alloc_buffer(&self, name: &str, shape: &[i64], dtype: DType, scope: &str) -> Buffer {
        let scope = if scope == "global" { "" } else { scope };
        self.alloc(name, BufferType { scope: scope.to_string(), ..self.buffer_type(shape, dtype) })
    }

    /// Allocates a buffer of any type here.
    pub fn alloc(&self, name: &str, ty: BufferType) -> Buffer {
        let of = if self.blocks.borrow().is_empty() { buffer_of::ALLOC } else { buffer_of::BLOCK };
        self.new_buffer(NodeSpec::new(kind::BUFFER).a(of).flags(flag::INNER), name, ty)
    }

    /// Returns the type of a compact buffer of this function, with `int32` dimensions.
    fn buffer_type(&self, shape: &[i64], dtype: DType) -> BufferType {
        let shape = shape.iter().map(|dim| Dim::int(*dim, DType::I32)).collect();
        BufferType { tiled: !self.s_tir, ..BufferType::new(shape, dtype) }
    }

    fn new_buffer(&self, spec: NodeSpec, name: &str, ty: BufferType) -> Buffer {
        let (dtype, ndim) = (ty.dtype, ty.shape.len());
        let mut edit = self.edit.borrow_mut();
        let ty = edit.builder().ty(&Type::Buffer(ty));
        Buffer { v: edit.node(spec.ty(ty).attrs(AttrsId::NONE), &[], Some(name)), dtype, ndim }
    }

    /// Adds a named scalar.
    pub(super) fn scalar(&self, spec: NodeSpec, ops: &[V], dtype: DType, name: &str) -> V {
        let mut edit = self.edit.borrow_mut();
        let ty = edit.builder().ty(&Type::Prim { dtype, value: None });
        edit.node(spec.ty(ty), ops, Some(name))
    }

    /// Loads an element of a buffer.
    pub fn load<'s, 'a, I: Into<ExprArg<'a>>>(
        &'s self,
        buffer: Buffer,
        indices: impl IntoIterator<Item = I>,
    ) -> PrimExpr<'s> {
        let mut ops = vec![buffer.v];
        self.indices(buffer, indices, &mut ops);
        PrimExpr { tir: self, v: Write::node(self, NodeSpec::new(kind::LOAD), &ops, buffer.dtype), dtype: buffer.dtype }
    }

    /// Stores a value in an element of a buffer, converted to the element type.
    pub fn store<'a, 'c, I: Into<ExprArg<'a>>>(
        &self,
        buffer: Buffer,
        indices: impl IntoIterator<Item = I>,
        value: impl Into<ExprArg<'c>>,
    ) {
        let (v, dtype) = self.operand(value.into(), buffer.dtype);
        let stored = PrimExpr { tir: self, v, dtype }.cast(buffer.dtype);
        let mut ops = vec![buffer.v, stored.v];
        self.indices(buffer, indices, &mut ops);
        self.statement(kind::STORE, &ops);
    }

    fn indices<'a, I: Into<ExprArg<'a>>>(
        &self,
        buffer: Buffer,
        indices: impl IntoIterator<Item = I>,
        ops: &mut Vec<V>,
    ) {
        let from = ops.len();
        ops.extend(indices.into_iter().map(|index| self.operand(index.into(), self.default).0));
        let found = ops.len() - from;
        if found != buffer.ndim {
            self.fail(format!("a buffer of {} dimensions needs as many indices, found {found}", buffer.ndim));
        }
    }
}
