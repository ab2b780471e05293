//! Files as memory: only the bytes that are read take memory.
#![allow(unsafe_code, reason = "a map shows what others write to the file, which no safe interface can promise")]

use std::fs::File;
use std::io;
use std::ops::Deref;

/// The bytes of a file, or of something else.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Those of a file that stays where it is.
    Mapped(memmap2::Mmap),
    /// Copied.
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// Maps a file. If another program truncates it meanwhile, a read beyond its new end raises a signal, which is
/// reported as the end of the plugin that reads.
///
/// # Errors
/// If it cannot be mapped.
pub(crate) fn map(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::Owned(Vec::new()));
    }
    // SAFETY: the map is only read. A file that others write to meanwhile is one that they should leave alone, as every program
    // that maps files has it: the bytes are plain bytes, and nothing that is checked of them is relied on later for safety.
    unsafe { memmap2::Mmap::map(file) }.map(Bytes::Mapped)
}
