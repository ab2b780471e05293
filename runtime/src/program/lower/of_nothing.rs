//! Empty reductions. A block initializes each element even if its reduction runs zero iterations. An empty sum is 0, as
//! in NumPy; TVM leaves the memory unchanged.
//!
//! Each reduction with a loop that may run zero times is preceded by a further loop nest. That nest consists of the
//! spatial loops around the initialization, and runs if one of the reduction loops is empty.

use super::stmts::mentions;
use super::{Bound, Lower, name_of};
use crate::fault::Fault;
use crate::program::{Binary, Instr, Loop, LoopKind, Reg, Scalar};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Expr, Stmt, Value};
use passhost_lang::scalar::PrimOp;

/// A perfect loop nest around a block with a reduction.
struct Nest<'b> {
    loops: Vec<Of<'b>>,
    block: Value<'b>,
    init: Value<'b>,
}

/// A loop.
struct Of<'b> {
    var: Value<'b>,
    min: Value<'b>,
    extent: Value<'b>,
    /// True if only the reduction iterators of the block use the loop.
    reduces: bool,
}

impl<'b> Nest<'b> {
    fn of(outermost: Value<'b>) -> Option<Nest<'b>> {
        let (mut loops, mut next) = (Vec::new(), outermost);
        let init = loop {
            match next.stmt()? {
                Stmt::For { var, min, extent, .. } if next.loop_step().is_none() => {
                    loops.push(Of { var, min, extent, reduces: false });
                }
                Stmt::Block => break next.block_init()?,
                _ => return None,
            }
            next = only_statement(next)?;
        };
        let binds = |var: Value<'b>, reduction: bool| {
            next.block_iters().any(|iter| iter.is_reduction == reduction && mentions(iter.value, var))
        };
        loops.iter_mut().for_each(|of| of.reduces = binds(of.var, true) && !binds(of.var, false));
        Some(Nest { loops, block: next, init })
    }

    /// Returns the conditions of the block that do not depend on reductions.
    fn conditions(&self) -> Vec<Value<'b>> {
        let (mut out, mut work) = (Vec::new(), Vec::from_iter(self.block.block_condition()));
        while let Some(next) = work.pop() {
            match next.view() {
                Expr::Arith { op: PrimOp::And, a, b: Some(b) } => work.extend([a, b]),
                _ => out.push(next),
            }
        }
        let reductions = self.block.block_iters().filter(|iter| iter.is_reduction).map(|iter| iter.var);
        let reduced: Vec<Value<'b>> = self.reduced().map(|of| of.var).chain(reductions).collect();
        out.retain(|cond| !reduced.iter().any(|var| mentions(*cond, *var)));
        out
    }

    fn reduced(&self) -> impl Iterator<Item = &Of<'b>> {
        self.loops.iter().filter(|of| of.reduces)
    }
}

/// Returns the only statement of a region.
fn only_statement(of: Value<'_>) -> Option<Value<'_>> {
    let is_statement = |value: &Value<'_>| value.stmt().is_some() || matches!(value.kind(), kind::BUFFER | kind::SCOPE);
    let mut statements = of.region().children().filter(is_statement);
    statements.next().filter(|_| statements.next().is_none())
}

impl Lower {
    /// Emits the initialization of a loop nest whose reduction may run zero iterations.
    pub(super) fn over_nothing(&mut self, outermost: Value<'_>) -> Result<(), Fault> {
        let at = outermost.index().unwrap_or(0);
        let Some(nest) = Some(outermost).filter(|_| at >= self.nested_until).and_then(Nest::of) else { return Ok(()) };
        self.nested_until = nest.block.index().unwrap_or(0);
        let may_be_empty = |extent: &Value<'_>| self.analyzer().index_bounds(*extent).min < 1;
        let empty: Vec<Value<'_>> = nest.reduced().map(|of| of.extent).filter(may_be_empty).collect();
        if empty.is_empty() {
            return Ok(());
        }
        let mark = self.program.marks.len();
        let is_fixed = !empty.iter().any(|extent| nest.loops.iter().any(|of| mentions(*extent, of.var)));
        match is_fixed {
            true => self.if_empty(&empty, |lower| lower.loops_of_init(&nest, 0, &[]))?,
            false => self.loops_of_init(&nest, 0, &empty)?,
        }
        // Inputs need not cover these branches, so their marks are removed.
        self.program.marks[mark..].iter_mut().for_each(String::clear);
        Ok(())
    }

    /// Emits code that is executed if one of the given extents is 0.
    fn if_empty(
        &mut self,
        extents: &[Value<'_>],
        f: impl FnOnce(&mut Lower) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut cond: Option<Reg> = None;
        for extent in extents {
            let form = self.form(*extent, 0)?;
            let (extent, zero) = (self.materialize(form, Scalar::Int(64)), self.zero(Scalar::Int(64)));
            let is_empty = self.binary(Binary::Le, Scalar::Bool, extent, zero);
            cond = Some(match cond {
                None => is_empty,
                Some(others) => self.binary(Binary::Or, Scalar::Bool, others, is_empty),
            });
        }
        match cond {
            None => f(self),
            Some(cond) => self.when(cond, f),
        }
    }

    /// Emits code under a condition.
    fn when(&mut self, cond: Reg, f: impl FnOnce(&mut Lower) -> Result<(), Fault>) -> Result<(), Fault> {
        let ((), then) = self.listed(f)?;
        self.branch(cond, [then, Vec::new()], [None, None]);
        Ok(())
    }

    /// Emits the loops from `at` on around an initialization that runs if one of the extents `empty` is 0. Variables of
    /// reduction loops get their first values.
    fn loops_of_init(&mut self, nest: &Nest<'_>, at: usize, empty: &[Value<'_>]) -> Result<(), Fault> {
        let Some(of) = nest.loops.get(at) else {
            return self.if_empty(empty, |lower| lower.init_of(nest));
        };
        let min = self.form(of.min, 0)?;
        if of.reduces {
            self.bind(of.var, Bound::Form(min));
            return self.loops_of_init(nest, at + 1, empty);
        }
        let extent = self.form(of.extent, 0)?;
        let var = self.loop_var(of.var)?;
        let ((), body) = self.listed(|lower| lower.loops_of_init(nest, at + 1, empty))?;
        self.emit(Instr::For(Box::new(Loop { var, min, extent, body, lanes: 0, kind: LoopKind::Serial, mark: None })));
        Ok(())
    }

    /// Emits the initialization of the block. For a reduction over a loop outside the nest, it runs only in the first
    /// iteration.
    fn init_of(&mut self, nest: &Nest<'_>) -> Result<(), Fault> {
        self.program.has_blocks = true;
        self.blocks.push(name_of(nest.block).to_string());
        // The range check of an iterator may depend on the condition of the block, so the iterators are bound first.
        nest.block.block_iters().try_for_each(|iter| self.bind_iter(&iter))?;
        let mut cond = self.begins_reductions(nest.block)?;
        for condition in nest.conditions() {
            let (holds, _) = self.condition(condition)?;
            cond = Some(self.both(cond, holds));
        }
        let init = |lower: &mut Lower| {
            let mut spatial = nest.block.block_iters().filter(|iter| !iter.is_reduction);
            spatial.try_for_each(|iter| lower.block_iter(&iter))?;
            lower.block_buffers(nest.block)?;
            lower.region(nest.init)
        };
        match cond {
            None => init(self)?,
            Some(cond) => self.when(cond, init)?,
        }
        self.blocks.pop();
        Ok(())
    }
}
