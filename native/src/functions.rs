//! Float functions that native code calls. They are the same ones that the interpreter calls, so the bits are the
//! same.

use runtime::math;
use runtime::program::{Binary, Math};

/// The functions of one number, in the order of their indices.
const OF_ONE: [Math; 22] = [
    Math::Exp,
    Math::Exp2,
    Math::Exp10,
    Math::Log,
    Math::Log2,
    Math::Log10,
    Math::Log1p,
    Math::Expm1,
    Math::Erf,
    Math::Tanh,
    Math::Sin,
    Math::Cos,
    Math::Tan,
    Math::Sinh,
    Math::Cosh,
    Math::Asin,
    Math::Acos,
    Math::Atan,
    Math::Asinh,
    Math::Acosh,
    Math::Atanh,
    Math::Cbrt,
];

/// The functions of two numbers, whose indices follow those of one.
const OF_TWO: [Binary; 6] =
    [Binary::Pow, Binary::Atan2, Binary::Hypot, Binary::NextAfter, Binary::Ldexp, Binary::TruncMod];

/// Returns the index of a function in the table.
pub(crate) fn of_one(math: Math) -> usize {
    OF_ONE.iter().position(|one| *one == math).unwrap_or_default()
}

/// Returns the index of a function in the table, if native code calls it.
pub(crate) fn of_two(op: Binary) -> Option<usize> {
    OF_TWO.iter().position(|one| *one == op).map(|at| OF_ONE.len() + at)
}

/// Returns the index of the only function of three numbers, `a * b + c`, which comes last.
pub(crate) fn mul_add() -> usize {
    OF_ONE.len() + OF_TWO.len()
}

/// Returns the name of a function in the table, for messages.
pub(crate) fn name(number: usize) -> String {
    let of_two = number.checked_sub(OF_ONE.len()).and_then(|at| OF_TWO.get(at)).map(|op| format!("{op:?}"));
    let name = OF_ONE.get(number).map(|math| format!("{math:?}")).or(of_two);
    name.unwrap_or_else(|| "fma".to_string()).to_lowercase()
}

/// Returns two addresses for each function, one for `float32` and one for `float64`.
pub(crate) fn table() -> Vec<usize> {
    extern "C" fn mul_add_f32(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    extern "C" fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    let one = OF_ONE.iter().flat_map(|math| [one_f32(*math), one_f64(*math)]);
    let two = OF_TWO.iter().flat_map(|op| [two_f32(*op), two_f64(*op)]);
    let mul_add = [mul_add_f32 as *const () as usize, mul_add_f64 as *const () as usize];
    one.chain(two).chain(mul_add).collect()
}

/// Lists the addresses of functions of one number, with the C calling convention.
macro_rules! of_one_number {
    ($name:ident, $of:ident, $number:ty: $($case:ident)*) => {
        fn $name(math: Math) -> usize {
            match math {
                $(Math::$case => {
                    extern "C" fn call(x: $number) -> $number {
                        math::$of(Math::$case)(x)
                    }
                    call as *const () as usize
                })*
                _ => 0,
            }
        }
    };
}

/// Lists the addresses of functions of two numbers.
macro_rules! of_two_numbers {
    ($name:ident, $of:ident, $number:ty: $($case:ident)*) => {
        fn $name(op: Binary) -> usize {
            match op {
                $(Binary::$case => {
                    extern "C" fn call(a: $number, b: $number) -> $number {
                        math::$of(Binary::$case)(a, b)
                    }
                    call as *const () as usize
                })*
                _ => 0,
            }
        }
    };
}

of_one_number!(one_f32, of_f32, f32:
    Exp Exp2 Exp10 Log Log2 Log10 Log1p Expm1 Erf Tanh Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Cbrt);
of_one_number!(one_f64, of_f64, f64:
    Exp Exp2 Exp10 Log Log2 Log10 Log1p Expm1 Erf Tanh Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Cbrt);
of_two_numbers!(two_f32, of_two_f32, f32: Pow Atan2 Hypot NextAfter Ldexp TruncMod);
of_two_numbers!(two_f64, of_two_f64, f64: Pow Atan2 Hypot NextAfter Ldexp TruncMod);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_an_address() {
        let table = table();
        assert_eq!(table.len(), 2 * (mul_add() + 1));
        assert!(table.iter().all(|address| *address != 0));
    }
}
