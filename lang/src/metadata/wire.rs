//! The byte format of the metadata section and of options: tagged, length-prefixed records, so that a reader can skip unknown records.
//! Writing works in constant evaluation.

use crate::metadata::OptionValue;

/// Start of a metadata block.
pub const MAGIC: [u8; 8] = *b"PASSHOST";
/// Version of this byte format.
pub const FORMAT: u16 = 1;

/// Field tags. Numbers are never reused.
pub mod tag {
    #![allow(missing_docs, reason = "each is named like the field of `crate::metadata` that it holds")]
    pub const NAME: u16 = 1;
    pub const VERSION: u16 = 2;
    pub const API: u16 = 3;
    pub const FINGERPRINT: u16 = 4;
    pub const TARGET: u16 = 5;
    pub const RUSTC: u16 = 6;
    pub const PASS: u16 = 16;
    pub const OPERATOR: u16 = 17;
    pub const CONFIG: u16 = 18;
    pub const PROPERTY: u16 = 19;
    pub const COMPOSITE: u16 = 20;
    pub const INSTRUMENT: u16 = 21;
    pub const READER: u16 = 22;
    pub const WRITER: u16 = 23;
    pub const DOC: u16 = 32;
    pub const OPT_LEVEL: u16 = 33;
    pub const REQUIRED: u16 = 34;
    pub const TRACEABLE: u16 = 35;
    pub const GRANULARITY: u16 = 36;
    pub const REQUIRES: u16 = 37;
    pub const ESTABLISHES: u16 = 38;
    pub const PRESERVES: u16 = 39;
    pub const INVALIDATES: u16 = 40;
    pub const OPTION: u16 = 41;
    pub const TYPE: u16 = 42;
    pub const DEFAULT: u16 = 43;
    pub const ARG: u16 = 44;
    pub const ATTR: u16 = 45;
    pub const OPTIONAL: u16 = 46;
    pub const PURE: u16 = 47;
    pub const SEQUENTIAL: u16 = 48;
    pub const FROM: u16 = 49;
    pub const UP_TO: u16 = 50;
    pub const CHECKED: u16 = 51;
    pub const MEMBER: u16 = 52;
    pub const BY_NAME: u16 = 53;
    pub const TOLERANCE: u16 = 54;
    pub const ONE_OF: u16 = 55;
    pub const EXTENSION: u16 = 56;
    pub const BEGINS: u16 = 57;
    pub const EXAMPLE: u16 = 58;
}

/// The first byte of a tolerance. The 8 bytes of `rtol` and the 8 bytes of `atol` follow.
pub mod tolerance {
    #![allow(missing_docs, reason = "each is named like the variant of `Tolerance`")]
    pub const EXACT: u8 = 0;
    pub const REASSOCIATED: u8 = 1;
    pub const PRECISION: u8 = 2;
    pub const SIGNATURE: u8 = 3;
    pub const UNCHECKED: u8 = 4;
    pub const INFERENCE: u8 = 5;
    pub const TRAINING: u8 = 6;
    pub const SPECIALIZED: u8 = 7;
}

/// The first byte of a value, which determines the meaning of the other bytes.
pub mod value {
    #![allow(missing_docs, reason = "each is named like the variant of `OptionValue`, or of its items")]
    pub const NONE: u8 = 0;
    pub const BOOL: u8 = 1;
    pub const INT: u8 = 2;
    pub const FLOAT: u8 = 3;
    pub const STR: u8 = 4;
    /// Eight bytes each.
    pub const INTS: u8 = 5;
    /// Eight bytes each.
    pub const FLOATS: u8 = 6;
    /// One byte each.
    pub const BOOLS: u8 = 7;
    /// One field `NAME` per string.
    pub const STRS: u8 = 8;
    /// One field `DEFAULT` per item, with its value.
    pub const LIST: u8 = 9;
    /// Not a value, but the name of the attribute whose value is the default.
    pub const SAME_AS: u8 = 10;
}

/// Writes fields; with `N` = 0, only counts bytes.
pub struct Writer<const N: usize> {
    buf: [u8; N],
    at: usize,
}

impl<const N: usize> Default for Writer<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Writer<N> {
    /// Creates an empty block.
    pub const fn new() -> Self {
        Writer { buf: [0; N], at: 0 }
    }

    /// Writes one byte.
    pub const fn byte(&mut self, byte: u8) {
        if N > 0 {
            self.buf[self.at] = byte;
        }
        self.at += 1;
    }

    /// Writes bytes. Takes one step of the constant evaluator, which limits steps, regardless of their number.
    pub const fn bytes(&mut self, bytes: &[u8]) {
        if N > 0 {
            let (_, rest) = self.buf.split_at_mut(self.at);
            let (room, _) = rest.split_at_mut(bytes.len());
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    /// Opens a field; pass the result to [`Writer::close`].
    pub const fn open(&mut self, tag: u16) -> usize {
        self.bytes(&tag.to_le_bytes());
        let at = self.at;
        self.bytes(&[0; 4]);
        at
    }

    /// Closes a field and stores its length.
    pub const fn close(&mut self, at: usize) {
        let len = ((self.at - at - 4) as u32).to_le_bytes();
        if N > 0 {
            let mut i = 0;
            while i < 4 {
                self.buf[at + i] = len[i];
                i += 1;
            }
        }
    }

    /// Writes a field of bytes.
    pub const fn field(&mut self, tag: u16, bytes: &[u8]) {
        let at = self.open(tag);
        self.bytes(bytes);
        self.close(at);
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> usize {
        self.at
    }

    /// Returns true if nothing was written.
    pub const fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Returns the bytes; `N` must be their number.
    pub const fn finish(self) -> [u8; N] {
        assert!(self.at == N, "the length was counted with other declarations");
        self.buf
    }
}

/// Iterates over fields. A field that exceeds the record ends the iteration with an error.
pub struct Fields<'a> {
    rest: &'a [u8],
    /// The number of bytes before `rest`, for messages.
    at: usize,
}

impl<'a> Fields<'a> {
    /// Creates an iterator over the fields of a record.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes, at: 0 }
    }
}

impl<'a> Iterator for Fields<'a> {
    /// Tag and content, or the position of a field that exceeds the record.
    type Item = Result<(u16, &'a [u8]), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.rest.split_first_chunk::<2>().and_then(|(tag, rest)| {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            let len = u32::from_le_bytes(*len) as usize;
            Some((u16::from_le_bytes(*tag), rest.get(..len)?, &rest[len..]))
        });
        let Some((tag, content, rest)) = field else {
            self.rest = &[];
            return Some(Err(self.at));
        };
        self.at += 6 + content.len();
        self.rest = rest;
        Some(Ok((tag, content)))
    }
}

/// Appends a field.
#[doc(hidden)]
pub fn put_field(out: &mut Vec<u8>, tag: u16, content: &[u8]) {
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&(content.len() as u32).to_le_bytes());
    out.extend_from_slice(content);
}

/// Encodes a value.
#[doc(hidden)]
pub fn value_bytes(value: &OptionValue) -> Vec<u8> {
    match value {
        OptionValue::Bool(v) => vec![value::BOOL, u8::from(*v)],
        OptionValue::Int(v) => [&[value::INT][..], &v.to_le_bytes()].concat(),
        OptionValue::Float(v) => [&[value::FLOAT][..], &v.to_bits().to_le_bytes()].concat(),
        OptionValue::Str(v) => [&[value::STR][..], v.as_bytes()].concat(),
        // A truncated list cannot be encoded; empty bytes are not a valid value.
        OptionValue::List(items) if !items.is_whole() => Vec::new(),
        OptionValue::List(items) => {
            let mut out = vec![value::LIST];
            items.iter().for_each(|item| put_field(&mut out, tag::DEFAULT, &value_bytes(item)));
            out
        }
    }
}

/// Maximum nesting depth of lists in a value.
const DEEPEST: u32 = 16;

/// Decodes a value; `None` if the bytes are invalid.
#[doc(hidden)]
pub fn read_value(bytes: &[u8]) -> Option<OptionValue> {
    read_nested(bytes, 0)
}

fn read_nested(bytes: &[u8], depth: u32) -> Option<OptionValue> {
    let (kind, rest) = bytes.split_first()?;
    let one = || rest.try_into().ok().map(u64::from_le_bytes);
    let words = || {
        let (words, rest) = rest.as_chunks::<8>();
        rest.is_empty().then(|| words.iter().map(|word| u64::from_le_bytes(*word)))
    };
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(|text| OptionValue::Str(text.to_string()));
    Some(match *kind {
        value::BOOL => OptionValue::Bool(<[u8; 1]>::try_from(rest).ok()? != [0]),
        value::INT => OptionValue::Int(one()? as i64),
        value::FLOAT => OptionValue::Float(f64::from_bits(one()?)),
        value::STR => text(rest)?,
        value::INTS => OptionValue::List(words()?.map(|word| OptionValue::Int(word as i64)).collect()),
        value::FLOATS => OptionValue::List(words()?.map(|word| OptionValue::Float(f64::from_bits(word))).collect()),
        value::BOOLS => OptionValue::List(rest.iter().map(|byte| OptionValue::Bool(*byte != 0)).collect()),
        value::STRS => OptionValue::List(Fields::new(rest).map(|field| text(field.ok()?.1)).collect::<Option<_>>()?),
        value::LIST if depth < DEEPEST => {
            let items = Fields::new(rest).map(|field| read_nested(field.ok()?.1, depth + 1));
            OptionValue::List(items.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = OptionValue> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(OptionValue::Bool),
            any::<i64>().prop_map(OptionValue::Int),
            any::<f64>().prop_map(OptionValue::Float),
            any::<String>().prop_map(OptionValue::Str),
        ];
        leaf.prop_recursive(4, 24, 5, |item| {
            proptest::collection::vec(item, 0..5).prop_map(|items| OptionValue::List(items.into()))
        })
    }

    proptest! {
        #[test]
        fn values_come_back(value in any_value()) {
            prop_assert_eq!(read_value(&value_bytes(&value)), Some(value));
        }

        #[test]
        fn any_bytes_are_a_value_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_value(&bytes);
        }
    }

    #[test]
    fn deep_lists_are_refused() {
        let mut bytes = vec![value::LIST];
        for _ in 0..100_000 {
            let mut outer = vec![value::LIST];
            put_field(&mut outer, tag::DEFAULT, &bytes);
            bytes = outer;
            if bytes.len() > 4_000 {
                break;
            }
        }
        assert_eq!(read_value(&bytes), None);
    }
}
