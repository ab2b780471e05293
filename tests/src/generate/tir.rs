//! Generates TIR functions node by node: signature and buffers. Statements and expressions are in separate files.

use super::values::{DTYPES, dtype, entries};
use super::{Choices, tir_stmt};
use plugin_api::ir::records::{buffer_of, flag, kind};
use plugin_api::ir::{BodyBuilder, BufferType, NodeSpec, TypeId};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// An expression.
#[derive(Clone, Copy)]
pub(super) struct E {
    pub(super) v: V,
    pub(super) dtype: DType,
}

/// An open loop: its variable, and its bounds if they are constant.
#[derive(Clone, Copy)]
pub(super) struct Loop {
    pub(super) var: E,
    pub(super) bounds: Option<(V, V)>,
}

/// Writes one function.
pub(super) struct Tir<'g, 'b> {
    pub(super) c: &'g Choices<'b>,
    pub(super) b: BodyBuilder,
    /// Functions of the module that the function may call.
    pub(super) others: &'g [String],
    /// True if the function consists of schedulable blocks.
    pub(super) s_tir: bool,
    /// Data type of extents and indices.
    pub(super) index: DType,
    /// Scalars in scope; the first `params` of them are in scope everywhere.
    pub(super) vars: Vec<E>,
    pub(super) params: usize,
    pub(super) buffers: Vec<(V, BufferType)>,
    pub(super) loops: Vec<Loop>,
    /// A variable that is declared for the next `T.Let`.
    pub(super) let_var: Option<E>,
    /// Number of statements that may still be generated.
    pub(super) left: usize,
    /// Dimensions that are known everywhere.
    dims: Vec<Dim>,
}

/// The tensors that a call of the function takes, and the tensor that it returns.
pub(super) type Buffers = (Vec<Type>, Type);

/// Generates a function. Also returns the buffers for `relax.call_tir` if the function can be called in that way.
pub(super) fn prim_func(c: &Choices<'_>, others: &[String]) -> (Body, Option<Buffers>) {
    let mut tir = Tir {
        c,
        b: BodyBuilder::new(),
        others,
        s_tir: !c.one_in(4),
        index: c.of(&[DType::I32, DType::I64]),
        vars: Vec::new(),
        params: 0,
        buffers: Vec::new(),
        loops: Vec::new(),
        let_var: None,
        left: 30,
        dims: Vec::new(),
    };
    let buffers = tir.function();
    (tir.b.finish().expect("the generator makes valid functions"), buffers)
}

impl Tir<'_, '_> {
    fn function(&mut self) -> Option<Buffers> {
        let returns = !self.s_tir && self.c.one_in(6);
        let ty = if returns { self.prim_type(DType::I32) } else { TypeId::NONE };
        let private = if self.c.one_in(4) { flag::PRIVATE } else { 0 };
        let root = self.b.begin(NodeSpec::new(kind::PRIM_FUNC).flags(private).ty(ty), &[], None);
        let mut attrs = if self.c.one_in(3) { entries(self.c, 1) } else { Vec::new() };
        if self.s_tir {
            attrs.push(("s_tir".to_string(), Attr::Bool(true)));
        }
        if !attrs.is_empty() {
            let attrs = self.b.attrs(attrs.iter().map(|(key, value)| (key.as_str(), value.clone())));
            self.b.set_attrs(root, attrs);
        }
        let buffers = match self.c.one_in(3) {
            false => Some(self.plain_params()),
            true => {
                self.params();
                None
            }
        };
        self.params = self.vars.len();
        if self.s_tir && self.c.one_in(3) {
            self.allocate(buffer_of::BLOCK);
        }
        tir_stmt::statements(self, 3);
        if returns {
            let value = self.value(DType::I32, 2);
            self.b.node(NodeSpec::new(kind::RETURN).flags(flag::IMPURE), &[value.v], None);
        }
        self.b.end();
        buffers.filter(|_| !returns)
    }

    /// Adds buffers of static shapes. The last one is the result.
    fn plain_params(&mut self) -> Buffers {
        let mut types = Vec::new();
        for i in 0..1 + self.c.below(3) {
            let dtype = dtype(DTYPES[self.c.below(DTYPES.len())]);
            let shape: Vec<i64> = (0..self.c.of(&[2, 1, 3, 0])).map(|_| self.c.of(&[2, 4, 16, 1])).collect();
            let dims = shape.iter().map(|extent| self.number(*extent)).collect();
            let buffer = BufferType { tiled: !self.s_tir, ..BufferType::new(dims, dtype) };
            self.buffer_param(["A", "B", "C"][i], buffer);
            types.push(Type::tensor(shape, dtype));
        }
        let output = types.pop().unwrap_or(Type::Object);
        (types, output)
    }

    fn buffer_param(&mut self, name: &str, buffer: BufferType) {
        let ty = self.b.ty(&Type::Buffer(buffer.clone()));
        let v = self.b.param(name, ty);
        self.buffers.push((v, buffer));
    }

    /// Adds scalars, handles, and buffers whose shapes mention symbolic variables and parameters.
    fn params(&mut self) {
        let mut late = Vec::new();
        for name in ["n", "m"] {
            let dtype = self.index;
            let dim = Dim::Var(self.b.sym(name, dtype));
            self.dims.push(dim.clone());
            match self.c.below(3) {
                // No parameter declares the variable; only shapes mention it.
                0 => late.push((name, None, dim)),
                1 => {
                    let v = self.scalar_param(name, dtype, dim);
                    self.vars.push(v);
                }
                _ => late.push((name, Some(dtype), dim)),
            }
        }
        let mut handles = Vec::new();
        for name in ["A", "B", "C"].into_iter().take(1 + self.c.below(3)) {
            if self.c.one_in(3) {
                let ty = self.b.ty(&Type::Pointer { dtype: DType::VOID, scope: "global".to_string() });
                let handle = self.b.param(&format!("{}_handle", name.to_lowercase()), ty);
                handles.push((name, handle));
            } else {
                let buffer = self.param_buffer();
                self.buffer_param(name, buffer);
            }
        }
        for (name, dtype, dim) in late {
            if let Some(dtype) = dtype {
                let v = self.scalar_param(name, dtype, dim);
                self.vars.push(v);
            }
        }
        // Uses both variables in a shape, because a variable that occurs nowhere is not declared.
        let (n, m) = (self.dims[0].clone(), self.dims[1].clone());
        let all = BufferType { tiled: !self.s_tir, ..BufferType::new(vec![n, m], DType::F32) };
        self.buffer_param("D", all);
        for dtype in ["int32", "float32", "bool"].into_iter().take(self.c.below(4)) {
            let dtype: DType = self::dtype(dtype);
            let ty = self.prim_type(dtype);
            let v = self.b.param("s", ty);
            self.vars.push(E { v, dtype });
        }
        for (name, handle) in handles {
            let buffer = self.param_buffer();
            self.add_buffer(name, buffer, buffer_of::MATCH, &[handle]);
        }
        for dim in self.dims.clone() {
            let stands_alone = self.vars.iter().all(|var| self.b.with(var.v, |v| !says(v, &dim)));
            if stands_alone {
                let v = self.b.scalar(&dim);
                self.vars.push(E { v, dtype: self.index });
            }
        }
    }

    fn scalar_param(&mut self, name: &str, dtype: DType, dim: Dim) -> E {
        let ty = self.b.ty(&Type::Prim { dtype, value: Some(dim) });
        E { v: self.b.param(name, ty), dtype }
    }

    /// Returns a buffer of the signature with any shape, possibly with strides, an offset, a scope and an alignment.
    fn param_buffer(&mut self) -> BufferType {
        let shape: Vec<Dim> = (0..self.c.of(&[2, 1, 3])).map(|_| self.dim()).collect();
        let dtype = dtype(DTYPES[self.c.below(DTYPES.len())]);
        let mut buffer = BufferType { tiled: !self.s_tir, ..BufferType::new(shape, dtype) };
        if self.c.one_in(4) {
            buffer.strides = buffer.shape.iter().map(|_| self.number(self.c.within(1, 32))).collect();
        }
        if self.c.one_in(4) {
            buffer.elem_offset = Some(match self.c.below(3) {
                // A variable that the buffer defines.
                2 => {
                    let (dtype, offset) = (self.index, self.b.sym("elem_offset", self.index));
                    let v = self.b.scalar(&Dim::Var(offset));
                    self.vars.push(E { v, dtype });
                    Dim::Var(offset)
                }
                which => self.number([8, 16][which]),
            });
        }
        if self.c.one_in(4) {
            buffer.scope = self.c.of(&["shared", "local", "global.vtcm"]).to_string();
        }
        buffer.align = self.c.of(&[64, 64, 64, 8, 128]);
        buffer.offset_factor = self.c.of(&[1, 1, 1, 4]);
        buffer
    }

    /// Returns a dimension of a buffer.
    pub(super) fn dim(&mut self) -> Dim {
        if self.dims.is_empty() || self.c.below(3) == 0 {
            return self.number(self.c.of(&[16, 4, 2, 1]));
        }
        let dim = self.dims[self.c.below(self.dims.len())].clone();
        let number = self.number(self.c.within(2, 9));
        match self.c.below(6) {
            0..=3 => dim,
            4 => Dim::binary(PrimOp::Add, dim, number),
            _ => Dim::binary(PrimOp::Mul, dim, number),
        }
    }

    pub(super) fn number(&self, value: i64) -> Dim {
        Dim::int(value, self.index)
    }

    pub(super) fn prim_type(&mut self, dtype: DType) -> TypeId {
        self.b.ty(&Type::Prim { dtype, value: None })
    }

    /// Adds a buffer that a statement defines.
    pub(super) fn add_buffer(&mut self, name: &str, buffer: BufferType, of: u32, ops: &[V]) -> V {
        let ty = self.b.ty(&Type::Buffer(buffer.clone()));
        let v = self.b.node(NodeSpec::new(kind::BUFFER).ty(ty).a(of).flags(flag::INNER), ops, Some(name));
        self.buffers.push((v, buffer));
        v
    }

    /// Adds an allocated buffer.
    pub(super) fn allocate(&mut self, of: u32) {
        let shape: Vec<Dim> = (0..self.c.of(&[1, 2, 0])).map(|_| self.dim()).collect();
        let dtype = dtype(DTYPES[self.c.below(DTYPES.len())]);
        let scope = self.c.of(&["", "shared", "local", "shared.dyn"]).to_string();
        let buffer = BufferType { scope, tiled: !self.s_tir, ..BufferType::new(shape, dtype) };
        self.add_buffer(self.c.of(&["T", "buf", "A"]), buffer, of, &[]);
    }

    /// Returns true if a buffer is read and written by name alone.
    pub(super) fn is_scalar(buffer: &BufferType) -> bool {
        let one = buffer.shape.len() == 1 && buffer.shape[0].as_int() == Some(1);
        one && buffer.strides.is_empty() && buffer.align == 64 && buffer.offset_factor == 1 && buffer.tiled
    }
}

/// Returns true if the type of a parameter identifies the parameter as the symbolic variable `dim`.
fn says(value: Value<'_>, dim: &Dim) -> bool {
    matches!(value.ty().to_owned(), Type::Prim { value: Some(known), .. } if known == *dim)
}
