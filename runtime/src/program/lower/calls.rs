//! Lowers calls of intrinsics.

use super::{Lower, dtype_of};
use crate::fault::Fault;
use crate::program::{Binary, Instr, Literal, Math, Reg, Scalar, Unary};
use passhost_lang::ir::Call;

fn math(name: &str) -> Option<Math> {
    Some(match name {
        "exp" => Math::Exp,
        "exp2" => Math::Exp2,
        "exp10" => Math::Exp10,
        "log" => Math::Log,
        "log2" => Math::Log2,
        "log10" => Math::Log10,
        "log1p" => Math::Log1p,
        "expm1" => Math::Expm1,
        "sqrt" => Math::Sqrt,
        "rsqrt" => Math::Rsqrt,
        "sigmoid" => Math::Sigmoid,
        "erf" => Math::Erf,
        "tanh" => Math::Tanh,
        "sin" => Math::Sin,
        "cos" => Math::Cos,
        "tan" => Math::Tan,
        "sinh" => Math::Sinh,
        "cosh" => Math::Cosh,
        "asin" => Math::Asin,
        "acos" => Math::Acos,
        "atan" => Math::Atan,
        "asinh" => Math::Asinh,
        "acosh" => Math::Acosh,
        "atanh" => Math::Atanh,
        "floor" => Math::Floor,
        "ceil" => Math::Ceil,
        "trunc" => Math::Trunc,
        "round" => Math::Round,
        "nearbyint" => Math::NearbyInt,
        "cbrt" => Math::Cbrt,
        _ => return None,
    })
}

fn of_two(name: &str) -> Option<Binary> {
    Some(match name {
        "pow" => Binary::Pow,
        "atan2" => Binary::Atan2,
        "fmod" => Binary::TruncMod,
        "copysign" => Binary::CopySign,
        "hypot" => Binary::Hypot,
        "nextafter" => Binary::NextAfter,
        "ldexp" => Binary::Ldexp,
        "bitwise_and" => Binary::BitAnd,
        "bitwise_or" => Binary::BitOr,
        "bitwise_xor" => Binary::BitXor,
        "shift_left" => Binary::Shl,
        "shift_right" => Binary::Shr,
        _ => return None,
    })
}

/// Returns true if a call is only a hint for a compiler.
fn is_hint(name: &str) -> bool {
    matches!(
        name,
        "assume" | "type_annotation" | "start_profile_intrinsic" | "end_profile_intrinsic" | "undef" | "prefetch"
    )
}

/// Returns true if a call returns its argument.
fn is_argument(name: &str) -> bool {
    matches!(name, "likely" | "tvm_thread_invariant" | "ignore_loop_partition")
}

impl Lower {
    pub(super) fn call(&mut self, call: Call<'_>, lane: usize) -> Result<Reg, Fault> {
        let op = call.op().unwrap_or_default();
        let name = op.strip_prefix("tirx.").unwrap_or(op);
        let unknown = || match name {
            "" => Fault::unsupported("a PrimFunc that calls a function"),
            name => Fault::unsupported(format!("`T.{name}`")),
        };
        let arg = |i: usize| call.arg(i).ok_or_else(unknown);
        if is_argument(name) {
            return self.expr(arg(0)?, lane);
        }
        let scalar = Scalar::of(dtype_of(call.value()));
        if is_hint(name) {
            return Ok(self.zero(scalar.unwrap_or(Scalar::Int(32))));
        }
        if let Some(op) = of_two(name) {
            let (a, b) = (self.expr(arg(0)?, lane)?, self.expr(arg(1)?, lane)?);
            let of = self.scalar(a);
            let bits = matches!(op, Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr);
            return if of.is_float() == bits { Err(unknown()) } else { self.binary_of(op, of, a, b) };
        }
        if name == "fma" {
            let [a, b, c] = [self.expr(arg(0)?, lane)?, self.expr(arg(1)?, lane)?, self.expr(arg(2)?, lane)?];
            return self.mul_add([a, b, c], unknown);
        }
        if name == "if_then_else" {
            return self.if_then_else(arg(0)?, [arg(1)?, arg(2)?], lane);
        }
        let a = call.arg(0).filter(|_| call.args().len() == 1).ok_or_else(unknown)?;
        let one = math(name).map(Unary::Math).or_else(|| unary(name)).ok_or_else(unknown)?;
        let a = self.expr(a, lane)?;
        self.function_of_one(one, a, scalar, unknown)
    }

    /// Lowers `a * b + c` for numbers of one type; for integers, it is a product and a sum.
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
            Unary::Math(Math::Floor | Math::Ceil | Math::Trunc | Math::Round | Math::NearbyInt) if !of.is_float() => {
                return Ok(a);
            }
            Unary::Math(_) if !of.is_float() => return Err(unknown()),
            Unary::PopCount | Unary::Clz | Unary::BitNot if of.is_float() => return Err(unknown()),
            Unary::Reinterpret => result.filter(|to| to.bytes() == of.bytes()).ok_or_else(unknown)?,
            Unary::PopCount | Unary::Clz => result.unwrap_or(of),
            _ => of,
        };
        Ok(self.unary(op, result, a))
    }
}

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        "fabs" | "abs" => Unary::Abs,
        "popcount" | "ctpop" => Unary::PopCount,
        "clz" => Unary::Clz,
        "isnan" => Unary::IsNan,
        "isinf" => Unary::IsInf,
        "isfinite" => Unary::IsFinite,
        "reinterpret" => Unary::Reinterpret,
        "bitwise_not" => Unary::BitNot,
        _ => return None,
    })
}
