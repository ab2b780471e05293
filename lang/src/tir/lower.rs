//! Replaces the declarations of a schedulable block by statements: allocations, attributes, threads.

use super::expr::Write;
use super::{Buffer, ExprArg, PrimExpr, Tir};
use crate::arith::atom_of;
use crate::ir::records::{buffer_of, flag, kind};
use crate::ir::{Attr, AttrsId, BufferType, DType, Dim, Expr, NodeSpec, Stmt, Type, V, Value, loop_kind};
use crate::rewrite::Edit;
use crate::{PassError, pass_error};

impl<'t, 'b> Tir<'t, 'b> {
    /// Writes statements with an attribute; `about` is the subject of the attribute, if any.
    pub fn attr_stmt<R>(&self, key: &str, about: Option<V>, value: &Attr, body: impl FnOnce() -> R) -> R {
        let value = self.attr_value(key, value);
        let ops: Vec<V> = std::iter::once(value).chain(about).collect();
        self.region(kind::ATTR, vec![("key", Attr::from(key))], &ops, body)
    }

    fn attr_value(&self, key: &str, value: &Attr) -> V {
        let number = match value {
            Attr::Str(text) => return self.edit.borrow_mut().builder().string(text),
            Attr::Int(value) if i32::try_from(*value).is_err() => Dim::int(*value, DType::I64),
            Attr::Int(value) => Dim::int(*value, DType::I32),
            Attr::Bool(value) => Dim::int((*value).into(), DType::BOOL),
            Attr::Float(value) => Dim::float(*value, DType::F32),
            Attr::Dim(dim) => dim.clone(),
            other => {
                self.fail(format!("expected a number or a string as the value of `{key}`, found {other:?}"));
                Dim::int(0, DType::I32)
            }
        };
        self.edit.borrow_mut().builder().scalar(&number)
    }

    /// Keeps the current statement and continues after it: statements written earlier precede or enclose it, and later statements follow
    /// it.
    pub fn keep(&self, stmt: Value<'b>) {
        self.edit.borrow_mut().after(stmt);
    }

    /// Moves the buffers and statements of a schedulable block here, like [`Tir::content`]; removes its other declarations.
    pub fn block_content(&self, block: Value<'b>) {
        self.content(block);
        let mut edit = self.edit.borrow_mut();
        let declared = [kind::WHERE, kind::ACCESS, kind::ANNOTATE];
        block
            .region()
            .children()
            .filter(|value| declared.contains(&value.kind()))
            .for_each(|value| edit.discard(value));
    }

    /// Writes a schedulable block that declares no reads and writes. As the outermost block of a function, it marks a single block inside
    /// it as an inner block.
    pub fn root_block<R>(&self, body: impl FnOnce() -> R) -> R {
        let spec = NodeSpec::new(kind::SBLOCK).flags(flag::BOUND);
        self.edit.borrow_mut().open(spec, &[], Some("root"));
        let out = body();
        self.edit.borrow_mut().close();
        out
    }

    /// Adds a variable that a later loop may define.
    pub fn free_var<'s>(&'s self, name: &str, dtype: DType) -> PrimExpr<'s> {
        let v = self.scalar(NodeSpec::new(kind::VAR).flags(flag::INNER), &[], dtype, name);
        PrimExpr { tir: self, v, dtype }
    }

    /// Returns a vector of equal elements, with the length of another vector.
    pub fn broadcast<'s, 'a>(&'s self, element: impl Into<ExprArg<'a>>, like: Value<'_>) -> PrimExpr<'s> {
        let element = self.value(element);
        let (dtype, n) = self.lanes(element.dtype(), like);
        let v = Write::node(self, NodeSpec::new(kind::BROADCAST), &[element.v(), n], dtype);
        PrimExpr { tir: self, v, dtype }
    }

    /// Returns the type of a vector with a given element type and as many lanes as `like`, and the number of lanes.
    fn lanes(&self, of: DType, like: Value<'_>) -> (DType, V) {
        let lanes = like.ty().dtype().lanes();
        let n = match (lanes as i16 > 0, length_of(like)) {
            (true, _) => Write::int(self, lanes.into(), DType::I32),
            (false, Some(length)) => self.value(length).v(),
            (false, None) => {
                self.fail("vectors of unknown length are not supported".to_string());
                Write::int(self, 1, DType::I32)
            }
        };
        (DType::new(of.code(), of.bits(), lanes), n)
    }

    /// Returns a vector of numbers with a constant step, with the length of another vector.
    pub fn ramp<'s, 'a, 'c>(
        &'s self,
        base: impl Into<ExprArg<'a>>,
        stride: impl Into<ExprArg<'c>>,
        like: Value<'_>,
    ) -> PrimExpr<'s> {
        let (base, stride) = (self.value(base), self.value(stride));
        let (dtype, n) = self.lanes(base.dtype(), like);
        let v = Write::node(self, NodeSpec::new(kind::RAMP), &[base.v(), stride.v(), n], dtype);
        PrimExpr { tir: self, v, dtype }
    }

    /// Moves the current place before an existing statement.
    pub fn before(&self, stmt: Value<'b>) {
        self.edit.borrow_mut().before(stmt);
    }

    /// Declares a buffer over the data of another buffer.
    pub fn decl_buffer(&self, name: &str, ty: BufferType, data_of: Buffer) -> Buffer {
        let mut edit = self.edit.borrow_mut();
        let data = edit.data_of(data_of.v());
        let ty = edit.builder().ty(&Type::Buffer(ty));
        let spec = NodeSpec::new(kind::BUFFER).a(buffer_of::DECL).flags(flag::INNER).ty(ty);
        let v = edit.node(spec, &[data], Some(name));
        drop(edit);
        self.buffer(v)
    }

    /// Writes a dimension as an expression. Atoms become the values that they stand for, as in [`index_to_dim_of_atoms`].
    ///
    /// [`index_to_dim_of_atoms`]: crate::arith::index_to_dim_of_atoms
    pub fn index<'s>(&'s self, dim: &Dim) -> PrimExpr<'s> {
        self.dim(dim, &|sym| {
            let mut edit = self.edit.borrow_mut();
            let known = match atom_of(sym) {
                Some(at) => Some(edit.old().value_at(at)),
                None => edit.scalar_of(sym),
            };
            let v = match known {
                Some(value) => edit.resolve(value),
                None => edit.builder().scalar(&Dim::Var(sym)),
            };
            PrimExpr { tir: self, v, dtype: sym.dtype }
        })
    }

    /// Moves an existing buffer, with the expressions that its type mentions, to the current place.
    pub fn place(&self, buffer: Value<'b>) {
        self.edit.borrow_mut().move_here(buffer);
    }

    /// Wraps the statements of an existing block: `write` writes the wrapper, and calls its argument at the place of the statements.
    pub fn around_statements<R>(&self, block: Value<'b>, write: impl FnOnce(&dyn Fn()) -> R) {
        let Some(first) = block.statements().next() else { return };
        self.edit.borrow_mut().before(first);
        write(&|| {
            self.edit.borrow_mut().after(block);
        });
    }
}

/// Returns the length of a vector, from one of its parts.
fn length_of(vector: Value<'_>) -> Option<Value<'_>> {
    let mut work = vec![vector];
    while let Some(value) = work.pop() {
        if let Expr::Ramp { lanes, .. } | Expr::Broadcast { lanes, .. } = value.view() {
            return Some(lanes);
        }
        let same = |operand: &Value<'_>| operand.ty().dtype().lanes() == vector.ty().dtype().lanes();
        work.extend(value.operands().filter(|operand| operand.is_nested() && same(operand)));
    }
    None
}

impl Edit<'_> {
    /// Changes the indices and the buffer of a load or store. The stored value and the predicate are kept.
    pub fn set_access(&mut self, access: Value<'_>, buffer: V, indices: &[V]) {
        let Some(old) = access.as_element_access() else { return };
        let first = if access.kind() == kind::STORE { 2 } else { 1 };
        let mut ops: Vec<V> = vec![buffer];
        ops.extend(access.operands().take(first).skip(1).map(|value| self.v(value)));
        ops.extend(indices);
        ops.extend(access.operands().skip(first + old.indices.len()).map(|value| self.v(value)));
        self.set_operands(access, &ops);
    }

    /// Changes the buffer and the ranges of a declared or matched region.
    pub fn set_region(&mut self, access: Value<'_>, buffer: V, ranges: &[(V, V)]) {
        let ops: Vec<V> =
            std::iter::once(buffer).chain(ranges.iter().flat_map(|(min, extent)| [*min, *extent])).collect();
        self.set_operands(access, &ops);
    }

    /// Changes the extent of a loop or block iterator.
    pub fn set_extent(&mut self, of: Value<'_>, extent: i64) {
        if matches!(of.kind(), kind::FOR | kind::ITER_VAR)
            && let Some(old) = of.operand(1)
        {
            let extent = self.builder().scalar(&Dim::int(extent, old.ty().dtype()));
            self.set_operand(of, 1, extent);
        }
    }

    /// Turns a buffer allocated by a schedulable block into an allocation statement with annotations.
    pub fn to_allocation<'k>(&mut self, buffer: Value<'_>, annotations: impl IntoIterator<Item = (&'k str, Attr)>) {
        let v = self.v(buffer);
        self.update(v, |node| node.a = buffer_of::ALLOC);
        let attrs = self.builder().attrs(annotations);
        self.set_attrs(v, attrs);
    }

    /// Turns an allocation statement into a declaration over the data of another buffer.
    pub fn to_declaration(&mut self, buffer: Value<'_>, data_of: V) {
        let data = self.just_before(buffer).data_of(data_of);
        let ops: Vec<V> = std::iter::once(data).chain(buffer.operands().map(|operand| self.v(operand))).collect();
        self.set_operands(buffer, &ops);
        self.set_attrs(buffer, AttrsId::NONE);
        self.update(buffer, |node| node.a = buffer_of::DECL);
    }

    /// Returns the data of a buffer, as an expression.
    pub fn data_of(&mut self, buffer: V) -> V {
        let ty = self.pointer_to(buffer);
        let ty = self.builder().ty(&ty);
        self.node(NodeSpec::new(kind::BUFFER_PART).ty(ty), &[buffer], None)
    }

    /// Redirects a use of a buffer's data to the data of another buffer.
    pub fn set_data(&mut self, data: Value<'_>, buffer: V) {
        let ty = self.pointer_to(buffer);
        self.set_operand(data, 0, buffer);
        self.set_type(data, &ty);
    }

    fn pointer_to(&self, buffer: V) -> Type {
        let (dtype, scope) = self.with(buffer, |buffer| (buffer.ty().dtype(), buffer.ty().buffer_scope().to_string()));
        Type::Pointer { dtype, scope: if scope.is_empty() { "global".to_string() } else { scope } }
    }

    /// Turns a loop over threads into a thread launch. Other loops are not changed.
    pub fn to_launch(&mut self, stmt: Value<'_>) {
        let Some(Stmt::For { extent, kind: loop_kind::THREAD_BINDING, .. }) = stmt.stmt() else { return };
        let thread = stmt.attr("thread").map_or(Attr::from(""), |thread| thread.to_owned());
        let v = self.v(stmt);
        self.set_operands(v, &[self.v(extent)]);
        let attrs = self.builder().attrs([("thread", thread)]);
        self.set_attrs(v, attrs);
        self.update(v, |node| node.kind = kind::LAUNCH);
    }

    /// Sets the annotations of a loop.
    pub fn set_annotations(&mut self, stmt: Value<'_>, annotations: impl IntoIterator<Item = (String, Attr)>) {
        let annotations = Attr::dict(annotations);
        match &annotations {
            Attr::Dict(entries) if entries.is_empty() => self.remove_attr(stmt, "annotations"),
            _ => self.set_attr(stmt, "annotations", annotations),
        }
    }

    /// Replaces a scalar variable by an expression, and removes the variable.
    ///
    /// # Errors
    /// If types mention the variable.
    pub fn replace_scalar(&mut self, var: Value<'_>, with: Value<'_>) -> Result<(), PassError> {
        if var.symbol().is_some() {
            let name = var.name().unwrap_or("_");
            return Err(pass_error!("`{name}` cannot be replaced, because shapes of buffers use it").at(var));
        }
        let with = self.resolve(with);
        self.replace(var, with);
        Ok(())
    }

    /// Makes a loop define a variable that is declared before the loop.
    pub fn set_free_var(&mut self, var: Value<'_>, free: V) {
        let v = self.v(var);
        self.set_operands(v, &[free]);
    }
}
