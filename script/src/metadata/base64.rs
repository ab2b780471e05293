//! Base64 with the standard alphabet and padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Marks bytes that are not digits.
const NONE: u8 = 0xff;
const DIGITS: [u8; 256] = {
    let (mut digits, mut i) = ([NONE; 256], 0);
    while i < ALPHABET.len() {
        digits[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    digits
};

/// Appends bytes as Base64. The length of every chunk except the last must be a multiple of 3.
pub(super) fn encode(out: &mut String, bytes: &[u8]) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
}

/// Decodes a string; `None` if it is not Base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let digits = text.iter().rposition(|c| *c != b'=').map_or(0, |last| last + 1);
    if !text.len().is_multiple_of(4) || text.len() - digits > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text[..digits].chunks(4) {
        let mut word = 0u32;
        let mut wrong = 0u8;
        for i in 0..4 {
            let digit = chunk.get(i).map_or(0, |c| DIGITS[usize::from(*c)]);
            wrong |= digit;
            word = word << 6 | u32::from(digit);
        }
        if wrong & 0xc0 != 0 {
            return None;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        for n in 0..50u8 {
            let bytes: Vec<u8> = (0..n).map(|i| i.wrapping_mul(97).wrapping_add(n)).collect();
            let mut text = String::new();
            encode(&mut text, &bytes);
            assert_eq!(decode(&text).as_deref(), Some(&bytes[..]), "{text}");
        }
        let mut text = String::new();
        encode(&mut text, b"any carnal pleas");
        assert_eq!(text, "YW55IGNhcm5hbCBwbGVhcw==");
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["A", "AB=", "A===", "AB=C", "A*BC", "ABCD\n", "=ABC", "ÄÄ"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
