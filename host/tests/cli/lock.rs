//! Tests of the lockfile: when it is written, what it contains, and what it refuses.

use super::odd::{FILE, shared_target};
use super::{Case, root};
use std::path::Path;
use std::process::Command;

const OPS: &str = "plugins/relax-ops";
const RUN: [&str; 5] = ["run", "small.py", "--passes", "", "-o"];

fn run(case: &Case, more: &[&str]) -> (String, i32) {
    let args = [&RUN[..], &["out.py"], more].concat();
    let (_, stderr, code) = case.run(&args, b"");
    (stderr, code)
}

pub(super) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text")
}

/// The first run writes the lockfile, and the next run does not. Then the plugin changes.
#[test]
fn lock_and_change() {
    let case = Case::new("lock_and_change").odd(&[OPS]);
    assert_eq!(run(&case, &[]), (String::new(), 0));
    let first = text(&case.path("passes.lock"));
    let target = first.lines().find_map(|line| line.strip_suffix('"')?.split_once(" = \"")?.0.split_once("-unknown"));
    assert_eq!(target.is_some(), cfg!(target_os = "linux"), "{first}");
    assert_eq!(run(&case, &[]), (String::new(), 0));
    assert_eq!(run(&case, &["--locked"]), (String::new(), 0));
    assert_eq!(text(&case.path("passes.lock")), first);

    case.touch_odd();
    let locked = [&RUN[..], &["out.py", "--locked"]].concat();
    let plain = &locked[..locked.len() - 1];
    let mut all = format!("{}\n", case.normalize(&first));
    for args in [&locked, plain, &locked, &["lock"]] {
        all.push_str(&case.shown(args, case.command(args), b""));
        all.push('\n');
    }
    all.push_str(&case.normalize(&text(&case.path("passes.lock"))));
    case.golden(&generic(&all));
}

/// Replaces the target triple of this system.
fn generic(text: &str) -> String {
    let triple = |line: &str| {
        let (key, rest) = line.split_once(" = \"")?;
        (key.matches('-').count() >= 2).then(|| format!("<this target> = \"{rest}"))
    };
    text.lines().map(|line| triple(line).unwrap_or_else(|| line.to_string()) + "\n").collect()
}

/// Every command that reads plugins refuses a changed plugin before reading its metadata.
#[test]
fn locked_everywhere() {
    let case = Case::new("locked_everywhere").odd(&[OPS]);
    assert_eq!(case.run(&["lock"], b"").2, 0);
    case.touch_odd();
    let commands: [&[&str]; 4] = [
        &["list", "--locked"],
        &["plan", "--passes", "", "--locked"],
        &["explain", "odd.Quiet", "--locked"],
        &["check", "--locked"],
    ];
    for args in commands {
        let (_, stderr, code) = case.run(args, b"");
        assert_eq!(code, 3, "{args:?}: {stderr}");
        assert!(stderr.contains("differs from the plugin in passes.lock: its sha256 is "), "{args:?}: {stderr}");
        assert!(case.run(&args[..args.len() - 1], b"").2 == 0, "{args:?} without --locked");
    }
    // A damaged section is not even read.
    let mut bytes = std::fs::read(case.path(FILE)).expect("the library");
    let at = bytes.windows(3).position(|window| window == b"odd").expect("its name");
    bytes[at..at + 3].copy_from_slice(b"\xff\xff\xff");
    std::fs::write(case.path(FILE), bytes).expect("the library");
    let (_, stderr, _) = case.run(&["list", "--locked"], b"");
    assert!(stderr.contains("differs from the plugin in passes.lock: its sha256 is "), "{stderr}");
    // A file that is not a library is reported as such, whatever its hash.
    let case = case.file(FILE, "text");
    let (_, stderr, _) = case.run(&["list", "--locked"], b"");
    assert!(stderr.contains("is not a shared library"), "{stderr}");
}

#[test]
fn locked_without_a_lockfile() {
    Case::new("locked_without_a_lockfile").odd(&[]).check(&["list", "--locked"], b"");
}

#[test]
fn locked_with_other_entries() {
    let case = Case::new("locked_with_other_entries").odd(&[OPS]);
    assert_eq!(case.run(&["lock"], b"").2, 0);
    let all = text(&case.path("passes.toml"));
    let case = case.odd(&[]);
    let fewer = case.shown(&["list", "--locked"], case.command(&["list", "--locked"]), b"");
    assert_eq!(case.run(&["lock"], b"").2, 0);
    let case = case.file("passes.toml", all);
    let more = case.shown(&["list", "--locked"], case.command(&["list", "--locked"]), b"");
    case.golden(&(fewer + &more));
}

/// A lockfile from a different system lacks a hash for this system, which is then added.
#[test]
fn a_lockfile_of_another_system() {
    let case = Case::new("a_lockfile_of_another_system").odd(&[]);
    assert_eq!(case.run(&["lock"], b"").2, 0);
    let lock = text(&case.path("passes.lock"));
    let line = lock.lines().last().expect("a line").to_string();
    let case = case.file("passes.lock", lock.replace(&line, &format!("sparc-sun-solaris = \"{}\"", "0".repeat(64))));
    let (_, stderr, code) = case.run(&["list", "--locked"], b"");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("its sha256 for ") && stderr.contains(" is missing in passes.lock"), "{stderr}");
    let (stdout, stderr, code) = case.run(&["lock"], b"");
    assert_eq!((stdout.as_str(), code), ("passes.lock written: 1 plugin\n", 0), "{stderr}");
    let lock = text(&case.path("passes.lock"));
    assert!(lock.contains("sparc-sun-solaris") && lock.contains(&line), "{lock}");
    assert_eq!(case.run(&["list", "--locked"], b"").2, 0);
    // A different version of a plugin is reported as a change, whatever the system.
    let case = case.file("passes.lock", lock.replace("version = \"0.1.0\"", "version = \"0.0.9\""));
    let (stdout, ..) = case.run(&["lock"], b"");
    assert!(stdout.contains("odd: version 0.0.9 -> 0.1.0"), "{stdout}");
    assert!(!text(&case.path("passes.lock")).contains("sparc-sun-solaris"));
}

pub(super) const SOURCE: &str = "plugin_api::export_plugin! { /** Does nothing. */ function pass \"mine.Nothing\" { opt_level: 0, run: nothing } }\n\
                      use plugin_api::prelude::*;\n\
                      fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> { Ok(body.clone()) }\n";

/// Creates a manifest with the crate `mine`. Its package has a unique name, because all tests build in one target folder.
pub(super) fn mine(name: &'static str, source: &str) -> Case {
    let cargo_toml = format!(
        "[package]\nname = \"mine_{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
         [workspace]\n[dependencies]\npasshost-plugin-api = {{ path = \"{}\" }}\n",
        root().join("plugin-api").display()
    );
    let case = Case::new(name).file("passes.toml", "[[plugin]]\ncrate = \"mine\"\n");
    std::fs::create_dir_all(case.path("mine/src")).expect("a folder");
    let case = case.file("mine/Cargo.toml", &cargo_toml).file("mine/src/lib.rs", source);
    std::fs::copy(root().join("Cargo.lock"), case.path("mine/Cargo.lock")).expect("the lock file");
    case
}

/// A command that builds crates in the target folder that such tests share. Settings of cargo in the environment of the
/// tests would be locked as well, and change the lockfile.
pub(super) fn building(case: &Case, args: &[&str]) -> Command {
    let mut command = case.command(args);
    command.env("CARGO_TARGET_DIR", shared_target());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PROFILE_")) {
        command.env_remove(name);
    }
    command
}

pub(super) fn built(case: &Case, args: &[&str]) -> (String, i32) {
    let (stdout, stderr, code) = case.finish(building(case, args), b"");
    (stdout + &stderr, code)
}

/// A crate is pinned by its inputs, and a changed crate is refused before it is built.
#[test]
fn sources_of_a_crate_are_locked() {
    let case = mine("sources", SOURCE);
    let command = |args: &[&str]| built(&case, args);
    let (said, code) = command(&["lock"]);
    assert_eq!((said.as_str(), code), ("passes.lock written: 1 plugin\n", 0));
    let lock = text(&case.path("passes.lock"));
    assert!(lock.contains("from = \"crate mine\"") && lock.contains("sources = \""), "{lock}");
    // Files that are not built into the library do not count.
    std::fs::write(case.path("mine/notes.txt"), "later").expect("a file");
    assert_eq!(command(&["list", "--locked"]).1, 0);

    for (file, content) in [("src/lib.rs", format!("{SOURCE}nonsense")), ("src/more/b.rs", "// More.".to_string())] {
        let path = case.path("mine").join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, content).expect("a file");
        let (said, code) = command(&["list", "--locked"]);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("the digest of its sources, manifests and Cargo.lock is "), "{said}");
        assert!(!said.contains("nonsense"), "it was built: {said}");
        std::fs::write(&path, if file == "src/lib.rs" { SOURCE } else { "// Less." }).expect("a file");
    }
    let (said, code) = command(&["lock"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("mine_sources: digest of its sources "), "{said}");
}

/// Files that a crate includes from elsewhere, and inputs that its build script declares, are locked as well.
#[test]
fn other_inputs_of_a_crate_are_locked() {
    let case = mine("inputs", &format!("{SOURCE}const _: &str = include_str!(\"../data/table.txt\");\n"));
    let script = "fn main() { println!(\"cargo::rerun-if-changed=rules\"); }\n";
    ["mine/data", "mine/rules"].iter().for_each(|it| std::fs::create_dir(case.path(it)).expect("a folder"));
    let case = case.file("mine/data/table.txt", "one").file("mine/rules/a.txt", "one").file("mine/build.rs", script);
    assert_eq!(built(&case, &["lock"]).1, 0);
    assert!(text(&case.path("passes.lock")).contains("\n\"data/table.txt\" = \""));
    assert_eq!(built(&case, &["list", "--locked"]).1, 0);
    for (file, name) in [
        ("mine/data/table.txt", "the sha256 of data/table.txt"),
        ("mine/rules/a.txt", "the sha256 of rules/a.txt"),
        ("mine/rules/b.txt", "the digest of the names in rules"),
    ] {
        std::fs::write(case.path(file), "two").expect("a file");
        for command in ["list", "build"] {
            let (told, code) = built(&case, &[command, "--locked"]);
            assert!(code == 3 && told.contains(&format!("{name}, which its build reads, is ")), "{told}");
        }
        let (told, code) = built(&case, &["lock"]);
        assert!(code == 0 && told.contains(&format!("mine_inputs: {name}, which its build reads changed")), "{told}");
    }
    // Cargo restores an overwritten library.
    let library = shared_target().join("debug/libmine_inputs.so");
    std::fs::remove_file(&library).expect("a library");
    std::fs::write(&library, "another").expect("a file");
    for command in ["build", "list"] {
        let (told, code) = built(&case, &[command, "--locked"]);
        assert_eq!(code, 0, "{told}");
    }
}

/// The manifest may be given by any path, and may itself contain absolute paths.
#[test]
fn absolute_paths_are_locked() {
    let case = Case::new("absolute").odd(&[]);
    let listed = format!("[[plugin]]\npath = \"{}\"\n", case.path(FILE).display());
    let case = case.file("passes.toml", listed);
    assert_eq!(case.run(&["lock"], b"").2, 0);
    let absolute = case.path("passes.toml").display().to_string();
    for args in [&["list", "--locked"][..], &["list", "--locked", "--manifest", &absolute]] {
        let (_, stderr, code) = case.run(args, b"");
        assert_eq!(code, 0, "{args:?}: {stderr}");
    }
    let (stdout, ..) = case.run(&["lock", "--manifest", &absolute], b"");
    assert!(stdout.contains("is up to date"), "{stdout}");
}

/// Reading a pipe could wait forever.
#[cfg(unix)]
#[test]
fn a_lockfile_that_is_no_file() {
    let case = Case::new("a_lockfile_that_is_no_file").odd(&[]);
    let made = std::process::Command::new("mkfifo").arg(case.path("passes.lock")).status().expect("mkfifo runs");
    assert!(made.success());
    let mut all = case.shown(&["list", "--locked"], case.command(&["list", "--locked"]), b"");
    std::fs::remove_file(case.path("passes.lock")).expect("a pipe");
    std::os::unix::fs::symlink("nowhere/passes.lock", case.path("passes.lock")).expect("a link");
    all.push_str(&case.shown(&["lock"], case.command(&["lock"]), b""));
    case.golden(&all);
}

/// A lockfile that cannot be written causes a warning, and is still checked.
#[test]
fn a_lockfile_that_is_read_only() {
    let case = Case::new("a_lockfile_that_is_read_only").odd(&[OPS]);
    assert_eq!(case.run(&["lock"], b"").2, 0);
    let before = text(&case.path("passes.lock"));
    let mut mode = std::fs::metadata(case.path("passes.lock")).expect("a file").permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(case.path("passes.lock"), mode).expect("a mode");
    assert_eq!(run(&case, &[]), (String::new(), 0));
    case.touch_odd();
    case.check(&[&RUN[..], &["out.py"]].concat(), b"");
    assert_eq!(text(&case.path("passes.lock")), before);
}

#[test]
fn a_folder_that_is_read_only() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new("a_folder_that_is_read_only");
    std::fs::create_dir(case.path("fixed")).expect("a folder");
    let case = case.file("fixed/passes.toml", "");
    std::fs::set_permissions(case.path("fixed"), PermissionsExt::from_mode(0o555)).expect("a mode");
    let (stderr, code) = run(&case, &["--manifest", "fixed/passes.toml"]);
    assert_eq!(code, 0, "{stderr}");
    // An administrator can write it anyway.
    let written = case.path("fixed/passes.lock").exists();
    assert_eq!(stderr.contains("warning: lockfile fixed/passes.lock cannot be written"), !written, "{stderr}");
    std::fs::set_permissions(case.path("fixed"), PermissionsExt::from_mode(0o755)).expect("a mode");
}

/// The line and the remedy for each kind of damage.
#[test]
fn a_damaged_lockfile() {
    let case = Case::new("a_damaged_lockfile").odd(&[]);
    let good = format!(
        "format = 1\n\n[[plugin]]\napi = \"0.1.0\"\nfrom = \"path {FILE}\"\nname = \"odd\"\nversion = \"0.1.0\"\n\n\
         [plugin.sha256]\nx86_64-unknown-linux-gnu = \"{}\"\n",
        "0".repeat(64)
    );
    let changes = [
        ("format = 1", "format = = 1"),
        ("format = 1", "format = 2"),
        ("format = 1\n", ""),
        ("api = ", "<<<<<<< HEAD\napi = "),
        ("name = \"odd\"\n", ""),
        ("version = \"0.1.0\"", "version = \"new\""),
        ("version = \"0.1.0\"", "version = 1"),
        ("0000\"", "000\""),
        ("[plugin.sha256]", "[plugin.sha265]"),
        ("[plugin.sha256]", "[plugin.sources]"),
    ];
    let mut case = case;
    let mut all = String::new();
    for (from, to) in changes {
        assert!(good.contains(from));
        case = case.file("passes.lock", good.replacen(from, to, 1));
        let args = [&RUN[..], &["out.py"]].concat();
        all.push_str(&case.shown(&args, case.command(&args), b""));
    }
    case = case.file("passes.lock", b"format = 1\n# \xff\n");
    all.push_str(&case.shown(&["lock"], case.command(&["lock"]), b""));
    case.golden(&all);
}

/// Hashes are cached in the user's cache folder, and `--locked` does not rely on them.
#[test]
fn hashes_are_remembered() {
    let case = Case::new("hashes").odd(&[]);
    let age = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    std::fs::File::open(case.path(FILE)).and_then(|file| file.set_modified(age)).expect("an older file");
    let memory = || {
        let folder = std::fs::read_dir(case.path("cache/passhost")).ok()?;
        let file = folder.flatten().map(|entry| entry.path()).find(|path| path.is_file())?;
        Some((text(&file), file))
    };
    // The hash of a recently changed file is not cached, so wait until it is old enough.
    let (said, file) = loop {
        assert_eq!(run(&case, &[]).1, 0);
        if let Some(found) = memory() {
            break found;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    };
    let hash = said.trim_end().rsplit(' ').next().expect("a hash").to_string();
    assert!(text(&case.path("passes.lock")).contains(&hash));
    std::fs::write(&file, said.replace(&hash, &"0".repeat(64))).expect("a file");
    let (stderr, _) = run(&case, &[]);
    assert!(stderr.contains(&format!("sha256 {hash} -> {}", "0".repeat(64))), "{stderr}");
    let (stderr, code) = run(&case, &["--locked"]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains(&format!("its sha256 is {hash}")), "{stderr}");
}
