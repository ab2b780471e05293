//! Makes buffers one-dimensional.

use super::index::iter_context::IterContext;
use super::lower_match_buffer::offset_of;
use plugin_api::arith::index_to_dim_of_atoms;
use plugin_api::ir::BufferType;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::regions::linear::{Linear, cast, mul};

declare_pass! {
    /// Makes buffers one-dimensional: each load and store gets one index, and parameters are accessed through declarations of
    /// one dimension.
    ///
    /// Expects no schedulable blocks; run s_tir.LowerOpaqueBlock first. Only the last of several indices may be a
    /// vector. Keeps the types of parameters, and statements that pass data of buffers to calls.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((4, 8), "float32")):
    ///     B = T.alloc_buffer((4, 8))
    ///     for i, j in T.grid(4, 8):
    ///         B[i, j] = A[i, j]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((4, 8), "float32")):
    ///     A_1 = A.view(32)
    ///     B = T.alloc_buffer((32,))
    ///     for i, j in T.grid(4, 8):
    ///         B[i * 8 + j] = A_1[i * 8 + j]
    /// ```
    pub prim_func pass FLATTEN_BUFFER = "tirx.FlattenBuffer" { opt_level: 0, run: flatten_buffer }
}

fn flatten_buffer(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    if let Some(block) = body.values().find(|value| matches!(value.stmt(), Some(Stmt::Block))) {
        bail!(at block, "found a schedulable block; run s_tir.LowerOpaqueBlock first");
    }
    body.values().try_for_each(expect_countable)?;
    let mut flatten = Flatten { context: IterContext::new(body), declared: ValueMap::new(body) };
    let mut started = false;
    body.try_rewrite(|value, rw| {
        if !std::mem::replace(&mut started, true) {
            flatten.declare_parameters(rw)?;
        }
        flatten.context.go_to(value);
        flatten.visit(value, rw)?;
        Ok::<_, PassError>(Action::Keep)
    })
}

/// Reports a buffer with more elements than the data type of its extents can represent.
fn expect_countable(buffer: Value<'_>) -> Result<(), PassError> {
    let Some(ty) = buffer.as_buffer_type().filter(|ty| ty.shape.iter().all(|extent| extent.dtype() == DType::I32))
    else {
        return Ok(());
    };
    let elements = ty.shape.iter().try_fold(1i128, |all, extent| all.checked_mul(extent.as_int()?.into()));
    match elements.filter(|elements| *elements > i32::MAX.into()) {
        None => Ok(()),
        Some(elements) => {
            let (name, first) = (buffer.name().unwrap_or("_"), ty.shape[0].as_int().unwrap_or(0));
            bail!(at buffer, "buffer `{name}` has {elements} elements, which exceeds the range of int32, the type of its extents; use int64 extents, such as `T.int64({first})`")
        }
    }
}

struct Flatten<'b> {
    context: IterContext<'b>,
    /// The one-dimensional declaration of each parameter that is accessed.
    declared: ValueMap<'b, V>,
}

impl<'b> Flatten<'b> {
    /// Declares the accessed parameters before all statements.
    fn declare_parameters(&mut self, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        let root = rw.body().root();
        let Some(first) = root.content().next() else { return Ok(()) };
        let mut accessed = ValueSet::new(rw.body());
        for value in rw.body().values() {
            accessed.extend(value.as_element_access().map(|access| access.buffer));
            accessed.extend(data_used_by(value));
        }
        for buffer in root.param_buffers().into_iter().filter(|buffer| accessed.contains(*buffer)) {
            let Some(ty) = buffer.as_buffer_type() else { continue };
            let flat = rw.tir(|t| {
                t.before(first);
                t.decl_buffer(buffer.name().unwrap_or("buffer"), flattened(&ty), t.buffer(buffer)).v()
            })?;
            self.declared.insert(buffer, flat);
        }
        Ok(())
    }

    fn visit(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        if let Some(access) = value.as_element_access() {
            let Some(ty) = access.buffer.as_buffer_type() else { return Ok(()) };
            let index = self.index(&ty, &access.indices, rw).map_err(|error| error.at(value))?;
            let buffer = self.declared.get(access.buffer).copied().unwrap_or_else(|| rw.v(access.buffer));
            rw.edit().set_access(value, buffer, &[index]);
        } else if let Some(ty) = value.as_buffer_type().filter(|_| !value.is_matched_param()) {
            rw.set_type(value, &Type::Buffer(flattened(&ty)));
        } else if !matches!(value.view(), Expr::Buffer) {
            self.use_declared(value, rw);
        }
        Ok(())
    }

    /// Passes the data of the declaration to calls.
    fn use_declared(&mut self, user: Value<'b>, rw: &mut Rewriter<'b>) {
        for operand in user.operands() {
            if let Expr::BufferPart { buffer, part: 0 } = operand.view()
                && let Some(declared) = self.declared.get(buffer)
            {
                rw.edit().set_data(operand, *declared);
            }
        }
    }

    fn index(&self, ty: &BufferType, indices: &[Value<'b>], rw: &mut Rewriter<'b>) -> Result<V, PassError> {
        if let [rows @ .., vector] = indices
            && vector.ty().dtype().lanes() != 1
        {
            return self.vector_in_row(ty, rows, *vector, rw);
        }
        let dim = self.context.simplify(&offset_of(ty, scalars(indices)?.iter()));
        rw.tir(|t| t.index(&dim).v())
    }

    /// Returns the flat index of a vector that accesses elements of one row.
    fn vector_in_row(
        &self,
        ty: &BufferType,
        rows: &[Value<'b>],
        vector: Value<'b>,
        rw: &mut Rewriter<'b>,
    ) -> Result<V, PassError> {
        let (of, lanes) = (vector.ty().dtype(), vector.ty().dtype().lanes());
        let number = |value| Dim::int(value, DType::new(of.code(), of.bits(), 1));
        let (steps, apart) = (in_steps(vector), ty.declared_strides().last().cloned().unwrap_or(number(1)));
        let mut dims = scalars(rows)?;
        dims.push(steps.as_ref().map_or(number(0), |(first, _)| first.clone()));
        // `IterContext::simplify` is not used here, because TVM applies it to single elements only.
        let simple = |dim: Dim| Linear::of(&dim).to_dim(dim.dtype()).unwrap_or(dim);
        let first = simple(offset_of(ty, dims.iter()));
        let step = steps.map(|(_, step)| cast(simple(mul(step, apart.clone())), first.dtype()));
        let in_loop = rows.iter().chain([&vector]).any(|index| self.context.uses_loop(*index));
        rw.tir(|t| {
            let all = |dim: &Dim| t.broadcast(t.index(dim), vector);
            let wide = || t.value(vector).cast(DType::new(of.code(), first.dtype().bits(), lanes));
            let index = match step {
                Some(step) if step.as_int() == Some(0) => all(&first),
                Some(step) => t.ramp(t.index(&first), t.index(&step), vector),
                None if apart.as_int() == Some(1) => all(&first) + wide(),
                None => all(&first) + wide() * all(&cast(apart, first.dtype())),
            };
            // TVM adds 0 to indices that are loop-invariant.
            if in_loop { index.v() } else { (all(&Dim::int(0, first.dtype())) + index).v() }
        })
    }
}

/// Returns the buffers whose data `user` uses; empty if `user` is a buffer.
fn data_used_by<'b>(user: Value<'b>) -> impl Iterator<Item = Value<'b>> {
    let data = |operand: Value<'b>| match operand.view() {
        Expr::BufferPart { buffer, part: 0 } => Some(buffer),
        _ => None,
    };
    user.operands().filter(move |_| user.as_buffer_type().is_none()).filter_map(data)
}

/// Converts the indices of one element.
fn scalars(indices: &[Value<'_>]) -> Result<Vec<Dim>, PassError> {
    let dims: Option<Vec<Dim>> = indices.iter().map(|index| index_to_dim_of_atoms(*index)).collect();
    dims.filter(|dims| dims.iter().all(|dim| dim.dtype().lanes() == 1)).ok_or_else(|| {
        PassError::new(
            "an index is nested too deeply, or an index before the last index is a vector; flatten buffers before loops are vectorized",
        )
    })
}

/// Returns the first element of a vector and the step between elements, if the steps are equal.
fn in_steps(vector: Value<'_>) -> Option<(Dim, Dim)> {
    let scalar = |value| index_to_dim_of_atoms(value).filter(|dim| dim.dtype().lanes() == 1);
    match vector.view() {
        Expr::Ramp { base, stride, .. } => Some((scalar(base)?, scalar(stride)?)),
        Expr::Broadcast { value, .. } => {
            let value = scalar(value)?;
            let none = Dim::int(0, value.dtype());
            Some((value, none))
        }
        Expr::Arith { op: op @ (PrimOp::Add | PrimOp::Sub), a, b: Some(b) } => {
            let ((a, by_a), (b, by_b)) = (in_steps(a)?, in_steps(b)?);
            Some((Dim::binary(op, a, b), Dim::binary(op, by_a, by_b)))
        }
        Expr::Arith { op: PrimOp::Mul, a, b: Some(b) } => {
            let (a, b) = (in_steps(a)?, in_steps(b)?);
            let ((first, step), (by, none)) = if a.1.as_int() == Some(0) { (b, a) } else { (a, b) };
            (none.as_int() == Some(0)).then(|| (mul(first, by.clone()), mul(step, by)))
        }
        _ => None,
    }
}

/// Returns the buffer type with one dimension.
fn flattened(ty: &BufferType) -> BufferType {
    let one = Dim::int(1, DType::I32);
    let elements = match (&ty.shape[..], ty.declared_strides()) {
        ([first, ..], [stride, ..]) => mul(first.clone(), stride.clone()),
        (shape, _) => shape.iter().cloned().reduce(mul).unwrap_or(one),
    };
    let elements = Linear::of(&elements).to_dim(elements.dtype()).unwrap_or(elements);
    let mut flat = BufferType { strides: Vec::new(), tiled: false, ..ty.viewed(vec![elements]) };
    flat.set_offset(Dim::int(0, ty.offset().dtype()));
    flat
}
