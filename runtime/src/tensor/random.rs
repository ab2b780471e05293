//! Random elements, which are the same on every machine.

use passhost_lang::scalar::{DType, Number, map_elements};

/// The generator SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// Fills the data of a tensor; `None` if Rust lacks a type for the elements.
pub(super) fn fill(dtype: DType, seed: u64, bytes: &mut [u8]) -> Option<()> {
    let mut random = SplitMix::new(seed);
    let scalar = DType::new(dtype.code(), dtype.bits(), 1);
    // Only 23 bits are used, so that the number is exact in float32.
    let float = |draw: u64| (draw >> 41) as f64 / f64::from(1 << 22) - 1.0;
    map_elements(scalar, bytes, |_| {
        let draw = random.next();
        match scalar.code() {
            6 => Number::Bool(draw >> 63 == 1),
            0 => Number::Int((draw >> 60) as i64 - 8),
            1 => Number::UInt(draw >> 60),
            _ => Number::Float(float(draw)),
        }
    })
}
