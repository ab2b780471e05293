//! Lists possible locations of an LLVM library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that names a library.
pub const VARIABLE: &str = "PASSHOST_LLVM";
/// The oldest and the newest version to look for.
const VERSIONS: std::ops::RangeInclusive<u32> = 16..=22;

/// A possible location of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// A file, or a name to be resolved by the system.
    pub path: PathBuf,
    /// Origin of the path, for messages.
    pub from: &'static str,
}

/// Returns the candidates in order. If the environment variable names a library, it is the only candidate;
/// an empty name means no library.
pub fn candidates() -> Vec<Candidate> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return vec![Candidate { path: path.into(), from: VARIABLE }];
    }
    let of_rust = sysroot().map(|root| in_sysroot(&root)).unwrap_or_default();
    let of_rust = of_rust.into_iter().map(|path| Candidate { path, from: "the library of rustc" });
    of_rust.chain(of_system()).collect()
}

/// Returns the folder of the Rust compiler.
pub(crate) fn sysroot() -> Option<PathBuf> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = rustc.args(["--print", "sysroot"]).stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(PathBuf::from(text.trim()))
}

/// Returns LLVM's library in Rust's sysroot; its file name contains the versions of LLVM and Rust.
fn in_sysroot(root: &Path) -> Vec<PathBuf> {
    let is_llvm = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Some files named `libLLVM…` are small linker scripts.
        let is_large = path.metadata().is_ok_and(|data| data.len() > 1 << 20);
        (name.starts_with("libLLVM") || name.starts_with("LLVM-C")) && is_large
    };
    let folders = ["lib", "bin"].map(|folder| root.join(folder));
    let files = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = files.map(|file| file.path()).filter(is_llvm).collect();
    found.sort();
    found
}

/// Returns library names for the system's loader, the newest version first.
fn of_system() -> Vec<Candidate> {
    let mut names = Vec::new();
    for version in VERSIONS.rev() {
        if cfg!(target_os = "macos") {
            names.push(format!("/opt/homebrew/opt/llvm@{version}/lib/libLLVM.dylib"));
            names.push(format!("/usr/local/opt/llvm@{version}/lib/libLLVM.dylib"));
        } else if cfg!(windows) {
            names.push("LLVM-C.dll".to_string());
        } else {
            let minors = if version >= 18 { vec![format!("libLLVM.so.{version}.1")] } else { Vec::new() };
            names.extend(minors);
            names.push(format!("libLLVM-{version}.so.1"));
            names.push(format!("libLLVM-{version}.so"));
        }
    }
    names.dedup();
    names.into_iter().map(|name| Candidate { path: name.into(), from: "a library of the system" }).collect()
}
