//! The LLVM types of registers and of elements in memory.

use runtime::program::Scalar;

/// Returns the type of a register. `float16` and `bfloat16` are computed in `float`.
pub(super) fn of(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "i1",
        Scalar::Int(8) | Scalar::UInt(8) => "i8",
        Scalar::Int(16) | Scalar::UInt(16) => "i16",
        Scalar::Int(32) | Scalar::UInt(32) => "i32",
        Scalar::Int(_) | Scalar::UInt(_) => "i64",
        Scalar::F16 | Scalar::Bf16 | Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

/// Returns the type of an element in memory.
pub(super) fn in_memory(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "i8",
        Scalar::F16 => "half",
        Scalar::Bf16 => "i16",
        other => of(other),
    }
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

/// Returns a vector type with this many lanes; one lane is a scalar.
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

/// Formats a float constant, as its bits in a `double`.
pub(super) fn float(value: f64) -> String {
    format!("0x{:016X}", value.to_bits())
}
