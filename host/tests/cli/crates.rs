//! Tests plugins that are listed as crates: which crates cargo builds, and which library belongs to which crate.

use super::lock::{built, mine};
use super::{Case, root};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

impl Case {
    /// Adds a crate without dependencies. Its library is not a plugin, which is sufficient for these tests.
    fn crate_at(self, folder: &str, cargo_toml: &str) -> Case {
        std::fs::create_dir_all(self.path(folder).join("src")).expect("a folder");
        std::fs::write(self.path(folder).join("src/lib.rs"), "//! Nothing.\n").expect("a file");
        self.file(&format!("{folder}/Cargo.toml"), cargo_toml)
    }

    /// Runs a command without the target folder that other crates share.
    fn run_alone(&self, args: &[&str]) -> (String, i32) {
        let mut command = self.command(args);
        command.env_remove("CARGO_TARGET_DIR");
        let (stdout, stderr, code) = self.finish(command, b"");
        (stdout + &stderr, code)
    }
}

fn cargo_toml(name: &str, rest: &str) -> String {
    let head = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    format!("{head}[lib]\ncrate-type = [\"cdylib\"]\n{rest}")
}

const OWN: &str = "[workspace]\n";
const TWO: &str = "[[plugin]]\ncrate = \"a/nothing\"\n[[plugin]]\ncrate = \"b/nothing\"\n";

#[test]
fn crates_of_one_name_in_two_workspaces_are_two() {
    let case = Case::new("two").file("passes.toml", TWO);
    let case = case.crate_at("a/nothing", &cargo_toml("nothing", OWN));
    let case = case.crate_at("b/nothing", &cargo_toml("nothing", OWN));
    // The first run builds the crates, and the second finds them built.
    for _ in 0..2 {
        let (said, code) = case.run_alone(&["build"]);
        assert_eq!(code, 3, "{said}");
        for folder in ["a/nothing", "b/nothing"] {
            let file = Path::new("$CASE").join(folder).join("target/debug").join(library("nothing"));
            let expected = format!("plugin {}: is not a passhost plugin", file.display());
            assert!(said.contains(&expected), "{said}");
        }
        assert!(!said.contains("listed twice"), "{said}");
    }
}

/// Builds are reported in the format of other messages. If the library exists, nothing is reported.
#[test]
fn a_build_is_told_in_the_format_of_messages() {
    let case = Case::new("told").file("passes.toml", "[[plugin]]\ncrate = \"nothing\"\n");
    let case = case.crate_at("nothing", &cargo_toml("nothing", OWN));
    let told = |command: &str| -> Vec<String> {
        let (said, _) = case.run_alone(&[command, "--message-format", "json"]);
        let messages = said.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        let messages = messages.filter_map(|line: serde_json::Value| Some(line["message"].as_str()?.to_string()));
        messages.filter(|message| message.contains("building")).collect()
    };
    assert_eq!(told("build"), ["passhost: building nothing …"]);
    assert!(told("build").is_empty());
}

#[test]
fn crates_that_share_a_library_are_told() {
    let case = Case::new("shared").file("passes.toml", TWO);
    let case = case.crate_at("a/nothing", &cargo_toml("nothing", OWN));
    let case = case.crate_at("b/nothing", &cargo_toml("nothing", OWN));
    let mut command = case.command(&["build"]);
    command.env("CARGO_TARGET_DIR", case.path("target"));
    let (_, stderr, code) = case.finish(command, b"");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("is also the library of the crate $CASE/a/nothing"), "{stderr}");
}

#[test]
fn a_workspace_of_its_own_below_another_lock_file() {
    let case =
        Case::new("own").file("Cargo.lock", "version = 4\n").file("passes.toml", "[[plugin]]\ncrate = \"sub/third\"\n");
    let case = case.crate_at("sub/third", &cargo_toml("third", OWN));
    let (said, code) = case.run_alone(&["build"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("third.so: is not a passhost plugin") || !cfg!(target_os = "linux"), "{said}");
    assert!(said.contains("is not a passhost plugin"), "{said}");
}

#[test]
fn a_crate_that_a_workspace_above_excludes() {
    let case = Case::new("excluded")
        .file("Cargo.toml", "[workspace]\nexclude = [\"third\"]\n")
        .file("passes.toml", "[[plugin]]\ncrate = \"third\"\n");
    let case = case.crate_at("third", &cargo_toml("third", ""));
    let (said, _) = case.run_alone(&["build"]);
    assert!(said.contains("$CASE/third/target/debug") && said.contains("is not a passhost plugin"), "{said}");
}

#[test]
fn a_member_is_built_in_the_target_folder_of_its_workspace() {
    let case = Case::new("member")
        .file("Cargo.toml", "[workspace]\nmembers = [\"third\"]\nresolver = \"3\"\n")
        .file("passes.toml", "[[plugin]]\ncrate = \"third\"\n");
    let case = case.crate_at("third", &cargo_toml("third", ""));
    let (said, _) = case.run_alone(&["build"]);
    assert!(said.contains("$CASE/target/debug") && said.contains("is not a passhost plugin"), "{said}");
}

#[test]
fn a_crate_that_makes_no_library_says_what_is_missing() {
    let plain = "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    let case = Case::new("plain").file("passes.toml", "[[plugin]]\ncrate = \"plain\"\n").crate_at("plain", plain);
    let (said, code) = case.run_alone(&["build"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("`crate-type = [\"cdylib\"]`"), "{said}");
    assert!(!case.path("plain/target").exists(), "it was built");
}

/// Only the crate of a workspace that does not compile is reported; the other crates are usable.
#[test]
fn a_broken_crate_does_not_hide_its_neighbours() {
    let case = Case::new("neighbours")
        .file("Cargo.toml", "[workspace]\nmembers = [\"good\", \"broken\"]\nresolver = \"3\"\n")
        .file("passes.toml", "[[plugin]]\ncrate = \"good\"\n[[plugin]]\ncrate = \"broken\"\n");
    let case = case.crate_at("good", &cargo_toml("good", "")).crate_at("broken", &cargo_toml("broken", ""));
    let case = case.file("broken/src/lib.rs", "pub fn broken() -> u32 { nothing }\n");
    let (said, code) = case.run_alone(&["check"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("cannot find value `nothing`"), "{said}");
    assert!(said.contains("is not a passhost plugin"), "{said}");
    assert!(said.contains("2 problems in passes.toml"), "{said}");
    assert!(!said.contains(&*root().to_string_lossy()), "{said}");
}

/// A failure to fetch dependencies is not blamed on the crate.
#[test]
fn a_build_without_a_network_says_so() {
    let case = Case::new("offline").file("passes.toml", "[[plugin]]\ncrate = \"far\"\n");
    let rest = "[dependencies]\nserde = \"1\"\n[workspace]\n";
    let case = case.crate_at("far", &cargo_toml("far", rest));
    let mut command = case.command(&["build"]);
    // The cache is empty.
    command.env_remove("CARGO_TARGET_DIR").env("CARGO_HOME", case.path("home")).env("CARGO_NET_OFFLINE", "true");
    let (_, said, code) = case.finish(command, b"");
    assert_eq!(code, 3, "{said}");
    let remedy = "`cargo build` failed while building far; its dependencies cannot be fetched: run `cargo fetch` \
                  in its folder with network access, or list its built library with `path`";
    assert!(said.contains(remedy) && said.contains("no matching package named `serde`"), "{said}");
}

/// While another cargo holds the target folder, a build waits and shows the reason. It continues afterwards.
#[test]
fn a_build_that_waits_for_another_cargo_says_so() {
    let case = Case::new("waits").file("passes.toml", "[[plugin]]\ncrate = \"nothing\"\n");
    let case = case.crate_at("nothing", &cargo_toml("nothing", OWN));
    std::fs::create_dir_all(case.path("nothing/target/debug")).expect("a folder");
    let lock = std::fs::File::create(case.path("nothing/target/debug/.cargo-lock")).expect("the lock of cargo");
    lock.lock().expect("it is free");
    let mut command = case.command(&["build"]);
    command.env_remove("CARGO_TARGET_DIR");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    let waits = |line: &String| line.starts_with("passhost: waiting for another cargo: Blocking waiting for file lock");
    assert_eq!(said.next().as_deref(), Some("passhost: building nothing …"));
    assert!(said.next().is_some_and(|line| waits(&line)));
    lock.unlock().expect("it is held");
    let rest: Vec<String> = said.collect();
    assert!(rest.iter().any(|line| line.contains("is not a passhost plugin")), "{rest:?}");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    assert!(case.path("nothing/target/debug").join(library("nothing")).exists());
}

fn library(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// Has a pattern with an operator of its own plugin, and a pattern with a misspelt operator, which the compiler cannot
/// detect.
const PATTERN: &str = r#"//! A plugin.
use plugin_api::prelude::*;

declare_pass! {
    /// Does nothing.
    pub function pass LOOK = "mine.Look" { opt_level: 0, run: look }
}

fn look(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let pattern = is_op("mine.twice", [is_op("mine.twise", ..)]);
    ctx.statistic("found", ctx.matcher(&pattern).on(body).all().count());
    Ok(body.clone())
}

const TWICE: OpDecl = OpDecl {
    name: "mine.twice",
    doc: "`2 x`.",
    args: &[ArgDecl { name: "x", ..ArgDecl::EMPTY }],
    infer: |call| call.arg(0).map(|x| x.ty().to_owned()).ok_or_else(|| InferError::wrong("no argument")),
    ..OpDecl::EMPTY
};

export_plugin! { operators: [TWICE], passes: [LOOK] }
"#;

#[test]
fn a_misspelt_operator_in_a_pattern_is_an_error() {
    let case = mine("pattern", PATTERN);
    for args in [&["check"][..], &["check", "--no-load"]] {
        let (said, code) = built(&case, args);
        let expected = "error: plugin `mine_pattern`: src/lib.rs:10 uses the operator `mine.twise`, which no plugin \
                        declares; did you mean `mine.twice`?";
        assert!(code == 2 && said.contains(expected), "exit {code}: {said}");
    }
    let right = PATTERN.replace("twise", "twice");
    std::fs::write(case.path("mine/src/lib.rs"), right).expect("a file");
    let (said, code) = built(&case, &["check"]);
    assert!(code == 0 && said.ends_with("no problems\n"), "exit {code}: {said}");
}
