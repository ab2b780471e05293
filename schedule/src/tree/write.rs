//! Converts a tree to a body.

use super::expr::{Buf, Ex};
use super::{Access, Block, Id, Loop, Other, Store, Tree, What};
use passhost_lang::PassError;
use passhost_lang::arith::value_of_atom;
use passhost_lang::ir::records::{buffer_of, flag, kind};
use passhost_lang::ir::{Attr, AttrsId, Body, DType, Dim, NodeSpec, Sym, Type, TypeId, V, Value, loop_kind};
use passhost_lang::rewrite::Edit;
use passhost_lang::tir::regions::complete_regions;
use passhost_lang::{bail, pass_error};
use std::collections::HashMap;

type Map<K, T> = HashMap<K, T, foldhash::fast::FixedState>;

/// Returns the body `old` with the statements of `tree`.
pub(crate) fn body(tree: &Tree, old: &Body) -> Result<Body, PassError> {
    let mut write = Write::new(tree, old);
    write.head()?;
    write.statements()?;
    write.finish(old)
}

/// Returns the body `old` with the statements of the first of `versions` whose condition holds, or else of `tree`.
/// Declarations before the statements are those of `tree`.
pub(crate) fn versions(versions: &[(Dim, Tree)], tree: &Tree, old: &Body) -> Result<Body, PassError> {
    let mut write = Write::new(tree, old);
    write.head()?;
    for (condition, version) in versions {
        let condition = write.dim(condition)?;
        write.edit.open(NodeSpec::new(kind::COND), &[condition], None);
        write.edit.open(NodeSpec::new(kind::SCOPE), &[], None);
        write.version(version)?;
        write.edit.close();
        write.edit.open(NodeSpec::new(kind::SCOPE), &[], None);
    }
    write.statements()?;
    for _ in versions {
        write.edit.close();
        write.edit.close();
    }
    write.finish(old)
}

struct Write<'t, 'b> {
    tree: &'t Tree,
    edit: Edit<'b>,
    buffers: Map<Buf, V>,
    vars: Map<u32, V>,
    /// The current values of nodes of the body.
    now: Map<u32, V>,
    /// True if the accesses of a block are to be computed.
    completes: bool,
}

impl<'t, 'b> Write<'t, 'b> {
    fn new(tree: &'t Tree, old: &'b Body) -> Write<'t, 'b> {
        let mut edit = old.edit();
        let mut last = None;
        for child in old.root().region().children() {
            if child.kind() == kind::PARAM {
                last = Some(child);
            } else {
                edit.discard(child);
            }
        }
        match last {
            Some(param) => edit.after(param),
            None => edit.at_start(old.root()),
        };
        Write { tree, edit, buffers: Map::default(), vars: Map::default(), now: Map::default(), completes: false }
    }

    fn finish(mut self, old: &Body) -> Result<Body, PassError> {
        if self.completes {
            self.edit.complete_with(complete_regions);
        }
        let body = self.edit.finish()?;
        Ok(if body.structural_eq(old) { old.clone() } else { body })
    }

    /// Writes the declarations that precede the statements.
    fn head(&mut self) -> Result<(), PassError> {
        let tree = self.tree;
        for (at, buffer) in tree.buffers.iter().enumerate() {
            let param = buffer.old.filter(|word| Value::of_word(self.edit.old(), *word).kind() == kind::PARAM);
            if let Some(word) = param {
                let v = self.edit.v(Value::of_word(self.edit.old(), word));
                self.buffers.insert(Buf(at as u32), v);
            }
        }
        let node = tree.node(Tree::ROOT);
        let What::Root(root) = &node.what else { return Ok(()) };
        self.all(&root.head)
    }

    fn statements(&mut self) -> Result<(), PassError> {
        let tree = self.tree;
        let node = tree.node(Tree::ROOT);
        let What::Root(root) = &node.what else { return Ok(()) };
        for buffer in &root.allocs {
            self.alloc(*buffer)?;
        }
        self.all(&node.kids)
    }

    /// Writes the statements of another tree with the same declarations.
    fn version(&mut self, tree: &'t Tree) -> Result<(), PassError> {
        let defined = (self.buffers.clone(), self.vars.clone(), self.now.clone());
        let own = std::mem::replace(&mut self.tree, tree);
        self.statements()?;
        self.tree = own;
        (self.buffers, self.vars, self.now) = defined;
        Ok(())
    }

    fn all(&mut self, ids: &[Id]) -> Result<(), PassError> {
        ids.iter().try_for_each(|id| self.statement(*id))
    }

    fn statement(&mut self, id: Id) -> Result<(), PassError> {
        let tree = self.tree;
        let node = tree.node(id);
        match &node.what {
            What::Root(_) => Ok(()),
            What::Loop(of) => self.for_loop(of, &node.kids),
            What::Block(of) => self.block(of, &node.kids),
            What::Init => {
                self.edit.open(NodeSpec::new(kind::INIT), &[], None);
                self.all(&node.kids)?;
                self.edit.close();
                Ok(())
            }
            What::Store(store) => self.store(store),
            What::Other(other) => self.other(other, &node.kids),
        }
    }

    fn for_loop(&mut self, of: &Loop, kids: &[Id]) -> Result<(), PassError> {
        let mut ops = vec![self.expr(&of.min)?, self.expr(&of.extent)?];
        if let Some(step) = &of.step {
            ops.push(self.expr(step)?);
        }
        let attrs = self.loop_attrs(of);
        self.edit.open(NodeSpec::new(kind::FOR).attrs(attrs), &ops, None);
        let var_of: Vec<V> = of.var_of.iter().map(|var| self.expr(var)).collect::<Result<_, _>>()?;
        let ty = self.scalar(of.var.dtype);
        let spec = of.old.map_or(NodeSpec::new(kind::LOOP_VAR).flags(flag::INNER).ty(ty), |(_, var)| var);
        let v = self.edit.node(spec, &var_of, Some(&of.name));
        self.vars.insert(of.var.id, v);
        self.all(kids)?;
        self.edit.close();
        Ok(())
    }

    /// Returns the attributes of a loop: the original attributes, with the current kind.
    fn loop_attrs(&mut self, of: &Loop) -> AttrsId {
        let old = of.old.map_or(AttrsId::NONE, |(header, _)| header.attrs);
        let body = self.edit.old();
        let had = old.of(body);
        let (kind, mut entries) = (had.get("kind").map(|attr| attr.to_owned()), Vec::new());
        let is = match &kind {
            Some(Attr::Str(kind)) => kind.as_str(),
            _ => loop_kind::SERIAL,
        };
        if is == of.kind {
            return old;
        }
        entries.extend(had.iter().filter(|(key, _)| *key != "kind").map(|(key, attr)| (key, attr.to_owned())));
        if of.kind != loop_kind::SERIAL {
            entries.push(("kind", Attr::from(of.kind.as_str())));
        }
        if entries.is_empty() { AttrsId::NONE } else { self.edit.builder().attrs(entries) }
    }

    fn block(&mut self, of: &Block, kids: &[Id]) -> Result<(), PassError> {
        let mut spec = of.spec;
        if of.found_again {
            self.completes = true;
            let unsaid = ["no_reads", "no_writes"].map(|key| (key, Attr::Bool(true)));
            spec.attrs = self.edit.builder().attrs(unsaid);
        }
        self.edit.open(spec, &[], Some(&of.name));
        for iter in &of.iters {
            let ops = [self.expr(&iter.min)?, self.expr(&iter.extent)?, self.expr(&iter.value)?];
            let ty = if iter.spec.ty == TypeId::NONE { self.scalar(iter.var.dtype) } else { iter.spec.ty };
            let v = self.edit.node(iter.spec.ty(ty), &ops, Some(&iter.name));
            self.vars.insert(iter.var.id, v);
        }
        if let Some(condition) = &of.condition {
            let condition = self.expr(condition)?;
            self.edit.node(NodeSpec::new(kind::WHERE).flags(flag::IMPURE), &[condition], None);
        }
        let (free, head): (Vec<Id>, Vec<Id>) = of.head.iter().partition(|id| is_free_buffer(self.tree, **id));
        // These buffers come first, because regions may mention them.
        self.all(&free)?;
        if !of.found_again {
            of.accesses.iter().try_for_each(|access| self.access(access))?;
        }
        if let Some((spec, ops)) = &of.annotate {
            let ops = self.exprs(ops)?;
            self.edit.node(*spec, &ops, None);
        }
        for buffer in &of.allocs {
            self.alloc(*buffer)?;
        }
        self.all(&head)?;
        if let Some(init) = of.init {
            self.statement(init)?;
        }
        self.all(kids)?;
        self.edit.close();
        Ok(())
    }

    fn access(&mut self, access: &Access) -> Result<(), PassError> {
        let mut ops = vec![self.buffer(access.buffer)?];
        for (min, extent) in &access.ranges {
            ops.extend([self.expr(min)?, self.expr(extent)?]);
        }
        self.edit.node(access.spec, &ops, None);
        Ok(())
    }

    fn store(&mut self, store: &Store) -> Result<(), PassError> {
        let mut ops = vec![self.buffer(store.buffer)?, self.expr(&store.value)?];
        ops.extend(self.exprs(&store.indices)?);
        self.edit.node(store.spec, &ops, None);
        Ok(())
    }

    fn other(&mut self, of: &Other, kids: &[Id]) -> Result<(), PassError> {
        let ops = self.exprs(&of.ops)?;
        let name = of.name.as_deref();
        let v = if of.is_region { self.edit.open(of.spec, &ops, name) } else { self.edit.node(of.spec, &ops, name) };
        self.now.insert(of.old, v);
        of.buffer.map(|buffer| self.buffers.insert(buffer, v));
        of.var.map(|var| self.vars.insert(var.id, v));
        self.all(kids)?;
        if of.is_region {
            self.edit.close();
        }
        Ok(())
    }

    fn alloc(&mut self, buffer: Buf) -> Result<(), PassError> {
        let tree = self.tree;
        let of = tree.buffer(buffer);
        let ops = self.exprs(&of.ops)?;
        let ty = self.edit.builder().ty(&Type::Buffer(of.ty.clone()));
        let v = self.edit.node(of.spec.ty(ty), &ops, Some(&of.name));
        self.buffers.insert(buffer, v);
        Ok(())
    }

    fn buffer(&self, buffer: Buf) -> Result<V, PassError> {
        let unknown = || pass_error!("the buffer `{}` is used outside its scope", self.tree.buffer(buffer).name);
        self.buffers.get(&buffer).copied().ok_or_else(unknown)
    }

    fn exprs(&mut self, all: &[Ex]) -> Result<Vec<V>, PassError> {
        all.iter().map(|ex| self.expr(ex)).collect()
    }

    fn expr(&mut self, ex: &Ex) -> Result<V, PassError> {
        match ex {
            Ex::Dim(dim) => self.dim(dim),
            Ex::Buffer(buffer) => self.buffer(*buffer),
            Ex::Leaf(word) => Ok(self.edit.v(Value::of_word(self.edit.old(), *word))),
            Ex::Old(word) => match self.now.get(word) {
                Some(v) => Ok(*v),
                None => Ok(self.edit.v(Value::of_word(self.edit.old(), *word))),
            },
            Ex::Op(op) => {
                let ops = self.exprs(&op.ops)?;
                let spec = match op.dtype {
                    Some(dtype) => op.spec.ty(self.scalar(dtype)),
                    None => op.spec,
                };
                Ok(self.edit.node(spec, &ops, None))
            }
        }
    }

    fn scalar(&mut self, dtype: DType) -> TypeId {
        self.edit.builder().ty(&Type::Prim { dtype, value: None })
    }

    fn dim(&mut self, dim: &Dim) -> Result<V, PassError> {
        if let Dim::Var(sym) = dim {
            return self.var(*sym);
        }
        let Some((op, dtype, operands)) = dim.operation() else { return Ok(self.edit.builder().scalar(dim)) };
        let operands = operands.into_iter().map(|operand| self.dim(operand)).collect::<Result<Vec<V>, _>>()?;
        let (spec, ops) = self.edit.builder().operation(op, operands);
        let ty = self.scalar(dtype);
        Ok(self.edit.node(spec.ty(ty), &ops, None))
    }

    /// Returns the variable for `sym`, which a written loop, block or statement or the signature defines.
    fn var(&mut self, sym: Sym) -> Result<V, PassError> {
        if let Some(v) = self.vars.get(&sym.id) {
            return Ok(*v);
        }
        let known = value_of_atom(self.edit.old(), sym).or_else(|| self.edit.scalar_of(sym));
        match known {
            Some(value) if value.kind() == kind::PARAM => Ok(self.edit.v(value)),
            Some(value) => bail!("the variable `{}` is used outside its scope", value.name().unwrap_or("_")),
            None if passhost_lang::arith::atom_of(sym).is_some() => bail!("a variable is used outside its scope"),
            None => Ok(self.edit.builder().scalar(&Dim::Var(sym))),
        }
    }
}

/// Returns true for a buffer statement that does not allocate memory.
fn is_free_buffer(tree: &Tree, id: Id) -> bool {
    matches!(&tree.node(id).what, What::Other(of) if of.spec.kind == kind::BUFFER && of.spec.a == buffer_of::FREE)
}
