//! Texts that are almost modules: generated texts, damaged in a few places.

use super::SomeOps;
use crate::generate::{Choices, bytes_of, module};

/// Pieces of text that replace other pieces.
const PIECES: &[&str] = &[
    "", "x", "n", "1", ", ", "R.", "T.", "()", "\n", "    ", "None", "\"m\"", "x, x", "-1", "π", "_", "[0]", ":",
    "0:4", "int64", "T.int64(", ")", "if ", "else:\n", "Module.", "metadata", "\\\n", "(", "return ", "True",
];

/// Number of choice bytes of the longest module.
const LONGEST: usize = 300;

/// Returns the text of a generated module with the operators of [`SomeOps`].
pub fn generated(seed: u64) -> String {
    let len = (seed.wrapping_mul(0x9e37_79b9) >> 16) as usize % LONGEST;
    script::print(&module(&Choices::new(&bytes_of(seed, len)), &SomeOps), &SomeOps).expect("the module can be printed")
}

/// Returns the text of a generated module with pieces removed, duplicated, moved and replaced, sometimes by a piece of
/// `other`.
pub fn damaged(other: &[u8], seed: u32) -> String {
    let mut text: Vec<char> = generated(u64::from(seed)).chars().collect();
    let other: Vec<char> = String::from_utf8_lossy(other).chars().collect();
    let bytes = bytes_of(u64::from(seed) | 1 << 32, 64);
    let c = Choices::new(&bytes);
    let place = |len: usize| if len == 0 { 0 } else { (usize::from(c.byte()) << 8 | usize::from(c.byte())) % len };
    for _ in 0..c.below(4) {
        let from = place(text.len());
        let until = (from + c.below(24)).min(text.len());
        let with: Vec<char> = match c.below(6) {
            0 => text[from..until].iter().chain(&text[from..until]).copied().collect(),
            1 => {
                let at = place(other.len());
                other[at..(at + c.below(64)).min(other.len())].to_vec()
            }
            2 => {
                let at = place(text.len());
                text[at..(at + c.below(64)).min(text.len())].to_vec()
            }
            _ => c.of(PIECES).chars().collect(),
        };
        text.splice(from..until, with);
    }
    text.into_iter().collect()
}
