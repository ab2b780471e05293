//! Tests of passes and plugins that fail, and of the results that are kept.

use super::{Case, root};

const OPS: &str = "plugins/relax-ops";

fn misbehaving(name: &'static str) -> Case {
    Case::new(name).crates(&[OPS, "plugins/relax-passes", "tests/bad-plugins/misbehaves"])
}

#[test]
fn keep_going() {
    let case = misbehaving("keep_going");
    let passes = "bad.WrongType,bad.Fails,relax.EliminateCommonSubexpr,bad.Panics,bad.Warns,relax.Normalize";
    case.check(&["run", "small.py", "--keep-going", "-o", "out.py", "--passes", passes], b"");
    let out = std::fs::read_to_string(case.path("out.py")).expect("the result");
    assert_eq!(out.matches("R.add(x, x)").count(), 1, "{out}");
    assert!(!case.path("out.failed.py").exists());
}

/// Passes that need a failed pass are skipped, and a failed pass is not run again on the same module.
#[test]
fn keep_going_skips_what_needs_a_failed_pass() {
    let case = Case::new("keep_going_skips_what_needs_a_failed_pass").odd(&[OPS]);
    let passes = "odd.NeedsNeeds,odd.Quiet,odd.NeedsFails,odd.Fails";
    case.check(&["run", "small.py", "--keep-going", "-o", "out.py", "--passes", passes], b"");
}

/// Members of a Sequential do not need each other, but a pass that needs the Sequential needs all of them.
#[test]
fn keep_going_inside_a_sequential() {
    let case = Case::new("keep_going_inside_a_sequential").odd(&[OPS, "plugins/relax-passes"]);
    let passes = "Sequential(name=late)[odd.Quiet,Sequential(name=inner)[odd.Fails,relax.EliminateCommonSubexpr],\
                  odd.NeedsFails,odd.Quiet],odd.Quiet";
    case.check(&["run", "small.py", "--keep-going", "-o", "out.py", "--passes", passes], b"");
    let out = std::fs::read_to_string(case.path("out.py")).expect("the result");
    assert_eq!(out.matches("R.add(x, x)").count(), 1, "{out}");
}

/// Nothing runs after the failure without `--keep-going`.
#[test]
fn a_failure_stops_the_run() {
    let case = Case::new("a_failure_stops_the_run").odd(&[OPS]);
    case.check(&["run", "small.py", "-o", "out.py", "--passes", "odd.Quiet,odd.NeedsNeeds,odd.Logs"], b"");
    assert!(!case.path("out.py").exists());
}

/// A pass over functions visits all of them. All failures are reported, regardless of the number of threads.
#[test]
fn failures_in_several_functions() {
    let function = |at: usize| {
        format!("    @R.function\n    def f{at:02}(x: R.Tensor((2,), dtype=\"float32\")):\n        return x\n")
    };
    let text = format!("@I.ir_module\nclass Module:\n{}", (0..13).map(function).collect::<String>());
    let case = Case::new("failures_in_several_functions").odd(&[OPS]).file("many.py", text);
    let args = ["run", "many.py", "-o", "out.py", "--passes", "odd.Fails"];
    case.check(&args, b"");
    let one = case.run(&[&args[..], &["--jobs", "1"]].concat(), b"");
    assert_eq!(one.1, case.run(&args, b"").1);
}

#[test]
fn paranoid() {
    let case = Case::new("paranoid").odd(&[OPS]);
    let args = ["run", "small.py", "--paranoid", "-o", "out.py", "--passes", "odd.Quiet,odd.Writes,odd.Quiet"];
    case.check(&args, b"");
    // The damage was undone.
    let (whole, stderr, code) = case.run(&["run", "small.py", "--passes", ""], b"");
    assert_eq!(code, 0, "{stderr}");
    let kept = std::fs::read_to_string(case.path("out.failed.py")).expect("the last good module");
    assert_eq!(kept.trim_end(), whole.trim_end());
}

/// Function names belong to the module. Checkers also borrow functions.
#[test]
fn paranoid_sees_names_and_checkers() {
    let case = Case::new("paranoid_sees_names_and_checkers").odd(&[OPS]);
    let (whole, stderr, code) = case.run(&["run", "small.py", "--passes", ""], b"");
    assert_eq!(code, 0, "{stderr}");
    let mut all = String::new();
    for pass in ["odd.WritesNames", "odd.NeedsCheck"] {
        let args = ["run", "small.py", "--paranoid", "-o", "out.py", "--passes", pass];
        all.push_str(&case.shown(&args, case.command(&args), b""));
        let kept = std::fs::read_to_string(case.path("out.failed.py")).expect("the last good module");
        assert_eq!(kept.trim_end(), whole.trim_end(), "{pass}");
    }
    case.golden(&all);
}

/// The message is that of the panic that ended the pass, not of an earlier panic that was caught.
#[test]
fn panics_that_were_caught_before() {
    let case = Case::new("panics_that_were_caught_before").odd(&[OPS]);
    case.check(&["run", "small.py", "-o", "out.py", "--passes", "odd.Catches,odd.GoesOn"], b"");
}

/// Plugins that are not in the lockfile are tried out in a separate process, which survives a crash.
#[test]
fn runs_survive_constructors() {
    let case = Case::new("runs_survive_constructors").odd(&[OPS]);
    let run = ["run", "small.py", "-o", "out.py", "--passes", "odd.Quiet"];
    let mut all = case.shown(&run, case.odd_command("segv", &run), b"");
    assert!(!case.path("passes.lock").exists());
    assert_eq!(case.run(&run, b"").2, 0);
    case.touch_odd();
    all.push_str(&case.shown(&run, case.odd_command("abort", &run), b""));
    case.golden(&all);
}

#[test]
fn paranoid_and_keep_going() {
    let case = Case::new("paranoid_and_keep_going").odd(&[OPS, "plugins/relax-passes"]);
    let passes = "odd.Quiet,odd.Writes,odd.Quiet,relax.EliminateCommonSubexpr";
    case.check(&["run", "small.py", "--paranoid", "--keep-going", "--passes", passes], b"");
}

#[test]
fn paranoid_has_nothing_to_say_of_the_standard_passes() {
    let case = Case::new("vgg19_paranoid");
    let (model, manifest) = (root().join("tests/models/vgg19.py"), root().join("passes.toml"));
    let (model, manifest) = (model.to_string_lossy(), manifest.to_string_lossy());
    let (_, stderr, code) = case.run(&["run", &model, "--paranoid", "--manifest", &manifest, "-o", "out.py"], b"");
    assert_eq!(code, 0, "{stderr}");
}

/// A plugin that kills its process is reported with the other problems.
#[test]
fn check_survives_constructors() {
    let case = Case::new("check_survives_constructors").odd(&[OPS]);
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    let case = case.file("passes.toml", format!("[[plugin]]\npath = \"libmissing.so\"\n{manifest}"));
    let mut all = String::new();
    for odd in ["segv", "abort", "exit", "none"] {
        all.push_str(&format!("ODD={odd} "));
        all.push_str(&case.shown(&["check"], case.odd_command(odd, &["check"]), b""));
    }
    let args = ["check", "--no-load"];
    all.push_str("ODD=segv ");
    all.push_str(&case.shown(&args, case.odd_command("segv", &args), b""));
    case.golden(&all);
}

/// Listing and planning do not run plugin code.
#[test]
fn listing_runs_no_constructor() {
    let case = Case::new("listing").odd(&[OPS]);
    let constructed = || case.path("constructed").exists();
    let commands: [&[&str]; 6] = [
        &["list"],
        &["plan", "--passes", "odd.Quiet"],
        &["explain", "odd.Quiet"],
        &["check", "--no-load"],
        &["lock"],
        &["run", "small.py", "--passes", ""],
    ];
    for args in commands {
        let (_, stderr, code) = case.finish(case.odd_command("file", args), b"");
        assert_eq!((code, constructed()), (0, false), "{args:?}: {stderr}");
    }
    let args = ["run", "small.py", "--passes", "odd.Quiet"];
    let (_, stderr, code) = case.finish(case.odd_command("file", &args), b"");
    assert_eq!((code, constructed()), (0, true), "{stderr}");
}

/// Log events of a plugin obey the host's filter.
#[test]
fn logs_of_plugins() {
    let case = Case::new("logs_of_plugins").odd(&[OPS]);
    let run = ["run", "small.py", "-o", "out.py", "--passes", "odd.Logs"];
    let mut all = String::new();
    for (flags, variable) in [
        (&[][..], None),
        (&["-v"], None),
        (&["-vv"], None),
        (&[], Some("off")),
        (&[], Some("off,odd=trace")),
        (&["-vv"], Some("error")),
        (&[], Some("odd=info,elsewhere=off")),
        (&[], Some("odd=loud")),
    ] {
        let args = [flags, &run[..]].concat();
        let mut command = case.command(&args);
        command.envs(variable.map(|filter| ("PASSHOST_LOG", filter)));
        let (_, stderr, code) = case.finish(command, b"");
        let set = variable.map_or(String::new(), |filter| format!("PASSHOST_LOG={filter} "));
        // Log events of the host contain times, and their number may grow.
        let wanted = |line: &&str| ["odd", "elsewhere", "PASSHOST_LOG"].iter().any(|word| line.contains(word));
        let lines: Vec<&str> = stderr
            .lines()
            .filter(wanted)
            .filter(|line| !line.contains(" ms ") && !line.contains("passhost::"))
            .collect();
        all.push_str(&format!("{set}$ passhost {}\nexit code {code}\n{}\n\n", args.join(" "), lines.join("\n")));
    }
    case.golden(&all);
    // An invalid filter is reported; in JSON, as a warning.
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff");
    let mut command = case.command(&["list", "--message-format", "json"]);
    command.env("PASSHOST_LOG", odd);
    let (_, stderr, code) = case.finish(command, b"");
    let warning: serde_json::Value = serde_json::from_str(stderr.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!((code, &warning["level"]), (0, &"warning".into()), "{stderr}");
    assert!(warning["message"].as_str().is_some_and(|message| message.contains("is not UTF-8")), "{stderr}");
    let (help, ..) = case.run(&["run", "--help"], b"");
    assert!(help.contains("PASSHOST_LOG") && help.contains("-vv"), "{help}");
}

/// A log event is one line and cannot control a terminal, whatever a plugin writes in it.
#[test]
fn odd_logs_of_plugins() {
    let case = Case::new("odd_logs_of_plugins").odd(&[OPS]);
    let run = ["run", "small.py", "-o", "out.py", "--passes", "odd.LogsOddly"];
    let (_, stderr, code) = case.run(&run, b"");
    let acts = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202e}' | '\u{200f}');
    assert!(code == 0 && !stderr.contains(acts), "{}", stderr.escape_debug());
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("odd\\u{1b}")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(!stderr.lines().any(|line| line.starts_with(" WARN passhost")), "{stderr}");
    case.golden(&format!("{}\n", lines[0]));
}

#[test]
fn a_pass_that_fails_without_a_word() {
    let case = Case::new("a_pass_that_fails_without_a_word").odd(&[OPS]);
    case.check(&["run", "small.py", "-o", "out.py", "--passes", "odd.Silent"], b"");
}

/// A declared result type that contradicts the returned value is a warning, before and after passes, and an error with `--strict`.
#[test]
fn another_result_than_declared() {
    let text = "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2, 3), dtype=\"float32\")) -> \
                R.Tensor((2, 4), dtype=\"float32\"):\n        y = R.add(x, x)\n        z = R.add(x, x)\n        return y\n";
    let case = Case::new("another_result_than_declared").crates(&[OPS, "plugins/relax-passes"]);
    let case = case.file("other.py", text);
    let passes = ["--passes", "relax.EliminateCommonSubexpr,relax.DeadCodeElimination"];
    let (_, stderr, code) = case.run(&[&["run", "other.py", "-o", "out.py"], &passes[..]].concat(), b"");
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("the declared result type contradicts the returned value: dimension 1 is 4 against 3"),
        "{stderr}"
    );
    let out = std::fs::read_to_string(case.path("out.py")).expect("the result");
    assert!(out.contains("-> R.Tensor((2, 4)") && !out.contains("z = "), "{out}");
    let (_, stderr, code) = case.run(&[&["run", "other.py", "--strict"], &passes[..]].concat(), b"");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("the type contradicts the returned value"), "{stderr}");
}

/// An endless input is not read to its end if it is not text, or exceeds the maximum length of a module.
#[test]
fn an_input_without_end_is_refused() {
    let case = Case::new("an_input_without_end_is_refused").file("passes.toml", "").file("nul.py", "# a\nb\0");
    let large = std::fs::File::create(case.path("large.py")).expect("a file");
    large.set_len(5 << 30).expect("it takes no place");
    for (input, message) in [
        ("/dev/zero", "not text: byte 0, in line 1, is 0"),
        ("nul.py", "not text: byte 5, in line 2, is 0"),
        ("large.py", "longer than 4 GiB, the limit for modules"),
    ] {
        let (_, stderr, code) = case.run(&["run", input, "-o", "out.py", "--passes", ""], b"");
        assert!(code != 0 && stderr.contains(message), "{input}: {code}\n{stderr}");
    }
    let (_, stderr, _) = case.run(&["run", "-", "-o", "out.py", "--passes", ""], b"a\0");
    assert!(stderr.contains("not text: byte 1, in line 1, is 0"), "{stderr}");
}
