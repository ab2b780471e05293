//! Calls of intrinsics of TIR in elements.

use super::TeExpr;
use super::expr::Node;
use super::size::Fault;
use passhost_lang::ir::DType;
use passhost_lang::names::{counted, did_you_mean, nearest};
use passhost_lang::scalar::{Intrinsic, ResultRule};

impl TeExpr {
    /// Calls an intrinsic of TIR such as `pow` with this expression and further operands. The result has this data type. Functions of real
    /// numbers require floats; with other types, the function is rejected when it is [finished](super::Te::finish).
    ///
    /// These intrinsics have further operands:
    ///
    /// | operands | names |
    /// |---|---|
    /// | 1 | `atan2`, `copysign`, `fmod`, `hypot`, `ldexp`, `nextafter`, `pow` |
    /// | 2 | `fma` |
    pub fn math_with(&self, op: &str, others: &[TeExpr]) -> TeExpr {
        self.intrinsic(op, others, false)
    }

    /// Calls an intrinsic of TIR such as `exp`. The result has this data type.
    ///
    /// These intrinsics have one operand:
    ///
    /// | operand | names |
    /// |---|---|
    /// | a float | `acos`, `acosh`, `asin`, `asinh`, `atan`, `atanh`, `ceil`, `cos`, `cosh`, `erf`, `exp`, `exp10` |
    /// | a float | `exp2`, `floor`, `log`, `log10`, `log1p`, `log2`, `nearbyint`, `round`, `rsqrt`, `sigmoid`, `sin`, `sinh`, `sqrt`, `tan`, `tanh`, `trunc` |
    /// | any number | `abs`, `bitwise_not`, `fabs`, `popcount` |
    pub fn math(&self, op: &str) -> TeExpr {
        self.math_with(op, &[])
    }

    /// Calls an intrinsic of TIR with a Boolean result: `isfinite`, `isinf` or `isnan`.
    pub fn test(&self, op: &str) -> TeExpr {
        TeExpr { dtype: DType::BOOL, ..self.intrinsic(op, &[], true) }
    }

    /// Calls an intrinsic of TIR; a wrong name, number of operands or kind of result is a fault of the legalization.
    fn intrinsic(&self, op: &str, others: &[TeExpr], is_test: bool) -> TeExpr {
        let fault = |why: String| TeExpr::new(Node::Fault(Fault::Legalization(why)), self.dtype);
        let Some(row) = Intrinsic::find(op) else {
            let near = nearest(op, Intrinsic::all().iter().filter(|row| row.computes.is_some()).map(|row| row.name));
            let near = match near.is_empty() {
                true => "; the documentation of `TeExpr::math` lists the names".to_string(),
                false => did_you_mean(&near),
            };
            return fault(format!("calls the unknown intrinsic `{op}`{near}"));
        };
        if let Some(wanted) = row.operands().filter(|wanted| *wanted != others.len() + 1) {
            return fault(format!(
                "calls intrinsic `{op}` with {}; it takes {wanted}",
                counted(others.len() + 1, "operand")
            ));
        }
        match (row.result == ResultRule::Bool, is_test) {
            (true, false) => {
                return fault(format!("calls intrinsic `{op}` with `math`; its result is a bool, so use `test`"));
            }
            (false, true) => {
                return fault(format!("calls intrinsic `{op}` with `test`; its result is not a bool, so use `math`"));
            }
            _ => {}
        }
        if !self.dtype.is_float() && row.takes_floats() {
            return self.refused(&format!("T.{op}"), "floats");
        }
        let args = std::iter::once(self.clone()).chain(others.iter().cloned()).collect();
        TeExpr::new(Node::Call(format!("tirx.{}", row.name), args), self.dtype).bounded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::message;
    use passhost_lang::scalar::Computes;

    #[test]
    fn wrong_calls_of_intrinsics_are_faults_of_the_legalization() {
        let (x, i) = (TeExpr::float(1.0, DType::F32).math("exp"), TeExpr::int(1, DType::I64));
        let cases = [
            (x.math("ldxp"), "calls the unknown intrinsic `ldxp`; did you mean `ldexp`"),
            (
                x.math("lgama"),
                "calls the unknown intrinsic `lgama`; the documentation of `TeExpr::math` lists the names; this",
            ),
            (x.math("pow"), "calls intrinsic `pow` with 1 operand; it takes 2"),
            (x.math_with("exp", std::slice::from_ref(&x)), "calls intrinsic `exp` with 2 operands; it takes 1"),
            (x.math("isnan"), "calls intrinsic `isnan` with `math`; its result is a bool, so use `test`"),
            (x.test("exp"), "calls intrinsic `exp` with `test`; its result is not a bool, so use `math`"),
            ((&x + i.cast(DType::F32)).lt(x.math("expp")), "did you mean `exp`"),
        ];
        for (value, wanted) in cases {
            let fault = value.fault().expect("a fault");
            assert!(matches!(fault, Fault::Legalization(_)) && message(&value).contains(wanted), "{}", message(&value));
        }
        assert_eq!(message(&i.math("exp")), "`T.exp` takes floats, found int64; convert the operands with R.astype");
    }

    /// The tables of the documentation list the intrinsics that an element can call.
    #[test]
    fn intrinsics_are_documented() {
        let source = include_str!("intrinsics.rs");
        let listed = |method: &str, row: &str| -> Vec<&str> {
            let end = source.find(&format!("    pub fn {method}(")).expect("a method");
            let doc = source[..end].rsplit("\n\n").next().expect("its documentation");
            let rows = doc.lines().filter(|line| line.trim_start().starts_with(&format!("/// | {row} |")));
            rows.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
        };
        let known = |of: &dyn Fn(&Intrinsic) -> bool| -> Vec<&str> {
            let is_written = |row: &&Intrinsic| row.computes.is_some() && row.result == ResultRule::Argument(0);
            Intrinsic::all().iter().filter(is_written).filter(|row| of(row)).map(|row| row.name).collect()
        };
        let is_one = |row: &Intrinsic| matches!(row.computes, Some(Computes::One(_)));
        assert_eq!(listed("math", "a float"), known(&|row| is_one(row) && row.takes_floats()));
        assert_eq!(listed("math", "any number"), known(&|row| is_one(row) && !row.takes_floats()));
        assert_eq!(listed("math_with", "1"), known(&|row| row.operands() == Some(2)));
        assert_eq!(listed("math_with", "2"), known(&|row| row.operands() == Some(3)));
        let tests = Intrinsic::all().iter().filter(|row| is_one(row) && row.result == ResultRule::Bool);
        assert!(tests.clone().count() > 0 && tests.clone().all(|row| source.contains(&format!("`{}`", row.name))));
    }
}
