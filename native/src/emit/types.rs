//! The LLVM types of registers and of elements in memory.

use runtime::program::Scalar;

/// Returns the type of a register.
pub(super) fn of(scalar: Scalar) -> &'static str {
    scalar.llvm().register
}

/// Returns the type of an element in memory.
pub(super) fn in_memory(scalar: Scalar) -> &'static str {
    scalar.llvm().memory
}

/// Returns the width of an integer type in this module, in bits.
pub(super) fn bits(scalar: Scalar) -> u32 {
    match scalar {
        Scalar::Bool => 1,
        other => other.bytes() as u32 * 8,
    }
}

/// Returns true if integers are zero-extended.
pub(super) fn is_unsigned(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Bool | Scalar::UInt(_))
}

/// Returns a vector type with `lanes` lanes; one lane is a scalar.
pub(super) fn lanes(base: &str, lanes: u32) -> String {
    if lanes == 1 { base.to_string() } else { format!("<{lanes} x {base}>") }
}

/// Returns the suffix of a type in the names of intrinsics.
pub(super) fn suffix(base: &str, lanes: u32) -> String {
    let base = match base {
        "float" => "f32",
        "double" => "f64",
        "half" => "f16",
        other => other,
    };
    if lanes == 1 { base.to_string() } else { format!("v{lanes}{base}") }
}

/// Formats a float constant as the bits of a `double`.
pub(super) fn float(value: f64) -> String {
    format!("0x{:016X}", value.to_bits())
}
