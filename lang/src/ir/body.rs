//! The contents of a body, and access to them.

use crate::ir::records::*;
use crate::ir::storage::body_handle::Body;
use crate::ir::storage::sections::RawView;
use crate::ir::value::{Function, Value};

/// The kind of the root of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyKind {
    /// Relax function.
    Function,
    /// TIR PrimFunc.
    PrimFunc,
    /// External function.
    Extern,
    /// Attributes of a module.
    Module,
    /// A kind of body unknown to this API.
    Other,
}

/// The number of uses of each value in a body, from [`Body::use_counts`].
#[derive(Clone, Debug)]
pub struct UseCounts(Vec<u32>);

impl UseCounts {
    /// Returns the number of times that a value is an operand; 0 for leaves, which are not counted.
    pub fn of(&self, value: Value<'_>) -> usize {
        value.index().and_then(|at| self.0.get(at)).map_or(0, |n| *n as usize)
    }
}

impl Body {
    /// Returns the kind of the root.
    pub fn kind(&self) -> BodyKind {
        match self.raw().nodes().first().map(|node| node.kind) {
            Some(kind::FUNC) => BodyKind::Function,
            Some(kind::PRIM_FUNC) => BodyKind::PrimFunc,
            Some(kind::EXTERN) => BodyKind::Extern,
            Some(kind::MODULE) => BodyKind::Module,
            _ => BodyKind::Other,
        }
    }

    /// Returns the root as a Relax function; `None` for any other root.
    pub fn function(&self) -> Option<Function<'_>> {
        self.root().as_function()
    }

    /// Returns the root node.
    pub fn root(&self) -> Value<'_> {
        Value { raw: self.raw(), op: 0 }
    }

    /// Returns the node at a position.
    pub fn value_at(&self, index: usize) -> Value<'_> {
        Value { raw: self.raw(), op: index as u32 }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.raw().nodes().len()
    }

    /// Returns true if the body is empty; a sealed body never is.
    pub fn is_empty(&self) -> bool {
        self.raw().nodes().is_empty()
    }

    /// Iterates over all nodes in program order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = Value<'_>> + ExactSizeIterator {
        (0..self.len()).map(move |i| self.value_at(i))
    }

    /// Iterates over all bindings in program order, including bindings in inner regions.
    pub fn bindings(&self) -> impl DoubleEndedIterator<Item = Value<'_>> {
        self.values().filter(|value| value.is_binding())
    }

    /// Iterates over the values of some kinds, in program order. Faster than testing every value if blocks and functions are rare.
    pub(crate) fn values_of(&self, wanted: impl Fn(u16) -> bool) -> impl Iterator<Item = Value<'_>> {
        let nodes = self.raw().nodes().iter().enumerate();
        nodes.filter(move |(_, node)| wanted(node.kind)).map(move |(at, _)| self.value_at(at))
    }

    /// Returns the number of bindings.
    pub fn n_bindings(&self) -> usize {
        self.raw().nodes().iter().filter(|n| n.has(flag::BOUND) && n.kind != kind::PARAM).count()
    }

    /// Returns true if a binding defines a scalar variable, which types may mention.
    pub fn has_scalars(&self) -> bool {
        !self.raw().var_names().is_empty() && self.bindings().any(|value| value.symbol().is_some())
    }

    /// Returns, for each node, the position of the header of the enclosing region; `u32::MAX` for the root. For most questions about
    /// nesting, use [`Body::regions`].
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
    ///
    /// # let mut b = BodyBuilder::new();
    /// # b.begin_function(0, AttrsId::NONE, None);
    /// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
    /// # let (x, relu) = (b.param("x", ty), b.op("relax.nn.relu"));
    /// # b.begin_block();
    /// # let a = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("a"));
    /// # b.end();
    /// # b.begin_dataflow();
    /// # let c = b.call(relu, &[a], AttrsId::NONE, ty, false, Some("c"));
    /// # b.end();
    /// # b.end_function(c, ty);
    /// # let body = b.finish()?;
    /// // def main(x: R.Tensor((2, 3), "float32")):
    /// //     a = R.nn.relu(x)
    /// //     with R.dataflow():
    /// //         c = R.nn.relu(a)
    /// //         R.output(c)
    /// //     return c
    /// let parents = body.parents();
    /// let c = body.lookup_binding("c").and_then(Value::index).expect("`c`");
    /// let block = body.value_at(parents[c] as usize);
    /// assert!(matches!(block.view(), Expr::Dataflow));
    /// assert_eq!(parents[0], u32::MAX);
    /// # Ok::<(), SealError>(())
    /// ```
    pub fn parents(&self) -> Vec<u32> {
        let mut parents = vec![NONE; self.len()];
        let mut open: Vec<(usize, u32)> = Vec::new();
        for value in self.values() {
            let at = value.index().unwrap_or(0);
            while open.last().is_some_and(|(end, _)| *end <= at) {
                open.pop();
            }
            parents[at] = open.last().map_or(NONE, |(_, header)| *header);
            if value.has(flag::REGION) {
                open.push((value.end(), at as u32));
            }
        }
        parents
    }

    /// Counts how often each value is an operand.
    pub fn use_counts(&self) -> UseCounts {
        let mut counts = vec![0u32; self.len()];
        for op in self.raw().operands() {
            if let Some(count) = counts.get_mut(*op as usize) {
                *count += 1;
            }
        }
        UseCounts(counts)
    }

    /// Returns true if the body may mention functions of the module. Most PrimFuncs do not, so they need not be searched.
    pub fn mentions_functions(&self) -> bool {
        self.raw().leaves().iter().any(|leaf| leaf.kind == leaf::GLOBAL_VAR)
    }

    /// Returns the name of a symbolic variable, as a hint.
    pub fn sym_name(&self, id: u32) -> Option<&str> {
        sym_name(self.raw(), id)
    }
}

/// Returns the name of a symbolic variable, as a hint.
pub(crate) fn sym_name<'a>(raw: &RawView<'a>, id: u32) -> Option<&'a str> {
    raw.name_at(*raw.var_names().get(id as usize)?)
}
