//! Views of TIR for passes: elements of buffers, and the iterators of schedulable blocks.

use crate::ir::purity::can_be_left_out;
use crate::ir::records::{axis, buffer_of, kind};
use crate::ir::{Attr, BufferType, Stmt, Type, Value};

/// A buffer load or store.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::prim_func;
///
/// // B[i] = A[i + 1]
/// let body = prim_func(|t| {
///     let (a, b) = (t.buffer_param("A", &[9], DType::I32), t.buffer_param("B", &[8], DType::I32));
///     t.serial("i", 8, |i| t.store(b, [i], t.load(a, [i + 1])));
/// })?;
/// let accesses: Vec<_> = body.values().filter_map(Value::as_element_access).collect();
/// let buffers: Vec<_> = accesses.iter().filter_map(|access| access.buffer.name()).collect();
/// assert_eq!(buffers, ["A", "B"]);
/// assert!(matches!(accesses[0].indices[0].view(), Expr::Arith { .. }));
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ElementAccess<'a> {
    /// The buffer.
    pub buffer: Value<'a>,
    /// The index in each dimension.
    pub indices: Vec<Value<'a>>,
}

/// An iterator of a schedulable block.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BlockIter<'a> {
    /// Variable of the iterator.
    pub var: Value<'a>,
    /// The first value.
    pub min: Value<'a>,
    /// The number of values.
    pub extent: Value<'a>,
    /// The value in the loops around the block.
    pub value: Value<'a>,
    /// True if the values are independent of each other.
    pub is_spatial: bool,
    /// True if the block reduces over the iterator, in any order.
    pub is_reduction: bool,
}

/// A region of a buffer that a block reads or writes, or that a buffer matches.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegionAccess<'a> {
    /// The buffer.
    pub buffer: Value<'a>,
    /// The start and extent in each dimension.
    pub ranges: Vec<(Value<'a>, Value<'a>)>,
    /// True for a write; false for a read or match.
    pub is_write: bool,
}

impl<'a> Value<'a> {
    /// Returns the value as a buffer load or store; `None` for any other value.
    pub fn as_element_access(self) -> Option<ElementAccess<'a>> {
        let first = match self.kind() {
            kind::LOAD => 1,
            kind::STORE => 2,
            _ => return None,
        };
        let predicates = usize::from(self.node()?.a == 1);
        let indices = self.operands().take(self.n_operands() - predicates).skip(first).collect();
        Some(ElementAccess { buffer: self.operand(0)?, indices })
    }

    /// Iterates over the iterators of a schedulable block, in order.
    pub fn block_iters(self) -> impl Iterator<Item = BlockIter<'a>> {
        self.region().children().filter_map(Value::as_block_iter)
    }

    /// Returns the value as an iterator of a schedulable block.
    pub fn as_block_iter(self) -> Option<BlockIter<'a>> {
        let axis = self.node().filter(|node| node.kind == kind::ITER_VAR)?.a;
        let (is_spatial, is_reduction) = (axis == axis::SPATIAL, axis == axis::REDUCE);
        let [min, extent, value] = [self.operand(0)?, self.operand(1)?, self.operand(2)?];
        Some(BlockIter { var: self, min, extent, value, is_spatial, is_reduction })
    }

    /// Returns true for a variable that no loop, block or statement defines: a free variable, or the variable of a `T.Let`.
    pub fn is_free_var(self) -> bool {
        self.kind() == kind::VAR
    }

    /// Returns true for a declared region: a read or write of a block, or the match of a buffer.
    pub fn is_access(self) -> bool {
        self.kind() == kind::ACCESS
    }

    /// Returns true if a TIR expression changes state, leaves a loop, or reads state outside the function.
    pub fn changes_state(self) -> bool {
        let mut work = vec![self];
        while let Some(value) = work.pop() {
            if value.as_call().is_some_and(|call| !call.op().is_some_and(can_be_left_out)) {
                return true;
            }
            work.extend(value.operands().filter(|operand| operand.is_nested()));
        }
        false
    }

    /// Returns the condition under which a schedulable block is executed; `None` if it is unconditional.
    pub fn block_condition(self) -> Option<Value<'a>> {
        self.region().children().find(|value| value.kind() == kind::WHERE)?.operand(0)
    }

    /// Iterates over the declared reads and writes of a schedulable block.
    pub fn block_accesses(self) -> impl Iterator<Item = RegionAccess<'a>> {
        self.region().children().filter_map(Value::as_region_access)
    }

    /// Iterates over the buffers that a schedulable block, or the function as its outermost block, allocates.
    pub fn block_buffers(self) -> impl Iterator<Item = Value<'a>> {
        self.region().children().filter(|value| value.is_block_buffer())
    }

    /// Returns true if a schedulable block is the only content of a function besides the outermost block. Without iterators, this can be
    /// expressed only with an enclosing block: [`Tir::root_block`](super::Tir::root_block).
    pub fn needs_root_block(self, function: Value<'a>) -> bool {
        self.block_iters().next().is_some()
            && function.block_buffers().next().is_none()
            && function.statements().eq([self])
    }

    /// Returns the initialization of a reduction block.
    pub fn block_init(self) -> Option<Value<'a>> {
        self.region().children().find(|value| value.is_init())
    }

    /// Returns true for a parameter that is a buffer, or the buffer matched with a parameter; false for a buffer declared over the data of
    /// a parameter.
    pub fn is_matched_param(self) -> bool {
        let is_declared = self.kind() == kind::BUFFER
            && self.node().is_some_and(|node| !matches!(node.a, buffer_of::PARAM | buffer_of::MATCH));
        self.is_param_buffer() && !is_declared
    }

    /// Returns the buffers that the caller of this function passes, in the order of its parameters.
    pub fn param_buffers(self) -> Vec<Value<'a>> {
        let param = |buffer: Value<'a>| buffer.operand(0).filter(|_| buffer.kind() == kind::BUFFER).unwrap_or(buffer);
        let mut buffers: Vec<Value<'a>> = self.region().children().filter(|value| value.is_matched_param()).collect();
        buffers.sort_by_key(|buffer| param(*buffer).word());
        buffers
    }

    /// Iterates over the statements and buffers directly in the body of a function, loop or launch, without parameters.
    pub fn content(self) -> impl Iterator<Item = Value<'a>> {
        let is_content = |value: &Value<'a>| value.stmt().is_some() || value.as_buffer_type().is_some();
        self.region().children().filter(move |value| is_content(value) && !value.is_matched_param())
    }

    /// Returns the annotations of a loop or of a schedulable block, by key.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| t.serial("i", 8, |i| t.evaluate(i)))?;
    /// let mut edit = body.edit();
    /// let stmt = body.values().find(|value| matches!(value.stmt(), Some(Stmt::For { .. }))).expect("a loop");
    /// edit.set_attr(stmt, "annotations", Attr::dict([("pragma_unroll", 1i64)]));
    /// let body = edit.finish()?;
    /// let stmt = body.values().find(|value| matches!(value.stmt(), Some(Stmt::For { .. }))).expect("a loop");
    /// assert_eq!(stmt.annotations(), [("pragma_unroll".to_string(), Attr::Int(1))]);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn annotations(self) -> Vec<(String, Attr)> {
        match self.kind() {
            kind::SBLOCK => {
                let annotate = self.region().children().find(|value| value.kind() == kind::ANNOTATE);
                annotate.map_or(Vec::new(), |annotate| annotate.attrs().to_owned())
            }
            _ => self.attr("annotations").and_then(|attr| attr.as_dict()).map_or(Vec::new(), |dict| dict.to_owned()),
        }
    }

    /// Returns the value as a region of a buffer that a block reads or writes, a buffer matches, or a call takes.
    pub fn as_region_access(self) -> Option<RegionAccess<'a>> {
        if self.kind() != kind::ACCESS {
            return None;
        }
        let (buffer, is_write) = (self.operand(0)?, self.node()?.a == 1);
        let ends: Vec<Value<'a>> = self.operands().skip(1).collect();
        let ranges = ends.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        Some(RegionAccess { buffer, ranges, is_write })
    }

    /// Returns the region that a matched buffer of a schedulable block refers to.
    pub fn matched_region(self) -> Option<RegionAccess<'a>> {
        let is_match = self.kind() == kind::BUFFER && self.node()?.a == buffer_of::MATCH;
        self.operand(0).filter(|_| is_match)?.as_region_access()
    }

    /// Returns true for a buffer allocated by the enclosing schedulable block or function.
    pub fn is_block_buffer(self) -> bool {
        self.kind() == kind::BUFFER && self.node().is_some_and(|node| node.a == buffer_of::BLOCK)
    }

    /// Returns true for a buffer allocated by a statement.
    pub fn is_allocation(self) -> bool {
        self.kind() == kind::BUFFER && self.node().is_some_and(|node| node.a == buffer_of::ALLOC)
    }

    /// Iterates over the statements directly in the body of a function, loop or block, without the declarations of a
    /// block: its iterators, reads and writes, buffers and initialization.
    pub fn statements(self) -> impl Iterator<Item = Value<'a>> {
        self.region().children().filter(|value| value.stmt().is_some())
    }

    /// Iterates over the scopes of a TIR If: the first branch, then the second branch if there is one.
    pub fn if_branches(self) -> impl Iterator<Item = Value<'a>> {
        let is_if = matches!(self.stmt(), Some(Stmt::If { .. }));
        self.region().children().filter(move |branch| is_if && !branch.is_nested())
    }

    /// For a store of an element loaded from the same buffer, returns the pairs of store and load indices. The store has no effect if the
    /// indices of each pair are equal.
    pub fn stored_element_indices(self) -> Option<Vec<(Value<'a>, Value<'a>)>> {
        let Some(Stmt::Store { buffer, value }) = self.stmt() else { return None };
        let (to, from) = (self.as_element_access()?, value.as_element_access()?);
        // The indices do not reflect a predicate of the load or store.
        let all = self.n_operands() == to.indices.len() + 2 && value.n_operands() == from.indices.len() + 1;
        let same = all && from.buffer == buffer && to.indices.len() == from.indices.len();
        same.then(|| to.indices.into_iter().zip(from.indices).collect())
    }

    /// Returns true for the initialization of a reduction block.
    pub fn is_init(self) -> bool {
        self.kind() == kind::INIT
    }

    /// Returns true for a buffer that the caller of the function passes.
    pub fn is_param_buffer(self) -> bool {
        let is_param = |value: Value<'_>| value.kind() == kind::PARAM;
        self.as_buffer_type().is_some() && (is_param(self) || self.operand(0).is_some_and(is_param))
    }

    /// Returns the type of a buffer.
    pub fn as_buffer_type(self) -> Option<BufferType> {
        match self.ty().to_owned() {
            Type::Buffer(buffer) => Some(buffer),
            _ => None,
        }
    }
}
