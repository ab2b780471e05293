//! Tests of the command line as a user sees it. The messages, standard output and exit code of each case are recorded in a golden in
//! `tests/goldens/cli`. `BLESS=1 cargo test` rewrites them.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

#[path = "cli/attacks.rs"]
#[cfg(target_os = "linux")]
mod attacks;
#[path = "cli/bad_plugins.rs"]
#[cfg(target_os = "linux")]
mod bad_plugins;
#[path = "cli/bench.rs"]
#[cfg(unix)]
mod bench;
#[path = "cli/blame.rs"]
#[cfg(unix)]
mod blame;
#[path = "cli/claims.rs"]
#[cfg(target_os = "linux")]
mod claims;
#[path = "cli/crates.rs"]
mod crates;
#[path = "cli/emit.rs"]
#[cfg(target_os = "linux")]
mod emit;
#[path = "cli/ends.rs"]
#[cfg(target_os = "linux")]
mod ends;
#[path = "cli/exec.rs"]
mod exec;
#[path = "cli/explain_match.rs"]
#[cfg(unix)]
mod explain_match;
#[path = "cli/failures.rs"]
#[cfg(unix)]
mod failures;
#[path = "cli/formats.rs"]
#[cfg(target_os = "linux")]
mod formats;
#[path = "cli/instruments.rs"]
#[cfg(target_os = "linux")]
mod instruments;
#[path = "cli/isolation.rs"]
#[cfg(target_os = "linux")]
mod isolation;
#[path = "cli/large.rs"]
#[cfg(target_os = "linux")]
mod large;
#[path = "cli/llvm.rs"]
#[cfg(target_os = "linux")]
mod llvm;
#[path = "cli/lock.rs"]
#[cfg(unix)]
mod lock;
#[path = "cli/lock_crates.rs"]
#[cfg(target_os = "linux")]
mod lock_crates;
#[path = "cli/lock_links.rs"]
#[cfg(target_os = "linux")]
mod lock_links;
#[path = "cli/lock_races.rs"]
#[cfg(target_os = "linux")]
mod lock_races;
#[path = "cli/look.rs"]
#[cfg(target_os = "linux")]
mod look;
#[path = "cli/messages.rs"]
#[cfg(target_os = "linux")]
mod messages;
#[path = "cli/new.rs"]
#[cfg(unix)]
mod new;
#[path = "cli/odd.rs"]
#[cfg(unix)]
mod odd;
#[path = "cli/onnx.rs"]
#[cfg(unix)]
mod onnx;
#[path = "cli/operators.rs"]
#[cfg(unix)]
mod operators;
#[path = "cli/output.rs"]
#[cfg(unix)]
mod output;
#[path = "cli/package.rs"]
#[cfg(target_os = "linux")]
mod package;
#[path = "cli/planted.rs"]
#[cfg(target_os = "linux")]
mod planted;
#[path = "cli/probes.rs"]
#[cfg(target_os = "linux")]
mod probes;
#[path = "../../tests/src/races.rs"]
#[cfg(target_os = "linux")]
#[allow(dead_code, unreachable_pub, reason = "shared with the program `races`")]
mod races;
#[path = "cli/readme.rs"]
#[cfg(unix)]
mod readme;
#[path = "cli/rounds.rs"]
#[cfg(target_os = "linux")]
mod rounds;
#[path = "cli/searches.rs"]
#[cfg(target_os = "linux")]
mod searches;
#[path = "cli/tune.rs"]
#[cfg(target_os = "linux")]
mod tune;
#[path = "cli/validate.rs"]
#[cfg(target_os = "linux")]
mod validate;
#[path = "cli/weights.rs"]
#[cfg(target_os = "linux")]
mod weights;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root of the workspace").to_path_buf()
}

/// A folder for one test case, with the files that the case needs.
struct Case {
    name: &'static str,
    folder: tempfile::TempDir,
}

const SMALL: &str = "\
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype=\"float32\")) -> R.Tensor((2, 3), dtype=\"float32\"):
        with R.dataflow():
            lv: R.Tensor((2, 3), dtype=\"float32\") = R.add(x, x)
            lv1: R.Tensor((2, 3), dtype=\"float32\") = R.add(x, x)
            gv: R.Tensor((2, 3), dtype=\"float32\") = R.multiply(lv, lv1)
            R.output(gv)
        return gv
";

/// Builds the plugins that cases list, once for all tests, in the same way as passhost. Commands that build nothing then find them, and no
/// test rebuilds them while another test uses them. Returns the folder with passhost's records of these builds.
fn build_standard_crates() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let case = Case::empty("standard crates");
        let entry = |name: &str| format!("[[plugin]]\ncrate = \"{}\"\n", root().join(name).display());
        let plugins = ["relax-ops", "relax-passes", "conv-grouping"].map(|name| format!("plugins/{name}"));
        let crates =
            ["plugins/onnx", "tests/bad-plugins/misbehaves", "tests/bad-plugins/miscompiles", "tests/toy-format"]
                .into_iter();
        let crates = plugins.iter().map(String::as_str).chain(crates);
        let case = case.file("passes.toml", crates.map(entry).collect::<String>());
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standard-crates");
        for args in [&["lock"][..], &["build", "--locked"]] {
            let mut command = case.command(args);
            command.env("XDG_CACHE_HOME", &cache);
            let (_, stderr, code) = case.finish(command, b"");
            assert_eq!(code, 0, "{args:?}: {stderr}");
        }
        cache.join(BUILDS)
    })
}

/// Folder of passhost's build records in the cache folder.
const BUILDS: &str = "passhost/builds";

impl Case {
    fn new(name: &'static str) -> Case {
        let case = Case::empty(name);
        let own = case.path("cache").join(BUILDS);
        std::fs::create_dir_all(&own).expect("a folder");
        for record in std::fs::read_dir(build_standard_crates()).expect("records").flatten() {
            std::fs::copy(record.path(), own.join(record.file_name())).expect("a copy");
        }
        case.file("small.py", SMALL)
    }

    fn empty(name: &'static str) -> Case {
        Case { name, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Returns a copy of the program. Another process makes the copy: while this process has the file open, a child that another test
    /// starts could keep it open for writing, and the copy could not be executed.
    #[cfg(target_os = "linux")]
    fn program(&self, name: &str) -> PathBuf {
        let to = self.path(name);
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_passhost")).arg(&to).status().expect("cp");
        assert!(copied.success(), "the program can be copied");
        to
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(self, name: &str, content: impl AsRef<[u8]>) -> Case {
        std::fs::write(self.path(name), content).expect("a file in the temporary folder");
        self
    }

    /// Adds a manifest of crates of this workspace.
    fn crates(self, folders: &[&str]) -> Case {
        let entry = |folder: &&str| format!("[[plugin]]\ncrate = \"{}\"\n", root().join(folder).display());
        let text: String = folders.iter().map(entry).collect();
        self.file("passes.toml", text)
    }

    fn standard(self) -> Case {
        self.crates(&["plugins/relax-ops", "plugins/relax-passes", "plugins/conv-grouping"])
    }

    fn run(&self, args: &[&str], input: &[u8]) -> (String, String, i32) {
        self.finish(self.command(args), input)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_passhost"));
        command.args(args).current_dir(self.folder.path()).env_remove("PASSHOST_LOG");
        // The caches of a test do not outlive the test.
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    /// Runs a command without a folder for caches.
    fn finish_without_cache(&self, mut command: Command) -> (String, String, i32) {
        let cargo = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
        let rustup = std::env::var_os("HOME").map(|home| Path::new(&home).join(".rustup"));
        for (name, folder) in [("CARGO_HOME", cargo), ("RUSTUP_HOME", rustup)] {
            if let (None, Some(folder)) = (std::env::var_os(name), folder) {
                command.env(name, folder);
            }
        }
        command.env_remove("XDG_CACHE_HOME").env("HOME", "");
        self.finish(command, b"")
    }

    fn finish(&self, mut command: Command, input: &[u8]) -> (String, String, i32) {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // A program that refuses its arguments does not read its input.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input));
        let output = child.wait_with_output().expect("the binary ends");
        let text = |bytes: &[u8]| self.normalize(&String::from_utf8_lossy(bytes));
        (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
    }

    /// Removes text that differs between machines and runs: paths, times, build progress.
    fn normalize(&self, text: &str) -> String {
        let folder = self.folder.path().canonicalize().unwrap_or_else(|_| self.folder.path().to_path_buf());
        let text = text.replace(&*folder.to_string_lossy(), "$CASE");
        let text = text.replace(&*self.folder.path().to_string_lossy(), "$CASE");
        let target = Path::new(env!("CARGO_BIN_EXE_passhost")).parent().unwrap_or(Path::new("/"));
        let text = shortened(&text, &target.to_string_lossy(), "$TARGET");
        let text = shortened(&text, &root().to_string_lossy(), "$ROOT");
        let progress = ["passhost: building ", "passhost: waiting for another cargo: "];
        let lines = text.lines().filter(|line| !progress.iter().any(|start| line.starts_with(start)));
        let mut out = String::new();
        for line in lines {
            out.push_str(&without_time(line));
            out.push('\n');
        }
        out
    }

    /// Runs a command, and compares the result with the golden.
    fn check(&self, args: &[&str], input: &[u8]) {
        self.golden(&self.shown(args, self.command(args), input));
    }

    /// Runs a command, and returns its result in the form of the goldens.
    fn shown(&self, args: &[&str], command: Command, input: &[u8]) -> String {
        transcript(args, self.finish(command, input))
    }

    /// Compares a text with the golden of this test case.
    fn golden(&self, actual: &str) {
        compare("cli", self.name, actual);
    }
}

/// Formats a command and its result: standard output, standard error and exit code.
fn transcript(args: &[&str], (stdout, stderr, code): (String, String, i32)) -> String {
    format!("$ passhost {}\nexit code {code}\n== stdout\n{stdout}== stderr\n{stderr}", args.join(" "))
}

/// Compares a text with a golden in a folder, or rewrites the golden.
fn compare(folder: &str, name: &str, actual: &str) {
    let actual = numbered_hashes(actual);
    let path = root().join("tests/goldens").join(folder).join(format!("{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, actual).expect("the golden can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected != actual {
        let diff = similar::TextDiff::from_lines(&expected, &actual);
        let shown = diff.unified_diff().header("golden", "now").to_string();
        panic!("{} differs; BLESS=1 cargo test rewrites it\n{shown}", path.display());
    }
}

/// Replaces hashes with numbers, because they differ between builds: the first hash becomes `<hash 1>` wherever it
/// occurs.
fn numbered_hashes(text: &str) -> String {
    let mut known: Vec<&str> = Vec::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word.len()));
        out.push_str(before);
        if word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let at = known.iter().position(|other| *other == word).unwrap_or(known.len());
            if at == known.len() {
                known.push(word);
            }
            out.push_str(&format!("<hash {}>", at + 1));
        } else {
            out.push_str(word);
        }
        rest = after;
    }
    out + rest
}

/// Replaces a folder by a short name, and adjusts the length of the line below an excerpt.
fn shortened(text: &str, folder: &str, short: &str) -> String {
    let (mut out, mut longer) = (String::new(), 0);
    for line in text.split_inclusive('\n') {
        let carets = line.matches('^').count();
        if longer > 0 && carets > longer {
            out.push_str(&line.replacen(&"^".repeat(longer), "", 1));
        } else {
            out.push_str(&line.replace(folder, short));
        }
        longer = line.matches(folder).count() * folder.len().saturating_sub(short.len());
    }
    out
}

/// Replaces times and their padding: `0.123 ms` → `? ms`. Rows without a time get the padding of times below 10 ms.
fn without_time(line: &str) -> String {
    let Some(at) = line.find(" ms") else {
        let narrow = format!("  -{}-  ", " ".repeat(9));
        return (10..14).fold(line.to_string(), |line, n| line.replace(&format!("  -{}-  ", " ".repeat(n)), &narrow));
    };
    let start = line[..at].rfind(|c: char| !(c.is_ascii_digit() || c == '.')).map_or(0, |i| i + 1);
    if start == at {
        return line.to_string();
    }
    format!("{}? ms  {}", &line[..start], line[at + 3..].trim_start())
}

macro_rules! cases {
    ($($name:ident: $build:expr, [$($arg:expr),*] $(, $input:expr)?;)*) => {$(
        #[test]
        fn $name() {
            let build: fn(Case) -> Case = $build;
            let case = build(Case::new(stringify!($name)));
            #[allow(unused_variables, reason = "most cases do not need an input")]
            let input: &[u8] = b"";
            $(let input: &[u8] = $input;)?
            case.check(&[$($arg),*], input);
        }
    )*};
}

/// Returns the module of `SMALL` with one line replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from));
    SMALL.replacen(from, to, 1)
}

const T: &str = "R.Tensor((2, 3), dtype=\"float32\")";

cases! {
    no_manifest: |case| case, ["run", "small.py"];
    manifest_that_is_not_there: |case| case, ["run", "small.py", "--manifest", "nowhere.toml"];
    manifest_with_unknown_key: |case| case.file("passes.toml", "[[plugins]]\npath = \"x.so\"\n"), ["list"];
    manifest_with_unknown_plugin_key: |case| case.file("passes.toml", "[[plugin]]\npth = \"x.so\"\n"), ["list"];
    manifest_with_wrong_type: |case| case.file("passes.toml", "opt_level = \"two\"\n"), ["list"];
    manifest_that_is_not_toml: |case| case.file("passes.toml", "opt_level = = 2\n"), ["list"];
    manifest_that_is_not_utf8: |case| case.file("passes.toml", b"opt_level = 2 # \xff\n"), ["list"];
    manifest_with_two_sources: |case| case.file("passes.toml", "[[plugin]]\npath = \"a\"\nname = \"b\"\n"), ["list"];
    manifest_with_unknown_default: |case| case.file("passes.toml", "default_pipeline = \"x\"\n"), ["list"];
    plugin_path_that_does_not_exist: |case| case.file("passes.toml", "[[plugin]]\npath = \"libx.so\"\n"), ["list"];
    plugin_that_is_a_text_file:
        |case| case.file("libx.so", "just text\n").file("passes.toml", "[[plugin]]\npath = \"libx.so\"\n"), ["list"];
    plugin_that_is_a_folder: |case| case.file("passes.toml", "[[plugin]]\npath = \".\"\n"), ["list"];
    plugin_name_not_found: |case| case.file("passes.toml", "[[plugin]]\nname = \"acme\"\n"), ["list"];
    plugin_crate_that_is_no_crate: |case| case.file("passes.toml", "[[plugin]]\ncrate = \".\"\n"), ["list"];
    plugin_version_that_does_not_fit: |case| {
        let text = format!("[[plugin]]\ncrate = \"{}\"\nversion = \">= 9\"\n", root().join("plugins/relax-ops").display());
        case.file("passes.toml", text)
    }, ["plan", "--passes", ""];
    unknown_pass: Case::standard, ["run", "small.py", "--passes", "relax.Normalise"];
    unknown_pipeline: Case::standard, ["run", "small.py", "--pipeline", "late"];
    no_default_pipeline: Case::standard, ["run", "small.py"];
    plan_of_sequentials_and_all: Case::standard, ["plan", "--opt-level", "0", "--passes",
        "Sequential(name=late,opt_level=3)[relax.Normalize],acme.GroupConvolutions{through=[relax.nn.relu]},Sequential[all(opt_level=0),],"];
    plan_as_tvm: Case::standard, ["plan", "--tvm-compat", "--disable", "nobody", "--passes",
        "relax.Normalize,acme.GroupConvolutions"];
    compat_does_not_keep_going: Case::standard, ["run", "small.py", "--tvm-compat", "--keep-going", "--passes", ""];
    unknown_option: Case::standard, ["run", "small.py", "--passes", "acme.GroupConvolutions{thru=[relax.add]}"];
    option_of_wrong_type: Case::standard, ["run", "small.py", "--passes", "acme.GroupConvolutions{through=3}"];
    option_that_a_pass_refuses: Case::standard, ["run", "small.py", "--passes", "relax.FuseOpsByPattern{patterns=[acme.conv2d_rleu]}"];
    option_that_a_dataflow_pass_refuses: Case::standard,
        ["run", "small.py", "--keep-going", "--passes", "acme.GroupConvolutions{through=[relax.nn.rleu]}"];
    pipeline_with_syntax_error: Case::standard, ["run", "small.py", "--passes", "relax.Normalize,{x}"];
    pipeline_in_a_file_with_syntax_error: |case| {
        case.standard().file("late.txt", "\u{feff}# First this, π.\nrelax.Normalize, # then\n  relax.DeadCodeElimination relax.ToNonDataflow\n")
    }, ["plan", "--passes", "@late.txt"];
    pipeline_in_a_file_with_unknown_pass: |case| {
        let long = format!("relax.Normalize,\n{}relax.Normalise", "relax.Normalize,".repeat(999));
        case.standard().file("late.txt", long)
    }, ["plan", "--passes", "@late.txt"];
    pipeline_of_the_manifest_with_unknown_pass:
        |case| named(case, "\"relax.Normalize,Normalise\""), ["plan", "--pipeline", "late"];
    pipeline_of_the_manifest_with_unknown_option:
        |case| named(case, "\"\"\"\\\n  relax.Normalize,\n  Normalize{n=1}\"\"\""), ["plan", "--pipeline", "late"];
    disabled_pass_misspelt: Case::standard, ["plan", "--passes", "Normalize", "--disable", "Normalise"];
    all_wrong_names_at_once: Case::standard, ["plan", "--passes", "Normalize", "--disable", "Normalise", "--disable",
        "DeadCode", "--require", "nope", "--instrument", "acme.Counter", "--instrument", "1", "--config", "acme.n=1"];
    needed_and_disabled:
        Case::standard, ["plan", "--passes", "acme.GroupConvolutions", "--disable", "relax.Normalize"];
    a_cycle: |case| case.crates(&["tests/bad-plugins/misbehaves"]), ["plan", "--passes", "bad.Ping"];
    a_missing_required_pass:
        |case| case.crates(&["plugins/conv-grouping"]), ["plan", "--passes", "acme.GroupConvolutions"];
    plan_of_the_third_party: Case::standard, ["plan", "--passes", "acme.GroupConvolutions"];
    plan_as_json: Case::standard, ["plan", "--json", "--passes", "relax.Normalize,acme.GroupConvolutions{through=[]}"];
    input_that_is_not_there: Case::standard, ["run", "nowhere.py", "--passes", ""];
    input_that_is_onnx: |case| case.standard().file("bad.onnx", b"\x08\x08\x12\x07pytorch\x1a\x031.9:\xff"),
        ["run", "bad.onnx", "--passes", ""];
    input_that_is_relay: |case| case.standard().file("bad.txt", "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(1), float32]) {\n  %x\n}\n"),
        ["run", "bad.txt", "--passes", ""];
    input_that_is_mlir: |case| case.standard().file("bad.mlir", "module {\n  func.func @main() {\n  }\n}\n"),
        ["run", "bad.mlir", "--passes", ""];
    plugin_crate_that_was_moved: |case| case.crates(&["nowhere"]), ["list"];
    input_that_is_empty: |case| case.standard().file("empty.py", ""), ["run", "empty.py", "--passes", ""];
    input_that_is_not_utf8:
        |case| case.standard().file("bad.py", b"# fine\n# not \xff\n"), ["run", "bad.py", "--passes", ""];
    input_with_syntax_error: |case| case.standard().file("bad.py", changed("R.add(x, x)", "R.add(x, x")),
        ["run", "bad.py", "--passes", ""];
    input_with_undefined_variable: |case| case.standard().file("bad.py", changed("R.multiply(lv,", "R.multiply(lw,")),
        ["run", "bad.py", "--passes", ""];
    input_with_parameter_defined_twice: |case| case.standard().file("bad.py", changed("main(x: ", "main(x: R.Any, x: ")),
        ["run", "bad.py", "--passes", ""];
    input_with_wrong_number_of_arguments: |case| case.standard().file("bad.py", changed("R.add(x, x)", "R.add(x)")),
        ["run", "bad.py", "--passes", ""];
    input_with_type_that_contradicts:
        |case| case.standard().file("bad.py", changed(&format!("lv: {T}"), "lv: R.Tensor((2, 4), dtype=\"float32\")")),
        ["run", "bad.py", "--passes", ""];
    input_with_unknown_operator: |case| case.standard().file("bad.py", changed("R.add(x", "R.adt(x")),
        ["run", "bad.py", "--passes", ""];
    input_with_unknown_attribute:
        |case| case.standard().file("bad.py", changed("R.add(x, x)", "R.nn.softmax(x, axes=1)")),
        ["run", "bad.py", "--passes", ""];
    input_with_prim_func:
        |case| case.standard().file("bad.py", changed("@R.function", "@T.prim_func")), ["run", "bad.py", "--passes", ""];
    input_nested_too_deeply: |case| {
        let deep = format!("{}x{}", "(".repeat(100_000), ")".repeat(100_000));
        case.standard().file("bad.py", changed("R.add(x, x)", &deep))
    }, ["run", "bad.py", "--passes", ""];
    output_folder_that_does_not_exist: Case::standard, ["run", "small.py", "--passes", "", "-o", "no/out.py"];
    only_reads_and_prints: Case::standard, ["run", "small.py", "--passes", ""];
    standard_input: Case::standard, ["run", "-", "--passes", "relax.EliminateCommonSubexpr"], SMALL.as_bytes();
    summary_of_a_run: Case::standard, ["run", "small.py", "-o", "out.py", "--passes",
        "relax.Normalize,relax.EliminateCommonSubexpr,relax.CanonicalizeBindings,acme.GroupConvolutions"];
    skipped_by_level: Case::standard, ["run", "small.py", "--passes", "relax.Normalize", "--opt-level", "0"];
    a_pass_that_panics:
        |case| case.crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]), ["run", "small.py", "--passes", "bad.Panics"];
    a_pass_that_fails:
        |case| case.crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]), ["run", "small.py", "--passes", "bad.Fails"];
    a_pass_that_returns_a_wrong_type:
        |case| case.crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]), ["run", "small.py", "--passes", "bad.WrongType"];
    a_pass_that_removes_what_is_used:
        |case| case.crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]), ["run", "small.py", "--passes", "bad.UsesRemoved"];
    a_pass_that_warns:
        |case| case.crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]), ["run", "small.py", "--passes", "bad.Warns"];
    an_operator_that_nobody_declares:
        |case| case.crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]), ["run", "small.py", "--passes", "bad.Divides"];
    an_operator_that_nobody_declares_is_denied:
        |case| case.crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]),
        ["run", "small.py", "-o", "out.py", "--deny-unknown-operators", "--passes", "bad.Warns,bad.Divides"];
    same_plugin_twice:
        |case| case.crates(&["plugins/relax-ops", "plugins/relax-ops"]), ["plan", "--passes", ""];
    usage_error: |case| case, ["run"];
    manifest_with_many_problems: |case| case.file("passes.toml", "\
foo = 1
bar = 2
opt_level = \"x\"
default_pipeline = \"fast\"
[pipelines]
late = 3
[[plugin]]
pth = \"liba.so\"
[[plugin]]
path = \"\"
[[plugin]]
path = \"libb.so\"
version = \"new\"
"), ["list"];
    manifest_with_two_syntax_errors: |case| case.file("passes.toml", "opt_level = = 2\n\nsearch = [\"a\" \"b\"]\n"), ["list"];
    check_goes_on_after_crates_that_are_wrong: |case| {
        let fine = root().join("plugins/relax-passes");
        case.file("passes.toml", format!("\
opt_levle = 1
pipelines.a = \"relax.Normalize\"
pipelines.b = \"relax.Normalize,,\"
pipelines.c = \"of.NobodyThatIsThere\"
[[plugin]]
crate = \"nope1\"
[[plugin]]
crate = \"nope2\"
[[plugin]]
crate = \"{}\"
", fine.display()))
    }, ["check"];
    check_of_pipelines: |case| {
        let fine = root().join("plugins/relax-passes");
        case.file("passes.toml", format!("\
disabled = [\"relax.Normalise\"]
pipelines.a = \"relax.Normalize\"
pipelines.b = \"relax.Normalise\"
[[plugin]]
crate = \"{}\"
", fine.display()))
    }, ["check"];
    check_of_what_is_fine: |case| case.crates(&["plugins/relax-ops"]), ["check"];
    config_without_a_key: Case::standard, ["run", "small.py", "--passes", "", "--config", "=1"];
    config_without_a_value: Case::standard, ["plan", "--passes", "", "--config", "acme.limit="];
    config_with_a_wrong_value: Case::standard, ["plan", "--passes", "", "--config", "acme.names=[π, 'b']"];
    config_of_nobody: Case::standard, ["run", "small.py", "--passes", "", "--config", "relaks.key=1", "-o", "out.py"];
    input_is_read_before_plugins: |case| case.file("passes.toml", "[[plugin]]\ncrate = \"nope\"\n"),
        ["run", "nowhere.py", "--passes", ""];
    input_with_an_error_in_a_long_line: |case| {
        let long = format!("R.add(x, {}y{})", "(".repeat(300), ")".repeat(300));
        case.standard().file("bad.py", changed("R.add(x, x)", &long))
    }, ["run", "bad.py", "--passes", ""];
    input_that_does_not_hold_together: |case| {
        // Printing the module drops the comment, so its lines differ from those of the file.
        let text = changed("    @R.function", "    # Only in the file.\n    @R.function");
        case.standard().file("bad.py", text.replace("R.multiply(lv, lv1)", "lv[0]"))
    }, ["run", "bad.py", "--passes", ""];
}

/// Adds the standard plugins, and a pipeline `late` with the given passes.
fn named(case: Case, passes: &str) -> Case {
    let case = case.standard();
    let listed = std::fs::read_to_string(case.path("passes.toml")).expect("a manifest");
    case.file("passes.toml", format!("pipelines.late = {passes}\n{listed}"))
}

/// This test does not use a golden, because compiler messages differ between versions.
#[test]
fn plugin_crate_that_does_not_compile() {
    let case = Case::new("does_not_compile");
    std::fs::create_dir_all(case.path("broken/src")).expect("a folder");
    let manifest = "[package]\nname = \"broken\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    let case = case
        .file("broken/Cargo.toml", manifest)
        .file("broken/Cargo.lock", "version = 4\n[[package]]\nname = \"broken\"\nversion = \"0.1.0\"\n")
        .file("broken/src/lib.rs", "pub fn broken() -> u32 { nothing }\n")
        .file("passes.toml", "[[plugin]]\ncrate = \"broken\"\n");
    let (stdout, stderr, code) = case.run(&["build"], b"");
    assert_eq!((stdout.as_str(), code), ("", 3), "{stderr}");
    assert!(stderr.contains("`cargo build` failed while building broken"), "{stderr}");
    assert!(stderr.contains("cannot find value `nothing`"), "{stderr}");
}

/// The last good module is kept when a later pass fails.
#[test]
fn a_failure_leaves_the_last_good_module() {
    let case = Case::new("failed").crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]);
    let (_, stderr, code) = case.run(&["run", "small.py", "--passes", "bad.Warns,bad.Panics", "-o", "out.py"], b"");
    assert_eq!(code, 3, "{stderr}");
    assert!(!case.path("out.py").exists());
    let kept = std::fs::read_to_string(case.path("out.failed.py")).expect("the last good module");
    assert!(kept.contains("R.multiply(lv, lv1)"), "{kept}");
    assert!(stderr.contains("the module before this step is in out.failed.py"), "{stderr}");
    assert!(!stderr.contains("nothing was written"), "{stderr}");
}

/// A long list of errors is cut after the first few, followed by the number of the remaining errors.
#[test]
fn many_errors_are_counted() {
    let text: String = (0..50).map(|i| format!("@R.function\ndef f{i}(x: R.Any):\n    return y\n")).collect();
    let case = Case::new("many").standard().file("bad.py", format!("@I.ir_module\nclass Module:\n{}", indent(&text)));
    let (_, stderr, code) = case.run(&["run", "bad.py", "--passes", ""], b"");
    assert_eq!(code, 1, "{stderr}");
    assert_eq!(stderr.matches("error: ").count(), 20, "{stderr}");
    assert!(stderr.ends_with("note: ... and 30 more errors in bad.py\n"), "{stderr}");
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[test]
fn a_file_can_have_the_name_that_standard_input_is_shown_as() {
    let case = Case::new("stdin").standard().file("<stdin>", SMALL);
    let (stdout, stderr, code) = case.run(&["run", "<stdin>", "--passes", ""], b"not this");
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("R.multiply(lv, lv1)"), "{stdout}");
}

#[test]
fn passes_can_stand_in_a_file() {
    let case = Case::new("file").standard().file("late.txt", "relax.Normalize\n");
    let (stdout, stderr, code) = case.run(&["plan", "--passes", "@late.txt"], b"");
    assert_eq!((code, stdout.contains("relax.Normalize")), (0, true), "{stderr}");
    let (help, ..) = case.run(&["plan", "--help"], b"");
    assert!(help.contains("@FILE"), "{help}");
}

#[test]
fn explain_tells_builds_apart() {
    let case = Case::new("explain").standard();
    let (stdout, stderr, code) = case.run(&["explain", "Normalize"], b"");
    assert_eq!(code, 0, "{stderr}");
    let hash = stdout.lines().find_map(|line| line.strip_prefix("sha256")).map(str::trim).unwrap_or_default();
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{stdout}");
}

/// Arguments need not be valid text. Invalid text is reported, and is not a fault of passhost.
#[test]
#[cfg(unix)]
fn arguments_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"m\xff.py");
    let case = Case::new("arguments").standard();
    for format in ["human", "json"] {
        for option in ["--passes", "--config", "--target", "--nope"] {
            let mut command = case.command(&["plan", "--message-format", format, option]);
            command.arg(odd);
            let (_, stderr, code) = case.finish(command, b"");
            assert_eq!((code, stderr.contains("panicked")), (2, false), "{stderr}");
            assert!(stderr.starts_with(if format == "json" { "{" } else { "error: " }), "{stderr}");
        }
    }
    // A path may contain any bytes.
    let mut command = case.command(&["run", "--passes", ""]);
    command.arg(odd);
    let (_, stderr, code) = case.finish(command, b"");
    assert_eq!((code, stderr.contains("no such file")), (1, true), "{stderr}");
}

/// A library that is truncated at any position is reported as truncated.
#[test]
#[cfg(target_os = "linux")]
fn a_library_that_is_cut_off_is_called_so() {
    let case = Case::new("cut").standard();
    let (listed, stderr, code) = case.run(&["explain", "Normalize"], b"");
    assert_eq!(code, 0, "{stderr}");
    let file = listed.lines().find_map(|line| line.strip_prefix("file")).map(str::trim).unwrap_or_default();
    let target = Path::new(env!("CARGO_BIN_EXE_passhost")).parent().expect("a folder").to_string_lossy().into_owned();
    let whole = std::fs::read(file.replace("$TARGET", &target)).expect("the library");
    for len in [10, 100, 5_000, whole.len() / 2, whole.len() - 1] {
        let case =
            Case::new("cut").file("libx.so", &whole[..len]).file("passes.toml", "[[plugin]]\npath = \"libx.so\"\n");
        let (_, stderr, code) = case.run(&["list"], b"");
        assert_eq!(code, 3, "{stderr}");
        assert!(stderr.contains("is truncated") && stderr.contains("copy or build it again"), "{len}: {stderr}");
    }
}

/// The first run of the README, on a real network, finds eight groups.
#[test]
fn the_default_pipeline_groups_vgg19() {
    let case = Case::new("vgg19");
    let (model, manifest) = (root().join("tests/models/vgg19.py"), root().join("passes.toml"));
    let (model, manifest) = (model.to_string_lossy(), manifest.to_string_lossy());
    let (_, stderr, code) = case.run(&["run", &model, "--manifest", &manifest, "-o", "out.py"], b"");
    assert_eq!(code, 0, "{stderr}");
    let out = std::fs::read_to_string(case.path("out.py")).expect("the output");
    assert_eq!(out.matches("R.func_attr({\"Composite\": \"acme.conv2d_conv2d\"})").count(), 8);
    // The output can be read again, and has no more convolutions to group.
    let (again, stderr, code) = case.run(&["run", "out.py", "--manifest", &manifest, "--passes", ""], b"");
    assert_eq!((again.trim_end(), code), (case.normalize(&out).trim_end(), 0), "{stderr}");
}
