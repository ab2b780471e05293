//! Reads and writes the header of an `.npy` file: a Python literal with three keys. The parser is part of this crate,
//! because a library would bring in a whole Python grammar.

use super::FileError;
use passhost_lang::ir::DType;
use std::io::{self, Read};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Maximum length of a header; tensor headers are shorter.
const LONGEST: u32 = 1 << 16;
/// Maximum number of dimensions in NumPy.
const MOST_DIMS: usize = 64;

/// The content of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Element type in NumPy's notation, such as `<f4`.
    pub(super) descr: String,
    /// True if the first index varies fastest.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<i64>,
}

impl Header {
    /// Reads a header, and leaves the reader at the start of the data.
    pub(super) fn read(name: &str, from: &mut impl Read) -> Result<Header, FileError> {
        let damaged = |why: &str| FileError::damaged(name, why);
        let mut start = [0; 8];
        let ends = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("the file ends inside its header"),
            _ => damaged(&error.to_string()),
        };
        from.read_exact(&mut start).map_err(ends)?;
        if &start[..6] != MAGIC {
            return Err(damaged("the file does not start with the signature of .npy files"));
        }
        let mut length = [0; 4];
        let width = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => {
                return Err(damaged(&format!("the format has version {version}; versions 1 to 3 are supported")));
            }
        };
        from.read_exact(&mut length[..width]).map_err(ends)?;
        let length = u32::from_le_bytes(length);
        if length > LONGEST {
            return Err(damaged("the header is too long"));
        }
        let mut text = vec![0; length as usize];
        from.read_exact(&mut text).map_err(ends)?;
        let text = String::from_utf8(text).map_err(|_| damaged("the header is not UTF-8"))?;
        Parser { rest: text.trim() }.header().ok_or_else(|| damaged("the header does not describe a tensor"))
    }

    /// Returns the bytes of a header, padded with blanks so that the data is aligned to 64 bytes.
    pub(super) fn write(&self) -> Vec<u8> {
        let order = if self.fortran_order { "True" } else { "False" };
        let shape = crate::vm::shape_text(&self.shape);
        let text = format!("{{'descr': '{}', 'fortran_order': {order}, 'shape': {shape}, }}", self.descr);
        // Magic, version and length are 10 bytes; the header ends with a line feed.
        let padded = (10 + text.len() + 1).next_multiple_of(64) - 10;
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((padded as u16).to_le_bytes());
        out.extend(text.bytes());
        out.resize(10 + padded - 1, b' ');
        out.push(b'\n');
        out
    }
}

/// Returns NumPy's `descr` for a data type.
pub(super) fn descr_of(dtype: DType) -> Option<String> {
    let bytes = dtype.bits() / 8;
    let order = if bytes == 1 { '|' } else { '<' };
    match (dtype.code(), dtype.bits(), dtype.lanes()) {
        (0, 8 | 16 | 32 | 64, 1) => Some(format!("{order}i{bytes}")),
        (1, 8 | 16 | 32 | 64, 1) => Some(format!("{order}u{bytes}")),
        (2, 16 | 32 | 64, 1) => Some(format!("{order}f{bytes}")),
        (6, 8, 1) => Some("|b1".to_string()),
        (4, 16, 1) => Some("|V2".to_string()),
        (7.., 8, 1) => Some("|V1".to_string()),
        _ => None,
    }
}

/// The encoding of elements in a file.
pub(super) struct Elements {
    pub(super) dtype: DType,
    pub(super) big_endian: bool,
}

/// Returns the element type for a `descr` of NumPy; `meant` is the data type of raw bytes.
pub(super) fn elements_of(descr: &str, meant: Option<DType>) -> Option<Elements> {
    let mut chars = descr.chars();
    let big_endian = match chars.next()? {
        '<' | '|' | '=' => false,
        '>' => true,
        _ => return None,
    };
    let code = chars.next()?;
    let bytes: u8 = chars.as_str().parse().ok()?;
    let bits = bytes.checked_mul(8)?;
    let dtype = match (code, bytes) {
        ('b', 1) => DType::BOOL,
        ('i', 1 | 2 | 4 | 8) => DType::new(0, bits, 1),
        ('u', 1 | 2 | 4 | 8) => DType::new(1, bits, 1),
        ('f', 2 | 4 | 8) => DType::new(2, bits, 1),
        // `ml_dtypes` writes float8_e5m2 as `f1`.
        ('V', 1 | 2) | ('f', 1) => {
            let raw = |dtype: &DType| dtype.is_float() && dtype.bits() == bits && dtype.lanes() == 1;
            meant.filter(raw).or_else(|| (bytes == 2).then_some(DType::BF16))?
        }
        _ => return None,
    };
    Some(Elements { dtype, big_endian })
}

/// Parses a Python dict with strings, Booleans and a tuple of numbers.
struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn token(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'t str> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (text, rest) = rest[1..].split_once(quote)?;
        self.rest = rest;
        Some(text)
    }

    fn shape(&mut self) -> Option<Vec<i64>> {
        self.token("(")?;
        let (list, rest) = self.rest.split_once(')')?;
        self.rest = rest;
        let numbers = list.split(',').map(str::trim).filter(|number| !number.is_empty());
        // Python 2 wrote `3L`.
        let numbers = numbers.map(|number| number.trim_end_matches('L').parse::<i64>().ok().filter(|n| *n >= 0));
        let shape: Vec<i64> = numbers.collect::<Option<_>>()?;
        (shape.len() <= MOST_DIMS).then_some(shape)
    }

    fn header(mut self) -> Option<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.token("{")?;
        while self.token("}").is_none() {
            let key = self.string()?;
            self.token(":")?;
            match key {
                "descr" => descr = Some(self.string()?.to_string()),
                "fortran_order" => {
                    fortran_order = Some(self.token("True").is_some());
                    if fortran_order == Some(false) {
                        self.token("False")?;
                    }
                }
                "shape" => shape = Some(self.shape()?),
                _ => return None,
            }
            if self.token(",").is_none() && !self.rest.trim_start().starts_with('}') {
                return None;
            }
        }
        Some(Header { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for shape in [vec![], vec![3], vec![1, 0, 224]] {
            let header = Header { descr: "<f4".to_string(), fortran_order: false, shape };
            let bytes = header.write();
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(Header::read("x", &mut &bytes[..]).expect("a header"), header);
        }
    }

    #[test]
    fn headers_that_are_none_are_refused() {
        for text in [
            "",
            "{",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}",
            "{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': (1,)}",
            "{'descr': '<f4' 'fortran_order': True, 'shape': (1,)}",
        ] {
            assert!(Parser { rest: text }.header().is_none(), "{text}");
        }
        let long = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': ({})}}", "1,".repeat(65));
        assert!(Parser { rest: &long }.header().is_none());
    }

    #[test]
    fn raw_bytes_are_what_they_are_meant_to_be() {
        let of = |descr, meant| elements_of(descr, meant).map(|elements| elements.dtype);
        assert_eq!(of("|V2", None), Some(DType::BF16));
        assert_eq!(of("|V1", None), None);
        let e4m3: DType = "float8_e4m3fn".parse().expect("a data type");
        assert_eq!(of("|V1", Some(e4m3)), Some(e4m3));
        assert_eq!((of("<f16", None), of("<U4", None), of("<c8", None)), (None, None, None));
        assert!(elements_of(">i4", None).is_some_and(|elements| elements.big_endian));
    }
}
