//! Writes a function with narrower indices.

use super::narrow_data_type::ranged;
use plugin_api::ir::{BufferType, DimExpr, Sym};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::{Again, TirRewrite};

/// Chooses the widths of expressions and variables.
pub(super) trait Widths<'b> {
    /// Returns the bits that an expression needs, inside expressions that need `around`.
    fn bits(&mut self, expr: Value<'b>, around: u8) -> u8;
    /// Returns the new bits of a variable, or `None` if they do not change.
    fn of_var(&self, var: Value<'b>) -> Option<u8>;
    /// Returns the bits of a constant or conversion of a data type where `bits` are needed.
    fn of_number(&self, dtype: DType, bits: u8) -> u8;
    /// Returns the width of indices that do not need more bits.
    fn target(&self) -> u8;
    /// Returns true if symbolic variables and numbers that are not indices are narrowed as well.
    fn all(&self) -> bool {
        false
    }
}

/// Writes a function with the index widths that `widths` chooses.
pub(super) struct Narrow<W> {
    widths: W,
    /// True if numbers at the current position are indices, shapes or similar.
    is_index: bool,
    /// True if the current position is a condition, in which compared integers are indices. Used only if everything is
    /// narrowed.
    is_condition: bool,
    /// Bits that the expressions around the current position need.
    around: u8,
}

impl<'b, W: Widths<'b>> Narrow<W> {
    pub(super) fn new(widths: W) -> Narrow<W> {
        let around = widths.target();
        Narrow { widths, is_index: false, is_condition: false, around }
    }

    /// Writes the number of leading zeros of a value that may have been narrowed.
    fn leading_zeros(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let ops = w.operands(self, expr)?;
        let zeros = w.expr_of(expr, &ops);
        let was = expr.operand(1).map(|value| value.ty().dtype().bits());
        let now = ops.get(1).map(|value| w.dtype(*value).bits());
        Ok(match (was, now) {
            (Some(was), Some(now)) if was != now => {
                let dtype = w.dtype(zeros);
                let (less, more) = (w.int(now.into(), dtype), w.int(was.into(), dtype));
                let zeros = w.folded(PrimOp::Sub, zeros, less);
                w.folded(PrimOp::Add, zeros, more)
            }
            _ => zeros,
        })
    }

    /// Gives a parameter the type that it has as an index.
    pub(super) fn param(&mut self, param: Value<'b>, w: &mut Again<'b>) {
        match param.as_buffer_type() {
            Some(mut ty) => {
                let offset = self.dim(&ty.offset());
                ty.shape.iter_mut().chain(&mut ty.strides).for_each(|dim| *dim = self.dim(dim));
                ty.set_offset(offset);
                w.set_type(param, &Type::Buffer(ty));
            }
            None if self.widths.of_var(param).is_some() => {
                w.set_type(param, &self.scalar_type(param));
            }
            None => {}
        }
    }

    /// Sets whether numbers count as indices while `f` runs.
    fn within<R>(&mut self, is_index: bool, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.is_index, is_index);
        let out = f(self);
        self.is_index = outer;
        out
    }

    /// Writes the operands of a choice; the one at `cond` is the condition.
    fn choice(&mut self, expr: Value<'b>, cond: usize, w: &mut Again<'b>) -> Result<Vec<V>, PassError> {
        let mut operand = |(i, operand): (usize, Value<'b>)| {
            if i == cond { self.condition(operand, w) } else { self.expr(operand, w) }
        };
        expr.operands().enumerate().map(&mut operand).collect()
    }

    /// Writes a condition.
    fn condition(&mut self, cond: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let outer = std::mem::replace(&mut self.is_condition, self.widths.all());
        let out = self.expr(cond, w);
        self.is_condition = outer;
        out
    }

    /// Writes the operands from `first` on as indices.
    fn indices(&mut self, value: Value<'b>, first: usize, w: &mut Again<'b>) -> Result<Vec<V>, PassError> {
        let mut operand = |this: &mut Self, (i, operand): (usize, Value<'b>)| {
            this.within(i >= first || this.is_index, |this| this.expr(operand, w))
        };
        value.operands().enumerate().map(|part| operand(self, part)).collect()
    }

    /// Writes a loop, thread or block iterator.
    fn ranged(&mut self, stmt: Value<'b>, var: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        let mut ops = self.indices(stmt, 0, w)?;
        let dtype = self.type_of(var);
        for op in &mut ops {
            if w.dtype(*op).code() == dtype.code() {
                *op = converted(*op, dtype, w);
            }
        }
        if stmt == var {
            w.retyped(stmt, &ops, &self.scalar_type(stmt));
            return Ok(());
        }
        w.header(stmt, &ops, |w| w.content(self, stmt))
    }

    fn type_of(&self, var: Value<'b>) -> DType {
        let dtype = var.ty().dtype();
        self.widths.of_var(var).map_or(dtype, |bits| with_bits(dtype, bits))
    }

    /// Returns the type of a variable. In shapes that mention it, it remains the same symbolic variable.
    fn scalar_type(&self, var: Value<'b>) -> Type {
        let dtype = self.type_of(var);
        let same = self.widths.all() || dtype == var.ty().dtype();
        let symbol = var.symbol().filter(|_| same);
        Type::Prim { dtype, value: symbol.map(|sym| Dim::Var(Sym { dtype, ..sym })) }
    }

    fn buffer(&mut self, stmt: Value<'b>, ty: BufferType, w: &mut Again<'b>) -> Result<(), PassError> {
        let ops = w.operands(self, stmt)?;
        // The parser gives the variables that a matched buffer defines the data type of its first extent.
        let mut brought_in = ty.strides.iter().chain(&ty.elem_offset).filter(|dim| matches!(dim, Dim::Var(_)));
        if !self.widths.all() && stmt.matched_region().is_some() && brought_in.next().is_some() {
            w.retyped(stmt, &ops, &Type::Buffer(ty));
            return Ok(());
        }
        let offset = self.dim(&ty.offset());
        let mut narrow = ty.clone();
        narrow.shape.iter_mut().chain(&mut narrow.strides).for_each(|dim| *dim = self.dim(dim));
        let same = offset == ty.offset();
        narrow.set_offset(offset);
        w.retyped(stmt, &ops, &Type::Buffer(narrow));
        if !same {
            w.no_view(stmt);
        }
        Ok(())
    }

    /// Converts a dimension of a buffer.
    fn dim(&self, dim: &Dim) -> Dim {
        let dtype = dim.dtype();
        match dim.as_int() {
            Some(value) if dtype.code() == DType::I32.code() => {
                let holds = plugin_api::arith::Bounds::of_dtype(with_bits(dtype, self.widths.target()));
                let needed = if holds.contains(value) { self.widths.target() } else { 64 };
                Dim::int(value, with_bits(dtype, self.widths.of_number(dtype, needed)))
            }
            _ if self.widths.all() => self.dim_expr(dim),
            _ => dim.clone(),
        }
    }

    /// Converts a non-constant dimension together with its operands.
    fn dim_expr(&self, dim: &Dim) -> Dim {
        let narrow = |dtype: DType| match dtype {
            DType::I64 => with_bits(dtype, self.widths.target()),
            other => other,
        };
        let Dim::Expr(expr) = dim else {
            return match dim {
                Dim::Var(sym) => Dim::Var(Sym { dtype: narrow(sym.dtype), ..*sym }),
                number => self.dim(number),
            };
        };
        match &**expr {
            DimExpr::Int(..) | DimExpr::Float(..) => self.dim(dim),
            DimExpr::Unary(op, dtype, a) => {
                let a = self.dim(a);
                let same = *op == PrimOp::Cast && a.dtype() == narrow(*dtype);
                if same { a } else { Dim::Expr(DimExpr::Unary(*op, narrow(*dtype), a).into()) }
            }
            DimExpr::Binary(op, dtype, a, b) => {
                Dim::Expr(DimExpr::Binary(*op, narrow(*dtype), self.dim(a), self.dim(b)).into())
            }
        }
    }

    fn binary(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let Expr::Arith { op, a, b: Some(b) } = expr.view() else { return w.expr(self, expr) };
        let compared = self.is_condition && op.is_comparison() && a.ty().dtype().is_int();
        let is_index = compared || self.is_index;
        let sides = self.within(is_index, |this| Ok::<_, PassError>((this.expr(a, w)?, this.expr(b, w)?)));
        let (mut x, mut y) = sides?;
        if w.dtype(x) != w.dtype(y) && !self.widths.all() {
            (x, y) = self.within(true, |this| Ok::<_, PassError>((this.expr(a, w)?, this.expr(b, w)?)))?;
        }
        let (s, t) = (w.dtype(x), w.dtype(y));
        if s == a.ty().dtype() && t == b.ty().dtype() && s == t {
            return Ok(w.expr_of(expr, &[x, y]));
        }
        let wider = with_bits(s, s.bits().max(t.bits()));
        let (x, y) = (converted(x, wider, w), converted(y, with_bits(t, wider.bits()), w));
        Ok(match op {
            PrimOp::Add | PrimOp::Sub | PrimOp::Mul => w.folded(op, x, y),
            _ => w.binary(op, x, y),
        })
    }
}

impl<'b, W: Widths<'b>> TirRewrite<'b> for Narrow<W> {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        if let Some((var, _)) = ranged(stmt) {
            return self.ranged(stmt, var, w);
        }
        match (stmt.stmt(), stmt.ty().to_owned()) {
            (_, Type::Buffer(ty)) if matches!(stmt.view(), Expr::Buffer) => self.buffer(stmt, ty, w),
            (Some(Stmt::Store { .. }), _) => {
                let mut ops = self.indices(stmt, 2, w)?;
                if let [buffer, value, ..] = &mut ops[..] {
                    let (element, stored) = (w.dtype(*buffer), w.dtype(*value));
                    if element != stored && stored.lanes() == 1 {
                        *value = converted(*value, element, w);
                    }
                }
                w.header(stmt, &ops, |_| Ok(()))
            }
            (Some(Stmt::Bind { value }), _) => {
                let is_index = self.widths.of_var(stmt).is_some();
                let mut value = self.within(is_index, |this| this.expr(value, w))?;
                if is_index {
                    value = converted(value, self.type_of(stmt), w);
                }
                match stmt.symbol().filter(|_| self.widths.all()) {
                    Some(sym) => {
                        let dtype = w.dtype(value);
                        let value_is = Some(Dim::Var(Sym { dtype, ..sym }));
                        w.retyped(stmt, &[value], &Type::Prim { dtype, value: value_is });
                    }
                    None => drop(w.bind_like(stmt, value)),
                }
                Ok(())
            }
            (Some(Stmt::If { cond }), _) => {
                let cond = self.condition(cond, w)?;
                w.header(stmt, &[cond], |w| w.content(self, stmt))
            }
            (None, _) if matches!(stmt.view(), Expr::Var) && self.widths.of_var(stmt).is_some() => {
                let ops = w.operands(self, stmt)?;
                w.retyped(stmt, &ops, &self.scalar_type(stmt));
                Ok(())
            }
            _ if stmt.is_access() => {
                let mut ops = self.indices(stmt, 0, w)?;
                // The start and the extent of a range have the same type.
                for range in ops.get_mut(1..).unwrap_or_default().chunks_exact_mut(2) {
                    (range[0], range[1]) = of_one_width(range[0], range[1], w);
                }
                w.header(stmt, &ops, |_| Ok(()))
            }
            _ => w.stmt(self, stmt),
        }
    }

    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let outer = self.around;
        let bits = self.widths.bits(expr, outer);
        let dtype = expr.ty().dtype();
        self.around = if matches!(expr.view(), Expr::Load { .. }) { self.widths.target() } else { bits };
        let out = match expr.view() {
            Expr::Prim if (self.is_index || self.widths.all()) && dtype.code() == DType::I32.code() => {
                Ok(match (expr.dim().and_then(|dim| dim.as_int()), expr.dim()) {
                    (Some(value), _) => w.int(value, with_bits(dtype, self.widths.of_number(dtype, bits))),
                    (None, Some(dim)) => w.dim(&self.dim(&dim)),
                    (None, None) => w.v(expr),
                })
            }
            Expr::Arith { op: PrimOp::Cast, a, .. } if self.is_index && dtype.code() == DType::I32.code() => {
                let narrow = with_bits(dtype, self.widths.of_number(dtype, bits));
                let value = self.expr(a, w);
                if narrow == dtype {
                    value.map(|value| w.expr_of(expr, &[value]))
                } else {
                    value.map(|value| converted(value, narrow, w))
                }
            }
            Expr::Arith { b: Some(_), .. } => self.binary(expr, w),
            Expr::Load { .. } => self.indices(expr, 1, w).map(|ops| w.expr_of(expr, &ops)),
            Expr::Call(call) if call.op() == Some("tirx.clz") => self.leading_zeros(expr, w),
            Expr::Call(call) if call.op() == Some("tirx.if_then_else") => {
                self.choice(expr, 1, w).map(|ops| match ops[..] {
                    [callee, cond, then, other] => {
                        let (then, other) = of_one_width(then, other, w);
                        let dtype = w.dtype(then);
                        w.expr_as(expr, &[callee, cond, then, other], dtype)
                    }
                    _ => w.expr_of(expr, &ops),
                })
            }
            Expr::Select { .. } => self.choice(expr, 0, w).map(|ops| match ops[..] {
                [cond, then, other] => {
                    let (then, other) = of_one_width(then, other, w);
                    w.select(cond, then, other)
                }
                _ => w.expr_of(expr, &ops),
            }),
            Expr::Ramp { lanes, .. } => w.operands(self, expr).map(|ops| match ops[..] {
                [base, stride, _] => {
                    let bits = w.dtype(base).bits().max(w.dtype(stride).bits());
                    let (base_type, stride_type) = (with_bits(w.dtype(base), bits), with_bits(w.dtype(stride), bits));
                    let ops = [converted(base, base_type, w), converted(stride, stride_type, w), w.v(lanes)];
                    w.expr_as(expr, &ops, with_bits(dtype, bits))
                }
                _ => w.expr_of(expr, &ops),
            }),
            Expr::Let { .. } => w.operands(self, expr).map(|ops| {
                let dtype = ops.get(2).map_or(dtype, |body| w.dtype(*body));
                w.expr_as(expr, &ops, dtype)
            }),
            _ => w.expr(self, expr),
        };
        self.around = outer;
        out
    }
}

fn with_bits(dtype: DType, bits: u8) -> DType {
    DType::new(dtype.code(), bits, dtype.lanes())
}

/// Widens the narrower of two values to the width of the other.
fn of_one_width(a: V, b: V, w: &mut Again<'_>) -> (V, V) {
    let (s, t) = (w.dtype(a), w.dtype(b));
    let bits = s.bits().max(t.bits());
    (converted(a, with_bits(s, bits), w), converted(b, with_bits(t, bits), w))
}

/// Converts a value to a data type; constants are converted immediately.
fn converted(v: V, dtype: DType, w: &mut Again<'_>) -> V {
    match w.as_int(v) {
        _ if w.dtype(v) == dtype => v,
        Some(value) if dtype.is_int() => w.int(value, dtype),
        _ => w.cast(v, dtype),
    }
}
