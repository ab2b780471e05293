//! Tests that with `--locked`, nothing runs that was not hashed, even if the path of a library changes in the meantime.
//! The program `races` of `passhost-tests` does the same for any length of time.

use super::bad_plugins::{example, good};
use super::races::{Race, Turns};
use std::path::Path;

#[test]
fn nothing_runs_that_was_not_hashed() {
    let (passhost, locked, marks) = (Path::new(env!("CARGO_BIN_EXE_passhost")), good(), example("constructor"));
    for turns in Turns::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let race = Race { passhost, locked: &locked, marks: &marks, folder: folder.path() };
        // Some containers do not allow mounts.
        let Some(tally) = race.run(turns, 25).expect("the runs") else { continue };
        assert_eq!((tally.marked, tally.other, tally.done + tally.refused), (0, 0, 25), "{turns}: {tally:?}");
    }
}

/// Checks that the other library creates its mark when it is loaded. Otherwise, the test above would prove nothing.
#[test]
fn what_is_loaded_leaves_a_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let (passhost, marks) = (Path::new(env!("CARGO_BIN_EXE_passhost")), example("constructor"));
    std::fs::write(folder.path().join("passes.toml"), format!("[[plugin]]\npath = '{}'\n", marks.display()))
        .expect("a file");
    let mut command = std::process::Command::new(passhost);
    command.arg("check").current_dir(folder.path()).env("ZOO_LOG", folder.path().join("mark"));
    assert!(command.status().expect("it runs").success());
    assert!(folder.path().join("mark").exists());
}
