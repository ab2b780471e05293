//! Converts a body to a tree.

use super::expr::{Buf, Ex, MAX_DEPTH, arithmetic, spec_of};
use super::{Access, Block, Buffer, Id, Iter, Loop, Node, Other, Root, Store, Tree, What};
use crate::depend::digits::Digits;
use crate::depend::facts::guards_domain_only;
use passhost_lang::PassError;
use passhost_lang::arith::{FIRST_ATOM, dtype_of, symbol_of};
use passhost_lang::ir::purity::can_be_left_out;
use passhost_lang::ir::records::{buffer_of, flag, kind, leaf};
use passhost_lang::ir::{Body, BodyKind, Expr, Stmt, Type, Value, loop_kind};
use passhost_lang::pass_error;
use passhost_lang::scalar::PrimOp;
use passhost_lang::walk::users::Users;
use std::collections::{HashMap, HashSet};

/// Maximum nesting depth of statements in a schedule.
const MAX_STATEMENTS: u32 = 256;

/// Returns the tree of a body.
pub(crate) fn tree(body: &Body) -> Result<Tree, PassError> {
    if body.kind() != BodyKind::PrimFunc {
        return Err(pass_error!("a schedule needs a PrimFunc, found a different kind of function"));
    }
    let root = Node { parent: None, kids: Vec::new(), what: What::Root(Root::default()), live: true };
    let next_var = FIRST_ATOM | u32::try_from(body.len()).unwrap_or(u32::MAX).min(FIRST_ATOM / 2);
    let tree = Tree { nodes: vec![root], buffers: Vec::new(), next_var, effects: HashSet::default() };
    let mut read = Read { tree, buffers: HashMap::default(), depth: 0, users: body.users() };
    read.root(body.root())?;
    let mut tree = read.tree;
    for block in tree.blocks_in(Tree::ROOT) {
        let (once, domain_only) = binding(&tree, block);
        let block = tree.block_mut(block)?;
        (block.bound_once, block.guards_domain_only) = (once, domain_only);
    }
    for (_, buffer) in tree.allocations() {
        tree.buffers[buffer.0 as usize].is_allocated = true;
    }
    // Loops that are provably safe to run concurrently must remain so.
    let at_once = |id: &Id| {
        tree.as_loop(*id).is_some_and(|of| of.kind == loop_kind::PARALLEL || of.kind == loop_kind::VECTORIZED)
    };
    let checked: Vec<Id> =
        tree.subtree(Tree::ROOT).into_iter().filter(at_once).filter(|id| tree.kind_is_right(*id).is_ok()).collect();
    for id in checked {
        tree.loop_mut(id)?.is_checked = true;
    }
    Ok(tree)
}

/// Returns two flags. The first is true if each iteration of the loops around a block is a different instance. The
/// second is true if the condition of the block excludes only values outside the ranges of its iterators.
fn binding(tree: &Tree, id: Id) -> (bool, bool) {
    let Some(block) = tree.as_block(id) else { return (false, false) };
    let values: Vec<_> = block.iters.iter().filter_map(|iter| iter.value.as_dim().cloned()).collect();
    let loops: Vec<_> = tree.loops_around(id).into_iter().filter_map(|id| tree.runs(id)).collect();
    let once = Digits::new(&values, &loops).told().into_iter().all(|told| told);
    (once, guards_domain_only(block, &mut tree.analyzer_at(id)))
}

struct Read {
    tree: Tree,
    /// The buffers of the body, by node number.
    buffers: HashMap<u32, Buf, foldhash::fast::FixedState>,
    depth: u32,
    users: Users,
}

impl Read {
    fn root(&mut self, root: Value<'_>) -> Result<(), PassError> {
        let mut statements = false;
        for child in root.region().children().filter(|child| !child.is_nested()) {
            statements |= child.stmt().is_some() || child.is_allocation();
            if child.is_block_buffer() {
                let buffer = self.buffer(child)?;
                self.root_mut().allocs.push(buffer);
            } else if child.kind() == kind::PARAM {
                if child.as_buffer_type().is_some() {
                    self.buffer(child)?;
                }
            } else {
                let id = self.statement(child)?;
                if statements {
                    self.tree.push(Tree::ROOT, id);
                } else {
                    self.tree.node_mut(id).parent = Some(Tree::ROOT);
                    self.root_mut().head.push(id);
                }
            }
        }
        Ok(())
    }

    fn root_mut(&mut self) -> &mut Root {
        match &mut self.tree.nodes[0].what {
            What::Root(root) => root,
            _ => unreachable!("the first node is the function"),
        }
    }

    /// Returns true if a view is the only user of the viewed buffer.
    fn is_alone(&self, view: Value<'_>) -> bool {
        let Some(data) = view.operand(0) else { return false };
        let Expr::BufferPart { buffer, part: 0 } = data.view() else { return false };
        self.users.only(buffer) == Some(data)
    }

    fn buffer(&mut self, value: Value<'_>) -> Result<Buf, PassError> {
        let Type::Buffer(ty) = value.ty().to_owned() else {
            return Err(pass_error!(at value, "expected a buffer"));
        };
        let ops = if value.kind() == kind::PARAM { Vec::new() } else { self.exprs(value)? };
        let of = value.node().filter(|node| node.kind == kind::BUFFER).map(|node| node.a);
        let is_view = match of {
            Some(buffer_of::DECL | buffer_of::VIEW) => !self.is_alone(value),
            Some(buffer_of::MATCH) => value.matched_region().is_some(),
            _ => false,
        };
        let buffer = Buf(self.tree.buffers.len() as u32);
        self.tree.buffers.push(Buffer {
            name: value.name().unwrap_or("buffer").to_string(),
            ty,
            spec: spec_of(value),
            ops,
            old: Some(value.word()),
            is_allocated: of == Some(buffer_of::BLOCK),
            is_view,
        });
        self.buffers.insert(value.word(), buffer);
        Ok(buffer)
    }

    /// Reads a statement or a declaration of a block, and everything in it.
    fn statement(&mut self, value: Value<'_>) -> Result<Id, PassError> {
        self.depth += 1;
        if self.depth > MAX_STATEMENTS {
            return Err(pass_error!(at value, "statements are nested deeper than {MAX_STATEMENTS}"));
        }
        let id = match value.stmt() {
            Some(Stmt::For { var, .. }) => self.for_loop(value, var)?,
            Some(Stmt::Block) => self.block(value)?,
            Some(Stmt::Store { .. }) => self.store(value)?,
            _ => self.other(value)?,
        };
        self.depth -= 1;
        Ok(id)
    }

    fn for_loop(&mut self, value: Value<'_>, var: Value<'_>) -> Result<Id, PassError> {
        let mut ops = self.exprs(value)?.into_iter();
        let (Some(min), Some(extent)) = (ops.next(), ops.next()) else {
            return Err(pass_error!(at value, "a loop without a range"));
        };
        let (step, var_of) = (ops.next(), self.exprs(var)?.into_iter().next());
        let Some(Stmt::For { kind, .. }) = value.stmt() else { return Err(pass_error!(at value, "expected a loop")) };
        let sym = symbol_of(var).ok_or_else(|| pass_error!(at var, "expected a variable"))?;
        let (name, kind) = (var.name().unwrap_or("i").to_string(), kind.to_string());
        let old = Some((spec_of(value), spec_of(var)));
        let id =
            self.tree.add(What::Loop(Loop { var: sym, name, min, extent, step, kind, old, var_of, is_checked: false }));
        for child in value.region().children().filter(|child| !child.is_nested() && *child != var) {
            let kid = self.statement(child)?;
            self.tree.push(id, kid);
        }
        Ok(id)
    }

    fn block(&mut self, value: Value<'_>) -> Result<Id, PassError> {
        let block = Block { spec: spec_of(value), ..Block::new(value.name().unwrap_or("")) };
        let id = self.tree.add(What::Block(Box::new(block)));
        for child in value.region().children().filter(|child| !child.is_nested()) {
            self.part_of_block(id, child)?;
        }
        Ok(id)
    }

    fn part_of_block(&mut self, id: Id, child: Value<'_>) -> Result<(), PassError> {
        match child.kind() {
            kind::ITER_VAR => {
                let [min, extent, value] = <[Ex; 3]>::try_from(self.exprs(child)?)
                    .map_err(|_| pass_error!(at child, "an iterator without a range"))?;
                let var = symbol_of(child).ok_or_else(|| pass_error!(at child, "expected a variable"))?;
                let name = child.name().unwrap_or("v").to_string();
                self.tree.block_mut(id)?.iters.push(Iter { var, name, spec: spec_of(child), min, extent, value });
            }
            kind::WHERE => self.tree.block_mut(id)?.condition = self.exprs(child)?.into_iter().next(),
            kind::ACCESS => {
                let access = self.access(child)?;
                self.tree.block_mut(id)?.accesses.push(access);
            }
            kind::ANNOTATE => self.tree.block_mut(id)?.annotate = Some((spec_of(child), self.exprs(child)?)),
            kind::INIT => {
                let init = self.tree.add(What::Init);
                for stmt in child.region().children().filter(|stmt| !stmt.is_nested()) {
                    let kid = self.statement(stmt)?;
                    self.tree.push(init, kid);
                }
                self.tree.node_mut(init).parent = Some(id);
                self.tree.block_mut(id)?.init = Some(init);
            }
            _ if child.is_block_buffer() => {
                let buffer = self.buffer(child)?;
                self.tree.block_mut(id)?.allocs.push(buffer);
            }
            _ if child.stmt().is_some() || child.is_allocation() => {
                let kid = self.statement(child)?;
                self.tree.push(id, kid);
            }
            _ => {
                let kid = self.statement(child)?;
                self.tree.node_mut(kid).parent = Some(id);
                self.tree.block_mut(id)?.head.push(kid);
            }
        }
        Ok(())
    }

    fn access(&mut self, value: Value<'_>) -> Result<Access, PassError> {
        let mut ops = self.exprs(value)?.into_iter();
        let Some(Ex::Buffer(buffer)) = ops.next() else { return Err(pass_error!(at value, "expected a buffer")) };
        let (mut ranges, mut rest) = (Vec::new(), ops);
        while let (Some(min), Some(extent)) = (rest.next(), rest.next()) {
            ranges.push((min, extent));
        }
        let spec = spec_of(value);
        Ok(Access { write: spec.a == 1, spec, buffer, ranges })
    }

    fn store(&mut self, value: Value<'_>) -> Result<Id, PassError> {
        let mut ops = self.exprs(value)?.into_iter();
        let (Some(Ex::Buffer(buffer)), Some(stored)) = (ops.next(), ops.next()) else {
            return Err(pass_error!(at value, "expected a buffer and a value"));
        };
        let store = Store { spec: spec_of(value), buffer, value: stored, indices: ops.collect() };
        Ok(self.tree.add(What::Store(store)))
    }

    fn other(&mut self, value: Value<'_>) -> Result<Id, PassError> {
        let buffer = value.as_buffer_type().map(|_| self.buffer(value)).transpose()?;
        let ops = self.exprs(value)?;
        let other = Other {
            spec: spec_of(value),
            ops,
            name: value.name().map(str::to_string),
            old: value.word(),
            is_region: value.has(flag::REGION),
            buffer,
            var: symbol_of(value),
        };
        let id = self.tree.add(What::Other(other));
        for child in value.region().children().filter(|child| !child.is_nested()) {
            let kid = self.statement(child)?;
            self.tree.push(id, kid);
        }
        Ok(id)
    }

    fn exprs(&mut self, value: Value<'_>) -> Result<Vec<Ex>, PassError> {
        value.operands().map(|operand| self.expr(operand, 0)).collect()
    }

    fn expr(&mut self, value: Value<'_>, depth: u32) -> Result<Ex, PassError> {
        if depth > MAX_DEPTH {
            return Err(pass_error!(at value, "an expression is nested deeper than {MAX_DEPTH}"));
        }
        if let Some(rec) = value.leaf() {
            let dim = value.dim().filter(|_| rec.kind == leaf::PRIM);
            return Ok(dim.map_or(Ex::Leaf(value.word()), Ex::Dim));
        }
        if let Some(buffer) = self.buffers.get(&value.word()) {
            return Ok(Ex::Buffer(*buffer));
        }
        if let Some(sym) = symbol_of(value) {
            return Ok(Ex::var(sym));
        }
        if !value.is_nested() {
            return Ok(Ex::Old(value.word()));
        }
        if value.has(flag::REGION) {
            return Err(pass_error!(at value, "reductions over pairs of values are not supported"));
        }
        if let Some(call) = value.as_call()
            && !call.op().is_some_and(can_be_left_out)
        {
            self.tree.effects.insert(call.callee().word());
        }
        let ops = value.operands().map(|operand| self.expr(operand, depth + 1)).collect::<Result<Vec<Ex>, _>>()?;
        let spec = spec_of(value);
        if spec.kind == kind::ARITH
            && let Some(op) = u16::try_from(spec.a).ok().and_then(PrimOp::of_code)
            && let made @ Ex::Dim(_) = arithmetic(op, dtype_of(value), ops.clone())
        {
            return Ok(made);
        }
        Ok(Ex::node(spec, ops))
    }
}
