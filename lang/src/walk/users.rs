//! The users of values, and lookup of values.

use crate::ir::records::{LEAF_BIT, NONE, flag, kind};
use crate::ir::{Body, Region, Value};

/// The users of each value of a body, in program order. Computed in one traversal; a query then takes time proportional to its result.
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
/// let users = body.users();
/// let (a, c) = (body.lookup_binding("a").expect("`a`"), body.lookup_binding("c").expect("`c`"));
/// assert_eq!(users.only(a), Some(c));
/// assert!(users.each(a).all(|user| user.as_call_to("relax.exp").is_some()));
/// # Ok::<(), SealError>(())
/// ```
pub struct Users {
    starts: Vec<u32>,
    users: Vec<u32>,
}

impl Users {
    /// Computes the users of the nodes of a body.
    pub fn of(body: &Body) -> Users {
        let nodes = body.raw().nodes().iter().map(|node| &body.raw().operands()[node.op_range()]);
        Users::in_order(body.len(), nodes, |op| op)
    }

    /// Computes the users of the nodes of a body, where users of an alias count as users of its value, and the alias does not. `origins`
    /// maps each alias to its value, and any other node to itself.
    pub(crate) fn of_origins(body: &Body, origins: &[u32]) -> Users {
        let raw = body.raw();
        let nodes = raw.nodes().iter().map(|node| match node.kind {
            kind::ALIAS => &[][..],
            _ => &raw.operands()[node.op_range()],
        });
        Users::in_order(body.len(), nodes, |op| origins.get(op as usize).copied().unwrap_or(op))
    }

    /// Computes users from the operands of each node in turn.
    fn in_order<'a>(len: usize, nodes: impl Iterator<Item = &'a [u32]> + Clone, origin: impl Fn(u32) -> u32) -> Users {
        let used = |operands: &'a [u32]| operands.iter().map(|op| origin(*op)).filter(|op| *op & LEAF_BIT == 0);
        let mut starts = vec![0u32; len + 1];
        for op in nodes.clone().flat_map(used) {
            starts[op as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut users = vec![0u32; starts[len] as usize];
        let mut next = starts.clone();
        for (i, operands) in nodes.enumerate() {
            for op in used(operands) {
                let at = &mut next[op as usize];
                users[*at as usize] = i as u32;
                *at += 1;
            }
        }
        Users { starts, users }
    }

    /// Returns the positions of the users of the node at a position; a user with two uses is listed twice.
    pub fn at(&self, index: usize) -> &[u32] {
        match (self.starts.get(index), self.starts.get(index + 1)) {
            (Some(start), Some(end)) => &self.users[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Returns the only user of a value; `None` if there is none or several.
    pub fn only<'a>(&self, value: Value<'a>) -> Option<Value<'a>> {
        match self.at(value.index()?) {
            [user] => Some(value.sibling(*user as usize)),
            _ => None,
        }
    }

    /// Iterates over the users of a value.
    pub fn each<'a>(&self, value: Value<'a>) -> impl Iterator<Item = Value<'a>> + use<'a, '_> {
        value.index().map_or(&[][..], |i| self.at(i)).iter().map(move |user| value.sibling(*user as usize))
    }
}

/// The region that directly contains each value of a body. Computed in one pass; each query takes constant time.
pub struct Regions<'b> {
    body: &'b Body,
    parents: Vec<u32>,
}

impl<'b> Regions<'b> {
    /// Returns the header of the function, block, dataflow block or branch around a value; `None` for the body's root and leaves.
    pub fn around(&self, value: Value<'_>) -> Option<Value<'b>> {
        let parent = *self.parents.get(value.index()?)?;
        (parent != NONE).then(|| self.body.value_at(parent as usize))
    }

    /// Returns the header of the dataflow block that directly contains a value.
    pub fn dataflow(&self, value: Value<'_>) -> Option<Value<'b>> {
        self.around(value).filter(|header| header.kind() == kind::DATAFLOW)
    }

    /// Returns true if two values are directly in the same block.
    pub fn same(&self, a: Value<'_>, b: Value<'_>) -> bool {
        self.around(a) == self.around(b)
    }
}

impl Body {
    /// Computes the region of each value: function, block, dataflow block or branch.
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
    /// let regions = body.regions();
    /// let [a, c] = ["a", "c"].map(|name| body.lookup_binding(name).expect("a binding"));
    /// assert!(!regions.same(a, c));
    /// assert!(regions.dataflow(a).is_none() && regions.dataflow(c).is_some());
    /// let block = regions.around(c).expect("the dataflow block");
    /// assert_eq!(regions.around(block), Some(body.root()));
    /// # Ok::<(), SealError>(())
    /// ```
    pub fn regions(&self) -> Regions<'_> {
        Regions { body: self, parents: self.parents() }
    }

    /// Computes the users of each value; if counts suffice, see [`Body::use_counts`].
    pub fn users(&self) -> Users {
        Users::of(self)
    }

    /// Returns the first binding or parameter named `name`. Names are hints and may repeat.
    pub fn lookup_binding(&self, name: &str) -> Option<Value<'_>> {
        self.values().find(|value| value.is_bound() && value.name() == Some(name))
    }
}

impl<'a> Region<'a> {
    /// Returns the values that are used in a region but defined outside it, in the order of first use: captured values of a nested
    /// function, or inputs of a branch or statement group.
    pub fn free_vars(self) -> Vec<Value<'a>> {
        let range = self.range();
        let mut found: Vec<Value<'a>> = Vec::new();
        let mut seen = hashbrown::HashTable::new();
        for operand in self.nodes().flat_map(Value::operands) {
            let Some(at) = operand.index().filter(|at| !range.contains(at) && operand.has(flag::BOUND)) else {
                continue;
            };
            let hash = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if seen.find(hash, |known: &usize| *known == at).is_none() {
                seen.insert_unique(hash, at, |at| (*at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                found.push(operand);
            }
        }
        found
    }
}

/// Returns the position of the statement of region `header` that contains the node at `at`: the node itself, the enclosing region
/// statement, or the statement in which it is nested. Returns a node outside the region unchanged.
pub(crate) fn statement_in(body: &Body, parents: &[u32], users: &Users, header: u32, mut at: usize) -> usize {
    let range = if header == NONE { 0..body.len() } else { body.value_at(header as usize).region().range() };
    if !range.contains(&at) {
        return at;
    }
    loop {
        if parents[at] != header {
            at = parents[at] as usize;
        } else if let (true, Some(user)) = (body.value_at(at).is_nested(), users.at(at).first()) {
            at = *user as usize;
        } else {
            return at;
        }
    }
}
