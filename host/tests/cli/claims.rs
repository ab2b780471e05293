//! Tests of false contracts: which pass is blamed, and what `check` and `plan` report about the names in contracts. The
//! plugin is `tests/bad-plugins/zoo/examples/zoo_claims.rs`.

use super::bad_plugins::example;
use super::{Case, SMALL};

fn case(name: &'static str) -> Case {
    Case::new(name).libraries(&[example("claims")]).operators()
}

impl Case {
    fn failed(&self, passes: &str) -> String {
        let (_, said, code) = self.run(&["run", "small.py", "--passes", passes], b"");
        assert_eq!(code, 3, "{passes}: {said}");
        said
    }
}

/// The pass with the false claim is blamed even if it changed nothing. Later passes are not blamed.
#[test]
fn a_false_claim_is_found_before_its_first_user() {
    let case = case("a_false_claim_is_found_before_its_first_user");
    let claim =
        "claims to establish the property `claims.plain`, which does not hold after it: this is a dataflow block";
    let blamed = |passes: &str, step: usize, found: &str| {
        let said = case.failed(passes);
        let who = format!("error: step {step}, pass `claims.Claims` of plugin `passhost-zoo`: {claim}; found {found}");
        assert!(said.contains(&who), "{passes}: {said}");
    };
    blamed("claims.Claims,claims.Needs", 1, "before step 2, `claims.Needs`, which requires it");
    blamed("claims.Claims,claims.ClaimsAgain,claims.Needs", 1, "before step 3, `claims.Needs`, which requires it");
    blamed("claims.Claims,claims.Merges,claims.Needs", 1, "after step 2, `claims.Merges`, which preserves it");
    // A claim that is dropped again is not an error.
    let said = case.failed("claims.Claims,claims.Loses,claims.ClaimsAgain,claims.Needs");
    assert!(said.contains("step 3, pass `claims.ClaimsAgain` of plugin `passhost-zoo`: claims to establish"), "{said}");
    // Nothing relies on the property here.
    assert_eq!(case.run(&["run", "small.py", "--passes", "claims.Claims"], b"").2, 0);
}

/// A refuted claim is dropped with `--keep-going`.
#[test]
fn a_claim_that_was_refuted_is_forgotten() {
    let case = case("a_claim_that_was_refuted_is_forgotten");
    let passes = "claims.Claims,claims.Needs,claims.Merges,claims.Needs";
    let (_, said, code) = case.run(&["run", "small.py", "--keep-going", "--passes", passes], b"");
    assert_eq!(code, 3, "{said}");
    assert_eq!(said.matches("claims to establish").count(), 1, "{said}");
    assert!(said.contains("requires the property `claims.plain`, which does not hold"), "{said}");
}

#[test]
fn names_that_nothing_provides() {
    let case = case("names_that_nothing_provides");
    let (_, said, code) = case.run(&["check"], b"");
    let pass = "pass `claims.Misspelt` (passhost-zoo)";
    for problem in [
        "error: {pass} requires the property `claims.plian`, which no listed plugin declares or establishes; did you \
         mean `claims.plain` or `claims.plane`?",
        "error: {pass} establishes `claims.plane`, which no listed plugin declares; did you mean `claims.plain`?",
        "error: {pass} preserves `claims.Claim`, which is not a pass or property of a listed plugin; did you mean \
         `claims.Claims`",
        "error: {pass} invalidates `claims.Merge`, which is not a pass or property of a listed plugin; did you mean \
         `claims.Merges`",
        "warning: {pass} establishes `elsewhere.unknown`, which no listed plugin declares",
    ] {
        let problem = problem.replace("{pass}", pass);
        assert!(said.contains(&problem), "{problem}\n{said}");
    }
    assert_eq!(code, 2, "{said}");
    let (_, said, code) = case.run(&["plan", "--passes", "claims.Misspelt"], b"");
    assert!(
        said.contains("warning: pass `claims.Misspelt` (passhost-zoo) requires the property `claims.plian`"),
        "{said}"
    );
    assert_eq!(code, 0, "{said}");
    let (_, said, _) = case.run(&["plan", "--passes", "claims.Claims"], b"");
    assert_eq!(said, "");
}

/// Files go to the paths given on the command line, even if a pass changes the current folder.
#[test]
fn a_pass_that_changes_the_folder_moves_no_file() {
    let case = case("a_pass_that_changes_the_folder_moves_no_file").file("out.py", "as it was");
    let run = ["run", "small.py", "-o", "out.py", "--dump", "dump", "--dump-all", "--trace", "trace.json", "--passes"];
    let (_, said, code) = case.run(&[&run[..], &["claims.Leaves,claims.Merges"]].concat(), b"");
    assert_eq!(code, 0, "{said}");
    let read = |name: &str| std::fs::read_to_string(case.path(name)).expect(name);
    assert!(read("out.py").contains("def main"));
    assert!(read("dump/001_claims.Merges.py").contains("def main"));
    assert!(read("trace.json").starts_with('{'));
    let said = case.failed("claims.Leaves,claims.Claims,claims.Needs");
    assert!(said.contains("claims to establish"), "{said}");
    let (_, _, code) = case.run(&[&run[..], &["claims.Leaves,claims.Claims,claims.Needs"]].concat(), b"");
    assert_eq!(code, 3);
    assert!(read("out.failed.py").contains("def main"));
}

/// Reading a pipe could wait forever.
#[test]
fn a_manifest_that_is_a_pipe_is_refused() {
    let case = case("a_manifest_that_is_a_pipe_is_refused");
    let made = std::process::Command::new("mkfifo").arg(case.path("fifo.toml")).status().expect("mkfifo runs");
    assert!(made.success());
    let (_, said, code) = case.run(&["list", "--manifest", "fifo.toml"], b"");
    assert!(said.contains("manifest fifo.toml: a named pipe, which may never receive data"), "{said}");
    assert_eq!(code, 2);
    let (_, said, code) = case.run(&["run", "small.py", "--passes", "@fifo.toml"], b"");
    assert!(said.contains("pipeline file fifo.toml: a named pipe"), "{said}");
    assert_eq!(code, 2);
    // A pipe from the shell is already open.
    let manifest = std::fs::read(case.path("passes.toml")).expect("the manifest");
    let (out, said, code) = case.run(&["list", "--manifest", "/dev/stdin"], &manifest);
    assert!(code == 0 && out.contains("claims.Claims"), "{said}");
}

/// Exceeding the file size limit is a write error, and leaves no temporary files.
#[test]
fn a_limit_for_files_is_an_error() {
    let case = case("a_limit_for_files_is_an_error").file("out.py", "as it was");
    let constants: String = (0..4000).map(|at| format!("            l{at} = R.add(x, x)\n")).collect();
    let long = SMALL.replacen("        with R.dataflow():\n", &format!("        with R.dataflow():\n{constants}"), 1);
    let case = case.file("long.py", long);
    // The lockfile is small enough.
    assert_eq!(case.run(&["lock"], b"").2, 0);
    let command = format!("ulimit -f 64; exec {} run long.py -o out.py --passes ''", env!("CARGO_BIN_EXE_passhost"));
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &command]).current_dir(case.folder.path());
    let (_, said, code) = case.finish(shell, b"");
    assert!(said.contains("error: output out.py: ") && said.contains("too large"), "{said}");
    assert_eq!(code, 4, "{said}");
    assert_eq!(std::fs::read_to_string(case.path("out.py")).expect("the output"), "as it was");
    let files = std::fs::read_dir(case.folder.path()).expect("the folder").flatten();
    assert!(files.map(|file| file.file_name()).all(|name| name.as_encoded_bytes()[0] != b'.'));
}

#[test]
fn the_beginning_of_each_pass_is_logged() {
    let case = case("the_beginning_of_each_pass_is_logged");
    let (_, said, code) = case.run(&["-vv", "run", "small.py", "--passes", "claims.Merges,claims.Leaves"], b"");
    assert_eq!(code, 0, "{said}");
    for line in [
        "pass{name=claims.Merges}: passhost::run: begins step=1 plugin=\"passhost-zoo\" functions=1",
        "pass{name=claims.Leaves}: passhost::run: begins step=2 plugin=\"passhost-zoo\" functions=1",
    ] {
        assert!(said.contains(line), "{said}");
    }
}
