//! Tests of plugins that end the process: however they do it, the exit code is 3 and the message names them. The plugin is
//! `tests/bad-plugins/zoo/examples/zoo_ends.rs`.

use super::bad_plugins::example;
use super::{Case, SMALL};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Returns a module of many functions, one of them `main`.
fn many() -> String {
    let main = SMALL.split_once("    @R.function\n").expect("a function").1;
    let other = |at| format!("    @R.function\n{}", main.replace("def main", &format!("def f{at:02}")));
    let others: String = (0..40).map(other).collect();
    format!("@I.ir_module\nclass Module:\n{others}    @R.function\n{main}")
}

pub(super) fn case(name: &'static str) -> Case {
    Case::new(name).file("many.py", many()).file("out.py", "as it was").libraries(&[example("ends")]).operators()
}

impl Case {
    /// Runs a command that must end with exit code 3 without leaving processes or files, and returns its messages.
    pub(super) fn ended(&self, command: Command) -> String {
        let (_, said, code) = self.finish(command, b"");
        assert_eq!(code, 3, "{said}");
        assert_eq!(std::fs::read_to_string(self.path("out.py")).expect("the output of an earlier run"), "as it was");
        self.nothing_is_left();
        said
    }

    pub(super) fn nothing_is_left(&self) {
        let files = std::fs::read_dir(self.folder.path()).expect("the folder").flatten();
        let left: Vec<_> =
            files.map(|file| file.file_name()).filter(|name| name.as_encoded_bytes()[0] == b'.').collect();
        assert!(left.is_empty(), "{left:?}");
    }

    pub(super) fn run_of(&self, passes: &str, more: &[&str]) -> Command {
        self.command(&[&["run", "many.py", "-o", "out.py", "--passes", passes], more].concat())
    }
}

/// Each way to end, with the message, and true if the process can record the function before its end.
pub(super) const WAYS: &[(&str, &str, bool)] = &[
    ("exit", "ended the process with exit code 0", true),
    ("_exit", "ended the process with exit code 0", false),
    ("quick_exit", "ended the process with exit code 0", false),
    ("exec", "ended the process with exit code 0", false),
    ("drop", "ended the process with exit code 0", true),
    ("hook", "ended the process with exit code 0", true),
    ("thread", "a thread that a plugin started ended the process with exit code 0", false),
    ("hook panics", "was killed by SIGABRT", true),
    ("unwind", "was killed by SIGABRT", true),
    ("memory", "was killed by SIGABRT", true),
    ("pthread_exit", "was killed by SIGABRT", true),
    ("abort", "was killed by SIGABRT", true),
    ("segv", "was killed by SIGSEGV", true),
    ("overflow", "overflowed its stack", true),
    ("4", "was killed by SIGILL", true),
    ("5", "was killed by SIGTRAP", true),
    ("7", "was killed by SIGBUS", true),
    ("8", "was killed by SIGFPE", true),
    ("31", "was killed by SIGSYS", true),
    ("9", "was killed by SIGKILL", false),
    ("14", "was killed by SIGALRM", false),
    ("15", "was killed by SIGTERM", false),
    ("24", "took more time than the system allows (SIGXCPU)", false),
];

#[test]
fn every_end_is_reported() {
    let case = case("every_end_is_reported");
    for (how, what, function) in WAYS {
        for jobs in ["1", "2"] {
            let said = case.ended(case.run_of(&format!("zoo.Idle,zoo.Ends{{how=\"{how}\"}}"), &["--jobs", jobs]));
            let who = format!("error: step 2, pass `zoo.Ends` of plugin `passhost-zoo`: {what}");
            assert!(said.contains(&who), "{how}, {jobs} jobs: {said}");
            assert!(said.contains("plugin file $TARGET/examples/libzoo_ends.so"), "{how}: {said}");
            assert!(!function || said.contains("in function `main`"), "{how}, {jobs} jobs: {said}");
        }
    }
}

/// The JSON messages contain the same facts.
#[test]
fn ends_are_reported_to_programs() {
    let case = case("ends_are_reported_to_programs");
    let said = case.ended(case.run_of("zoo.Ends", &["--message-format", "json"]));
    let line: serde_json::Value = serde_json::from_str(said.trim()).expect("one line of JSON");
    let shown = |key: &str| line[key].as_str().unwrap_or_default().to_string();
    let expected = ["zoo.Ends", "passhost-zoo", "main"].map(str::to_string);
    assert_eq!(["pass", "plugin", "function"].map(shown), expected, "{said}");
    assert_eq!(line["position"], 1);
}

/// Tests the mode without a second process. In this mode, the process of the run itself reports the ends that it can
/// detect.
#[test]
fn one_process_reports_what_it_notices() {
    let case = case("one_process_reports_what_it_notices");
    for (how, what, function) in WAYS {
        let number = how.parse::<i32>().unwrap_or(0);
        if matches!(*how, "_exit" | "quick_exit" | "exec") || [9, 14, 15, 24].contains(&number) {
            continue;
        }
        let mut command = case.run_of(&format!("zoo.Ends{{how=\"{how}\"}}"), &["--jobs", "2"]);
        command.env("PASSHOST_ONE_PROCESS", "1");
        let said = case.ended(command);
        let what = match what.strip_suffix(" with exit code 0") {
            Some(what) => format!("{what} by calling `exit`"),
            None if *how == "overflow" => "was killed by SIGSEGV".to_string(),
            None => (*what).to_string(),
        };
        let function = if *function { ", in function `main`" } else { "" };
        let line = format!("error: step 1, pass `zoo.Ends` of plugin `passhost-zoo`: {what}{function}\n");
        assert!(said.contains(&line), "{how}: {said}");
    }
}

#[test]
fn rules_checkers_and_instruments_that_end_the_process() {
    let case = case("rules_checkers_and_instruments_that_end_the_process");
    let step = "error: step 1, pass `zoo.Inserts` of plugin `passhost-zoo`: the rule of operator";
    for jobs in ["1", "2"] {
        let said = case.ended(case.run_of("zoo.Inserts", &["--jobs", jobs]));
        let what = "`zoo.exits` of plugin `passhost-zoo` ended the process with exit code 0";
        assert!(said.contains(&format!("{step} {what}")), "{said}");
        let said = case.ended(case.run_of("zoo.Inserts{name=zoo.crashes}", &["--jobs", jobs]));
        assert!(
            said.contains(&format!("{step} `zoo.crashes` of plugin `passhost-zoo` was killed by SIGSEGV")),
            "{said}"
        );
    }
    let said = case.ended(case.run_of("zoo.NeedsEnding", &[]));
    let what = "step 1, pass `zoo.NeedsEnding` of plugin `passhost-zoo`: the checker of property `zoo.ending` of plugin \
                `passhost-zoo` ended the process with exit code 0";
    assert!(said.contains(what), "{said}");
    let said = case.ended(case.run_of("zoo.Idle", &["--instrument", "zoo.Watcher"]));
    let what = "instrument `zoo.Watcher` of plugin `passhost-zoo`, run_before of step 1, pass `zoo.Idle`: ended the \
                process with exit code 0";
    assert!(said.contains(what), "{said}");
    let said = case.ended(case.run_of("zoo.Idle", &["--instrument", "zoo.Watcher{event=drop}"]));
    let what = "of plugin `passhost-zoo`, its destructor: ended the process with exit code 0";
    assert!(said.contains(what), "{said}");
}

/// Code that runs after the last pass changes neither an exit code to 0 nor a result.
#[test]
fn what_runs_when_the_process_ends() {
    let case = case("what_runs_when_the_process_ends");
    let said = case.ended(case.run_of("zoo.LeavesAndFails", &[]));
    assert!(said.contains("this pass always fails"), "{said}");
    std::fs::remove_file(case.path("out.failed.py")).expect("the last good module");
    let (_, said, code) = case.finish(case.run_of("zoo.Ends{how=\"crash later\"}", &[]), b"");
    assert!(said.contains("error: a plugin was killed by SIGSEGV after the end of the run"), "{said}");
    assert_eq!(code, 3);
    assert!(std::fs::read_to_string(case.path("out.py")).expect("the result").contains("def main"), "{said}");
    // A plugin that only cleans up is not at fault.
    let (_, said, code) = case.finish(case.run_of("zoo.Ends{how=later}", &[]), b"");
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_copy_of_the_process_writes_nothing() {
    let case = case("a_copy_of_the_process_writes_nothing");
    let said = case.ended(case.run_of("zoo.Ends{how=fork}", &["--jobs", "1"]));
    // The copy also uses the board of the process, so the pass can seem to have ended.
    assert!(said.contains("pass `zoo.Ends` of plugin `passhost-zoo`"), "{said}");
    assert!(said.contains("ended the process with exit code 0"), "{said}");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(std::fs::read_to_string(case.path("out.py")).expect("the output"), "as it was");
}

/// A plugin in the lockfile is opened without being tried out first.
#[test]
fn a_constructor_that_ends_the_process() {
    let case = Case::new("a_constructor_that_ends_the_process").file("out.py", "as it was");
    let case = case.libraries(&[example("constructor")]).operators();
    assert_eq!(case.run(&["lock"], b"").2, 0);
    for locked in [&[][..], &["--locked"]] {
        let mut command =
            case.command(&[&["run", "small.py", "-o", "out.py", "--passes", "zoo.Constructed"], locked].concat());
        command.env("ZOO_EXIT", "1");
        let said = case.ended(command);
        let what = "libzoo_constructor.so: ended the process with exit code 0 while it was opened";
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn a_rule_that_asks_for_its_own_type() {
    let case = case("a_rule_that_asks_for_its_own_type");
    for jobs in ["1", "2"] {
        let (_, said, code) = case.finish(case.run_of("zoo.Inserts{name=zoo.endless}", &["--jobs", jobs]), b"");
        assert_eq!(code, 3, "{said}");
        let what = "operator `zoo.endless` of plugin `passhost-zoo`";
        assert!(said.contains(what) && said.contains("100") && said.contains("zoo.Inserts"), "{said}");
    }
}

/// A signal from the user, to the parent or to both processes, is not attributed to a plugin, and no process of the run
/// survives.
#[test]
fn signals_of_users_keep_their_meaning() {
    let case = case("signals_of_users_keep_their_meaning");
    for (signal, group) in [1, 2, 3, 15].into_iter().flat_map(|signal| [(signal, false), (signal, true)]) {
        let (said, status) = interrupted(&case, signal, group);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(signal), "{said}");
        assert_eq!(said, "");
        case.nothing_is_left();
    }
}

/// A signal that a plugin sends to its own process does not count as a signal from the user.
#[test]
fn plugins_that_send_signals_of_users_are_named() {
    let case = case("plugins_that_send_signals_of_users_are_named");
    for (signal, word) in [(1, "SIGHUP"), (2, "SIGINT"), (3, "SIGQUIT"), (15, "SIGTERM")] {
        for jobs in ["1", "2"] {
            let run = case.run_of(&format!("zoo.Idle,zoo.Ends{{how=\"{signal}\"}}"), &["--jobs", jobs]);
            let said = case.ended(with_default_signals(&run));
            let who = "error: step 2, pass `zoo.Ends` of plugin `passhost-zoo`: was killed by";
            assert!(said.contains(&format!("{who} {word}")), "{said}");
        }
    }
}

/// Runs a command with default signal handling. Tests in the background of a shell would otherwise inherit ignored
/// signals.
fn with_default_signals(run: &Command) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(run.get_program()).args(run.get_args());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(run.get_current_dir().expect("the folder of the case"));
    command
}

/// Sends a signal to a sleeping run, either to its first process or to its process group.
fn interrupted(case: &Case, signal: i32, group: bool) -> (String, std::process::ExitStatus) {
    let mut command = with_default_signals(&case.run_of("zoo.Ends{how=sleep}", &["--jobs", "1"]));
    let child = command.process_group(0).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(400));
    let to = if group { format!("-{}", child.id()) } else { child.id().to_string() };
    let sent = Command::new("kill").arg(format!("-{signal}")).args(["--", &to]).status();
    assert!(sent.expect("kill runs").success());
    let output = child.wait_with_output().expect("the binary ends");
    assert!(start.elapsed() < Duration::from_secs(50), "it ended by itself");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status)
}
