//! The 16-bit floats: `float16` and `bfloat16`.
//!
//! The crate `half` provides both, but then every plugin would compile it and `zerocopy` for two conversions. The tests cover each of the
//! 65,536 bit patterns and both sides of every rounding boundary.

/// A number of data type `float16`: 5 bits of exponent, 10 of fraction.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::F16;
///
/// assert_eq!(F16::from_f32(0.1).to_f32(), 0.099_975_586);
/// assert_eq!(F16::from_f32(1e9).to_f32(), f32::INFINITY);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct F16(
    /// Bits of the float.
    pub u16,
);

/// A number of data type `bfloat16`: the upper half of a `float32`.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::Bf16;
///
/// assert_eq!(Bf16::from_f32(0.1).to_f32(), 0.100_097_656);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bf16(
    /// Bits of the float.
    pub u16,
);

/// The smallest positive `float16`, 2^-24.
const SUBNORMAL: f64 = 1.0 / 16_777_216.0;

impl F16 {
    /// Rounds to the nearest number, ties to even; from 65520 on, the result is infinite.
    pub fn from_f32(value: f32) -> F16 {
        F16::from_f64(f64::from(value))
    }

    /// Rounds a `float64` in one step.
    pub fn from_f64(value: f64) -> F16 {
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        let size = value.abs();
        F16(match size {
            _ if size.is_nan() => sign | 0x7e00,
            65520.0.. => sign | 0x7c00,
            // Subnormal numbers are multiples of 2^-24; the least normal number is 1024 · 2^-24.
            ..6.103_515_625e-5 => sign | (size / SUBNORMAL).round_ties_even() as u16,
            _ => {
                // Ten of the 52 fraction bits remain. Rounding up may carry into the exponent.
                let bits = size.to_bits();
                let rounded = (bits + ((1 << 41) - 1) + (bits >> 42 & 1)) >> 42;
                sign | (rounded - ((1023 - 15) << 10)) as u16
            }
        })
    }

    /// Rounds to the nearest `float16` as [`F16::from_f32`] does, but faster for normal results.
    #[doc(hidden)]
    #[inline]
    pub fn round(value: f32) -> f32 {
        let bits = value.to_bits();
        match value.abs() {
            6.103_515_6e-5..65520.0 => f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff),
            _ => F16::from_f32(value).to_f32(),
        }
    }

    /// Returns the exact value.
    pub fn to_f32(self) -> f32 {
        let (sign, size) = (u32::from(self.0 >> 15) << 31, u32::from(self.0 & 0x7fff));
        let size = match size {
            0..0x400 => size as f32 * SUBNORMAL as f32,
            0x7c00 => f32::INFINITY,
            0x7c01.. => return f32::NAN,
            // The exponent has a different bias, and the fraction has 13 more bits, which are 0.
            _ => f32::from_bits((size << 13) + ((127 - 15) << 23)),
        };
        f32::from_bits(size.to_bits() | sign)
    }
}

impl Bf16 {
    /// Rounds to the nearest number, ties to even.
    pub fn from_f32(value: f32) -> Bf16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return Bf16((bits >> 16) as u16 | 0x40);
        }
        let round = 0x7fff + (bits >> 16 & 1);
        Bf16((bits.wrapping_add(round) >> 16) as u16)
    }

    /// Returns the exact value.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_what_its_value_rounds_to() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (F16(bits).to_f32(), Bf16(bits).to_f32());
            let (again, again_brain) = (F16::from_f32(half), Bf16::from_f32(brain));
            assert!(if half.is_nan() { again.to_f32().is_nan() } else { again.0 == bits }, "float16 {bits:#x}");
            assert!(
                if brain.is_nan() { again_brain.to_f32().is_nan() } else { again_brain.0 == bits },
                "bfloat16 {bits:#x}"
            );
        }
    }

    /// A value between two neighbours rounds to the nearer neighbour, and the midpoint to the even neighbour. Beyond the largest number,
    /// the upper neighbour is the next power of two.
    #[test]
    fn both_sides_of_every_border_round_to_their_neighbour() {
        for bits in 0..0x7c00u16 {
            let (low, high) = (f64::from(F16(bits).to_f32()), f64::from(F16(bits + 1).to_f32()));
            let middle = (low + if high.is_finite() { high } else { 65536.0 }) / 2.0;
            let even = bits + (bits & 1);
            for (value, expected) in [(middle.next_down(), bits), (middle, even), (middle.next_up(), bits + 1)] {
                assert_eq!(F16::from_f64(value).0, expected, "{value}");
                assert_eq!(F16::from_f64(-value).0, expected | 0x8000, "-{value}");
            }
        }
        for bits in 0..0x7f80u16 {
            let (low, high) = (Bf16(bits).to_f32(), Bf16(bits + 1).to_f32());
            let step = if high.is_finite() { high - low } else { low - Bf16(bits - 1).to_f32() };
            let middle = low + step / 2.0;
            let even = bits + (bits & 1);
            for (value, expected) in [(middle.next_down(), bits), (middle, even), (middle.next_up(), bits + 1)] {
                assert_eq!(Bf16::from_f32(value).0, expected, "{value}");
                assert_eq!(Bf16::from_f32(-value).0, expected | 0x8000, "-{value}");
            }
        }
    }
}
