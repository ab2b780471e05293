//! Reads and writes tensors in NumPy's `.npy` and `.npz` files.
//!
//! Arrays of any byte order and both element orders can be read. Data types unknown to NumPy are written as raw
//! bytes, like the types of `ml_dtypes`: `bfloat16` as `V2` and 8-bit floats as `V1`. Callers pass the data type of
//! such arrays; `V2` defaults to `bfloat16`.

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
    /// The file is damaged or not an archive.
    #[error("it is not a valid .npz file: {why}")]
    Archive {
        /// The message of the archive library.
        why: String,
    },
    /// The file is an `.npy` file, not an archive.
    #[error("it is an .npy file, which holds one unnamed array")]
    OneArray,
    /// The file is damaged or not an array.
    #[error("array `{name}` is damaged: {why}")]
    Damaged {
        /// Name of the array.
        name: String,
        /// Description of the damage.
        why: String,
    },
    /// Tensors do not support this element type.
    #[error("array `{name}` has elements of type `{descr}`{}", of_numpy(descr))]
    NoDType {
        /// Name of the array.
        name: String,
        /// The type in NumPy's notation.
        descr: String,
    },
    /// The size is impossible, or a limit does not allow it.
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
        _ if descr.contains("bfloat16") => "; NumPy files store it as raw bytes: save `array.view(\"V2\")`",
        _ if descr.contains("float8") => "; NumPy files store it as raw bytes: save `array.view(\"V1\")`",
        _ => "; tensors cannot have this type",
    }
}

impl FileError {
    fn damaged(name: &str, why: impl Into<String>) -> FileError {
        FileError::Damaged { name: name.to_string(), why: why.into() }
    }
}

/// A function that returns the intended data type of an array of raw bytes, given its name; `None` if unknown.
pub type Meant<'m> = dyn Fn(&str) -> Option<DType> + 'm;
