//! A source of choices from arbitrary bytes. After the last byte, every choice is the first alternative, which is the
//! simplest. So an input with fewer or smaller bytes gives a smaller module, and tools that shrink bytes shrink
//! modules.

use std::cell::Cell;

/// Bytes that are consumed from front to back.
pub struct Choices<'a> {
    bytes: &'a [u8],
    at: Cell<usize>,
}

impl<'a> Choices<'a> {
    /// Creates a source from these bytes.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes, at: Cell::new(0) }
    }

    /// Returns true if all bytes are consumed, so that every choice from here on is the first alternative.
    pub fn is_empty(&self) -> bool {
        self.at.get() >= self.bytes.len()
    }

    /// Returns the next byte, or 0 if there is none.
    pub fn byte(&self) -> u8 {
        let at = self.at.get();
        self.at.set(at + 1);
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Returns a number below `n`, which is at most 256; 0 if `n` is 0.
    pub fn below(&self, n: usize) -> usize {
        if n < 2 { 0 } else { usize::from(self.byte()) % n }
    }

    /// Returns a number in a range.
    pub fn within(&self, least: i64, most: i64) -> i64 {
        least + self.below((most - least + 1) as usize) as i64
    }

    /// Returns one of the items.
    pub fn of<T: Copy>(&self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns true in one of two cases.
    pub fn coin(&self) -> bool {
        self.one_in(2)
    }

    /// Returns true in one of `n` cases.
    pub fn one_in(&self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// Returns bytes from a seed (splitmix64), for callers without their own.
pub fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    words.flat_map(u64::to_le_bytes).take(len).collect()
}
