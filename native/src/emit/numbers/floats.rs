//! Emits operations on floats. `float16` and `bfloat16` are computed in `float` and rounded after each operation.

use crate::emit::Field;
use crate::emit::function::Function;
use crate::emit::types;
use crate::functions;
use runtime::math::{elementary, power};
use runtime::program::{Binary, Math, Reg, Scalar};

impl Function<'_, '_> {
    pub(in crate::emit) fn binary_float(&mut self, op: Binary, dst: Reg, [a, b]: [Reg; 2]) {
        let of = self.module.scalar(a);
        let base = types::of(of);
        let [x, y] = [a, b].map(|reg| self.value(reg));
        let ty = self.ty(base);
        if op.is_truth() {
            let value = self.compared(op, base, &x, &y);
            return self.set(dst, &value);
        }
        let value = match op {
            Binary::Add => self.op(format_args!("fadd {ty} {x}, {y}")),
            Binary::Sub => self.op(format_args!("fsub {ty} {x}, {y}")),
            Binary::Mul => self.op(format_args!("fmul {ty} {x}, {y}")),
            Binary::Div | Binary::TruncDiv => self.op(format_args!("fdiv {ty} {x}, {y}")),
            Binary::FloorDiv => self.floor_of_quotient(base, &x, &y),
            Binary::FloorMod => {
                let floor = self.floor_of_quotient(base, &x, &y);
                let whole = self.op(format_args!("fmul {ty} {floor}, {y}"));
                self.op(format_args!("fsub {ty} {x}, {whole}"))
            }
            Binary::Min | Binary::Max => {
                let relation = if op == Binary::Min { "olt" } else { "ogt" };
                let first = self.op(format_args!("fcmp {relation} {ty} {x}, {y}"));
                self.op(format_args!("select {} {first}, {ty} {x}, {ty} {y}", self.ty("i1")))
            }
            Binary::CopySign => self.intrinsic("copysign", base, &[&x, &y], ""),
            Binary::Pow if base == "float" => power::pow(self, &x, &y),
            op if functions::of_two(op).is_some() => {
                let number = functions::of_two(op).unwrap_or_default();
                self.call(number, base, &[&x, &y])
            }
            _ => x,
        };
        let value = self.rounded(of, &value);
        self.set(dst, &value);
    }

    /// Emits `a * b + c`, rounded once. Without a machine instruction, this is a function call.
    pub(in crate::emit) fn mul_add(&mut self, dst: Reg, operands: [Reg; 3]) {
        let of = self.module.scalar(dst);
        let base = types::of(of);
        let [a, b, c] = operands.map(|reg| self.value(reg));
        let value = match self.module.purpose.mul_add {
            true => self.intrinsic("fma", base, &[&a, &b, &c], ""),
            false => self.call(functions::mul_add(), base, &[&a, &b, &c]),
        };
        let value = self.rounded(of, &value);
        self.set(dst, &value);
    }

    fn floor_of_quotient(&mut self, base: &str, x: &str, y: &str) -> String {
        let ty = self.ty(base);
        let quotient = self.op(format_args!("fdiv {ty} {x}, {y}"));
        self.intrinsic("floor", base, &[&quotient], "")
    }

    fn compared(&mut self, op: Binary, base: &str, x: &str, y: &str) -> String {
        let ty = self.ty(base);
        let relation = match op {
            Binary::Eq => "oeq",
            Binary::Ne => "une",
            Binary::Lt => "olt",
            Binary::Le => "ole",
            Binary::Gt => "ogt",
            Binary::Ge => "oge",
            _ => {
                let zero = self.constant(base, &types::float(0.0));
                let [x, y] = [x, y].map(|value| self.op(format_args!("fcmp une {ty} {value}, {zero}")));
                let name = if op == Binary::And { "and" } else { "or" };
                return self.op(format_args!("{name} {} {x}, {y}", self.ty("i1")));
            }
        };
        self.op(format_args!("fcmp {relation} {ty} {x}, {y}"))
    }

    /// Returns true if an operation can be vectorized.
    pub(in crate::emit) fn float_has_lanes(&self, op: Binary, of: Scalar) -> bool {
        op.is_truth() || functions::of_two(op).is_none() || op == Binary::Pow && types::of(of) == "float"
    }

    /// Returns true if a function can be vectorized.
    pub(in crate::emit) fn math_has_lanes(&self, math: Math, of: Scalar) -> bool {
        let steps = if math == Math::Sigmoid { Math::Exp } else { math };
        let own = types::of(of) == "float" && elementary::of::<Function<'_, '_>>(steps).is_some();
        own || math.llvm().is_some() || math == Math::Rsqrt
    }

    /// Emits a unary float function.
    pub(in crate::emit) fn math(&mut self, math: Math, of: Scalar, x: &str) -> String {
        let base = types::of(of);
        let ty = self.ty(base);
        let value = match (math.llvm(), math) {
            (Some(name), _) => self.intrinsic(name, base, &[x], ""),
            (None, Math::Rsqrt) => {
                let root = self.intrinsic("sqrt", base, &[x], "");
                let one = self.constant(base, &types::float(1.0));
                self.op(format_args!("fdiv {ty} {one}, {root}"))
            }
            (None, Math::Sigmoid) => {
                let minus = self.op(format_args!("fneg {ty} {x}"));
                let power = self.elementary(Math::Exp, base, &minus);
                let one = self.constant(base, &types::float(1.0));
                let sum = self.op(format_args!("fadd {ty} {one}, {power}"));
                self.op(format_args!("fdiv {ty} {one}, {sum}"))
            }
            (None, math) => self.elementary(math, base, x),
        };
        self.rounded(of, &value)
    }

    /// Emits a function as a sequence of steps if possible, otherwise as a call of a function in the table.
    fn elementary(&mut self, math: Math, base: &'static str, x: &str) -> String {
        match elementary::of(math).filter(|_| base == "float") {
            Some(steps) => steps(self, &x.to_string()),
            None => self.call(functions::of_one(math), base, &[x]),
        }
    }

    /// Calls a function of the table in the context.
    fn call(&mut self, number: usize, base: &str, args: &[&str]) -> String {
        self.module.called.insert(number);
        let number = number * 2 + usize::from(base == "double");
        let table = self.context_field(Field::Functions, "ptr");
        let at = self.op(format_args!("getelementptr ptr, ptr {table}, i64 {number}"));
        let function = self.op(format_args!("load ptr, ptr {at}, align 8, !invariant.load !1"));
        self.module.declared.insert("!1 = !{}".to_string());
        let args: Vec<String> = args.iter().map(|arg| format!("{base} {arg}")).collect();
        self.op(format_args!("call {base} {function}({}) memory(none) nounwind willreturn", args.join(", ")))
    }

    /// Rounds a `float` to a type.
    pub(in crate::emit) fn rounded(&mut self, of: Scalar, value: &str) -> String {
        match of {
            Scalar::F16 => {
                let (float, half) = (self.ty("float"), self.ty("half"));
                let short = self.op(format_args!("fptrunc {float} {value} to {half}"));
                self.op(format_args!("fpext {half} {short} to {float}"))
            }
            Scalar::Bf16 => self.rounded_to_bf16(value),
            _ => value.to_string(),
        }
    }

    /// Rounds to the nearest `bfloat16`, ties to even; NaN remains NaN.
    fn rounded_to_bf16(&mut self, value: &str) -> String {
        let (float, word) = (self.ty("float"), self.ty("i32"));
        let [sixteen, one, half, upper, quiet] =
            ["16", "1", "32767", "-65536", "4194304"].map(|text| self.constant("i32", text));
        let bits = self.op(format_args!("bitcast {float} {value} to {word}"));
        let last = self.op(format_args!("lshr {word} {bits}, {sixteen}"));
        let last = self.op(format_args!("and {word} {last}, {one}"));
        let more = self.op(format_args!("add {word} {last}, {half}"));
        let near = self.op(format_args!("add {word} {bits}, {more}"));
        let none = self.op(format_args!("or {word} {bits}, {quiet}"));
        let is_nan = self.op(format_args!("fcmp uno {float} {value}, {value}"));
        let out = self.op(format_args!("select {} {is_nan}, {word} {none}, {word} {near}", self.ty("i1")));
        let out = self.op(format_args!("and {word} {out}, {upper}"));
        self.op(format_args!("bitcast {word} {out} to {float}"))
    }
}
