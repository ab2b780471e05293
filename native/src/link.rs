//! From object code to a shared library, by a linker of the machine.

use crate::llvm::sysroot;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why there is no shared library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// This system has libraries of another kind.
    #[error("shared libraries are made on Linux, macOS and other Unix systems")]
    System,
    /// There is no linker.
    #[error("no linker was found: none of {0} is on the PATH")]
    NotFound(String),
    /// A linker refuses the code.
    #[error("{program} made no library: {message}")]
    Refused {
        /// The linker.
        program: String,
        /// What it says.
        message: String,
    },
    /// A file of its own.
    #[error("the files of the linker cannot be written to {folder}: {error}", folder = folder.display())]
    File {
        /// The folder for temporary files.
        folder: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// A program that links.
struct Linker {
    program: OsString,
    /// Arguments before the others.
    first: &'static [&'static str],
    /// Arguments after the others.
    last: &'static [&'static str],
}

/// The linkers, the first one first. C compilers know where the system's libraries are.
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

/// The linker that comes with Rust, which is on no PATH.
fn of_rust() -> Option<PathBuf> {
    let folders = fs::read_dir(sysroot()?.join("lib").join("rustlib")).ok()?;
    let programs = folders.flatten().map(|folder| folder.path().join("bin").join("rust-lld"));
    programs.into_iter().find(|program| program.is_file())
}

/// Makes a shared library of object code.
///
/// # Errors
/// If there is no linker, or it makes no library.
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

/// Whether a linker is there, which then has made the library.
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
