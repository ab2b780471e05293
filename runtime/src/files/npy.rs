//! Reads and writes single arrays: `.npy`.

use super::header::{Elements, Header, descr_of, elements_of};
use super::{FileError, Meant};
use crate::limits::Limits;
use crate::tensor::Tensor;
use std::io::{self, Read, Write};

/// Reads an array. The size in memory is counted before the data is read.
///
/// ```
/// use plugin_api::prelude::DType;
/// use runtime::files::{read_npy, write_npy};
/// use runtime::{Limits, Tensor};
///
/// let x = Tensor::from_vec(&[2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut file = Vec::new();
/// write_npy(&x, "x", &mut file)?;
/// assert_eq!(read_npy("x", &mut &file[..], &|_| None, &Limits::unlimited())?, x);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the file is damaged or not a tensor, or if it needs more memory than the limits allow.
pub fn read_npy(name: &str, from: &mut impl Read, meant: &Meant<'_>, limits: &Limits) -> Result<Tensor, FileError> {
    let header = Header::read(name, from)?;
    let no_dtype = || FileError::NoDType { name: name.to_string(), descr: header.descr.clone() };
    let Elements { dtype, big_endian } = elements_of(&header.descr, meant(name)).ok_or_else(no_dtype)?;
    let fault = |fault| FileError::Fault { name: name.to_string(), fault };
    let mut tensor = Tensor::zeros(dtype, &header.shape, limits).map_err(fault)?;
    let ended = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FileError::damaged(name, "the file ends before its last element"),
        _ => FileError::damaged(name, error.to_string()),
    };
    from.read_exact(tensor.bytes_mut()).map_err(ended)?;
    if from.read(&mut [0]).map_err(ended)? > 0 {
        return Err(FileError::damaged(name, "the file continues after its last element"));
    }
    let width = dtype.bytes();
    if big_endian && width > 1 {
        tensor.bytes_mut().chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    if dtype == passhost_lang::ir::DType::BOOL {
        tensor.bytes_mut().iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    // If the array is empty, the extents may have any value.
    if header.fortran_order && header.shape.len() > 1 && !tensor.is_empty() {
        return row_major(&tensor, limits).map_err(fault);
    }
    Ok(tensor)
}

/// Reorders an array from column-major to row-major order.
fn row_major(tensor: &Tensor, limits: &Limits) -> Result<Tensor, crate::fault::Fault> {
    let (shape, width) = (tensor.shape(), tensor.dtype().bytes());
    let mut out = Tensor::zeros(tensor.dtype(), shape, limits)?;
    let mut strides = vec![0; shape.len()];
    let mut stride = width;
    for (slot, extent) in strides.iter_mut().zip(shape) {
        *slot = stride;
        stride *= *extent as usize;
    }
    let mut index = vec![0i64; shape.len()];
    let mut from = 0;
    for element in out.bytes_mut().chunks_exact_mut(width) {
        element.copy_from_slice(&tensor.bytes()[from..from + width]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            from += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis] as usize;
            index[axis] = 0;
        }
    }
    Ok(out)
}

/// Writes an array; `name` is used in errors.
///
/// # Errors
/// Fails if NumPy does not support the data type, or the system reports an error.
pub fn write_npy(tensor: &Tensor, name: &str, to: &mut impl Write) -> Result<(), FileError> {
    let dtype = tensor.dtype();
    let no_form = || FileError::NoDType { name: name.to_string(), descr: dtype.to_string() };
    let descr = descr_of(dtype).ok_or_else(no_form)?;
    let header = Header { descr, fortran_order: false, shape: tensor.shape().to_vec() };
    to.write_all(&header.write())?;
    to.write_all(tensor.bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, FaultKind};
    use passhost_lang::ir::DType;

    fn file(descr: &str, fortran_order: bool, shape: &[i64], data: &[u8]) -> Vec<u8> {
        let header = Header { descr: descr.to_string(), fortran_order, shape: shape.to_vec() };
        [header.write(), data.to_vec()].concat()
    }

    fn read(file: &[u8]) -> Result<Tensor, FileError> {
        read_npy("x", &mut &file[..], &|_| None, &Limits::new(1 << 20, 1 << 30))
    }

    #[test]
    fn every_order_of_bytes_and_elements_is_read() {
        let tensor = read(&file(">i2", true, &[2, 3], &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6])).expect("an array");
        assert_eq!(tensor.values::<i16>().expect("of int16"), [1, 2, 3, 4, 5, 6]);
        let bools = read(&file("|b1", false, &[3], &[0, 1, 7])).expect("an array");
        assert_eq!(bools.bytes(), [0, 1, 1]);
        let empty = read(&file("<f8", true, &[2, 0, 3], &[])).expect("an array");
        assert_eq!(empty.shape(), [2, 0, 3]);
        let empty = read(&file("<f8", true, &[i64::MAX, i64::MAX, 0], &[])).expect("an array");
        assert_eq!(empty.shape(), [i64::MAX, i64::MAX, 0]);
        let scalar = read(&file("<f4", false, &[], &1.5f32.to_le_bytes())).expect("an array");
        assert_eq!(scalar.values::<f32>().expect("of float32"), [1.5]);
    }

    #[test]
    fn every_data_type_with_a_form_comes_back() {
        for dtype in ["int8", "uint16", "int64", "float16", "bfloat16", "float64", "bool", "float8_e5m2"] {
            let dtype: DType = dtype.parse().expect("a data type");
            let data: Vec<u8> = (0..2 * dtype.bytes()).map(|byte| byte as u8 & 1).collect();
            let tensor = Tensor::new(dtype, &[2], &data).expect("a tensor");
            let mut file = Vec::new();
            write_npy(&tensor, "x", &mut file).expect("written");
            let again = read_npy("x", &mut &file[..], &|_| Some(dtype), &Limits::unlimited()).expect("read");
            assert_eq!(again, tensor);
        }
    }

    #[test]
    fn damaged_arrays_are_refused() {
        let whole = file("<f4", false, &[2], &[0; 8]);
        for cut in [0, 5, 9, 30, whole.len() - 1] {
            let error = read(&whole[..cut]).expect_err("is cut").to_string();
            assert!(error.starts_with("array `x` is damaged: the file ends"), "{error}");
        }
        let long = [whole, vec![0]].concat();
        assert_eq!(
            read(&long).expect_err("is long").to_string(),
            "array `x` is damaged: the file continues after its last element"
        );
        assert!(matches!(read(&file("<U4", false, &[2], &[0; 32])), Err(FileError::NoDType { .. })));
    }

    /// A header of 128 bytes can request more memory than available.
    #[test]
    fn what_is_too_large_is_refused_before_it_is_read() {
        let error = read(&file("<f4", false, &[25_000_000_000], &[])).expect_err("is too large");
        assert!(
            matches!(error, FileError::Fault { fault: Fault { kind: FaultKind::OutOfMemory { .. }, .. }, .. }),
            "{error}"
        );
        assert!(read(&file("<f4", false, &[i64::MAX, i64::MAX], &[])).is_err());
    }
}
