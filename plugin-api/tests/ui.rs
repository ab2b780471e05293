//! Tests the compiler's messages for macros that are used wrongly.
//! `TRYBUILD=overwrite cargo test -p passhost-plugin-api --test ui` rewrites the `.stderr` files.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The messages are those of one compiler; the wording of others differs.
const COMPILER: &str = "rustc 1.95.";

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

#[test]
fn wrong_declarations_say_what_would_be_right() {
    let version = rustc().arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(COMPILER) {
        println!("not compared: the messages are those of {COMPILER}x, this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

/// Returns the newest build of this crate among the libraries linked with the test.
fn built() -> (PathBuf, PathBuf) {
    let exe = std::env::current_exe().expect("a test has a path");
    let folder = exe.parent().expect("it lies in a folder").to_path_buf();
    let files = std::fs::read_dir(&folder).expect("the folder").flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libplugin_api-") && name.ends_with(".rlib")
    };
    let newest = files.filter(is_ours).max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    (newest.expect("the library"), folder)
}

/// Cargo sets the strategy for whole builds, so the compiler is called as cargo would.
#[test]
fn a_plugin_that_aborts_is_refused() {
    let (library, folder) = built();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/smallest.rs");
    let out = tempfile::tempdir().expect("a temporary folder");
    let compile = |strategy: &str| {
        let mut command = rustc();
        command.args(["--edition", "2024", "--crate-type", "cdylib", "--emit", "metadata", "-C", strategy]);
        command.arg("-L").arg(format!("dependency={}", folder.display())).arg("--extern");
        command.arg(format!("plugin_api={}", library.display())).arg(&source).current_dir(out.path());
        command.env("CARGO_PKG_NAME", "nothing").env("CARGO_PKG_VERSION", "0.1.0").output().expect("rustc runs")
    };
    let fine = compile("panic=unwind");
    assert!(fine.status.success(), "{}", String::from_utf8_lossy(&fine.stderr));
    let refused = compile("panic=abort");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(
        errors,
        [
            "error: a plugin must be built with panic = \"unwind\", since the boundary catches the panics of passes; \
             remove `panic = \"abort\"` from the profile in the workspace's Cargo.toml",
            "error: aborting due to 1 previous error"
        ],
        "{said}"
    );
}
