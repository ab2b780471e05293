//! The origins of the nodes of a body: one row for each node, stored next to its name. Like the name, it is not part of the program.
//!
//! A host that needs origins numbers all nodes before a pass. Copies keep their number, and new nodes record the numbers of their sources.
//! After the pass, the host reads the origins and renumbers the nodes. A body without rows costs nothing, because bodies derived from it
//! have none either.
//!
//! A host limits the number of rewrites in the same way.

use crate::ir::SealError;
use crate::ir::records::{LEAF_BIT, NONE};
use crate::ir::storage::body_handle::Body;
use crate::ir::storage::sections::{RawView, Sections};
use std::sync::atomic::Ordering;

/// The bit of a row that marks a node made by a pass; the other bits are an offset into the lists.
const MADE: u32 = 1 << 31;

/// Maximum number of origins stored for one node.
const MOST: usize = 16;

/// The origin of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The origin is unknown.
    Unknown,
    /// The node has this number, or is a copy of a node with this number.
    Is(u32),
    /// The node was made from the nodes with these numbers.
    Made(&'a [u32]),
}

impl<'a> RawView<'a> {
    /// Returns the origin of a node.
    pub(crate) fn origin(&self, at: usize) -> Origin<'a> {
        match self.origins().get(at).copied().unwrap_or(NONE) {
            NONE => Origin::Unknown,
            row if row & MADE == 0 => Origin::Is(row),
            row => Origin::Made(self.origin_list(row & !MADE)),
        }
    }

    fn origin_list(&self, place: u32) -> &'a [u32] {
        let list = self.origin_lists().get(place as usize..).and_then(<[u32]>::split_first);
        list.and_then(|(len, rest)| rest.get(..*len as usize)).unwrap_or(&[])
    }

    /// Returns the number of a node, or the numbers of its sources.
    pub(crate) fn origin_numbers(&self, at: usize) -> &'a [u32] {
        match self.origin(at) {
            Origin::Unknown => &[],
            Origin::Is(_) => &self.origins()[at..=at],
            Origin::Made(from) => from,
        }
    }
}

impl Body {
    /// Returns the origin of the node at a position.
    pub fn origin(&self, at: usize) -> Origin<'_> {
        self.raw().origin(at)
    }

    /// Returns the same body with a number for each node, for hosts. Numbers must be below 2^31.
    ///
    /// ```
    /// use plugin_api::ir::origins::Origin;
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
    /// # b.end_function(a, ty);
    /// # let body = b.finish()?;
    /// // a = R.nn.relu(x), which is the fourth node
    /// let numbered = body.with_numbers(&(0..body.len() as u32).collect::<Vec<_>>());
    /// let a = numbered.lookup_binding("a").expect("`a`");
    /// let mut edit = numbered.edit();
    /// let (exp, x) = (edit.builder().op("relax.exp"), edit.v(a.as_call().and_then(|call| call.arg(0)).expect("`x`")));
    /// let ty = edit.builder().ty(&Type::tensor([2, 3], DType::F32));
    /// let new = edit.before(a).call(exp, &[x], AttrsId::NONE, ty, false, Some("b"));
    /// edit.replace(a, new);
    /// let changed = edit.finish()?;
    /// assert_eq!(changed.origin(3), Origin::Made(&[3]));
    /// assert_eq!(changed.origin(1), Origin::Is(1));
    /// assert!(changed.structural_eq(&changed.with_numbers(&[])));
    /// # Ok::<(), SealError>(())
    /// ```
    #[must_use]
    pub fn with_numbers(&self, numbers: &[u32]) -> Body {
        self.with_notes(numbers, &[], self.raw().limit())
    }

    /// Returns the same body with a limit on rewrites, for hosts. Edits of the body apply this many rewrites in total, in program order, and undo the
    /// others. A rewrite is a group of changes that depend on each other: a replaced value, its replacement, and the values that only the replaced
    /// value used. The limit is not visible to the code that edits the body. `None` removes the limit.
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
    /// # let c = b.call(relu, &[a], AttrsId::NONE, ty, false, Some("c"));
    /// # b.end();
    /// # b.end_function(c, ty);
    /// # let body = b.finish()?;
    /// // a = R.nn.relu(x)
    /// // c = R.nn.relu(a)
    /// let limited = body.limited_to(Some(1));
    /// let mut edit = limited.edit();
    /// for relu in limited.bindings() {
    ///     let x = edit.v(relu.as_call().and_then(|call| call.arg(0)).expect("an argument"));
    ///     edit.replace(relu, x);
    /// }
    /// let changed = edit.finish()?;
    /// assert_eq!(changed.bindings().filter_map(|value| value.name()).collect::<Vec<_>>(), ["c"]);
    /// assert_eq!((changed.rewrites(), changed.next_rewrite()), (Some(1), Some("c")));
    /// # Ok::<(), SealError>(())
    /// ```
    #[must_use]
    pub fn limited_to(&self, rewrites: Option<u32>) -> Body {
        let limit = rewrites.map(|left| [left, 0, NONE]);
        let raw = self.raw();
        self.with_notes(raw.origins(), raw.origin_lists(), limit.as_ref().map_or(&[], |limit| limit.as_slice()))
    }

    /// Returns the number of applied rewrites; `None` without a limit.
    pub fn rewrites(&self) -> Option<u32> {
        self.raw().limit().get(1).copied()
    }

    /// Returns the name of a value affected by the first rewrite beyond the limit.
    pub fn next_rewrite(&self) -> Option<&str> {
        self.raw().name_at(*self.raw().limit().get(2)?)
    }

    /// Returns the same body with the limit that an edit has updated.
    ///
    /// # Errors
    /// Never fails for a valid body.
    pub(crate) fn with_limit(&self, limit: &[u32]) -> Result<Body, SealError> {
        let raw = self.raw();
        crate::ir::storage::sealer::seal(&raw.with_notes(raw.origins(), raw.origin_lists(), limit))
    }

    /// Returns the body with the given origins and limit. The body is always made by the host's copy of this crate.
    fn with_notes(&self, origins: &[u32], lists: &[u32], limit: &[u32]) -> Body {
        let noted = self.raw().with_notes(origins, lists, limit);
        // Only notes change, so the body is still valid.
        let sealed = Body::seal_with(&noted, |_| Ok::<(), std::convert::Infallible>(()));
        let body = sealed.unwrap_or_else(|never| match never {});
        if let (Some(new), Some(old)) = (body.cached_hash(), self.cached_hash()) {
            new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        body
    }
}

impl Sections {
    fn set_origin(&mut self, at: usize, row: u32) {
        if self.origins.len() <= at {
            self.origins.resize(at + 1, NONE);
        }
        self.origins[at] = row;
    }

    /// Records that the node at a position was made from the nodes with these numbers.
    pub(crate) fn make_from(&mut self, at: usize, numbers: impl IntoIterator<Item = u32>) {
        let mut list: Vec<u32> = Vec::new();
        for number in numbers {
            if list.len() < MOST && !list.contains(&number) {
                list.push(number);
            }
        }
        let place = self.origin_lists.len() as u32;
        self.origin_lists.push(list.len() as u32);
        self.origin_lists.extend(list);
        self.set_origin(at, place | MADE);
    }

    /// Records that the node at a position is a copy of a node of another body.
    pub(crate) fn take_origin(&mut self, at: usize, from: &RawView<'_>, node: usize) {
        match from.origin(node) {
            Origin::Unknown => {}
            Origin::Is(number) => self.set_origin(at, number),
            Origin::Made(numbers) => self.make_from(at, numbers.iter().copied()),
        }
    }

    /// Sets the origins of nodes without a row, if other nodes have rows: the node is made from the origins of its first user, otherwise of
    /// its operands. `is_live` returns true for remaining nodes, and `resolved` maps an operand to its replacement.
    pub(crate) fn settle_origins(&mut self, is_live: impl Fn(usize) -> bool, resolved: impl Fn(u32) -> u32) {
        let n = self.nodes.len();
        if self.origins.is_empty() {
            return;
        }
        self.origins.resize(n, NONE);
        let mut users = vec![NONE; n];
        for at in (0..n).rev().filter(|at| is_live(*at)) {
            for op in self.nodes[at].ops(&self.operands).iter().map(|op| resolved(*op)).filter(|op| op & LEAF_BIT == 0)
            {
                users.get_mut(op as usize).into_iter().for_each(|user| *user = at as u32);
            }
        }
        for at in (0..n).rev().filter(|at| self.origins[*at] == NONE).collect::<Vec<_>>() {
            match self.origins.get(users[at] as usize).copied() {
                // Both nodes share the list.
                Some(row) if row != NONE && row & MADE != 0 => self.origins[at] = row,
                Some(row) if row != NONE => self.make_from(at, [row]),
                _ => {}
            }
        }
        for at in (0..n).filter(|at| self.origins[*at] == NONE).collect::<Vec<_>>() {
            let operands = self.nodes[at].ops(&self.operands).iter().map(|op| resolved(*op) as usize);
            let numbers: Vec<u32> = operands.flat_map(|op| self.raw().origin_numbers(op).to_vec()).take(MOST).collect();
            if !numbers.is_empty() {
                self.make_from(at, numbers);
            }
        }
    }
}
