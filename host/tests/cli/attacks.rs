//! Tests with a malicious plugin in its own process: its attacks are refused, its effects on itself end within its limits, and nothing
//! remains. The plugin is `tests/bad-plugins/zoo/examples/zoo_attacks.rs`. The output of `doctor` determines which attacks must fail on a
//! machine.

use super::Case;
use super::bad_plugins::example;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A module without operators, so that only the malicious plugin is opened.
const IDENTITY: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        return x
"#;

const REFUSED: &[i32] = &[libc::EPERM, libc::EACCES, libc::ENOSYS];

/// Returns true if an attack that ended with this error had no effect, although the error is not a refusal.
fn is_harmless(way: &str, error: i32) -> bool {
    let more: &[i32] = match way {
        // In a namespace, the process, user or signal does not exist.
        "pidfd of peer" => &[libc::EINVAL, libc::ESRCH, libc::ENOPROTOOPT, libc::EBADF, libc::ENOTSOCK],
        "another user" | "other groups" => &[libc::EINVAL],
        "rename" | "link" => &[libc::EXDEV],
        "private memory" | "addresses" | "memory written later" | "locked memory" | "address 0" => &[libc::ENOMEM],
        // The file does not exist.
        "terminal" => &[libc::ENXIO],
        "disk" | "passwords" | "core pattern" | "cgroup" | "shared memory file" => &[libc::ENOENT],
        _ if OF_OTHERS.contains(&way) => &[libc::ESRCH, libc::ENOENT],
        _ => &[],
    };
    REFUSED.contains(&error) || more.contains(&error)
}

/// Attacks on other processes, which a worker in its own namespace cannot see.
const OF_OTHERS: &[&str] = &[
    "kill",
    "kill with nothing",
    "kill group",
    "kill all",
    "tkill",
    "tgkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "pidfd_open",
    "pidfd of peer",
    "prlimit",
    "prlimit read",
    "setpriority",
    "setpriority group",
    "setpriority user",
    "getpriority",
    "sched_setaffinity",
    "sched_setscheduler",
    "sched_setparam",
    "sched_setattr",
    "ioprio_set",
    "ioprio_set user",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "kcmp",
    "move_pages",
    "migrate_pages",
    "get_robust_list",
    "share a core",
];

/// System calls that only seccomp, or missing rights, can refuse.
const CALLS: &[&str] = &[
    "signals of a file",
    "process group",
    "session",
    "higher priority",
    "real time",
    "process_madvise",
    "ptrace me",
    "pidfd_getfd",
    "more rights",
    "another user",
    "other groups",
    "more memory",
    "more files",
    "mount",
    "umount",
    "pivot_root",
    "chroot",
    "unshare users",
    "unshare mounts",
    "setns",
    "clone users",
    "clone network",
    "clone for parent",
    "clone3",
    "open_tree",
    "fsopen",
    "move_mount",
    "handle of a file",
    "open_by_handle_at",
    "personality",
    "reboot",
    "kexec_load",
    "init_module",
    "delete_module",
    "swapon",
    "swapoff",
    "acct",
    "syslog",
    "quotactl",
    "sethostname",
    "setdomainname",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "vhangup",
    "calls to come",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_setup",
    "keyctl",
    "add_key",
    "request_key",
    "inotify",
    "inotify_add_watch",
    "fanotify",
    "lease",
    "flock",
    "lock",
    "lock of a description",
    "filter of calls",
    "filter by prctl",
    "rules for files",
    "addresses",
    "pages in a pipe",
    "a copied pipe",
    "notify",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "utimensat",
    "futimens",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "setxattrat",
    "flags of a file",
    "verity",
    "create with rights",
    "openat2",
    "shared memory",
    "validated shared memory",
    "a second stack",
    "private memory",
    "address 0",
    "memory written later",
    "locked memory",
    "memfd_create",
    "memfd_secret",
    "shmget",
    "semget",
    "msgget",
    "mq_open",
    "large pipe",
    "socket",
    "local socket",
    "raw socket",
    "netlink",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "TIOCSTI",
    "TIOCSCTTY",
    "TIOCLINUX",
];

/// System calls that other processors do not have.
#[cfg(target_arch = "x86_64")]
const CALLS_HERE: &[&str] =
    &["chmod", "chown", "lchown", "utime", "utimes", "futimesat", "iopl", "ioperm", "modify_ldt", "x32"];
#[cfg(not(target_arch = "x86_64"))]
const CALLS_HERE: &[&str] = &[];

/// Files to which no grant gives access, and which Landlock refuses.
const FILES: &[&str] = &[
    "read",
    "write",
    "open and cut off",
    "truncate",
    "unlink",
    "rename",
    "link",
    "symlink",
    "create",
    "temporary file",
    "shared memory file",
    "folder",
    "pipe",
    "device",
    "environment of another",
    "memory of another",
    "files of another",
    "terminal",
    "disk",
    "passwords",
    "list of users",
    "core pattern",
    "cgroup",
    "own library",
];

/// Creates a test case whose plugin attacks the system.
fn case(name: &'static str) -> Case {
    Case::empty(name).file("m.py", IDENTITY).file("victim", "as it was").libraries(&[example("attacks")])
}

/// The id of an unprivileged user. Not needed if the tests already run as one.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("this process").uid() == 0
}

/// Returns the users as which attacks run: the user of the tests, and an unprivileged user.
fn users() -> Vec<Option<u32>> {
    if is_root() { vec![None, Some(NOBODY)] } else { vec![None] }
}

impl Case {
    /// Returns a command that runs as an unprivileged user, with a copy of the program and files that belong to that user.
    fn of_user(&self, user: Option<u32>, args: &[&str]) -> Command {
        let Some(user) = user else { return self.command(args) };
        let program = self.path("program");
        if !program.exists() {
            self.program("program");
            std::fs::copy(example("attacks"), self.path("libzoo_attacks.so")).expect("a copy");
            std::fs::write(self.path("passes.toml"), "[[plugin]]\npath = \"libzoo_attacks.so\"\n").expect("a manifest");
        }
        for name in [".", "m.py", "victim", "program", "libzoo_attacks.so", "passes.toml"] {
            std::os::unix::fs::chown(self.path(name), Some(user), Some(user)).expect("the owner");
        }
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).env_remove("PASSHOST_LOG");
        command.env("XDG_CACHE_HOME", self.path("cache")).uid(user).gid(user);
        command
    }

    /// Returns true if a limit is in effect on this machine, according to `doctor`.
    fn holds(&self, user: Option<u32>, bound: &str) -> bool {
        let (found, said, code) = self.finish(self.of_user(user, &["doctor", "--json"]), b"");
        assert_eq!(code, 0, "{said}");
        let all: serde_json::Value = serde_json::from_str(&found).expect("JSON");
        let row = &all[format!("isolation: {bound}")];
        assert!(row.is_object(), "doctor does not mention {bound}: {found}");
        row["found"].is_string()
    }

    /// Returns the processes that work in the folder of this test case.
    fn processes(&self) -> Vec<PathBuf> {
        let folder = std::fs::canonicalize(self.folder.path()).expect("the folder");
        let all = std::fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
        all.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)).collect()
    }
}

/// A process that does not belong to the plugin.
struct Victim(Child);

impl Victim {
    fn start(user: Option<u32>) -> Victim {
        let mut command = Command::new("sleep");
        command.arg("600").process_group(0).current_dir("/").stdin(Stdio::null());
        user.iter().for_each(|user| _ = command.uid(*user).gid(*user));
        Victim(command.spawn().expect("sleep"))
    }

    fn facts(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.0.id())).expect("it lives")
    }

    /// Returns the state that an attack could change.
    fn state(&self) -> (String, String, Vec<String>) {
        let facts = self.facts("stat");
        let (_, facts) = facts.rsplit_once(')').expect("a name");
        // The state (stopped or not), priority, nice value, and policy.
        let state = facts.split_whitespace().next().expect("a state").replace(['S', 'R', 'D'], "runs");
        let numbers = [15, 16, 38].map(|at| facts.split_whitespace().nth(at).unwrap_or_default().to_string());
        let allowed: String = self.facts("status").lines().filter(|line| line.starts_with("Cpus_allowed")).collect();
        (state, self.facts("limits") + &allowed, numbers.to_vec())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the properties of a file that nothing may change.
fn facts(path: PathBuf) -> (u32, u32, u32, i64, i64, u64, String) {
    let facts = std::fs::metadata(&path).expect("the file");
    let content = std::fs::read_to_string(&path).unwrap_or_default();
    (facts.mode(), facts.uid(), facts.gid(), facts.mtime(), facts.mtime_nsec(), facts.nlink(), content)
}

/// Returns the names of the files in a case, except those that passhost writes.
fn names(case: &Case) -> Vec<String> {
    let all = std::fs::read_dir(case.folder.path()).expect("the folder").flatten();
    all.map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "cache" && name != "passes.lock")
        .collect()
}

/// Parses the outcome of each attack from the plugin's output.
fn outcomes(said: &str) -> BTreeMap<&str, &str> {
    said.lines().filter_map(|line| line.trim().rsplit_once(": ")).collect()
}

#[test]
fn what_a_plugin_has_no_business_with_is_refused() {
    let ways = users().into_iter().flat_map(|user| [(user, false), (user, true)]);
    for (user, without_spaces) in ways {
        let case = case("attacks_refused");
        // The program and its files must exist before anything is compared.
        let (files, calls) = (case.holds(user, "files"), case.holds(user, "calls"));
        let mut ways = if files { FILES.to_vec() } else { Vec::new() };
        ways.extend(OF_OTHERS.iter().chain(CALLS).chain(CALLS_HERE).filter(|_| calls));
        let victim = Victim::start(user);
        std::fs::set_permissions(case.path("victim"), PermissionsExt::from_mode(0o640)).expect("a mode");
        let before = (victim.state(), facts(case.path("victim")), names(&case));
        let pass = format!(
            "zoo.Attacks{{ways=\"{}\", victim={}, file=\"{}\"}}",
            ways.join(","),
            victim.0.id(),
            case.path("victim").display()
        );
        let mut command = case.of_user(user, &["run", "m.py", "--isolate", "--plugin-memory", "256MiB"]);
        command.args(["--passes", &pass]);
        if without_spaces {
            command.env("PASSHOST_ONE_PROCESS", "1");
        }
        let (_, said, code) = case.finish(command, b"");
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("step 1, pass `zoo.Attacks` of plugin `passhost-zoo`"), "{said}");
        assert_eq!(said.contains("does not restrict"), !(files && calls), "{said}");
        let outcomes = outcomes(&said);
        let mut wrong = Vec::new();
        for way in &ways {
            let outcome = *outcomes.get(way).unwrap_or(&"not tried");
            let error = outcome.strip_prefix("errno ").and_then(|number| number.parse().ok());
            if !error.is_some_and(|error| is_harmless(way, error)) {
                wrong.push(format!("{way}: {outcome}"));
            }
        }
        let how = if without_spaces { "without name spaces" } else { "with name spaces" };
        assert!(wrong.is_empty(), "as user {user:?}, {how}, of {} attacks: {wrong:#?}", ways.len());
        assert_eq!((victim.state(), facts(case.path("victim")), names(&case)), before, "as user {user:?}");
        assert!(case.processes().is_empty(), "as user {user:?}");
    }
}

/// The end of a harmful run: its output, its exit code, and the maximum time by which it exceeded the time limit.
struct Ended {
    said: String,
    code: i32,
    time: Duration,
}

/// Runs one harmful action, with a limit of a second per call.
fn harm(case: &Case, user: Option<u32>, how: &str, more: &[&str]) -> Ended {
    let pass = format!("zoo.Harms{{how=\"{how}\"}}");
    let before = names(case);
    let mut command = case.of_user(user, &["run", "m.py", "--isolate", "--passes", &pass]);
    let temporary = case.path("cache");
    std::fs::create_dir_all(&temporary).expect("a folder");
    user.iter().for_each(|user| std::os::unix::fs::chown(&temporary, Some(*user), Some(*user)).expect("the owner"));
    command.args(more).env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null());
    let start = Instant::now();
    let output = command.spawn().expect("the program").wait_with_output().expect("an end");
    let time = start.elapsed();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(case.processes().is_empty(), "{how}: {:?}: {said:.2000}", case.processes());
    assert_eq!(names(case), before, "{how}");
    assert!(said.len() < 100 << 20, "{how}: {} bytes", said.len());
    Ended { said, code: output.status.code().unwrap_or(-1), time }
}

impl Ended {
    fn end(&self) -> &str {
        let at = self.said.len().saturating_sub(4000);
        &self.said[(at..).find(|at| self.said.is_char_boundary(*at)).unwrap_or(0)..]
    }
}

const LATE: &str = "its worker exceeded the time limit of 1 s per call";

/// Actions that harm only the plugin's own process, each with the message, or with nothing if the run is not affected.
const OF_ITSELF: &[(&str, &str)] = &[
    ("stop", "its worker was stopped by a signal, and did not continue"),
    ("kill of own group", "its worker was killed by SIGKILL"),
    ("core", "its worker was killed by SIGABRT"),
    ("another program", "its worker closed its pipe, but did not end"),
    ("timer", "its worker was killed by SIGALRM"),
    ("spin", LATE),
    ("deaf", LATE),
    ("bomb", LATE),
    ("memory of children", "its worker needs more memory than its limit of 256 MiB"),
    ("no more files", ""),
    ("no larger files", ""),
    ("open files", ""),
    ("no standard error", ""),
    ("folder and mask", ""),
    ("threads", ""),
    ("daemon", ""),
    ("child that is deaf", ""),
    ("child that is stopped", ""),
];

#[test]
fn who_harms_itself_ends_within_its_limits() {
    for user in users() {
        let case = case("attacks_on_itself");
        let alone = case.holds(user, "processes");
        // A worker that sees no other process is its own parent.
        let met = |what| if alone { what } else { "" };
        let parent = [("stop of parent", met(OF_ITSELF[0].1)), ("kill of parent", met(OF_ITSELF[1].1))];
        for (how, what) in OF_ITSELF.iter().chain(&parent) {
            // Instant actions get more time, because machines can be busy.
            let limit = if *what == LATE { "1s" } else { "30s" };
            let ended = harm(&case, user, how, &["--plugin-timeout", limit, "--plugin-memory", "256MiB"]);
            let said = ended.end();
            assert_eq!(ended.code, if what.is_empty() { 0 } else { 3 }, "{how}, as user {user:?}: {said}");
            assert!(said.contains(what), "{how}, as user {user:?}: {said}");
            let named = said.contains("step 1, pass `zoo.Harms` of plugin `passhost-zoo`");
            assert!(named || what.is_empty(), "{how}: {said}");
            assert!(ended.time < Duration::from_secs(28), "{how}, as user {user:?}: {:?}", ended.time);
        }
    }
}

/// The process group is ended if the system lacks namespaces.
#[test]
fn without_name_spaces_nothing_is_left_either() {
    let case = case("attacks_without_name_spaces");
    let expected = |wanted: &str| OF_ITSELF.iter().find(|(how, _)| *how == wanted).expect("a way").1;
    for how in
        ["stop", "kill of own group", "another program", "deaf", "memory of children", "daemon", "child that is deaf"]
    {
        let what = expected(how);
        let limit = if what == LATE { "1s" } else { "30s" };
        let pass = format!("zoo.Harms{{how=\"{how}\"}}");
        let mut command = case.command(&["run", "m.py", "--isolate", "--passes", &pass, "--plugin-timeout", limit]);
        command.args(["--plugin-memory", "256MiB"]).env("TMPDIR", case.folder.path()).env("PASSHOST_ONE_PROCESS", "1");
        let (_, said, code) = case.finish(command, b"");
        assert_eq!(code, if what.is_empty() { 0 } else { 3 }, "{how}: {said}");
        assert!(said.contains(what), "{how}: {said}");
        let start = Instant::now();
        while !case.processes().is_empty() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(case.processes().is_empty(), "{how}: {:?}", case.processes());
    }
    // Calls that would reach other processes reach this process here.
    for how in ["stop of parent", "kill of parent"] {
        let pass = format!("zoo.Harms{{how=\"{how}\"}}");
        let mut command = case.command(&["run", "m.py", "--isolate", "--passes", &pass]);
        let (_, said, code) = case.finish(
            {
                command.env("PASSHOST_ONE_PROCESS", "1");
                command
            },
            b"",
        );
        assert_eq!(code, 0, "{how}: {said}");
    }
}

#[test]
fn processor_time_is_called_so() {
    let case = case("attacks_on_processor_time");
    for how in ["spin", "spin on"] {
        let ended = harm(&case, None, how, &["--plugin-cpu", "1s", "--plugin-timeout", "60s"]);
        let what = "its worker exceeded its limit of 1 s of processor time (SIGXCPU)";
        assert!(ended.code == 3 && ended.said.contains(what), "{how}: {}", ended.end());
    }
}

/// The worker sends invalid messages, and messages that take more memory than they announce.
#[test]
fn what_is_forged_costs_the_host_little() {
    let case = case("attacks_by_messages");
    let none = "its worker sent an invalid answer: ";
    for (how, what) in [
        ("hole", format!("{none}a message exceeds its shared memory")),
        ("long", format!("{none}it announced a message of 18446744073709551615 bytes, which is too long")),
        ("count", format!("{none}a message announces 18446744073709551615 items")),
        ("unfinished", LATE.to_string()),
        ("questions", LATE.to_string()),
        ("files", LATE.to_string()),
    ] {
        // The message with a hole exceeds the usual limit, so this attack needs more memory.
        let memory = if how == "hole" { "8GiB" } else { "256MiB" };
        let limit = if what == LATE { "1s" } else { "30s" };
        let ended = harm(&case, None, how, &["--plugin-timeout", limit, "--plugin-memory", memory]);
        assert!(ended.code == 3 && ended.said.contains(&what), "{how}: {}", ended.end());
        assert!(ended.time < Duration::from_secs(28), "{how}: {:?}", ended.time);
    }
}

/// If a message announces more bytes than the host has memory for, the host reads only the bytes that were written.
#[test]
fn a_message_with_holes_takes_no_memory() {
    let case = case("attacks_by_holes");
    let pass = "zoo.Harms{how=hole}";
    let args = ["run", "m.py", "--isolate", "--plugin-memory", "8GiB", "--plugin-timeout", "30s", "--passes", pass];
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\""]).arg(env!("CARGO_BIN_EXE_passhost")).args(args);
    command.current_dir(case.folder.path()).env("TMPDIR", case.folder.path());
    let (_, said, code) = case.finish(command, b"");
    assert!(code == 3 && said.contains("a message exceeds its shared memory"), "{code}: {said}");
}

/// Endless output is cut, and the last line reports that.
#[test]
fn what_is_told_without_end() {
    let case = case("attacks_by_talk");
    let call = "its worker reported more than 16 MiB in one call; the rest is not shown";
    for (how, what) in [
        ("diagnostics", call),
        ("short diagnostics", call),
        ("log", call),
        ("modules", call),
        ("statistics", "its worker has more than 10000 statistics"),
        ("standard error", ""),
        ("standard output", ""),
    ] {
        let ended = harm(&case, None, how, &["--plugin-timeout", "2s"]);
        // A fast machine can send that much in less than the time limit.
        let limits = ["its worker exceeded the time limit of 2 s per call", "it sent more than 2147"];
        let limited = limits.iter().any(|limit| ended.said.contains(limit));
        assert!(ended.code == 3 && limited, "{how}: {}", ended.end());
        assert!(ended.said.contains(what), "{how}: {}", ended.end());
        assert!(ended.time < Duration::from_secs(30), "{how}: {:?}", ended.time);
    }
    // An error fails its step, however much was reported before it.
    let ended = harm(&case, None, "an error among diagnostics", &[]);
    assert!(ended.code == 3 && ended.said.contains("this is wrong"), "{}", ended.end());
    let ended = harm(&case, None, "long error", &[]);
    assert!(ended.code == 3 && ended.said.contains(" more bytes)") && ended.said.len() < 8 << 20, "{}", ended.end());
    assert_eq!(harm(&case, None, "one statistic", &["--statistics"]).code, 0);
}
