//! Tests the compiler's messages for macros that are used wrongly. `BLESS=1 cargo test -p passhost-plugin-api --test
//! ui` rewrites the `.stderr` files. The cases use the library that the tests are linked with, so that only the cases
//! are compiled.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The messages are those of one compiler version; the wording varies between versions.
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let files = std::fs::read_dir(folder).expect("the folder of the cases").flatten().map(|entry| entry.path());
    let cases: Vec<PathBuf> = files.filter(|path| path.extension() == Some(OsStr::new("rs"))).collect();
    assert!(cases.len() >= 60, "{cases:?}");
    let (left, wrong) = (Mutex::new(cases), Mutex::new(Vec::new()));
    let work = || {
        let next = || left.lock().expect("no thread panics").pop();
        while let Some(case) = next() {
            wrong.lock().expect("no thread panics").extend(compared(&case));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut wrong = wrong.into_inner().expect("no thread panics");
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the difference between the compiler's message about a case and the expected message, or `None` if they are
/// equal.
fn compared(case: &Path) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in a workspace");
    let out = tempfile::tempdir().expect("a temporary folder");
    let source = case.strip_prefix(root).expect("a case lies in the workspace");
    let output = plugin(source, "bin", out.path()).current_dir(root).output().expect("rustc runs");
    let found = normalized(&String::from_utf8_lossy(&output.stderr));
    let golden = case.with_extension("stderr");
    if output.status.success() {
        return Some(format!("{} compiles, and should not", source.display()));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&golden, found).expect("the file can be written");
        return None;
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    (found != expected).then(|| format!("== {}: expected\n{expected}== found\n{found}", source.display()))
}

/// Removes parts that differ between machines and versions: line numbers of the library, and the compiler's folder.
fn normalized(said: &str) -> String {
    let ends =
        ["error: aborting due to", "For more information about", "Some errors have detailed", "error: could not"];
    let (mut out, mut is_own) = (String::new(), true);
    for line in said.lines().filter(|line| !ends.iter().any(|end| line.starts_with(end))) {
        let text = line.trim_start();
        let gutter = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &text[..text.len() - gutter.len()];
        let gutter = gutter.trim_start();
        if let Some((arrow, place)) =
            ["--> ", "::: "].into_iter().find_map(|arrow| Some((arrow, text.strip_prefix(arrow)?)))
        {
            is_own = place.starts_with("plugin-api/tests/ui/");
            let place = place.strip_prefix("plugin-api/").unwrap_or(place);
            let place = place.split_once("/library/").map_or(place.to_string(), |(_, file)| format!("$RUST/{file}"));
            let file = place.split(':').next().unwrap_or_default();
            out.push_str(&format!("  {arrow}{}", if is_own { &place } else { file }));
        } else if gutter.starts_with('|') || gutter.starts_with("= ") {
            out.push_str(&format!("{:<3}{gutter}", if is_own { number } else { "" }));
        } else if let Some((before, _)) = line.strip_prefix("note: inside").and_then(|_| line.split_once("::<")) {
            // Removes the size of the metadata, which depends on the version of the compiler.
            out.push_str(&format!("{before}`"));
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    format!("{}\n", out.trim_end())
}

/// Returns the command that compiles a plugin as cargo would.
fn plugin(source: &Path, kind: &str, out: &Path) -> Command {
    let (library, folder) = built();
    let mut command = rustc();
    command.args(["--edition", "2024", "--crate-type", kind, "--emit", "metadata", "--out-dir"]).arg(out);
    command.arg("-L").arg(format!("dependency={}", folder.display())).arg("--extern");
    command.arg(format!("plugin_api={}", library.display())).arg(source);
    command.env("CARGO_PKG_NAME", "nothing").env("CARGO_PKG_VERSION", "0.1.0");
    command
}

/// Returns the newest build of this crate in this workspace, and the folder of its dependencies. Copies of the
/// workspace built by other tests share the folder, and their sources have absolute paths.
fn built() -> (PathBuf, PathBuf) {
    let exe = std::env::current_exe().expect("the path of the test program");
    let folder = exe.parent().expect("the folder of the test program").to_path_buf();
    let files = std::fs::read_dir(&folder).expect("the folder").flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(unit) = name.strip_prefix("lib").and_then(|name| name.strip_suffix(".rlib")) else { return false };
        let sources = std::fs::read_to_string(folder.join(unit).with_extension("d")).unwrap_or_default();
        unit.starts_with("plugin_api-") && sources.contains(": plugin-api/src/lib.rs")
    };
    let newest = files.filter(is_ours).max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    (newest.expect("the library"), folder)
}

/// Cargo sets the strategy for whole builds, so the compiler is called as cargo would.
#[test]
fn a_plugin_that_aborts_is_refused() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/smallest.rs");
    let out = tempfile::tempdir().expect("a temporary folder");
    let compile =
        |strategy: &str| plugin(&source, "cdylib", out.path()).args(["-C", strategy]).output().expect("rustc runs");
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
