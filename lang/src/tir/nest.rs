//! Reuses existing code: replaces loops but keeps their content, and substitutes values.

use super::expr::Write;
use super::{ExprArg, PrimExpr, Tir};
use crate::PassError;
use crate::ir::{DType, Stmt, Type, V, Value};

impl<'t, 'b> Tir<'t, 'b> {
    /// Moves the content of the current statement here, and removes the statement. Statements written earlier precede or enclose the
    /// content, and later statements follow it. The content can be moved only once, and a mutator still visits it.
    ///
    /// A `break` or `continue` in the content must still refer to the same loop. Therefore, the content of a loop for which [`has_jumps`]
    /// is true is rejected, and so is other content with jumps inside a newly written loop.
    pub fn content(&self, stmt: Value<'b>) {
        if self.refuses_jumps(stmt) {
            return;
        }
        let mut edit = self.edit.borrow_mut();
        if edit.is_dissolved(stmt) || edit.is_removed(stmt) {
            drop(edit);
            return self.fail("the content of a statement can be written only once".to_string());
        }
        edit.dissolve(stmt);
        edit.after(stmt);
    }

    /// Moves the content of a loop here, like [`Tir::content`], and replaces the loop variable by `index`. A loop for which [`has_jumps`]
    /// is true is rejected.
    pub fn loop_body<'a>(&self, stmt: Value<'b>, index: impl Into<ExprArg<'a>>) {
        let index = self.value(index);
        self.nest_body(&[(stmt, index)]);
    }

    /// Moves the content of the innermost of perfectly nested loops here, like [`Tir::content`], and replaces each loop variable by the
    /// expression next to the loop.
    pub fn nest_body(&self, loops: &[(Value<'b>, PrimExpr<'_>)]) {
        let mut around: Option<(Value<'b>, Value<'b>)> = None;
        for (stmt, index) in loops {
            let Some(Stmt::For { var, .. }) = stmt.stmt() else {
                return self.fail(format!("expected a loop, found {stmt:?}"));
            };
            if around.is_some_and(|(outer, outer_var)| !is_all_of(*stmt, outer, outer_var)) {
                return self.fail(format!("the loop over {var:?} must be the only content of the loop around it"));
            }
            if self.refuses_jumps(*stmt) {
                return;
            }
            if self.refuses(var, index.v(), index.dtype()) {
                return;
            }
            match around {
                None => self.content(*stmt),
                Some(_) => self.edit.borrow_mut().dissolve(*stmt),
            }
            self.edit.borrow_mut().replace(var, index.v());
            around = Some((*stmt, var));
        }
    }

    /// Replaces `from` by `with` in a statement or expression of the body being rewritten. The replacement of a variable must have the same
    /// data type; the replacement of a buffer must be a buffer of the same data type and rank.
    ///
    /// The example makes a loop read a copy of its input:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::StmtMutator;
    /// use plugin_api::tir::prim_func;
    ///
    /// struct ReadCopy;
    /// impl<'b> StmtMutator<'b> for ReadCopy {
    ///     fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
    ///         let a = rw.body().root().region().children().next().expect("a parameter");
    ///         rw.tir(|t| {
    ///             let copy = t.alloc_buffer("copy", &[8], DType::F32, "shared");
    ///             t.serial("i", 8, |i| t.store(copy, [i], t.load(t.buffer(a), [i])));
    ///             t.substitute(stmt, a, copy);
    ///         })?;
    ///         Ok(Action::Keep)
    ///     }
    /// }
    ///
    /// let body = prim_func(|t| {
    ///     let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[8], DType::F32));
    ///     t.serial("i", 8, |i| t.store(b, [i], t.load(a, [i]) + t.load(a, [7 - i])));
    /// })?;
    /// let body = ReadCopy.mutate(&body)?;
    /// let loads = body.values().filter_map(|value| match value.view() {
    ///     Expr::Load { buffer } => buffer.name(),
    ///     _ => None,
    /// });
    /// assert_eq!(loads.collect::<Vec<_>>(), ["A", "copy", "copy"]);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn substitute<'a>(&self, within: Value<'b>, from: Value<'b>, with: impl Into<ExprArg<'a>>) {
        let (with, dtype) = self.operand(with.into(), from.ty().dtype());
        if self.refuses(from, with, dtype) {
            return;
        }
        let mut edit = self.edit.borrow_mut();
        let (start, end) = (edit.start_of(within) as usize, within.end());
        let body = edit.old();
        for user in (start..end).map(|at| body.value_at(at)) {
            for (i, operand) in user.operands().enumerate() {
                if operand == from {
                    edit.set_operand(user, i, with);
                }
            }
        }
    }

    /// Reports content whose `break` or `continue` would refer to a different loop.
    fn refuses_jumps(&self, stmt: Value<'b>) -> bool {
        let is_loop = is_loop(stmt);
        if !(is_loop || self.loops.get() > 0) {
            return false;
        }
        let Some(jump) = jumps(stmt).next() else { return false };
        let called = jump.as_call_to("tirx.break_loop").is_some();
        let word = if called || matches!(jump.stmt(), Some(Stmt::Break)) { "break" } else { "continue" };
        let what = match stmt.stmt() {
            Some(Stmt::For { var, .. }) => format!("the loop over `{}`", var.name().unwrap_or("_")),
            Some(Stmt::While { .. }) => "the while loop".to_string(),
            _ => "the statement".to_string(),
        };
        let message = format!(
            "the content of {what} has a `{word}`, which would then apply to the innermost new loop; skip this {} if `tir::has_jumps` returns \
             true for it",
            if is_loop { "loop" } else { "statement" }
        );
        self.fail_with(PassError::new(message).at(stmt));
        true
    }

    /// Reports a value that cannot replace a variable or buffer.
    fn refuses(&self, from: Value<'b>, with: V, dtype: DType) -> bool {
        let why = match (from.ty().to_owned(), self.edit.borrow().with(with, |with| with.ty().to_owned())) {
            (Type::Buffer(a), Type::Buffer(b)) if a.shape.len() != b.shape.len() => {
                format!("expected a buffer of {} dimensions, found one of {}", b.shape.len(), a.shape.len())
            }
            (Type::Buffer(_), other) if !matches!(other, Type::Buffer(_)) => {
                "expected a buffer, found a different kind of value".to_string()
            }
            _ if from.ty().dtype() != dtype => {
                format!("{dtype} cannot replace {from:?}, which is {}; convert it with `cast`", from.ty().dtype())
            }
            _ if from.symbol().is_some() && !matches!(from.ty().to_owned(), Type::Buffer(_)) => {
                format!("{from:?} cannot be replaced, because shapes of buffers use it")
            }
            _ => return false,
        };
        self.fail(why);
        true
    }
}

/// Returns true if a statement is the entire content of a loop. The nested expressions of the statement precede it.
fn is_all_of(stmt: Value<'_>, around: Value<'_>, var: Value<'_>) -> bool {
    around.region().children().filter(|child| *child != var && !child.is_nested()).eq([stmt])
}

/// Returns true if the content of a statement contains a `break` or `continue` for an enclosing loop, which may be the statement itself.
/// Such content cannot be moved into other loops.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::{has_jumps, prim_func};
///
/// let body = prim_func(|t| {
///     let a = t.buffer_param("A", &[16], DType::I32);
///     t.serial("i", 16, |i| t.store(a, [i], i));
/// })?;
/// let stmt = body.values().find(|value| matches!(value.stmt(), Some(Stmt::For { .. }))).expect("a loop");
/// assert!(!has_jumps(stmt));
/// # Ok::<(), PassError>(())
/// ```
pub fn has_jumps(stmt: Value<'_>) -> bool {
    jumps(stmt).next().is_some()
}

/// Iterates over each `break` and `continue` in the body of `stmt` that belongs to a loop around that body.
fn jumps(stmt: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let range = stmt.region().range();
    let mut at = range.start;
    let nodes = std::iter::from_fn(move || {
        let value = (at < range.end).then(|| stmt.sibling(at))?;
        at = if is_loop(value) { value.end() } else { at + 1 };
        Some(value)
    });
    nodes.filter(|value| is_jump(*value))
}

/// Returns true for a statement or call that ends the innermost loop or its current iteration.
fn is_jump(value: Value<'_>) -> bool {
    let called =
        || matches!(value.as_call().and_then(|call| call.op()), Some("tirx.break_loop" | "tirx.continue_loop"));
    matches!(value.stmt(), Some(Stmt::Break | Stmt::Continue)) || called()
}

fn is_loop(stmt: Value<'_>) -> bool {
    matches!(stmt.stmt(), Some(Stmt::For { .. } | Stmt::While { .. }))
}
