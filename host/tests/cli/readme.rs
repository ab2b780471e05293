//! Tests of the README: its session, its recording and its smallest plugin are run as described.

use super::new::{cargo_config, target};
use super::{Case, root};
use std::path::Path;
use std::process::Command;

/// Returns the files (`name`, text) and commands of a section, from its indented blocks.
fn blocks(section: &str) -> (Vec<(String, String)>, Vec<String>) {
    let (mut files, mut commands) = (Vec::new(), Vec::new());
    let mut title = "";
    let mut block = String::new();
    for line in section.lines().chain(["end"]) {
        if let Some(code) = line.strip_prefix("    ") {
            block.push_str(code);
            block.push('\n');
        } else if line.is_empty() {
            block.push_str(if block.is_empty() { "" } else { "\n" });
        } else {
            let text = std::mem::take(&mut block);
            match title.strip_prefix('`').and_then(|rest| rest.strip_suffix("`:")) {
                Some(name) => files.push((name.to_string(), text)),
                None => commands.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_string)),
            }
            title = line;
        }
    }
    (files, commands)
}

#[test]
fn the_smallest_plugin_runs_as_written() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let section = readme.split("\n## ").find(|section| section.starts_with("The smallest plugin"));
    let (files, commands) = blocks(section.expect("a section"));
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Cargo.toml", "src/lib.rs", "passes.toml"]);
    assert!(!commands.is_empty());

    // Next to the clone, which is called passhost.
    let case = Case::new("readme");
    std::fs::create_dir(case.path(".cargo")).expect("a folder");
    let case = case.file(".cargo/config.toml", cargo_config());
    std::os::unix::fs::symlink(root(), case.path("passhost")).expect("a link");
    let folder = case.path("nothing");
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    // Use the versions that are already available.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file");

    let bin = Path::new(env!("CARGO_BIN_EXE_passhost")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    for line in &commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(&folder).env("PATH", format!("{}:{path}", bin.display()));
        shell.env("CARGO_TARGET_DIR", target());
        let (stdout, stderr, code) = case.finish(shell, b"");
        assert_eq!(code, 0, "{line}\n{stderr}");
        // The output of a build contains the name of the plugin; the output of other commands contains the name of its
        // pass.
        let name = if line == "passhost build" { "ready  nothing 0.1.0" } else { "acme.Nothing" };
        assert!(format!("{stdout}{stderr}").contains(name), "{line}\n{stdout}{stderr}");
    }
    assert!(folder.join("out.py").is_file());
}

/// Returns the commands of the README's session, each with the output shown there.
fn session(readme: &str) -> Vec<(&str, String)> {
    let block = readme.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a session");
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ passhost "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, String::new())),
            (None, Some((_, output))) => output.extend([line, "\n"]),
            (None, None) => panic!("output before the first command: {line}"),
        }
    }
    commands
}

#[test]
fn the_session_shows_what_passhost_prints() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let case = Case::new("session").standard();
    for folder in ["docs", "tests"] {
        std::os::unix::fs::symlink(root().join(folder), case.path(folder)).expect("a link");
    }
    let session = session(&readme);
    assert!(session.len() >= 3, "a plan, a refusal and a diagnostic: {session:?}");
    for (command, shown) in session {
        let args: Vec<&str> = command.split_whitespace().collect();
        let (stdout, stderr, _) = case.run(&args, b"");
        assert_eq!(case.normalize(&shown), stdout + &stderr, "passhost {command}");
    }
}

/// Returns the commands of the recording, each with the lines shown below it that are not empty.
fn recorded(svg: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for text in svg.split("<text ").skip(1).filter_map(|rest| rest.split("</text>").next()) {
        let (attrs, text) = text.split_once('>').expect("a text");
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        match commands.last_mut() {
            _ if attrs.contains("class=\"typed\"") => commands.push((text, Vec::new())),
            Some((_, output)) if text != "$" => output.push(text),
            _ => {}
        }
    }
    commands
}

/// `bisect` takes too long here; the other commands must print what the recording shows.
#[test]
fn the_recording_shows_what_passhost_prints() {
    let pictures = root().join("docs/pictures");
    let read = |name: &str| std::fs::read_to_string(pictures.join(name)).expect("a file of the recording");
    let manifest = read("passes.toml");
    let case = Case::new("recording").file("passes.toml", &manifest);
    std::fs::create_dir(case.path("target")).expect("a folder");
    let plugins = Path::new(env!("CARGO_BIN_EXE_passhost")).parent().expect("a folder");
    std::os::unix::fs::symlink(plugins, case.path("target/release")).expect("a link");
    std::os::unix::fs::symlink(root().join("tests"), case.path("tests")).expect("a link");
    let mut n_runs = 0;
    for (command, shown) in recorded(&read("session.svg")) {
        let args: Vec<&str> = command.split_whitespace().collect();
        let printed = match args[..] {
            ["passhost", "bisect", ..] => continue,
            ["passhost", ..] => case.run(&args[1..], b"").1,
            _ => manifest.clone(),
        };
        let printed: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
        let hint = "docs/pictures/make.py makes the recording again";
        assert_eq!(case.normalize(&shown.join("\n")), case.normalize(&printed.join("\n")), "{command}\n{hint}");
        n_runs += 1;
    }
    assert!(n_runs >= 3, "{n_runs} commands");
}
