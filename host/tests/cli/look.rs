//! Tests the host's own instruments: files, a trace and tables. The goldens contain neither times nor resident memory.

use super::bad_plugins::example;
use super::{Case, SMALL, compare, transcript};
use serde_json::Value;
use std::fmt::Write;

const TIDY: &str = "relax.EliminateCommonSubexpr,relax.CanonicalizeBindings,relax.DeadCodeElimination";

/// Creates a case with a pass that fails, and a pass that is called on each function.
fn zoo(name: &'static str) -> Case {
    let libraries = Case::new(name).libraries(&[example("instruments")]).operators();
    let text = std::fs::read_to_string(libraries.path("passes.toml")).expect("a manifest");
    let passes = super::root().join("plugins/relax-passes");
    libraries.file("passes.toml", format!("{text}[[plugin]]\ncrate = \"{}\"\n", passes.display()))
}

/// Returns the arguments of every run, followed by `more`.
fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "small.py", "-o", "out.py"], more].concat()
}

/// Returns the output of a run, and every file in the folder `dump`.
fn dumped(case: &Case, args: &[&str]) -> String {
    let mut said = case.shown(args, case.command(args), b"");
    let Ok(folder) = std::fs::read_dir(case.path("dump")) else { return said };
    let mut files: Vec<_> = folder.map(|file| file.expect("a file").path()).filter(|path| path.is_file()).collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let _ = write!(said, "== {}\n{text}", file.file_name().unwrap_or_default().display());
        std::fs::remove_file(file).expect("can be removed");
    }
    said + "\n"
}

#[test]
fn dump_to_a_folder() {
    let case = zoo("dump_to_a_folder");
    let passes = format!("zoo.First,{TIDY}");
    let mut said = dumped(&case, &run(&["--passes", &passes, "--dump", "dump"]));
    // After a failure, the files of earlier passes exist.
    let args = ["--passes", "zoo.First,zoo.Adds,zoo.Fails,zoo.Adds", "--dump", "dump", "--dump-all"];
    said += &dumped(&case, &run(&args));
    // A file in place of the folder, and a folder in place of a file.
    said += &dumped(&case, &run(&["--passes", "zoo.Adds", "--dump", "small.py/dump"]));
    std::fs::create_dir(case.path("dump/000_zoo.Adds.py")).expect("a folder");
    said += &dumped(&case, &run(&["--passes", "zoo.Adds", "--dump", "dump"]));
    // This affects neither the result nor other output, even if another error follows.
    assert!(case.path("out.py").exists());
    said += &dumped(&case, &run(&["--passes", "zoo.Adds,zoo.Adds,zoo.Fails", "--dump", "dump"]));
    said += &dumped(&case, &run(&["--passes", "zoo.Adds", "--dump-all"]));
    compare("plugins", case.name, &said);
}

/// Returns the events of the trace as lines without times, after checking that each event ends after it begins.
fn events(case: &Case) -> Vec<Value> {
    let text = std::fs::read_to_string(case.path("trace.json")).expect("a trace");
    let trace: Value = serde_json::from_str(&text).expect("valid JSON");
    let events = trace["traceEvents"].as_array().expect("a list of events").clone();
    assert_eq!(text.lines().count(), events.len() + 2, "a line for each event");
    let spans = events.iter().filter(|event| event["ph"] == "X");
    assert!(spans.clone().all(|span| span["ts"].as_f64() >= Some(0.0) && span["dur"].as_f64() >= Some(0.0)));
    let begins: Vec<f64> = spans.filter_map(|span| span["ts"].as_f64()).collect();
    assert!(begins.is_sorted(), "in the order of their start");
    events
}

/// Returns true if a span is inside another.
fn lies_in(inner: &Value, outer: &Value) -> bool {
    let times = |span: &Value| (span["ts"].as_f64().unwrap_or(-1.0), span["dur"].as_f64().unwrap_or(-1.0));
    let ((inner, short), (outer, long)) = (times(inner), times(outer));
    outer <= inner && inner + short <= outer + long + 1e-3
}

#[test]
fn trace_of_a_run() {
    let case = zoo("trace_of_a_run");
    let two = SMALL.replace(
        "    @R.function",
        "    @R.function\n    def f(x: R.Tensor((2, 3), dtype=\"float32\")):\n        return x\n\n    @R.function",
    );
    let case = case.file("small.py", two);
    let mut said = String::new();
    let runs: [&[&str]; 3] = [
        &["--passes", "EliminateCommonSubexpr,DeadCodeElimination", "--print-after", "DeadCodeElimination"],
        &["--passes", "zoo.First,zoo.Fails,zoo.Adds"],
        &["--passes", "zoo.Frist"],
    ];
    for args in runs {
        let args = [&run(args), &["--jobs", "1", "--trace", "trace.json"][..]].concat();
        let _ = writeln!(said, "{}== trace", case.shown(&args, case.command(&args), b""));
        for mut event in events(&case) {
            for time in ["ts", "dur"] {
                if event[time].is_number() {
                    event[time] = 0.into();
                }
            }
            let _ = writeln!(said, "{event}");
        }
        let _ = writeln!(said);
        std::fs::remove_file(case.path("trace.json")).expect("can be removed");
    }
    // The output error is reported before anything runs, and together with the error that stopped the run.
    let args = run(&["--passes", "zoo.First", "--trace", "nowhere/trace.json"]);
    said += &case.shown(&args, case.command(&args), b"");
    assert!(!case.path("nowhere").exists());
    compare("plugins", case.name, &said);
}

/// The time of a pass excludes what the other instruments do around it.
#[test]
fn the_clock_of_passes_begins_last_and_ends_first() {
    let case = zoo("clock");
    let more = ["--timing", "--memory", "--instrument", "zoo.Recorder", "--trace", "trace.json"];
    let args = run(&[&["--passes", "zoo.First"], &more[..]].concat());
    let (_, stderr, code) = case.run(&args, b"");
    assert_eq!(code, 0, "{stderr}");
    let events = events(&case);
    let called = |event: &str| -> Vec<String> {
        let of = events.iter().filter(|span| span["cat"] == "instrument" && span["args"]["event"] == event);
        of.filter_map(|span| span["name"].as_str().map(str::to_string)).collect()
    };
    assert_eq!(called("run_before"), ["memory", "zoo.Recorder", "timing"]);
    assert_eq!(called("run_after"), ["timing", "memory", "zoo.Recorder"]);
}

/// Returns functions with enough work for several threads.
fn many() -> String {
    let tensor = "R.Tensor((2, 3), dtype=\"float32\")";
    let mut text = "@I.ir_module\nclass Module:\n".to_string();
    for function in 0..300 {
        let _ = write!(text, "    @R.function\n    def f{function:03}(x: {tensor}):\n");
        (0..60).for_each(|at| {
            let _ = writeln!(text, "        a{at}: {tensor} = R.call_pure_packed(\"f\", x, ty_args=({tensor},))");
        });
        text.push_str("        return a59\n\n");
    }
    text
}

/// Each function has a span on its thread, inside the spans of its stretch and of the pass.
#[test]
fn trace_of_several_threads() {
    let case = Case::new("threads").standard().file("small.py", many());
    let args = run(&["--passes", "RemovePurityChecking", "--jobs", "3", "--trace", "trace.json", "--statistics"]);
    let traced = || {
        let (_, stderr, code) = case.run(&args, b"");
        assert_eq!(code, 0, "{stderr}");
        // The sum over all threads equals the sum of a run with one thread.
        let sum = stderr.lines().find(|line| line.contains("calls unwrapped")).unwrap_or_default();
        assert_eq!(sum.split_whitespace().last(), Some((300 * 60).to_string().as_str()), "{stderr}");
        events(&case)
    };
    // On a busy machine one thread may be done before the others wake up, but not every time.
    let shared =
        |events: &Vec<Value>| events.iter().any(|span| span["cat"] == "stretch" && span["tid"].as_u64() > Some(1));
    let events = (0..20).map(|_| traced()).find(shared).expect("other threads have some");
    let of = |category: &str| -> Vec<&Value> { events.iter().filter(|event| event["cat"] == category).collect() };
    let mut names: Vec<&str> = of("function").iter().filter_map(|span| span["name"].as_str()).collect();
    names.sort_unstable();
    let expected: Vec<String> = (0..300).map(|at| format!("f{at:03}")).collect();
    assert_eq!(names, expected);
    let (passes, stretches) = (of("pass"), of("stretch"));
    for span in of("function") {
        let around = |outer: &&&Value| outer["tid"] == span["tid"] && lies_in(span, outer);
        assert_eq!(stretches.iter().filter(around).count(), 1, "{span}");
        assert!(passes.iter().any(|pass| lies_in(span, pass)), "{span}");
    }
    let threads = events.iter().filter(|event| event["name"] == "thread_name").count();
    let mut used: Vec<u64> = stretches.iter().filter_map(|span| span["tid"].as_u64()).chain([1]).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(threads, used.len());
}

#[test]
fn statistics_of_passes() {
    let case = zoo("statistics_of_passes");
    let passes = format!("zoo.Adds,{TIDY},zoo.Adds,{TIDY},zoo.Second");
    let mut said = String::new();
    // Counters of a failing pass are dropped. Counters of an instrument are listed under its own name.
    let runs: [&[&str]; 3] = [
        &["--passes", &passes, "--statistics"],
        &["--passes", "zoo.Second,zoo.Fails", "--statistics", "--instrument", "zoo.Recorder{talks=true}"],
        &["--passes", "", "--statistics"],
    ];
    for args in runs {
        let args = run(args);
        said += &(case.shown(&args, case.command(&args), b"") + "\n");
    }
    let other = |args: &[&str]| {
        let (_, stderr, _) = case.run(&run(args), b"");
        stderr.lines().skip_while(|line| !line.starts_with("PASS")).collect::<Vec<_>>().join("\n")
    };
    let one = other(&["--passes", &passes, "--statistics", "--jobs", "1"]);
    assert_eq!(one, other(&["--passes", &passes, "--statistics", "--jobs", "4"]));
    compare("plugins", case.name, &said);
}

#[test]
fn groups_that_were_formed() {
    let case = Case::new("groups_that_were_formed").standard().file(
        "small.py",
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((1, 8, 8, 8), \"float32\"), \
         w: R.Tensor((8, 8, 1, 1), \"float32\")):\n        a = R.nn.conv2d(x, w)\n        b = R.nn.relu(a)\n        \
         c = R.nn.conv2d(b, w)\n        return c\n",
    );
    let args = run(&["--passes", "acme.GroupConvolutions", "--statistics"]);
    let (_, stderr, code) = case.run(&args, b"");
    let line = stderr.lines().find(|line| line.contains("groups formed")).unwrap_or_default();
    assert_eq!((code, line.split_whitespace().last()), (0, Some("1")), "{stderr}");
}

/// The bytes of bodies are the same everywhere, but resident memory is not.
#[cfg(target_pointer_width = "64")]
#[test]
fn memory_of_passes() {
    let case = zoo("memory_of_passes");
    let passes = format!("zoo.Adds,{TIDY},zoo.Fails");
    let args = run(&["--passes", &passes, "--memory", "--timing"]);
    let (stdout, stderr, code) = case.run(&args, b"");
    let mut resident = 0;
    let mut cleaned = String::new();
    // The tree of times has its own test.
    let mut hidden = false;
    for line in stderr.lines() {
        hidden = line.starts_with("WHERE") || hidden && !line.is_empty();
        match line.strip_suffix(" KiB").and_then(|line| line.rsplit_once(['+', '-'])) {
            Some((line, kib)) => {
                assert!(kib.parse::<u64>().is_ok(), "{line}");
                let _ = writeln!(cleaned, "{line}? KiB");
                resident += 1;
            }
            None if hidden => (),
            None => {
                let _ = writeln!(cleaned, "{line}");
            }
        }
    }
    assert_eq!(resident, 5, "{stderr}");
    compare("plugins", case.name, &transcript(&args, (stdout, cleaned, code)));
}

/// Modules are printed when the pass runs, before the summary.
#[test]
fn modules_printed_by_a_pass() {
    let case = zoo("modules_printed_by_a_pass");
    let passes = "PrintIR{header=\"as it came\"},relax.EliminateCommonSubexpr,transform.PrintIR,transform.PrintIR{header=\"two\\nlines\"}";
    let args = run(&["--passes", passes]);
    compare("plugins", case.name, &case.shown(&args, case.command(&args), b""));
    // With JSON messages, it is a line of JSON like every other message.
    let args = [&args[..], &["--message-format", "json"]].concat();
    let (_, stderr, code) = case.run(&args, b"");
    let lines = stderr.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let printed: Vec<String> = lines.filter_map(|line| Some(line["printed"].as_str()?.to_string())).collect();
    assert_eq!((code, printed.len()), (0, 3), "{stderr}");
    assert!(printed[2].starts_with("# transform.PrintIR: two\n# lines\n# from tvm"), "{}", printed[2]);
}

/// Prints the help texts of these instruments.
#[test]
fn help_of_instruments() {
    let case = Case::new("help_of_instruments");
    let (stdout, _, code) = case.run(&["run", "--help"], b"");
    assert_eq!(code, 0);
    let lines = stdout.lines().skip_while(|line| !line.starts_with("      --dump <DIR>"));
    let lines = lines.take_while(|line| !line.starts_with("      --keep-going"));
    compare("cli", case.name, &lines.map(|line| format!("{}\n", line.trim_end())).collect::<String>());
}
