//! Tensors in files: NumPy's `.npy` and `.npz`.
//!
//! Read are arrays of any byte order and both element orders. Data types that NumPy does not have are written as it writes
//! those of `ml_dtypes`: as raw bytes, `bfloat16` as `V2` and 8-bit floats as `V1`. Who reads such an array says of which
//! data type it is; without that, `V2` is `bfloat16`.

mod header;
mod npy;
mod npz;

pub use npy::{read_npy, write_npy};
pub use npz::{read_npz, write_npz};

use crate::fault::Fault;
use passhost_lang::ir::DType;
use std::io;

/// Why a file is not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refuses.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not an archive, or a damaged one.
    #[error("it is not an .npz file, or a damaged one: {why}")]
    Archive {
        /// What the archive's reader says.
        why: String,
    },
    /// It is an `.npy` file.
    #[error("it is an .npy file: one array, without a name")]
    OneArray,
    /// It is not an array, or a damaged one.
    #[error("array `{name}` is damaged: {why}")]
    Damaged {
        /// Name of the array.
        name: String,
        /// What was found.
        why: String,
    },
    /// The elements are of a type that no tensor has.
    #[error("array `{name}` has elements of type `{descr}`, which no tensor has")]
    NoDType {
        /// Name of the array.
        name: String,
        /// The type as NumPy writes it.
        descr: String,
    },
    /// No tensor can have its size, or a limit does not allow it.
    #[error("array `{name}`: {fault}")]
    Fault {
        /// Name of the array.
        name: String,
        /// Why.
        fault: Fault,
    },
    /// Two arrays have one name.
    #[error("two of its arrays have the same name")]
    Twice,
}

impl FileError {
    fn damaged(name: &str, why: impl Into<String>) -> FileError {
        FileError::Damaged { name: name.to_string(), why: why.into() }
    }
}

/// The data type that an array of raw bytes is meant to have, by its name; `None` if nothing is known of it.
pub type Meant<'m> = dyn Fn(&str) -> Option<DType> + 'm;
