//! Lowers calls of intrinsics.

use super::{Lower, dtype_of};
use crate::fault::Fault;
use crate::program::{Binary, Instr, Literal, Reg, Scalar, Unary};
use passhost_lang::ir::Call;
use passhost_lang::scalar::{Computes, Intrinsic};

impl Lower {
    pub(super) fn call(&mut self, call: Call<'_>, lane: usize) -> Result<Reg, Fault> {
        let op = call.op().unwrap_or_default();
        let unknown = || match op.strip_prefix("tirx.").unwrap_or(op) {
            "" => Fault::unsupported("a PrimFunc that calls a function"),
            name => Fault::unsupported(format!("`T.{name}`")),
        };
        let arg = |i: usize| call.arg(i).ok_or_else(unknown);
        let scalar = Scalar::of(dtype_of(call.value()));
        match Intrinsic::find(op).and_then(|row| row.computes).ok_or_else(unknown)? {
            Computes::Argument => self.expr(arg(0)?, lane),
            Computes::Hint => Ok(self.zero(scalar.unwrap_or(Scalar::Int(32)))),
            Computes::Two(op) => {
                let (a, b) = (self.expr(arg(0)?, lane)?, self.expr(arg(1)?, lane)?);
                let of = self.scalar(a);
                if of.is_float() == op.takes_bits() { Err(unknown()) } else { self.binary_of(op, of, a, b) }
            }
            Computes::MulAdd => {
                let [a, b, c] = [self.expr(arg(0)?, lane)?, self.expr(arg(1)?, lane)?, self.expr(arg(2)?, lane)?];
                self.mul_add([a, b, c], unknown)
            }
            Computes::Choice => self.if_then_else(arg(0)?, [arg(1)?, arg(2)?], lane),
            Computes::One(op) => {
                let a = call.arg(0).filter(|_| call.args().len() == 1).ok_or_else(unknown)?;
                let a = self.expr(a, lane)?;
                self.function_of_one(op, a, scalar, unknown)
            }
        }
    }

    /// Lowers `a * b + c` for numbers of the same type. For integers, the result is a separate product and
    /// sum.
    fn mul_add(&mut self, [a, b, c]: [Reg; 3], unknown: impl Fn() -> Fault) -> Result<Reg, Fault> {
        let of = self.scalar(a);
        if self.scalar(b) != of || self.scalar(c) != of || of == Scalar::Bool {
            return Err(unknown());
        }
        if !of.is_float() {
            let product = self.binary_of(Binary::Mul, of, a, b)?;
            return self.binary_of(Binary::Add, of, product, c);
        }
        let dst = self.reg(of);
        self.emit(Instr::MulAdd { dst, a, b, c });
        Ok(dst)
    }

    fn function_of_one(
        &mut self,
        op: Unary,
        a: Reg,
        result: Option<Scalar>,
        unknown: impl Fn() -> Fault,
    ) -> Result<Reg, Fault> {
        let of = self.scalar(a);
        let result = match op {
            Unary::IsNan | Unary::IsInf | Unary::IsFinite if !of.is_float() => {
                return Ok(self.constant(Literal::Int((op == Unary::IsFinite).into()), Scalar::Bool));
            }
            Unary::IsNan | Unary::IsInf | Unary::IsFinite => Scalar::Bool,
            // Rounding does not change integers.
            Unary::Math(math) if math.is_rounding() && !of.is_float() => return Ok(a),
            Unary::Math(_) if !of.is_float() => return Err(unknown()),
            Unary::PopCount | Unary::Clz | Unary::BitNot if of.is_float() => return Err(unknown()),
            Unary::Reinterpret => result.filter(|to| to.bytes() == of.bytes()).ok_or_else(unknown)?,
            Unary::PopCount | Unary::Clz => result.unwrap_or(of),
            _ => of,
        };
        Ok(self.unary(op, result, a))
    }
}
