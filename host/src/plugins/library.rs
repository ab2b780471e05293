//! A library that is opened once, so that the inspected file is also the file that is hashed and loaded, whatever happens to its path.
//!
//! An open file stays the same when it is renamed or a link changes, but it can still be written to, for instance through another name. So
//! `--locked` loads a private copy, which no other process can write to, and hashes the bytes while copying. Without `--locked`, the file
//! itself is loaded, and then compared with its state when it was opened.

use crate::files::Identity;
use crate::plugins::hashes::{Stamp, hex, stamp};
use crate::plugins::object_file::ObjectError;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of a library that is copied, in bytes.
const MAX_COPY: u64 = 2 << 30;

/// An open library. Clones share it.
#[derive(Clone, Debug)]
pub struct Library(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    shown: PathBuf,
    file: File,
    original: Identity,
    /// State of the file when it was opened; `None` for a private copy, and on systems without stamps.
    stamp: Option<Stamp>,
    /// Hash of a private copy.
    sha256: Option<String>,
    /// Path of a private copy, if it has one.
    path: Option<tempfile::TempPath>,
}

impl Library {
    /// Opens the file at a path.
    ///
    /// # Errors
    /// If it does not exist, or is not a regular file.
    pub fn open(path: &Path) -> Result<Library, ObjectError> {
        let facts = std::fs::metadata(path).map_err(|error| cannot_open(path, &error))?;
        check_kind(&facts)?;
        let file = open_now(path).map_err(|error| cannot_open(path, &error))?;
        Library::of(file, path)
    }

    /// Wraps a file that is already open. Messages show the path `shown`.
    ///
    /// # Errors
    /// If the path is not a regular file.
    pub fn of(file: File, shown: &Path) -> Result<Library, ObjectError> {
        let facts = file.metadata().map_err(|error| cannot_open(shown, &error))?;
        // The file at the path may have changed since it was checked.
        check_kind(&facts)?;
        let stamp = stamp(&facts);
        let original = crate::files::identity_of(&file).unwrap_or_else(|| crate::files::identity(shown));
        let shown = shown.to_path_buf();
        Ok(Library(Arc::new(Opened { shown, file, original, stamp, sha256: None, path: None })))
    }

    /// Makes a copy that no other process can write to, with its hash.
    ///
    /// # Errors
    /// If it cannot be read or copied.
    pub(crate) fn private_copy(&self) -> io::Result<Library> {
        let len = self.0.file.metadata()?.len();
        if len > MAX_COPY {
            return Err(io::Error::other(format!(
                "it has {len} bytes, more than the {MAX_COPY} that can be copied for --locked"
            )));
        }
        let (file, path, sha256) = copied(&self.0.file, &self.0.shown)?;
        let (shown, original, sha256) = (self.0.shown.clone(), self.original(), Some(sha256));
        Ok(Library(Arc::new(Opened { shown, file, original, stamp: None, sha256, path })))
    }

    /// Returns the path for messages.
    pub fn shown(&self) -> &Path {
        &self.0.shown
    }

    /// Returns the open file.
    pub(crate) fn file(&self) -> &File {
        &self.0.file
    }

    /// Returns a reader of the open file from its start. Each reader has its own position, because clones share the file, and engines on
    /// several threads read it at the same time.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::of(&self.0.file)
    }

    /// Returns the sha256 of a private copy.
    pub(crate) fn sha256(&self) -> Option<&str> {
        self.0.sha256.as_deref()
    }

    /// Returns the identity of the opened file, regardless of its path. For a private copy, this is the identity of its
    /// original.
    pub(crate) fn original(&self) -> Identity {
        self.0.original.clone()
    }

    /// Returns the identity of the open file.
    fn identity(&self) -> Identity {
        crate::files::identity_of(&self.0.file).unwrap_or_else(|| crate::files::identity(&self.0.shown))
    }

    /// Returns true if the size and times of the file are the same as when it was opened.
    pub(crate) fn is_as_it_was(&self) -> bool {
        let now = || self.0.file.metadata().ok().and_then(|facts| stamp(&facts));
        self.0.stamp.is_none_or(|stamp| now() == Some(stamp))
    }

    /// Returns a path at which the dynamic loader finds this file. On Linux, this is the path of its descriptor as seen from any process, so
    /// that debuggers find it, too. Elsewhere, it is the path of the copy, or the file's own.
    ///
    /// A library that finds other libraries relative to its location must be opened under its `own` path.
    ///
    /// # Errors
    /// If the file is no longer at its path.
    pub(crate) fn load_path(&self, own: bool) -> io::Result<PathBuf> {
        #[cfg(target_os = "linux")]
        if !own {
            use std::os::fd::AsRawFd;
            let fd = self.0.file.as_raw_fd();
            let everywhere = PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()));
            let here = PathBuf::from(format!("/proc/self/fd/{fd}"));
            // In a container, process ids can belong to another namespace, and /proc can be missing.
            let is_this = |path: &PathBuf| crate::files::identity(path) == self.identity();
            if let Some(path) = [everywhere, here].into_iter().find(is_this) {
                return Ok(path);
            }
        }
        match &self.0.path {
            Some(path) => Ok(path.to_path_buf()),
            None if self.0.sha256.is_some() => {
                Err(io::Error::other("its private copy cannot be opened, because /proc is missing"))
            }
            // The system would search its own folders for a path without a folder.
            None => crate::files::from_start(&self.0.shown).canonicalize().and_then(|path| {
                if own && crate::files::identity(&path) != self.identity() {
                    return Err(io::Error::other("its path now refers to another file"));
                }
                Ok(path)
            }),
        }
    }

    /// Returns the library to load in place of this one. It stays open for the rest of the process. The dynamic loader identifies a library
    /// by its path, so another library must not reuse it. All libraries that are the same file, or private copies of the same content,
    /// share the first one.
    ///
    /// # Errors
    /// If the file was written to since this process loaded it.
    pub(crate) fn to_load(&self) -> Result<Library, ObjectError> {
        static LOADED: Mutex<BTreeMap<(Option<String>, Identity), Library>> = Mutex::new(BTreeMap::new());
        let key = match &self.0.sha256 {
            Some(hash) => (Some(hash.clone()), (PathBuf::new(), None)),
            None => (None, self.original()),
        };
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let first = loaded.entry(key).or_insert_with(|| self.clone()).clone();
        if first.0.stamp == self.0.stamp { Ok(first) } else { Err(ObjectError::Changed) }
    }

    /// Returns the file as the standard input of another process.
    ///
    /// # Errors
    /// If no more files can be opened.
    pub(crate) fn as_input(&self) -> io::Result<std::process::Stdio> {
        self.0.file.try_clone().map(Into::into)
    }
}

/// A library between being listed and being loaded. A private copy stays open. Other files are closed, because a manifest may list more
/// libraries than a process may have open files; they must be unchanged when they are reopened.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    shown: PathBuf,
    stamp: Option<Stamp>,
    open: Option<Library>,
}

impl Seen {
    pub(crate) fn new(library: &Library) -> Seen {
        let stays = library.0.sha256.is_some() || library.0.stamp.is_none();
        Seen { shown: library.0.shown.clone(), stamp: library.0.stamp, open: stays.then(|| library.clone()) }
    }

    /// Opens the library.
    ///
    /// # Errors
    /// If it cannot be opened again, or has changed.
    pub(crate) fn library(&self) -> Result<Library, ObjectError> {
        if let Some(library) = &self.open {
            return Ok(library.clone());
        }
        let library = Library::open(&self.shown)?;
        if library.0.stamp == self.stamp { Ok(library) } else { Err(ObjectError::Changed) }
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> ObjectError {
    match std::fs::read_link(path) {
        Ok(to) => ObjectError::Open(format!("is a link to {}: {error}", to.display())),
        Err(_) => ObjectError::Open(error.to_string()),
    }
}

fn check_kind(facts: &Metadata) -> Result<(), ObjectError> {
    if facts.is_dir() {
        return Err(ObjectError::NotAFile("a folder"));
    }
    if !facts.is_file() {
        return Err(ObjectError::NotAFile("a pipe, socket or device"));
    }
    Ok(())
}

/// Opens a file for reading, without blocking if it has become a pipe.
fn open_now(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    options.open(path)
}

/// A copy, its path if it has one, and the hash of its bytes.
type Copied = (File, Option<tempfile::TempPath>, String);

/// Copies the file into memory and seals the copy; if that is not possible, copies it into a private folder.
#[cfg(target_os = "linux")]
fn copied(from: &File, shown: &Path) -> io::Result<Copied> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let name = shown.file_name().unwrap_or_default().to_string_lossy();
    // The name of a file in memory is limited in length, and cannot contain NUL bytes.
    let name: String = name.chars().filter(|c| *c != '\0').take(60).collect();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux before 6.3 rejects the EXEC flag; later versions may require it.
    let memory = memfd_create(&*name, flags | MemfdFlags::EXEC).or_else(|_| memfd_create(&*name, flags));
    let Ok(memory) = memory else { return copied_to_file(from) };
    let mut memory = File::from(memory);
    let hash = copy(from, &mut memory)?;
    fcntl_add_seals(&memory, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok((memory, None, hash))
}

#[cfg(not(target_os = "linux"))]
fn copied(from: &File, _: &Path) -> io::Result<Copied> {
    copied_to_file(from)
}

fn copied_to_file(from: &File) -> io::Result<Copied> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("passhost-").suffix(std::env::consts::DLL_SUFFIX);
    let mut file = builder.tempfile()?;
    let hash = copy(from, file.as_file_mut())?;
    let (_, path) = file.into_parts();
    Ok((File::open(&path)?, Some(path), hash))
}

/// Reads a file without using its shared position. Reads whole blocks, because many small adjacent parts of a library are read.
pub(crate) struct Reader<'f> {
    file: &'f File,
    at: u64,
    block: Vec<u8>,
    /// Offset of the block.
    start: u64,
}

/// Size of a block in bytes.
const BLOCK: usize = 16 << 10;

impl Reader<'_> {
    /// Creates a reader at the start of a file.
    pub(crate) fn of(file: &File) -> Reader<'_> {
        Reader { file, at: 0, block: Vec::new(), start: 0 }
    }

    /// Returns the rest of the block from the current position; empty at the end of the file.
    fn buffered(&mut self) -> io::Result<&[u8]> {
        // A read may be short, so the block may end before the current position.
        for start in [self.at - self.at % BLOCK as u64, self.at] {
            if self.has(self.at) {
                break;
            }
            self.start = start;
            self.block.resize(BLOCK, 0);
            let read = read_at(self.file, &mut self.block, start);
            self.block.truncate(*read.as_ref().unwrap_or(&0));
            read?;
        }
        Ok(self.block.get((self.at - self.start) as usize..).unwrap_or_default())
    }

    fn has(&self, at: u64) -> bool {
        (self.start..self.start + self.block.len() as u64).contains(&at)
    }
}

fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, out, at);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, out, at);
}

impl Read for Reader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = if out.len() >= BLOCK {
            read_at(self.file, out, self.at)?
        } else {
            let found = self.buffered()?;
            let n = found.len().min(out.len());
            out[..n].copy_from_slice(&found[..n]);
            n
        };
        self.at += n as u64;
        Ok(n)
    }
}

impl io::Seek for Reader<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let at = match to {
            io::SeekFrom::Start(at) => Some(at),
            io::SeekFrom::Current(by) => self.at.checked_add_signed(by),
            io::SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// Copies a file from its start, and returns the hash of the copied bytes.
fn copy(from: &File, to: &mut File) -> io::Result<String> {
    let (mut from, mut digest) = (Reader::of(from), Sha256::new());
    let mut buffer = vec![0; 1 << 17];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            n => {
                digest.update(&buffer[..n]);
                to.write_all(&buffer[..n])?;
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn text(library: &Library) -> String {
        let (mut out, mut file) = (String::new(), library.file());
        io::Seek::rewind(&mut file).and_then(|()| file.read_to_string(&mut out)).expect("a text");
        out
    }

    /// The copy keeps the hashed bytes when the original is written to through another name, renamed or replaced.
    #[test]
    fn a_private_copy_stays_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("libx.so"), folder.path().join("other"));
        std::fs::write(&path, "first").expect("a file");
        std::fs::hard_link(&path, &other).expect("a link");
        let opened = Library::open(&path).expect("a file");
        let copy = opened.private_copy().expect("a copy");
        let hash = hex(&Sha256::digest("first"));
        assert_eq!((copy.sha256(), copy.shown()), (Some(hash.as_str()), path.as_path()));
        std::fs::write(&other, "other").expect("a file");
        std::fs::remove_file(&path).expect("a file");
        assert_eq!((text(&opened).as_str(), text(&copy).as_str()), ("other", "first"));
        assert!(!opened.is_as_it_was() && copy.is_as_it_was());
        assert_eq!(std::fs::read_to_string(copy.load_path(false).expect("a path")).expect("a text"), "first");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nobody_can_write_to_a_private_copy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libx.so");
        std::fs::write(&path, "first").expect("a file");
        let copy = Library::open(&path).map(|library| library.private_copy()).expect("a file").expect("a copy");
        let by_path = OpenOptions::new().write(true).open(copy.load_path(false).expect("a path"));
        assert!(by_path.and_then(|mut file| file.write_all(b"other")).is_err());
        assert_eq!(text(&copy), "first");
    }

    /// Opening does not wait for the writer of a pipe that replaced the file.
    #[test]
    fn what_is_not_a_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Library::open(folder.path()).expect_err("a folder"), ObjectError::NotAFile("a folder"));
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        let file = open_now(&pipe).expect("a pipe");
        assert!(matches!(Library::of(file, &pipe), Err(ObjectError::NotAFile(_))));
    }
}
