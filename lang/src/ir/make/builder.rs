//! Builds bodies node by node. Readers and importers use this directly; passes usually use `BlockBuilder` and `Edit`.

use crate::ir::attrs::{Attr, Dict};
use crate::ir::erase::erase_unbound;
use crate::ir::make::import::Importer;
use crate::ir::make::pool::Pool;
use crate::ir::make::validate::SealError;
use crate::ir::records::*;
use crate::ir::storage::body_handle::Body;
use crate::ir::storage::sections::{RawView, Sections};
use crate::ir::storage::tensor::Tensor;
use crate::ir::types::*;
use crate::ir::value::Value;
use crate::scalar::PrimOp;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// A value of a body under construction: a node or a leaf. Valid only with the builder that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct V {
    pub(crate) op: u32,
    /// The number of the builder that created the value; checked in debug builds.
    pub(crate) brand: u32,
}

impl V {
    /// Returns the operand word; equal for equal values of the same builder.
    pub fn word(self) -> u32 {
        self.op
    }

    /// Returns true for a leaf: an operator, constant, shape and so on.
    pub fn is_leaf(self) -> bool {
        self.op & LEAF_BIT != 0
    }
}

/// A type in the table of a body under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(#[doc(hidden)] pub u32);

impl TypeId {
    /// No type.
    pub const NONE: TypeId = TypeId(NONE);
}

/// Attributes in the table of a body under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttrsId(#[doc(hidden)] pub u32);

impl AttrsId {
    /// Returns the attributes in a finished body.
    #[doc(hidden)]
    pub fn of(self, body: &Body) -> Dict<'_> {
        Dict { raw: body.raw(), id: self.0 }
    }

    /// No attributes.
    pub const NONE: AttrsId = AttrsId(NONE);

    /// Returns the number in the table.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The properties of a new node.
#[derive(Clone, Copy, Debug)]
pub struct NodeSpec {
    /// One of [`kind`].
    pub kind: u16,
    /// Flags of [`flag`]; REGION, TERM and DATAFLOW are set according to the kind.
    pub flags: u16,
    /// Type.
    pub ty: TypeId,
    /// Attributes.
    pub attrs: AttrsId,
    /// Payload; its meaning depends on the kind.
    pub a: u32,
}

impl NodeSpec {
    /// Creates a node of a kind, without type and attributes.
    pub fn new(kind: u16) -> NodeSpec {
        NodeSpec { kind, flags: 0, ty: TypeId::NONE, attrs: AttrsId::NONE, a: 0 }
    }

    /// Adds flags.
    pub fn flags(mut self, flags: u16) -> NodeSpec {
        self.flags |= flags;
        self
    }

    /// Sets the type.
    pub fn ty(mut self, ty: TypeId) -> NodeSpec {
        self.ty = ty;
        self
    }

    /// Sets the attributes.
    pub fn attrs(mut self, attrs: AttrsId) -> NodeSpec {
        self.attrs = attrs;
        self
    }

    /// Sets the payload.
    pub fn a(mut self, a: u32) -> NodeSpec {
        self.a = a;
        self
    }
}

impl Body {
    /// Validates sections from any source and creates a body from a copy, through the host if there is one.
    ///
    /// # Errors
    /// An error that names the invalid record and the reason.
    pub fn seal(sections: &Sections) -> Result<Body, SealError> {
        crate::ir::storage::sealer::seal(&sections.raw())
    }
}

static BRANDS: AtomicU32 = AtomicU32::new(1);

/// Builds a body from front to back, with types supplied by the caller. [`BlockBuilder`](crate::build::BlockBuilder) infers types and flattens nested
/// calls.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
///
/// // def main(x: R.Tensor((2, 3), "float32")):
/// //     y = R.nn.relu(x)
/// //     return y
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// let (x, relu) = (b.param("x", ty), b.op("relax.nn.relu"));
/// b.begin_block();
/// let y = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("y"));
/// b.end();
/// b.end_function(y, ty);
/// let body = b.finish()?;
/// assert_eq!(body.bindings().count(), 1);
/// # Ok::<(), SealError>(())
/// ```
pub struct BodyBuilder {
    pub(crate) pool: Pool,
    open: Vec<u32>,
    brand: u32,
}

impl Default for BodyBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BodyBuilder {
    /// Creates an empty body.
    pub fn new() -> BodyBuilder {
        BodyBuilder::with_capacity(64)
    }

    /// Creates an empty body with room for a number of nodes and the entries that they usually refer to; it grows beyond that if necessary.
    pub fn with_capacity(nodes: usize) -> BodyBuilder {
        BodyBuilder::over(Sections::with_capacity(nodes))
    }

    /// Continues with existing sections, in which all regions are closed.
    pub(crate) fn over(mut sections: Sections) -> BodyBuilder {
        // A body may lack names, but the builder keeps a name entry for every node.
        sections.names.resize(sections.nodes.len(), NONE);
        let brand = BRANDS.fetch_add(1, Ordering::Relaxed);
        BodyBuilder { pool: Pool::over(sections), open: Vec::new(), brand }
    }

    pub(crate) fn v(&self, op: u32) -> V {
        V { op, brand: self.brand }
    }

    /// Returns true if a value belongs to this builder.
    pub(crate) fn owns(&self, v: V) -> bool {
        v.brand == self.brand
    }

    #[inline]
    pub(crate) fn word(&self, v: V) -> u32 {
        debug_assert_eq!(v.brand, self.brand, "the value belongs to another builder; import it first");
        v.op
    }

    /// Returns the sections built so far.
    pub fn raw(&self) -> RawView<'_> {
        self.pool.raw()
    }

    /// Calls `f` with the view of a value of this builder.
    pub fn with<R>(&self, v: V, f: impl FnOnce(Value<'_>) -> R) -> R {
        let raw = self.raw();
        f(Value { raw: &raw, op: self.word(v) })
    }

    /// Returns the type of a value.
    pub fn type_of(&self, v: V) -> TypeId {
        let op = self.word(v);
        let s = &self.pool.s;
        TypeId(if op & LEAF_BIT != 0 { s.leaves[(op & !LEAF_BIT) as usize].ty } else { s.nodes[op as usize].ty })
    }

    /// Returns a type as an owned value.
    pub fn type_owned(&self, ty: TypeId) -> Type {
        Ty { raw: &self.raw(), id: ty.0 }.to_owned()
    }

    /// Returns the expanded size and the depth of a type. Records share parts, so a few records can describe a type too large for memory;
    /// check the size before calling [`BodyBuilder::type_owned`]. Beyond [`MAX_SIZE`] parts or [`MAX_DEPTH`], `type_owned` omits the rest,
    /// and the body cannot be sealed.
    pub fn type_size(&mut self, ty: TypeId) -> (u32, u32) {
        let tree = self.pool.type_tree(ty.0);
        (tree.size, tree.depth)
    }

    /// Returns an error for a type that is too large for a sealed body, without writing the type out.
    pub(crate) fn refuse_large(&mut self, ty: TypeId) -> Result<(), String> {
        let (size, depth) = self.type_size(ty);
        if size <= MAX_SIZE && depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(format!(
            "the type of this value has more than {MAX_SIZE} parts when it is written out, or is nested more than \
             {MAX_DEPTH} deep; nest fewer tuples"
        ))
    }

    /// Adds a type to the table.
    pub fn ty(&mut self, ty: &Type) -> TypeId {
        TypeId(self.pool.ty(ty))
    }

    /// Adds attributes to the table; keys are sorted.
    pub fn attrs<'k>(&mut self, entries: impl IntoIterator<Item = (&'k str, Attr)>) -> AttrsId {
        AttrsId(self.pool.dict(entries))
    }

    /// Like `attrs`, but keeps the given order of distinct keys; for operators that no plugin declares, because only the source shows the
    /// order of their attributes. Programs that differ only in that order are equal.
    pub fn attrs_as_given<'k>(&mut self, entries: impl IntoIterator<Item = (&'k str, Attr)>) -> AttrsId {
        AttrsId(self.pool.dict_as_given(entries))
    }

    /// Adds a symbolic variable.
    pub fn sym(&mut self, name: &str, dtype: DType) -> Sym {
        self.pool.sym(name, dtype)
    }

    /// Returns the number of symbolic variables.
    pub fn n_syms(&self) -> u32 {
        self.pool.s.var_names.len() as u32
    }

    fn leaf(&mut self, kind: u16, flags: u16, ty: u32, val: u64) -> V {
        let id = self.pool.leaf_rec(LeafRec { kind, flags, ty, val });
        self.v(id | LEAF_BIT)
    }

    /// Adds an operator.
    pub fn op(&mut self, name: &str) -> V {
        let id = self.pool.str(name);
        self.leaf(leaf::OP, val::STR, NONE, u64::from(id))
    }

    /// Adds a function of the module.
    pub fn global_var(&mut self, name: &str, ty: TypeId) -> V {
        let id = self.pool.str(name);
        self.leaf(leaf::GLOBAL_VAR, val::STR, ty.0, u64::from(id))
    }

    /// Adds an external function.
    pub fn extern_func(&mut self, name: &str, ty: TypeId) -> V {
        let id = self.pool.str(name);
        self.leaf(leaf::EXTERN_FUNC, val::STR, ty.0, u64::from(id))
    }

    /// Adds a constant tensor.
    pub fn constant(&mut self, tensor: &Tensor, ty: &Type) -> V {
        let ty = self.pool.ty(ty);
        let id = self.pool.constant(tensor, ty);
        self.leaf(leaf::CONST, val::CONST, ty, u64::from(id))
    }

    /// Adds a shape.
    pub fn shape(&mut self, dims: &[Dim]) -> V {
        let ty = self.pool.ty(&Type::shape(dims.to_vec()));
        let (off, len) = self.pool.dims(dims);
        self.leaf(leaf::SHAPE, val::PRIM_LIST, ty, list_val(off, len))
    }

    /// Adds a dimension as a value (`R.prim_value`).
    pub fn prim_value(&mut self, dim: &Dim) -> V {
        let ty = self.pool.ty(&Type::Prim { dtype: dim.dtype(), value: Some(dim.clone()) });
        let id = self.pool.dim(dim);
        self.leaf(leaf::PRIM, val::PRIM, ty, u64::from(id))
    }

    /// Adds a number or symbolic variable as a TIR operand: like [`BodyBuilder::prim_value`], without the type of a Relax value.
    pub fn scalar(&mut self, dim: &Dim) -> V {
        let ty = self.pool.ty(&Type::Prim { dtype: dim.dtype(), value: None });
        let id = self.pool.dim(dim);
        self.leaf(leaf::PRIM, val::PRIM, ty, u64::from(id))
    }

    /// Returns the node and the operands that express an operation of a dimension ([`Dim::operation`]) in TIR.
    #[doc(hidden)]
    pub fn operation(&mut self, op: PrimOp, mut operands: Vec<V>) -> (NodeSpec, Vec<V>) {
        if op != PrimOp::If {
            return (NodeSpec::new(kind::ARITH).a(op.into()), operands);
        }
        operands.insert(0, self.op("tirx.if_then_else"));
        (NodeSpec::new(kind::CALL), operands)
    }

    /// Adds a string (`R.str`).
    pub fn string(&mut self, text: &str) -> V {
        let (ty, id) = (self.pool.ty(&Type::Object), self.pool.str(text));
        self.leaf(leaf::STR, val::STR, ty, u64::from(id))
    }

    /// Adds a data type (`R.dtype`).
    pub fn dtype(&mut self, dtype: DType) -> V {
        let ty = self.pool.ty(&Type::Object);
        self.leaf(leaf::DTYPE, val::PLAIN, ty, u64::from(dtype.0))
    }

    /// Adds a type argument of a call; it must follow all other arguments.
    pub fn type_arg(&mut self, ty: TypeId) -> V {
        self.leaf(leaf::TYPE, val::TYPE, NONE, u64::from(ty.0))
    }

    /// Adds a node that is not a region. A named node is a binding.
    pub fn node(&mut self, spec: NodeSpec, ops: &[V], name: Option<&str>) -> V {
        let at = self.pool.s.operands.len() as u32;
        for v in ops {
            let word = self.word(*v);
            self.pool.s.operands.push(word);
        }
        let v = self.node_at(spec, at, ops.len() as u32, name);
        // A region propagates its effect when it ends.
        if spec.flags & (flag::IMPURE | flag::REGION) == flag::IMPURE
            && !self.pool.s.nodes[v.op as usize].has(flag::REGION)
        {
            self.taint();
        }
        v
    }

    fn node_at(&mut self, spec: NodeSpec, ops: u32, n_ops: u32, name: Option<&str>) -> V {
        let mut flags = spec.flags;
        flags |= match spec.kind {
            kind::YIELD => flag::TERM,
            kind::FUNC => flag::REGION | flag::OWNER,
            kind::IF | kind::SEQ => flag::REGION | flag::OWNER,
            kind::BLOCK | kind::BRANCH | kind::PRIM_FUNC => flag::REGION,
            kind::COMBINER => flag::REGION | flag::OWNER,
            kind::DATAFLOW => flag::REGION | flag::DATAFLOW,
            kind::PARAM => flag::BOUND | flag::INNER,
            _ => 0,
        };
        let name_off = match name {
            Some(name) => {
                flags |= flag::BOUND;
                self.pool.name(name)
            }
            None => NONE,
        };
        let s = &mut self.pool.s;
        let id = s.nodes.len() as u32;
        let NodeSpec { kind, ty, attrs, a, .. } = spec;
        s.nodes.push(NodeRec { kind, flags, ty: ty.0, ops, n_ops, attrs: attrs.0, a });
        s.names.push(name_off);
        self.v(id)
    }

    /// Opens a region; all nodes until [`BodyBuilder::end`] are its content.
    pub fn begin(&mut self, spec: NodeSpec, ops: &[V], name: Option<&str>) -> V {
        let v = self.node(spec.flags(flag::REGION), ops, name);
        self.open.push(v.op);
        v
    }

    /// Closes the innermost region. An effect in the region makes the enclosing If or block effectful.
    pub fn end(&mut self) {
        let Some(header) = self.open.pop() else { return };
        let nodes = &mut self.pool.s.nodes;
        let extent = nodes.len() as u32 - header - 1;
        nodes[header as usize].a = extent;
        let node = nodes[header as usize];
        let inherits = !matches!(node.kind, kind::FUNC | kind::PRIM_FUNC);
        if inherits && node.has(flag::IMPURE) {
            self.taint();
        }
    }

    /// Marks the open enclosing regions as effectful, up to the function.
    fn taint(&mut self) {
        for header in self.open.iter().rev() {
            let node = &mut self.pool.s.nodes[*header as usize];
            if matches!(node.kind, kind::FUNC | kind::PRIM_FUNC) {
                break;
            }
            node.flags |= flag::IMPURE;
        }
    }

    /// Returns the kind of the innermost open region.
    pub fn around(&self) -> Option<u16> {
        self.open.last().map(|header| self.pool.s.nodes[*header as usize].kind)
    }

    /// Returns the number of open regions.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Opens a function. [`BodyBuilder::end_function`] sets its type.
    pub fn begin_function(&mut self, flags: u16, attrs: AttrsId, name: Option<&str>) -> V {
        self.begin(NodeSpec::new(kind::FUNC).flags(flags).attrs(attrs), &[], name)
    }

    /// Opens a block that is not a dataflow block.
    pub fn begin_block(&mut self) -> V {
        self.begin(NodeSpec::new(kind::BLOCK), &[], None)
    }

    /// Opens a dataflow block.
    pub fn begin_dataflow(&mut self) -> V {
        self.begin(NodeSpec::new(kind::DATAFLOW), &[], None)
    }

    /// Returns the type of a scalar variable that is also a symbolic variable, so that types and scalar expressions can mention it.
    pub fn symbol_type(&mut self, sym: Sym) -> TypeId {
        self.ty(&Type::Prim { dtype: sym.dtype, value: Some(Dim::Var(sym)) })
    }

    /// Turns a Relax scalar variable into a symbolic variable with the given name. Does nothing for other values.
    pub fn make_symbol(&mut self, v: V, name: &str) -> Option<Sym> {
        let scalar = self.pool.s.types.get(self.type_of(v).0 as usize).filter(|ty| ty.kind == tykind::PRIM)?;
        let sym = self.sym(name, DType(scalar.dtype));
        let ty = self.symbol_type(sym);
        self.set_type(v, ty);
        Some(sym)
    }

    /// Changes the type of `v`, which is an output of the open dataflow block: removes each shape or value that uses a scalar variable of
    /// the block, unless the variable is also an output. `scalars` are the scalar variables of this function and of the enclosing
    /// functions, each with the number of its symbolic variable.
    pub fn hide_inner(&mut self, v: V, scalars: impl Iterator<Item = (V, u32)>) {
        let block = self.open.iter().rev().find(|header| self.pool.s.nodes[**header as usize].kind == kind::DATAFLOW);
        let Some(block) = block.copied() else { return };
        let in_block = |scalar: V| self.word(scalar) & LEAF_BIT == 0 && self.word(scalar) > block;
        let kept = |scalar: &V| in_block(*scalar) && self.flags(*scalar) & flag::INNER != 0;
        let inner: BTreeSet<u32> = scalars.filter(|(scalar, _)| kept(scalar)).map(|(_, id)| id).collect();
        let ty = self.type_of(v);
        if !inner.is_empty() && ty != TypeId::NONE {
            let shown = self.ty(&erase_unbound(&self.type_owned(ty), &|sym| inner.contains(&sym.id)));
            self.set_type(v, shown);
        }
    }

    /// Adds a parameter; all parameters precede the first block.
    pub fn param(&mut self, name: &str, ty: TypeId) -> V {
        self.node(NodeSpec::new(kind::PARAM).ty(ty), &[], Some(name))
    }

    /// Sets the type of a function from its parameters and `ret`, adds the result and closes it.
    pub fn end_function(&mut self, result: V, ret: TypeId) {
        self.node(NodeSpec::new(kind::YIELD), &[result], None);
        if let Some(header) = self.open.last().copied() {
            self.set_function_type(header, ret);
        }
        self.end();
    }

    fn set_function_type(&mut self, header: u32, ret: TypeId) {
        let s = &self.pool.s;
        let params = s.nodes[header as usize + 1..].iter().take_while(|node| node.kind == kind::PARAM);
        let mut types: Vec<u32> = params.map(|node| node.ty).collect();
        let ndim = types.len() as i32;
        types.push(ret.0);
        let impure = s.nodes[header as usize].has(flag::IMPURE);
        let object = if types.contains(&NONE) { self.pool.ty(&Type::Object) } else { NONE };
        types.iter_mut().filter(|ty| **ty == NONE).for_each(|ty| *ty = object);
        let (off, len) = self.pool.list(&types);
        let flags = tyflag::TYPES | if impure { tyflag::IMPURE } else { 0 };
        let ty = self.pool.type_rec(TypeRec { kind: tykind::CALLABLE, flags, dtype: 0, ndim, off, len, aux: NONE });
        self.pool.s.nodes[header as usize].ty = ty;
    }

    /// Adds a call. If `effect` is true, the call must not be removed or repeated.
    pub fn call(&mut self, callee: V, args: &[V], attrs: AttrsId, ty: TypeId, effect: bool, name: Option<&str>) -> V {
        let at = self.pool.s.operands.len() as u32;
        let word = self.word(callee);
        self.pool.s.operands.push(word);
        for v in args {
            let word = self.word(*v);
            self.pool.s.operands.push(word);
        }
        let flags = if effect { flag::IMPURE } else { 0 };
        let v = self.node_at(NodeSpec { kind: kind::CALL, flags, ty, attrs, a: 0 }, at, args.len() as u32 + 1, name);
        if effect {
            self.taint();
        }
        v
    }

    /// Adds a tuple, whose type is built from the types of its elements.
    pub fn tuple(&mut self, items: &[V], name: Option<&str>) -> V {
        let types: Vec<u32> = items.iter().map(|v| self.type_of(*v).0).collect();
        let ty = if types.contains(&NONE) { NONE } else { self.tuple_type(&types) };
        self.node(NodeSpec::new(kind::TUPLE).ty(TypeId(ty)), items, name)
    }

    fn tuple_type(&mut self, types: &[u32]) -> u32 {
        let (off, len) = self.pool.list(types);
        let ndim = types.len() as i32;
        self.pool.type_rec(TypeRec { kind: tykind::TUPLE, flags: tyflag::TYPES, dtype: 0, ndim, off, len, aux: NONE })
    }

    /// Adds element `index` of a tuple. Its type is the type of the element if known, or any if the type of the tuple is any.
    pub fn tuple_get(&mut self, tuple: V, index: u32, name: Option<&str>) -> V {
        let ty = {
            let raw = self.raw();
            let ty = Ty { raw: &raw, id: self.type_of(tuple).0 };
            let element = ty.is_tuple().then(|| ty.children().nth(index as usize)).flatten();
            let any = ty.is_known() && ty.kind() == tykind::OBJECT;
            element.map_or(if any { ty.id() } else { NONE }, Ty::id)
        };
        self.node(NodeSpec::new(kind::TUPLE_GET).ty(TypeId(ty)).a(index), &[tuple], name)
    }

    /// Turns a nested expression into a binding.
    pub fn bind(&mut self, v: V, name: &str) {
        let (op, off) = (self.word(v), self.pool.name(name));
        if op & LEAF_BIT == 0 {
            self.pool.s.nodes[op as usize].flags |= flag::BOUND;
            self.pool.s.names[op as usize] = off;
        }
    }

    /// Adds flags to a node.
    pub fn add_flags(&mut self, v: V, flags: u16) {
        let op = self.word(v);
        if op & LEAF_BIT == 0 {
            self.pool.s.nodes[op as usize].flags |= flags;
        }
    }

    /// Removes flags from a node.
    pub fn clear_flags(&mut self, v: V, flags: u16) {
        let op = self.word(v);
        if op & LEAF_BIT == 0 {
            self.pool.s.nodes[op as usize].flags &= !flags;
        }
    }

    /// Returns the flags of a node; 0 for a leaf.
    pub fn flags(&self, v: V) -> u16 {
        let op = self.word(v);
        if op & LEAF_BIT == 0 { self.pool.s.nodes[op as usize].flags } else { 0 }
    }

    /// Returns the kind of a node; 0 for a leaf.
    pub fn kind(&self, v: V) -> u16 {
        let op = self.word(v);
        if op & LEAF_BIT == 0 { self.pool.s.nodes[op as usize].kind } else { 0 }
    }

    /// Returns the operand words of a node.
    pub fn operand_words(&self, v: V) -> &[u32] {
        let op = self.word(v);
        if op & LEAF_BIT != 0 {
            return &[];
        }
        self.pool.s.nodes.get(op as usize).map_or(&[], |node| node.ops(&self.pool.s.operands))
    }

    /// Marks a call and the enclosing regions as effectful.
    pub fn mark_effect(&mut self, v: V) {
        self.add_flags(v, flag::IMPURE);
        self.taint();
    }

    /// Sets the attributes of a node.
    pub fn set_attrs(&mut self, v: V, attrs: AttrsId) {
        let op = self.word(v);
        if op & LEAF_BIT == 0 {
            self.pool.s.nodes[op as usize].attrs = attrs.0;
        }
    }

    /// Returns the number of the type of a value; equal for equal types of the same builder.
    pub fn type_number(&self, v: V) -> u32 {
        self.type_of(v).0
    }

    /// Returns the number of a node's attributes; equal for equal attributes of the same builder.
    pub fn attrs_of(&self, v: V) -> u32 {
        let op = self.word(v);
        if op & LEAF_BIT == 0 { self.pool.s.nodes[op as usize].attrs } else { NONE }
    }

    /// Returns the value of an operand word.
    pub fn value_of_word(&self, word: u32) -> V {
        self.v(word)
    }

    /// Sets the type of a node.
    pub fn set_type(&mut self, v: V, ty: TypeId) {
        let op = self.word(v);
        if op & LEAF_BIT == 0 {
            self.pool.s.nodes[op as usize].ty = ty.0;
        }
    }

    /// Marks the innermost open function as effectful, but not the regions around it.
    pub(crate) fn mark_function_impure(&mut self) {
        if let Some(header) = self.open.last() {
            self.pool.s.nodes[*header as usize].flags |= flag::IMPURE;
        }
    }

    /// Returns true if the node directly before a value is a complete binding.
    pub(crate) fn follows_binding(&self, v: V) -> bool {
        let before = (v.op & !LEAF_BIT).checked_sub(1).and_then(|at| self.pool.s.nodes.get(at as usize));
        before.is_some_and(|node| node.has(flag::BOUND) && !node.has(flag::REGION))
    }

    /// Removes the last node and returns its operands.
    pub(crate) fn pop_last(&mut self) -> Vec<V> {
        let s = &mut self.pool.s;
        let Some(node) = s.nodes.pop() else { return Vec::new() };
        s.names.pop();
        s.origins.truncate(s.nodes.len());
        let words = s.operands.split_off(node.ops as usize);
        words.into_iter().map(|op| self.v(op)).collect()
    }

    /// Removes all nodes from number `n` on; no remaining node may use them.
    pub fn truncate(&mut self, n: u32) {
        let s = &mut self.pool.s;
        let Some(first) = s.nodes.get(n as usize) else { return };
        s.operands.truncate(first.ops as usize);
        s.nodes.truncate(n as usize);
        s.names.truncate(n as usize);
        s.origins.truncate(n as usize);
    }

    /// Returns the number of nodes.
    pub fn n_nodes(&self) -> u32 {
        self.pool.s.nodes.len() as u32
    }

    /// Moves nested expressions that a later part of the source showed to belong elsewhere. Each of `runs` is a range of nodes, and the
    /// number of nodes before their new position. If two runs have the same new position, the later run is written first, because it
    /// encloses the earlier run. The returned function maps each value to its new position.
    pub fn move_back(&mut self, runs: &[(Range<u32>, u32)]) -> impl Fn(V) -> V + use<> {
        let from = runs.iter().map(|(_, place)| *place).min().unwrap_or(u32::MAX);
        let s = &mut self.pool.s;
        // The sort key of each node: its position, or the new position of its run.
        let mut order: Vec<_> = (from..s.nodes.len() as u32).map(|at| (at, u32::MAX, at)).collect();
        for (number, (nodes, place)) in runs.iter().enumerate() {
            for at in nodes.clone() {
                if let Some(key) = at.checked_sub(from).and_then(|i| order.get_mut(i as usize)) {
                    *key = (*place, (runs.len() - 1 - number) as u32, at);
                }
            }
        }
        order.sort_unstable();
        let mut becomes = vec![0; order.len()];
        for (new, (_, _, old)) in order.iter().enumerate() {
            becomes[(old - from) as usize] = from + new as u32;
        }
        let moved = move |op: u32| match op.checked_sub(from).and_then(|i| becomes.get(i as usize)) {
            Some(new) if op & LEAF_BIT == 0 => *new,
            _ => op,
        };
        if let Some(first) = s.nodes.get(from as usize) {
            let operands = s.operands.split_off(first.ops as usize);
            let base = first.ops;
            let nodes = s.nodes.split_off(from as usize);
            let names = s.names.split_off(from as usize);
            // Origins are not moved; these nodes have none.
            s.origins.truncate(from as usize);
            for (_, _, old) in &order {
                let mut node = nodes[(old - from) as usize];
                let ops = (node.ops - base) as usize;
                node.ops = s.operands.len() as u32;
                s.operands.extend(operands[ops..ops + node.n_ops as usize].iter().map(|op| moved(*op)));
                s.nodes.push(node);
                s.names.push(names[(old - from) as usize]);
            }
        }
        move |v| V { op: moved(v.op), ..v }
    }

    /// Returns an importer that copies values of another body into this body.
    pub fn importer<'a>(&self, from: &'a RawView<'a>) -> Importer<'a> {
        Importer::new(from)
    }

    /// Validates the sections and creates the body, through the host if there is one.
    ///
    /// # Errors
    /// An error that names the invalid record and the reason. An open region is an error.
    pub fn finish(mut self) -> Result<Body, SealError> {
        if !self.open.is_empty() {
            let why = "a region is still open; call `end` once for each `begin`";
            return Err(SealError::Malformed { what: "node", index: self.open[0] as usize, why });
        }
        self.pool.check_whole()?;
        self.pool.s.settle_origins(|_| true, |op| op);
        crate::ir::storage::sealer::seal(&self.pool.raw())
    }
}
