//! Emits the steps of elementary functions, on the lanes of the current instruction.

use crate::emit::function::Function;
use crate::emit::types;
use runtime::math::elementary::{LARGE, Steps};

impl Function<'_, '_> {
    fn of_two(&mut self, name: &str, a: &str, b: &str) -> String {
        let ty = self.ty("float");
        self.op(format_args!("{name} {ty} {a}, {b}"))
    }

    fn whole_of_two(&mut self, name: &str, a: &str, b: i32) -> String {
        let (ty, b) = (self.ty("i32"), self.constant("i32", &b.to_string()));
        self.op(format_args!("{name} {ty} {a}, {b}"))
    }
}

impl Steps for Function<'_, '_> {
    type Number = String;
    type Whole = String;
    type Truth = String;

    fn number(&mut self, value: f32) -> String {
        self.constant("float", &types::float(value.into()))
    }

    fn add(&mut self, a: &String, b: &String) -> String {
        self.of_two("fadd", a, b)
    }

    fn sub(&mut self, a: &String, b: &String) -> String {
        self.of_two("fsub", a, b)
    }

    fn mul(&mut self, a: &String, b: &String) -> String {
        self.of_two("fmul", a, b)
    }

    fn div(&mut self, a: &String, b: &String) -> String {
        self.of_two("fdiv", a, b)
    }

    fn abs(&mut self, a: &String) -> String {
        self.intrinsic("fabs", "float", &[a], "")
    }

    fn with_sign(&mut self, size: &String, sign: &String) -> String {
        self.intrinsic("copysign", "float", &[size, sign], "")
    }

    fn is_number(&mut self, a: &String) -> String {
        self.of_two("fcmp ord", a, a)
    }

    fn less(&mut self, a: &String, b: &String) -> String {
        self.of_two("fcmp olt", a, b)
    }

    fn choose(&mut self, which: &String, yes: &String, no: &String) -> String {
        let (truth, ty) = (self.ty("i1"), self.ty("float"));
        self.op(format_args!("select {truth} {which}, {ty} {yes}, {ty} {no}"))
    }

    fn nearest(&mut self, a: &String) -> (String, String) {
        let large = self.number(LARGE);
        let sum = self.add(a, &large);
        let near = self.sub(&sum, &large);
        let (float, whole) = (self.ty("float"), self.ty("i32"));
        let n = self.op(format_args!("fptosi {float} {near} to {whole}"));
        (near, n)
    }

    fn halves(&mut self, n: &String) -> [String; 2] {
        let (half, ty) = (self.whole_of_two("ashr", n, 1), self.ty("i32"));
        let rest = self.op(format_args!("sub {ty} {n}, {half}"));
        [half, rest]
    }

    fn power_of_two(&mut self, n: &String) -> String {
        let exponent = self.whole_of_two("add", n, 127);
        let bits = self.whole_of_two("shl", &exponent, 23);
        let (whole, float) = (self.ty("i32"), self.ty("float"));
        self.op(format_args!("bitcast {whole} {bits} to {float}"))
    }
}
