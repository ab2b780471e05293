//! Maps files into memory, so that only the bytes that are read take memory.
#![allow(unsafe_code, reason = "a map shows what others write to the file, which no safe interface can promise")]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a file or a stream.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// The mapped bytes of a file.
    Mapped(memmap2::Mmap),
    /// Bytes in memory.
    Shared(Arc<[u8]>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

/// Maps a file. If another program truncates it meanwhile, a read beyond the new end raises a signal, which is reported as the
/// end of the plugin that reads.
///
/// # Errors
/// If it cannot be mapped.
pub(crate) fn map(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::Shared(Arc::default()));
    }
    // SAFETY: the map is only read. As with every mapped file, other programs should not write to it meanwhile. If one does,
    // the bytes change, but they are plain bytes, and no safety depends on an earlier check of them.
    unsafe { memmap2::Mmap::map(file) }.map(Bytes::Mapped)
}
