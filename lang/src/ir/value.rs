//! Typed views of the flat body for passes: `Copy`, 16 bytes, no recursion.

use crate::ir::attrs::{AttrView, Dict};
use crate::ir::records::*;
use crate::ir::storage::body_handle::Body;
use crate::ir::storage::sections::RawView;
use crate::ir::types::{DType, Dim, Sym, Ty, dim_at};
use std::fmt;

/// A value of a body: a node (parameter, binding, nested expression, region) or a leaf (operator, constant, shape…).
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
///
/// # let mut b = BodyBuilder::new();
/// # b.begin_function(0, AttrsId::NONE, None);
/// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// # let (x, relu, exp) = (b.param("x", ty), b.op("relax.nn.relu"), b.op("relax.exp"));
/// # b.begin_block();
/// # let a = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("a"));
/// # let c = b.call(exp, &[a], AttrsId::NONE, ty, false, Some("c"));
/// # b.end();
/// # b.end_function(c, ty);
/// # let body = b.finish()?;
/// // def main(x: R.Tensor((2, 3), "float32")):
/// //     a = R.nn.relu(x)
/// //     c = R.exp(a)
/// //     return c
/// let c = body.lookup_binding("c").expect("a binding named `c`");
/// let call = c.as_call_to("relax.exp").expect("a call of `relax.exp`");
/// let a = call.arg(0).expect("its argument");
/// assert_eq!(a.name(), Some("a"));
/// assert!(a.is_binding() && !a.has_effect());
/// assert!(a.ty().is_tensor());
/// assert_eq!(a.operands().count(), 2); // the operator and its argument
/// assert_eq!(body.bindings().filter_map(|value| value.as_call()?.op()).collect::<Vec<_>>(), ["relax.nn.relu", "relax.exp"]);
/// # Ok::<(), SealError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Value<'a> {
    #[doc(hidden)]
    pub raw: &'a RawView<'a>,
    #[doc(hidden)]
    pub op: u32,
}

impl Eq for Value<'_> {}

impl std::hash::Hash for Value<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.op.hash(state);
    }
}

impl PartialEq for Value<'_> {
    /// Compares the body and the operand word.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.raw, other.raw) && self.op == other.op
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index() {
            Some(i) => write!(f, "%{i}({})", self.name().unwrap_or("_")),
            None => write!(f, "leaf {}", self.op & !LEAF_BIT),
        }
    }
}

impl<'a> Value<'a> {
    /// Returns the record of a node.
    #[inline]
    pub fn node(self) -> Option<&'a NodeRec> {
        if self.op & LEAF_BIT != 0 { None } else { self.raw.nodes().get(self.op as usize) }
    }

    /// Returns the record of a leaf.
    #[inline]
    pub fn leaf(self) -> Option<&'a LeafRec> {
        if self.op & LEAF_BIT == 0 { None } else { self.raw.leaves().get((self.op & !LEAF_BIT) as usize) }
    }

    /// Returns the position of a node in program order.
    #[inline]
    pub fn index(self) -> Option<usize> {
        (self.op & LEAF_BIT == 0).then_some(self.op as usize)
    }

    /// Returns the operand word, which is the same for all uses of the value.
    #[inline]
    pub fn word(self) -> u32 {
        self.op
    }

    /// Returns the kind of the node; 0 for a leaf.
    #[inline]
    pub fn kind(self) -> u16 {
        self.node().map_or(0, |node| node.kind)
    }

    /// Returns true for a leaf: an operator, constant, shape and so on.
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.op & LEAF_BIT != 0
    }

    /// Returns true if all of these node flags are set.
    #[inline]
    pub fn has(self, flags: u16) -> bool {
        self.node().is_some_and(|node| node.has(flags))
    }

    /// Returns true for a value with its own name: a parameter or a binding.
    #[inline]
    pub fn is_bound(self) -> bool {
        self.has(flag::BOUND)
    }

    /// Returns true for an unnamed value, nested in the operands of its only user.
    #[inline]
    pub fn is_nested(self) -> bool {
        self.node().is_some_and(crate::ir::make::validate::is_nested)
    }

    /// Returns true if the value has an effect: an effectful call, or a region or expression that contains one.
    #[inline]
    pub fn has_effect(self) -> bool {
        let own = |value: Value<'a>| value.has(flag::IMPURE) && value.kind() != kind::FUNC;
        if own(self) {
            return true;
        }
        // A valid body has fewer nested expressions than nodes. The limit is for edits, during which they may form a cycle.
        let mut work: Vec<Value<'a>> = self.nested().collect();
        let mut left = self.raw.nodes().len();
        while let Some(value) = work.pop() {
            if own(value) || left == 0 {
                return true;
            }
            left -= 1;
            work.extend(value.nested());
        }
        false
    }

    /// Iterates over the unnamed operands, which are parts of this expression.
    pub fn nested(self) -> impl Iterator<Item = Value<'a>> {
        self.operands().filter(|operand| operand.is_nested())
    }

    /// Returns true for a binding, that is, a bound value that is not a parameter.
    #[inline]
    pub fn is_binding(self) -> bool {
        self.node().is_some_and(|node| node.has(flag::BOUND) && node.kind != kind::PARAM)
    }

    /// Returns the type.
    pub fn ty(self) -> Ty<'a> {
        let id = match (self.node(), self.leaf()) {
            (Some(node), _) => node.ty,
            (_, Some(leaf)) => leaf.ty,
            _ => NONE,
        };
        Ty { raw: self.raw, id }
    }

    /// Returns the symbolic variable of a scalar variable. Types and scalar expressions mention the scalar through it.
    pub fn symbol(self) -> Option<Sym> {
        let rec = self.ty().rec().filter(|rec| rec.kind == tykind::PRIM && rec.flags & tyflag::PRIMS != 0)?;
        let prim = self.raw.prims().get(*self.raw.list(rec.off, rec.len).first()? as usize)?;
        (self.is_bound() && prim.op == prim::VAR).then_some(Sym { id: prim.a, dtype: DType(prim.dtype) })
    }

    /// Returns the name of a symbolic variable of the function that contains this value, as a hint.
    pub fn symbol_name(self, sym: Sym) -> Option<&'a str> {
        crate::ir::body::sym_name(self.raw, sym.id)
    }

    /// Returns the printed name, as a hint; printing makes names unique.
    pub fn name(self) -> Option<&'a str> {
        self.raw.name_at(*self.raw.names().get(self.index()?)?)
    }

    /// Returns the attributes.
    pub fn attrs(self) -> Dict<'a> {
        Dict { raw: self.raw, id: self.node().map_or(NONE, |node| node.attrs) }
    }

    /// Returns one attribute.
    pub fn attr(self, key: &str) -> Option<AttrView<'a>> {
        self.attrs().get(key)
    }

    /// Returns the number of operands.
    #[inline]
    pub fn n_operands(self) -> usize {
        self.node().map_or(0, |node| node.n_ops as usize)
    }

    /// Iterates over the operands.
    #[inline]
    pub fn operands(self) -> impl ExactSizeIterator<Item = Value<'a>> + DoubleEndedIterator + 'a {
        let words = self.node().map_or(&[][..], |node| node.ops(self.raw.operands()));
        words.iter().map(move |op| Value { raw: self.raw, op: *op })
    }

    /// Returns one operand.
    #[inline]
    pub fn operand(self, i: usize) -> Option<Value<'a>> {
        let node = self.node()?;
        (i < node.n_ops as usize)
            .then(|| Some(Value { raw: self.raw, op: *self.raw.operands().get(node.ops as usize + i)? }))?
    }

    /// Returns the value as a call.
    #[inline]
    pub fn as_call(self) -> Option<Call<'a>> {
        (self.kind() == kind::CALL).then_some(Call(self))
    }

    /// Returns the value as a call of the operator `name`.
    pub fn as_call_to(self, name: &str) -> Option<Call<'a>> {
        self.as_call().filter(|call| call.op() == Some(name))
    }

    /// Returns the name of a function of the module.
    pub fn as_global(self) -> Option<&'a str> {
        let leaf = self.leaf().filter(|leaf| leaf.kind == leaf::GLOBAL_VAR)?;
        Some(self.raw.str(leaf.val as u32))
    }

    /// Returns the tuple and the index if the value is an element of a tuple.
    pub fn as_tuple_get(self) -> Option<(Value<'a>, u32)> {
        let node = self.node().filter(|node| node.kind == kind::TUPLE_GET)?;
        Some((self.operand(0)?, node.a))
    }

    /// Returns the value as a function.
    pub fn as_function(self) -> Option<Function<'a>> {
        (self.kind() == kind::FUNC).then_some(Function(self))
    }

    /// Returns the dimensions of a shape leaf.
    pub fn dims(self) -> Option<Vec<Dim>> {
        let leaf = self.leaf().filter(|leaf| leaf.kind == leaf::SHAPE)?;
        let (off, len) = leaf.list();
        Some(self.raw.list(off, len).iter().map(|id| dim_at(self.raw, *id)).collect())
    }

    /// Returns the value of a dimension leaf (`R.prim_value`).
    pub fn dim(self) -> Option<Dim> {
        let leaf = self.leaf().filter(|leaf| leaf.kind == leaf::PRIM)?;
        Some(dim_at(self.raw, leaf.val as u32))
    }

    /// Returns the two branches of an If.
    pub fn branches(self) -> Option<(Region<'a>, Region<'a>)> {
        if self.kind() != kind::IF {
            return None;
        }
        let mut inner = self.region().children();
        Some((inner.next()?.region(), inner.next()?.region()))
    }

    /// Returns the content of a region header; an empty region for other values.
    pub fn region(self) -> Region<'a> {
        let (start, len) = match (self.index(), self.node()) {
            (Some(i), Some(node)) if node.has(flag::REGION) => (i + 1, node.a as usize),
            (Some(i), _) => (i + 1, 0),
            _ => (0, 0),
        };
        // During an edit, the extent may have any value.
        Region { raw: self.raw, start, end: (start + len).min(self.raw.nodes().len()).max(start) }
    }

    /// Returns the node at another position of the same body.
    pub fn sibling(self, index: usize) -> Value<'a> {
        Value { raw: self.raw, op: index as u32 }
    }

    /// Returns the value of an operand word of a body.
    pub fn of_word(body: &'a Body, word: u32) -> Value<'a> {
        Value { raw: body.raw(), op: word }
    }

    /// Returns a leaf of a body by its position in the leaf table.
    pub fn leaf_of(body: &'a Body, index: u32) -> Value<'a> {
        Value { raw: body.raw(), op: index | LEAF_BIT }
    }

    /// Returns the position after the node and its content.
    pub fn end(self) -> usize {
        self.region().end
    }
}

/// The content of a region: a range of nodes in program order.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    raw: &'a RawView<'a>,
    start: usize,
    end: usize,
}

impl<'a> Region<'a> {
    /// Iterates over all nodes in program order, including nodes in inner regions.
    pub fn nodes(self) -> impl DoubleEndedIterator<Item = Value<'a>> + ExactSizeIterator + 'a {
        (self.start..self.end).map(move |i| Value { raw: self.raw, op: i as u32 })
    }

    /// Iterates over the nodes directly in the region, without nodes in inner regions.
    pub fn children(self) -> impl Iterator<Item = Value<'a>> + 'a {
        let mut at = self.start;
        std::iter::from_fn(move || {
            if at >= self.end {
                return None;
            }
            let value = Value { raw: self.raw, op: at as u32 };
            at = value.end();
            Some(value)
        })
    }

    /// Iterates over the bindings directly in the region.
    pub fn bindings(self) -> impl Iterator<Item = Value<'a>> + 'a {
        self.children().filter(|value| value.is_binding())
    }

    /// Returns the range of positions.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// Returns the result that its terminator yields.
    pub fn result(self) -> Option<Value<'a>> {
        let last = Value { raw: self.raw, op: self.end.checked_sub(1)? as u32 };
        (self.end > self.start && last.has(flag::TERM)).then(|| last.operand(0))?
    }
}

impl fmt::Debug for Region<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}..%{}", self.start, self.end)
    }
}

/// A view of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a>(#[doc(hidden)] pub Value<'a>);

impl<'a> From<Call<'a>> for Value<'a> {
    fn from(call: Call<'a>) -> Value<'a> {
        call.0
    }
}

impl<'a> Call<'a> {
    /// Returns the call as a value.
    pub fn value(self) -> Value<'a> {
        self.0
    }

    /// Returns the callee.
    pub fn callee(self) -> Value<'a> {
        self.0.operand(0).unwrap_or(self.0)
    }

    /// Returns the name of the operator, if the callee is an operator.
    pub fn op(self) -> Option<&'a str> {
        let leaf = self.callee().leaf()?;
        (leaf.kind == leaf::OP).then(|| self.0.raw.str(leaf.val as u32))
    }

    /// Returns the name of the callee, if it is a function of the module.
    pub fn global(self) -> Option<&'a str> {
        self.callee().as_global()
    }

    fn n_args(self) -> usize {
        let is_type = |v: &Value<'_>| v.leaf().is_some_and(|leaf| leaf.kind == leaf::TYPE);
        let types = self.0.operands().rev().take_while(is_type).count();
        self.0.n_operands().saturating_sub(1 + types)
    }

    /// Iterates over the arguments, without type arguments.
    pub fn args(self) -> impl ExactSizeIterator<Item = Value<'a>> + DoubleEndedIterator + 'a {
        let n = self.n_args();
        self.0.operands().skip(1).take(n)
    }

    /// Returns one argument.
    pub fn arg(self, i: usize) -> Option<Value<'a>> {
        let value = self.0.operand(i + 1)?;
        (value.leaf().is_none_or(|leaf| leaf.kind != leaf::TYPE)).then_some(value)
    }

    /// Iterates over the type arguments (such as `out_ty`).
    pub fn type_args(self) -> impl ExactSizeIterator<Item = Ty<'a>> + 'a {
        let raw = self.0.raw;
        self.0.operands().skip(1 + self.n_args()).map(move |v| Ty { raw, id: v.leaf().map_or(NONE, |l| l.val as u32) })
    }

    /// Returns one attribute.
    pub fn attr(self, key: &str) -> Option<AttrView<'a>> {
        self.0.attr(key)
    }

    /// Returns the attributes.
    pub fn attrs(self) -> Dict<'a> {
        self.0.attrs()
    }

    /// Returns the type of the result.
    pub fn ty(self) -> Ty<'a> {
        self.0.ty()
    }
}

/// A view of a function: the root of a body, or a function nested in another function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a>(pub(crate) Value<'a>);

impl<'a> Function<'a> {
    /// Returns the function as a value.
    pub fn value(self) -> Value<'a> {
        self.0
    }

    /// Iterates over the parameters in order.
    pub fn params(self) -> impl Iterator<Item = Value<'a>> + 'a {
        let children = self.0.region().children().filter(|value| !value.is_nested());
        children.take_while(|value| value.kind() == kind::PARAM)
    }

    /// Returns the attributes.
    pub fn attrs(self) -> Dict<'a> {
        self.0.attrs()
    }

    /// Returns one attribute.
    pub fn attr(self, key: &str) -> Option<AttrView<'a>> {
        self.0.attr(key)
    }

    /// Returns true if the function is declared to have no effects.
    pub fn is_pure(self) -> bool {
        !self.0.has(flag::IMPURE)
    }

    /// Returns true if the function lacks a global symbol.
    pub fn is_private(self) -> bool {
        self.0.has(flag::PRIVATE)
    }

    /// Returns the declared type of the result.
    pub fn ret_ty(self) -> Ty<'a> {
        self.0.ty().callable().map_or(Ty { raw: self.0.raw, id: NONE }, |(ret, _)| ret)
    }

    /// Iterates over the blocks in order.
    pub fn blocks(self) -> impl Iterator<Item = Value<'a>> + 'a {
        self.0.region().children().filter(|value| matches!(value.kind(), kind::BLOCK | kind::DATAFLOW))
    }

    /// Returns the result of the function.
    pub fn result(self) -> Option<Value<'a>> {
        self.0.region().result()
    }

    /// Returns true if passes must treat the function as a unit: a group (`Primitive`, `Composite`, `Codegen`), or a function that skips
    /// optimization.
    pub fn is_closed(self) -> bool {
        self.skips_optimization() || ["Primitive", "Composite", "Codegen"].iter().any(|key| self.attr(key).is_some())
    }

    /// Returns true for a group that becomes one PrimFunc.
    pub fn is_primitive(self) -> bool {
        self.attr("Primitive").is_some_and(|attr| attr.as_int().is_some_and(|v| v != 0))
    }

    /// Returns true if function passes skip the function.
    pub fn skips_optimization(self) -> bool {
        self.attr("SkipOptimization").is_some_and(|attr| attr.as_int().is_some_and(|v| v != 0))
    }
}
