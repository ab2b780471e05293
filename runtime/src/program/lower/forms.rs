//! Lowers integers to linear forms: indices, ranges of loops, shapes.

use super::{Bound, Lower, dtype_of, lanes_of, scalar_of};
use crate::fault::Fault;
use crate::program::{Affine, Binary, Instr, Literal, Reg, Scalar, Unary};
use passhost_lang::arith::Bounds;
use passhost_lang::ir::DimExpr;
use passhost_lang::ir::{DType, Dim, Expr, Sym, Value};
use passhost_lang::scalar::PrimOp;

impl Lower {
    /// Lowers an integer expression to a form with exactly the same result as the 32-bit or 64-bit operations. The form
    /// is a register if a 32-bit sum may overflow, or if the operation is not linear.
    pub(super) fn form(&mut self, value: Value<'_>, lane: usize) -> Result<Affine, Fault> {
        let dtype = dtype_of(value);
        let index = DType::new(dtype.code(), dtype.bits(), 1);
        let exact = match index {
            DType::I64 => true,
            DType::I32 => {
                let (bounds, range) = (self.analyzer().index_bounds(value), Bounds::of_dtype(DType::I32));
                lanes_of(value)? > 1 || bounds.is_finite() && range.contains(bounds.min) && range.contains(bounds.max)
            }
            _ => false,
        };
        match exact {
            true => self.linear(value, lane),
            false => Ok(self.expr(value, lane)?.into()),
        }
    }

    /// Lowers an expression that does not overflow, like [`Lower::form`].
    fn linear(&mut self, value: Value<'_>, lane: usize) -> Result<Affine, Fault> {
        if let Some(dim) = value.dim() {
            return self.dim_form(&dim);
        }
        if let Some(Bound::Form(form)) = self.known(value) {
            return Ok(form);
        }
        let same = |of: Value<'_>| dtype_of(of) == dtype_of(value);
        match value.view() {
            Expr::Arith { op: PrimOp::Add, a, b: Some(b) } => Ok(self.linear(a, lane)?.plus(&self.linear(b, lane)?, 1)),
            Expr::Arith { op: PrimOp::Sub, a, b: Some(b) } => {
                Ok(self.linear(a, lane)?.plus(&self.linear(b, lane)?, -1))
            }
            Expr::Arith { op: PrimOp::Mul, a, b: Some(b) } => {
                let (a, b) = (self.linear(a, lane)?, self.linear(b, lane)?);
                match (a.as_constant(), b.as_constant()) {
                    (Some(factor), _) => Ok(b.times(factor)),
                    (_, Some(factor)) => Ok(a.times(factor)),
                    _ => Ok(self.multiply(a, b, dtype_of(value))?.into()),
                }
            }
            Expr::Arith { op: PrimOp::Cast, a, .. } if same(a) => self.linear(a, lane),
            Expr::Arith { op: PrimOp::Cast, a, .. } if dtype_of(a) == DType::I32 => self.form(a, lane),
            Expr::Ramp { base, stride, .. } => {
                let (base, stride) = (self.linear(base, 0)?, self.linear(stride, 0)?);
                Ok(base.plus(&stride, lane as i64))
            }
            Expr::Broadcast { value, .. } => self.linear(value, 0),
            _ => Ok(self.expr(value, lane)?.into()),
        }
    }

    fn multiply(&mut self, a: Affine, b: Affine, dtype: DType) -> Result<Reg, Fault> {
        let scalar = scalar_of(dtype)?;
        let (a, b) = (self.materialize(a, scalar), self.materialize(b, scalar));
        Ok(self.binary(Binary::Mul, scalar, a, b))
    }

    /// Returns the product of two 64-bit forms.
    pub(super) fn product(&mut self, a: &Affine, b: &Affine) -> Affine {
        match (a.as_constant(), b.as_constant()) {
            (Some(factor), _) => b.times(factor),
            (_, Some(factor)) => a.times(factor),
            _ => {
                let scalar = Scalar::Int(64);
                let (a, b) = (self.materialize(a.clone(), scalar), self.materialize(b.clone(), scalar));
                self.binary(Binary::Mul, scalar, a, b).into()
            }
        }
    }

    pub(super) fn binary(&mut self, op: Binary, result: Scalar, a: Reg, b: Reg) -> Reg {
        let dst = self.reg(result);
        let place = match op.divides() {
            true => self.place(|| "a division".to_string()),
            false => self.program.places.len().saturating_sub(1) as u32,
        };
        self.emit(Instr::Binary { op, dst, a, b, place });
        dst
    }

    /// Lowers a dimension to a form. Shapes do not overflow.
    pub(super) fn dim_form(&mut self, dim: &Dim) -> Result<Affine, Fault> {
        match dim {
            Dim::Int(value) => Ok((*value).into()),
            Dim::Var(sym) => self.symbol(*sym),
            Dim::Expr(expr) => match &**expr {
                DimExpr::Int(value, _) => Ok((*value).into()),
                DimExpr::Binary(PrimOp::Add, _, a, b) => Ok(self.dim_form(a)?.plus(&self.dim_form(b)?, 1)),
                DimExpr::Binary(PrimOp::Sub, _, a, b) => Ok(self.dim_form(a)?.plus(&self.dim_form(b)?, -1)),
                DimExpr::Binary(PrimOp::Mul, _, a, b) => {
                    let (a, b) = (self.dim_form(a)?, self.dim_form(b)?);
                    Ok(self.product(&a, &b))
                }
                _ => Ok(self.dim(dim)?.into()),
            },
        }
    }

    fn symbol(&mut self, sym: Sym) -> Result<Affine, Fault> {
        self.symbols
            .get(&sym.id)
            .cloned()
            .ok_or_else(|| Fault::unsupported("a shape variable that arguments and statements do not bind"))
    }

    /// Loads a dimension or other embedded scalar into a register of its type.
    pub(super) fn dim(&mut self, dim: &Dim) -> Result<Reg, Fault> {
        let scalar = scalar_of(dim.dtype())?;
        let expr = match dim {
            Dim::Int(value) => return Ok(self.constant(Literal::Int(*value), scalar)),
            Dim::Var(sym) => {
                let form = self.symbol(*sym)?;
                return Ok(self.materialize(form, scalar));
            }
            Dim::Expr(expr) => expr,
        };
        match &**expr {
            DimExpr::Int(value, _) if scalar.is_float() => Ok(self.constant(Literal::Float(*value as f64), scalar)),
            DimExpr::Int(value, _) => Ok(self.constant(Literal::Int(scalar.wrap(*value)), scalar)),
            DimExpr::Float(bits, _) => {
                let value = scalar.rounded(f64::from_bits(*bits));
                Ok(self.constant(Literal::Float(value), scalar))
            }
            DimExpr::Unary(op, _, a) => {
                let a = self.dim(a)?;
                let op = if *op == PrimOp::Not { Unary::Not } else { Unary::Cast };
                Ok(self.unary(op, scalar, a))
            }
            DimExpr::Binary(PrimOp::If, _, cond, both) => {
                let (then, otherwise) = both.choice().ok_or_else(|| Fault::unsupported("a choice with one branch"))?;
                let cond = self.dim(cond)?;
                self.choice(cond, scalar, |lower| lower.dim(then), |lower| lower.dim(otherwise))
            }
            DimExpr::Binary(op, _, a, b) => {
                let divides = matches!(op, PrimOp::FloorDiv | PrimOp::FloorMod);
                let is_safe = divides && b.as_int().is_some_and(|by| by > 0);
                let (a, b) = (self.dim(a)?, self.dim(b)?);
                let reg = self.operation(*op, scalar, a, b)?;
                self.program.safe.extend(is_safe.then_some(reg));
                Ok(reg)
            }
        }
    }
}
