//! Emits operations on one register, and conversions.

use crate::emit::function::Function;
use crate::emit::types;
use runtime::program::{Reg, Scalar, Unary};

impl Function<'_, '_> {
    /// Emits an operation on one register.
    pub(in crate::emit) fn unary(&mut self, op: Unary, dst: Reg, a: Reg) {
        let (from, to) = (self.module.scalar(a), self.module.scalar(dst));
        let x = self.value(a);
        let value = match (from.is_float(), to.is_float()) {
            (false, false) => self.int_to_int(op, from, to, &x),
            (false, true) => self.int_to_float(op, from, to, &x),
            (true, false) => self.float_to_int(op, from, to, &x),
            (true, true) => self.float_to_float(op, from, to, &x),
        };
        self.set(dst, &value);
    }

    /// Returns true if an operation can be vectorized.
    pub(in crate::emit) fn has_lanes(&self, op: Unary, a: Reg) -> bool {
        match op {
            Unary::Math(math) => {
                let of = self.module.scalar(a);
                !of.is_float() || self.math_has_lanes(math, of)
            }
            _ => true,
        }
    }

    fn int_to_int(&mut self, op: Unary, from: Scalar, to: Scalar, x: &str) -> String {
        let base = types::of(from);
        let (ty, zero) = (self.ty(base), self.constant(base, "0"));
        match op {
            Unary::Not => return self.op(format_args!("icmp eq {ty} {x}, {zero}")),
            Unary::BitNot => {
                let ones = self.constant(base, "-1");
                return self.op(format_args!("xor {ty} {x}, {ones}"));
            }
            Unary::Abs if matches!(from, Scalar::Int(_)) => return self.intrinsic("abs", base, &[x], ", i1 false"),
            _ => {}
        }
        // Widths are whole bytes, so a Boolean has 8 bits.
        let counts = matches!(op, Unary::PopCount | Unary::Clz);
        let wide = if counts && from == Scalar::Bool { Scalar::UInt(8) } else { from };
        let x = match wide == from {
            true => x.to_string(),
            false => self.op(format_args!("zext {ty} {x} to {}", self.ty("i8"))),
        };
        let x = match op {
            Unary::PopCount => self.intrinsic("ctpop", types::of(wide), &[&x], ""),
            Unary::Clz => self.intrinsic("ctlz", types::of(wide), &[&x], ", i1 false"),
            _ => x,
        };
        let unsigned = counts || types::is_unsigned(from);
        self.resized(wide, to, unsigned, &x)
    }

    /// Sign-extends, zero-extends or truncates an integer to the width of another type.
    fn resized(&mut self, from: Scalar, to: Scalar, unsigned: bool, x: &str) -> String {
        let [source, target] = [from, to].map(|scalar| self.ty(types::of(scalar)));
        let how = match (types::bits(from), types::bits(to)) {
            (a, b) if a == b => return x.to_string(),
            _ if to == Scalar::Bool => {
                let zero = self.constant(types::of(from), "0");
                return self.op(format_args!("icmp ne {source} {x}, {zero}"));
            }
            (a, b) if a > b => "trunc",
            _ if unsigned => "zext",
            _ => "sext",
        };
        self.op(format_args!("{how} {source} {x} to {target}"))
    }

    fn int_to_float(&mut self, op: Unary, from: Scalar, to: Scalar, x: &str) -> String {
        let [source, target] = [from, to].map(|scalar| self.ty(types::of(scalar)));
        if op != Unary::Reinterpret {
            let how = if types::is_unsigned(from) { "uitofp" } else { "sitofp" };
            let value = self.op(format_args!("{how} {source} {x} to {target}"));
            return self.rounded(to, &value);
        }
        let width = Scalar::UInt((to.bytes() * 8) as u8);
        let x = self.resized(from, width, types::is_unsigned(from), x);
        let (word, wide) = (self.ty(types::of(width)), self.ty("i32"));
        match to {
            Scalar::F16 => {
                let half = self.op(format_args!("bitcast {word} {x} to {}", self.ty("half")));
                self.op(format_args!("fpext {} {half} to {target}", self.ty("half")))
            }
            Scalar::Bf16 => {
                let bits = self.op(format_args!("zext {word} {x} to {wide}"));
                let sixteen = self.constant("i32", "16");
                let bits = self.op(format_args!("shl {wide} {bits}, {sixteen}"));
                self.op(format_args!("bitcast {wide} {bits} to {target}"))
            }
            _ => self.op(format_args!("bitcast {word} {x} to {target}")),
        }
    }

    fn float_to_int(&mut self, op: Unary, from: Scalar, to: Scalar, x: &str) -> String {
        let base = types::of(from);
        let ty = self.ty(base);
        let zero = self.constant(base, &types::float(0.0));
        match op {
            Unary::Cast if to != Scalar::Bool => self.saturated(from, to, x),
            Unary::Reinterpret => self.bits_of(from, to, x),
            Unary::IsNan => self.op(format_args!("fcmp uno {ty} {x}, {zero}")),
            Unary::IsInf | Unary::IsFinite => {
                let size = self.intrinsic("fabs", base, &[x], "");
                let infinity = self.constant(base, &types::float(f64::INFINITY));
                let relation = if op == Unary::IsInf { "oeq" } else { "olt" };
                self.op(format_args!("fcmp {relation} {ty} {size}, {infinity}"))
            }
            Unary::Not => self.op(format_args!("fcmp oeq {ty} {x}, {zero}")),
            _ => self.op(format_args!("fcmp une {ty} {x}, {zero}")),
        }
    }

    /// Converts a float to an integer: truncates it towards 0, clamps it to the range, and maps NaN to
    /// 0.
    fn saturated(&mut self, from: Scalar, to: Scalar, x: &str) -> String {
        let (source, target) = (types::of(from), types::of(to));
        let name = if types::is_unsigned(to) { "fptoui.sat" } else { "fptosi.sat" };
        let full = format!("llvm.{name}.{}.{}", types::suffix(target, self.lanes), types::suffix(source, self.lanes));
        let [source, target] = [source, target].map(|base| self.ty(base));
        self.module.declared.insert(format!("declare {target} @{full}({source})"));
        self.op(format_args!("call {target} @{full}({source} {x})"))
    }

    fn bits_of(&mut self, from: Scalar, to: Scalar, x: &str) -> String {
        let width = Scalar::UInt((from.bytes() * 8) as u8);
        let (source, word, wide) = (self.ty(types::of(from)), self.ty(types::of(width)), self.ty("i32"));
        let bits = match from {
            Scalar::F16 => {
                let half = self.op(format_args!("fptrunc {source} {x} to {}", self.ty("half")));
                self.op(format_args!("bitcast {} {half} to {word}", self.ty("half")))
            }
            Scalar::Bf16 => {
                let bits = self.op(format_args!("bitcast {source} {x} to {wide}"));
                let sixteen = self.constant("i32", "16");
                let bits = self.op(format_args!("lshr {wide} {bits}, {sixteen}"));
                self.op(format_args!("trunc {wide} {bits} to {word}"))
            }
            _ => self.op(format_args!("bitcast {source} {x} to {word}")),
        };
        self.resized(width, to, true, &bits)
    }

    fn float_to_float(&mut self, op: Unary, from: Scalar, to: Scalar, x: &str) -> String {
        let [source, target] = [from, to].map(types::of);
        match (op, source, target) {
            (Unary::Abs, a, b) if a == b => self.intrinsic("fabs", a, &[x], ""),
            (Unary::Math(math), a, b) if a == b => self.math(math, to, x),
            (Unary::Cast, "float", "float") => self.rounded(to, x),
            (_, "float", "double") => self.op(format_args!("fpext {} {x} to {}", self.ty("float"), self.ty("double"))),
            (_, "double", "float") if to == Scalar::F16 => {
                let half = self.op(format_args!("fptrunc {} {x} to {}", self.ty("double"), self.ty("half")));
                self.op(format_args!("fpext {} {half} to {}", self.ty("half"), self.ty("float")))
            }
            (_, "double", "float") => {
                let value = self.op(format_args!("fptrunc {} {x} to {}", self.ty("double"), self.ty("float")));
                self.rounded(to, &value)
            }
            _ => x.to_string(),
        }
    }
}
