//! The graph of the bindings of dataflow blocks, and its post-dominators.

use crate::functions::weights::weight_params;
use crate::lowering::op_pattern::Pattern;
use plugin_api::prelude::*;
use plugin_api::walk::in_place::WrittenParams;

/// The bindings of the dataflow blocks of a function. Edges lead from a value to its users, which come later.
pub(super) struct DataflowGraph<'b> {
    nodes: Vec<Node<'b>>,
}

struct Node<'b> {
    binding: Value<'b>,
    pattern: Pattern,
    users: Vec<usize>,
}

impl<'b> DataflowGraph<'b> {
    pub(super) fn of(body: &'b Body, module: &Module, written: &WrittenParams) -> DataflowGraph<'b> {
        let mut graph = DataflowGraph { nodes: Vec::new() };
        let in_place = InPlace::in_module(body, written);
        let patterns = Patterns { module, weights: weight_params(body), in_place };
        let mut node_of: ValueMap<'b, usize> = ValueMap::new(body);
        let blocks = body.function().into_iter().flat_map(Function::blocks).filter_map(Value::as_block);
        for binding in blocks.filter(|block| block.is_dataflow()).flat_map(Block::bindings) {
            let node = graph.nodes.len();
            graph.nodes.push(Node { binding, pattern: patterns.of(binding), users: Vec::new() });
            each_source(binding, |source| {
                if let Some(source) = node_of.get(source) {
                    graph.nodes[*source].users.push(node);
                }
            });
            node_of.insert(binding, node);
        }
        graph
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn binding(&self, node: usize) -> Value<'b> {
        self.nodes[node].binding
    }

    pub(super) fn pattern(&self, node: usize) -> Pattern {
        self.nodes[node].pattern
    }

    /// Returns true if a value is used outside of its block.
    pub(super) fn leaves_block(&self, node: usize) -> bool {
        !self.nodes[node].binding.is_dataflow_var()
    }

    pub(super) fn users(&self, node: usize) -> &[usize] {
        &self.nodes[node].users
    }
}

/// Classifies how bindings access the elements of their operands.
struct Patterns<'m, 'b> {
    module: &'m Module,
    weights: ValueSet<'b>,
    in_place: InPlace<'b>,
}

impl<'b> Patterns<'_, 'b> {
    /// Returns the pattern of a binding. Two kinds of bindings never join a group, so they are opaque: bindings that
    /// take a weight out of a tuple, and bindings that write to a value that no call of a dataflow block creates.
    fn of(&self, binding: Value<'b>) -> Pattern {
        let made = |memory: Value<'b>| memory.is_dataflow_var() && memory.as_call().is_some();
        if !self.in_place.writes(binding).into_iter().all(made) {
            return Pattern::Opaque;
        }
        match binding.view() {
            Expr::Call(call) => called_prim_func(call).map_or(Pattern::Opaque, |callee| self.of_prim_func(callee)),
            Expr::TupleGet { tuple, .. } if !self.weights.contains(tuple) => Pattern::Injective,
            _ => Pattern::Opaque,
        }
    }

    fn of_prim_func(&self, callee: Value<'b>) -> Pattern {
        let body = callee.as_global().and_then(|name| self.module.get(name));
        let number = body.filter(|body| can_be_fused(body)).and_then(|body| body.root().attr("op_pattern")?.as_int());
        number.map_or(Pattern::Opaque, Pattern::of_number)
    }
}

/// Returns false if a PrimFunc stores elements outside schedulable blocks, which relax.FuseTIR cannot fuse.
fn can_be_fused(function: &Body) -> bool {
    let stores = || function.values().any(|value| matches!(value.stmt(), Some(Stmt::Store { .. })));
    function.root().attr("s_tir").is_some() || !stores()
}

/// Returns the function called by a call of a PrimFunc.
fn called_prim_func(call: Call<'_>) -> Option<Value<'_>> {
    let is_call_tir = matches!(call.op(), Some("relax.call_tir" | "relax.call_tir_inplace"));
    call.arg(0).filter(|callee| is_call_tir && callee.as_global().is_some())
}

/// Visits the named values that a binding uses. A match_cast is skipped, because it only inspects its value.
fn each_source<'b>(binding: Value<'b>, mut f: impl FnMut(Value<'b>)) {
    if !binding.is_match_cast() {
        binding.each_use(|_, _, used| f(used));
    }
}

/// The post-dominator tree. The parent of each node is the closest node on all paths from it.
pub(super) struct PostDominators {
    /// The nodes; the last one is the root.
    nodes: Vec<Dominated>,
}

/// A node in the tree of post-dominators.
#[derive(Clone, Copy)]
struct Dominated {
    parent: usize,
    depth: usize,
    /// Worst pattern on the paths to the parent.
    pattern: Pattern,
    /// An ancestor further up. Following these links finds common ancestors in a logarithmic number of steps.
    jump: usize,
    /// Worst pattern from this node to just below that ancestor.
    jump_pattern: Pattern,
}

impl PostDominators {
    pub(super) fn of(graph: &DataflowGraph<'_>) -> PostDominators {
        let top = graph.len();
        let above_all =
            Dominated { parent: top, depth: 0, pattern: Pattern::Opaque, jump: top, jump_pattern: Pattern::Opaque };
        let mut tree = PostDominators { nodes: vec![above_all; top + 1] };
        for node in (0..top).rev() {
            let (parent, pattern) =
                if graph.leaves_block(node) { (top, Pattern::Opaque) } else { tree.meeting(graph, node) };
            tree.nodes[node] = tree.below(parent, pattern);
        }
        tree
    }

    /// Returns the post-dominator of a node and the worst pattern on the paths to it; `None` if the node has no
    /// post-dominator.
    pub(super) fn of_node(&self, node: usize) -> Option<(usize, Pattern)> {
        let Dominated { parent, pattern, .. } = self.nodes[node];
        (parent + 1 < self.nodes.len()).then_some((parent, pattern))
    }

    /// Returns the node where the paths from a node meet, and the worst pattern on them.
    fn meeting(&self, graph: &DataflowGraph<'_>, node: usize) -> (usize, Pattern) {
        let users = graph.users(node);
        let top = self.nodes.len() - 1;
        let Some(first) = users.first() else { return (top, Pattern::Elementwise) };
        let mut worst = graph.pattern(*first);
        let mut meeting = *first;
        for user in &users[1..] {
            let (common, pattern) = self.common_ancestor(meeting, *user);
            meeting = common;
            worst = worst.max(pattern).max(graph.pattern(*user));
        }
        (meeting, worst)
    }

    /// Returns the closest common ancestor, and the worst pattern on the way to it.
    fn common_ancestor(&self, a: usize, b: usize) -> (usize, Pattern) {
        let (mut deep, mut high) = if self.nodes[a].depth < self.nodes[b].depth { (b, a) } else { (a, b) };
        let mut worst = Pattern::Elementwise;
        let up = |at: &mut usize, far: bool, worst: &mut Pattern| {
            let node = self.nodes[*at];
            *worst = (*worst).max(if far { node.jump_pattern } else { node.pattern });
            *at = if far { node.jump } else { node.parent };
        };
        while self.nodes[deep].depth > self.nodes[high].depth {
            let far = self.nodes[self.nodes[deep].jump].depth >= self.nodes[high].depth;
            up(&mut deep, far, &mut worst);
        }
        while deep != high {
            let far = self.nodes[deep].jump != self.nodes[high].jump;
            up(&mut deep, far, &mut worst);
            up(&mut high, far, &mut worst);
        }
        (deep, worst)
    }

    fn below(&self, parent: usize, pattern: Pattern) -> Dominated {
        let above = self.nodes[parent];
        let further = self.nodes[above.jump];
        let depth = above.depth + 1;
        // Choose jump lengths such that any ancestor is a logarithmic number of jumps away.
        if above.depth - further.depth == further.depth - self.nodes[further.jump].depth {
            let jump_pattern = pattern.max(above.jump_pattern).max(further.jump_pattern);
            return Dominated { parent, depth, pattern, jump: further.jump, jump_pattern };
        }
        Dominated { parent, depth, pattern, jump: parent, jump_pattern: pattern }
    }
}
