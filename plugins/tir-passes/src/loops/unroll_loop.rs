//! Unrolls loops marked as `unroll`, and short serial loops if the config enables it.
//!
//! *Expects* any PrimFunc. *Keeps* loops with an unknown trip count, and loops with a `break` or `continue`. *Never*
//! changes what a loop computes.

use super::canonicalize_loop::{first_value, quotient_up, step_of};
use plugin_api::arith::Analyzer;
use plugin_api::ir::loop_kind;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::{Again, TirRewrite, has_jumps};
use std::collections::{HashMap, HashSet};

declare_pass! {
    /// Unrolls loops marked as `unroll`, and short serial loops if the config enables it.
    ///
    /// With `tirx.UnrollLoop.explicit_unroll` set to 0, serial loops are only marked as `unroll`. Expects any PrimFunc.
    /// Keeps serial loops with an unknown trip count, and loops with a `break` or `continue`; such an `unroll` loop is
    /// an error.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4,), "int32")):
    ///     for i in T.unroll(2):
    ///         A[i + 1] = i
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4,), "int32")):
    ///     A[T.Add(0, 1)] = 0
    ///     A[T.Add(1, 1)] = 1
    /// ```
    pub prim_func pass UNROLL_LOOP = "tirx.UnrollLoop" {
        opt_level: 0,
        run: unroll_loop,
    }
}

declare_config! {
    /// The maximum number of steps of a loop nest that is unrolled without a mark.
    pub AUTO_MAX_STEP: i64 = "tirx.UnrollLoop.auto_max_step" { default: 0 }
}

declare_config! {
    /// The maximum nesting of loops that are unrolled without a mark.
    pub AUTO_MAX_DEPTH: i64 = "tirx.UnrollLoop.auto_max_depth" { default: 8 }
}

declare_config! {
    /// The maximum trip count of a loop that is unrolled regardless of the number of its steps.
    pub AUTO_MAX_EXTENT: i64 = "tirx.UnrollLoop.auto_max_extent" { default: 0 }
}

declare_config! {
    /// 1 to unroll loops, 0 to only mark them as `unroll`.
    pub EXPLICIT_UNROLL: i64 = "tirx.UnrollLoop.explicit_unroll" { default: 1, range: 0..=1 }
}

declare_config! {
    /// 1 to unroll loops whose variables are indices of local buffers.
    pub UNROLL_LOCAL_ACCESS: i64 = "tirx.UnrollLoop.unroll_local_access" { default: 0, range: 0..=1 }
}

fn unroll_loop(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let limits = Limits {
        max_step: AUTO_MAX_STEP.get(ctx),
        max_depth: AUTO_MAX_DEPTH.get(ctx),
        max_extent: AUTO_MAX_EXTENT.get(ctx),
        explicit: EXPLICIT_UNROLL.get(ctx) != 0,
        local_access: UNROLL_LOCAL_ACCESS.get(ctx) != 0,
    };
    let mut choice = Choice { limits, analyzer: Analyzer::new(), local: HashSet::new(), chosen: HashMap::new() };
    let all = choice.content(body.root())?;
    if all.copies > MOST_COPIES {
        bail!(at body.root(), "unrolling the loops of this function would produce {} statements, more than {MOST_COPIES}; unroll fewer loops", all.copies);
    }
    if choice.chosen.is_empty() {
        return Ok(body.clone());
    }
    ctx.statistic("loops unrolled", choice.chosen.len());
    Unroll { chosen: choice.chosen }.rewrite(body)
}

/// Maximum number of statements into which loops are unrolled; more would fit neither into memory nor into a CPU's
/// cache.
const MOST_COPIES: i64 = 1 << 17;

/// The limits from the config.
#[derive(Clone, Copy)]
struct Limits {
    max_step: i64,
    max_depth: i64,
    max_extent: i64,
    explicit: bool,
    local_access: bool,
}

/// Counts over some statements, used to decide whether a loop around them is short.
#[derive(Clone, Copy, Default)]
struct Count {
    steps: i64,
    /// Number of statements.
    written: i64,
    /// Number of statements that are copies for loop iterations.
    copies: i64,
    /// Nesting depth of unrolled loops.
    unrolled: i64,
    /// Nesting depth of kept loops.
    kept: i64,
}

/// The replacement of a statement.
#[derive(Clone, Copy)]
enum Chosen {
    /// The loop is replaced by its content, once for each of its `n` iterations; each adds `step` to the variable.
    WriteOut { n: i64, step: i64 },
    /// The loop is only marked as `unroll`.
    Mark,
    /// The statement is a pragma of this pass, and is replaced by its content.
    Content,
}

/// Finds the loops to unroll, inner ones first.
struct Choice<'b> {
    limits: Limits,
    analyzer: Analyzer,
    /// Loop variables that index local buffers.
    local: HashSet<Value<'b>>,
    chosen: HashMap<Value<'b>, Chosen>,
}

impl<'b> Choice<'b> {
    fn content(&mut self, stmt: Value<'b>) -> Result<Count, PassError> {
        let mut all = Count::default();
        for child in stmt.region().children() {
            let count = self.stmt(child)?;
            all.steps = all.steps.saturating_add(count.steps);
            all.written = all.written.saturating_add(count.written);
            all.copies = all.copies.saturating_add(count.copies);
            all.unrolled = all.unrolled.max(count.unrolled);
            all.kept = all.kept.max(count.kept);
        }
        Ok(all)
    }

    fn stmt(&mut self, stmt: Value<'b>) -> Result<Count, PassError> {
        if self.limits.local_access {
            self.note_local_access(stmt);
        }
        let mut count = self.count(stmt)?;
        if stmt.stmt().is_some() {
            count.written = count.written.saturating_add(1);
        }
        Ok(count)
    }

    fn count(&mut self, stmt: Value<'b>) -> Result<Count, PassError> {
        match stmt.stmt() {
            Some(Stmt::Store { .. } | Stmt::Evaluate(_)) => Ok(Count { steps: 1, ..Count::default() }),
            Some(Stmt::For { .. }) => self.visit_for(stmt),
            Some(Stmt::Attr { key, value }) => {
                let outer = self.limits;
                let said = value.dim().and_then(|value| value.as_int());
                match (key, said) {
                    ("pragma_auto_unroll_max_step", Some(said)) => self.limits.max_step = said,
                    ("pragma_unroll_explicit", Some(said)) => self.limits.explicit = said != 0,
                    _ => return self.content(stmt),
                }
                self.chosen.insert(stmt, Chosen::Content);
                let count = self.content(stmt);
                self.limits = outer;
                count
            }
            _ => self.content(stmt),
        }
    }

    fn visit_for(&mut self, stmt: Value<'b>) -> Result<Count, PassError> {
        let Some(Stmt::For { var, extent, kind, .. }) = stmt.stmt() else { return Ok(Count::default()) };
        let mut count = self.content(stmt)?;
        let extent = self.analyzer.index_bounds(extent).constant();
        let step = step_of(stmt);
        let known = extent.zip(step).map(|(extent, step)| quotient_up(extent, step));
        let n = known.filter(|n| (0..=i64::from(i32::MAX)).contains(n));
        let marked = kind == loop_kind::UNROLL;
        if let Some(n) = known.filter(|n| marked && *n > i64::from(i32::MAX)) {
            return Err(too_many(stmt, var, n, i64::MAX));
        }
        if marked && n.is_none() {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the loop over `{name}` is marked as `unroll`, but its trip count is unknown; make it a serial \
                            loop, or make the trip count constant before this pass");
        }
        let Limits { max_step, max_depth, max_extent, explicit, local_access } = self.limits;
        if has_jumps(stmt) {
            if marked && (explicit || max_extent == 1 && n.is_some_and(|n| n <= 1)) {
                // Without the loop, a `break` or `continue` in it would apply to the enclosing loop.
                let name = var.name().unwrap_or("_");
                bail!(at stmt, "the loop over `{name}` is marked as `unroll`, but contains a `break` or `continue` that applies to it; make it a \
                                serial loop, or put the statements after the jump under a condition");
            }
            count.kept += 1;
            return Ok(count);
        }
        let short = n.is_some_and(|n| n.saturating_mul(count.steps) <= max_step || n <= max_extent);
        let local = local_access && n.is_some_and(|n| n > 0) && self.local.contains(&var);
        let auto = kind == loop_kind::SERIAL && count.kept == 0 && count.unrolled <= max_depth && short;
        let unrolls = auto || marked || local;
        if unrolls {
            count.steps = count.steps.saturating_mul(n.unwrap_or(0));
            count.unrolled += 1;
        } else {
            count.kept += 1;
        }
        let single = max_extent == 1 && n.is_some_and(|n| n <= 1);
        match n.zip(step) {
            Some((n, step)) if unrolls && explicit || single => {
                count.written = count.written.saturating_mul(n);
                count.copies = count.written;
                if count.copies > MOST_COPIES {
                    return Err(too_many(stmt, var, n, count.copies));
                }
                self.chosen.insert(stmt, Chosen::WriteOut { n, step });
            }
            _ if unrolls && !marked => drop(self.chosen.insert(stmt, Chosen::Mark)),
            _ => {}
        }
        Ok(count)
    }

    /// Records the variables in indices of a local buffer.
    fn note_local_access(&mut self, value: Value<'b>) {
        if let Some(access) = value.as_element_access()
            && let Type::Buffer(buffer) = access.buffer.ty().to_owned()
            && ["local", "warp"].iter().any(|scope| buffer.scope.starts_with(scope))
        {
            let mut indices = access.indices;
            while let Some(index) = indices.pop() {
                indices.extend(index.operands().filter(|_| index.is_nested()));
                self.local.insert(index);
            }
        }
    }
}

/// Returns the error for a loop that would be unrolled to too many statements.
fn too_many(stmt: Value<'_>, var: Value<'_>, n: i64, copies: i64) -> PassError {
    let name = var.name().unwrap_or("_");
    let statements = if copies == i64::MAX { String::new() } else { format!(", {copies} statements") };
    pass_error!(at stmt, "the loop over `{name}` has {n} iterations{statements}, too many to unroll: the limit is {MOST_COPIES} statements; make \
                          it a serial loop, or split it and unroll the inner loop")
}

/// Unrolls the chosen loops.
struct Unroll<'b> {
    chosen: HashMap<Value<'b>, Chosen>,
}

impl<'b> TirRewrite<'b> for Unroll<'b> {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        let chosen = self.chosen.get(&stmt).copied();
        let (Some(chosen), Some(Stmt::For { var, min, extent, .. })) = (chosen, stmt.stmt()) else {
            return if chosen.is_some() { w.content(self, stmt) } else { w.stmt(self, stmt) };
        };
        match chosen {
            Chosen::WriteOut { n: 0, .. } => {
                let nothing = w.int(0, DType::I32);
                w.evaluate(nothing);
            }
            Chosen::WriteOut { n, step } => {
                let min = first_value(self, min, var, w)?;
                for i in 0..n {
                    let i = w.int(i * step, var.ty().dtype());
                    let i = w.folded(PrimOp::Add, min, i);
                    w.set(var, i);
                    w.iteration(self, stmt, var)?;
                }
            }
            _ => {
                let (min, extent) = (self.expr(min, w)?, self.expr(extent, w)?);
                w.loop_as(stmt, loop_kind::UNROLL, (min, extent), |w, new| {
                    w.set(var, new);
                    w.iteration(self, stmt, var)
                })?;
            }
        }
        Ok(())
    }
}
