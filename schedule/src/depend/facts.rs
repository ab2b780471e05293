//! The accesses of the statements of a block, and the properties of its instances that follow from them.

use super::digits::{Digits, Runs, mentions_any};
use crate::tree::expr::{Buf, Ex, Meanings};
use crate::tree::{Access, Block, Id, Iter, Store, Tree, What};
use passhost_lang::arith::simplify;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Dim, DimExpr, Sym};
use passhost_lang::scalar::PrimOp;

/// The effect of one instance of a block on the buffers that the block writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Each element gets a value that does not depend on its old value.
    Complete,
    /// Each element gets a value that may depend on its old value.
    InPlace,
    /// The first instance for an element initializes the element, and every instance combines a value with it.
    Reduction,
    /// All instances for an element combine a value with it, after a different block initialized it.
    Update,
}

/// A load or store of a block.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    pub(crate) buffer: Buf,
    /// The indices; `None` for an index that is not integer arithmetic.
    pub(crate) indices: Vec<Option<Dim>>,
    pub(crate) write: bool,
}

impl Touch {
    pub(crate) fn known(&self) -> Option<Vec<Dim>> {
        self.indices.iter().cloned().collect()
    }
}

/// Facts about a block.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) id: Id,
    pub(crate) touches: Vec<Touch>,
    pub(crate) effect: Effect,
    /// True if the values may be combined in any order.
    pub(crate) combines: bool,
    /// True if each instance writes all elements that it may write.
    pub(crate) writes_all: bool,
    /// The loops inside the block.
    pub(crate) inner: Vec<Id>,
}

impl Facts {
    /// Returns the written buffers, without duplicates.
    pub(crate) fn written(&self) -> Vec<Buf> {
        self.buffers(true)
    }

    pub(crate) fn buffers(&self, write: bool) -> Vec<Buf> {
        let mut out: Vec<Buf> = self.touches.iter().filter(|touch| touch.write == write).map(|t| t.buffer).collect();
        out.sort();
        out.dedup();
        out
    }

    pub(crate) fn reads(&self, buffer: Buf) -> bool {
        self.touches.iter().any(|touch| touch.buffer == buffer && !touch.write)
    }

    pub(crate) fn writes(&self, buffer: Buf) -> bool {
        self.touches.iter().any(|touch| touch.buffer == buffer && touch.write)
    }

    /// Returns the indices at which an instance writes a buffer; an instance writes each buffer at only one position.
    pub(crate) fn place(&self, buffer: Buf) -> Option<Vec<Dim>> {
        self.touches.iter().find(|touch| touch.buffer == buffer && touch.write)?.known()
    }

    pub(crate) fn accumulates(&self) -> bool {
        self.effect != Effect::Complete
    }
}

impl Tree {
    /// Returns the accesses and properties of a block, or the reason why its instances cannot be distinguished.
    pub(crate) fn facts(&self, id: Id) -> Result<Facts, String> {
        let Some(block) = self.as_block(id) else { return Err("expected a block".to_string()) };
        let name = &block.name;
        for iter in &block.iters {
            if !(iter.is_spatial() || iter.is_reduction()) {
                return Err(format!("iterator `{}` of block `{name}` is neither spatial nor a reduction", iter.name));
            }
            if [&iter.min, &iter.extent, &iter.value].iter().any(|ex| ex.as_dim().is_none()) {
                return Err(format!(
                    "iterator `{}` of block `{name}` is bound to an expression that is not arithmetic on integers",
                    iter.name
                ));
            }
        }
        let mut gather = Gather { tree: self, name, touches: Vec::new(), inner: Vec::new(), writes_all: true };
        gather.block(id)?;
        let Gather { touches, inner, writes_all, .. } = gather;
        self.outer_loops_are_unused(id, block)?;
        self.instances_write_apart(block, &touches, &inner)?;
        let (effect, combines) = self.effect(id, block, &touches);
        Ok(Facts { id, touches, effect, combines, writes_all, inner })
    }

    /// Checks that the block uses outer loop variables only through its iterators.
    fn outer_loops_are_unused(&self, id: Id, block: &Block) -> Result<(), String> {
        let loops: Vec<_> = self.around(id).filter_map(|at| self.as_loop(at)).collect();
        let is_outer = |var: u32| loops.iter().find(|of| of.var.id == var);
        for at in self.subtree(id).into_iter().filter(|at| *at != id) {
            for ex in self.own(at) {
                let mut used = None;
                ex.vars(&mut |var| used = used.take().or_else(|| is_outer(var.id)));
                if let Some(of) = used {
                    return Err(format!(
                        "block `{}` uses the variable of loop `{}` directly; it must use an iterator",
                        block.name, of.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that instances with different spatial iterators write different elements, and that an instance reads no
    /// elements written by another.
    fn instances_write_apart(&self, block: &Block, touches: &[Touch], inner: &[Id]) -> Result<(), String> {
        for touch in touches.iter().filter(|touch| touch.write) {
            let buffer = &self.buffer(touch.buffer).name;
            let place = touch.known().ok_or_else(|| {
                format!("block `{}` writes `{buffer}` at an index that is not arithmetic on integers", block.name)
            })?;
            let other = touches.iter().find(|other| {
                other.buffer == touch.buffer
                    && match other.known() {
                        Some(read) => read != place && (other.write || !self.are_apart(block, inner, &read, &place)),
                        None => true,
                    }
            });
            match other {
                Some(other) if other.write => {
                    return Err(format!("block `{}` writes several elements of `{buffer}` per instance", block.name));
                }
                Some(_) => {
                    return Err(format!(
                        "block `{}` reads elements of `{buffer}` that its other instances write",
                        block.name
                    ));
                }
                None => {}
            }
            let reduced = block
                .iters
                .iter()
                .find(|iter| iter.is_reduction() && place.iter().any(|dim| Ex::Dim(dim.clone()).mentions(iter.var)));
            if let Some(iter) = reduced {
                return Err(format!(
                    "the reduction `{}` of block `{}` occurs in the index of its store to `{buffer}`",
                    iter.name, block.name
                ));
            }
            self.spatial_iters_are_told(block, &place, inner, buffer)?;
        }
        Ok(())
    }

    /// Returns true if an element that a block reads differs from all elements that its instances write, because the two are in different
    /// rows, such as the last row and the next row in a loop over time. In a reduction, they count as the same.
    fn are_apart(&self, block: &Block, inner: &[Id], read: &[Dim], written: &[Dim]) -> bool {
        let mut own: Vec<Sym> = block.iters.iter().map(|iter| iter.var).collect();
        own.extend(inner.iter().filter_map(|id| Some(self.as_loop(*id)?.var)));
        let is_plain = block.init.is_none() && block.iters.iter().all(Iter::is_spatial);
        let differ = |(read, written): (&Dim, &Dim)| {
            let is_fixed = !mentions_any(read, &own) && !mentions_any(written, &own);
            is_fixed && simplify(&(read.clone() - written.clone())).as_int().is_some_and(|by| by != 0)
        };
        is_plain && read.iter().zip(written).any(differ)
    }

    fn spatial_iters_are_told(&self, block: &Block, place: &[Dim], inner: &[Id], buffer: &str) -> Result<(), String> {
        let spatial: Vec<&Iter> = block.iters.iter().filter(|iter| iter.is_spatial()).collect();
        let mut runs: Vec<Runs> =
            spatial.iter().map(|iter| Runs { sym: iter.var, extent: iter.extent.as_int() }).collect();
        runs.extend(inner.iter().filter_map(|id| self.runs(*id)));
        let told = Digits::new(place, &runs).told();
        match spatial.iter().zip(told).find(|(_, told)| !told) {
            None => Ok(()),
            Some((iter, _)) => Err(format!(
                "block `{}` may write the same element of `{buffer}` for several values of `{}`",
                block.name, iter.name
            )),
        }
    }

    /// Simplifies the indices in a block, and recomputes its accesses. Marks enclosing blocks, so that their accesses
    /// are recomputed later.
    pub(crate) fn simplify_and_find_accesses(&mut self, id: Id) {
        let Some(block) = self.as_block(id) else { return };
        let mut analyzer = self.analyzer_at(id);
        for iter in &block.iters {
            if let (Some(min), Some(extent)) = (iter.min.as_dim(), iter.extent.as_dim()) {
                analyzer.bind_range(iter.var, min, extent);
            }
        }
        for at in self.subtree(id).into_iter().filter(|at| *at != id) {
            self.map_own(at, &mut |ex| {
                *ex = ex.replaced(&mut |part| match part {
                    Ex::Dim(dim) if dim.operation().is_some() => Some(Ex::Dim(analyzer.simplify(dim))),
                    _ => None,
                });
            });
        }
        self.find_accesses(id);
        let around: Vec<Id> = self.around(id).filter(|at| self.as_block(*at).is_some()).collect();
        for outer in around {
            if let Ok(block) = self.block_mut(outer) {
                block.found_again |= !block.accesses.is_empty();
            }
        }
    }

    fn find_accesses(&mut self, id: Id) {
        let Some(block) = self.as_block(id) else { return };
        let (name, inner) = (block.name.clone(), Vec::new());
        let mut gather = Gather { tree: self, name: &name, touches: Vec::new(), inner, writes_all: true };
        let found = gather.block(id).is_ok();
        let touches = gather.touches;
        let mut accesses: Vec<Access> = Vec::new();
        for touch in &touches {
            let own = !touch.write && touches.iter().any(|other| other.write && other.buffer == touch.buffer);
            let known = |access: &&mut Access| access.buffer == touch.buffer && access.write == touch.write;
            let has_init = self.as_block(id).is_some_and(|block| block.init.is_some());
            if own && has_init || accesses.iter_mut().any(|access| known(&access)) {
                continue;
            }
            let index = touch.indices.iter().map(|index| index.clone().unwrap_or(Dim::Int(0)));
            accesses.push(Access::element(touch.buffer, &index.collect::<Vec<Dim>>(), touch.write));
        }
        accesses.sort_by_key(|access| access.write);
        if let Ok(block) = self.block_mut(id) {
            block.found_again = true;
            if found {
                block.accesses = accesses;
            }
        }
    }

    /// Returns the variable of a loop with its number of values.
    pub(crate) fn runs(&self, id: Id) -> Option<Runs> {
        self.as_loop(id).map(|of| Runs { sym: of.var, extent: of.extent.as_int() })
    }

    fn effect(&self, id: Id, block: &Block, touches: &[Touch]) -> (Effect, bool) {
        let written = |buffer: Buf| touches.iter().any(|touch| touch.write && touch.buffer == buffer);
        let own = touches.iter().any(|touch| !touch.write && written(touch.buffer));
        let stores: Vec<&Store> = self
            .subtree(id)
            .into_iter()
            .filter_map(|at| match &self.node(at).what {
                What::Store(store) if !self.is_in_init(at) => Some(store),
                _ => None,
            })
            .collect();
        let combines = stores.iter().all(|store| combines(store));
        match (block.init.is_some(), own, block.iters.iter().any(Iter::is_reduction)) {
            (true, ..) => (Effect::Reduction, combines),
            (false, true, true) => (Effect::Update, combines),
            (false, true, false) => (Effect::InPlace, combines),
            // The last instance determines the value of an element.
            (false, false, true) => (Effect::InPlace, false),
            (false, false, false) => (Effect::Complete, false),
        }
    }

    fn is_in_init(&self, id: Id) -> bool {
        self.around(id).take_while(|at| self.as_block(*at).is_none()).any(|at| matches!(self.node(at).what, What::Init))
    }

    /// Returns the values of the iterators of a block in the enclosing loops.
    pub(crate) fn bindings(block: &Block) -> Meanings {
        let mut out = Meanings::default();
        block.iters.iter().for_each(|iter| out.set(iter.var, iter.value.clone()));
        out
    }
}

/// Returns true if a store combines a value with the stored value, in any order.
fn combines(store: &Store) -> bool {
    let own = |ex: &Ex| ex.as_load().is_some_and(|(buffer, _)| buffer == store.buffer);
    let has_own = |ex: &Ex| {
        let mut found = false;
        ex.each(&mut |part| found |= matches!(part, Ex::Buffer(buffer) if *buffer == store.buffer));
        found
    };
    let Ex::Op(op) = &store.value else { return false };
    let is_call = op.spec.kind != kind::ARITH;
    let [a, b] = &op.ops[..] else { return false };
    let code = u16::try_from(op.spec.a).ok().filter(|_| !is_call);
    let Some(op) = code.and_then(PrimOp::of_code) else { return false };
    match op {
        PrimOp::Add
        | PrimOp::Mul
        | PrimOp::Min
        | PrimOp::Max
        | PrimOp::And
        | PrimOp::Or
        | PrimOp::BitAnd
        | PrimOp::BitOr
        | PrimOp::BitXor => own(a) && !has_own(b) || own(b) && !has_own(a),
        PrimOp::Sub => own(a) && !has_own(b),
        _ => false,
    }
}

/// Collects the accesses of the statements of a block.
struct Gather<'t> {
    tree: &'t Tree,
    name: &'t str,
    touches: Vec<Touch>,
    inner: Vec<Id>,
    writes_all: bool,
}

impl Gather<'_> {
    fn block(&mut self, block: Id) -> Result<(), String> {
        let tree = self.tree;
        for id in tree.subtree(block).into_iter().filter(|id| *id != block) {
            match &tree.node(id).what {
                What::Init => {}
                What::Loop(of) => {
                    self.inner.push(id);
                    self.writes_all &= of.extent.as_int().is_some_and(|extent| extent > 0);
                    let from_zero = of.min.as_int() == Some(0) && of.step.is_none();
                    if !from_zero {
                        return Err(format!("a loop in block `{}` does not run from 0 in steps of 1", self.name));
                    }
                }
                What::Store(store) => self.store(store)?,
                What::Other(other) if matches!(other.spec.kind, kind::COND | kind::SCOPE) => {
                    self.writes_all = false;
                    other.ops.iter().try_for_each(|ex| self.expr(ex))?;
                }
                What::Block(of) => return Err(format!("block `{}` contains block `{}`", self.name, of.name)),
                _ => {
                    return Err(format!(
                        "block `{}` contains a statement other than a store, a loop or an If",
                        self.name
                    ));
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, store: &Store) -> Result<(), String> {
        if store.spec.a == 1 {
            return Err(format!("block `{}` has a store with a predicate", self.name));
        }
        self.touch(store.buffer, &store.indices, true)?;
        self.expr(&store.value)?;
        store.indices.iter().try_for_each(|ex| self.expr(ex))
    }

    fn touch(&mut self, buffer: Buf, indices: &[Ex], write: bool) -> Result<(), String> {
        if self.tree.buffer(buffer).is_view {
            let view = &self.tree.buffer(buffer).name;
            return Err(format!("block `{}` uses `{view}`, which is a view of another buffer", self.name));
        }
        let indices = indices.iter().map(|index| index.as_dim().cloned()).collect();
        self.touches.push(Touch { buffer, indices, write });
        Ok(())
    }

    fn expr(&mut self, ex: &Ex) -> Result<(), String> {
        let Ex::Op(op) = ex else {
            return match ex {
                Ex::Buffer(buffer) => Err(format!(
                    "block `{}` uses `{}` other than by loads and stores",
                    self.name,
                    self.tree.buffer(*buffer).name
                )),
                _ => Ok(()),
            };
        };
        match op.spec.kind {
            kind::LOAD => {
                let Some((buffer, indices)) = ex.as_load() else { return Err("a load without a buffer".to_string()) };
                if op.spec.a == 1 {
                    return Err(format!("block `{}` has a load with a predicate", self.name));
                }
                self.touch(buffer, indices, false)?;
                indices.iter().try_for_each(|index| self.expr(index))
            }
            kind::CALL => match op.ops.split_first() {
                Some((Ex::Leaf(callee), args)) if !self.tree.effects.contains(callee) => {
                    args.iter().try_for_each(|arg| self.expr(arg))
                }
                _ => Err(format!("block `{}` has a call with side effects", self.name)),
            },
            kind::LET => Err(format!("block `{}` has a `T.Let`", self.name)),
            _ => op.ops.iter().try_for_each(|operand| self.expr(operand)),
        }
    }
}

/// Returns true if the condition of a block excludes only values outside the ranges of its iterators.
pub(crate) fn guards_domain_only(block: &Block, analyzer: &mut passhost_lang::arith::Analyzer) -> bool {
    let Some(condition) = &block.condition else { return true };
    let Some(condition) = condition.as_dim() else { return false };
    crate::tree::expr::conjuncts(condition).iter().all(|part| {
        let Dim::Expr(expr) = part else { return false };
        let DimExpr::Binary(PrimOp::Lt, _, a, b) = &**expr else { return false };
        block.iters.iter().any(|iter| {
            let (Some(value), Some(extent)) = (iter.value.as_dim(), iter.extent.as_dim()) else { return false };
            iter.min.as_int() == Some(0)
                && analyzer.prove_equal(value, a) == Some(true)
                && analyzer.prove_equal(extent, b) == Some(true)
        })
    })
}
