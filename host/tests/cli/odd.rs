//! The plugin in `odd/lib.rs`, built once for all tests.

use super::{Case, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// File name of the library in a case.
pub(crate) const FILE: &str = "libodd.so";

/// Returns the built library.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odd");
        std::fs::create_dir_all(folder.join("src")).expect("a folder");
        let api = root().join("plugin-api");
        let manifest = format!(
            "[package]\nname = \"odd\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
             [dependencies]\npasshost-plugin-api = {{ path = \"{}\" }}\n[workspace]\n",
            api.display()
        );
        write(&folder.join("Cargo.toml"), &manifest);
        write(&folder.join("src/lib.rs"), include_str!("odd/lib.rs"));
        // Use the versions that are already available.
        std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file");
        let target = shared_target();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--lib", "--quiet"]).current_dir(&folder).env("CARGO_TARGET_DIR", &target);
        let output = command.output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        target.join("debug").join(format!("{prefix}odd{suffix}"))
    })
}

/// Returns the target folder for crates outside of the workspace, so that their dependencies are built once.
pub(crate) fn shared_target() -> PathBuf {
    let bin = Path::new(env!("CARGO_BIN_EXE_passhost")).parent().expect("a folder");
    bin.parent().expect("a target folder").join("readme")
}

/// Writes a file only if its content differs, to keep its time stamp.
fn write(path: &Path, text: &str) {
    if std::fs::read_to_string(path).ok().as_deref() != Some(text) {
        std::fs::write(path, text).expect("a file");
    }
}

impl Case {
    /// Adds the library to the folder of the case, and lists it before crates of this workspace.
    pub(crate) fn odd(self, folders: &[&str]) -> Case {
        let case = self.crates(folders);
        std::fs::copy(library(), case.path(FILE)).expect("a copy");
        let crates = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
        case.file("passes.toml", format!("[[plugin]]\npath = \"{FILE}\"\n{crates}"))
    }

    /// Changes the hash of the library, like another build.
    pub(crate) fn touch_odd(&self) {
        let mut bytes = std::fs::read(self.path(FILE)).expect("the library");
        bytes.push(0);
        std::fs::write(self.path(FILE), bytes).expect("the library");
    }

    /// Returns a command in whose environment ODD is `odd`.
    pub(crate) fn odd_command(&self, odd: &str, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("ODD", odd);
        command
    }
}
