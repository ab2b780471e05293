//! Where the result goes: a file, what a link leads to, a pipe or device, or standard output.

pub(crate) mod stdio;

use crate::process;
use crate::report::error::Error;
use anstream::AutoStream;
use std::fs::{File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A place for the result, looked at before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file that is written all or nothing.
    File {
        /// The path as given.
        shown: PathBuf,
        /// What it leads to, links followed.
        path: PathBuf,
    },
    /// Something that must keep what it is: a pipe, a device, a file with several names or of another owner.
    Through(PathBuf),
}

impl Output {
    /// Finds out what is at a path, and whether it can be written; changes nothing. `-` is standard output.
    ///
    /// # Errors
    /// If it is a folder, cannot be written, or lies in a folder that is not there.
    pub fn look(shown: &Path) -> Result<Output, Error> {
        let wrong = |message: String| Error::Output { path: shown.to_path_buf(), message };
        if shown == Path::new("-") || shown == Path::new("/dev/stdout") {
            return Output::stdout();
        }
        let Ok(found) = std::fs::metadata(from_start(shown)) else { return Output::new_file(shown) };
        if found.is_dir() {
            return Err(wrong("is a folder; name a file".to_string()));
        }
        if !found.is_file() {
            // Opening a pipe would wait for its reader.
            return Ok(Output::Through(shown.to_path_buf()));
        }
        OpenOptions::new()
            .write(true)
            .open(from_start(shown))
            .map_err(|error| wrong(format!("cannot be written: {error}")))?;
        match from_start(shown).canonicalize() {
            Ok(path) if can_be_replaced(&path, &found) => Ok(Output::File { shown: shown.to_path_buf(), path }),
            _ => Ok(Output::Through(shown.to_path_buf())),
        }
    }

    /// Standard output.
    ///
    /// # Errors
    /// If this process began without one: what is written there would be lost in silence.
    pub fn stdout() -> Result<Output, Error> {
        check_stdout().map(|()| Output::Stdout)
    }

    fn new_file(shown: &Path) -> Result<Output, Error> {
        let wrong = |message: String| Error::Output { path: shown.to_path_buf(), message };
        if shown.file_name().is_none() || shown.to_string_lossy().ends_with(std::path::is_separator) {
            return Err(wrong("names no file".to_string()));
        }
        let path = follow(shown).map_err(|error| wrong(error.to_string()))?;
        let folder = folder(&path);
        if !from_start(folder).is_dir() {
            return Err(wrong(format!("its folder {} does not exist; create it first", folder.display())));
        }
        // What is there was looked at before; a name that is too long is found in no other way.
        if let Err(error) = std::fs::symlink_metadata(from_start(&path))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(wrong(format!("no file can be called that: {error}")));
        }
        temporary(&path).map_err(|error| wrong(format!("its folder cannot be written: {error}")))?;
        Ok(Output::File { shown: shown.to_path_buf(), path })
    }

    /// Whether both are standard output or lead to one file, which can only have one content. A pipe or device takes what
    /// comes.
    pub fn is_same(&self, other: &Output) -> bool {
        match (self, other) {
            (Output::Stdout, Output::Stdout) => true,
            (Output::Stdout, _) | (_, Output::Stdout) => false,
            (one, other) => one.leads_to(other.path()),
        }
    }

    /// Whether it is the file at a path.
    pub fn leads_to(&self, path: &Path) -> bool {
        self.identity().is_some_and(|own| own == identity(path))
    }

    /// The file that it is; nothing for standard output, a pipe or a device, which take what comes.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let own = self.path();
        (!own.as_os_str().is_empty() && !is_special(own)).then(|| identity(own))
    }

    /// What it leads to; empty for standard output.
    fn path(&self) -> &Path {
        match self {
            Output::Stdout => Path::new(""),
            Output::File { path, .. } | Output::Through(path) => path,
        }
    }

    /// Writes the result.
    ///
    /// # Errors
    /// If it cannot be written, although it looked so before.
    pub fn write(&self, text: &str) -> Result<(), Error> {
        match self {
            Output::Stdout => to_stdout(text),
            _ => self.write_bytes(text.as_bytes()),
        }
    }

    /// Writes a result that is no text.
    ///
    /// # Errors
    /// As [`Output::write`]; also if it is standard output, which is for people and for text.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Output::Through(path) => self.written(through(path).and_then(|mut file| file.write_all(bytes))),
            _ => self.write_with(|file| file.write_all(bytes)),
        }
    }

    /// Writes what `content` writes into the file that it is given. A pipe or a device gets it when that is complete.
    ///
    /// # Errors
    /// As [`Output::write_bytes`], and those of `content`.
    pub fn write_with(&self, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
        self.written(match self {
            Output::Stdout => return Err(stdout_error("it is for text; name a file with -o".to_string())),
            Output::File { path, .. } => replace_with(path, content),
            Output::Through(path) => copy_through(path, content),
        })
    }

    fn written(&self, written: io::Result<()>) -> Result<(), Error> {
        let shown = match self {
            Output::Stdout => Path::new("<stdout>"),
            Output::File { shown, .. } | Output::Through(shown) => shown,
        };
        written.map_err(|error| Error::Write { path: shown.to_path_buf(), message: error.to_string() })
    }

    /// Where the last good module goes when a step fails: `out.py` → `out.failed.py`. Nowhere, if the result is not
    /// for a file of its own.
    pub fn failed(&self) -> Option<PathBuf> {
        let Output::File { shown, .. } = self else { return None };
        let stem = shown.file_stem().unwrap_or_default().to_string_lossy();
        let extension = shown.extension().map_or(String::new(), |ext| format!(".{}", ext.to_string_lossy()));
        let end = format!(".failed{extension}");
        // Names of files have at most 255 bytes: the output's own may leave too few for more.
        let room = stem.floor_char_boundary(255_usize.saturating_sub(end.len()));
        Some(shown.with_file_name(format!("{}{end}", &stem[..room])))
    }
}

/// What a command writes.
#[derive(Clone, Copy)]
pub(crate) enum Written {
    /// TVMScript.
    Module,
    /// Arrays.
    Arrays,
    /// Code of a machine.
    Code,
}

/// Ends of names of files that hold models, arrays or code in a form of their own.
const FORMS: [&str; 28] = [
    "a",
    "bc",
    "dll",
    "dylib",
    "gguf",
    "h5",
    "hdf5",
    "html",
    "json",
    "keras",
    "ll",
    "mlir",
    "mlmodel",
    "npy",
    "npz",
    "o",
    "onnx",
    "pb",
    "pbtxt",
    "pt",
    "pt2",
    "pth",
    "py",
    "safetensors",
    "so",
    "tar",
    "tflite",
    "zip",
];

impl Written {
    /// Refuses a file that is named like one of another form, which would be misread later.
    ///
    /// # Errors
    /// If it is.
    pub(crate) fn check(self, shown: &Path) -> Result<(), Error> {
        let (what, end, own): (_, _, &[&str]) = match self {
            Written::Module => ("TVMScript", "py", &["py"]),
            Written::Arrays => ("arrays", "npz", &["npz"]),
            Written::Code => ("code of a machine", "so", &["a", "bc", "dll", "dylib", "ll", "o", "so"]),
        };
        let found = shown.extension().and_then(|end| end.to_str()).map(str::to_lowercase).unwrap_or_default();
        if own.contains(&found.as_str()) || !FORMS.contains(&found.as_str()) {
            return Ok(());
        }
        let message = format!(
            "the result is {what}, and would be written to a file named .{found}; name it .{end} (run writes TVMScript, exec .npz \
             files, and emit LLVM IR, assembly, objects and shared libraries)"
        );
        Err(Error::Output { path: shown.to_path_buf(), message })
    }
}

/// Writes to standard output.
///
/// # Errors
/// If it cannot be written. A reader that went away gets no message, but what was to be written is lost.
pub fn to_stdout(text: &str) -> Result<(), Error> {
    check_stdout()?;
    let written = match KEPT.get() {
        Some(file) => file.try_clone().and_then(|file| AutoStream::auto(file).write_all(text.as_bytes())),
        None => {
            let mut stdout = anstream::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        }
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::ReaderLeft,
        _ => stdout_error(error.to_string()),
    })
}

/// Standard output, once [`keep_stdout`] was called.
static KEPT: OnceLock<File> = OnceLock::new();

/// Keeps standard output for results: what plugins print there goes to standard error from now on. On systems other than
/// Unix it stays where it is.
///
/// # Errors
/// If the system has no more file descriptors.
pub(crate) fn keep_stdout() -> Result<(), Error> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let kept = io::stdout().as_fd().try_clone_to_owned();
        let kept = kept.and_then(|kept| Ok(rustix::stdio::dup2_stdout(io::stderr()).map(|()| kept)?));
        let kept = kept.map_err(|error| stdout_error(format!("it cannot be kept for the result: {error}")))?;
        // Called once, before plugins are opened.
        let _ = KEPT.set(File::from(kept));
    }
    Ok(())
}

fn stdout_error(message: String) -> Error {
    Error::Write { path: PathBuf::from("<stdout>"), message }
}

/// Whether there is a standard output.
fn check_stdout() -> Result<(), Error> {
    let message = "it was closed when passhost began; open it, as with `> FILE`, or name a file with -o";
    if stdio::stdout_was_closed() { Err(stdout_error(message.to_string())) } else { Ok(()) }
}

/// A path as seen from the folder in which this was called first: a plugin can change that of the process.
pub(crate) fn from_start(path: &Path) -> PathBuf {
    static START: OnceLock<PathBuf> = OnceLock::new();
    START.get_or_init(|| std::env::current_dir().unwrap_or_default()).join(path)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_special(path: &Path) -> bool {
    std::fs::metadata(from_start(path)).is_ok_and(|found| !found.is_file())
}

/// What two paths share that lead to one file, also to one that is not there yet.
pub(crate) type Identity = (PathBuf, Option<(u64, u64)>);

/// Links are followed; a hard link is the same file under a name of its own, which counts on Unix.
pub(crate) fn identity(path: &Path) -> Identity {
    #[cfg(unix)]
    if let Ok(found) = std::fs::metadata(from_start(path)) {
        use std::os::unix::fs::MetadataExt;
        return (PathBuf::new(), Some((found.dev(), found.ino())));
    }
    let place = || {
        let path = follow(path).ok()?;
        Some(from_start(folder(&path)).canonicalize().ok()?.join(path.file_name()?))
    };
    (place().unwrap_or_else(|| path.to_path_buf()), None)
}

/// The same of an open file; nothing where nothing tells files apart.
pub(crate) fn identity_of(file: &std::fs::File) -> Option<Identity> {
    #[cfg(unix)]
    return file.metadata().ok().map(|found| {
        use std::os::unix::fs::MetadataExt;
        (PathBuf::new(), Some((found.dev(), found.ino())))
    });
    #[cfg(not(unix))]
    None
}

/// What a link leads to, even if nothing is there yet.
pub(crate) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    // As many as Linux follows.
    for _ in 0..40 {
        match std::fs::read_link(from_start(&path)) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// A temporary file that nothing is left of, also where the process ends before it is dropped.
struct Temporary {
    file: tempfile::NamedTempFile,
    noted: Option<process::Noted>,
}

/// A file beside `path`, with the mode that a new file gets from the umask.
fn temporary(path: &Path) -> io::Result<Temporary> {
    let folder = folder(path);
    let mut noted = None;
    // It is noted before it is there: nothing of it is left whenever the process ends.
    let make = |path: &Path| {
        noted = Some(process::temporary(path));
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    };
    // The name of the temporary file would only be in the way.
    let file = tempfile::Builder::new().prefix(".passhost").make_in(from_start(folder), make);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(error.kind(), format!("its folder {} does not exist", folder.display()))
        }
        kind => {
            // Its own words: not every error has a kind.
            let own = error.get_ref().and_then(|error| error.source()).map(ToString::to_string);
            own.map_or(error, |why| io::Error::new(kind, why))
        }
    })?;
    Ok(Temporary { file, noted })
}

/// Whether another file in its place would be the same for everybody.
#[cfg(unix)]
fn can_be_replaced(path: &Path, found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = temporary(path).and_then(|own| own.file.as_file().metadata());
    own.is_ok_and(|own| found.nlink() == 1 && (own.uid(), own.gid()) == (found.uid(), found.gid()))
}

#[cfg(not(unix))]
fn can_be_replaced(path: &Path, _: &Metadata) -> bool {
    temporary(path).is_ok()
}

/// More than any manifest, lockfile or pipeline has.
const SMALL: u64 = 64 << 20;

/// Reads a file of settings: not from a named pipe, which could wait for ever, nor more than [`SMALL`].
///
/// # Errors
/// If it cannot be read, or should not.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let place = from_start(path);
    let kind = std::fs::metadata(&place)?.file_type();
    // Those of shells are open already.
    let is_open = ["/dev", "/proc"].iter().any(|folder| place.starts_with(folder));
    if is_pipe(kind) && !is_open {
        return Err(io::Error::other("a named pipe, which may never be written to"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(&place)?.take(SMALL + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SMALL {
        return Err(io::Error::other(format!("longer than {} MiB", SMALL >> 20)));
    }
    Ok(bytes)
}

/// More than any module has: places in a text are numbers of 32 bits.
const LARGEST: u64 = u32::MAX as u64;

/// Reads a module from a file; from another kind of file as [`read_stream`] does.
///
/// # Errors
/// If it cannot be read, or is too long.
pub(crate) fn read_large(path: &Path) -> io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.len() > LARGEST {
        return Err(too_long());
    }
    if found.is_file() && found.len() > 0 { std::fs::read(path) } else { read_stream(file) }
}

/// Reads a module from what says nothing of its length. What begins with anything but text is read no further: it may have
/// no end.
///
/// # Errors
/// As [`read_large`].
pub(crate) fn read_stream(mut from: impl Read) -> io::Result<Vec<u8>> {
    const START: u64 = 64 << 10;
    let mut bytes = Vec::new();
    from.by_ref().take(START).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Ok(bytes);
    }
    from.take(LARGEST + 1 - bytes.len() as u64).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> io::Error {
    io::Error::other("longer than 4 GiB, which no module can be")
}

#[cfg(unix)]
fn is_pipe(kind: FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&kind)
}

#[cfg(not(unix))]
fn is_pipe(_: FileType) -> bool {
    false
}

/// All or nothing; what was there keeps its mode.
pub(crate) fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace_with(path, |file| file.write_all(content.as_ref()))
}

/// The same with what `content` writes.
fn replace_with(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let Temporary { mut file, noted } = temporary(path)?;
    content(file.as_file_mut())?;
    let mode: Option<Permissions> = std::fs::metadata(from_start(path)).ok().map(|found| found.permissions());
    if let Some(mode) = mode {
        file.as_file().set_permissions(mode)?;
    }
    let persisted = file.persist(from_start(path)).map(|_| ()).map_err(|error| error.error);
    drop(noted);
    persisted
}

/// A pipe or a device, to be written.
fn through(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).truncate(true).open(from_start(path))
}

/// Writes through what `content` writes; that may seek, which pipes and devices cannot.
fn copy_through(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let no_room = |error: io::Error| {
        io::Error::new(error.kind(), format!("no temporary file in {}: {error}", std::env::temp_dir().display()))
    };
    let mut complete = tempfile::tempfile().map_err(no_room)?;
    content(&mut complete)?;
    complete.rewind()?;
    io::copy(&mut complete, &mut through(path)?).map(|_| ())
}
