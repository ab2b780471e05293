//! Tensors of a model: their data types, and their data, which is in one of several fields or in files beside the
//! model.

use crate::known::{Elem, Known, MOST, count};
use crate::narrow;
use crate::proto;
use crate::value::{Res, T, TEXT};
use plugin_api::prelude::*;
use prost::bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// ONNX's number for the string type.
const STRING: i32 = 8;

/// Returns true if a tensor contains strings.
pub(crate) fn is_text(tensor: &proto::Tensor) -> bool {
    tensor.data_type == STRING
}

/// Returns the data type whose ONNX number is `code`.
pub(crate) fn dtype_of(code: i32) -> Res<DType> {
    Ok(match code {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::BOOL,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::BF16,
        17 => DType::new(10, 8, 1),
        18 => DType::new(11, 8, 1),
        19 => DType::new(12, 8, 1),
        20 => DType::new(13, 8, 1),
        21 => DType::new(1, 4, 1),
        22 => DType::new(0, 4, 1),
        23 => DType::new(17, 4, 1),
        24 => DType::new(14, 8, 1),
        25 => DType::new(1, 2, 1),
        26 => DType::new(0, 2, 1),
        STRING => return Err(TEXT.to_string()),
        14 | 15 => {
            return Err("complex tensors are not supported; use real tensors with an axis of length 2".to_string());
        }
        0 => return Err("the data type of a tensor is missing".to_string()),
        other => return Err(format!("data type {other} is unknown in ONNX up to 1.23")),
    })
}

/// The files of a model: its own file, and files in its folder that contain the data of tensors.
pub(crate) struct Files<'s> {
    source: &'s Source<'s>,
    /// The open files, by name.
    open: RefCell<BTreeMap<String, Bytes>>,
}

impl<'s> Files<'s> {
    pub(crate) fn of(source: &'s Source<'s>) -> Files<'s> {
        Files { source, open: RefCell::default() }
    }

    /// Returns the bytes of a file beside the model.
    fn beside(&self, name: &str) -> Result<Bytes, PassError> {
        if let Some(known) = self.open.borrow().get(name) {
            return Ok(known.clone());
        }
        let bytes = Bytes::from_owner(self.source.beside(name)?);
        self.open.borrow_mut().insert(name.to_string(), bytes.clone());
        Ok(bytes)
    }
}

/// Data of a tensor that is not a constant yet.
struct Data {
    /// Data type in the model.
    dtype: DType,
    /// The elements if they are few numbers, from which shapes may be computed.
    known: Option<Known>,
    bytes: Bytes,
}

impl Data {
    fn of(tensor: &proto::Tensor, files: &Files<'_>) -> Res<Data> {
        let dtype = dtype_of(tensor.data_type)?;
        let n = count(&tensor.dims).ok_or_else(|| format!("invalid tensor shape {:?}", tensor.dims))?;
        let bytes = bytes_of(tensor, dtype, n, files)?;
        // Integers of less than 8 bits are in the lowest bits of bytes.
        if narrow::storage(dtype).is_some() {
            return Ok(Data { dtype, known: None, bytes: extended(bytes, dtype) });
        }
        let few = if n <= MOST { elements(&bytes, dtype) } else { None };
        let known = few.and_then(|elems| Known::new(dtype, tensor.dims.clone(), elems));
        Ok(Data { dtype, known, bytes })
    }

    /// Returns the constant with this content.
    fn constant(self, dims: &[i64], content: Tensor) -> T {
        match narrow::storage(self.dtype) {
            Some(storage) => T::data(dims, storage, content, None).with_narrow(self.dtype),
            None => T::data(dims, self.dtype, content, self.known),
        }
    }
}

/// Returns a tensor of the model as a constant. Its data may be in a file in the folder of the model. Data that already
/// has the form of a constant stays in its file.
pub(crate) fn read(tensor: &proto::Tensor, files: &Files<'_>) -> Res<T> {
    let data = Data::of(tensor, files)?;
    let content = Tensor::new(&data.bytes);
    Ok(data.constant(&tensor.dims, content))
}

/// Reads initializers like [`read`], and hashes their data on several threads. An error names the initializer.
pub(crate) fn read_all<'a>(
    initializers: impl Iterator<Item = &'a proto::Tensor>,
    files: &Files<'_>,
) -> Res<Vec<(&'a proto::Tensor, T)>> {
    let data = initializers.map(|tensor| match Data::of(tensor, files) {
        Ok(data) => Ok((tensor, data)),
        Err(why) => Err(format!("initializer `{}`: {why}", tensor.name)),
    });
    let data = data.collect::<Res<Vec<(&proto::Tensor, Data)>>>()?;
    let contents = Tensor::of_parts(&data.iter().map(|(_, data)| &data.bytes).collect::<Vec<_>>());
    let constant =
        |((tensor, data), content): ((&'a proto::Tensor, Data), Tensor)| (tensor, data.constant(&tensor.dims, content));
    Ok(data.into_iter().zip(contents).map(constant).collect())
}

/// Sign-extends integers of less than 8 bits to int8.
fn extended(bytes: Bytes, dtype: DType) -> Bytes {
    match (dtype.code(), dtype.bits()) {
        (0, bits @ 1..8) => bytes.iter().map(|byte| ((byte << (8 - bits)) as i8 >> (8 - bits)) as u8).collect(),
        _ => bytes,
    }
}

/// Returns the bytes of elements of this size.
fn bytes_of(tensor: &proto::Tensor, dtype: DType, n: usize, files: &Files<'_>) -> Res<Bytes> {
    let packed = (n.checked_mul(dtype.bits().into())).map(|bits| bits.div_ceil(8));
    let wanted = packed.ok_or_else(|| format!("a tensor of {n} elements does not fit in memory"))?;
    let is_packed = dtype.bits() < 8;
    let raw = match (&tensor.raw_data, tensor.data_location.unwrap_or_default()) {
        (_, 1) => Some(external(tensor, wanted, files)?),
        (Some(raw), _) => Some(raw.clone()),
        (None, _) => is_packed.then(|| tensor.int32_data.iter().map(|v| *v as u8).collect()),
    };
    match raw {
        Some(raw) if raw.len() != wanted => Err(format!(
            "a tensor of shape {:?} and data type {dtype} has {wanted} bytes, found {}",
            tensor.dims,
            raw.len()
        )),
        Some(raw) if is_packed => Ok(unpacked(&raw, dtype.bits(), n).into()),
        Some(raw) => Ok(raw),
        None => fields(tensor, dtype, n).map(Into::into),
    }
}

/// Unpacks elements of less than 8 bits, one into each byte. The first element is in the lowest bits.
fn unpacked(raw: &[u8], bits: u8, n: usize) -> Vec<u8> {
    let each = usize::from(8 / bits);
    let mask = (1u8 << bits) - 1;
    (0..n).map(|at| raw[at / each] >> (usize::from(bits) * (at % each)) & mask).collect()
}

/// Reads data from the field for a data type of at least 8 bits.
fn fields(tensor: &proto::Tensor, dtype: DType, n: usize) -> Res<Vec<u8>> {
    let found;
    let bytes: Vec<u8> = match (dtype.code(), dtype.bits()) {
        (2, 32) => {
            found = tensor.float_data.len();
            tensor.float_data.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        (2, 64) => {
            found = tensor.double_data.len();
            tensor.double_data.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        (0, 64) => {
            found = tensor.int64_data.len();
            tensor.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        (1, 64 | 32) => {
            found = tensor.uint64_data.len();
            tensor.uint64_data.iter().flat_map(|v| v.to_le_bytes()[..dtype.bytes()].to_vec()).collect()
        }
        _ => {
            found = tensor.int32_data.len();
            tensor.int32_data.iter().flat_map(|v| v.to_le_bytes()[..dtype.bytes()].to_vec()).collect()
        }
    };
    match found == n {
        true => Ok(bytes),
        false => Err(format!("a tensor of shape {:?} has {n} elements of {dtype}, found {found}", tensor.dims)),
    }
}

/// Returns the elements stored in `bytes`; `None` unless the data type is numeric or boolean.
fn elements(bytes: &[u8], dtype: DType) -> Option<Vec<Elem>> {
    let size = dtype.bytes();
    let of = |raw: &[u8]| -> Option<Elem> {
        let mut wide = [0u8; 8];
        wide[..size].copy_from_slice(raw);
        let bits = u64::from_le_bytes(wide);
        Some(match (dtype.code(), dtype.bits()) {
            (6, _) => Elem::int(i64::from(bits != 0)),
            (1, _) => Elem::int(i64::try_from(bits).ok()?),
            (0, n) => Elem::int((bits << (64 - n) as u32) as i64 >> (64 - n) as u32),
            (2, 32) => Elem::Float(f64::from(f32::from_bits(bits as u32))),
            (2, 64) => Elem::Float(f64::from_bits(bits)),
            _ => return None,
        })
    };
    if matches!(dtype, DType::F16 | DType::BF16) {
        return None;
    }
    bytes.chunks_exact(size).map(of).collect()
}

/// Returns the data of a tensor from a file beside the model.
fn external(tensor: &proto::Tensor, wanted: usize, files: &Files<'_>) -> Res<Bytes> {
    let entry =
        |key: &str| tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    let name = entry("location").ok_or("a tensor stores its data in an external file, but does not name the file")?;
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text
            .parse::<u64>()
            .map(Some)
            .map_err(|_| format!("`{key}` of the external data `{name}` is `{text}`, which is not a number")),
    };
    let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
    if length.is_some_and(|length| length != wanted as u64) {
        return Err(format!(
            "a tensor of {wanted} bytes has external data of {} bytes in `{name}`",
            length.unwrap_or_default()
        ));
    }
    let place = || format!("its data has {wanted} bytes at offset {offset}");
    let bytes = files.beside(name).map_err(|error| format!("{} in the external data {}", place(), error.message))?;
    let end = offset.checked_add(wanted as u64).filter(|end| *end <= bytes.len() as u64);
    match end {
        Some(end) => Ok(bytes.slice(offset as usize..end as usize)),
        None => Err(format!("{}, but the external data `{name}` has {} bytes", place(), bytes.len())),
    }
}
