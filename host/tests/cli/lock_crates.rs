//! Tests that `--locked` covers all inputs of cargo and recognizes the library that cargo built, and that commands that
//! build nothing run no code.

use super::Case;
use super::lock::{SOURCE, building, built, mine, text};
use super::odd::shared_target;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

/// File that programs create when they run.
const MARK: &str = "ran";

/// Writes a program that creates the mark and then runs its arguments.
fn marking(case: &Case, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    let script = format!("#!/bin/sh\ntouch '{}'\nexec \"$@\"\n", case.path(MARK).display());
    std::fs::write(case.path(name), script).expect("a script");
    std::fs::set_permissions(case.path(name), PermissionsExt::from_mode(0o755)).expect("a mode");
}

/// A build script that creates the mark next to the folder of its crate.
const BUILD_SCRIPT: &str = "fn main() {\n    let folder = std::env::var(\"CARGO_MANIFEST_DIR\").expect(\"a folder\");\n    \
                            std::fs::write(folder + \"/../ran\", \"\").expect(\"a mark\");\n}\n";

/// Returns true if something ran since the last call.
fn ran(case: &Case) -> bool {
    std::fs::remove_file(case.path(MARK)).is_ok()
}

fn write(case: &Case, name: &str, text: impl AsRef<[u8]>) {
    let path = case.path(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

/// Checks that crates that differ from the lockfile are refused before any of their code runs.
fn refused(case: &Case, env: &[(&str, &str)], why: &str) {
    for args in [&["build", "--locked"][..], &["run", "small.py", "--passes", "", "--locked"], &["list", "--locked"]] {
        let mut command = building(case, args);
        command.envs(env.iter().copied());
        let (_, said, code) = case.finish(command, b"");
        assert!(code == 3 && said.contains(why), "{args:?} {env:?}: {code} {said}");
        assert!(!ran(case), "{args:?} {env:?}: it ran");
    }
}

fn fine(case: &Case, args: &[&str]) -> String {
    let (said, code) = built(case, args);
    assert_eq!(code, 0, "{args:?}: {said}");
    said
}

#[test]
fn settings_of_cargo_are_locked() {
    let case = mine("settings", SOURCE);
    marking(&case, "wrap.sh");
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    let wrapper = case.path("wrap.sh").display().to_string();
    let config = format!("[build]\nrustc-wrapper = \"{wrapper}\"\n");
    for file in ["mine/.cargo/config.toml", "mine/.cargo/config", ".cargo/config.toml"] {
        write(&case, file, &config);
        refused(&case, &[], "(with ");
        std::fs::remove_file(case.path(file)).expect("a file");
    }
    for variable in ["RUSTC_WRAPPER", "RUSTC", "CARGO_BUILD_RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        refused(&case, &[(variable, &wrapper)], variable);
    }
    refused(&case, &[("RUSTFLAGS", "--cfg other")], "(with $RUSTFLAGS)");
    write(&case, "mine/rust-toolchain.toml", "[toolchain]\nchannel = \"1.0\"\n");
    refused(&case, &[], "rust-toolchain.toml");
    write(&case, "mine/rust-toolchain.toml", "[toolchain]\npath = \"../tools\"\n");
    refused(&case, &[], "cannot be locked: rust-toolchain.toml selects the folder ../tools as the toolchain");
    std::fs::remove_file(case.path("mine/rust-toolchain.toml")).expect("a file");
    // Settings that do not affect the build are not locked.
    write(&case, "mine/.cargo/config.toml", "[net]\nretry = 3\n[alias]\nb = \"build\"\n[build]\njobs = 1\n");
    fine(&case, &["list", "--locked"]);
    // Once the wrapper is locked, its content is locked, too.
    write(&case, "mine/.cargo/config.toml", &config);
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    assert!(ran(&case), "the wrapper did not run");
    write(&case, "wrap.sh", format!("{}# More.\n", text(&case.path("wrap.sh"))));
    refused(&case, &[], "/wrap.sh) is ");
}

/// Settings name these files in various ways, including programs that do not exist yet.
#[test]
fn files_of_settings_are_locked() {
    let case = mine("named_files", SOURCE);
    std::fs::create_dir_all(case.path("mine/my tools")).expect("a folder");
    marking(&case, "mine/my tools/wrap.sh");
    write(&case, "mine/.cargo/config.toml", "[build]\nrustc-wrapper = \"my tools/wrap.sh\"\n");
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    assert!(ran(&case), "the wrapper did not run");
    let wrapper = text(&case.path("mine/my tools/wrap.sh"));
    write(&case, "mine/my tools/wrap.sh", format!("{wrapper}# More.\n"));
    refused(&case, &[], "/config.toml: my tools/wrap.sh) is ");
    std::fs::remove_file(case.path("mine/my tools/wrap.sh")).expect("a file");
    refused(&case, &[], "cannot be locked: .cargo/config.toml refers to my tools/wrap.sh, which does not exist");
    // The variable CARGO does not determine which program performs the build.
    std::fs::remove_dir_all(case.path("mine/.cargo")).expect("a folder");
    marking(&case, "cargo.sh");
    fine(&case, &["lock"]);
    write(&case, "mine/src/lib.rs", format!("{SOURCE}// More.\n"));
    for args in [&["lock"][..], &["build", "--locked"], &["run", "small.py", "--passes", "", "--locked"]] {
        let mut command = building(&case, args);
        command.env("CARGO", case.path("cargo.sh"));
        let (_, said, code) = case.finish(command, b"");
        assert!(code == 0 && !ran(&case), "{args:?}: {code} {said}");
    }
}

/// Build scripts run before the library exists, so the build scripts of path dependencies are checked before anything
/// is built.
#[test]
fn crates_by_path_are_locked_before_they_are_built() {
    let case = mine("by_path", SOURCE);
    let manifest = text(&case.path("mine/Cargo.toml"));
    write(&case, "mine/Cargo.toml", manifest + "helper_by_path = { path = \"../helper\" }\n");
    write(
        &case,
        "helper/Cargo.toml",
        "[package]\nname = \"helper_by_path\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    write(&case, "helper/src/lib.rs", "//! Nothing.\n");
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    write(&case, "helper/build.rs", BUILD_SCRIPT);
    refused(&case, &[], "the digest of its sources, manifests and Cargo.lock is ");
    write(&case, "helper/build.rs", "fn main() {}\n");
    refused(&case, &[], "the digest of its sources, manifests and Cargo.lock is ");
    fine(&case, &["lock"]);
    write(&case, "helper/build.rs", BUILD_SCRIPT);
    refused(&case, &[], "the digest of its sources, manifests and Cargo.lock is ");
}

/// Environment variables that sources and build scripts read are checked before anything runs, even on a new system.
#[test]
fn variables_that_a_build_reads_are_locked() {
    let case =
        mine("variables", &format!("{SOURCE}pub const A: [Option<&str>; 2] = [option_env!(\"ZZ_SOURCE\"), None];\n"));
    write(&case, "mine/src/more.rs", "");
    let reads = "pub const SET: [&str; 2] = [env!(\"ZZ_SET\"), env!(\"CARGO_PKG_NAME\")];\n";
    write(&case, "mine/src/lib.rs", text(&case.path("mine/src/lib.rs")) + reads);
    let says =
        "println!(\"cargo::rerun-if-env-changed=ZZ_SCRIPT\\ncargo::rustc-env=ZZ_SET={:?}\", option_env!(\"ZZ_OF\"));";
    write(&case, "mine/build.rs", BUILD_SCRIPT.replacen("{\n", &format!("{{\n    {says}\n"), 1));
    let manifest = text(&case.path("mine/Cargo.toml"));
    write(&case, "mine/Cargo.toml", manifest + "helper_of_variables = { path = \"../helper\" }\n");
    write(
        &case,
        "helper/Cargo.toml",
        "[package]\nname = \"helper_of_variables\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    write(&case, "helper/src/lib.rs", "pub const A: Option<&str> = option_env!(\"ZZ_HELPER\");\n");
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    ran(&case);
    let lock = text(&case.path("passes.lock"));
    for name in ["ZZ_HELPER", "ZZ_OF", "ZZ_SCRIPT", "ZZ_SOURCE"] {
        assert!(lock.contains(&format!("\n{name} = \"unset\"\n")), "{name}: {lock}");
        for value in ["", "other"] {
            refused(&case, &[(name, value)], &format!("the sha256 of the variable {name}, which its build reads, is "));
        }
    }
    assert!(!lock.contains("ZZ_SET") && !lock.contains("CARGO_"), "{lock}");
    // Builds on another system read other variables. Unset variables have no effect, and they are kept in the lockfile.
    let other = lock.replace("ZZ_OF = \"unset\"\n", "ZZ_OTHER = \"unset\"\n");
    write(&case, "passes.lock", &other);
    fine(&case, &["list", "--locked"]);
    fine(&case, &["lock"]);
    let both = text(&case.path("passes.lock"));
    assert!(both.contains("ZZ_OF = ") && both.contains("ZZ_OTHER = "), "{both}");
    write(&case, "passes.lock", &lock);
    std::fs::remove_dir_all(case.path("cache")).expect("a folder");
    refused(&case, &[("ZZ_SOURCE", "other")], "the sha256 of the variable ZZ_SOURCE");
    let with = |args: &[&str]| {
        let mut command = building(&case, args);
        command.env("ZZ_SOURCE", "other");
        let (stdout, stderr, code) = case.finish(command, b"");
        assert_eq!(code, 0, "{args:?}: {stderr}");
        stdout
    };
    assert!(with(&["lock"]).contains("the variable ZZ_SOURCE, which its build reads changed"));
    with(&["build", "--locked"]);
    with(&["list", "--locked"]);
    ran(&case);
    let (said, code) = built(&case, &["run", "small.py", "--passes", "", "--locked"]);
    assert!(code == 3 && said.contains("the variable ZZ_SOURCE") && !ran(&case), "{said}");
    // Without --locked, the library is rebuilt, and the change in the lockfile is reported.
    let said = fine(&case, &["run", "small.py", "--passes", "", "-o", "out.py"]);
    assert!(said.contains("the variable ZZ_SOURCE, which its build reads changed"), "{said}");
    fine(&case, &["list", "--locked"]);
}

/// Tests source files in unusual folders, and outside of the crate.
#[test]
fn modules_from_elsewhere_are_locked_before_they_are_built() {
    let places = ["mine/.hidden/a.rs", "mine/src/.hidden/b.rs", "mine/sub/c.rs", "mine/tagged/d.rs", "beside/e.rs"];
    let uses = |files: &[&str], above: &str| -> String {
        let module = |file: &&str| {
            let name = file.rsplit('/').next().and_then(|last| last.strip_suffix(".rs")).expect("a name");
            format!("#[path = \"{above}{file}\"]\npub mod {name};\n")
        };
        files.iter().map(module).collect()
    };
    let case = mine("elsewhere", &(SOURCE.to_string() + &uses(&["beside/f.rs"], "../../")));
    write(&case, "mine/sub/Cargo.toml", "[package]\nname = \"sub\"\nversion = \"0.1.0\"\n[workspace]\n");
    write(&case, "mine/tagged/CACHEDIR.TAG", "");
    let script = "fn main() {\n    a::f();\n    b::f();\n    c::f();\n    d::f();\n    e::f();\n}\n";
    write(&case, "mine/build.rs", uses(&places, "../") + script);
    places.iter().for_each(|place| write(&case, place, "pub fn f() {}\n"));
    write(&case, "beside/f.rs", "");
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    for fresh in [false, true] {
        if fresh {
            std::fs::remove_dir_all(case.path("cache")).expect("a folder");
            fine(&case, &["build", "--locked"]);
            std::fs::remove_dir_all(case.path("cache")).expect("a folder");
        }
        for place in places.into_iter().chain(["beside/f.rs"]) {
            let before = text(&case.path(place));
            write(&case, place, BUILD_SCRIPT.replace("fn main", "pub fn f"));
            refused(&case, &[], "which its build reads, is ");
            write(&case, place, before);
        }
        std::fs::remove_file(case.path("beside/f.rs")).expect("a file");
        refused(&case, &[], "the sha256 of ../beside/f.rs, which its build reads, is none, ");
        write(&case, "beside/f.rs", "");
    }
}

fn library(name: &str) -> PathBuf {
    shared_target().join("debug").join(format!("libmine_{name}.so"))
}

fn age(path: &Path, time: SystemTime) {
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("a file");
    file.set_modified(time).expect("a time");
}

/// Cargo compares times, but passhost recognizes the library that it built.
#[test]
fn a_library_that_was_written_over_is_built_again() {
    let case = mine("written_over", SOURCE);
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    let file = library("written_over");
    let (good, time) = (std::fs::read(&file).expect("a library"), std::fs::metadata(&file).expect("a file"));
    let mut bad = good.clone();
    let names = (0..bad.len() - 12).filter(|at| good[*at..].starts_with(b"mine.Nothing"));
    names.for_each(|at| bad[at..at + 12].copy_from_slice(b"mine.Notihng"));
    std::fs::write(&file, &bad).expect("a library");
    age(&file, time.modified().expect("a time"));
    let (said, code) = built(&case, &["list", "--locked"]);
    assert!(code == 3 && said.contains("run `passhost build --locked` to build it"), "{said}");
    let said = fine(&case, &["list"]);
    assert!(said.contains("mine.Notihng"), "{said}");
    fine(&case, &["build", "--locked"]);
    assert!(fine(&case, &["list", "--locked"]).contains("mine.Nothing"));
    // The same applies if it was used without --locked in between.
    std::fs::write(&file, &bad).expect("a library");
    age(&file, time.modified().expect("a time"));
    fine(&case, &["build"]);
    let (said, code) = built(&case, &["run", "small.py", "--passes", "", "--locked"]);
    assert!(!said.contains("Notihng"), "{code} {said}");
    assert!(fine(&case, &["list", "--locked"]).contains("mine.Nothing"));
}

/// Several users of one target folder each get their own build, and no build is mistaken for another.
#[test]
fn several_build_the_same_library_again() {
    let case = mine("several", SOURCE);
    fine(&case, &["lock"]);
    fine(&case, &["build"]);
    for same_cache in [true, false] {
        let spawn = |user: usize| {
            let mut command = building(&case, &["build", "--locked"]);
            let cache = case.path(&format!("cache-{same_cache}-{}", if same_cache { 0 } else { user }));
            command.env("XDG_CACHE_HOME", cache);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("passhost runs")
        };
        let children: Vec<Child> = (0..4).map(spawn).collect();
        for child in children {
            let output = child.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{same_cache}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// Writing to the target folder is not enough to forge a record of passhost's builds.
#[test]
fn records_in_the_target_folder_are_not_believed() {
    let case = mine("forged", SOURCE);
    fine(&case, &["lock"]);
    fine(&case, &["build", "--locked"]);
    let file = library("forged");
    let good = std::fs::read(&file).expect("a library");
    let mut bad = good.clone();
    let names = (0..bad.len() - 12).filter(|at| good[*at..].starts_with(b"mine.Nothing"));
    names.for_each(|at| bad[at..at + 12].copy_from_slice(b"mine.Notihng"));
    let digest = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let records = std::fs::read_dir(case.path("cache/passhost/builds")).expect("a folder");
    let own = format!("{:?}", case.path("mine").canonicalize().expect("the folder of the crate"));
    let records = records.flatten().map(|entry| entry.path()).filter(|path| text(path).contains(&own));
    let records: Vec<PathBuf> = records.collect();
    let [record] = &records[..] else { panic!("{records:?}") };
    let forged = text(record).replace(&digest(&good), &digest(&bad));
    assert_ne!(forged, text(record));
    std::fs::write(&file, &bad).expect("a library");
    for name in [PathBuf::from("libmine_forged.passhost"), PathBuf::from(record.file_name().expect("a name"))] {
        std::fs::write(file.with_file_name(&name), &forged).expect("a file");
        let (said, code) = built(&case, &["list", "--locked"]);
        assert!(code == 3 && said.contains("run `passhost build --locked` to build it"), "{said}");
        std::fs::remove_file(file.with_file_name(name)).expect("a file");
    }
    // The test itself can write to the cache folder, where a forged record is trusted.
    std::fs::write(record, &forged).expect("a file");
    assert!(fine(&case, &["list", "--locked"]).contains("mine.Notihng"));
    // Without a folder for records, everything is rebuilt.
    let command = building(&case, &["run", "small.py", "--passes", "mine.Nothing", "--locked"]);
    let (_, stderr, code) = case.finish_without_cache(command);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn commands_that_build_nothing() {
    let case = mine("no_build", SOURCE);
    write(&case, "mine/build.rs", BUILD_SCRIPT);
    let commands: [&[&str]; 6] = [
        &["list"],
        &["plan", "--passes", ""],
        &["explain", "mine.Nothing"],
        &["config"],
        &["check", "--no-load"],
        &["plan", "--json", "--passes", "mine.Nothing"],
    ];
    let _ = std::fs::remove_file(library("no_build"));
    for args in &commands[..5] {
        let (said, code) = built(&case, args);
        assert!(code == 3 && said.contains("run `passhost build` to build it") && !ran(&case), "{args:?}: {said}");
    }
    fine(&case, &["build"]);
    assert!(ran(&case), "it was not built");
    for args in commands {
        let said = fine(&case, args);
        assert!(!said.contains("warning: ") && !ran(&case), "{args:?}: {said}");
    }
    write(&case, "mine/src/lib.rs", format!("{SOURCE}// More.\n"));
    for args in commands {
        let said = fine(&case, args);
        assert!(said.contains("warning: plugin crate ") && said.contains("changed since"), "{args:?}: {said}");
        assert!(!ran(&case), "{args:?}");
    }
    write(&case, "mine/build.rs", format!("{BUILD_SCRIPT}// More.\n"));
    fine(&case, &["check"]);
    assert!(ran(&case), "it was not built");
    assert!(!fine(&case, &["list"]).contains("warning"));
}

/// New files are noticed even if they are older than the library.
#[test]
fn older_files_are_seen() {
    let case = mine("older_files", SOURCE);
    let old = SystemTime::now() - Duration::from_secs(100_000);
    fine(&case, &["lock"]);
    write(&case, "mine/build.rs", BUILD_SCRIPT);
    // The time is older than the library, but newer than the files that earlier runs of this test left in the shared
    // target folder.
    let built = std::fs::metadata(library("older_files")).and_then(|file| file.modified()).expect("a time");
    age(&case.path("mine/build.rs"), built - Duration::from_millis(1));
    let said = fine(&case, &["lock"]);
    assert!(said.contains("digest of its sources") && ran(&case), "{said}");
    write(&case, "mine/src/lib.rs", SOURCE.replace("mine.Nothing", "mine.Something"));
    age(&case.path("mine/src/lib.rs"), old);
    let said = fine(&case, &["lock"]);
    assert!(said.contains("digest of its sources"), "{said}");
    assert!(fine(&case, &["list", "--locked"]).contains("mine.Something"));
    write(&case, "mine/src/lib.rs", SOURCE);
    age(&case.path("mine/src/lib.rs"), old);
    fine(&case, &["run", "small.py", "--passes", "mine.Nothing"]);
}
