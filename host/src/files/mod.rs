//! The destination of a result: a file, the target of a link, a pipe or device, or standard output.

pub(crate) mod mapped;
pub(crate) mod safetensors;
pub(crate) mod stdio;

use crate::process;
use crate::report::error::Error;
use anstream::AutoStream;
use std::collections::BTreeMap;
use std::fs::{File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// A destination for the result, checked before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file that is written atomically.
    File {
        /// The path as given.
        shown: PathBuf,
        /// The resolved path.
        path: PathBuf,
    },
    /// A destination that must not be replaced: a pipe, a device, or a file that has several names or a different owner.
    Through(PathBuf),
}

impl Output {
    /// Checks that a path is valid and can be written. Changes nothing. `-` is standard output.
    ///
    /// # Errors
    /// If the path is a folder, cannot be written, or is in a folder that does not exist.
    pub fn look(shown: &Path) -> Result<Output, Error> {
        let wrong = |message: String| Error::Output { path: shown.to_path_buf(), message };
        if shown == Path::new("-") || shown == Path::new("/dev/stdout") {
            return Output::stdout();
        }
        let Ok(found) = std::fs::metadata(from_start(shown)) else { return Output::new_file(shown) };
        if found.is_dir() {
            return Err(wrong("is a folder; choose a file".to_string()));
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

    /// Returns standard output.
    ///
    /// # Errors
    /// If this process was started without one, because output would be lost silently.
    pub fn stdout() -> Result<Output, Error> {
        check_stdout().map(|()| Output::Stdout)
    }

    fn new_file(shown: &Path) -> Result<Output, Error> {
        let wrong = |message: String| Error::Output { path: shown.to_path_buf(), message };
        if shown.file_name().is_none() || shown.to_string_lossy().ends_with(std::path::is_separator) {
            return Err(wrong("does not name a file".to_string()));
        }
        let path = follow(shown).map_err(|error| wrong(error.to_string()))?;
        let folder = folder(&path);
        if !from_start(folder).is_dir() {
            return Err(wrong(format!("its folder {} does not exist; create it first", folder.display())));
        }
        // Existing files were checked above. This is the only way to detect a name that is too long.
        if let Err(error) = std::fs::symlink_metadata(from_start(&path))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(wrong(format!("the file name is invalid: {error}")));
        }
        temporary(&path).map_err(|error| wrong(format!("its folder is not writable: {error}")))?;
        Ok(Output::File { shown: shown.to_path_buf(), path })
    }

    /// Returns true if both are standard output or lead to the same file, so that one result would overwrite the other. Pipes and devices
    /// accept several results.
    pub fn is_same(&self, other: &Output) -> bool {
        match (self, other) {
            (Output::Stdout, Output::Stdout) => true,
            (Output::Stdout, _) | (_, Output::Stdout) => false,
            (one, other) => one.leads_to(other.path()),
        }
    }

    /// Returns true if the output is the file at a path.
    pub fn leads_to(&self, path: &Path) -> bool {
        self.identity().is_some_and(|own| own == identity(path))
    }

    /// Returns the identity of the file; `None` for standard output, pipes and devices, which accept several results.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let own = self.path();
        (!own.as_os_str().is_empty() && !is_special(own)).then(|| identity(own))
    }

    /// Returns the resolved path; empty for standard output.
    fn path(&self) -> &Path {
        match self {
            Output::Stdout => Path::new(""),
            Output::File { path, .. } | Output::Through(path) => path,
        }
    }

    /// Writes the result.
    ///
    /// # Errors
    /// If it cannot be written, although the earlier check succeeded.
    pub fn write(&self, text: &str) -> Result<(), Error> {
        match self {
            Output::Stdout => to_stdout(text),
            _ => self.write_bytes(text.as_bytes()),
        }
    }

    /// Writes a binary result.
    ///
    /// # Errors
    /// As for [`Output::write`]; also if it is standard output, which is for text.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Output::Through(path) => self.written(through(path).and_then(|mut file| file.write_all(bytes))),
            _ => self.write_with(|file| file.write_all(bytes)),
        }
    }

    /// Creates the file from the bytes that `content` writes. A pipe or a device receives it once it is complete.
    ///
    /// # Errors
    /// As for [`Output::write_bytes`], and the errors of `content`.
    pub fn write_with(&self, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
        self.written(match self {
            Output::Stdout => return Err(stdout_error("it only accepts text; choose a file with -o".to_string())),
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

    /// Returns the path for the last good module when a step fails: `out.py` → `out.failed.py`. Returns `None` if the result does not go to a
    /// regular file.
    pub fn failed(&self) -> Option<PathBuf> {
        let Output::File { shown, .. } = self else { return None };
        let stem = shown.file_stem().unwrap_or_default().to_string_lossy();
        let extension = shown.extension().map_or(String::new(), |ext| format!(".{}", ext.to_string_lossy()));
        let end = format!(".failed{extension}");
        // File names have at most 255 bytes, so the stem may have to be shortened.
        let room = stem.floor_char_boundary(255_usize.saturating_sub(end.len()));
        Some(shown.with_file_name(format!("{}{end}", &stem[..room])))
    }
}

/// Files that a writer creates beside the output. Either all of them are put in place, or none.
pub(crate) struct Beside<'o> {
    output: &'o Output,
    files: BTreeMap<String, Temporary>,
}

impl<'o> Beside<'o> {
    /// Creates an empty set.
    pub(crate) fn of(output: &'o Output) -> Beside<'o> {
        Beside { output, files: BTreeMap::new() }
    }

    /// Appends bytes to a file.
    ///
    /// # Errors
    /// If the output is not a regular file, if `name` is not a plain file name in its folder, or if it names a file in
    /// `spared`.
    pub(crate) fn put(&mut self, name: &str, bytes: &[u8], spared: &[&Path]) -> io::Result<()> {
        self.file(name, spared)?.write_all(bytes)
    }

    /// Returns a file. The first call for its name creates it.
    ///
    /// # Errors
    /// As for [`Beside::put`].
    pub(crate) fn file(&mut self, name: &str, spared: &[&Path]) -> io::Result<&mut File> {
        let wrong = |message: String| Err(io::Error::other(message));
        let Output::File { path, .. } = self.output else {
            return wrong(format!("`{name}` cannot be written beside it: name a file with -o"));
        };
        if !self.files.contains_key(name) {
            let mut parts = Path::new(name).components();
            let is_one = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
            let place = path.with_file_name(name);
            if !is_one || place == *path {
                return wrong(format!("`{name}` is not the name of another file in the same folder"));
            }
            if place.is_dir() || spared.iter().any(|spared| identity(spared) == identity(&place)) {
                return wrong(format!("{} beside it would be overwritten", place.display()));
            }
            self.files.insert(name.to_string(), temporary(&place)?);
        }
        let file = self.files.get_mut(name).map(|temporary| temporary.file.as_file_mut());
        file.ok_or_else(|| io::Error::other(format!("`{name}` is not open")))
    }

    /// Puts all files in place.
    ///
    /// # Errors
    /// The error of the first file that cannot be put in place.
    pub(crate) fn keep(self) -> io::Result<()> {
        let Output::File { path, .. } = self.output else { return Ok(()) };
        for (name, Temporary { file, noted }) in self.files {
            file.persist(from_start(&path.with_file_name(name))).map_err(|error| error.error)?;
            drop(noted);
        }
        Ok(())
    }
}

/// The format of a file that a command writes.
#[derive(Clone, Copy)]
pub(crate) enum Written {
    /// A module as TVMScript.
    Module,
    /// Arrays as numpy.savez writes them.
    Arrays,
    /// The text of LLVM.
    LlvmIr,
    /// Assembly.
    Assembly,
    /// An object file.
    Object,
    /// A shared library.
    Library,
    /// The header of an object file or a library.
    Header,
    /// A page that shows a run, or its data.
    Report,
    /// A page with measured times.
    Page,
    /// A trace of a run.
    Trace,
    /// The data with which a failed run can be repeated.
    Bundle,
}

/// A description of a format.
struct Form {
    written: Written,
    what: &'static str,
    /// The extensions of the format, the usual one first.
    ends: &'static [&'static str],
    /// The command that writes the format.
    by: &'static str,
}

/// The formats that passhost writes.
const FORMS: [Form; 11] = {
    const fn form(written: Written, what: &'static str, ends: &'static [&'static str], by: &'static str) -> Form {
        Form { written, what, ends, by }
    }
    [
        form(Written::Module, "TVMScript", &["py"], "run -o"),
        form(Written::Arrays, "arrays", &["npz"], "exec -o"),
        form(Written::LlvmIr, "LLVM IR", &["ll"], "emit --kind llvm-ir"),
        form(Written::Assembly, "assembly", &["s", "asm"], "emit --kind asm"),
        form(Written::Object, "an object file", &["o", "obj"], "emit --kind object"),
        form(Written::Library, "a shared library", &["so", "dylib", "dll"], "emit --kind shared"),
        form(Written::Header, "a header", &["h"], "emit --kind object"),
        form(Written::Report, "a page", &["html", "htm", "json"], "run --report"),
        form(Written::Page, "a page", &["html", "htm"], "bench --html"),
        form(Written::Trace, "a trace", &["json"], "run --trace"),
        form(Written::Bundle, "a bundle", &["json"], "run --bundle"),
    ]
};

/// Extensions of formats for models, arrays or code that passhost does not write.
const FOREIGN: [&str; 19] = [
    "a",
    "bc",
    "gguf",
    "h5",
    "hdf5",
    "keras",
    "mlir",
    "mlmodel",
    "npy",
    "onnx",
    "pb",
    "pbtxt",
    "pt",
    "pt2",
    "pth",
    "safetensors",
    "tar",
    "tflite",
    "zip",
];

impl Written {
    /// Refuses a file whose extension belongs to another format, because programs would misread it.
    ///
    /// # Errors
    /// If the extension belongs to another format.
    pub(crate) fn check(self, shown: &Path) -> Result<(), Error> {
        let found = shown.extension().and_then(|end| end.to_str()).map(str::to_lowercase).unwrap_or_default();
        let is_own = |form: &&Form| std::mem::discriminant(&form.written) == std::mem::discriminant(&self);
        let Some(own) = FORMS.iter().find(is_own).filter(|own| !own.ends.contains(&found.as_str())) else {
            return Ok(());
        };
        let writes = match FORMS.iter().find(|form| form.ends.contains(&found.as_str())) {
            Some(other) => format!("; `passhost {}` writes .{found} files", other.by),
            None if FOREIGN.contains(&found.as_str()) => String::new(),
            None => return Ok(()),
        };
        let message =
            format!("{} would be written to a file named .{found}; name it .{}{writes}", own.what, own.ends[0]);
        Err(Error::Output { path: shown.to_path_buf(), message })
    }
}

/// Writes to standard output.
///
/// # Errors
/// If it cannot be written. If the reader has closed the pipe, the output is lost without a message.
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

/// The original standard output, saved by [`keep_stdout`].
static KEPT: OnceLock<File> = OnceLock::new();

/// Reserves standard output for results: what plugins print there goes to standard error from now on. Has no effect on systems other than
/// Unix.
///
/// # Errors
/// If the system has no more file descriptors.
pub(crate) fn keep_stdout() -> Result<(), Error> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let kept = io::stdout().as_fd().try_clone_to_owned();
        let kept = kept.and_then(|kept| Ok(rustix::stdio::dup2_stdout(io::stderr()).map(|()| kept)?));
        let kept = kept.map_err(|error| stdout_error(format!("it cannot be reserved for the result: {error}")))?;
        // Called once, before plugins are opened.
        let _ = KEPT.set(File::from(kept));
    }
    Ok(())
}

fn stdout_error(message: String) -> Error {
    Error::Write { path: PathBuf::from("<stdout>"), message }
}

/// Checks that this process has a standard output.
fn check_stdout() -> Result<(), Error> {
    let message = "it was closed when passhost started; open it, as with `> FILE`, or choose a file with -o";
    if stdio::stdout_was_closed() { Err(stdout_error(message.to_string())) } else { Ok(()) }
}

/// Resolves a path relative to the folder in which this was first called, because a plugin can change the folder of the process.
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

/// The identity of a file. It is equal for all paths that lead to the file, even if the file does not exist yet.
pub(crate) type Identity = (PathBuf, Option<(u64, u64)>);

/// Returns the identity of a path. Links are followed, and on Unix, hard links to a file are equal.
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

/// Returns the identity of an open file; `None` if the system does not provide one.
pub(crate) fn identity_of(file: &std::fs::File) -> Option<Identity> {
    #[cfg(unix)]
    return file.metadata().ok().map(|found| {
        use std::os::unix::fs::MetadataExt;
        (PathBuf::new(), Some((found.dev(), found.ino())))
    });
    #[cfg(not(unix))]
    None
}

/// Resolves a link, even if its target does not exist.
pub(crate) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    // Linux follows at most 40 links, too.
    for _ in 0..40 {
        match std::fs::read_link(from_start(&path)) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

/// A temporary file that is removed even if the process ends before it is dropped.
struct Temporary {
    file: tempfile::NamedTempFile,
    noted: Option<process::Noted>,
}

/// Creates a file next to `path`, with the mode that a new file gets from the umask.
fn temporary(path: &Path) -> io::Result<Temporary> {
    let folder = folder(path);
    let mut noted = None;
    // The file is registered before it is created, so that it is removed whenever the process ends.
    let make = |path: &Path| {
        noted = Some(process::temporary(path));
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    };
    // The name of the temporary file would only distract.
    let file = tempfile::Builder::new().prefix(".passhost").make_in(from_start(folder), make);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(error.kind(), format!("its folder {} does not exist", folder.display()))
        }
        kind => {
            // Use the error's own text, because not every error has a kind.
            let own = error.get_ref().and_then(|error| error.source()).map(ToString::to_string);
            own.map_or(error, |why| io::Error::new(kind, why))
        }
    })?;
    Ok(Temporary { file, noted })
}

/// Returns true if replacing a file keeps its owner, and if the file has no other names.
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

/// Maximum size of a manifest, lockfile or pipeline.
const SMALL: u64 = 64 << 20;

/// Reads a configuration file. Refuses named pipes, which could block for ever, and files larger than [`SMALL`].
///
/// # Errors
/// If the file cannot be read, or is refused.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let place = from_start(path);
    let kind = std::fs::metadata(&place)?.file_type();
    // Shell pipes are already open.
    let is_open = ["/dev", "/proc"].iter().any(|folder| place.starts_with(folder));
    if is_pipe(kind) && !is_open {
        return Err(io::Error::other("a named pipe, which may never receive data"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(&place)?.take(SMALL + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SMALL {
        return Err(io::Error::other(format!("longer than {} MiB", SMALL >> 20)));
    }
    Ok(bytes)
}

/// Opens a file that a command reads. If the file is a named pipe, waits for a writer, and warns after a second.
///
/// # Errors
/// If the file cannot be opened.
pub(crate) fn open_input(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    if is_pipe(std::fs::metadata(path)?.file_type()) {
        return open_pipe(path);
    }
    File::open(path)
}

#[cfg(unix)]
fn open_pipe(path: &Path) -> io::Result<File> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    let mut patience = Some(&second);
    loop {
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], patience) {
            Ok(0) => {
                tracing::warn!("{} is a named pipe to which nothing was written yet; waiting for it", path.display());
                patience = None;
            }
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
    Ok(file)
}

/// Maximum size of a module, because positions in its text are 32-bit numbers.
const LARGEST: u64 = u32::MAX as u64;

/// Reads a module from a regular file of at most the maximum size; reads other kinds of files like [`read_stream`].
///
/// # Errors
/// If it cannot be read, or is too long.
pub(crate) fn read_large(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_input(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.len() > 0 { read_text(&file) } else { read_stream(file, false) }
}

/// Reads the text of a module from a file.
///
/// # Errors
/// If it cannot be read, or is too long.
pub(crate) fn read_text(mut file: &File) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len();
    if len > LARGEST {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Number of bytes at the start of a file that determine its format.
pub(crate) const START: u64 = 64 << 10;

/// Returns the first bytes of a file.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn read_start(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(START).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a module from a stream of unknown length. Unless `all` is true, stops early if the first bytes are not text, because
/// the stream may be endless.
///
/// # Errors
/// If it cannot be read, or is too long.
pub(crate) fn read_stream(mut from: impl Read, all: bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(START).read_to_end(&mut bytes)?;
    if bytes.contains(&0) && !all {
        return Ok(bytes);
    }
    from.take(LARGEST + 1 - bytes.len() as u64).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> io::Error {
    io::Error::other("longer than 4 GiB, the limit for modules")
}

#[cfg(unix)]
fn is_pipe(kind: FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&kind)
}

#[cfg(not(unix))]
fn is_pipe(_: FileType) -> bool {
    false
}

/// Replaces a file atomically, and keeps its mode.
pub(crate) fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace_with(path, |file| file.write_all(content.as_ref()))
}

/// Like [`replace`], with the bytes that `content` writes.
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

/// Opens a pipe or a device for writing.
fn through(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).truncate(true).open(from_start(path))
}

/// Writes the bytes that `content` produces to a pipe or device, which cannot seek; `content` itself may seek.
fn copy_through(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let no_room = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot create a temporary file in {}: {error}", std::env::temp_dir().display()),
        )
    };
    let mut complete = tempfile::tempfile().map_err(no_room)?;
    content(&mut complete)?;
    complete.rewind()?;
    io::copy(&mut complete, &mut through(path)?).map(|_| ())
}
