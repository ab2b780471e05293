//! Data types.

use std::fmt;

/// Data type: code, bits, lanes, as in DLPack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DType(pub u32);

impl DType {
    /// Unknown or absent data type.
    pub const VOID: DType = DType::new(3, 0, 0);
    /// `int32`.
    pub const I32: DType = DType::new(0, 32, 1);
    /// `int64`.
    pub const I64: DType = DType::new(0, 64, 1);
    /// `bool`.
    pub const BOOL: DType = DType::new(6, 8, 1);
    /// `int8`.
    pub const I8: DType = DType::new(0, 8, 1);
    /// `int16`.
    pub const I16: DType = DType::new(0, 16, 1);
    /// `uint8`.
    pub const U8: DType = DType::new(1, 8, 1);
    /// `uint16`.
    pub const U16: DType = DType::new(1, 16, 1);
    /// `uint32`.
    pub const U32: DType = DType::new(1, 32, 1);
    /// `uint64`.
    pub const U64: DType = DType::new(1, 64, 1);
    /// `bfloat16`.
    pub const BF16: DType = DType::new(4, 16, 1);
    /// `float16`.
    pub const F16: DType = DType::new(2, 16, 1);
    /// `float32`.
    pub const F32: DType = DType::new(2, 32, 1);
    /// `float64`.
    pub const F64: DType = DType::new(2, 64, 1);
    /// `handle`.
    pub const HANDLE: DType = DType::new(3, 64, 1);

    /// Builds a data type from its parts.
    pub const fn new(code: u8, bits: u8, lanes: u16) -> DType {
        DType(code as u32 | (bits as u32) << 8 | (lanes as u32) << 16)
    }

    /// Returns the type code: 0 int, 1 uint, 2 float, 3 handle, 4 bfloat, 6 bool, 7 and up the 8-bit floats.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// Returns the number of bits of one lane.
    pub const fn bits(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Returns the number of lanes. For scalable vectors it is the negated multiple (in two's complement) of the run-time vector length.
    pub const fn lanes(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns true if the data type is known.
    pub fn is_known(self) -> bool {
        self != DType::VOID
    }

    /// Returns true if the data type has a name that can be read back from a text.
    pub fn has_name(self) -> bool {
        let (bits, lanes) = (self.bits(), self.lanes() as i16);
        let known = match self.code() {
            0 | 1 | 2 | 4 => true,
            3 => bits == 64,
            6 => bits == 8,
            code => NARROW.iter().any(|(_, narrow, width)| (*narrow, *width) == (code, bits)),
        };
        self == DType::VOID || known && lanes != 0 && lanes != i16::MIN
    }

    /// Returns true for a float of any width.
    pub fn is_float(self) -> bool {
        matches!(self.code(), 2 | 4) || self.code() >= 7
    }

    /// Returns true for an integer, signed or unsigned.
    pub fn is_int(self) -> bool {
        self.code() <= 1
    }

    /// Returns the number of bytes of one element.
    pub fn bytes(self) -> usize {
        (usize::from(self.bits()) * usize::from(self.lanes())).div_ceil(8)
    }
}

/// Codes of the narrow floats, in DLPack's order from 7 up.
#[doc(hidden)]
pub const NARROW: &[(&str, u8, u8)] = &[
    ("float8_e3m4", 7, 8),
    ("float8_e4m3", 8, 8),
    ("float8_e4m3b11fnuz", 9, 8),
    ("float8_e4m3fn", 10, 8),
    ("float8_e4m3fnuz", 11, 8),
    ("float8_e5m2", 12, 8),
    ("float8_e5m2fnuz", 13, 8),
    ("float8_e8m0fnu", 14, 8),
    ("float6_e2m3fn", 15, 6),
    ("float6_e3m2fn", 16, 6),
    ("float4_e2m1fn", 17, 4),
];

impl std::str::FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<DType, UnknownDType> {
        let unknown = || UnknownDType(text.to_string());
        let (text, scalable) = match text.rsplit_once("xvscalex") {
            Some((base, lanes)) => (base, Some(lanes.parse::<i16>().ok().filter(|n| *n > 0).ok_or_else(unknown)?)),
            None => (text, None),
        };
        let (base, lanes) = match text.rsplit_once('x') {
            Some((base, n)) if !base.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty() => {
                (base, n.parse().ok().filter(|lanes| *lanes > 0).ok_or_else(unknown)?)
            }
            _ => (text, 1),
        };
        let lanes = scalable.map_or(lanes, |n| -n as u16);
        if let Some((_, code, bits)) = NARROW.iter().find(|(name, ..)| *name == base) {
            return Ok(DType::new(*code, *bits, lanes));
        }
        match base {
            "bool" => return Ok(DType::new(6, 8, lanes)),
            "handle" => return Ok(DType::new(3, 64, lanes)),
            "void" | "" => return Ok(DType::VOID),
            _ => {}
        }
        let (code, digits) = [("uint", 1u8), ("int", 0), ("bfloat", 4), ("float", 2)]
            .iter()
            .find_map(|(prefix, code)| base.strip_prefix(prefix).map(|digits| (*code, digits)))
            .ok_or_else(unknown)?;
        let bits: u8 = if digits.is_empty() { 32 } else { digits.parse().map_err(|_| unknown())? };
        Ok(DType::new(code, bits, lanes))
    }
}

/// The error of an unknown data type name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown data type `{0}`; data types are written like \"float32\", \"int64\", \"bool\"")]
pub struct UnknownDType(pub String);

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == DType::VOID {
            return f.write_str("void");
        }
        match self.code() {
            0 => write!(f, "int{}", self.bits())?,
            1 => write!(f, "uint{}", self.bits())?,
            2 => write!(f, "float{}", self.bits())?,
            3 => f.write_str("handle")?,
            4 => write!(f, "bfloat{}", self.bits())?,
            6 => f.write_str("bool")?,
            code => match NARROW.iter().find(|(_, c, _)| *c == code) {
                Some((name, ..)) => f.write_str(name)?,
                None => write!(f, "custom{code}_{}", self.bits())?,
            },
        }
        match self.lanes() as i16 {
            n @ i16::MIN..=-1 => write!(f, "xvscalex{}", n.unsigned_abs())?,
            0 | 1 => {}
            n => write!(f, "x{n}")?,
        }
        Ok(())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
