//! Statements in the place of what a schedulable block declares: allocations, attributes, threads.

use super::expr::Write;
use super::{Buffer, ExprArg, PrimExpr, Tir};
use crate::arith::atom_of;
use crate::ir::records::{buffer_of, flag, kind};
use crate::ir::{Attr, AttrsId, BufferType, DType, Dim, Expr, NodeSpec, Stmt, Type, V, Value};
use crate::rewrite::Edit;
use crate::{PassError, pass_error};

impl<'t, 'b> Tir<'t, 'b> {
    /// Statements with an attribute; `about` is what it is about, if that is a value.
    pub fn attr_stmt<R>(&self, key: &str, about: Option<V>, value: &Attr, body: impl FnOnce() -> R) -> R {
        let value = self.attr_value(key, value);
        let ops: Vec<V> = std::iter::once(value).chain(about).collect();
        self.region(kind::ATTR, vec![("key", Attr::from(key))], &ops, body)
    }

    fn attr_value(&self, key: &str, value: &Attr) -> V {
        let number = match value {
            Attr::Str(text) => return self.edit.borrow_mut().builder().string(text),
            Attr::Int(value) => Dim::int(*value, DType::I32),
            Attr::Bool(value) => Dim::int((*value).into(), DType::BOOL),
            Attr::Float(value) => Dim::float(*value, DType::F32),
            Attr::Dim(dim) => dim.clone(),
            other => {
                self.fail(format!("{other:?} as the value of `{key}`; expected a number or a string"));
                Dim::int(0, DType::I32)
            }
        };
        self.edit.borrow_mut().builder().scalar(&number)
    }

    /// The statement that is being looked at goes here, as it is: what was written before is around it or before it, what
    /// is written from now on follows it.
    pub fn keep(&self, stmt: Value<'b>) {
        self.edit.borrow_mut().after(stmt);
    }

    /// The buffers and statements of a schedulable block go here, as by [`Tir::content`]; what else it declares goes.
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

    /// A schedulable block that says that it reads and writes nothing. As the outermost block of a function, it says that the
    /// only block in it is not the outermost one.
    pub fn root_block<R>(&self, body: impl FnOnce() -> R) -> R {
        let spec = NodeSpec::new(kind::SBLOCK).flags(flag::BOUND);
        self.edit.borrow_mut().open(spec, &[], Some("root"));
        let out = body();
        self.edit.borrow_mut().close();
        out
    }

    /// A variable that a loop below may define.
    pub fn free_var<'s>(&'s self, name: &str, dtype: DType) -> PrimExpr<'s> {
        let v = self.scalar(NodeSpec::new(kind::VAR).flags(flag::INNER), &[], dtype, name);
        PrimExpr { tir: self, v, dtype }
    }

    /// A vector of equal elements, as many as another vector has.
    pub fn broadcast<'s, 'a>(&'s self, element: impl Into<ExprArg<'a>>, like: Value<'_>) -> PrimExpr<'s> {
        let element = self.value(element);
        let (dtype, n) = self.lanes(element.dtype(), like);
        let v = Write::node(self, NodeSpec::new(kind::BROADCAST), &[element.v(), n], dtype);
        PrimExpr { tir: self, v, dtype }
    }

    /// The type of a vector with the elements of one type and the length of another vector, and that length.
    fn lanes(&self, of: DType, like: Value<'_>) -> (DType, V) {
        let lanes = like.ty().dtype().lanes();
        let n = match (lanes as i16 > 0, length_of(like)) {
            (true, _) => Write::int(self, lanes.into(), DType::I32),
            (false, Some(length)) => self.value(length).v(),
            (false, None) => {
                self.fail("a vector whose length is not known, and nothing in it says it".to_string());
                Write::int(self, 1, DType::I32)
            }
        };
        (DType::new(of.code(), of.bits(), lanes), n)
    }

    /// A vector of numbers in steps, as many as another vector has.
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

    /// What is written from now on goes before a statement that is there.
    pub fn before(&self, stmt: Value<'b>) {
        self.edit.borrow_mut().before(stmt);
    }

    /// A buffer over the data of another one.
    pub fn decl_buffer(&self, name: &str, ty: BufferType, data_of: Buffer) -> Buffer {
        let mut edit = self.edit.borrow_mut();
        let data = edit.data_of(data_of.v());
        let ty = edit.builder().ty(&Type::Buffer(ty));
        let spec = NodeSpec::new(kind::BUFFER).a(buffer_of::DECL).flags(flag::INNER).ty(ty);
        let v = edit.node(spec, &[data], Some(name));
        drop(edit);
        self.buffer(v)
    }

    /// A dimension as an expression: atoms are the values that [`index_to_dim_of_atoms`] made them of.
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

    /// A buffer that is there, with what its type mentions, goes here instead.
    pub fn place(&self, buffer: Value<'b>) {
        self.edit.borrow_mut().move_here(buffer);
    }

    /// Around the statements of a block that is there: `write` writes it, and calls what it gets where they belong.
    pub fn around_statements<R>(&self, block: Value<'b>, write: impl FnOnce(&dyn Fn()) -> R) {
        let Some(first) = block.statements().next() else { return };
        self.edit.borrow_mut().before(first);
        write(&|| {
            self.edit.borrow_mut().after(block);
        });
    }
}

/// The length of a vector, as something in it says it.
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
    /// Makes a load or store one of other indices, and perhaps of another buffer. What is stored, and the predicate, stay.
    pub fn set_access(&mut self, access: Value<'_>, buffer: V, indices: &[V]) {
        let Some(old) = access.as_element_access() else { return };
        let first = if access.kind() == kind::STORE { 2 } else { 1 };
        let mut ops: Vec<V> = vec![buffer];
        ops.extend(access.operands().take(first).skip(1).map(|value| self.v(value)));
        ops.extend(indices);
        ops.extend(access.operands().skip(first + old.indices.len()).map(|value| self.v(value)));
        self.set_operands(access, &ops);
    }

    /// Makes a region that is read, written or matched one of another buffer and other ranges.
    pub fn set_region(&mut self, access: Value<'_>, buffer: V, ranges: &[(V, V)]) {
        let ops: Vec<V> =
            std::iter::once(buffer).chain(ranges.iter().flat_map(|(min, extent)| [*min, *extent])).collect();
        self.set_operands(access, &ops);
    }

    /// Gives a loop another number of iterations, or an iterator of a schedulable block another number of values.
    pub fn set_extent(&mut self, of: Value<'_>, extent: i64) {
        if matches!(of.kind(), kind::FOR | kind::ITER_VAR)
            && let Some(old) = of.operand(1)
        {
            let extent = self.builder().scalar(&Dim::int(extent, old.ty().dtype()));
            self.set_operand(of, 1, extent);
        }
    }

    /// A buffer that a schedulable block allocates becomes a statement that allocates it, with annotations.
    pub fn to_allocation<'k>(&mut self, buffer: Value<'_>, annotations: impl IntoIterator<Item = (&'k str, Attr)>) {
        let v = self.v(buffer);
        self.update(v, |node| node.a = buffer_of::ALLOC);
        let attrs = self.builder().attrs(annotations);
        self.set_attrs(v, attrs);
    }

    /// A buffer that a statement allocates becomes one over the data of another buffer.
    pub fn to_declaration(&mut self, buffer: Value<'_>, data_of: V) {
        let data = self.just_before(buffer).data_of(data_of);
        let ops: Vec<V> = std::iter::once(data).chain(buffer.operands().map(|operand| self.v(operand))).collect();
        self.set_operands(buffer, &ops);
        self.set_attrs(buffer, AttrsId::NONE);
        self.update(buffer, |node| node.a = buffer_of::DECL);
    }

    /// The data of a buffer, as an expression.
    pub fn data_of(&mut self, buffer: V) -> V {
        let ty = self.pointer_to(buffer);
        let ty = self.builder().ty(&ty);
        self.node(NodeSpec::new(kind::BUFFER_PART).ty(ty), &[buffer], None)
    }

    /// Makes the data of a buffer that of another one.
    pub fn set_data(&mut self, data: Value<'_>, buffer: V) {
        let ty = self.pointer_to(buffer);
        self.set_operand(data, 0, buffer);
        self.set_type(data, &ty);
    }

    fn pointer_to(&self, buffer: V) -> Type {
        let (dtype, scope) = self.with(buffer, |buffer| (buffer.ty().dtype(), buffer.ty().buffer_scope().to_string()));
        Type::Pointer { dtype, scope: if scope.is_empty() { "global".to_string() } else { scope } }
    }

    /// A loop over threads becomes content that these threads execute. Other loops stay.
    pub fn to_launch(&mut self, stmt: Value<'_>) {
        let Some(Stmt::For { extent, kind: "thread_binding", .. }) = stmt.stmt() else { return };
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

    /// From now on a scalar variable means an expression, and goes. That types of buffers mention the variable is an error.
    ///
    /// # Errors
    /// If types mention the variable.
    pub fn replace_scalar(&mut self, var: Value<'_>, with: Value<'_>) -> Result<(), PassError> {
        if var.symbol().is_some() {
            let name = var.name().unwrap_or("_");
            return Err(pass_error!("shapes of buffers use `{name}`, so nothing else can take its place").at(var));
        }
        let with = self.resolve(with);
        self.replace(var, with);
        Ok(())
    }

    /// A loop variable becomes one that is known before its loop.
    pub fn set_free_var(&mut self, var: Value<'_>, free: V) {
        let v = self.v(var);
        self.set_operands(v, &[free]);
    }
}
