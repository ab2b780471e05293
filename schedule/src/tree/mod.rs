//! Loops, blocks and statements as a tree that primitives edit.

pub(crate) mod expr;
pub(crate) mod read;
pub(crate) mod write;

use expr::{Buf, Ex, Meanings, arithmetic};
use passhost_lang::PassError;
use passhost_lang::arith::Analyzer;
use passhost_lang::ir::records::{axis, buffer_of, flag, kind};
use passhost_lang::ir::{AttrsId, BufferType, DType, Dim, NodeSpec, Sym};
use passhost_lang::pass_error;
use passhost_lang::scalar::PrimOp;
use passhost_lang::tir::regions::linear;
use std::collections::HashSet;

/// The number of a node of the tree. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) u32);

/// A node and its position in the tree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: Option<Id>,
    /// The statements in the node, in order.
    pub(crate) kids: Vec<Id>,
    pub(crate) what: What,
    /// False for a node that was removed from the tree.
    pub(crate) live: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The function.
    Root(Root),
    Loop(Loop),
    Block(Box<Block>),
    /// The initialization of a reduction block.
    Init,
    Store(Store),
    Other(Other),
}

/// The function: the declarations that precede its statements, and its buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Root {
    pub(crate) head: Vec<Id>,
    pub(crate) allocs: Vec<Buf>,
}

#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) var: Sym,
    pub(crate) name: String,
    pub(crate) min: Ex,
    pub(crate) extent: Ex,
    pub(crate) step: Option<Ex>,
    /// `serial`, `parallel`, `vectorized`, `unroll` or `thread_binding`.
    pub(crate) kind: String,
    /// The original header and variable of the loop in the body.
    pub(crate) old: Option<(NodeSpec, NodeSpec)>,
    /// The free variable that the loop defines, if any.
    pub(crate) var_of: Option<Ex>,
    /// True if the iterations were proved safe to run concurrently; later primitives must preserve this.
    pub(crate) is_checked: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) spec: NodeSpec,
    pub(crate) iters: Vec<Iter>,
    pub(crate) condition: Option<Ex>,
    pub(crate) accesses: Vec<Access>,
    /// True if the accesses of the block are recomputed when the schedule is finished.
    pub(crate) found_again: bool,
    pub(crate) annotate: Option<(NodeSpec, Vec<Ex>)>,
    pub(crate) allocs: Vec<Buf>,
    /// Matched buffers and other declarations.
    pub(crate) head: Vec<Id>,
    pub(crate) init: Option<Id>,
    /// True if each iteration of the enclosing loops is a different instance.
    pub(crate) bound_once: bool,
    /// True if the condition of the block excludes only values outside the ranges of its iterators.
    pub(crate) guards_domain_only: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Iter {
    pub(crate) var: Sym,
    pub(crate) name: String,
    pub(crate) spec: NodeSpec,
    pub(crate) min: Ex,
    pub(crate) extent: Ex,
    pub(crate) value: Ex,
}

impl Access {
    /// Builds the access of one element.
    pub(crate) fn element(buffer: Buf, index: &[Dim], write: bool) -> Access {
        let ranges = index.iter().map(|index| (Ex::Dim(index.clone()), Ex::Dim(number(1, index)))).collect();
        Access { spec: NodeSpec::new(kind::ACCESS).a(write.into()), write, buffer, ranges }
    }

    /// Returns the same access as a read.
    pub(crate) fn as_read(&self) -> Access {
        Access { spec: NodeSpec { a: 0, ..self.spec }, write: false, ..self.clone() }
    }
}

impl Block {
    /// Creates a block without declarations.
    pub(crate) fn new(name: &str) -> Block {
        Block {
            name: name.to_string(),
            spec: NodeSpec::new(kind::SBLOCK).flags(flag::BOUND),
            iters: Vec::new(),
            condition: None,
            accesses: Vec::new(),
            found_again: false,
            annotate: None,
            allocs: Vec::new(),
            head: Vec::new(),
            init: None,
            bound_once: false,
            guards_domain_only: true,
        }
    }

    pub(crate) fn add_condition(&mut self, condition: Dim) {
        let condition = Ex::Dim(condition);
        self.condition = Some(match self.condition.take() {
            None => condition,
            Some(known) => arithmetic(PrimOp::And, DType::BOOL, vec![known, condition]),
        });
    }
}

impl Iter {
    pub(crate) fn is_spatial(&self) -> bool {
        self.spec.a == axis::SPATIAL
    }

    pub(crate) fn is_reduction(&self) -> bool {
        self.spec.a == axis::REDUCE
    }
}

/// A declared access to a region.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) spec: NodeSpec,
    pub(crate) write: bool,
    pub(crate) buffer: Buf,
    pub(crate) ranges: Vec<(Ex, Ex)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) spec: NodeSpec,
    pub(crate) buffer: Buf,
    pub(crate) value: Ex,
    /// The indices, followed by the predicate if there is one.
    pub(crate) indices: Vec<Ex>,
}

/// A statement that the schedule does not analyse, and the statements in it.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    pub(crate) spec: NodeSpec,
    pub(crate) ops: Vec<Ex>,
    pub(crate) name: Option<String>,
    /// The original node of the body.
    pub(crate) old: u32,
    pub(crate) is_region: bool,
    /// The buffer or variable that the statement defines.
    pub(crate) buffer: Option<Buf>,
    pub(crate) var: Option<Sym>,
}

/// A buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) ty: BufferType,
    pub(crate) spec: NodeSpec,
    pub(crate) ops: Vec<Ex>,
    /// The original node of the body.
    pub(crate) old: Option<u32>,
    /// True if the function or a block allocates the buffer.
    pub(crate) is_allocated: bool,
    /// True if the buffer may share memory with another buffer.
    pub(crate) is_view: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) buffers: Vec<Buffer>,
    /// The number of the last variable that was created.
    pub(crate) next_var: u32,
    /// Leaves whose calls have effects.
    pub(crate) effects: HashSet<u32, foldhash::fast::FixedState>,
}

impl Tree {
    pub(crate) const ROOT: Id = Id(0);

    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// Creates a node that is not yet part of the tree.
    pub(crate) fn add(&mut self, what: What) -> Id {
        self.nodes.push(Node { parent: None, kids: Vec::new(), what, live: true });
        Id(self.nodes.len() as u32 - 1)
    }

    pub(crate) fn fresh(&mut self, dtype: DType) -> Sym {
        self.next_var += 1;
        Sym { id: self.next_var, dtype }
    }

    /// Returns the statements that allocate a buffer without further attributes, and are direct children of the function or a
    /// block.
    pub(crate) fn allocations(&self) -> Vec<(Id, Buf)> {
        let plain = |id: Id| {
            let What::Other(other) = &self.node(id).what else { return None };
            let is_alloc = other.spec.kind == kind::BUFFER && other.spec.a == buffer_of::ALLOC;
            let is_plain = is_alloc && other.spec.attrs == AttrsId::NONE;
            let parent = self.node(id).parent.map(|parent| &self.node(parent).what);
            other.buffer.filter(|_| is_plain && matches!(parent, Some(What::Root(_) | What::Block(_))))
        };
        self.subtree(Tree::ROOT).into_iter().filter_map(|id| Some((id, plain(id)?))).collect()
    }

    /// Turns allocation statements into allocations of the enclosing block or function, so that blocks can be executed earlier.
    pub(crate) fn with_allocations_first(&self) -> Tree {
        let mut tree = self.clone();
        for (id, buffer) in self.allocations() {
            let Some(parent) = self.node(id).parent else { continue };
            tree.detach(id);
            tree.kill(id);
            tree.buffers[buffer.0 as usize].spec.a = buffer_of::BLOCK;
            match &mut tree.node_mut(parent).what {
                What::Root(root) => root.allocs.push(buffer),
                What::Block(block) => block.allocs.push(buffer),
                _ => {}
            }
        }
        tree
    }

    pub(crate) fn buffer(&self, buffer: Buf) -> &Buffer {
        &self.buffers[buffer.0 as usize]
    }

    pub(crate) fn as_loop(&self, id: Id) -> Option<&Loop> {
        match &self.node(id).what {
            What::Loop(of) => Some(of),
            _ => None,
        }
    }

    pub(crate) fn as_block(&self, id: Id) -> Option<&Block> {
        match &self.node(id).what {
            What::Block(of) => Some(of),
            _ => None,
        }
    }

    /// Returns a mutable loop; the node must be a loop.
    pub(crate) fn loop_mut(&mut self, id: Id) -> Result<&mut Loop, PassError> {
        match &mut self.node_mut(id).what {
            What::Loop(of) => Ok(of),
            _ => Err(pass_error!("the node is no longer a loop")),
        }
    }

    pub(crate) fn block_mut(&mut self, id: Id) -> Result<&mut Block, PassError> {
        match &mut self.node_mut(id).what {
            What::Block(of) => Ok(of),
            _ => Err(pass_error!("the node is no longer a block")),
        }
    }

    /// Replaces a node by other nodes, which become children of its parent.
    pub(crate) fn replace(&mut self, id: Id, with: &[Id]) {
        let Some(parent) = self.node(id).parent else { return };
        let Some(at) = self.node(parent).kids.iter().position(|kid| *kid == id) else { return };
        self.node_mut(parent).kids.splice(at..=at, with.iter().copied());
        self.node_mut(id).parent = None;
        with.iter().for_each(|new| self.node_mut(*new).parent = Some(parent));
    }

    /// Inserts a node before a child of another node, or at the end of that node.
    pub(crate) fn insert(&mut self, parent: Id, at: usize, new: Id) {
        self.node_mut(parent).kids.insert(at, new);
        self.node_mut(new).parent = Some(parent);
    }

    pub(crate) fn push(&mut self, parent: Id, new: Id) {
        let at = self.node(parent).kids.len();
        self.insert(parent, at, new);
    }

    /// Marks a node and everything in it as removed from the tree.
    pub(crate) fn kill(&mut self, id: Id) {
        for id in self.subtree(id) {
            self.node_mut(id).live = false;
        }
    }

    /// Removes a node from the tree, and each enclosing loop that becomes empty.
    pub(crate) fn detach(&mut self, id: Id) {
        let mut at = id;
        while let Some(parent) = self.node(at).parent {
            self.node_mut(parent).kids.retain(|kid| *kid != at);
            self.node_mut(at).parent = None;
            if at != id {
                self.node_mut(at).live = false;
            }
            if !(self.node(parent).kids.is_empty() && self.as_loop(parent).is_some()) {
                break;
            }
            at = parent;
        }
    }

    /// Returns a node and everything in it, in program order: the declarations and the initialization of a block precede its
    /// statements.
    pub(crate) fn subtree(&self, id: Id) -> Vec<Id> {
        let (mut out, mut work) = (Vec::new(), vec![id]);
        while let Some(id) = work.pop() {
            out.push(id);
            let node = self.node(id);
            work.extend(node.kids.iter().rev());
            match &node.what {
                What::Block(block) => work.extend(block.init.iter().chain(block.head.iter().rev())),
                What::Root(root) => work.extend(root.head.iter().rev()),
                _ => {}
            }
        }
        out
    }

    /// Returns the blocks in a node, in program order.
    pub(crate) fn blocks_in(&self, id: Id) -> Vec<Id> {
        self.subtree(id).into_iter().filter(|id| self.as_block(*id).is_some()).collect()
    }

    /// Iterates over the enclosing nodes, the innermost first.
    pub(crate) fn around(&self, id: Id) -> impl Iterator<Item = Id> {
        std::iter::successors(self.node(id).parent, |id| self.node(*id).parent)
    }

    pub(crate) fn is_under(&self, id: Id, outer: Id) -> bool {
        id == outer || self.around(id).any(|around| around == outer)
    }

    /// Returns the block, or the function, that contains a node.
    pub(crate) fn scope_of(&self, id: Id) -> Id {
        self.around(id).find(|around| self.as_block(*around).is_some()).unwrap_or(Tree::ROOT)
    }

    /// Returns the loops around a node within its scope, the outermost first.
    pub(crate) fn loops_around(&self, id: Id) -> Vec<Id> {
        let in_scope = self.around(id).take_while(|around| self.as_block(*around).is_none());
        let mut loops: Vec<Id> = in_scope.filter(|around| self.as_loop(*around).is_some()).collect();
        loops.reverse();
        loops
    }

    /// Returns the loops around a node, from `outer` (inclusive) inwards.
    pub(crate) fn loops_between(&self, outer: Id, id: Id) -> Vec<Id> {
        self.loops_around(id).into_iter().filter(|at| self.is_under(*at, outer)).collect()
    }

    /// Returns the child of a node that contains another node.
    pub(crate) fn child_towards(&self, outer: Id, id: Id) -> Option<Id> {
        std::iter::once(id).chain(self.around(id)).find(|at| self.node(*at).parent == Some(outer))
    }

    /// Returns an analyser with the ranges of all loops around a node, and of the iterators of enclosing blocks.
    pub(crate) fn analyzer_at(&self, id: Id) -> Analyzer {
        let mut analyzer = Analyzer::new();
        for at in self.around(id) {
            match &self.node(at).what {
                What::Loop(of) => bind(&mut analyzer, of.var, &of.min, &of.extent),
                What::Block(of) => of.iters.iter().for_each(|i| bind(&mut analyzer, i.var, &i.min, &i.extent)),
                _ => {}
            }
        }
        analyzer
    }

    /// Replaces variables by values in a node and everything in it.
    pub(crate) fn substitute(&mut self, id: Id, with: &Meanings) {
        for id in self.subtree(id) {
            self.map_own(id, &mut |ex| *ex = ex.substituted(with));
        }
    }

    /// Calls `f` with each expression of the node itself, not of the nodes in it.
    pub(crate) fn map_own(&mut self, id: Id, f: &mut dyn FnMut(&mut Ex)) {
        match &mut self.node_mut(id).what {
            What::Root(_) | What::Init => {}
            What::Loop(of) => {
                f(&mut of.min);
                f(&mut of.extent);
                of.step.iter_mut().for_each(f);
            }
            What::Block(block) => map_block(block, f),
            What::Store(store) => {
                f(&mut store.value);
                store.indices.iter_mut().for_each(f);
            }
            What::Other(other) => other.ops.iter_mut().for_each(f),
        }
    }

    /// Returns the expressions of the node itself, not of the nodes in it.
    pub(crate) fn own(&self, id: Id) -> Vec<&Ex> {
        match &self.node(id).what {
            What::Root(_) | What::Init => Vec::new(),
            What::Loop(of) => [&of.min, &of.extent].into_iter().chain(&of.step).collect(),
            What::Block(block) => {
                let iters = block.iters.iter().flat_map(|iter| [&iter.min, &iter.extent, &iter.value]);
                let ranges = block.accesses.iter().flat_map(|access| &access.ranges).flat_map(|(a, b)| [a, b]);
                let annotated = block.annotate.iter().flat_map(|(_, ops)| ops);
                iters.chain(&block.condition).chain(ranges).chain(annotated).collect()
            }
            What::Store(store) => std::iter::once(&store.value).chain(&store.indices).collect(),
            What::Other(other) => other.ops.iter().collect(),
        }
    }

    /// Returns the name of a loop for messages.
    pub(crate) fn loop_name(&self, id: Id) -> &str {
        self.as_loop(id).map_or("_", |of| &of.name)
    }

    pub(crate) fn block_name(&self, id: Id) -> &str {
        self.as_block(id).map_or("_", |of| &of.name)
    }
}

fn map_block(block: &mut Block, f: &mut dyn FnMut(&mut Ex)) {
    for iter in &mut block.iters {
        f(&mut iter.min);
        f(&mut iter.extent);
        f(&mut iter.value);
    }
    block.condition.iter_mut().for_each(&mut *f);
    for (min, extent) in block.accesses.iter_mut().flat_map(|access| &mut access.ranges) {
        f(min);
        f(extent);
    }
    block.annotate.iter_mut().flat_map(|(_, ops)| ops).for_each(f);
}

fn bind(analyzer: &mut Analyzer, var: Sym, min: &Ex, extent: &Ex) {
    if let (Some(min), Some(extent)) = (min.as_dim(), extent.as_dim()) {
        analyzer.bind_range(var, min, extent);
    }
}

/// Adds a number to an expression.
pub(crate) fn plus(dim: &Dim, more: i64) -> Dim {
    match more {
        0.. => linear::add(dim.clone(), number(more, dim)),
        _ => linear::sub(dim.clone(), number(-more, dim)),
    }
}

/// Returns a constant with the data type of another expression.
pub(crate) fn number(value: i64, like: &Dim) -> Dim {
    Dim::int(value, like.dtype())
}
