//! Tests of `passhost new`, by following the steps in the pages that begin with it.

use super::{Case, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A step of the page.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Run {
        command: String,
        fails: bool,
    },
    Append {
        file: String,
        text: String,
    },
    Replace {
        file: String,
        old: String,
        new: String,
    },
    /// Text in the output of the last command.
    Says(String),
}

/// Parses the indented blocks of a page as steps. The line above a block determines its kind. A fenced block with a file after its language, as in
/// ```` ```rust src/fold.rs ````, is appended to this file; others are only for reading.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut title, mut block) = (Vec::new(), "", String::new());
    let mut replaced: Option<(String, String)> = None;
    let file = |title: &str| title.split('`').nth(1).expect("a file in the line above a block").to_string();
    let mut fenced: Option<(Option<&str>, String)> = None;
    for line in page.lines().chain(["end"]) {
        match (line.strip_prefix("```"), &mut fenced) {
            (Some(info), None) => fenced = Some((info.split_once(' ').map(|(_, file)| file), String::new())),
            (Some(_), Some((file, text))) => {
                let text = std::mem::take(text) + "\n";
                steps.extend(file.map(|file| Step::Append { file: file.to_string(), text }));
                fenced = None;
            }
            (None, Some((_, text))) => text.extend([line, "\n"]),
            (None, None) => {}
        }
        if fenced.is_some() || line.starts_with("```") {
            continue;
        }
        if let Some(code) = line.strip_prefix("    ") {
            block.extend([code, "\n"]);
        } else if line.is_empty() {
            block.push_str(if block.is_empty() { "" } else { "\n" });
        } else {
            let text = std::mem::take(&mut block);
            let text = format!("{}\n", text.trim_end());
            if text == "\n" {
            } else if title.starts_with("Append to `") {
                steps.push(Step::Append { file: file(title), text: text + "\n" });
            } else if title.starts_with("It says") || title.starts_with("It prints") {
                steps.push(Step::Says(text));
            } else if title.ends_with(", replace") {
                replaced = Some((file(title), text));
            } else if let Some((file, old)) = replaced.take() {
                assert_eq!(title, "by");
                steps.push(Step::Replace { file, old: old.trim().to_string(), new: text.trim().to_string() });
            } else {
                let fails = title.starts_with("This fails");
                steps.extend(text.lines().map(|line| Step::Run { command: line.to_string(), fails }));
            }
            title = line;
        }
    }
    steps
}

/// Returns cargo settings that match those of this workspace, so that dependencies are not rebuilt. The crates of this workspace are rebuilt,
/// because the new crate is not part of it. Building them without optimization takes a third of the time.
pub(crate) fn cargo_config() -> String {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace manifest");
    let profile = manifest.split("[profile.dev]").nth(1).expect("a profile");
    let (own, others) = profile.split_once("[profile.dev.package.\"*\"]").expect("a profile of dependencies");
    let ours = manifest.lines().filter_map(|line| line.split_once(" = { path = ").map(|(name, _)| name));
    let ours: String = ours.map(|name| format!("[profile.dev.package.{name}]\nopt-level = 0\n")).collect();
    format!("[profile.dev]\n{own}\n[profile.dev.package.\"*\"]\n{others}\n{ours}\n[net]\noffline = true\n")
}

/// Returns the target folder of this workspace.
pub(crate) fn target() -> PathBuf {
    let bin = Path::new(env!("CARGO_BIN_EXE_passhost"));
    bin.ancestors().nth(2).expect("a target folder").to_path_buf()
}

#[test]
fn a_new_plugin_is_made_tested_and_changed_as_the_page_says() {
    follow("docs/writing-a-pass.md", "writing_a_pass");
}

#[test]
fn an_operator_is_declared_as_the_page_says() {
    follow("docs/declaring-an-operator.md", "declaring_an_operator");
}

#[test]
fn a_pass_is_ported_from_tvm_as_the_page_says() {
    follow("docs/porting-from-tvm.md", "porting_from_tvm");
}

/// Follows the steps of a page, and compares the output of its commands with the golden. Pages are followed
/// concurrently, so each uses a crate with its own name.
fn follow(page: &str, name: &'static str) {
    let page = std::fs::read_to_string(root().join(page)).expect("the page");
    let case = Case::new(name);
    std::fs::create_dir(case.path(".cargo")).expect("a folder");
    let case = case.file(".cargo/config.toml", cargo_config());
    let mut folder = case.folder.path().to_path_buf();
    let (mut transcript, mut said) = (String::new(), String::new());
    let steps = steps(&page);
    assert!(steps.len() > 8, "{steps:?}");
    for step in steps {
        match step {
            Step::Append { file, text } => {
                let old = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
                std::fs::write(folder.join(file), old + &text).expect("a file");
            }
            Step::Replace { file, old, new } => {
                let text = std::fs::read_to_string(folder.join(&file)).expect("a file of the crate");
                assert_eq!(text.matches(&old).count(), 1, "`{old}` in {file}");
                std::fs::write(folder.join(file), text.replace(&old, &new)).expect("a file");
            }
            Step::Says(text) => {
                let (said, text) = (said.replace(" \n", "\n"), text.replace(" \n", "\n"));
                assert!(said.contains(&text), "the page says\n{text}\nand this was said\n{said}");
            }
            Step::Run { command, .. } if command.starts_with("cd ") => folder.push(&command[3..]),
            Step::Run { command, fails } => {
                said = run(&case, &folder, (&command, fails), &mut transcript);
                // Use the versions that are already available.
                if let Some(made) = command.strip_prefix("passhost new ") {
                    let lock = root().join("Cargo.lock");
                    std::fs::copy(lock, folder.join(made).join("Cargo.lock")).expect("the lock file");
                    without_other_plugins(&folder.join(made).join("Cargo.toml"));
                }
            }
        }
    }
    if let Ok(out) = std::fs::read_to_string(folder.join("out.py")) {
        transcript.push_str(&format!("out.py\n{out}"));
    }
    case.golden(&transcript);
}

/// Runs a command of a page, which must fail if the page expects that. Returns its output, and adds it to the
/// transcript.
fn run(case: &Case, folder: &Path, (command, fails): (&str, bool), transcript: &mut String) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_passhost")).parent().expect("a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", &path);
    shell.env("CARGO_TARGET_DIR", target()).env_remove("PASSHOST_LOG").env_remove("BLESS");
    let (stdout, stderr, code) = case.finish(shell, b"");
    assert_eq!(code != 0, fails, "{command}\n{stdout}{stderr}");
    let blessed = stderr.lines().any(|line| line.starts_with("rewrote ") && line.ends_with(" cases differed"));
    assert_eq!(blessed, command.starts_with("BLESS=1"), "{command}\n{stderr}");
    if command.trim_start_matches("BLESS=1 ").starts_with("cargo") {
        let expected = if fails { "differs; BLESS=1 cargo test rewrites it" } else { "1 passed" };
        assert!(stdout.contains(expected), "{command}\n{stdout}{stderr}");
        let what = if fails { "(a golden differs)" } else { "(tests passed)" };
        let diff = stdout.lines().filter(|line| line.starts_with(['+', '-']) && !line.starts_with("----"));
        let diff: String = diff.map(|line| format!("{line}\n")).collect();
        transcript.push_str(&format!("$ {command}\n{what}\n{diff}\n"));
    } else {
        let both = format!("exit code {code}\n== stdout\n{stdout}== stderr\n{stderr}");
        transcript.push_str(&format!("$ {command}\n{}\n", without_builds(&both)));
    }
    format!("{stdout}{stderr}")
}

/// Removes the dependencies on other plugins. In a target folder shared with this workspace, building these dependencies would overwrite
/// the libraries of the workspace's own plugins, which cargo treats as different crates. The tests let the manifest build the plugins
/// instead. The template, which is a crate of this workspace, is tested with its dependencies.
fn without_other_plugins(manifest: &Path) {
    let text = std::fs::read_to_string(manifest).expect("the manifest of the crate");
    let (others, kept): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("passhost-relax-"));
    assert_eq!(others.len(), 2, "{text}");
    std::fs::write(manifest, kept.join("\n") + "\n").expect("the manifest of the crate");
}

/// Removes text that differs between builds.
fn without_builds(text: &str) -> String {
    let differs = |line: &&str| {
        let key = line.split_whitespace().next();
        matches!(key, Some("sha256" | "file")) || line.starts_with("built by") || line.starts_with("plugin API")
    };
    text.lines().filter(|line| !differs(line)).map(|line| format!("{line}\n")).collect()
}

/// Lists the files of the template, except hidden files, and files that are created when the crate is used.
fn files(folder: &Path, below: &str, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder.join(below)).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if entry.path().is_dir() && name != "target" {
            files(folder, &path, out);
        } else if entry.path().is_file() && name != "Cargo.lock" && name != "out.py" && name != "passes.lock" {
            out.push(path);
        }
    }
    out.sort();
}

/// The command must write every file of the template.
#[test]
fn a_new_plugin_has_all_files_of_the_template() {
    let case = Case::new("new_files");
    let (stdout, stderr, code) = case.run(&["new", "my-passes"], b"");
    assert_eq!(code, 0, "{stderr}");
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    files(&root().join("plugins/template"), "", &mut expected);
    files(&case.path("my-passes"), "", &mut found);
    assert_eq!(expected, found);
    for file in found {
        let text = std::fs::read_to_string(case.path("my-passes").join(&file)).expect("a file");
        assert!(!text.contains("template"), "{file} still has the name of the template");
        assert!(stdout.contains(&format!("    {file}\n")), "{stdout}");
    }
}

#[test]
fn where_the_api_comes_from() {
    let case = Case::new("new_api");
    std::fs::create_dir_all(case.path("passhost/plugin-api")).expect("a folder");
    let case = case.file("passhost/plugin-api/Cargo.toml", "");
    let read = |file: &str| std::fs::read_to_string(case.path(file)).expect("a file");
    let (_, stderr, code) = case.run(&["new", "one", "--api", "passhost"], b"");
    assert_eq!(code, 0, "{stderr}");
    let cargo = read("one/Cargo.toml");
    assert!(cargo.contains("passhost-plugin-api = { path = \"../passhost/plugin-api\" }\n"), "{cargo}");
    assert!(cargo.contains("passhost-plugin-test = { path = \"../passhost/plugin-test\" }\n"), "{cargo}");
    assert!(cargo.contains("\n[workspace]\n"), "{cargo}");
    let manifest = read("one/passes.toml");
    assert!(manifest.contains("crate = \"../passhost/plugins/relax-ops\"\n"), "{manifest}");

    let (_, stderr, code) = case.run(&["new", "deep/er", "--name", "two", "--api", "./one/../passhost"], b"");
    assert_eq!(code, 0, "{stderr}");
    assert!(read("deep/er/Cargo.toml").contains("path = \"../../passhost/plugin-api\""));

    // The crate is named like the folder, as with `cargo new`. The opposite mistake has its own message.
    let (stdout, stderr, code) = case.run(&["new", "some/folder/my-passes", "--api", "passhost"], b"");
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("cd some/folder/my-passes"), "{stdout}");
    assert!(read("some/folder/my-passes/Cargo.toml").contains("name = \"my-passes\""));
    assert!(read("some/folder/my-passes/Cargo.toml").contains("path = \"../../../passhost/plugin-api\""));
    let (_, stderr, code) = case.run(&["new", "four", "--path", "other", "--api", "passhost"], b"");
    assert_eq!(code, 0, "{stderr}");
    assert!(read("other/Cargo.toml").contains("name = \"four\""));
    let (stdout, stderr, code) = case.run(&["new", "three", "--api", "https://example.org/passhost"], b"");
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("    git clone https://example.org/passhost passhost\n"), "{stdout}");
    assert!(read("three/Cargo.toml").contains("passhost-plugin-api = { git = \"https://example.org/passhost\" }\n"));
    assert!(read("three/passes.toml").contains("crate = \"passhost/plugins/relax-ops\"\n"));
    assert!(read("three/.gitignore").ends_with("/passhost\n"));
}

/// Whenever the command is killed, the folder is complete or missing, and running it again creates it.
#[test]
fn a_command_that_is_killed_leaves_no_part_of_a_crate() {
    let case = Case::new("new_killed");
    let api = root().to_string_lossy().into_owned();
    let args = ["new", "my-passes", "--api", api.as_str()];
    let folder = case.path("my-passes");
    for turn in 0..20 {
        let mut child =
            case.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
        std::thread::sleep(std::time::Duration::from_micros(700 * turn));
        child.kill().expect("it is a child");
        child.wait().expect("it ends");
        // The child process ends shortly after its parent.
        std::thread::sleep(std::time::Duration::from_millis(50));
        if folder.exists() {
            for file in ["Cargo.toml", "passes.toml", "src/share_calls.rs", "tests/goldens/share_calls.txt"] {
                assert!(folder.join(file).exists(), "turn {turn}: {file} is missing");
            }
            std::fs::remove_dir_all(&folder).expect("a folder");
        }
        let (_, said, code) = case.run(&args, b"");
        assert_eq!(code, 0, "turn {turn}: {said}");
        std::fs::remove_dir_all(&folder).expect("a folder");
    }
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::create_dir(folder.join(".passhost-new-left")).expect("a folder");
    let (_, said, code) = case.run(&args, b"");
    assert!(code == 0 && !folder.join(".passhost-new-left").exists(), "{said}");
}

#[test]
fn what_new_refuses() {
    let case = Case::new("new_refused");
    std::fs::create_dir(case.path("full")).expect("a folder");
    let case = case.file("full/notes.txt", "mine").file("file", "mine");
    std::fs::create_dir(case.path("empty")).expect("a folder");
    let mut transcript = String::new();
    for args in [
        &["full"][..],
        &["file"],
        &["mine", "--path", "full"],
        &["My Passes"],
        &["9lives"],
        &["../Up"],
        &["some/9lives"],
        &["/"],
        &["match"],
        &["plugin-api"],
        &["passhost"],
        &["passhost-runtime"],
        &["mine", "--api", "empty"],
        &["empty"],
    ] {
        let args: Vec<&str> = ["new"].iter().chain(args).copied().collect();
        let (stdout, stderr, code) = case.run(&args, b"");
        transcript.push_str(&format!("$ passhost {}\nexit code {code}\n{stdout}{stderr}\n", args.join(" ")));
    }
    assert_eq!(std::fs::read_to_string(case.path("full/notes.txt")).expect("a file"), "mine");
    assert!(!case.path("mine").exists());
    case.golden(&transcript);
}

#[test]
fn a_current_folder_that_is_gone_has_no_folders() {
    let case = Case::new("a_current_folder_that_is_gone_has_no_folders");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" new foo",
        env!("CARGO_BIN_EXE_passhost"),
    ]);
    command.current_dir(case.path("."));
    let (_, stderr, code) = case.finish(command, b"");
    assert!(code != 0 && stderr.contains("the current folder no longer exists"), "{code}\n{stderr}");
}
