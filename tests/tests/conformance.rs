//! Tests the conformance runner as a program: every line of a file must be accounted for.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_conformance");
    Command::new(program).args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

const MODULE: &str =
    "@I.ir_module\\nclass Module:\\n    @R.function\\n    def main(x: R.Tensor) -> R.Tensor:\\n        return x\\n";

/// Writes a file of five lines. The first and the last are cases.
fn file(folder: &Path) -> String {
    let case = |id: &str| format!("{{\"id\": \"{id}\", \"text\": \"{MODULE}\"}}\n");
    let lines = format!("{}\nnonsense\n{{\"id\": \"c\"}}\n{}", case("a"), case("e"));
    let path = folder.join("cases.jsonl");
    std::fs::write(&path, lines).expect("a file");
    path.display().to_string()
}

#[test]
fn a_line_that_is_no_case_counts_as_not_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = file(folder.path());
    let output = run(&["modules", &file]);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.ends_with("total: 2 of 5\n"), "{report}");
    for line in ["line 2", "line 3", "line 4"] {
        assert!(report.contains(line), "{report}");
    }
}

#[test]
fn json_is_json_and_the_total_stands_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(&["modules", &file(folder.path()), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!((report["equal"].as_u64(), report["total"].as_u64()), (Some(2), Some(5)));
    assert_eq!(text(&output.stderr).lines().last(), Some("total: 2 of 5"));
}

#[test]
fn nothing_to_compare_is_no_success() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.jsonl");
    std::fs::write(&empty, "").expect("a file");
    let (empty, file) = (empty.display().to_string(), file(folder.path()));
    for arguments in
        [&["modules", &empty][..], &["passes", &file, "--pass", "nosuch"], &["modules", &file, "--show", "z"]]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("nothing to compare"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let program = env!("CARGO_BIN_EXE_conformance");
    let child = Command::new(program).args(["generate", "400"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
}
