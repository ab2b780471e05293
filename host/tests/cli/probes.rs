//! Tests plugins that are tried out in a separate process: their output is limited, and only their behavior counts.

use super::Case;
use super::bad_plugins::{example, good};

fn check(case: &Case, env: &[(&str, &str)]) -> (String, i32) {
    let mut command = case.command(&["check"]);
    command.envs(env.iter().copied());
    let (stdout, stderr, code) = case.finish(command, b"");
    (stdout + &stderr, code)
}

/// Trying out a plugin writes nothing to disk.
#[test]
fn no_temporary_folder_is_needed() {
    let case = Case::new("no_temporary_folder").libraries(&[good()]);
    let (said, code) = check(&case, &[("TMPDIR", "/nowhere/at/all")]);
    assert!(code == 0 && said.contains("no problems"), "{said}");
}

/// A constructor forges a success message in every known way, and then ends the process.
#[test]
fn answers_that_are_forged() {
    let case = Case::new("answers_that_are_forged").libraries(&[example("talks")]);
    for (how, what) in [("forge", "ended the process with exit code 0"), ("forge everywhere", "sent an invalid answer")]
    {
        let (said, code) = check(&case, &[("ZOO_TALK", how)]);
        assert!(code == 3 && said.contains(what) && said.contains(" while it was opened"), "{how}: {said}");
    }
    let (said, code) = check(&case, &[]);
    assert!(code == 0, "{said}");
}

/// All output is read, little of it is kept, and endless output is stopped.
#[test]
fn floods() {
    let case = Case::new("floods").libraries(&[example("talks")]);
    let start = std::time::Instant::now();
    let (said, code) = check(&case, &[("ZOO_TALK", "flood")]);
    assert!(code == 3 && said.contains(" MiB to standard error while it was opened; its output was: "), "{said}");
    assert!(said.len() < 10_000 && start.elapsed().as_secs() < 50, "{} bytes", said.len());
    // The host does not wait for a process that the plugin started.
    let (said, code) = check(&case, &[("ZOO_TALK", "child")]);
    assert!(code == 0, "{said}");
}

/// Standard output is for results: what a pass prints there goes to standard error.
#[test]
fn what_a_pass_prints_is_not_the_result() {
    let case = Case::new("what_a_pass_prints").libraries(&[example("talks")]).operators();
    let run = ["run", "small.py", "--passes", "zoo.Talks"];
    let (quiet, _, _) = case.run(&run, b"");
    let mut command = case.command(&run);
    command.env("ZOO_TALK", "print");
    let (stdout, stderr, code) = case.finish(command, b"");
    assert_eq!((stdout, code), (quiet, 0), "{stderr}");
    assert!(stderr.contains("said to standard output\n") && stderr.contains("said to the device\n"), "{stderr}");
}
