//! Tests that an existing destination of the output keeps its kind.

use super::{Case, SMALL};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs no pass, with the output at `path`.
fn write(case: &Case, path: &str) -> (String, i32) {
    let (stdout, stderr, code) = case.run(&["run", "small.py", "--passes", "", "-o", path], b"");
    (stdout + &stderr, code)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a text")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o7777
}

fn case(name: &'static str) -> Case {
    Case::new(name).crates(&["plugins/relax-ops"])
}

#[test]
fn a_link_stays_and_leads_to_the_result() {
    let case = case("link").file("real.py", "old");
    symlink("real.py", case.path("link.py")).expect("a link");
    symlink("new.py", case.path("dangling.py")).expect("a link");
    assert_eq!(write(&case, "link.py"), (String::new(), 0));
    assert_eq!(write(&case, "dangling.py"), (String::new(), 0));
    for (link, target) in [("link.py", "real.py"), ("dangling.py", "new.py")] {
        assert_eq!(std::fs::read_link(case.path(link)).expect("still a link"), Path::new(target));
        assert!(text(&case.path(target)).contains("R.multiply(lv, lv1)"));
    }
}

/// The result, the trace and dumped modules do not overwrite files that the run reads, under any name.
#[test]
fn what_the_run_reads_is_not_overwritten() {
    let case = Case::new("spared").odd(&[]).file("late.txt", "");
    assert_eq!(case.run(&["lock"], b"").2, 0);
    symlink("passes.toml", case.path("link.py")).expect("a link");
    std::fs::hard_link(case.path("libodd.so"), case.path("second.py")).expect("a link");
    std::fs::create_dir_all(case.path("dump")).expect("a folder");
    symlink("../passes.lock", case.path("dump/000_odd.Quiet.py")).expect("a link");
    std::fs::create_dir_all(case.path("mine/src")).expect("a folder");
    let crate_toml = "[package]\nname = \"mine\"\nversion = \"0.1.0\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    let (manifest, lock) = (text(&case.path("passes.toml")), text(&case.path("passes.lock")));
    let two = format!("{manifest}[[plugin]]\ncrate = \"mine\"\n");
    let case = case.file("mine/src/lib.rs", "").file("mine/Cargo.toml", crate_toml).file("two.toml", two);
    std::fs::create_dir_all(case.path("mine/target/debug/deps")).expect("a folder");
    let outputs: [(&[&str], &str); 20] = [
        (&["-o", "passes.toml"], "is the manifest"),
        (&["-o", "link.py"], "is the manifest"),
        (&["-o", "passes.lock"], "is the lockfile"),
        (&["-o", "./passes.lock", "--manifest", "passes.toml"], "is the lockfile"),
        (&["-o", "libodd.so"], "is part of the plugin of `path libodd.so`"),
        (&["-o", "second.py"], "is part of the plugin of `path libodd.so`"),
        (&["-o", "late.txt", "--passes", "@late.txt"], "is the pipeline file"),
        (&["-o", "two.lock", "--manifest", "two.toml"], "is the lockfile"),
        (&["-o", "mine/src/lib.rs", "--manifest", "two.toml"], "is part of the plugin of `crate mine`"),
        (&["--trace", "libodd.so"], "is part of the plugin of `path libodd.so`"),
        (&["--trace", "passes.lock"], "is the lockfile"),
        (&["--dump", "dump"], "is the lockfile"),
        (&["-o", "mine/target/debug/libmine.so", "--manifest", "two.toml"], "is part of the plugin of `crate mine`"),
        (&["-o", "mine/target/debug/libmine.d", "--manifest", "two.toml"], "is part of the plugin of `crate mine`"),
        (&["-o", "mine/target/debug/deps/libmine.so", "--manifest", "two.toml"], "is part of the plugin of"),
        (&["-o", "mine/target/debug/deps/mine.d", "--manifest", "two.toml"], "is part of the plugin of"),
        (&["--dump", "mine/src", "--manifest", "two.toml"], "would become part of the plugin of `crate mine`"),
        (&["--dump", "mine/src/new/more", "--manifest", "two.toml"], "would become part of the plugin of"),
        (&["-o", "mine/src/new.py", "--manifest", "two.toml"], "would become part of the plugin of"),
        (&["--trace", "mine/src/new.json", "--manifest", "two.toml"], "would become part of the plugin of"),
    ];
    for (args, why) in outputs {
        let passes: &[&str] = if args.contains(&"--passes") { &[] } else { &["--passes", ""] };
        let all = [&["run", "small.py"][..], passes, args].concat();
        let mut command = case.command(&all);
        command.env_remove("CARGO_TARGET_DIR");
        let (_, stderr, code) = case.finish(command, b"");
        assert!(code == 2 && stderr.contains(why), "{args:?}: {code} {stderr}");
        assert_eq!(
            (text(&case.path("passes.toml")), text(&case.path("passes.lock"))),
            (manifest.clone(), lock.clone())
        );
        assert!(!case.path("two.lock").exists() && text(&case.path("mine/src/lib.rs")).is_empty(), "{args:?}");
    }
    assert_eq!(case.run(&["list", "--locked"], b"").2, 0);
}

#[test]
fn links_in_a_circle_are_refused() {
    let case = case("circle");
    symlink("b.py", case.path("a.py")).expect("a link");
    symlink("a.py", case.path("b.py")).expect("a link");
    let (said, code) = write(&case, "a.py");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("too many links"), "{said}");
}

#[test]
fn a_path_without_a_file_is_refused() {
    let case = case("no_file");
    for path in ["out/", "..", "."] {
        let (said, code) = write(&case, path);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("does not name a file") || said.contains("is a folder"), "{said}");
    }
}

#[test]
fn a_pipe_is_written_through() {
    let case = case("pipe");
    assert!(Command::new("mkfifo").arg(case.path("pipe")).status().expect("mkfifo runs").success());
    let pipe = case.path("pipe");
    let reader = std::thread::spawn(move || text(&pipe));
    assert_eq!(write(&case, "pipe"), (String::new(), 0));
    assert!(reader.join().expect("the reader ends").contains("R.multiply(lv, lv1)"));
    assert!(!std::fs::metadata(case.path("pipe")).expect("the pipe").is_file());
}

#[test]
fn a_device_is_written_through() {
    let case = case("device");
    assert_eq!(write(&case, "/dev/null"), (String::new(), 0));
    assert!(!std::fs::metadata("/dev/null").expect("the device").is_file());
}

#[test]
fn a_file_keeps_its_mode_and_its_names() {
    let case = case("mode").file("private.py", "old").file("one.py", "old");
    std::fs::set_permissions(case.path("private.py"), PermissionsExt::from_mode(0o640)).expect("a mode");
    std::fs::hard_link(case.path("one.py"), case.path("two.py")).expect("a second name");
    assert_eq!(write(&case, "private.py"), (String::new(), 0));
    assert_eq!(write(&case, "one.py"), (String::new(), 0));
    assert_eq!(mode(&case.path("private.py")), 0o640);
    assert_eq!(text(&case.path("two.py")), text(&case.path("one.py")));
    assert_eq!(std::fs::metadata(case.path("two.py")).expect("a file").nlink(), 2);
    assert_eq!(text(&case.path("private.py")), text(&case.path("one.py")));
}

#[test]
fn a_file_that_is_read_only_stays_so() {
    let case = case("read_only").file("out.py", "old");
    std::fs::set_permissions(case.path("out.py"), PermissionsExt::from_mode(0o400)).expect("a mode");
    let (said, code) = write(&case, "out.py");
    // An administrator can write it anyway.
    match text(&case.path("out.py")) == "old" {
        true => assert!(code == 2 && said.contains("cannot be written"), "{said}"),
        false => assert_eq!(code, 0, "{said}"),
    }
    assert_eq!(mode(&case.path("out.py")), 0o400);
}

#[test]
fn a_new_file_gets_the_mode_of_the_umask() {
    let case = case("umask");
    for (umask, expected) in [("077", 0o600), ("002", 0o664)] {
        let script = format!("umask {umask}; exec \"$0\" run small.py --passes '' -o {umask}.py");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_passhost")]).current_dir(case.folder.path());
        let (_, stderr, code) = case.finish(shell, b"");
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(mode(&case.path(&format!("{umask}.py"))), expected);
    }
}

#[test]
fn a_dash_is_standard_output() {
    let case = case("dash");
    for path in ["-", "/dev/stdout"] {
        let (said, code) = write(&case, path);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("R.multiply(lv, lv1)"), "{said}");
    }
    assert!(!case.path("-").exists());
}

#[test]
fn a_failed_step_leaves_no_file_beside_a_device() {
    let case = Case::new("failed_device").crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]);
    let (_, stderr, code) = case.run(&["run", "small.py", "--passes", "bad.Fails", "-o", "/dev/null"], b"");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("nothing was written"), "{stderr}");
    assert!(!Path::new("/dev/null.failed").exists());
}

/// The result and the trace cannot both go to one file, even under two names.
#[test]
fn the_trace_has_a_file_of_its_own() {
    let case = case("trace").file("one.py", "old");
    symlink("one.py", case.path("link.py")).expect("a link");
    std::fs::hard_link(case.path("one.py"), case.path("two.py")).expect("a second name");
    let refused: [(&[&str], &str); 7] = [
        (&["-o", "x.py", "--trace", "./x.py"], "is also the file of the result"),
        (&["-o", "one.py", "--trace", "link.py"], "is also the file of the result"),
        (&["-o", "one.py", "--trace", "two.py"], "is also the file of the result"),
        (&["--trace", "-"], "is also the file of the result"),
        (&["-o", "-", "--trace", "/dev/stdout"], "is also the file of the result"),
        (&["-o", "x.py", "--trace", "small.py"], "is the input"),
        (&["-o", "x.py", "--trace", "passes.toml"], "is the manifest"),
    ];
    for (args, said) in refused {
        let (stdout, stderr, code) = case.run(&[&["run", "small.py", "--passes", ""], args].concat(), b"");
        assert_eq!((stdout.as_str(), code), ("", 2), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
    assert_eq!((text(&case.path("small.py")).as_str(), text(&case.path("one.py")).as_str()), (SMALL, "old"));
    assert!(!case.path("x.py").exists());
    for args in [["-o", "x.py", "--trace", "-"], ["-o", "/dev/null", "--trace", "/dev/null"]] {
        let (_, stderr, code) = case.run(&[&["run", "small.py", "--passes", ""], &args[..]].concat(), b"");
        assert_eq!(code, 0, "{args:?}: {stderr}");
    }
}

/// A full disk is the fault of neither the request nor the module.
#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_in_the_end() {
    let case = case("full");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the device");
    let mut command = case.command(&["run", "small.py", "--passes", ""]);
    let mut child = command.stdout(full()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("a text");
    assert_eq!(child.wait().expect("the binary ends").code(), Some(4), "{stderr}");
    assert!(stderr.contains("output <stdout>: "), "{stderr}");
    for args in [&["help"][..], &["--version"], &["run", "--help"], &["list"]] {
        let mut command = case.command(args);
        let done = command.stdout(full()).output().expect("the binary runs");
        assert_eq!(done.status.code(), Some(4), "{args:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains("output <stdout>: "), "{args:?}");
    }
    let (said, code) = write(&case, "/dev/full");
    assert_eq!(code, 4, "{said}");
    assert_eq!(text(&case.path("small.py")), SMALL);
}

/// Tests each file that a command writes on a full disk, which a limit on file sizes simulates.
#[test]
#[cfg(target_os = "linux")]
fn files_that_have_no_room() {
    let case = Case::empty("no_room").file("passes.toml", "").file("m.py", super::llvm::DOUBLE);
    for (args, path) in [
        (&["run", "m.py", "--passes", "", "-o", "out.py"][..], "out.py"),
        (&["run", "m.py", "--passes", "", "--report", "page.html"], "page.html"),
        (&["run", "m.py", "--passes", "", "--report", "page.json"], "page.json"),
        (&["run", "m.py", "--passes", "", "--trace", "trace.json"], "trace.json"),
        (&["exec", "m.py", "--random", "1", "-o", "values.npz"], "values.npz"),
        (&["exec", "m.py", "--random", "1", "--backend", "llvm", "-o", "values.npz"], "values.npz"),
        (&["emit", "m.py", "--kind", "llvm-ir", "-o", "m.ll"], "m.ll"),
        (&["emit", "m.py", "--kind", "object", "-o", "m.o"], "m.o"),
        (&["new", "my-passes", "--api", &super::root().to_string_lossy()], "my-passes"),
    ] {
        let mut command = case.command(&[]);
        let program = command.get_program().to_owned();
        let cache = case.path("cache");
        command = Command::new("sh");
        command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]).arg(&program).args(args);
        command.current_dir(case.folder.path()).env("XDG_CACHE_HOME", cache);
        let (stdout, stderr, code) = case.finish(command, b"");
        assert!(code == 4 && stderr.contains("File too large"), "{args:?}: {code} {stdout}{stderr}");
        assert!(stderr.contains(path), "{args:?}: {stderr}");
        let left = std::fs::metadata(case.path(path)).map(|found| found.len());
        assert!(left.is_err(), "{args:?} left {left:?}");
    }
}

/// The message about a missing folder for temporary files names the folder and its variable.
#[test]
#[cfg(target_os = "linux")]
fn no_folder_for_temporary_files() {
    let case = Case::empty("no_temporary_files").file("passes.toml", "").file("m.py", super::llvm::DOUBLE);
    let mut command = case.command(&["emit", "m.py", "--function", "double", "--kind", "shared", "-o", "k.so"]);
    command.env("TMPDIR", "/nowhere/at/all");
    let (_, said, code) = case.finish(command, b"");
    assert!(
        code == 4 && said.contains("/nowhere/at/all") && said.contains("TMPDIR") && !said.contains("compiler"),
        "{said}"
    );
}

/// Files are not written under the extensions of other formats.
#[test]
#[cfg(target_os = "linux")]
fn names_of_other_formats() {
    let case = Case::empty("other_formats").file("passes.toml", "").file("m.py", super::llvm::DOUBLE);
    for (args, what) in [
        (&["run", "m.py", "--passes", "", "-o", "m.onnx"][..], "TVMScript would be written to a file named"),
        (&["run", "m.py", "--passes", "", "-o", "m.PT"], "TVMScript would be written to a file named"),
        (&["exec", "m.py", "--random", "1", "-o", "m.onnx"], "arrays would be written to a file named .onnx"),
        (
            &["emit", "m.py", "--kind", "shared", "-o", "m.onnx"],
            "a shared library would be written to a file named .onnx",
        ),
    ] {
        let (_, said, code) = case.run(args, b"");
        assert!(code == 2 && said.contains(what) && said.contains("; name it ."), "{args:?}: {said}");
        assert!(!case.path(args[args.len() - 1]).exists());
    }
}

/// A command never succeeds if its output cannot be delivered, whether it runs passes, lists items or prints
/// help.
#[test]
fn standard_output_that_is_closed() {
    let case = case("closed");
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(case.path(".")).env("PASSHOST", env!("CARGO_BIN_EXE_passhost"));
        let done = command.env("XDG_CACHE_HOME", case.path("cache")).output().expect("a shell runs");
        (String::from_utf8_lossy(&done.stderr).into_owned(), done.status.code())
    };
    let commands = [
        "run small.py --passes ''",
        "run small.py --passes '' -o -",
        "list",
        "config",
        "plan --passes ''",
        "check --no-load",
        "help",
        "run --help",
        "--version",
    ];
    for command in commands {
        let (stderr, code) = shell(&format!("\"$PASSHOST\" {command} >&-"));
        assert_eq!(code, Some(4), "{command}: {stderr}");
        assert!(stderr.contains("it was closed when passhost started"), "{command}: {stderr}");
        // A closed pipe does not cause a message.
        let script = format!("{{ sleep 0.2; \"$PASSHOST\" {command}; echo code $? >&2; }} | true");
        let (stderr, _) = shell(&script);
        assert_eq!(stderr, "code 4\n", "{command}");
    }
    // Nothing is lost if nothing is to be printed.
    assert_eq!(shell("\"$PASSHOST\" run small.py --passes '' -o out.py >&-").1, Some(0));
    assert!(text(&case.path("out.py")).contains("R.multiply(lv, lv1)"));
}

/// An invalid output path is found before the passes run.
#[test]
fn names_that_no_file_can_have() {
    let case = case("long_names");
    let long = "x".repeat(256);
    let (said, code) = write(&case, &long);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("the file name is invalid: "), "{said}");
    assert_eq!(write(&case, &"x".repeat(255)).1, 0);
    // The module before a failed step gets a slightly shorter name.
    let output = passhost::files::Output::look(&case.path(&format!("{}.py", "π".repeat(126)))).expect("a good name");
    let failed = output.failed().expect("a file of its own");
    let name = failed.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.len() <= 255 && name.ends_with("π.failed.py"), "{name}");
}

/// The message of the system names the scarce resource.
#[test]
#[cfg(target_os = "linux")]
fn too_many_open_files() {
    let case = case("files");
    // The limit determines which file exceeds it. With the lowest limits, the program itself cannot be loaded.
    let mut said = String::new();
    for limit in 4..24 {
        let script = format!("ulimit -n {limit}; exec \"$0\" run small.py --passes '' -o out.py");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_passhost")]).current_dir(case.path("."));
        let done = command.env("XDG_CACHE_HOME", case.path("cache")).output().expect("a shell runs");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() || stderr.contains("error"), "{limit}: {stderr}");
        said.push_str(&stderr);
    }
    assert!(said.contains("Too many open files") && !said.contains("uncategorized"), "{said}");
}
