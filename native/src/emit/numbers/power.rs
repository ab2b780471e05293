//! Emits the steps of powers as instructions on `double`, on the lanes of the current instruction.

use crate::emit::function::Function;
use crate::emit::types;
use runtime::math::power::{ROOT_OF_HALF, WIDE_LARGE, WideSteps};

impl Function<'_, '_> {
    fn of_two_wide(&mut self, name: &str, a: &str, b: &str) -> String {
        let ty = self.ty("double");
        self.op(format_args!("{name} {ty} {a}, {b}"))
    }

    fn of_two_words(&mut self, name: &str, a: &str, b: &str) -> String {
        let ty = self.ty("i64");
        self.op(format_args!("{name} {ty} {a}, {b}"))
    }

    fn word(&mut self, value: i64) -> String {
        self.constant("i64", &value.to_string())
    }

    /// Converts a number to a different type.
    fn converted(&mut self, how: &str, value: &str, [from, to]: [&str; 2]) -> String {
        let (from, to) = (self.ty(from), self.ty(to));
        self.op(format_args!("{how} {from} {value} to {to}"))
    }
}

impl WideSteps for Function<'_, '_> {
    type Wide = String;

    fn wide(&mut self, value: f64) -> String {
        self.constant("double", &types::float(value))
    }

    fn widened(&mut self, a: &String) -> String {
        self.converted("fpext", a, ["float", "double"])
    }

    fn narrowed(&mut self, a: &String) -> String {
        self.converted("fptrunc", a, ["double", "float"])
    }

    fn wide_add(&mut self, a: &String, b: &String) -> String {
        self.of_two_wide("fadd", a, b)
    }

    fn wide_sub(&mut self, a: &String, b: &String) -> String {
        self.of_two_wide("fsub", a, b)
    }

    fn wide_mul(&mut self, a: &String, b: &String) -> String {
        self.of_two_wide("fmul", a, b)
    }

    fn wide_div(&mut self, a: &String, b: &String) -> String {
        self.of_two_wide("fdiv", a, b)
    }

    fn wide_less(&mut self, a: &String, b: &String) -> String {
        self.of_two_wide("fcmp olt", a, b)
    }

    fn wide_choose(&mut self, which: &Self::Truth, yes: &String, no: &String) -> String {
        let (truth, ty) = (self.ty("i1"), self.ty("double"));
        self.op(format_args!("select {truth} {which}, {ty} {yes}, {ty} {no}"))
    }

    fn wide_nearest(&mut self, a: &String) -> (String, Self::Whole) {
        let large = self.wide(WIDE_LARGE);
        let sum = self.wide_add(a, &large);
        let near = self.wide_sub(&sum, &large);
        let whole = self.converted("fptosi", &near, ["double", "i32"]);
        (near, whole)
    }

    fn wide_power_of_two(&mut self, n: &Self::Whole) -> String {
        let n = self.converted("sext", n, ["i32", "i64"]);
        let [bias, bits] = [1023, 52].map(|value| self.word(value));
        let exponent = self.of_two_words("add", &n, &bias);
        let word = self.of_two_words("shl", &exponent, &bits);
        self.converted("bitcast", &word, ["i64", "double"])
    }

    fn parts(&mut self, a: &String) -> (String, String) {
        let word = self.converted("bitcast", a, ["double", "i64"]);
        let [root, bits] = [ROOT_OF_HALF, 52].map(|value| self.word(value));
        let from_root = self.of_two_words("sub", &word, &root);
        let n = self.of_two_words("ashr", &from_root, &bits);
        let exponent = self.of_two_words("shl", &n, &bits);
        let rest = self.of_two_words("sub", &word, &exponent);
        let n = self.converted("trunc", &n, ["i64", "i32"]);
        (self.converted("sitofp", &n, ["i32", "double"]), self.converted("bitcast", &rest, ["i64", "double"]))
    }
}
