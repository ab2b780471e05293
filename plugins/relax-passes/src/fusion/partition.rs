//! Determines which bindings of a dataflow graph are fused.

use super::dataflow_graph::{DataflowGraph, PostDominators};
use crate::lowering::op_pattern::Pattern;
use plugin_api::walk::disjoint_sets::DisjointSets;

/// Returns the groups of two or more nodes, each in program order. `most` is the maximum number of nodes in a group.
pub(super) fn partition(graph: &DataflowGraph<'_>, most: usize) -> Vec<Vec<usize>> {
    let dominators = PostDominators::of(graph);
    let mut fusion = Fusion::of(graph, most);
    for phase in [Phase::Anchors, Phase::Injective] {
        for node in 0..graph.len() {
            if let Some((sink, paths)) = dominators.of_node(node) {
                fusion.fuse(node, sink, paths, phase);
            }
        }
    }
    fusion.groups()
}

/// The phases of fusion: matrix products and similar operators are fused before injective nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Anchors,
    Injective,
}

/// The nodes of the graph, in disjoint sets of fused nodes.
struct Fusion<'g, 'b> {
    graph: &'g DataflowGraph<'b>,
    most: usize,
    sets: DisjointSets,
    /// Number of nodes of each set, stored at its root.
    size: Vec<usize>,
    /// Pattern of each set, stored at its root.
    pattern: Vec<Pattern>,
    /// For each node, the number of the last walk that visited it.
    seen: Vec<usize>,
    walks: usize,
}

impl<'g, 'b> Fusion<'g, 'b> {
    fn of(graph: &'g DataflowGraph<'b>, most: usize) -> Fusion<'g, 'b> {
        let n = graph.len();
        let pattern = (0..n).map(|node| graph.pattern(node)).collect();
        Fusion { graph, most, sets: DisjointSets::of(n), size: vec![1; n], pattern, seen: vec![0; n], walks: 0 }
    }

    /// Merges a node, and all nodes up to its post-dominator, into the group of the post-dominator, if the patterns
    /// allow this. `paths` is the worst pattern on the paths between the two.
    fn fuse(&mut self, node: usize, sink: usize, paths: Pattern, phase: Phase) {
        let (between_at_most, sink_at_most) = match self.pattern[node] {
            Pattern::Fusable if phase == Phase::Anchors && paths == Pattern::Elementwise => {
                (Pattern::Broadcast, Pattern::Broadcast)
            }
            Pattern::Elementwise | Pattern::Broadcast if paths <= Pattern::Reduction => {
                (Pattern::Injective, Pattern::Fusable)
            }
            Pattern::Injective if phase == Phase::Injective => (Pattern::Injective, Pattern::Injective),
            _ => return,
        };
        let target = self.sets.root(sink);
        if self.sets.root(node) == target || self.pattern[target] > sink_at_most {
            return;
        }
        let Some(between) = self.up_to(node, sink) else { return };
        if between[1..].iter().all(|inner| {
            let root = self.sets.root(*inner);
            self.pattern[root] <= between_at_most
        }) {
            between.into_iter().for_each(|inner| self.merge(inner, sink));
        }
    }

    /// Returns a node and all nodes on paths from it to its post-dominator (exclusive), or `None` if the group would be
    /// too large.
    fn up_to(&mut self, node: usize, sink: usize) -> Option<Vec<usize>> {
        self.walks += 1;
        let target = self.sets.root(sink);
        let mut size = self.size[target];
        let mut found = Vec::new();
        let mut work = vec![node];
        while let Some(node) = work.pop() {
            if node == sink || std::mem::replace(&mut self.seen[node], self.walks) == self.walks {
                continue;
            }
            size += self.size[node];
            if size > self.most {
                return None;
            }
            found.push(node);
            work.extend(self.graph.users(node));
        }
        Some(found)
    }

    fn merge(&mut self, node: usize, sink: usize) {
        let Some((from, into)) = self.sets.merge(node, sink) else { return };
        self.size[into] += self.size[from];
        if self.pattern[from] == Pattern::Fusable {
            self.pattern[into] = Pattern::Fusable;
        }
    }

    fn groups(mut self) -> Vec<Vec<usize>> {
        let mut groups = self.sets.members();
        groups.retain(|group| group.len() > 1);
        groups
    }
}
