//! A source of choices: bytes from anywhere. Where they end, every choice is the first one, which is the simplest; so a
//! shorter input, or one of smaller bytes, gives a smaller module, and whatever shrinks bytes shrinks modules.

use std::cell::Cell;

/// Bytes that are used up from front to back.
pub struct Choices<'a> {
    bytes: &'a [u8],
    at: Cell<usize>,
}

impl<'a> Choices<'a> {
    /// Choices of these bytes.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes, at: Cell::new(0) }
    }

    /// Whether all bytes are used up: from here on every choice is the first one.
    pub fn is_empty(&self) -> bool {
        self.at.get() >= self.bytes.len()
    }

    /// The next byte, 0 where there is none.
    pub fn byte(&self) -> u8 {
        let at = self.at.get();
        self.at.set(at + 1);
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// A number below `n`, of which there are at most 256; 0 if `n` is 0.
    pub fn below(&self, n: usize) -> usize {
        if n < 2 { 0 } else { usize::from(self.byte()) % n }
    }

    /// A number of a range.
    pub fn within(&self, least: i64, most: i64) -> i64 {
        least + self.below((most - least + 1) as usize) as i64
    }

    /// One of these.
    pub fn of<T: Copy>(&self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// True in one of two cases.
    pub fn coin(&self) -> bool {
        self.one_in(2)
    }

    /// True in one of `n` cases.
    pub fn one_in(&self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// Bytes from a seed (splitmix64), for those who have none of their own.
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
