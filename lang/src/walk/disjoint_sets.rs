//! Disjoint sets of numbers (union-find), for grouping passes.

use std::collections::BTreeMap;

/// A partition of the numbers from 0 on into sets. One number of each set is its root, and serves as the key for facts about the set.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::walk::disjoint_sets::DisjointSets;
///
/// let mut sets = DisjointSets::of(4);
/// assert_eq!(sets.merge(0, 2), Some((0, 2)));
/// assert_eq!((sets.root(0), sets.root(2), sets.merge(2, 0)), (2, 2, None));
/// assert_eq!(sets.members(), [vec![1], vec![0, 2], vec![3]]);
/// ```
#[derive(Default)]
pub struct DisjointSets {
    /// For each number, the number into which it was merged; for a root, the root.
    parents: Vec<usize>,
}

impl DisjointSets {
    /// Creates the sets of the numbers below `n`, each in a separate set.
    pub fn of(n: usize) -> Self {
        DisjointSets { parents: (0..n).collect() }
    }

    /// Adds the next number, in a separate set.
    pub fn add(&mut self) -> usize {
        self.parents.push(self.parents.len());
        self.parents.len() - 1
    }

    /// Returns the root of the set that contains `number`.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn root(&mut self, number: usize) -> usize {
        let mut root = number;
        while self.parents[root] != root {
            root = self.parents[root];
        }
        // Path compression: the next search takes one step.
        let mut at = number;
        while self.parents[at] != root {
            at = std::mem::replace(&mut self.parents[at], root);
        }
        root
    }

    /// Merges the set of `from` into the set of `into`, whose root is kept. Returns both roots, or `None` if both numbers are already in
    /// the same set.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn merge(&mut self, from: usize, into: usize) -> Option<(usize, usize)> {
        let (from, into) = (self.root(from), self.root(into));
        self.parents[from] = into;
        (from != into).then_some((from, into))
    }

    /// Returns the sets, ordered by their roots; each in ascending order.
    pub fn members(&mut self) -> Vec<Vec<usize>> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for number in 0..self.parents.len() {
            members.entry(self.root(number)).or_default().push(number);
        }
        members.into_values().collect()
    }
}
