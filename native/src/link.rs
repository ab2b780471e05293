//! Links object code to a shared library, with a linker found on the machine.

use crate::llvm::sysroot;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The reason why a shared library cannot be linked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The shared library format of this system is unsupported.
    #[error("shared libraries can only be built on Linux, macOS and other Unix systems")]
    System,
    /// No linker was found.
    #[error("no linker was found; install one of {0}, or add it to PATH")]
    NotFound(String),
    /// A linker rejected the code.
    #[error("{program} failed: {message}")]
    Refused {
        /// The name of the linker.
        program: String,
        /// Message of the linker.
        message: String,
    },
    /// A temporary file could not be used.
    #[error("cannot write the linker's files to {folder}: {error}", folder = folder.display())]
    File {
        /// The folder for temporary files.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A linker program.
struct Linker {
    program: OsString,
    /// Arguments that precede the input and output.
    first: &'static [&'static str],
    /// Arguments that follow the input and output.
    last: &'static [&'static str],
}

/// Returns the linkers in order of preference. C compilers come first, because they find the system's libraries.
fn linkers() -> Vec<Linker> {
    const GNU: &[&str] = &["-flavor", "gnu"];
    let last: &[&str] = if cfg!(target_os = "macos") { &["-Wl,-undefined,dynamic_lookup"] } else { &["-lm"] };
    let linker = |program: &str, first, last| Linker { program: program.into(), first, last };
    let mut all = vec![linker("cc", &[][..], last), linker("clang", &[], last)];
    if !cfg!(target_os = "macos") {
        all.extend([linker("ld.lld", &[], &[]), linker("rust-lld", GNU, &[])]);
        all.extend(of_rust().map(|path| Linker { program: path.into(), first: GNU, last: &[] }));
    }
    all
}

/// Returns the linker that comes with Rust, which is not on the PATH.
fn of_rust() -> Option<PathBuf> {
    let folders = fs::read_dir(sysroot()?.join("lib").join("rustlib")).ok()?;
    let programs = folders.flatten().map(|folder| folder.path().join("bin").join("rust-lld"));
    programs.into_iter().find(|program| program.is_file())
}

/// Links object code to a shared library.
///
/// # Errors
/// Fails if the linker is missing or fails.
pub fn shared(object: &[u8]) -> Result<Vec<u8>, LinkError> {
    if !cfg!(unix) {
        return Err(LinkError::System);
    }
    let file = |error| LinkError::File { folder: std::env::temp_dir(), error };
    let folder = tempfile::tempdir().map_err(file)?;
    let [from, to] = ["kernels.o", "kernels.so"].map(|name| folder.path().join(name));
    fs::write(&from, object).map_err(file)?;
    let linkers = linkers();
    for linker in &linkers {
        if linked(linker, &from, &to)? {
            return fs::read(&to).map_err(file);
        }
    }
    let names: Vec<String> = linkers.iter().map(|linker| format!("`{}`", linker.program.to_string_lossy())).collect();
    Err(LinkError::NotFound(names.join(", ")))
}

/// Runs a linker. Returns false if it does not exist.
fn linked(linker: &Linker, from: &Path, to: &Path) -> Result<bool, LinkError> {
    let mut command = Command::new(&linker.program);
    command.args(linker.first).args(["-shared", "-o"]).args([to, from]).args(linker.last).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(refused(linker, &error.to_string())),
    };
    if output.status.success() {
        return Ok(true);
    }
    Err(refused(linker, String::from_utf8_lossy(&output.stderr).trim()))
}

fn refused(linker: &Linker, message: &str) -> LinkError {
    LinkError::Refused { program: linker.program.to_string_lossy().into_owned(), message: message.to_string() }
}
