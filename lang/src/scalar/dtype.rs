//! Data types, and the table of their properties.

use super::computed::Scalar;
use super::format::Format;
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

    /// Returns the number of lanes. For scalable vectors it is the negated multiple of the run-time vector length, in two's complement.
    pub const fn lanes(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns true if the data type is known.
    pub fn is_known(self) -> bool {
        self != DType::VOID
    }

    /// Returns true if the data type has a name that can be parsed.
    pub fn has_name(self) -> bool {
        let (bits, lanes) = (self.bits(), self.lanes() as i16);
        let known = match self.code() {
            0 | 1 | 2 | 4 => true,
            3 => bits == 64,
            _ => self.info().is_some(),
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

/// The properties of a data type of one lane.
#[derive(Clone, Copy, Debug)]
pub struct DTypeInfo {
    /// The data type.
    pub dtype: DType,
    /// Name of the data type in TVMScript.
    pub name: &'static str,
    /// TVM's short name, as in `T.f32`; empty if there is none.
    pub short: &'static str,
    /// Number of the data type in ONNX; 0 if ONNX lacks it.
    pub onnx: i32,
    /// The type used in computations; `None` if programs cannot compute with the data type.
    pub scalar: Option<Scalar>,
    /// The format of a float.
    pub format: Option<Format>,
    /// TVM's greatest number of a float type. TVM uses the limit of `float32` for `bfloat16`, where it rounds to infinity.
    pub limit: Option<f64>,
}

/// The data types with a fixed width and name. Integers and floats of other widths have names but no other properties.
static TABLE: &[DTypeInfo] = &[
    of_integers(DType::BOOL, "bool", "boolean", 9, Scalar::Bool),
    of_integers(DType::I8, "int8", "i8", 3, Scalar::Int(8)),
    of_integers(DType::I16, "int16", "i16", 5, Scalar::Int(16)),
    of_integers(DType::I32, "int32", "i32", 6, Scalar::Int(32)),
    of_integers(DType::I64, "int64", "i64", 7, Scalar::Int(64)),
    of_integers(DType::U8, "uint8", "u8", 2, Scalar::UInt(8)),
    of_integers(DType::U16, "uint16", "u16", 4, Scalar::UInt(16)),
    of_integers(DType::U32, "uint32", "u32", 12, Scalar::UInt(32)),
    of_integers(DType::U64, "uint64", "u64", 13, Scalar::UInt(64)),
    of_floats(DType::F16, "float16", "f16", 10, Scalar::F16, format(10, 15, 65504.0, 0x7c00, 0x7e00)),
    of_floats(DType::F32, "float32", "f32", 1, Scalar::F32, format(23, 127, F32_MAX, 0x7f80_0000, 0x7fc0_0000)),
    of_floats(DType::F64, "float64", "f64", 11, Scalar::F64, format(52, 1023, f64::MAX, 0x7ff0 << 48, 0x7ff8 << 48)),
    DTypeInfo {
        limit: Some(F32_MAX),
        ..of_floats(DType::BF16, "bfloat16", "bf16", 16, Scalar::Bf16, format(7, 127, BF16_MAX, 0x7f80, 0x7fc0))
    },
    narrow("float8_e3m4", 7, 8, 0, Some(format(4, 3, 15.5, 0x70, 0x78)), None),
    narrow("float8_e4m3", 8, 8, 0, Some(format(3, 7, 240.0, 0x78, 0x7c)), None),
    narrow("float8_e4m3b11fnuz", 9, 8, 0, None, None),
    // This format cannot represent infinity.
    narrow("float8_e4m3fn", 10, 8, 17, Some(format(3, 7, 448.0, 0x7f, 0x7f)), Some(448.0)),
    narrow("float8_e4m3fnuz", 11, 8, 18, None, None),
    narrow("float8_e5m2", 12, 8, 19, Some(format(2, 15, 57344.0, 0x7c, 0x7e)), Some(57344.0)),
    narrow("float8_e5m2fnuz", 13, 8, 20, None, None),
    narrow("float8_e8m0fnu", 14, 8, 24, None, None),
    narrow("float6_e2m3fn", 15, 6, 0, None, None),
    narrow("float6_e3m2fn", 16, 6, 0, None, None),
    narrow("float4_e2m1fn", 17, 4, 23, None, None),
];

const F32_MAX: f64 = f32::MAX as f64;
const BF16_MAX: f64 = f32::from_bits(0x7f7f_0000) as f64;

const fn format(fraction: u32, bias: i32, greatest: f64, infinity: u64, nan: u64) -> Format {
    Format { fraction, bias, greatest, infinity, nan }
}

const fn of_integers(dtype: DType, name: &'static str, short: &'static str, onnx: i32, scalar: Scalar) -> DTypeInfo {
    DTypeInfo { dtype, name, short, onnx, scalar: Some(scalar), format: None, limit: None }
}

const fn of_floats(
    dtype: DType,
    name: &'static str,
    short: &'static str,
    onnx: i32,
    scalar: Scalar,
    format: Format,
) -> DTypeInfo {
    DTypeInfo { format: Some(format), limit: Some(format.greatest), ..of_integers(dtype, name, short, onnx, scalar) }
}

/// A narrow float, with DLPack's code, its number in ONNX, its format and its limit.
const fn narrow(
    name: &'static str,
    code: u8,
    bits: u8,
    onnx: i32,
    format: Option<Format>,
    limit: Option<f64>,
) -> DTypeInfo {
    DTypeInfo { dtype: DType::new(code, bits, 1), name, short: "", onnx, scalar: None, format, limit }
}

impl DType {
    /// Returns the properties of the type of one lane; `None` for widths that are not in the table.
    pub fn info(self) -> Option<&'static DTypeInfo> {
        TABLE.iter().find(|row| (row.dtype.code(), row.dtype.bits()) == (self.code(), self.bits()))
    }

    /// Returns the properties of all data types of one lane.
    pub fn all() -> &'static [DTypeInfo] {
        TABLE
    }
}

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
        if let Some(row) = TABLE.iter().find(|row| row.name == base) {
            return Ok(DType::new(row.dtype.code(), row.dtype.bits(), lanes));
        }
        match base {
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
            // Narrow floats of any width are named after their code.
            code => match TABLE.iter().find(|row| row.dtype.code() == code) {
                Some(row) => f.write_str(row.name)?,
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
