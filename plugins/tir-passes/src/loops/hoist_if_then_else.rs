//! Moves Ifs out of loops whose variables their conditions do not use.
//!
//! *Expects* any PrimFunc. *Keeps* Ifs next to other statements, and Ifs whose conditions read memory, use names or
//! block iterators, or may divide by zero. *Never* changes computed values.

use super::remove_no_op::without_no_ops;
use super::simplify::Simplify;
use plugin_api::prelude::*;
use plugin_api::tir::{Again, TirRewrite};
use plugin_api::walk::visitors::post_order_visit_value;
use std::collections::HashMap;

declare_pass! {
    /// Moves an If out of a loop if its condition does not use the loop variable. Then simplifies, and removes
    /// statements without effect.
    ///
    /// The If must be the only content of its loop. Expects any PrimFunc. Keeps Ifs whose conditions read memory, use
    /// names or iterators of blocks, or may divide by zero. The loop is duplicated for each branch of an If that moves;
    /// if there would be more than 64 copies, the Ifs stay, and a remark is reported as missed. Ifs move out of loops
    /// over threads only with `s_tir.HoistIfThenElse.support_block_scope_hoisting`.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4, 4), "int32"), n: T.int32):
    ///     for i, j in T.grid(4, 4):
    ///         if i < n:
    ///             A[i, j] = 1
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4, 4), "int32"), n: T.int32):
    ///     for i in range(4):
    ///         if i < n:
    ///             for j in range(4):
    ///                 A[i, j] = 1
    /// ```
    pub prim_func pass HOIST_IF_THEN_ELSE = "s_tir.HoistIfThenElse" {
        opt_level: 0,
        run: hoist_if_then_else,
    }
}

declare_config! {
    /// True if an If may move out of loops over threads.
    pub SUPPORT_BLOCK_SCOPE: bool = "s_tir.HoistIfThenElse.support_block_scope_hoisting" { default: false }
}

fn hoist_if_then_else(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let choices = body.root().attr("tirx.HoistIfThenElseExprWithBlock").and_then(|flag| flag.as_int()) == Some(1);
    let threads = choices || SUPPORT_BLOCK_SCOPE.get(ctx);
    let mut finder = Finder { threads, choices, around: Vec::new(), found: HashMap::new() };
    finder.content(body.root());
    let mut hoist = Hoist { found: finder.found, doubled: 0, missed: ValueSet::new(body) };
    let hoisted = if hoist.found.is_empty() { body.clone() } else { hoist.rewrite(body)? };
    for cond in body.values().filter(|value| hoist.missed.contains(*value)) {
        ctx.diagnostics()
            .missed(cond, "the If stays in its loop, because hoisting would duplicate the loop too many times");
    }
    let simple = Simplify::of(&hoisted).rewrite(&hoisted)?;
    without_no_ops(&simple, false)
}

/// Maximum number of Ifs with two branches that move out of a statement; each doubles the statement.
const MAX_DOUBLED: usize = 6;

/// A condition that moves, and true if code also runs when the condition is false, because its If, or an enclosing If,
/// has a second branch.
type Moved<'b> = (Value<'b>, bool);

/// A loop or thread launch.
struct Around<'b> {
    stmt: Value<'b>,
    var: Option<Value<'b>>,
    is_threads: bool,
    /// True if it contains more than one statement.
    is_sequence: bool,
    /// True if a visited If inside it has two branches. If there is only one statement, this If encloses the current
    /// position.
    is_divided: bool,
}

/// Finds the positions to which conditions move.
struct Finder<'b> {
    threads: bool,
    /// True if choices move instead of Ifs.
    choices: bool,
    around: Vec<Around<'b>>,
    found: HashMap<Value<'b>, Vec<Moved<'b>>>,
}

impl<'b> Finder<'b> {
    fn content(&mut self, stmt: Value<'b>) {
        let does = |child: &Value<'b>| {
            let counts = child.stmt().is_some() || matches!(child.view(), Expr::Buffer);
            counts && !matches!(child.stmt(), Some(Stmt::Bind { .. }))
        };
        let statements = stmt.region().children().filter(|child| !child.is_nested());
        if statements.filter(does).count() > 1
            && let Some(around) = self.around.last_mut()
        {
            around.is_sequence = true;
        }
        for child in stmt.region().children().filter(|child| !child.is_nested()) {
            self.visit(child);
        }
    }

    fn visit(&mut self, stmt: Value<'b>) {
        match stmt.stmt() {
            Some(Stmt::For { var, .. }) => self.inner(stmt, Some(var), false),
            Some(Stmt::Launch { .. }) => {
                let var = stmt.operand(1).or_else(|| stmt.region().children().next());
                self.inner(stmt, var, true);
            }
            Some(Stmt::If { cond }) => {
                let otherwise = stmt.if_branches().count() > 1;
                if !self.choices {
                    self.moves(cond, otherwise);
                }
                self.around.iter_mut().for_each(|around| around.is_divided |= otherwise);
                for branch in stmt.if_branches() {
                    self.content(branch);
                }
            }
            _ => {
                if self.choices {
                    stmt.operands().for_each(|operand| self.expr(operand));
                }
                self.content(stmt);
            }
        }
    }

    fn inner(&mut self, stmt: Value<'b>, var: Option<Value<'b>>, is_threads: bool) {
        self.around.push(Around { stmt, var, is_threads, is_sequence: false, is_divided: false });
        self.content(stmt);
        self.around.pop();
    }

    /// Finds the choices in an expression.
    fn expr(&mut self, expr: Value<'b>) {
        if let Some(cond) = expr.as_call_to("tirx.if_then_else").and_then(|call| call.arg(0)) {
            self.moves(cond, true);
        }
        expr.operands().filter(|operand| operand.is_nested()).for_each(|operand| self.expr(operand));
    }

    /// Records the position to which a condition moves.
    fn moves(&mut self, cond: Value<'b>, otherwise: bool) {
        let Some(used) = variables(cond) else { return };
        let stays = |around: &&Around<'b>| {
            let uses = around.var.is_some_and(|var| used.contains(&var));
            around.is_sequence || uses || around.is_threads && !self.threads
        };
        let free = self.around.iter().rev().take_while(|around| !stays(around));
        if let Some(to) = free.last() {
            let otherwise = otherwise || to.is_divided;
            self.found.entry(to.stmt).or_default().push((cond, otherwise));
        }
    }
}

/// Returns the variables of a condition, or `None` if it reads memory, contains a call, uses a named value or a block
/// iterator, or may divide by zero.
fn variables(cond: Value<'_>) -> Option<Vec<Value<'_>>> {
    if may_divide_by_zero(cond) {
        return None;
    }
    let (mut work, mut used) = (vec![cond], Vec::new());
    while let Some(value) = work.pop() {
        match value.view() {
            Expr::Load { .. } | Expr::Call(_) | Expr::Let { .. } => return None,
            _ if matches!(value.stmt(), Some(Stmt::Bind { .. })) || value.as_block_iter().is_some() => return None,
            Expr::Var => used.push(value),
            _ => work.extend(value.operands().filter(|_| value.is_nested())),
        }
    }
    Some(used)
}

/// Returns true if an expression divides integers by anything but a nonzero constant.
fn may_divide_by_zero(expr: Value<'_>) -> bool {
    let mut found = false;
    post_order_visit_value(expr, |part| {
        if let Expr::Arith { op, b: Some(by), .. } = part.view()
            && op.is_division()
        {
            let by_zero = by.dim().and_then(|by| by.as_int()).is_none_or(|by| by == 0);
            found |= by_zero && !part.ty().dtype().is_float();
        }
    });
    found
}

/// Writes Ifs around loops.
struct Hoist<'b> {
    found: HashMap<Value<'b>, Vec<Moved<'b>>>,
    /// Number of Ifs with two branches moved around the current position.
    doubled: usize,
    /// Conditions that are kept although they could move.
    missed: ValueSet<'b>,
}

impl<'b> Hoist<'b> {
    /// Writes the loop inside the conditions from `next` on.
    fn under(&mut self, stmt: Value<'b>, next: usize, w: &mut Again<'b>) -> Result<(), PassError> {
        let moved = self.found.get(&stmt).and_then(|found| found.get(next)).copied();
        let Some((cond, otherwise)) = moved else { return w.stmt(self, stmt) };
        if otherwise && self.doubled == MAX_DOUBLED {
            self.missed.insert(cond);
            return self.under(stmt, next + 1, w);
        }
        let cond = self.expr(cond, w)?;
        if otherwise {
            self.doubled += 1;
            w.if_else(cond, |w, _| self.under(stmt, next + 1, w))?;
            self.doubled -= 1;
            Ok(())
        } else {
            w.if_then(cond, |w| self.under(stmt, next + 1, w))
        }
    }
}

impl<'b> TirRewrite<'b> for Hoist<'b> {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        self.under(stmt, 0, w)
    }
}
