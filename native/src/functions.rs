//! Float functions that native code calls. The interpreter calls the same functions, so results are bit-identical.

use passhost_lang::{each_function_of_one, each_function_of_two};
use runtime::math;
use runtime::program::{Binary, Math};

/// Returns the table index of a unary function.
pub(crate) fn of_one(math: Math) -> usize {
    Math::ALL.iter().position(|one| *one == math).unwrap_or_default()
}

/// Returns the table index of a binary operation, if native code calls it. Binary operations follow the unary
/// functions.
pub(crate) fn of_two(op: Binary) -> Option<usize> {
    Binary::CALLED.iter().position(|one| *one == op).map(|at| Math::ALL.len() + at)
}

/// Returns the index of `a * b + c`, the last function in the table and the only ternary one.
pub(crate) fn mul_add() -> usize {
    Math::ALL.len() + Binary::CALLED.len()
}

/// Returns the name of a function in the table, for messages.
pub(crate) fn name(number: usize) -> String {
    let of_two = number.checked_sub(Math::ALL.len()).and_then(|at| Binary::CALLED.get(at));
    let name = Math::ALL.get(number).map(|math| format!("{math:?}")).or(of_two.map(|op| format!("{op:?}")));
    name.unwrap_or_else(|| "fma".to_string()).to_lowercase()
}

/// Returns the names in the order of the table. They are part of a cache key, because compiled code refers to functions
/// by index.
pub(crate) fn names() -> String {
    (0..=mul_add()).map(name).collect::<Vec<String>>().join(" ")
}

/// Returns two addresses for each function, one for `float32` and one for `float64`.
pub(crate) fn table() -> Vec<usize> {
    extern "C" fn mul_add_f32(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    extern "C" fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    let one = Math::ALL.iter().flat_map(|math| [one_f32(*math), one_f64(*math)]);
    let two = Binary::CALLED.iter().flat_map(|op| [two_f32(*op), two_f64(*op)]);
    let mul_add = [mul_add_f32 as *const () as usize, mul_add_f64 as *const () as usize];
    one.chain(two).chain(mul_add).collect()
}

/// Defines the address of each unary function, with the C calling convention.
macro_rules! of_one_number {
    ($name:ident $of:ident $number:ident $($case:ident)*) => {
        fn $name(math: Math) -> usize {
            match math {
                $(Math::$case => {
                    extern "C" fn call(x: $number) -> $number {
                        math::$of(Math::$case)(x)
                    }
                    call as *const () as usize
                })*
            }
        }
    };
}

/// Defines the address of each binary function.
macro_rules! of_two_numbers {
    ($name:ident $of:ident $number:ident $($case:ident)*) => {
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

each_function_of_one! { of_one_number one_f32 of_f32 f32 }
each_function_of_one! { of_one_number one_f64 of_f64 f64 }
each_function_of_two! { of_two_numbers two_f32 of_two_f32 f32 }
each_function_of_two! { of_two_numbers two_f64 of_two_f64 f64 }

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
