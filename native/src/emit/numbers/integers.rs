//! Emits operations on integers and Booleans.

use crate::emit::function::Function;
use crate::emit::types;
use runtime::program::{Binary, Reg, Scalar};

impl Function<'_, '_> {
    /// Emits an operation on two registers of the same type.
    pub(in crate::emit) fn binary(&mut self, op: Binary, dst: Reg, [a, b]: [Reg; 2], place: u32) {
        let of = self.module.scalar(a);
        if of.is_float() {
            return self.binary_float(op, dst, [a, b]);
        }
        if let Some(value) = self.exact(op, dst, [a, b]) {
            return self.write(dst, &value);
        }
        let [x, y] = [a, b].map(|reg| self.value(reg));
        let value = match of {
            _ if op.divides() => self.divided(op, of, ([a, b], [&x, &y]), place),
            Scalar::Bool => self.binary_bool(op, &x, &y),
            of => self.binary_int(op, of, &x, &y),
        };
        self.set(dst, &value);
    }

    /// Emits a sum, difference or product that does not wrap in the 64 bits of its register, or a quotient or
    /// remainder of nonnegative numbers.
    fn exact(&mut self, op: Binary, dst: Reg, [a, b]: [Reg; 2]) -> Option<String> {
        let (ranges, of) = (&self.module.ranges, self.module.scalar(dst));
        let (left, right) = (ranges.reg(a)?, ranges.reg(b)?);
        let (low, high) = of.range();
        let fits = |(least, most): (i128, i128)| i128::from(low) <= least && most <= i128::from(high);
        let pairs = [(left.0, right.0), (left.0, right.1), (left.1, right.0), (left.1, right.1)];
        let ends = |f: fn(i128, i128) -> i128| {
            let all = pairs.map(|(a, b)| f(i128::from(a), i128::from(b)));
            (all.into_iter().min().unwrap_or(i128::MAX), all.into_iter().max().unwrap_or(i128::MIN))
        };
        let natural = left.0 >= 0 && right.0 > 0;
        let name = match op {
            Binary::Add if fits(ends(|a, b| a + b)) => "add nsw",
            Binary::Sub if fits(ends(|a, b| a - b)) => "sub nsw",
            Binary::Mul if fits(ends(|a, b| a * b)) => "mul nsw",
            Binary::FloorDiv | Binary::TruncDiv if natural => "udiv",
            Binary::FloorMod | Binary::TruncMod if natural => "urem",
            _ => return None,
        };
        if !self.is_wide(dst) || of == Scalar::Bool {
            return None;
        }
        let [x, y] = [a, b].map(|reg| self.index(reg));
        // 32-bit division is much faster.
        let short = name.starts_with('u') && left.1 <= i64::from(u32::MAX) && right.1 <= i64::from(u32::MAX);
        let (wide, narrow) = (self.ty("i64"), self.ty("i32"));
        if !short {
            return Some(self.op(format_args!("{name} {wide} {x}, {y}")));
        }
        let [x, y] = [x, y].map(|value| self.op(format_args!("trunc {wide} {value} to {narrow}")));
        let value = self.op(format_args!("{name} {narrow} {x}, {y}"));
        Some(self.op(format_args!("zext {narrow} {value} to {wide}")))
    }

    /// Returns true if an operation can be vectorized.
    pub(in crate::emit) fn binary_has_lanes(&self, op: Binary, [a, b]: [Reg; 2]) -> bool {
        let of = self.module.scalar(a);
        match of.is_float() {
            true => self.float_has_lanes(op, of),
            false => !op.divides() || self.module.ranges.reg(b).is_some_and(|(low, high)| low > 0 || high < 0),
        }
    }

    fn binary_bool(&mut self, op: Binary, x: &str, y: &str) -> String {
        let ty = self.ty("i1");
        let one = self.constant("i1", "true");
        let name = match op {
            Binary::Add | Binary::Or | Binary::Max | Binary::BitOr => "or",
            Binary::Sub | Binary::BitXor | Binary::Ne => "xor",
            Binary::Mul | Binary::And | Binary::Min | Binary::BitAnd => "and",
            Binary::Eq => "icmp eq",
            Binary::Lt => "icmp ult",
            Binary::Le => "icmp ule",
            Binary::Gt => "icmp ugt",
            Binary::Ge => "icmp uge",
            // Shifting a Boolean right by one bit yields 0.
            Binary::Shr => {
                let stays = self.op(format_args!("xor {ty} {y}, {one}"));
                return self.op(format_args!("and {ty} {x}, {stays}"));
            }
            _ => return x.to_string(),
        };
        self.op(format_args!("{name} {ty} {x}, {y}"))
    }

    fn binary_int(&mut self, op: Binary, of: Scalar, x: &str, y: &str) -> String {
        let base = types::of(of);
        let (ty, unsigned) = (self.ty(base), types::is_unsigned(of));
        let sign = if unsigned { 'u' } else { 's' };
        let name = match op {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::BitAnd => "and",
            Binary::BitOr => "or",
            Binary::BitXor => "xor",
            Binary::Eq => "icmp eq",
            Binary::Ne => "icmp ne",
            Binary::Lt => return self.op(format_args!("icmp {sign}lt {ty} {x}, {y}")),
            Binary::Le => return self.op(format_args!("icmp {sign}le {ty} {x}, {y}")),
            Binary::Gt => return self.op(format_args!("icmp {sign}gt {ty} {x}, {y}")),
            Binary::Ge => return self.op(format_args!("icmp {sign}ge {ty} {x}, {y}")),
            Binary::Min => return self.intrinsic(&format!("{sign}min"), base, &[x, y], ""),
            Binary::Max => return self.intrinsic(&format!("{sign}max"), base, &[x, y], ""),
            Binary::And | Binary::Or => {
                let zero = self.constant(base, "0");
                let [x, y] = [x, y].map(|value| self.op(format_args!("icmp ne {ty} {value}, {zero}")));
                let name = if op == Binary::And { "and" } else { "or" };
                return self.op(format_args!("{name} {} {x}, {y}", self.ty("i1")));
            }
            Binary::Shl | Binary::Shr => {
                let mask = self.constant(base, &(types::bits(of) - 1).to_string());
                let by = self.op(format_args!("and {ty} {y}, {mask}"));
                let right = if unsigned { "lshr" } else { "ashr" };
                let name = if op == Binary::Shl { "shl" } else { right };
                return self.op(format_args!("{name} {ty} {x}, {by}"));
            }
            // The remaining operations are functions that exist only for floats.
            _ => return x.to_string(),
        };
        self.op(format_args!("{name} {ty} {x}, {y}"))
    }

    /// Emits a quotient or remainder. Division by zero ends the run; the least integer divided by -1 wraps around.
    fn divided(&mut self, op: Binary, of: Scalar, ([a, b], [x, y]): ([Reg; 2], [&str; 2]), place: u32) -> String {
        let (base, ranges) = (types::of(of), &self.module.ranges);
        let divisor = ranges.reg(b);
        let natural = ranges.reg(a).is_some_and(|(low, _)| low >= 0) && divisor.is_some_and(|(low, _)| low > 0);
        let ty = self.ty(base);
        if divisor.is_none_or(|(low, high)| low <= 0 && high >= 0) {
            let fine = self.op(format_args!("icmp ne {ty} {y}, 0"));
            self.divides(&fine, place);
        }
        let wants_rest = matches!(op, Binary::FloorMod | Binary::TruncMod);
        if natural || types::is_unsigned(of) {
            let name = if wants_rest { "urem" } else { "udiv" };
            return self.op(format_args!("{name} {ty} {x}, {y}"));
        }
        let [zero, one, minus] = ["0", "1", "-1"].map(|text| self.constant(base, text));
        let flips = self.op(format_args!("icmp eq {ty} {y}, {minus}"));
        let truth = self.ty("i1");
        let by = self.op(format_args!("select {truth} {flips}, {ty} {one}, {ty} {y}"));
        let quotient = self.op(format_args!("sdiv {ty} {x}, {by}"));
        let rest = self.op(format_args!("srem {ty} {x}, {by}"));
        let negative = self.op(format_args!("sub {ty} {zero}, {x}"));
        let quotient = self.op(format_args!("select {truth} {flips}, {ty} {negative}, {ty} {quotient}"));
        if !matches!(op, Binary::FloorDiv | Binary::FloorMod) {
            return if wants_rest { rest } else { quotient };
        }
        // Rounds down: subtracts one if there is a remainder whose sign differs from the divisor's.
        let signs = self.op(format_args!("xor {ty} {rest}, {by}"));
        let differ = self.op(format_args!("icmp slt {ty} {signs}, {zero}"));
        let some = self.op(format_args!("icmp ne {ty} {rest}, {zero}"));
        let moves = self.op(format_args!("and {truth} {differ}, {some}"));
        match wants_rest {
            true => {
                let more = self.op(format_args!("add {ty} {rest}, {by}"));
                self.op(format_args!("select {truth} {moves}, {ty} {more}, {ty} {rest}"))
            }
            false => {
                let less = self.op(format_args!("sub {ty} {quotient}, {one}"));
                self.op(format_args!("select {truth} {moves}, {ty} {less}, {ty} {quotient}"))
            }
        }
    }
}
