//! Blocks of bindings, and the sequences of blocks that form functions and branches.

use super::records::{flag, kind};
use super::storage::body_handle::Body;
use super::value::{Region, Value};

/// A block of bindings: a dataflow block or a plain block.
///
/// ```
/// use plugin_api::prelude::*;
///
/// /// How many values leave the dataflow blocks of a function.
/// fn outputs(function: &Body) -> usize {
///     function.dataflow_blocks().map(|block| block.outputs().count()).sum()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block<'a>(Value<'a>);

impl<'a> Block<'a> {
    /// Returns the header of the block, which is an ordinary value of the body.
    pub fn header(self) -> Value<'a> {
        self.0
    }

    /// Returns true for a dataflow block.
    pub fn is_dataflow(self) -> bool {
        self.0.kind() == kind::DATAFLOW
    }

    /// Iterates over the bindings directly in the block.
    pub fn bindings(self) -> impl Iterator<Item = Value<'a>> + 'a {
        self.0.region().bindings()
    }

    /// Iterates over the bindings that are visible after the block: the bindings listed in `R.output` in a dataflow block, all bindings in
    /// a plain block.
    pub fn outputs(self) -> impl Iterator<Item = Value<'a>> + 'a {
        self.bindings().filter(|binding| !binding.is_dataflow_var())
    }
}

impl<'a> Value<'a> {
    /// Returns the block whose header is this value; `None` for any other value.
    pub fn as_block(self) -> Option<Block<'a>> {
        matches!(self.kind(), kind::BLOCK | kind::DATAFLOW).then_some(Block(self))
    }

    /// Returns true for a variable that is visible only in its dataflow block (`DataflowVar` in TVM).
    #[inline]
    pub fn is_dataflow_var(self) -> bool {
        self.has(flag::INNER)
    }

    /// Returns true for an If.
    #[inline]
    pub fn is_if(self) -> bool {
        self.kind() == kind::IF
    }

    /// Returns true for a match_cast.
    #[inline]
    pub fn is_match_cast(self) -> bool {
        self.kind() == kind::MATCH_CAST
    }

    /// Returns the sequence of blocks of a function or of a branch of an If (`SeqExpr` in TVM), from its header; `None` if the value is neither.
    pub fn as_sequence(self) -> Option<Region<'a>> {
        matches!(self.kind(), kind::FUNC | kind::BRANCH).then(|| self.region())
    }
}

impl<'a> Region<'a> {
    /// Iterates over the blocks directly in the region.
    pub fn blocks(self) -> impl Iterator<Item = Block<'a>> + 'a {
        self.children().filter_map(Value::as_block)
    }

    /// Returns true if the region, or a region inside it, contains a value.
    pub fn contains(self, value: Value<'_>) -> bool {
        self.position(value).is_some()
    }

    /// Returns the number of nodes that precede a value in the region, including nodes in inner regions; `None` if the region does not
    /// contain the value.
    ///
    /// A position indexes a table with one entry for each node of [`Region::nodes`].
    pub fn position(self, value: Value<'_>) -> Option<usize> {
        value.index().filter(|at| self.range().contains(at)).map(|at| at - self.range().start)
    }

    /// Iterates over all nodes in program order, including nodes in branches but not in nested functions.
    pub fn nodes_outside_functions(self) -> impl Iterator<Item = Value<'a>> + 'a {
        let mut function_end = 0;
        self.nodes().filter(move |value| {
            let outside = value.index().is_some_and(|at| at >= function_end);
            if outside && value.as_function().is_some() {
                function_end = value.end();
            }
            outside
        })
    }
}

impl Body {
    /// Iterates over all blocks, including blocks in branches and nested functions, outer blocks first.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.values_of(|kind| matches!(kind, kind::BLOCK | kind::DATAFLOW)).filter_map(Value::as_block)
    }

    /// Iterates over all dataflow blocks, outer blocks first.
    pub fn dataflow_blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.values_of(|kind| kind == kind::DATAFLOW).filter_map(Value::as_block)
    }

    /// Iterates over the sequences of blocks of the function, of nested functions and of branches, outer sequences first.
    pub fn sequences(&self) -> impl Iterator<Item = Region<'_>> {
        self.values_of(|kind| matches!(kind, kind::FUNC | kind::BRANCH)).filter_map(Value::as_sequence)
    }

    /// Returns true if only functions of the same module may call the function (`private=True`).
    pub fn is_private(&self) -> bool {
        self.root().has(flag::PRIVATE)
    }
}
