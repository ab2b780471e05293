//! Maps files into memory, so that only the bytes that are read take memory.
#![allow(
    unsafe_code,
    reason = "other programs can write to a mapped file, so no safe interface can guarantee its content"
)]

use super::{Identity, identity_of};
use crate::process::maps;
use passhost_lang::ir::Tensor;
use passhost_lang::ir::storage::region::{Region, Shared};
use plugin_api::abi::host::place_beside;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The bytes of a file or a stream. Tensors can share the memory of parts of them.
#[derive(Clone)]
pub(crate) struct Bytes(Arc<Shared>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Bytes {
    /// Returns a handle to all bytes, for a reader.
    pub(crate) fn handle(&self) -> Tensor {
        Tensor::whole(Arc::clone(&self.0))
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Bytes {
        Bytes(Shared::new(Box::new(Held(bytes))))
    }
}

/// Bytes in memory.
struct Held(Arc<[u8]>);

// SAFETY: the bytes of an `Arc` do not move.
unsafe impl Region for Held {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A mapped file.
pub(crate) struct MappedFile {
    map: memmap2::Mmap,
    identity: Option<Identity>,
    /// The name with which a reader opened the file.
    name: Option<String>,
    /// The file, if it has holes.
    sparse: Option<File>,
    /// Registers the file, so that the message names it if its bytes disappear.
    _listed: maps::Listed,
}

/// Number of bytes of mapped files that may stay in memory after their hash was computed. The system can drop these
/// pages at any time, but they count as memory of the process.
const KEPT: usize = 256 << 20;
/// Number of bytes that were read to compute hashes.
static READ: AtomicUsize = AtomicUsize::new(0);
/// Number of bytes that are hashed at a time.
const CHUNK: usize = 8 << 20;

// SAFETY: a map has one address until it is dropped.
unsafe impl Region for MappedFile {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn hash(&self, part: Range<usize>) -> u128 {
        match &self.sparse {
            Some(file) if part.len() >= CHUNK => self.hash_around_holes(file, part),
            _ if part.len() <= CHUNK => {
                let hash = xxh3_128(&self.map[part.clone()]);
                self.leave(part);
                hash
            }
            _ => {
                let mut hash = Xxh3::new();
                self.feed(&mut hash, part);
                hash.digest128()
            }
        }
    }
}

impl MappedFile {
    /// Returns the identity of the mapped file; another file may have replaced it under its path since.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Adds a part of the bytes to a hash, and releases its pages.
    fn feed(&self, hash: &mut Xxh3, part: Range<usize>) {
        for start in part.clone().step_by(CHUNK) {
            let chunk = start..part.end.min(start + CHUNK);
            hash.update(&self.map[chunk.clone()]);
            self.leave(chunk);
        }
    }

    /// Records that a part was read. Once enough has been read, tells the system that the pages are not needed for now.
    fn leave(&self, part: Range<usize>) {
        if READ.fetch_add(part.len(), Ordering::Relaxed) < KEPT {
            return;
        }
        #[cfg(target_os = "linux")]
        // SAFETY: the map is a read-only map of a file, so pages that are needed again are read from the file.
        let _ = unsafe { self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, part.start, part.len()) };
    }

    /// Hashes a part without reading the zeros of holes.
    fn hash_around_holes(&self, file: &File, part: Range<usize>) -> u128 {
        let parts: Vec<(bool, Range<usize>)> = extents(file, part.clone()).collect();
        if let [(false, hole)] = parts.as_slice() {
            return hash_of_zeros(hole.len());
        }
        let mut hash = Xxh3::new();
        for (is_data, extent) in parts {
            match is_data {
                true => self.feed(&mut hash, extent),
                false => feed_zeros(&mut hash, extent.len()),
            }
        }
        hash.digest128()
    }
}

fn feed_zeros(hash: &mut Xxh3, mut n: usize) {
    static ZEROS: [u8; 1 << 14] = [0; 1 << 14];
    while n > 0 {
        let some = n.min(ZEROS.len());
        hash.update(&ZEROS[..some]);
        n -= some;
    }
}

/// Returns the hash of `n` zeros, which is computed once.
fn hash_of_zeros(n: usize) -> u128 {
    static KNOWN: Mutex<Option<HashMap<usize, u128>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.get_or_insert_default().entry(n).or_insert_with(|| {
        let mut hash = Xxh3::new();
        feed_zeros(&mut hash, n);
        hash.digest128()
    })
}

/// Splits a part of a file into data (true) and holes.
#[cfg(target_os = "linux")]
pub(crate) fn extents(file: &File, part: Range<usize>) -> impl Iterator<Item = (bool, Range<usize>)> {
    use rustix::fs::{SeekFrom, seek};
    let mut at = part.start;
    std::iter::from_fn(move || {
        if at >= part.end {
            return None;
        }
        let start = at;
        // If the system does not answer, everything counts as data.
        let data = match seek(file, SeekFrom::Data(at as u64)) {
            Ok(data) => data as usize,
            Err(rustix::io::Errno::NXIO) => part.end,
            Err(_) => at,
        };
        if data > start {
            at = data.min(part.end);
            return Some((false, start..at));
        }
        let hole = seek(file, SeekFrom::Hole(at as u64)).map_or(part.end, |hole| hole as usize);
        at = if hole > start { hole.min(part.end) } else { part.end };
        Some((true, start..at))
    })
}

/// Returns the part as a single extent, because holes are detected only on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn extents(_: &File, part: Range<usize>) -> impl Iterator<Item = (bool, Range<usize>)> {
    std::iter::once((true, part))
}

/// Appends the bytes of a tensor to a file, with holes where the mapped file of the tensor has holes.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn copy_part(tensor: &Tensor, to: &mut File) -> io::Result<()> {
    let bytes = tensor.bytes();
    let from = tensor.region().and_then(|(region, at)| Some((region.region::<MappedFile>()?, at)));
    let Some((from, at)) = from else { return to.write_all(bytes) };
    let part = at..at + bytes.len();
    let parts: Vec<(bool, Range<usize>)> = match &from.sparse {
        Some(file) => extents(file, part).collect(),
        None => vec![(true, part)],
    };
    for (is_data, extent) in parts {
        if !is_data {
            let end = to.seek(SeekFrom::Current(extent.len() as i64))?;
            to.set_len(end)?;
            continue;
        }
        for start in extent.clone().step_by(CHUNK) {
            let chunk = start..extent.end.min(start + CHUNK);
            let written = to.write_all(&from.map[chunk.clone()]);
            #[cfg(unix)]
            if written.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EFAULT)) {
                // The system could not read the file. Reading it here raises a signal, whose handler names the file.
                std::hint::black_box(xxh3_128(&from.map[chunk.clone()]));
            }
            written?;
            from.leave(chunk);
        }
    }
    Ok(())
}

/// Maps a file. If another program truncates it meanwhile, a read beyond the new end raises a signal, which is reported with the name of the file.
///
/// # Errors
/// If the file cannot be mapped.
pub(crate) fn map(file: &File, path: &Path) -> io::Result<Bytes> {
    map_as(file, path, None)
}

/// Maps a file that a reader opens by this name; see [`opened`].
///
/// # Errors
/// If the file cannot be mapped.
pub(crate) fn map_as(file: &File, path: &Path, name: Option<&str>) -> io::Result<Bytes> {
    let facts = file.metadata()?;
    if facts.len() == 0 {
        return Ok(Bytes::from(Arc::<[u8]>::default()));
    }
    // SAFETY: the map is only read. As with every mapped file, other programs should not write to it meanwhile. If one does,
    // the bytes change, but they are plain bytes, and no safety depends on an earlier check of them.
    let map = unsafe { memmap2::Mmap::map(file) }?;
    let (listed, name) = (maps::list(&map, path), name.map(str::to_string));
    let sparse = if has_holes(&facts) { again(path, &facts) } else { None };
    Ok(Bytes(Shared::new(Box::new(MappedFile { map, identity: identity_of(file), name, sparse, _listed: listed }))))
}

#[cfg(unix)]
fn has_holes(facts: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    facts.blocks().saturating_mul(512) < facts.len()
}

#[cfg(not(unix))]
fn has_holes(_: &std::fs::Metadata) -> bool {
    false
}

/// Opens a file again, to get a separate position in it.
#[cfg(unix)]
fn again(path: &Path, facts: &std::fs::Metadata) -> Option<File> {
    use std::os::unix::fs::MetadataExt;
    let file = open_regular(path).ok()?;
    let same = file.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (facts.dev(), facts.ino()));
    same.then_some(file)
}

#[cfg(not(unix))]
fn again(_: &Path, _: &std::fs::Metadata) -> Option<File> {
    None
}

/// Opens a regular file. Never waits for another program, as opening a named pipe would.
///
/// # Errors
/// If it cannot be opened, or is something else.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(file)
}

/// Maps a file in the folder of another file.
///
/// # Errors
/// If the name leads out of the folder, or does not name a regular file that can be read.
pub(crate) fn map_beside(path: Option<&Path>, name: &str) -> Result<Bytes, String> {
    let place = place_beside(path, name)?;
    open_regular(&place)
        .and_then(|file| map_as(&file, &place, Some(name)))
        .map_err(|error| format!("it cannot be read: {error}"))
}

/// Returns the tensor that a reader requests: all bytes of its own file if the name is empty, otherwise of a file beside it.
///
/// # Errors
/// As for [`map_beside`].
pub(crate) fn opened(bytes: &Bytes, path: Option<&Path>, name: &str) -> Result<Tensor, String> {
    if name.is_empty() { Ok(bytes.handle()) } else { map_beside(path, name).map(|bytes| bytes.handle()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_a_file_stay_there_and_have_the_hash_of_their_content() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let content: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        file.write_all(&content).expect("is written");
        let bytes = map(file.as_file(), file.path()).expect("is mapped");
        let tensor = Tensor::new(&bytes[3..300_003]);
        assert_eq!(tensor.bytes().as_ptr(), bytes[3..].as_ptr());
        assert_eq!(tensor.hash128(), Tensor::new(&content[3..300_003]).hash128());
        let (region, at) = tensor.region().expect("shares");
        assert_eq!(
            (at, region.region::<MappedFile>().map(MappedFile::identity)),
            (3, Some(identity_of(file.as_file()).as_ref()))
        );
        drop(bytes);
        assert_eq!(tensor.bytes(), &content[3..300_003], "the tensor keeps the map");
    }

    /// The hash of a part with holes, at any position, equals the hash of the same bytes in memory.
    #[test]
    fn holes_are_hashed_as_zeros() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let len = 5 * CHUNK;
        for at in [CHUNK + 77, 3 * CHUNK] {
            file.seek(SeekFrom::Start(at as u64)).and_then(|_| file.write_all(b"some data")).expect("is written");
        }
        file.as_file().set_len(len as u64).expect("grows");
        let bytes = map(file.as_file(), file.path()).expect("is mapped");
        let mut content = vec![0; len];
        content[CHUNK + 77..][..9].copy_from_slice(b"some data");
        content[3 * CHUNK..][..9].copy_from_slice(b"some data");
        for part in [0..len, 1..CHUNK, 1..CHUNK + 78, CHUNK + 80..len - 1, 4 * CHUNK - 5..len, CHUNK..2 * CHUNK] {
            let (mapped, copied) = (Tensor::new(&bytes[part.clone()]), Tensor::new(&content[part.clone()]));
            assert_eq!(mapped.hash128(), copied.hash128(), "{part:?}");
        }
    }

    #[test]
    fn only_regular_files_in_the_folder_are_mapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let outer = tempfile::tempdir().expect("another one");
        let model = folder.path().join("model.toy");
        for place in [&model, &folder.path().join("w.bin"), &outer.path().join("w.bin")] {
            std::fs::write(place, b"bytes").expect("is written");
        }
        std::fs::create_dir(folder.path().join("sub")).expect("is made");
        let said = |name: &str| {
            map_beside(Some(&model), name).map(|bytes| bytes.to_vec()).map_err(|why| why[..20].to_string())
        };
        assert_eq!(said("w.bin"), Ok(b"bytes".to_vec()));
        assert_eq!(said("./w.bin"), Ok(b"bytes".to_vec()));
        let outside = outer.path().join("w.bin").display().to_string();
        assert_eq!(said("sub/../w.bin"), Ok(b"bytes".to_vec()));
        for name in ["", "../w.bin", "sub/../../w.bin", "../sub/w.bin", "/etc/passwd", &outside] {
            assert_eq!(said(name), Err("it is not in the fol".to_string()), "{name}");
        }
        assert_eq!(said("sub"), Err("it is not a regular ".to_string()));
        assert_eq!(said("absent"), Err("it cannot be read: N".to_string()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink(outer.path(), folder.path().join("away")).expect("is made");
            symlink(outer.path().join("w.bin"), folder.path().join("link")).expect("is made");
            symlink("w.bin", folder.path().join("near")).expect("is made");
            assert_eq!(said("away/w.bin"), Err("it is not in the fol".to_string()));
            assert_eq!(said("link"), Err("it is not in the fol".to_string()));
            assert_eq!(said("near"), Ok(b"bytes".to_vec()));
            symlink(outer.path(), folder.path().join("sub").join("other")).expect("is made");
            assert_eq!(said("sub/other/../w.bin"), Err("it cannot be read: N".to_string()));
            let fifo = folder.path().join("fifo");
            let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("runs");
            assert!(made.success());
            assert_eq!(said("fifo"), Err("it is not a regular ".to_string()));
        }
    }
}
