//! Turns loops marked as `vectorized` into vector operations.
//!
//! *Expects* any PrimFunc. *Keeps* the order of evaluation. *Never* vectorizes a choice: a statement whose condition
//! differs between lanes becomes a serial loop.

mod in_lanes;
mod lanes;
mod predicates;

use in_lanes::InLanes;
use lanes::{Lanes, elements};
use plugin_api::ir::loop_kind;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::{Again, TirRewrite, has_jumps};
use predicates::Mask;

declare_pass! {
    /// Replaces loops marked as `vectorized` by operations on vectors.
    ///
    /// A statement without a vector form, such as an If whose condition differs between lanes, becomes a serial loop.
    /// So does a loop whose iterations each need their own copy of a buffer that the loop allocates. A `break` or
    /// `continue` that would then apply to a different loop is an error. With `enable_vectorize` false, all marked
    /// loops become serial. Expects any PrimFunc.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "float32")):
    ///     for i in T.vectorized(4):
    ///         A[i] = A[i + 4] + T.float32(1)
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "float32")):
    ///     A[0:4] = A[T.Ramp(4, 1, 4)] + T.Broadcast(T.float32(1), 4)
    /// ```
    pub prim_func pass VECTORIZE_LOOP = "tirx.VectorizeLoop" {
        opt_level: 0,
        options: Options {
            /// True if loops are vectorized; otherwise they become serial.
            enable_vectorize: bool = true,
        },
        run: vectorize_loop,
    }
}

declare_config! {
    /// True if a condition that differs between lanes becomes a predicate of loads and stores. By default, true for
    /// targets whose vectors have a length that is only known at run time.
    pub ENABLE_BUFFER_LEVEL_PREDICATION: bool = "tirx.enable_buffer_level_predication" {}
}

fn vectorize_loop(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let marked = |value: Value<'_>| matches!(value.stmt(), Some(Stmt::For { kind: loop_kind::VECTORIZED, .. }));
    if !body.values().any(marked) {
        return Ok(body.clone());
    }
    if !options.enable_vectorize {
        return Serial.rewrite(body);
    }
    // Vectors whose length is known only at run time: ARM SVE, RISC-V V.
    let scalable = ctx.target().is_some_and(|target| target.contains("+sve") || target.contains("has_sve\":true"));
    let predicates = ENABLE_BUFFER_LEVEL_PREDICATION.get(ctx).unwrap_or(scalable);
    let (known, serial) = (InLanes::default(), Vec::new());
    let mut vectorize = Vectorize { scalable, predicates, along: None, mask: None, known, serial };
    let written = vectorize.rewrite(body)?;
    for (stmt, why) in vectorize.serial {
        ctx.diagnostics().missed(stmt, &format!("the loop becomes serial: {why}"));
    }
    Ok(written)
}

/// Makes marked loops serial.
struct Serial;

impl<'b> TirRewrite<'b> for Serial {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        match stmt.stmt() {
            Some(Stmt::For { kind: loop_kind::VECTORIZED, .. }) => as_serial(self, stmt, w),
            _ => w.stmt(self, stmt),
        }
    }
}

/// Writes a loop as a serial loop.
fn as_serial<'b, R: TirRewrite<'b>>(r: &mut R, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
    let Some(Stmt::For { var, min, extent, .. }) = stmt.stmt() else { return w.stmt(r, stmt) };
    let range = (r.expr(min, w)?, r.expr(extent, w)?);
    w.loop_as(stmt, loop_kind::SERIAL, range, |w, new| {
        w.set(var, new);
        w.iteration(r, stmt, var)
    })
}

/// The loop that is being vectorized.
#[derive(Clone, Copy)]
struct Along<'b> {
    var: Value<'b>,
    /// The trip count of the loop.
    extent: Value<'b>,
    lanes: Lanes,
}

struct Vectorize<'b> {
    /// True if the target has vectors whose length is known only at run time.
    scalable: bool,
    /// True if conditions become predicates.
    predicates: bool,
    along: Option<Along<'b>>,
    /// The predicate of the loads and stores being written.
    mask: Option<Mask>,
    /// The values that differ between lanes of the current or the last vectorized loop. No other loop contains the same
    /// values.
    known: InLanes<'b>,
    /// Loops that became serial, with the reasons.
    serial: Vec<(Value<'b>, String)>,
}

impl<'b> TirRewrite<'b> for Vectorize<'b> {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        if let (None, Some(Stmt::For { var, min, extent, kind: loop_kind::VECTORIZED, .. })) = (self.along, stmt.stmt())
        {
            if stmt.loop_step().is_some() {
                self.serial.push((stmt, "its step is not 1; s_tir.CanonicalizeLoop makes it 1".to_string()));
                return as_serial(self, stmt, w);
            }
            if min.dim().and_then(|min| min.as_int()) != Some(0) {
                let name = var.name().unwrap_or("_");
                bail!(at stmt, "the vectorized loop over `{name}` must start at 0; add its start to the indices");
            }
            return self.vectorize(stmt, var, extent, w);
        }
        let Some(along) = self.along else { return w.stmt(self, stmt) };
        if let Some((branch, limit)) = self.predicated(stmt) {
            return self.under_predicate(stmt, branch, limit, w);
        }
        match stmt.stmt() {
            _ if self.known.must_be_serial(stmt) => self.serial(stmt, along, w),
            Some(Stmt::Store { .. }) => self.store(stmt, w),
            Some(Stmt::Bind { value }) => {
                let value = self.expr(value, w)?;
                w.bind_like(stmt, value);
                Ok(())
            }
            Some(Stmt::For { var, min, .. }) if self.known.lanes(min) != Lanes::ONE => {
                let name = var.name().unwrap_or("_");
                bail!(at stmt, "the loop over `{name}` starts at a different value in each lane; let it start at 0, and add its start to the \
                                indices");
            }
            Some(Stmt::While { .. }) => {
                Err(PassError::new("a while loop cannot be vectorized; move it out of the vectorized loop").at(stmt))
            }
            _ => w.stmt(self, stmt),
        }
    }

    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let lanes = self.known.lanes(expr);
        if lanes == Lanes::ONE || !expr.is_nested() {
            return w.expr(self, expr);
        }
        let dtype = lanes.of(expr.ty().dtype())?;
        match expr.view() {
            Expr::Arith { op, a, b: Some(b) } => {
                let (a, b) = (self.expr(a, w)?, self.expr(b, w)?);
                self.binary(op, a, b, w)
            }
            Expr::Load { .. } => {
                let mut ops = w.operands(self, expr)?;
                Ok(match self.mask {
                    Some(mask) => {
                        ops.push(mask.write(w)?);
                        w.call("tirx.masked_load", &ops, dtype)
                    }
                    None => w.expr_as(expr, &ops, dtype),
                })
            }
            Expr::Arith { .. } => {
                let ops = w.operands(self, expr)?;
                Ok(w.expr_as(expr, &ops, dtype))
            }
            Expr::Select { .. } => {
                let ops = self.widened(expr, 0, lanes, w)?;
                Ok(w.expr_as(expr, &ops, dtype))
            }
            Expr::Call(call) => {
                let first = match call.op() {
                    Some("tirx.if_then_else") => 2,
                    Some("tirx.call_llvm_pure_intrin") => 2,
                    _ => 1,
                };
                let ops = self.widened(expr, first, lanes, w)?;
                Ok(w.expr_as(expr, &ops, dtype))
            }
            _ => w.expr(self, expr),
        }
    }
}

impl<'b> Vectorize<'b> {
    fn vectorize(
        &mut self,
        stmt: Value<'b>,
        var: Value<'b>,
        extent: Value<'b>,
        w: &mut Again<'b>,
    ) -> Result<(), PassError> {
        let n = extent.dim().and_then(|extent| extent.as_int());
        if let Some(n) = n.filter(|n| *n > i64::from(i16::MAX)) {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the vectorized loop over `{name}` has {n} iterations, but a vector has at most {} lanes; split the loop, and \
                            vectorize the inner one", i16::MAX);
        }
        if n.is_some_and(|n| n < 1) {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the vectorized loop over `{name}` does not have any iterations; make it a serial loop, or run tirx.RemoveNoOp first");
        }
        let Some(lanes) = Lanes::of_extent(extent).filter(|lanes| self.scalable || !lanes.scalable) else {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the trip count of the vectorized loop over `{name}` is unknown; make it a constant, or a multiple of \
                            `T.vscale()` if the target has scalable vectors");
        };
        if has_jumps(stmt) {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the vectorized loop over `{name}` has a `break` or `continue`; make it a serial loop");
        }
        let known = InLanes::of(stmt, var, lanes);
        if let Some(why) = known.obstacle(stmt) {
            self.serial.push((stmt, why));
            return as_serial(self, stmt, w);
        }
        self.known = known;
        self.along = Some(Along { var, extent, lanes });
        let (zero, one) = (w.int(0, var.ty().dtype()), w.int(1, var.ty().dtype()));
        // The parser reads a number of lanes as a 32-bit integer.
        let n = if lanes.scalable { w.expr(self, extent)? } else { w.int(lanes.n, DType::I32) };
        let ramp = w.ramp(zero, one, n, lanes.of(var.ty().dtype())?);
        w.set(var, ramp);
        w.iteration(self, stmt, var)?;
        self.along = None;
        Ok(())
    }

    /// Writes a statement once for each lane.
    fn serial(&mut self, stmt: Value<'b>, along: Along<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        if has_jumps(stmt) && !matches!(stmt.stmt(), Some(Stmt::For { .. } | Stmt::While { .. })) {
            bail!(at stmt, "a `break` or `continue` applies to only some lanes; make the vectorized loop around it a serial loop");
        }
        self.along = None;
        let known = std::mem::take(&mut self.known);
        let ramp = w.v(along.var);
        let extent = w.expr(self, along.extent)?;
        let name = format!("{}_s", along.var.name().unwrap_or("i"));
        w.new_loop(&name, extent, |w, var| {
            w.set(along.var, var);
            self.stmt(stmt, w)
        })?;
        w.set(along.var, ramp);
        self.known = known;
        self.along = Some(along);
        Ok(())
    }

    /// Writes the operands of an expression; operands from `first` on are widened to a number of lanes.
    fn widened(&mut self, expr: Value<'b>, first: usize, lanes: Lanes, w: &mut Again<'b>) -> Result<Vec<V>, PassError> {
        let mut ops = w.operands(self, expr)?;
        for op in ops.iter_mut().skip(first) {
            *op = broadcast_to(*op, lanes, w)?;
        }
        Ok(ops)
    }

    fn store(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        let mut ops = w.operands(self, stmt)?;
        let [buffer, value, indices @ ..] = &mut ops[..] else { return w.stmt(self, stmt) };
        if let Some(last) = indices.last_mut() {
            let element = w.dtype(*buffer);
            let (index, stored) = (Lanes::of_type(w.dtype(*last)), Lanes::of_type(w.dtype(*value)));
            let within = elements(element);
            if element.lanes() as i16 <= 0 {
                bail!(at stmt, "a vectorized loop cannot store to a buffer of scalable vectors");
            }
            let total = Lanes { n: (index.n * within).max(stored.n), scalable: index.scalable || stored.scalable };
            *last = broadcast_to(*last, Lanes { n: total.n / within, ..total }, w)?;
            *value = broadcast_to(*value, total, w)?;
        }
        if let Some(mask) = self.mask {
            ops.push(mask.write(w)?);
            let store = w.effect("tirx.masked_store", &ops);
            w.evaluate(store);
            return Ok(());
        }
        w.header(stmt, &ops, |_| Ok(()))
    }

    fn binary(&mut self, op: PrimOp, a: V, b: V, w: &mut Again<'b>) -> Result<V, PassError> {
        if let (PrimOp::Add | PrimOp::Sub | PrimOp::Mul, Some((ramp, scalar, first))) = (op, ramp_and_scalar(a, b, w))
            && (op != PrimOp::Mul || w.as_int(scalar).is_some_and(|by| by > 0))
        {
            let parts = w.parts(ramp);
            if let [base, stride, lanes] = parts[..] {
                let base = if first { w.folded(op, base, scalar) } else { w.folded(op, scalar, base) };
                let zero = w.int(0, w.dtype(stride));
                let stride = match op {
                    PrimOp::Sub if !first => w.folded(op, zero, stride),
                    PrimOp::Mul => w.folded(op, stride, scalar),
                    _ => stride,
                };
                let dtype = w.dtype(ramp);
                return Ok(w.ramp(base, stride, lanes, dtype));
            }
        }
        let lanes = Lanes::of_type(w.dtype(a)).max(Lanes::of_type(w.dtype(b)));
        let (a, b) = (broadcast_to(a, lanes, w)?, broadcast_to(b, lanes, w)?);
        Ok(w.binary(op, a, b))
    }
}

/// Returns a ramp and a scalar, and true if the ramp is the first of the two.
fn ramp_and_scalar(a: V, b: V, w: &Again<'_>) -> Option<(V, V, bool)> {
    let is_ramp = |v: V| w.with(v, |v| matches!(v.view(), Expr::Ramp { .. }));
    let is_scalar = |v: V| Lanes::of_type(w.dtype(v)) == Lanes::ONE;
    if is_ramp(a) && is_scalar(b) { Some((a, b, true)) } else { (is_ramp(b) && is_scalar(a)).then_some((b, a, false)) }
}

/// Broadcasts a value to some lanes.
fn broadcast_to(v: V, lanes: Lanes, w: &mut Again<'_>) -> Result<V, PassError> {
    let dtype = w.dtype(v);
    let now = Lanes::of_type(dtype);
    if now == lanes || !dtype.is_known() {
        return Ok(v);
    }
    let single = w
        .with(v, |v| matches!(v.view(), Expr::Broadcast { .. }))
        .then(|| w.parts(v))
        .filter(|_| now.scalable == lanes.scalable && lanes.n % now.n == 0);
    let value = match single.as_deref() {
        Some([value, _]) => *value,
        _ if now == Lanes::ONE => v,
        _ => {
            return Err(pass_error!(
                "a vector of {} lanes is used where {} lanes are needed; shorten the loop",
                now.n,
                lanes.n
            ));
        }
    };
    let n = w.int(lanes.n, DType::I32);
    let n = if lanes.scalable {
        let vscale = w.call("tirx.vscale", &[], DType::I32);
        w.binary(PrimOp::Mul, vscale, n)
    } else {
        n
    };
    let dtype = lanes.of(w.dtype(value))?;
    Ok(w.broadcast(value, n, dtype))
}
