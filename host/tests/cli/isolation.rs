//! Tests plugins in their own processes: whatever a plugin does, only its step fails.

use super::bad_plugins::example;
use super::ends::{WAYS, case};
use super::{Case, SMALL};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the workers among the processes that work in the folder of the case, as folders in `/proc`.
fn workers(case: &Case) -> Vec<PathBuf> {
    let folder = std::fs::canonicalize(case.folder.path()).expect("the folder");
    let all = std::fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
    let own = all.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder));
    own.filter(|process| said_by(process, "cmdline").contains("worker-process")).collect()
}

/// Returns the worker that has opened the library of a plugin.
fn opened_by(case: &Case, library: &str) -> Option<PathBuf> {
    workers(case).into_iter().find(|process| said_by(process, "maps").contains(library))
}

/// Reads a file about a process in `/proc`; empty if the process has exited.
fn said_by(process: &Path, file: &str) -> String {
    std::fs::read_to_string(process.join(file)).unwrap_or_default()
}

/// Returns the bundle that a run wrote because a worker died.
fn bundle(said: &str) -> Option<PathBuf> {
    said.lines().find_map(|line| Some(PathBuf::from(line.split_once("wrote the bundle ")?.1)))
}

impl Case {
    /// Lets the first plugin read an environment variable, even if it runs in its own process.
    fn seeing(self, variable: &str) -> Case {
        let manifest = std::fs::read_to_string(self.path("passes.toml")).expect("the manifest");
        let granting = manifest.replacen("[[plugin]]", &format!("[[plugin]]\nenv = [\"{variable}\"]"), 1);
        self.file("passes.toml", granting)
    }
}

/// Runs a pass that fails and then another pass, and returns the messages. A bundle must exist, although none was
/// requested.
fn goes_on(case: &Case, pass: &str, more: &[&str]) -> String {
    let passes = format!("{pass},zoo.Idle");
    let all = [&["run", "small.py", "--isolate", "--keep-going", "--passes", &passes], more].concat();
    let (result, said, code) = case.run(&all, b"");
    assert_eq!(code, 3, "{pass}: {said}");
    assert!(said.lines().any(|line| line.starts_with("zoo.Idle ") && line.contains("unchanged")), "{pass}: {said}");
    let (before, ..) = case.run(&["run", "small.py", "--passes", ""], b"");
    assert_eq!(result, before, "{pass}: the module changed");
    case.nothing_is_left();
    let left = workers(case);
    assert!(left.is_empty(), "{pass}: {left:?}");
    std::fs::remove_file(bundle(&said).expect("a bundle")).expect("the bundle");
    said
}

#[test]
fn whatever_ends_a_worker_costs_its_step() {
    let case = case("whatever_ends_a_worker");
    for (how, what, function) in WAYS {
        let said = goes_on(&case, &format!("zoo.Ends{{how=\"{how}\"}}"), &["--plugin-timeout", "20s"]);
        // If the whole machine has less memory, this exceeds the worker's limit.
        let memory =
            *how == "memory" && said.contains("needs more memory than its limit of ") && said.contains("(SIGABRT)");
        let what = what.replace("a thread that a plugin started", "a thread that it started in its worker");
        let what = if what.starts_with("a thread") { what } else { format!("its worker {what}") };
        let line = format!("error: step 1, pass `zoo.Ends` of plugin `passhost-zoo`: {what}");
        assert!(said.contains(&line) || memory, "{how}: {said}");
        assert!(!function || said.contains("in function `main`"), "{how}: {said}");
    }
    // A forked copy cannot act in the name of the original process.
    let said = goes_on(&case, "zoo.Ends{how=\"fork\"}", &[]);
    assert!(said.contains("its worker ended the process with exit code 0"), "{said}");
}

/// Actions that a run in a single process would not survive or notice.
const WORSE: &[(&str, &str)] = &[
    ("close pipes", "its worker closed its pipe, but did not end"),
    ("nonsense", "its worker sent an invalid answer: it sent an invalid message"),
    ("forged reply", "its worker sent an invalid answer: "),
    ("endless", "its worker exceeded the time limit of 2 s per call"),
    ("endless destructor", "its worker exceeded the time limit of 2 s"),
    ("signal handler", "its worker exceeded the time limit of 2 s"),
    ("longjmp", "its worker was killed by SIG"),
    ("20 GB", "its worker needs more memory than its limit of 1 GiB (SIGABRT)"),
];

#[test]
fn what_one_process_does_not_survive() {
    let case = case("what_one_process_does_not_survive");
    for (how, what) in WORSE {
        // All other ways of ending a worker get more time, because the machine may be busy.
        let timeout = if what.contains("time limit") { "2s" } else { "60s" };
        let limits = ["--plugin-timeout", timeout, "--plugin-memory", "1GiB"];
        let said = goes_on(&case, &format!("zoo.Ends{{how=\"{how}\"}}"), &limits);
        assert!(said.contains(&format!("step 1, pass `zoo.Ends` of plugin `passhost-zoo`: {what}")), "{how}: {said}");
    }
    // A backtrace of any length does not hide the reason.
    let mut command = case.command(&["run", "small.py", "--isolate", "--plugin-memory", "1GiB"]);
    command.args(["--passes", "zoo.Ends{how=\"20 GB\"}"]).env("RUST_BACKTRACE", "1");
    let (_, said, _) = case.finish(command, b"");
    let why = "needs more memory than its limit of 1 GiB (SIGABRT); its output was: memory allocation of 1073741824 bytes failed";
    assert!(said.contains(why), "{said}");
    std::fs::remove_file(bundle(&said).expect("a bundle")).expect("the bundle");
    let run = |how: &str| {
        let pass = format!("zoo.Ends{{how=\"{how}\"}}");
        let ran = case.run(&["run", "small.py", "--isolate", "--plugin-timeout", "2s", "--passes", &pass], b"");
        let left = workers(&case);
        assert!(left.is_empty(), "{how}: {left:?}");
        ran
    };
    for (how, what) in [
        ("endless later", "exceeded the time limit of 2 s per call after the end of the run"),
        ("endless thread-local", "exceeded the time limit of 2 s per call after the end of the run"),
        ("crash later", "was killed by SIGSEGV after the end of the run"),
    ] {
        let (result, said, code) = run(how);
        assert!(code == 3 && said.contains(what) && !result.is_empty(), "{how}: exit code {code}: {said}");
    }
    // A thread does not keep its process alive.
    assert_eq!(run("lingering thread").2, 0);
}

#[test]
fn files_and_network_need_a_grant() {
    let case = case("files_and_network");
    let (path, manifest) = (case.path("wrote.txt"), case.path("passes.toml"));
    let plain = std::fs::read_to_string(&manifest).expect("the manifest");
    let reach = |what: &str| {
        let pass = format!("zoo.Reaches{{what=\"{what}\"}}");
        case.run(&["run", "small.py", "--isolate", "--passes", &pass], b"")
    };
    let (write, read) = (format!("write {}", path.display()), format!("read {}", manifest.display()));
    for what in [&write, &read, "connect"] {
        let (_, said, code) = reach(what);
        assert!(code == 3 && said.contains("it may not "), "{what}: exit code {code}: {said}");
        assert!(said.contains("(os error 13)") || said.contains("(os error 1)"), "{what}: {said}");
    }
    assert!(!path.exists());
    let grants = "write = [\".\"]\nnetwork = true\n";
    let granted = plain.replace("[[plugin]]\n", &format!("[[plugin]]\n{grants}"));
    std::fs::write(&manifest, granted).expect("the manifest");
    for what in [&write, &read, "connect"] {
        let (_, said, code) = reach(what);
        assert_eq!(code, 0, "{what}: {said}");
    }
    assert!(path.exists());
}

/// A run stops at the step, and the output is unchanged.
#[test]
fn a_run_stops_at_the_step() {
    let case = case("a_run_stops_at_the_step");
    let said = case.ended(case.run_of("zoo.Idle,zoo.Ends{how=\"segv\"}", &["--isolate", "--jobs", "2"]));
    assert!(
        said.contains("step 2, pass `zoo.Ends` of plugin `passhost-zoo`: its worker was killed by SIGSEGV"),
        "{said}"
    );
    assert!(said.contains("in function `main`"), "{said}");
    std::fs::remove_file(bundle(&said).expect("a bundle")).expect("the bundle");
}

#[test]
fn limits_and_grants() {
    let case = case("limits_and_grants");
    let said = goes_on(&case, "zoo.Ends{how=sleep}", &["--plugin-timeout", "1s"]);
    assert!(said.contains("its worker exceeded the time limit of 1 s per call"), "{said}");
    assert!(said.contains("in function `main`"), "{said}");
    let (_, said, code) = case.run(&["run", "small.py", "--isolate", "--plugin-memory", "2 GB", "--passes", ""], b"");
    assert!(code == 2 && said.contains("unknown unit `GB`"), "{said}");
    let few = "is too little; a plugin process needs 16 MiB or more to start";
    let (_, said, code) = case.run(&["run", "small.py", "--isolate", "--plugin-memory", "1MiB", "--passes", ""], b"");
    assert!(code == 2 && said.contains(&format!("1 MiB {few}")), "{said}");
    let (_, said, code) = case.run(&["run", "small.py", "--isolate", "--plugin-memory", "16MiB", "--passes", ""], b"");
    assert_eq!(code, 0, "{said}");
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let little = manifest.replacen("[[plugin]]", "[[plugin]]\nmemory = \"1 KiB\"", 1);
    std::fs::write(case.path("little.toml"), little).expect("a manifest");
    let (_, said, code) = case.run(&["run", "small.py", "--manifest", "little.toml", "--passes", ""], b"");
    assert!(code == 2 && said.contains(&format!("`memory`: 1 KiB {few}")), "{said}");
}

/// Rules, checkers and instruments can end a worker, as passes can.
#[test]
fn rules_checkers_and_instruments() {
    let case = case("rules_checkers_instruments");
    for (passes, instrument, what) in [
        ("zoo.Inserts", None, "operator `zoo.exits` of plugin `passhost-zoo`"),
        ("zoo.Inserts{name=\"zoo.crashes\"}", None, "its worker was killed by SIGSEGV"),
        ("zoo.NeedsEnding", None, "its checker in plugin `passhost-zoo` failed on function"),
        ("zoo.Idle", Some("zoo.Watcher"), "its worker ended the process with exit code 0"),
        ("zoo.Idle", Some("zoo.Watcher{event=drop}"), "its worker ended the process with exit code 0"),
    ] {
        let mut all = vec!["run", "small.py", "--isolate", "--passes", passes];
        all.extend(instrument.iter().flat_map(|instrument| ["--instrument", *instrument]));
        for more in [&[][..], &["--keep-going"]] {
            let (_, said, code) = case.run(&[&all, more].concat(), b"");
            assert!(code == 3 && said.contains(what), "{passes}: exit code {code}: {said}");
            assert!(workers(&case).is_empty());
            fails_again(&case, &said);
        }
    }
}

/// Checks that replaying the bundle written after a worker's death reproduces the failure.
fn fails_again(case: &Case, said: &str) {
    let bundle = bundle(said).unwrap_or_else(|| panic!("no bundle: {said}"));
    let (_, again, code) = case.run(&["replay", bundle.to_str().expect("a path"), "--with-current-plugins"], b"");
    assert!(code == 3 && again.contains("this is the same failure as in the bundle"), "exit code {code}: {again}");
    std::fs::remove_file(bundle).expect("the bundle");
}

/// Other commands that run passes also write bundles.
#[test]
fn each_command_that_runs_passes_writes_a_bundle() {
    let case = case("bundles_of_each_command");
    for command in [&["validate"][..], &["exec", "--random", "1"], &["blame", "--at", "gv"]] {
        let passes = ["small.py", "--isolate", "--passes", "zoo.Idle,zoo.Ends{how=segv}"];
        let (_, said, code) = case.run(&[command, &passes].concat(), b"");
        assert!(code == 3 && said.contains("its worker was killed by SIGSEGV"), "{command:?}: {code}: {said}");
        fails_again(&case, &said);
    }
}

/// Returns the module of a test that calls `operator`.
fn calling(operator: &str) -> String {
    SMALL.replace("R.multiply(lv, lv1)", &format!("T.{operator}(lv)"))
}

/// The error does not blame the input, and does not report the operator as unknown.
#[test]
fn a_rule_that_ends_its_worker_while_the_input_is_read() {
    let case = case("a_rule_while_reading").file("exits.py", calling("zoo.exits"));
    let case = case.file("crashes.py", calling("zoo.crashes"));
    for (input, what) in [("exits.py", "ended the process with exit code 0"), ("crashes.py", "was killed by SIGSEGV")] {
        let (_, said, code) = case.run(&["run", input, "--isolate", "--passes", ""], b"");
        assert!(code == 3 && said.contains(&format!("its worker {what}")), "{input}: exit code {code}: {said}");
        assert!(said.contains("correct the plugin") && !said.contains("no operator"), "{input}: {said}");
        assert!(workers(&case).is_empty());
        fails_again(&case, &said);
    }
}

/// The reader of a plugin's output may be slow, and need not read all of it.
#[test]
fn what_a_plugin_says_without_end() {
    let case = Case::new("says_without_end").libraries(&[example("talks")]).operators().seeing("ZOO_TALK");
    let flood = |timeout: &str, pause: Duration| {
        let all = ["run", "small.py", "--isolate", "--plugin-timeout", timeout, "--passes", "zoo.Talks"];
        let mut child = case.command(&all).env("ZOO_TALK", "flood").stderr(Stdio::piped()).spawn().expect("passhost");
        let (start, mut pipe) = (Instant::now(), child.stderr.take().expect("a pipe"));
        let (mut said, mut total, mut buffer) = (Vec::new(), 0, [0; 1 << 14]);
        while let Ok(n @ 1..) = pipe.read(&mut buffer) {
            total += n;
            said.extend_from_slice(&buffer[..n]);
            said.drain(..said.len().saturating_sub(1 << 16));
            std::thread::sleep(pause);
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(child.wait().expect("an end").code(), Some(3), "{said}");
        assert!(said.contains("exceeded the time limit of"), "{said}");
        std::fs::remove_file(bundle(&said).expect("a bundle")).expect("the bundle");
        (said, total, start.elapsed())
    };
    let (_, _, time) = flood("1s", Duration::from_millis(5));
    assert!(time < Duration::from_secs(20), "{time:?}");
    let (said, total, _) = flood("20s", Duration::ZERO);
    assert!(total < 65 << 20 && said.contains("wrote more than 64 MiB to standard error"), "{total}: {said}");
}

/// A lack of system resources is not a fault of a plugin.
#[test]
fn what_the_system_does_not_give() {
    let (_, main) = SMALL.split_once("class Module:\n").expect("a module");
    let others: String = (0..200).map(|at| main.replace("main", &format!("f{at}"))).collect();
    let case = case("what_the_system_does_not_give").file("large.py", format!("{SMALL}{others}"));
    let limited = |limit: &str, input: &str, more: &[&str]| {
        let all = [&["run", input, "-o", "new.py"], more].concat();
        let mut command = Command::new("bash");
        command.env("TMPDIR", case.path("temporary"));
        command.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]).arg(env!("CARGO_BIN_EXE_passhost"));
        command.args(all).current_dir(case.folder.path()).env("XDG_CACHE_HOME", case.path("cache"));
        case.finish(command, b"")
    };
    std::fs::create_dir(case.path("temporary")).expect("a folder");
    for more in [&["--passes", "zoo.Idle"][..], &["--passes", "zoo.Idle", "--isolate"]] {
        let (_, said, code) = limited("-f 1", "large.py", more);
        assert!(code == 4 && said.contains("File too large") && !said.contains("its worker"), "{code}: {said}");
    }
    // A bundle that cannot be written leaves no file.
    let ends = ["--isolate", "--passes", "zoo.Ends{how=segv}"];
    let (_, said, code) = limited("-f 1", "large.py", &ends);
    assert!(
        code == 3 && said.contains("the bundle could not be written: ") && said.contains("File too large"),
        "{code}: {said}"
    );
    assert_eq!(std::fs::read_dir(case.path("temporary")).expect("the folder").count(), 0);
    let (_, said, code) = limited("-n 10", "small.py", &["--passes", "zoo.Idle", "--isolate"]);
    assert!(code == 4 && said.contains("Too many open files") && said.contains("ulimit -n"), "{code}: {said}");
}

/// During a run, the worker program is replaced by another program.
#[test]
fn a_program_that_is_no_worker() {
    use std::os::unix::fs::PermissionsExt;
    let case = case("a_program_that_is_no_worker");
    let program = case.program("passhost");
    let passes = "zoo.Ends{how=sleep},zoo.Idle";
    let mut command = Command::new(&program);
    command.args(["run", "small.py", "--isolate", "--keep-going", "--plugin-timeout", "4s", "--passes", passes]);
    command.current_dir(case.folder.path()).env("XDG_CACHE_HOME", case.path("cache"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("passhost");
    while ["libzoo_ends", "librelax_ops"].iter().any(|library| opened_by(&case, library).is_none()) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_file(&program).expect("the copy");
    std::fs::write(&program, "#!/bin/sh\nexit 0\n").expect("a program");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a program");
    let output = child.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("was started as a worker, but is not one: it ended the process with exit code 0"), "{said}");
    assert_eq!(output.status.code(), Some(4), "{said}");
    std::fs::remove_file(bundle(&said).expect("a bundle")).expect("the bundle");
}

/// The worker of the next step's plugin is killed between two calls.
#[test]
fn a_worker_that_is_killed_between_two_calls() {
    let case = case("killed_between_two_calls");
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let passes = format!("[[plugin]]\ncrate = \"{}\"\n", super::root().join("plugins/relax-passes").display());
    let case = case.file("passes.toml", manifest + &passes);
    let passes = "zoo.Ends{how=sleep},relax.Normalize";
    let all = ["run", "small.py", "--isolate", "--keep-going", "--plugin-timeout", "3s", "--passes", passes];
    let child = case.command(&all).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("passhost");
    // The first step sleeps in one worker, and the others are idle.
    let idle = loop {
        match opened_by(&case, "librelax_passes") {
            Some(process) => break process.file_name().expect("a number").to_os_string(),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    std::thread::sleep(Duration::from_millis(700));
    assert!(Command::new("kill").arg("-9").arg(idle).status().expect("kill").success());
    let output = child.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("was killed by SIGKILL") && said.contains("it is replaced by a new one"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("relax.Normalize ") && !line.contains("failed")), "{said}");
    assert!(workers(&case).is_empty());
    std::fs::remove_file(bundle(&said).expect("a bundle")).expect("the bundle");
}

#[test]
fn limits_and_grants_without_effect() {
    let case = case("limits_without_effect");
    let run = |more: &[&str]| {
        let (_, said, code) = case.run(&[&["run", "small.py", "--passes", "zoo.Idle"], more].concat(), b"");
        assert_eq!(code, 0, "{said}");
        said
    };
    let none = "has no effect, because all plugins run in the process of passhost";
    let limits = ["--plugin-timeout", "9s", "--plugin-memory", "1GiB"];
    assert!(run(&limits).contains(none));
    assert!(!run(&[&["--isolate"], &limits[..]].concat()).contains("warning"));
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let limited = manifest.replacen("[[plugin]]", "[[plugin]]\ntimeout = \"9 s\"\nread = [\"no\", \".\"]", 1);
    std::fs::write(case.path("passes.toml"), &limited).expect("the manifest");
    let said = run(&[]);
    assert!(
        said.contains("has no effect, because this plugin does not run in its own process") && said.contains("isolate"),
        "{said}"
    );
    let said = run(&["--isolate"]);
    assert!(
        said.contains("`read` grants access to no, which does not exist") && !said.contains("has no effect"),
        "{said}"
    );
    std::fs::write(case.path("passes.toml"), limited.replacen("timeout", "isolate = true\ntimeout", 1)).expect("it");
    let said = run(&limits);
    assert!(!said.contains("has no effect") && !said.contains("all plugins run"), "{said}");
}

/// The environment can contain secrets, such as tokens.
#[test]
fn the_environment_needs_a_grant() {
    let case = case("the_environment");
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    for (grant, seen) in [("", ["no", "no"]), ("env = [\"ZOO_*\"]", ["yes", "no"]), ("env = [\"*\"]", ["yes", "yes"])] {
        let granting = manifest.replacen("[[plugin]]", &format!("[[plugin]]\n{grant}"), 1);
        std::fs::write(case.path("passes.toml"), granting).expect("the manifest");
        let mut command = case.command(&["run", "small.py", "--isolate", "--passes", "zoo.Ends{how=sleep}"]);
        command.env("ZOO_KEY", "a").env("ACME_TOKEN", "b").args(["--plugin-timeout", "2s"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("passhost");
        let has_zoo = |process: &PathBuf| said_by(process, "maps").contains("libzoo_ends");
        let environment = loop {
            match workers(&case).into_iter().find(has_zoo) {
                Some(process) => break said_by(&process, "environ"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let has = |start: &str| if environment.split('\0').any(|it| it.starts_with(start)) { "yes" } else { "no" };
        assert_eq!(([has("ZOO_KEY="), has("ACME_TOKEN=")], has("PATH=")), (seen, "yes"), "{grant}: {environment:?}");
        let said = child.wait_with_output().expect("an end").stderr;
        std::fs::remove_file(bundle(&String::from_utf8_lossy(&said)).expect("a bundle")).expect("the bundle");
    }
}

/// Results, messages and counters are the same with and without workers.
#[test]
fn results_are_those_of_one_process() {
    let case = Case::new("results_of_workers").libraries(&[example("talks")]).operators();
    let strip = |said: String| -> Vec<String> {
        let times = |line: &str| {
            line.split_whitespace().filter(|word| word.parse::<f64>().is_err()).collect::<Vec<_>>().join(" ")
        };
        said.lines().map(times).collect()
    };
    let run = |case: &Case, more: &[&str]| {
        let all = [&["run", "small.py", "--statistics", "--passes", "zoo.Talks"], more].concat();
        let mut command: Command = case.command(&all);
        command.env("ZOO_TALK", "print");
        let (result, said, code) = case.finish(command, b"");
        (result, strip(said).into_iter().filter(|line| !line.contains("zoo.Talks")).collect::<Vec<_>>(), code)
    };
    let here = run(&case, &[]);
    assert_eq!(here.2, 0, "{here:?}");
    let case = case.seeing("ZOO_TALK");
    assert_eq!(run(&case, &["--isolate"]), here);
    // The library is then a private copy, which is not under any path.
    let (_, said, code) = case.run(&["lock"], b"");
    assert_eq!(code, 0, "{said}");
    assert_eq!(run(&case, &["--isolate", "--locked"]), here);
    assert!(SMALL.contains("def main"));
}
