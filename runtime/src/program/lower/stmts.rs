//! Lowers statements.

use super::choices::negated;
use super::{Bound, Lower, dtype_of, name_of, scalar_of};
use crate::fault::Fault;
use crate::program::{Affine, Binary, Instr, Loop, LoopKind, Reg, Scalar, Unary};
use passhost_lang::arith::{index_to_dim, symbol_of};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Dim, Expr, Stmt, Value, loop_kind};
use passhost_lang::scalar::PrimOp;
use passhost_lang::tir::BlockIter;

/// The attribute of skipped statements.
const SKIPPED: &str = "pragma_debug_skip_region";

impl Lower {
    /// Lowers a node directly in a region.
    pub(super) fn child(&mut self, value: Value<'_>) -> Result<(), Fault> {
        self.statement = self.program.places.len();
        let Some(stmt) = value.stmt() else {
            return match value.kind() {
                kind::BUFFER => self.buffer_statement(value),
                kind::SCOPE => self.region(value),
                // Expressions are lowered where they are used.
                _ => Ok(()),
            };
        };
        match stmt {
            Stmt::For { var, min, extent, kind } => self.for_(value, var, min, extent, kind),
            Stmt::Block => self.block(value),
            Stmt::Store { buffer, value: stored } => self.store(value, buffer, stored),
            Stmt::Evaluate(expr) => self.evaluate(expr),
            Stmt::While { cond } => self.while_(value, cond),
            Stmt::If { cond } => self.if_(value, cond),
            // The statement is omitted, as in tirx.RemoveNoOp, which is part of every TVM pipeline.
            Stmt::Attr { key, .. } if key == SKIPPED => Ok(()),
            Stmt::Attr { .. } => self.region(value),
            Stmt::Launch { thread, extent } => self.launch(value, thread, extent),
            Stmt::Assert { cond } => self.assert(value, cond),
            Stmt::Bind { value: bound } => self.bind_statement(value, bound),
            Stmt::Return(result) => {
                let result = result.map(|result| self.expr(result, 0)).transpose()?;
                self.emit(Instr::Return(result));
                Ok(())
            }
            Stmt::Break => {
                self.emit(Instr::Break);
                Ok(())
            }
            Stmt::Continue => {
                self.emit(Instr::Continue);
                Ok(())
            }
            _ => Err(Fault::unsupported("a statement of an unknown kind")),
        }
    }

    fn for_(
        &mut self,
        stmt: Value<'_>,
        var: Value<'_>,
        min: Value<'_>,
        extent: Value<'_>,
        kind: &str,
    ) -> Result<(), Fault> {
        let runs = runs(extent);
        let (min, mut extent) = (self.form(min, 0)?, self.form(extent, 0)?);
        let step = stmt.loop_step().map(|step| self.form(step, 0)).transpose()?;
        if let Some(step) = &step {
            // The loop counts from `min` to `min + extent` in steps. The trip count is the extent divided by the step,
            // rounded up.
            let step = step.as_constant().filter(|step| *step > 0);
            let step = step.ok_or_else(|| Fault::unsupported("a loop whose step is not a positive constant"))?;
            let scalar = Scalar::Int(64);
            let last = self.materialize(extent.plus(&Affine::from(step - 1), 1), scalar);
            let step = self.materialize(step.into(), scalar);
            extent = match extent.as_constant().zip(Some(step)) {
                Some((extent, _)) => self.ceil_div(extent, stmt),
                None => self.binary(Binary::FloorDiv, scalar, last, step).into(),
            };
        }
        let kind = match kind {
            loop_kind::PARALLEL => LoopKind::Parallel,
            loop_kind::VECTORIZED => LoopKind::Vectorized,
            loop_kind::UNROLL => LoopKind::Unrolled,
            loop_kind::THREAD_BINDING => LoopKind::ThreadBinding,
            _ => LoopKind::Serial,
        };
        match step {
            None => {
                self.over_nothing(stmt)?;
                self.loop_over(stmt, var, [min, extent], kind, runs)
            }
            Some(step) => {
                let counter = self.reg(Scalar::Int(64));
                self.program.loops.insert(counter, super::name_of(var).to_string());
                let factor = step.as_constant().unwrap_or(1);
                self.bind(var, Bound::Form(min.plus(&counter.into(), factor)));
                let (body, mark) = self.marked(None, |lower| lower.region(stmt))?;
                let of = Loop { var: counter, min: Affine::from(0), extent, body, lanes: 0, kind, mark };
                self.emit(Instr::For(Box::new(of)));
                Ok(())
            }
        }
    }

    fn ceil_div(&self, extent: i64, stmt: Value<'_>) -> Affine {
        let step = stmt.loop_step().and_then(|step| step.dim()?.as_int()).unwrap_or(1).max(1);
        (extent.saturating_add(step - 1)).div_euclid(step).into()
    }

    fn loop_over(
        &mut self,
        stmt: Value<'_>,
        var: Value<'_>,
        [min, extent]: [Affine; 2],
        kind: LoopKind,
        runs: Option<Dim>,
    ) -> Result<(), Fault> {
        let reg = self.loop_var(var)?;
        let outer = self.at_vectors;
        if kind == LoopKind::Vectorized {
            self.at_vectors = outer.or(Some(self.analyzers.len()));
        }
        let (body, mark) = self.marked(runs, |lower| lower.region(stmt))?;
        self.at_vectors = outer;
        self.emit(Instr::For(Box::new(Loop { var: reg, min, extent, body, lanes: 0, kind, mark })));
        Ok(())
    }

    /// Lowers a thread launch. Threads run in sequence, so threads that wait for each other are rejected. So are
    /// threads that share memory allocated inside them: executed in sequence, each would have memory of its own.
    fn launch(&mut self, stmt: Value<'_>, thread: Option<&str>, extent: Value<'_>) -> Result<(), Fault> {
        if thread.is_some_and(|thread| thread.starts_with("threadIdx"))
            && let Some(shared) = shared_inside(stmt)
        {
            let name = name_of(shared);
            return Err(Fault::unsupported(format!("threads that share `{name}`, which is allocated inside them")));
        }
        let extent = self.form(extent, 0)?;
        let own = stmt.region().children().next().filter(|var| var.kind() == kind::LOOP_VAR);
        let var = own.or(stmt.operand(1)).ok_or_else(|| Fault::unsupported("threads without a variable"))?;
        self.loop_over(stmt, var, [Affine::from(0), extent], LoopKind::ThreadBinding, None)
    }

    fn while_(&mut self, stmt: Value<'_>, cond: Value<'_>) -> Result<(), Fault> {
        let (cond, head) = self.listed(|lower| lower.expr(cond, 0))?;
        let known = index_to_dim(stmt.operand(0).unwrap_or(stmt));
        let (body, mark) = self.marked(known, |lower| lower.region(stmt))?;
        self.emit(Instr::While { head, cond, body, mark });
        Ok(())
    }

    fn if_(&mut self, stmt: Value<'_>, cond: Value<'_>) -> Result<(), Fault> {
        let (cond, known) = self.condition(cond)?;
        let scopes: Vec<Value<'_>> = stmt.region().children().filter(|scope| scope.kind() == kind::SCOPE).collect();
        let opposite = negated(known.as_ref());
        let mut lists = Vec::new();
        for (scope, known) in scopes.iter().zip([known, opposite]) {
            lists.push(self.marked(known, |lower| lower.region(*scope))?);
        }
        let (otherwise, unless) = if lists.len() > 1 { lists.pop().unwrap_or_default() } else { Default::default() };
        let (then, when) = lists.pop().unwrap_or_default();
        self.emit(Instr::If { cond, then, otherwise, marks: [when, unless] });
        Ok(())
    }

    fn assert(&mut self, stmt: Value<'_>, cond: Value<'_>) -> Result<(), Fault> {
        let cond = self.expr(cond, 0)?;
        let text = |value: Value<'_>| if let Expr::Str(text) = value.view() { Some(text.to_string()) } else { None };
        let message: String = stmt.operands().skip(2).filter_map(text).collect();
        let message = if message.is_empty() { "an assertion failed".to_string() } else { message };
        let place = self.place(|| "an assertion".to_string());
        self.emit(Instr::Assert { cond, message, place });
        Ok(())
    }

    fn bind_statement(&mut self, stmt: Value<'_>, value: Value<'_>) -> Result<(), Fault> {
        if dtype_of(value).code() == 3 {
            if let Some(storage) = self.storage_of(value) {
                self.pointers.insert(stmt.word(), storage);
            }
            return Ok(());
        }
        self.place(|| format!("the variable `{}`", name_of(stmt)));
        self.define(stmt, value)?;
        if let (Some(before), Some(bound)) = (stmt.operand(1), self.scalars.get(&stmt.word()).cloned()) {
            self.bind_again(before, bound);
        }
        Ok(())
    }

    /// Lowers an expression that is evaluated for its effect. A call without effects is a hint.
    fn evaluate(&mut self, value: Value<'_>) -> Result<(), Fault> {
        if value.dim().is_some() || matches!(value.view(), Expr::Str(_)) {
            return Ok(());
        }
        if let Some(result) = value.as_call_to("tirx.ret").and_then(|call| call.arg(0)) {
            let result = self.expr(result, 0)?;
            self.emit(Instr::Return(Some(result)));
            return Ok(());
        }
        match value.as_call().and_then(|call| call.op()) {
            Some("tirx.break_loop") => {
                self.emit(Instr::Break);
                return Ok(());
            }
            Some("tirx.continue_loop") => {
                self.emit(Instr::Continue);
                return Ok(());
            }
            _ => {}
        }
        self.place(|| "an expression".to_string());
        for lane in 0..super::lanes_of(value)? {
            self.expr(value, lane)?;
        }
        Ok(())
    }

    fn block(&mut self, stmt: Value<'_>) -> Result<(), Fault> {
        self.blocks.push(name_of(stmt).to_string());
        self.program.has_blocks = true;
        let out = match stmt.block_condition() {
            None => self.block_content(stmt),
            Some(cond) => {
                // A condition on iterators (not on outer loops) needs the values of the iterators.
                if stmt.block_iters().any(|iter| mentions(cond, iter.var)) {
                    for iter in stmt.block_iters() {
                        let form = self.form(iter.value, 0)?;
                        self.bind(iter.var, Bound::Form(form));
                    }
                }
                let (cond, known) = self.condition(cond)?;
                let (then, mark) = self.marked(known, |lower| lower.block_content(stmt))?;
                self.emit(Instr::If { cond, then, otherwise: Vec::new(), marks: [mark, None] });
                Ok(())
            }
        };
        self.blocks.pop();
        out
    }

    fn block_content(&mut self, stmt: Value<'_>) -> Result<(), Fault> {
        for iter in stmt.block_iters() {
            self.block_iter(&iter)?;
        }
        let first = self.begins_reductions(stmt)?;
        self.block_buffers(stmt)?;
        if let Some(init) = stmt.block_init() {
            match first {
                None => self.region(init)?,
                Some(cond) => {
                    let (then, mark) = self.marked(None, |lower| lower.region(init))?;
                    self.emit(Instr::If { cond, then, otherwise: Vec::new(), marks: [mark, None] });
                }
            }
        }
        self.region(stmt)
    }

    /// Returns a register that is true in the first iteration of all reductions of a block; `None` if the block has no
    /// reductions.
    pub(super) fn begins_reductions(&mut self, block: Value<'_>) -> Result<Option<Reg>, Fault> {
        let mut first = None;
        for iter in block.block_iters().filter(|iter| iter.is_reduction) {
            let (value, min) = (self.expr(iter.var, 0)?, self.form(iter.min, 0)?);
            let min = self.materialize(min, self.scalar(value));
            let is_min = self.binary(Binary::Eq, Scalar::Bool, value, min);
            first = Some(self.both(first, is_min));
        }
        Ok(first)
    }

    /// Combines a condition with `others`, if any.
    pub(super) fn both(&mut self, others: Option<Reg>, cond: Reg) -> Reg {
        others.map_or(cond, |others| self.binary(Binary::And, Scalar::Bool, others, cond))
    }

    /// Emits the buffers that a block allocates or matches. The initialization may also use the iterators.
    pub(super) fn block_buffers(&mut self, block: Value<'_>) -> Result<(), Fault> {
        let mut buffers = block.region().children().filter(|value| value.kind() == kind::BUFFER);
        buffers.try_for_each(|buffer| self.buffer_statement(buffer))
    }

    /// Binds the variable of a block iterator to its value, and emits a check that the value is in range unless that is
    /// proved.
    pub(super) fn block_iter(&mut self, iter: &BlockIter<'_>) -> Result<(), Fault> {
        let [min, extent] = [self.form(iter.min, 0)?, self.form(iter.extent, 0)?];
        let form = self.form(iter.value, 0)?;
        if !self.is_in_range(iter) {
            let what = format!("the iterator `{}`", name_of(iter.var));
            let place = self.place(|| what.clone());
            self.emit(Instr::Check { what, form, min, extent, place });
        }
        self.bind_iter(iter)
    }

    /// Binds the variable of a block iterator to its value.
    pub(super) fn bind_iter(&mut self, iter: &BlockIter<'_>) -> Result<(), Fault> {
        let form = self.form(iter.value, 0)?;
        let (from, to) = (scalar_of(dtype_of(iter.value))?, scalar_of(dtype_of(iter.var))?);
        let form = match from == to || to == Scalar::Int(64) {
            true => form,
            false => {
                let value = self.materialize(form, from);
                self.unary(Unary::Cast, to, value).into()
            }
        };
        self.bind(iter.var, Bound::Form(form));
        Ok(())
    }

    fn is_in_range(&mut self, iter: &BlockIter<'_>) -> bool {
        let bounds = self.analyzer().index_bounds(iter.value);
        let constant = |value: Value<'_>| value.dim().and_then(|dim| dim.as_int());
        if let (Some(min), Some(extent)) = (constant(iter.min), constant(iter.extent)) {
            return bounds.min >= min && bounds.max < min.saturating_add(extent);
        }
        let dims = [iter.value, iter.min, iter.extent].map(index_to_dim);
        let [Some(value), Some(min), Some(extent)] = dims else { return false };
        let end = Dim::binary(PrimOp::Add, min.clone(), extent);
        self.analyzer().can_prove(&Dim::binary(PrimOp::Ge, value.clone(), min))
            && self.analyzer().can_prove(&Dim::binary(PrimOp::Lt, value, end))
    }
}

/// Returns true if an expression contains a variable, also as a symbolic variable of a dimension.
pub(super) fn mentions(root: Value<'_>, value: Value<'_>) -> bool {
    let mut work = vec![root];
    while let Some(next) = work.pop() {
        let mut is_in = next == value;
        if let (Some(dim), Some(symbol)) = (next.dim(), symbol_of(value)) {
            dim.vars(&mut |var| is_in |= var == symbol);
        }
        if is_in {
            return true;
        }
        work.extend(
            next.operands().filter(|operand| operand.is_nested() || operand.dim().is_some() || *operand == value),
        );
    }
    false
}

/// Returns the condition that a loop runs at least once, if its extent is an operation. More facts follow from it in the
/// body: in a loop over tiles with `(n + 7) // 8` iterations, `n` is at least 1.
fn runs(extent: Value<'_>) -> Option<Dim> {
    let extent = index_to_dim(extent)?;
    let one = Dim::int(1, extent.dtype());
    extent.operation().is_some().then(|| Dim::binary(PrimOp::Ge, extent, one))
}

/// Returns an allocation in shared memory inside a thread launch; `None` if the launch contains loops over inner threads,
/// because each of its iterations then executes all iterations of these loops.
fn shared_inside(launch: Value<'_>) -> Option<Value<'_>> {
    let content = || launch.region().nodes();
    let inner = |value: Value<'_>| {
        matches!(value.stmt(), Some(Stmt::Launch { .. } | Stmt::For { kind: loop_kind::THREAD_BINDING, .. }))
    };
    let is_shared = |value: &Value<'_>| value.as_buffer_type().is_some_and(|ty| ty.scope.starts_with("shared"));
    content().filter(|value| value.is_allocation()).find(is_shared).filter(|_| !content().any(inner))
}
