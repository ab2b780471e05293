//! Tests of plugin instruments. `tests/bad-plugins/zoo/examples/zoo_instruments.rs` logs its calls, and the goldens
//! `tests/goldens/plugins/instruments_*` contain the order of calls, messages and exit codes. Also tests the output of the host's own
//! instruments.

use super::bad_plugins::example;
use super::{Case, compare, transcript};
use serde_json::Value;

fn zoo(name: &'static str) -> Case {
    Case::new(name).libraries(&[example("instruments")]).operators()
}

/// Runs pipelines, each with its instruments. The golden contains the messages and the calls of passes and instruments.
fn runs(name: &'static str, commands: &[&[&str]]) {
    let case = Case::new(name).libraries(&["instruments", "required"].map(example)).operators();
    let mut said = Vec::new();
    for args in commands {
        let log = case.path("log");
        let args = [&["run", "small.py", "-o", "out.py"], *args].concat();
        let mut command = case.command(&args);
        command.env("ZOO_LOG", &log);
        let text = transcript(&args, case.finish(command, b""));
        let called = std::fs::read_to_string(&log).unwrap_or_default();
        let written = ["out.py", "out.failed.py"].into_iter().filter(|file| case.path(file).exists());
        let written: Vec<&str> = written.collect();
        said.push(format!("{text}== written\n{}\n== called\n{called}", written.join(" ")));
        for file in ["log", "out.py", "out.failed.py"] {
            let _ = std::fs::remove_file(case.path(file));
        }
    }
    compare("plugins", name, &said.join("\n"));
}

/// Arguments of recorders that do not panic.
const A: &str = "zoo.Recorder{name=a}";
const C: &str = "zoo.Recorder{name=c}";

macro_rules! called {
    ($($name:ident: [$([$($arg:expr),* $(,)?]),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            runs(stringify!($name), &[$(&[$($arg),*]),*]);
        }
    )*};
}

called! {
    // The order of calls in each row of TVM's table. `tests/oracle/compat.py` compares further cases with TVM itself.
    tvm_compat_calls: [
        ["--tvm-compat", "--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument", C],
        ["--tvm-compat", "--passes", "zoo.High", "--disable", "zoo.High", "--instrument", A],
        ["--tvm-compat", "--passes", "zoo.Third,zoo.Second,Sequential(name=late,opt_level=3)[zoo.Adds]", "--disable",
         "zoo.First", "--disable", "nobody", "--instrument", A],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Adds", "--disable", "zoo.First", "--require", "zoo.First"],
        ["--tvm-compat", "--passes", "zoo.Second,zoo.Adds", "--instrument", A, "--instrument",
         "zoo.Recorder{name=b, vetoes=[zoo.First]}"],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Both", "--require", "zoo.Both", "--instrument",
         "zoo.Recorder{vetoes=[zoo.Both, zoo.High]}"],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Unmet", "--instrument", A],
    ];
    tvm_compat_failures: [
        ["--tvm-compat", "--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument",
         "zoo.Recorder{name=b, fails=enter}", "--instrument", C],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument",
         "zoo.Recorder{name=b, fails=exit}", "--instrument", C],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument",
         "zoo.Recorder{name=b, fails=should_run}", "--instrument", C],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument",
         "zoo.Recorder{name=b, fails=run_before}", "--instrument", C],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument",
         "zoo.Recorder{name=b, fails=run_after}", "--instrument", C],
        ["--tvm-compat", "--passes", "zoo.First,zoo.Fails,zoo.Adds", "--instrument", A, "--instrument", C],
    ];
    // Instruments see required steps, but not steps that still hold, are disabled, or have too high a level.
    instruments_see_every_step: [
        ["--passes", "zoo.Third,zoo.Adds,zoo.Second", "--instrument", A, "--instrument", C],
        ["--passes", "zoo.First,zoo.Adds", "--disable", "zoo.Adds", "--instrument", "Recorder{talks=true}"],
        ["--passes", "zoo.Third", "--opt-level", "1", "--instrument", A],
        ["--passes", "", "--instrument", A],
    ];
    // A Sequential is a pass: it begins, ends, fails and is vetoed as one.
    instruments_see_sequentials: [
        ["--passes", "Sequential(name=late)[zoo.First,Sequential(name=inner)[zoo.Adds]],zoo.Second", "--instrument", A],
        ["--passes", "Sequential(name=late)[zoo.First,Sequential(name=inner)[zoo.Fails],zoo.Adds]", "--instrument", A],
        ["--passes", "Sequential(name=late)[zoo.First,Sequential(name=inner)[zoo.Adds]],zoo.First",
         "--instrument", "zoo.Recorder{name=b, vetoes=[inner]}"],
        ["--passes", "Sequential(name=late)[zoo.First,zoo.Adds],zoo.Second",
         "--instrument", "zoo.Recorder{name=b, vetoes=[late]}"],
        ["--passes", "Sequential(name=late)[zoo.First,zoo.Adds]", "--instrument",
         "zoo.Recorder{name=b, vetoes=[zoo.First]}"],
        // Lists and options refer to a Sequential by its name.
        ["--passes", "Sequential(name=late)[zoo.First,zoo.Adds],zoo.Second", "--disable", "late"],
        ["--passes", "Sequential(name=late,opt_level=9)[zoo.Second]", "--require", "late", "--print-before", "late"],
        ["--passes", "Sequential(name=late)[zoo.Second]", "--disable", "lato"],
    ];
    // Each instrument is notified of the end of a failing pass, and the context is exited.
    instruments_see_a_pass_fail: [
        ["--passes", "zoo.First,zoo.Fails,zoo.Adds", "--instrument", A, "--instrument", C],
        ["--passes", "zoo.First,zoo.Fails,zoo.Adds", "--keep-going", "--instrument", A],
    ];
    instruments_that_veto: [
        // The requested pass itself.
        ["--passes", "zoo.First,zoo.Adds", "--instrument", "zoo.Recorder{vetoes=[zoo.First]}"],
        // Passes that other passes require, directly and indirectly.
        ["--passes", "zoo.Third,zoo.Adds", "--instrument", A, "--instrument",
         "zoo.Recorder{name=b, vetoes=[zoo.First]}", "--instrument", "zoo.Recorder{name=c, vetoes=[zoo.First]}"],
        // Passes that the context requires cannot be vetoed.
        ["--passes", "zoo.First,zoo.Adds", "--require", "zoo.First", "--instrument",
         "zoo.Recorder{vetoes=[zoo.First, zoo.Adds]}"],
        // Vetoed in each round, but reported once.
        ["--passes", "repeat(limit=2)[zoo.Second,zoo.Adds]", "--instrument", "zoo.Recorder{vetoes=[zoo.First]}"],
    ];
    // Instruments have counters like passes. Instances with different options are summed.
    expectations_of_instruments: [
        ["--passes", "zoo.First", "--instrument", "zoo.Recorder{name=a, talks=true}", "--expect",
         "zoo.Recorder.remarks==3"],
        ["--passes", "zoo.First", "--instrument", "zoo.Recorder{name=a, talks=true}", "--instrument",
         "zoo.Recorder{name=b, talks=true}", "--expect", "zoo.Recorder.remarks==3", "--expect", "zoo.Recorder.words>0"],
        ["--passes", "zoo.First", "--expect", "zoo.Recorder.remarks>0", "--expect", "zoo.Recorded.remarks>0"],
        ["--passes", "zoo.First", "--expect", "zoo.Recorder.remarks>0"],
    ];
    instruments_that_fail: [
        ["--passes", "zoo.First", "--instrument", A, "--instrument", "zoo.Recorder{name=b, fails=new}", "--instrument", C],
        ["--passes", "zoo.First", "--instrument", A, "--instrument", C, "--instrument",
         "zoo.Recorder{name=b, fails=enter}", "--instrument", "zoo.Recorder{name=d}"],
        ["--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument", "zoo.Recorder{name=b, fails=should_run}",
         "--instrument", C],
        ["--passes", "zoo.First,zoo.Adds", "--instrument", A, "--instrument", "zoo.Recorder{name=b, fails=run_before}",
         "--instrument", C],
        ["--passes", "zoo.Adds,zoo.First", "--instrument", A, "--instrument", "zoo.Recorder{name=b, fails=run_after}",
         "--instrument", C],
        ["--passes", "zoo.Third", "--instrument", "zoo.Recorder{name=b, fails=run_after}"],
        ["--passes", "zoo.Fails", "--instrument", "zoo.Recorder{name=b, fails=run_failed}", "--instrument", C],
        ["--passes", "zoo.Adds", "--instrument", A, "--instrument", "zoo.Recorder{name=b, fails=exit}",
         "--instrument", C],
    ];
    // An instrument that panicked is not called again, but its destructor runs.
    instruments_that_panic: [
        ["--passes", "zoo.First", "--instrument", A, "--instrument", "zoo.Recorder{name=b, panics=new}"],
        ["--passes", "zoo.First", "--instrument", A, "--instrument", "zoo.Recorder{name=b, panics=enter}"],
        ["--passes", "zoo.First", "--instrument", A, "--instrument", "zoo.Recorder{name=b, panics=should_run}"],
        ["--passes", "zoo.First", "--instrument", A, "--instrument", "zoo.Recorder{name=b, panics=run_before}"],
        ["--passes", "zoo.Adds", "--instrument", "zoo.Recorder{name=b, panics=run_after}", "--instrument", C],
        ["--passes", "zoo.Fails", "--instrument", "zoo.Recorder{name=b, panics=run_failed}", "--instrument", C],
        ["--passes", "zoo.Adds", "--instrument", "zoo.Recorder{name=b, panics=exit}", "--instrument", C],
        ["--passes", "zoo.Adds", "--instrument", "zoo.Recorder{name=b, panics=drop}", "--instrument", C],
    ];
    // Only the failed instrument is left out.
    instruments_that_are_left_out: [
        ["--passes", "zoo.Adds", "--keep-going", "--instrument", "zoo.Recorder{name=b, fails=new}", "--instrument", C],
        ["--passes", "zoo.Adds", "--keep-going", "--instrument", "zoo.Recorder{name=b, panics=enter}",
         "--instrument", C],
        ["--passes", "zoo.Adds,zoo.First", "--keep-going", "--instrument",
         "zoo.Recorder{name=b, panics=should_run}", "--instrument", C],
        ["--passes", "zoo.Adds,zoo.First", "--keep-going", "--instrument", "zoo.Recorder{name=b, fails=run_before}"],
        ["--passes", "zoo.Adds,zoo.First", "--keep-going", "--instrument", "zoo.Recorder{name=b, panics=run_after}"],
        ["--passes", "zoo.Adds,zoo.First", "--keep-going", "--instrument", "zoo.Recorder{name=b, fails=exit}",
         "--instrument", C],
    ];
    instruments_that_are_unknown: [
        ["--passes", "zoo.First", "--instrument", "zoo.Recoder"],
        ["--passes", "zoo.First", "--instrument", "zoo.Recorder{fail=exit}"],
        ["--passes", "zoo.First", "--instrument", "zoo.Recorder{fails=1}"],
        ["--passes", "zoo.First", "--instrument", "zoo.Recorder{"],
        ["--passes", "zoo.First", "--instrument", "zoo.First"],
    ];
    modules_around_passes: [
        ["--passes", "zoo.First,zoo.Adds", "--print-before", "zoo.First,Adds"],
        ["--passes", "zoo.First,zoo.Adds", "--print-after-all"],
        ["--passes", "zoo.First,zoo.Adds", "--print-changed"],
        ["--passes", "zoo.First,zoo.Fails", "--print-before-all", "--print-changed"],
        ["--passes", "zoo.First,zoo.Fails", "--print-after", "zoo.Fails,zoo.Third"],
        ["--passes", "zoo.First", "--print-after", "zoo.Frist"],
    ];
    functions_around_passes: [
        ["--passes", "zoo.First,zoo.Adds", "--print-before-all", "--print-function", "main,nobody"],
        ["--passes", "zoo.First,zoo.Adds", "--print-changed=functions"],
        ["--passes", "zoo.First,zoo.Adds", "--print-changed=module"],
        ["--passes", "zoo.First,zoo.Adds", "--print-changed", "--print-function", "main"],
        ["--passes", "zoo.First,zoo.Adds", "--print-function", "main"],
        ["--passes", "zoo.First,zoo.Adds", "--print-changed=lines"],
    ];
}

/// Printed modules and errors have the step numbers that `plan` shows.
#[test]
fn steps_have_the_numbers_of_the_plan() {
    let case = Case::new("numbers").libraries(&["instruments", "required"].map(example)).operators();
    let passes = "zoo.First,zoo.Third,Sequential(name=late)[zoo.Adds,Sequential(name=inner)[zoo.First,zoo.Fails]]";
    for how in [&[][..], &["--tvm-compat"]] {
        let (plan, _, code) = case.run(&[&["plan", "--passes", passes], how].concat(), b"");
        assert_eq!(code, 0);
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_string(), words.next()?.to_string()))
        };
        let plan: Vec<(String, String)> = plan.lines().filter_map(line).collect();
        let args = ["run", "small.py", "-o", "out.py", "--print-before-all", "--print-changed", "--passes", passes];
        let (_, said, code) = case.run(&[&args, how].concat(), b"");
        assert_eq!(code, 3);
        let step = |line: &str| {
            let (number, rest) = line.split_once("step ")?.1.split_once(": ")?;
            Some((number.to_string(), rest.split(' ').next()?.to_string()))
        };
        let printed =
            said.lines().filter(|line| line.starts_with("# before step") || line.starts_with("# changed by step"));
        let mut steps: Vec<(String, String)> = printed.filter_map(step).collect();
        assert!(steps.len() > 6, "{said}");
        let error = said.lines().find_map(|line| line.strip_prefix("error: step ")).expect("an error");
        let (number, rest) = error.split_once(", pass `").expect("a number");
        steps.push((number.to_string(), rest.split('`').next().expect("a name").to_string()));
        for step in &steps {
            assert!(plan.contains(step), "{step:?} of {steps:?}, {plan:?}");
        }
    }
}

/// Instruments are listed without opening the plugin, which would write to `ZOO_LOG`.
#[test]
fn instruments_are_listed_without_loading() {
    let case = zoo("instruments_are_listed_without_loading");
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("a manifest");
    let case = case.file("passes.toml", format!("instruments = [\"zoo.Recorder{{name=m}}\"]\n{manifest}"));
    let commands: [&[&str]; 5] = [
        &["list"],
        &["explain", "zoo.Recorder"],
        &["plan", "--passes", "zoo.Second", "--instrument", "Silent"],
        &["plan", "--json", "--passes", "zoo.First", "--instrument", "Silent"],
        &["explain", "zoo.Recoder"],
    ];
    let mut said = Vec::new();
    for args in commands {
        let mut command = case.command(args);
        command.env("ZOO_LOG", case.path("log"));
        said.push(transcript(args, case.finish(command, b"")));
    }
    assert!(!case.path("log").exists());
    let text = said.join("\n");
    // The compiler that built it does not matter here.
    let lines = text.lines().map(|line| if line.starts_with("built by") { "built by ..." } else { line });
    compare(
        "plugins",
        "instruments_are_listed_without_loading",
        &lines.map(|line| format!("{line}\n")).collect::<String>(),
    );
    // The instruments of the manifest come before those of the command line.
    let args = ["run", "small.py", "-o", "out.py", "--passes", "zoo.First", "--instrument", "Recorder{name=n}"];
    let mut command = case.command(&args);
    command.env("ZOO_LOG", case.path("log"));
    assert_eq!(case.finish(command, b"").2, 0);
    let log = std::fs::read_to_string(case.path("log")).expect("what was called");
    let order: Vec<&str> = log.lines().filter(|line| line.contains("enter")).collect();
    assert_eq!(order, ["m.enter", "n.enter"]);
}

/// Names of instruments in the manifest are checked together with the rest of the manifest.
#[test]
fn instruments_of_the_manifest_are_checked() {
    let case = zoo("instruments_of_the_manifest_are_checked");
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("a manifest");
    let case = case.file("passes.toml", format!("instruments = [\"zoo.Recoder\"]\n{manifest}"));
    let args = ["check"];
    compare("plugins", case.name, &transcript(&args, case.run(&args, b"")));
}

/// The plugin of an instrument is opened before the first step, even if the plan contains none of its passes.
#[test]
fn plugins_of_instruments_are_opened_first() {
    let mut library = super::bad_plugins::Library::read(&example("instruments"));
    library = library.entry(0, b"THGUORWO");
    let case = Case::new("opened_first").file("libx.so", library.0);
    let case = case.libraries(&["libx.so".into(), super::bad_plugins::good()]).operators();
    let args = ["run", "small.py", "-o", "out.py", "--passes", "zoo.Notes", "--instrument", "zoo.Silent"];
    let mut command = case.command(&args);
    command.env("ZOO_LOG", case.path("log"));
    let (_, stderr, code) = case.finish(command, b"");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("its entry table starts with"), "{stderr}");
    assert!(!case.path("log").exists() && !case.path("out.py").exists());
}

/// Two plugins with an instrument of the same name are refused, with both files.
#[test]
fn two_plugins_with_one_instrument() {
    use super::bad_plugins::{content, tag};
    let other = super::bad_plugins::Library::read(&example("instruments")).metadata(|plugin| {
        *content(plugin, tag::NAME) = b"other".to_vec();
        plugin.retain(|field| ![tag::PASS, tag::COMPOSITE].contains(&field.0));
    });
    let case = Case::new("two_plugins_with_one_instrument").file("libother.so", other.0);
    let case = case.libraries(&[example("instruments"), "libother.so".into()]);
    compare("plugins", case.name, &transcript(&["list"], case.run(&["list"], b"")));
}

/// The tree contains the failing pass and the spans around it, as text and as JSON.
#[test]
fn timing_is_a_tree_also_of_a_failed_run() {
    let case = zoo("timing");
    let args = ["run", "small.py", "-o", "out.py", "--passes", "zoo.First,zoo.Fails", "--timing"];
    let (_, stderr, code) = case.run(&args, b"");
    assert_eq!(code, 3, "{stderr}");
    let names: Vec<&str> = stderr
        .lines()
        .skip_while(|line| !line.starts_with("WHERE"))
        .take_while(|line| !line.starts_with("error"))
        .map(|line| line.split("  ?").next().unwrap_or_default().trim_end())
        .collect();
    let tree = [
        "total",
        "  list plugins",
        "  plan",
        "  open plugins",
        "  read",
        "  passes",
        "    zoo.First",
        "      verify",
        "    zoo.Fails (failed)",
        "  print",
    ];
    assert_eq!(names[1..], tree, "{stderr}");
    let args = ["run", "small.py", "-o", "out.py", "--passes", "zoo.First,zoo.Adds", "--timing=json"];
    let (_, stderr, code) = case.run(&args, b"");
    assert_eq!(code, 0, "{stderr}");
    let json: Value = serde_json::from_str(stderr.lines().last().unwrap_or_default()).expect("a line of JSON");
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_string();
    let children = |value: &Value| value["children"].as_array().cloned().unwrap_or_default();
    let parts = children(&json);
    let names: Vec<String> = parts.iter().map(name).collect();
    assert_eq!(names, ["list plugins", "plan", "open plugins", "read", "passes", "print", "write"]);
    assert_eq!(children(&parts[4]).iter().map(name).collect::<Vec<_>>(), ["zoo.First", "zoo.Adds"]);
    let sum: f64 = parts.iter().map(|part| part["total_ms"].as_f64().unwrap_or(-1.0)).sum();
    let (total, own) = (json["total_ms"].as_f64().unwrap_or(-1.0), json["self_ms"].as_f64().unwrap_or(-1.0));
    assert!((total - own - sum).abs() < 1e-6 && own >= 0.0, "{json}");
    // The times are on the last line, whether a pass, the plan or the output fails.
    for args in
        [&["zoo.First,zoo.Fails", "-o", "out.py"], &["zoo.Frist", "-o", "out.py"], &["zoo.First", "-o", "/dev/full"]]
    {
        let (_, stderr, code) = case.run(&[&["run", "small.py", "--timing=json", "--passes"], &args[..]].concat(), b"");
        let json: Value = serde_json::from_str(stderr.lines().last().unwrap_or_default()).expect("a line of JSON");
        assert_eq!((code > 0, &json["name"]), (true, &"total".into()), "{stderr}");
        assert!(stderr.contains("error: "), "{stderr}");
    }
}

/// Diagnostics of a pass are printed after the module before it, and before the module after it.
#[test]
fn diagnostics_are_told_when_their_pass_is_done() {
    let case = Case::new("told").crates(&["plugins/relax-ops", "tests/bad-plugins/misbehaves"]);
    let args = ["run", "small.py", "-o", "out.py", "--passes", "bad.Warns,bad.Warns", "--print-after-all"];
    let (_, stderr, code) = case.run(&args, b"");
    assert_eq!(code, 0, "{stderr}");
    let kinds: Vec<&str> = stderr
        .lines()
        .filter_map(|line| ["# after step", "warning: "].into_iter().find(|kind| line.starts_with(kind)))
        .collect();
    assert_eq!(kinds, ["warning: ", "# after step", "warning: ", "# after step"], "{stderr}");
}

/// With `--message-format json`, standard error consists of lines of JSON.
#[test]
fn messages_for_programs() {
    let commands: [&[&str]; 5] = [
        &[
            "run",
            "small.py",
            "-o",
            "out.py",
            "--passes",
            "zoo.First,zoo.Third",
            "--opt-level",
            "1",
            "--memory",
            "--statistics",
        ],
        &["run", "small.py", "-o", "out.py", "--passes", "zoo.First,zoo.Fails"],
        &["run", "small.py", "--passes", "zoo.First", "--instrument", "zoo.Recorder{talks=true, fails=run_after}"],
        &["plan", "--passes", "zoo.Second", "--disable", "zoo.First"],
        &["run", "small.py", "--pases", "zoo.First"],
    ];
    let case = zoo("messages_for_programs");
    let mut said = String::new();
    for command in commands {
        let args = [command, &["--message-format", "json"]].concat();
        let (_, stderr, code) = case.run(&args, b"");
        said.push_str(&format!("$ passhost {}\nexit code {code}\n", args.join(" ")));
        for line in stderr.lines() {
            let mut value: Value = serde_json::from_str(line).expect("a line of JSON");
            for step in value.get_mut("summary").and_then(Value::as_array_mut).into_iter().flatten() {
                for time in ["time_ms", "verify_ms"] {
                    let time = step.get_mut(time).map(|time| std::mem::replace(time, "?".into()));
                    assert!(time.is_none_or(|time| time.is_number()), "{line}");
                }
            }
            for row in value.get_mut("memory").and_then(Value::as_array_mut).into_iter().flatten() {
                row["resident"] = "?".into();
            }
            said.push_str(&format!("{value:#}\n"));
        }
    }
    compare("plugins", "messages_for_programs", &said);
}
