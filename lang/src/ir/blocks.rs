//! Blocks of bindings, and the sequences of blocks that functions and branches are made of.

use super::records::{flag, kind};
use super::storage::body_handle::Body;
use super::value::{Region, Value};

/// A block of bindings: a dataflow block, or a plain one.
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
    /// Its header, which is a value of the body like any other.
    pub fn header(self) -> Value<'a> {
        self.0
    }

    /// Whether it is a dataflow block.
    pub fn is_dataflow(self) -> bool {
        self.0.kind() == kind::DATAFLOW
    }

    /// The bindings directly in it.
    pub fn bindings(self) -> impl Iterator<Item = Value<'a>> + 'a {
        self.0.region().bindings()
    }

    /// The bindings that are visible after it: in a dataflow block those that `R.output` names, in a plain block all.
    pub fn outputs(self) -> impl Iterator<Item = Value<'a>> + 'a {
        self.bindings().filter(|binding| !binding.is_dataflow_var())
    }
}

impl<'a> Value<'a> {
    /// The value as the header of a block; `None` if it is something else.
    pub fn as_block(self) -> Option<Block<'a>> {
        matches!(self.kind(), kind::BLOCK | kind::DATAFLOW).then_some(Block(self))
    }

    /// Whether it is a variable that only its dataflow block sees (`DataflowVar` in TVM).
    #[inline]
    pub fn is_dataflow_var(self) -> bool {
        self.has(flag::INNER)
    }

    /// Whether it is an If.
    #[inline]
    pub fn is_if(self) -> bool {
        self.kind() == kind::IF
    }

    /// Whether it is a match_cast.
    #[inline]
    pub fn is_match_cast(self) -> bool {
        self.kind() == kind::MATCH_CAST
    }

    /// The sequence of blocks that a function or a branch of an If has (`SeqExpr` in TVM), by its header; `None` if the
    /// value is neither.
    pub fn as_sequence(self) -> Option<Region<'a>> {
        matches!(self.kind(), kind::FUNC | kind::BRANCH).then(|| self.region())
    }
}

impl<'a> Region<'a> {
    /// The blocks directly in it.
    pub fn blocks(self) -> impl Iterator<Item = Block<'a>> + 'a {
        self.children().filter_map(Value::as_block)
    }

    /// Whether a value is in it, or in what it contains.
    pub fn contains(self, value: Value<'_>) -> bool {
        self.position(value).is_some()
    }

    /// How many nodes precede a value in it, those of inner regions counted; `None` for a value that is not in it.
    ///
    /// A position indexes a table with one entry for each node of [`Region::nodes`].
    pub fn position(self, value: Value<'_>) -> Option<usize> {
        value.index().filter(|at| self.range().contains(at)).map(|at| at - self.range().start)
    }

    /// All nodes in program order, those of branches too, but not the content of functions that are nested here.
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
    /// All blocks, those of branches and nested functions too, an outer one before those in it.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.values_of(|kind| matches!(kind, kind::BLOCK | kind::DATAFLOW)).filter_map(Value::as_block)
    }

    /// All dataflow blocks, an outer one before those in it.
    pub fn dataflow_blocks(&self) -> impl Iterator<Item = Block<'_>> {
        self.values_of(|kind| kind == kind::DATAFLOW).filter_map(Value::as_block)
    }

    /// The sequences of blocks of the function, of functions in it, and of branches, an outer one before those in it.
    pub fn sequences(&self) -> impl Iterator<Item = Region<'_>> {
        self.values_of(|kind| matches!(kind, kind::FUNC | kind::BRANCH)).filter_map(Value::as_sequence)
    }

    /// Whether only functions of its module may call it (`private=True`).
    pub fn is_private(&self) -> bool {
        self.root().has(flag::PRIVATE)
    }
}
