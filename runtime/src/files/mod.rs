//! Reads and writes tensors in NumPy's `.npy` and `.npz` files.
//!
//! Arrays of any byte order and both element orders can be read. Data types that NumPy does not have are written as
//! raw bytes, as NumPy writes those of `ml_dtypes`: `bfloat16` as `V2` and 8-bit floats as `V1`. The reader of such
//! an array passes its data type; otherwise `V2` is `bfloat16`.

mod header;
mod npy;
mod npz;

pub use npy::{read_npy, write_npy};
pub use npz::{read_npz, write_npz};

use crate::fault::Fault;
use passhost_lang::ir::DType;
use std::io;

/// The reason why a file was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system reported an error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not an archive, or is damaged.
    #[error("it is not a valid .npz file: {why}")]
    Archive {
        /// The message of the archive's reader.
        why: String,
    },
    /// The file is an `.npy` file.
    #[error("it is an .npy file, which holds one unnamed array")]
    OneArray,
    /// The file is not an array, or is damaged.
    #[error("array `{name}` is damaged: {why}")]
    Damaged {
        /// Name of the array.
        name: String,
        /// Description of the damage.
        why: String,
    },
    /// Tensors do not have this type of elements.
    #[error("array `{name}` has elements of type `{descr}`{}", of_numpy(descr))]
    NoDType {
        /// Name of the array.
        name: String,
        /// The type as NumPy writes it.
        descr: String,
    },
    /// No tensor can have this size, or a limit does not allow it.
    #[error("array `{name}`: {fault}")]
    Fault {
        /// Name of the array.
        name: String,
        /// The fault.
        fault: Fault,
    },
    /// Two arrays have the same name.
    #[error("two of its arrays have the same name")]
    Twice,
}

/// Returns advice for a data type that the file formats do not support.
fn of_numpy(descr: &str) -> &'static str {
    match descr {
        _ if descr.contains("bfloat16") => "; NumPy files have it as raw bytes: save `array.view(\"V2\")`",
        _ if descr.contains("float8") => "; NumPy files have it as raw bytes: save `array.view(\"V1\")`",
        _ => "; tensors cannot have this type",
    }
}

impl FileError {
    fn damaged(name: &str, why: impl Into<String>) -> FileError {
        FileError::Damaged { name: name.to_string(), why: why.into() }
    }
}

/// A function from the name of an array of raw bytes to its intended data type; `None` if that is unknown.
pub type Meant<'m> = dyn Fn(&str) -> Option<DType> + 'm;
