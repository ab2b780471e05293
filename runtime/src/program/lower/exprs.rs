//! Lowers expressions. Vectors are lowered one lane at a time.

use super::{Bound, Lower, dtype_of, lanes_of, scalar_of};
use crate::fault::Fault;
use crate::program::{Affine, Binary, Instr, Literal, Reg, Scalar, Unary};
use passhost_lang::arith::{index_to_dim, symbol_of};
use passhost_lang::ir::{Dim, Expr, Value};
use passhost_lang::scalar::PrimOp;

/// Maximum number of registers of a loop program; at this limit, registers take about 100 MB.
const MOST_REGISTERS: usize = 1 << 18;

impl Lower {
    /// Lowers one lane of an expression. A scalar is the same in every lane.
    pub(super) fn expr(&mut self, value: Value<'_>, lane: usize) -> Result<Reg, Fault> {
        if self.program.registers.len() > MOST_REGISTERS {
            let what = format!("a PrimFunc with more than {MOST_REGISTERS} values, counting each lane of a vector");
            return Err(Fault::unsupported(what));
        }
        // Expressions may be nested deeper than the stack allows.
        stacker::maybe_grow(128 << 10, 2 << 20, || self.expr_here(value, lane))
    }

    fn expr_here(&mut self, value: Value<'_>, lane: usize) -> Result<Reg, Fault> {
        if let Some(dim) = value.dim() {
            return self.dim(&dim);
        }
        if let Some(bound) = self.known(value) {
            return self.bound(&bound, value, lane);
        }
        match value.view() {
            Expr::Load { buffer } => self.load(value, buffer, lane),
            Expr::Arith { op, a, b } => self.arith(value, op, a, b, lane),
            Expr::Select { cond, then, otherwise } => self.select(cond, [then, otherwise], lane),
            Expr::Ramp { base, stride, .. } => {
                let scalar = scalar_of(dtype_of(value))?;
                let form = self.form(base, 0)?.plus(&self.form(stride, 0)?, lane as i64);
                Ok(self.materialize(form, scalar))
            }
            Expr::Broadcast { value, .. } => self.expr(value, 0),
            Expr::Shuffle { vectors } => self.shuffle(value, vectors as usize, lane),
            Expr::Let { var, value, body } => {
                self.define(var, value)?;
                self.expr(body, lane)
            }
            Expr::BufferPart { buffer, part: part @ 1.. } => self.buffer_part(buffer, part),
            Expr::Call(call) => self.call(call, lane),
            _ => Err(Fault::unsupported(format!("`{}` as a number", super::name_of(value)))),
        }
    }

    /// Returns the binding of a variable, by its operand word or its symbolic variable.
    pub(super) fn known(&self, value: Value<'_>) -> Option<Bound> {
        let named = self.scalars.get(&value.word()).cloned();
        named.or_else(|| Some(Bound::Form(self.symbols.get(&symbol_of(value)?.id)?.clone())))
    }

    fn bound(&mut self, bound: &Bound, value: Value<'_>, lane: usize) -> Result<Reg, Fault> {
        match bound {
            Bound::Form(form) => {
                let scalar = scalar_of(dtype_of(value))?;
                Ok(self.materialize(form.clone(), scalar))
            }
            Bound::Regs(regs) => {
                let reg = regs.get(lane).or(regs.first());
                reg.copied().ok_or_else(|| Fault::unsupported("a vector without elements"))
            }
        }
    }

    /// Binds a variable to the value of an expression.
    pub(super) fn define(&mut self, var: Value<'_>, value: Value<'_>) -> Result<(), Fault> {
        let lanes = lanes_of(value)?;
        let is_int = Scalar::of(dtype_of(value)).is_some_and(|scalar| !scalar.is_float());
        let bound = match lanes == 1 && is_int {
            true => Bound::Form(self.form(value, 0)?),
            false => Bound::Regs((0..lanes).map(|lane| self.expr(value, lane)).collect::<Result<Vec<Reg>, Fault>>()?),
        };
        self.bind(var, bound);
        Ok(())
    }

    fn shuffle(&mut self, value: Value<'_>, vectors: usize, lane: usize) -> Result<Reg, Fault> {
        let position = value.operand(vectors + lane).and_then(|at| at.dim()?.as_int());
        let mut at = position
            .and_then(|at| usize::try_from(at).ok())
            .ok_or_else(|| Fault::unsupported("a shuffle whose positions are not constant"))?;
        for vector in value.operands().take(vectors) {
            let lanes = lanes_of(vector)?;
            if at < lanes {
                return self.expr(vector, at);
            }
            at -= lanes;
        }
        Err(Fault::unsupported("a shuffle with a position outside its vectors"))
    }

    fn buffer_part(&mut self, buffer: Value<'_>, part: u32) -> Result<Reg, Fault> {
        let at = self.buffer_of(buffer)?;
        let view = &self.program.buffers[at as usize];
        let form = match part {
            1 => view.offset.clone(),
            part => view.strides.get(part as usize - 2).cloned().unwrap_or(Affine::from(1)),
        };
        Ok(self.materialize(form, Scalar::Int(64)))
    }

    fn arith(
        &mut self,
        value: Value<'_>,
        op: PrimOp,
        a: Value<'_>,
        b: Option<Value<'_>>,
        lane: usize,
    ) -> Result<Reg, Fault> {
        let scalar = scalar_of(dtype_of(value))?;
        match (op, b) {
            (PrimOp::Not, _) => {
                let a = self.expr(a, lane)?;
                Ok(self.unary(Unary::Not, Scalar::Bool, a))
            }
            (PrimOp::Cast, _) => {
                let a = self.expr(a, lane)?;
                Ok(self.unary(Unary::Cast, scalar, a))
            }
            (PrimOp::And | PrimOp::Or, Some(b)) => self.logic(op, [a, b], lane),
            (op, Some(b)) => {
                let is_safe = matches!(op, PrimOp::FloorDiv | PrimOp::FloorMod) && self.is_positive(b);
                let (a, b) = (self.expr(a, lane)?, self.expr(b, lane)?);
                let reg = self.operation(op, scalar, a, b)?;
                self.program.safe.extend(is_safe.then_some(reg));
                Ok(reg)
            }
            _ => Err(Fault::unsupported("an operation without its second operand")),
        }
    }

    /// Returns true if an integer is provably positive.
    fn is_positive(&mut self, value: Value<'_>) -> bool {
        !scalar_of(dtype_of(value)).is_ok_and(Scalar::is_float) && self.analyzer().index_bounds(value).min > 0
    }

    pub(super) fn unary(&mut self, op: Unary, result: Scalar, a: Reg) -> Reg {
        if op == Unary::Cast && self.scalar(a) == result {
            return a;
        }
        let dst = self.reg(result);
        self.emit(Instr::Unary { op, dst, a });
        dst
    }

    /// Emits an operation on two registers.
    pub(super) fn operation(&mut self, op: PrimOp, result: Scalar, a: Reg, b: Reg) -> Result<Reg, Fault> {
        let float = self.scalar(a).is_float();
        let op = match op {
            PrimOp::Add => Binary::Add,
            PrimOp::Sub => Binary::Sub,
            PrimOp::Mul => Binary::Mul,
            PrimOp::Div if float => Binary::Div,
            PrimOp::Div | PrimOp::TruncDiv => Binary::TruncDiv,
            PrimOp::TruncMod => Binary::TruncMod,
            PrimOp::FloorDiv => Binary::FloorDiv,
            PrimOp::FloorMod => Binary::FloorMod,
            PrimOp::Min => Binary::Min,
            PrimOp::Max => Binary::Max,
            PrimOp::Eq => Binary::Eq,
            PrimOp::Ne => Binary::Ne,
            PrimOp::Lt => Binary::Lt,
            PrimOp::Le => Binary::Le,
            PrimOp::Gt => Binary::Gt,
            PrimOp::Ge => Binary::Ge,
            PrimOp::And => Binary::And,
            PrimOp::Or => Binary::Or,
            PrimOp::Shl => Binary::Shl,
            PrimOp::Shr => Binary::Shr,
            PrimOp::BitAnd => Binary::BitAnd,
            PrimOp::BitOr => Binary::BitOr,
            PrimOp::BitXor => Binary::BitXor,
            _ => return Err(Fault::unsupported(format!("operation {op:?}"))),
        };
        self.binary_of(op, result, a, b)
    }

    /// Emits an operation on two registers. First converts the second operand to the type of the first.
    pub(super) fn binary_of(&mut self, op: Binary, result: Scalar, a: Reg, b: Reg) -> Result<Reg, Fault> {
        let of = self.scalar(a);
        let b = self.unary(Unary::Cast, of, b);
        Ok(self.binary(op, if op.is_truth() { Scalar::Bool } else { result }, a, b))
    }

    /// Lowers a scalar condition. Returns its register, and its form for the analyzer.
    pub(super) fn condition(&mut self, value: Value<'_>) -> Result<(Reg, Option<Dim>), Fault> {
        let known = index_to_dim(value);
        Ok((self.expr(value, 0)?, known))
    }

    pub(super) fn zero(&mut self, scalar: Scalar) -> Reg {
        let zero = if scalar.is_float() { Literal::Float(0.0) } else { Literal::Int(0) };
        self.constant(zero, scalar)
    }
}
