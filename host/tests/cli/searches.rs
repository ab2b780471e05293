//! Tests of the commands for failures: bundles and `replay`, `bisect`, `reduce`.

use super::bad_plugins::example;
use super::{Case, root};

/// Returns a chain of operators with one subtraction, in one of two functions, and an uncalled TIR function.
fn chain(length: usize) -> String {
    let ty = "R.Tensor((4, 6), dtype=\"float32\")";
    let binding = |at: usize| {
        let before = at.checked_sub(1).map_or("x".to_string(), |at| format!("lv{at}"));
        let value = match at {
            _ if at == length / 2 => format!("R.subtract({before}, y)"),
            _ if at.is_multiple_of(3) => format!("R.add({before}, y)"),
            _ if at % 3 == 1 => format!("R.nn.relu({before})"),
            _ => format!("R.multiply({before}, x)"),
        };
        format!("            lv{at}: {ty} = {value}\n")
    };
    let bindings: String = (0..length).map(binding).collect();
    format!(
        "\
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def unused(a: T.Buffer((T.int64(16),), \"float32\"), b: T.Buffer((T.int64(16),), \"float32\")):
        for i in range(T.int64(16)):
            with T.sblock(\"b\"):
                vi = T.axis.spatial(T.int64(16), i)
                b[vi] = a[vi]

    @R.function
    def first(x: {ty}) -> {ty}:
        with R.dataflow():
            gv: {ty} = R.nn.relu(x)
            R.output(gv)
        return gv

    @R.function
    def main(x: {ty}, y: {ty}) -> {ty}:
        with R.dataflow():
{bindings}            gv: {ty} = R.nn.relu(lv{})
            R.output(gv)
        return gv
",
        length - 1
    )
}

fn case(name: &'static str, length: usize) -> Case {
    case_of(name, chain(length))
}

/// Creates a case for a module, with the standard Relax passes and with passes that have faults.
pub(super) fn case_of(name: &'static str, module: String) -> Case {
    let crates =
        ["plugins/relax-ops", "plugins/relax-passes", "tests/bad-plugins/misbehaves", "tests/bad-plugins/miscompiles"];
    let mut manifest: String =
        crates.map(|folder| format!("[[plugin]]\ncrate = \"{}\"\n", root().join(folder).display())).concat();
    manifest.push_str(&format!("[[plugin]]\npath = \"{}\"\n", example("ends").display()));
    Case::new(name).file("m.py", module).file("passes.toml", manifest)
}

/// Passes that fail in different ways, each with its message.
const FAILURES: &[(&str, &str)] = &[
    ("relax.Normalize,bad.Panics,relax.DeadCodeElimination", "panicked: the pass lost its way"),
    ("relax.EliminateCommonSubexpr,relax.Normalize,bad.Fails", "this binding is not to its taste"),
    ("Sequential(name=inner)[relax.Normalize,bad.WrongType]", "returned an ill-formed module"),
    ("relax.Normalize,bad.UsesRemoved", "which was removed"),
    (
        "relax.Normalize,repeat[relax.ConvertToDataflow{min_size=1},relax.CanonicalizeBindings,relax.ToNonDataflow]",
        "undo each other",
    ),
];

#[test]
fn each_kind_of_failure_is_replayed() {
    let case = case("each_kind_of_failure_is_replayed", 6);
    for (passes, what) in FAILURES {
        let (_, said, code) = case.run(&["run", "m.py", "-o", "out.py", "--passes", passes, "--bundle", "b.json"], b"");
        assert!(code == 3 && said.contains(what) && said.contains("wrote the bundle b.json"), "{passes}: {said}");
        // Only the bundle and the manifest are needed.
        let (_, said, code) = case.run(&["replay", "b.json", "-o", "out.py"], b"");
        assert!(code == 3 && said.contains(what), "{passes}: {said}");
        assert!(said.contains("this is the same failure as in the bundle"), "{passes}: {said}");
        assert!(!case.path("out.py").exists(), "{passes}");
        std::fs::remove_file(case.path("b.json")).expect("the bundle");
    }
    let (_, said, code) = case.run(&["run", "m.py", "-o", "out.py", "--passes", "", "--bundle", "b.json"], b"");
    assert!(code == 0 && !case.path("b.json").exists(), "{said}");
}

#[test]
fn expectations_and_values_are_replayed() {
    let case = case("expectations_and_values_are_replayed", 6);
    let expect = ["--expect", "relax.EliminateCommonSubexpr.bindings merged>=100"];
    let args = ["run", "m.py", "-o", "out.py", "--passes", "relax.EliminateCommonSubexpr", "--bundle", "b.json"];
    for more in [&expect[..], &["--passes=wrong.Subtraction", "--validate"]] {
        let args: Vec<&str> = if more.len() == 2 && more[0].starts_with("--passes") {
            ["run", "m.py", "-o", "out.py", "--bundle", "b.json"].into_iter().chain(more.iter().copied()).collect()
        } else {
            args.into_iter().chain(more.iter().copied()).collect()
        };
        let (_, said, code) = case.run(&args, b"");
        assert!(code == 1 && said.contains("wrote the bundle b.json"), "{more:?}: {said}");
        let (_, said, code) = case.run(&["replay", "b.json", "-o", "out.py"], b"");
        assert!(code == 1 && said.contains("this is the same failure as in the bundle"), "{more:?}: {said}");
    }
}

#[test]
fn a_bundle_whose_past_does_not_lead_to_its_step_runs_nothing() {
    let case = case("a_bundle_whose_past_does_not_lead_to_its_step_runs_nothing", 6);
    for (passes, later, step, past, others) in [
        (
            "relax.Normalize,bad.Fails,relax.DeadCodeElimination",
            "relax.DeadCodeElimination",
            2,
            &["unchanged"][..],
            &[0, 2, 3, 4, 40][..],
        ),
        (
            "relax.Normalize,Sequential(name=inner)[relax.Normalize,bad.Fails],relax.Normalize",
            "relax.Normalize",
            4,
            &["unchanged"; 2],
            &[1, 3, 5],
        ),
    ] {
        let (_, said, code) = case.run(&["run", "m.py", "-o", "o.py", "--passes", passes, "--bundle", "b.json"], b"");
        assert_eq!(code, 3, "{said}");
        let text = std::fs::read_to_string(case.path("b.json")).expect("the bundle");
        let mut bundle: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&bundle["past"], &bundle["failed"]["position"]), (&past.into(), &step.into()));
        for n in others {
            bundle["past"] = vec!["unchanged"; *n].into();
            std::fs::write(case.path("b.json"), bundle.to_string()).expect("written");
            for more in [&[][..], &["--only", later]] {
                let args: Vec<&str> = ["replay", "b.json", "-o", "out.py"].iter().chain(more).copied().collect();
                let (_, said, code) = case.run(&args, b"");
                let what = format!("`past` has {n} entr{}, but step {step} failed", if *n == 1 { "y" } else { "ies" });
                assert!(code == 1 && said.contains(&what) && !case.path("out.py").exists(), "{n} {more:?}: {said}");
            }
        }
        bundle["past"] = past.into();
        for position in [1, step - 1, step + 1, 40] {
            bundle["failed"]["position"] = position.into();
            std::fs::write(case.path("b.json"), bundle.to_string()).expect("written");
            let (_, said, code) = case.run(&["replay", "b.json", "-o", "out.py"], b"");
            assert!(code == 1 && said.contains(&format!("but step {position} failed")), "{position}: {said}");
        }
    }
}

#[test]
fn replay_steps_through_the_rest() {
    let case = case("replay_steps_through_the_rest", 6);
    let passes = "relax.Normalize,bad.Fails,relax.DeadCodeElimination";
    let (_, said, code) = case.run(&["run", "m.py", "-o", "o.py", "--passes", passes, "--bundle", "b.json"], b"");
    assert_eq!(code, 3, "{said}");
    let (out, said, code) = case.run(&["replay", "b.json", "--only", "relax.DeadCodeElimination"], b"");
    assert!(code == 0 && out.contains("R.subtract") && !said.contains("bundle has"), "{said}");
    let (_, said, code) = case.run(&["replay", "b.json", "--until", "bad.Fails"], b"");
    assert!(code == 3 && said.contains("not to its taste"), "{said}");
    let (_, said, code) = case.run(&["replay", "b.json", "--only", "relax.LegalizeOps"], b"");
    assert!(code == 2 && said.contains("the plan does not contain this pass"), "{said}");
    for option in ["--only", "--until"] {
        let (_, said, code) = case.run(&["replay", "b.json", option, "relax.Normalize"], b"");
        assert!(code == 2 && said.contains("it ran before the bundle, which starts with step 2"), "{option}: {said}");
    }
    let (_, said, code) = case.run(&["replay", "b.json", "--only", "relax.DeadCodeElimination", "-o", "o.py"], b"");
    let row = |pass: &str| said.lines().find(|line| line.starts_with(pass)).unwrap_or_default().to_string();
    assert!(code == 0 && row("relax.Normalize").contains("not called: it has already run"), "{said}");
    assert!(row("bad.Fails").contains("not called: it is omitted"), "{said}");
}

/// A bundle that a replay writes contains the plugins and the limits on rewrites.
#[test]
fn a_bundle_of_a_replay_is_replayed() {
    let case = case("a_bundle_of_a_replay", 6);
    let passes = "--passes=bad.Rewrites{how=type, at=1}";
    let run = ["run", "m.py", "-o", "o.py", passes, "--rewrites", "first=0", "--bundle", "b.json"];
    let (_, said, code) = case.run(&run, b"");
    assert!(code == 3 && said.contains("in function `main`"), "{said}");
    for (from, args) in [("b.json", &["--bundle", "2.json"][..]), ("2.json", &["--bundle", "3.json"])] {
        let (_, said, code) = case.run(&[&["replay", from, "-o", "o.py"][..], args].concat(), b"");
        assert!(code == 3 && said.contains("this is the same failure as in the bundle"), "{from}: {said}");
        assert!(said.contains("in function `main`"), "{from}: {said}");
    }
    let (_, said, code) = case.run(&["replay", "3.json", "--with-current-plugins", "--bundle", "4.json"], b"");
    assert!(code == 3 && said.contains("wrote the bundle 4.json"), "{said}");
    assert_eq!(case.run(&["replay", "4.json"], b"").2, 3);
    let (_, said, _) = case.run(&["run", "m.py", "-o", "o.py", "--passes", "", "--rewrites", "mian=1"], b"");
    assert!(said.contains("unknown function `mian`; did you mean `main`?"), "{said}");
}

/// A command does not overwrite its inputs, and its outputs must be different files.
#[test]
fn no_output_replaces_an_input_or_another_output() {
    let case = case("no_output_replaces_an_input", 4);
    let fails = ["m.py", "--passes", "bad.Panics"];
    let (_, _, code) = case.run(&[&["run"][..], &fails, &["-o", "o.py", "--bundle", "b.bundle"]].concat(), b"");
    assert_eq!(code, 3);
    let files = ["m.py", "passes.toml", "passes.lock", "b.bundle"];
    let content = || files.map(|file| std::fs::read_to_string(case.path(file)).expect("a file"));
    let before = content();
    let search = |command: &'static str, output: &'static str| {
        [&[command][..], &fails, &["--until", "fails", "-o", output]].concat()
    };
    let run = |more: &[&'static str]| [&["run"][..], &fails, more].concat();
    for (args, why) in [
        (search("reduce", "m.py"), "m.py: is the input"),
        (search("reduce", "passes.toml"), "is the manifest"),
        (search("bisect", "m.py"), "m.py: is the input"),
        (search("bisect", "passes.lock"), "is the lockfile"),
        (run(&["--bundle", "m.py"]), "m.py: is the input"),
        (run(&["--report", "m.py"]), "m.py: is the input"),
        (run(&["--bundle", "x.py", "-o", "x.py"]), "x.py: is also the file of the result"),
        (run(&["--report", "x.json", "--trace", "x.json"]), "x.json: is also the trace"),
        (vec!["replay", "b.bundle", "-o", "b.bundle"], "b.bundle: is the bundle"),
        (vec!["replay", "b.bundle", "--report", "b.bundle"], "b.bundle: is the input"),
        (vec!["replay", "b.bundle", "--bundle", "passes.toml"], "is the manifest"),
    ] {
        let (_, said, code) = case.run(&args, b"");
        assert!(code == 2 && said.contains(why), "{args:?}: {code} {said}");
        assert_eq!(content(), before, "{args:?}");
    }
}

/// The plugin is locked to the bundle's entry, and isolated again.
#[test]
fn a_failure_in_a_worker_is_replayed() {
    let case = case("a_failure_in_a_worker_is_replayed", 3);
    for (pass, what) in [("bad.Panics", "panicked: the pass lost its way"), ("zoo.Ends{how=segv}", "killed by SIGSEGV")]
    {
        let run = ["run", "m.py", "-o", "o.py", "--isolate", "--passes", pass, "--bundle", "b.json"];
        let (_, said, code) = case.run(&run, b"");
        assert!(code == 3 && said.contains(what) && said.contains("wrote the bundle b.json"), "{pass}: {said}");
        let (_, said, code) = case.run(&["replay", "b.json", "-o", "o.py"], b"");
        assert!(code == 3 && said.contains(what), "{pass}: {said}");
        assert!(said.contains("this is the same failure as in the bundle"), "{pass}: {said}");
    }
}

#[test]
fn bundles_that_are_damaged() {
    let case = case("bundles_that_are_damaged", 3);
    let (_, said, code) = case.run(&["run", "m.py", "-o", "o.py", "--passes", "bad.Panics", "--bundle", "b.json"], b"");
    assert_eq!(code, 3, "{said}");
    let whole = std::fs::read_to_string(case.path("b.json")).expect("the bundle");
    let mut shown = String::new();
    for (what, text) in [
        ("half", whole.split_once("sources = ").expect("a locked plugin").0.to_string()),
        ("a module", chain(3)),
        ("another form", whole.replace("\"passhost_bundle\": 1", "\"passhost_bundle\": 9")),
        ("an unknown flag", whole.replace("\"flags\": []", "\"flags\": [\"faster\"]")),
        ("another module", whole.replace("R.subtract", "R.substract")),
        ("other plugins", whole.replace("sources = \\\"", "sources = \\\"0")),
    ] {
        assert_ne!(text, whole, "{what}");
        std::fs::write(case.path("d.json"), text).expect("a file");
        let (out, said, code) = case.run(&["replay", "d.json"], b"");
        assert!((1..=3).contains(&code) && out.is_empty(), "{what}: {code} {said}");
        let first = said.lines().next().unwrap_or_default();
        // The position of the end depends on the folder of the test.
        let first = first.split(" at line ").next().unwrap_or_default();
        shown.push_str(&format!("{what}: exit code {code}\n  {first}\n"));
    }
    case.golden(&shown);
}

#[test]
fn a_bundle_of_other_plugins_is_replayed_on_request() {
    let case = case("a_bundle_of_other_plugins", 3);
    let (_, said, code) = case.run(&["run", "m.py", "-o", "o.py", "--passes", "bad.Panics", "--bundle", "b.json"], b"");
    assert_eq!(code, 3, "{said}");
    let bundle = std::fs::read_to_string(case.path("b.json")).expect("the bundle");
    let manifest = std::fs::read_to_string(case.path("passes.toml")).expect("the manifest");
    // One plugin is no longer listed.
    let at = manifest.rfind("[[plugin]]").expect("an entry");
    let case = case.file("passes.toml", &manifest[..at]).file("b.json", bundle);
    let (_, said, code) = case.run(&["replay", "b.json"], b"");
    assert!(code == 2 && said.contains("--with-current-plugins"), "{code} {said}");
    let (_, said, code) = case.run(&["replay", "b.json", "--with-current-plugins"], b"");
    assert!(code == 3 && said.contains("the pass lost its way"), "{code} {said}");
}

/// Faults in a chain of passes: the predicate, the passes, and the pass and function to be found.
const FAULTS: &[(&str, &str, &str, &str)] = &[
    ("fails", "relax.Normalize,bad.Panics,relax.DeadCodeElimination", "bad.Panics", "first"),
    ("fails: to its taste", "relax.Normalize,bad.Fails", "bad.Fails", "main"),
    ("ill-formed", "relax.Normalize,bad.WrongType", "bad.WrongType", "first"),
    ("crashes", "relax.Normalize,zoo.Ends{how=segv}", "zoo.Ends{how=segv}", "main"),
    ("differs", "relax.Normalize,wrong.Subtraction,relax.LegalizeOps", "wrong.Subtraction", "main"),
    ("command: grep -q R.subtract", "relax.Normalize,wrong.Relu,relax.LegalizeOps", "relax.LegalizeOps", "main"),
];

#[test]
fn faults_are_found_in_their_pass_and_function() {
    let case = case("faults_are_found", 12);
    for (until, passes, pass, function) in FAULTS {
        let args = ["bisect", "m.py", "--passes", passes, "--until", until, "--json", "-o", "before.py"];
        let (out, said, code) = case.run(&args, b"");
        assert_eq!(code, 0, "{until}: {said}");
        let found: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(found["pass"], *pass, "{until}: {out}");
        assert_eq!(found["functions"], serde_json::json!([function]), "{until}: {out}");
        assert!(case.path("before.py").exists(), "{until}");
    }
}

/// Returns the reduced module of a case, which must be well-formed.
fn reduced(case: &Case, passes: &str, until: &str) -> String {
    let args = ["reduce", "m.py", "--passes", passes, "--until", until, "-o", "small.py"];
    let (_, said, code) = case.run(&args, b"");
    assert!(code == 0 && said.contains("before") && said.contains("now"), "{until}: {said}");
    let small = std::fs::read_to_string(case.path("small.py")).expect("the module");
    assert_eq!(case.run(&["run", "small.py", "--passes", ""], b"").2, 0, "{until}: {small}");
    assert!(small.lines().filter(|line| line.contains(" = R.")).count() <= 5, "{until}: {small}");
    assert!(!small.contains("T.prim_func"), "{until}: {small}");
    small
}

#[test]
fn modules_are_reduced() {
    let case = case("modules_are_reduced", 12);
    for (until, passes, pass, _) in FAULTS.iter().filter(|(until, ..)| !until.starts_with('c')) {
        let small = reduced(&case, passes, until);
        let (out, said, code) = case.run(&["bisect", "small.py", "--passes", passes, "--until", until, "--json"], b"");
        assert!(code == 0 && out.contains(&format!("\"pass\":{:?}", pass)), "{until}: {out} {said} {small}");
    }
    let small = reduced(&case, "relax.Normalize,relax.LegalizeOps", "command: ! grep -q subtract");
    assert!(small.contains("R.subtract(") && !small.contains("R.nn.relu("), "{small}");
}

#[test]
fn what_cannot_be_searched() {
    let case = case("what_cannot_be_searched", 4);
    let mut shown = String::new();
    for args in [
        &["reduce", "m.py", "--passes", "relax.Normalize", "--until", "fails"][..],
        &["reduce", "m.py", "--passes", "bad.Panics", "--until", "crashes"],
        &["reduce", "m.py", "--passes", "relax.Nromalize", "--until", "fails"],
        &["reduce", "m.py", "--passes", "", "--until", "command: ./not-there.sh"],
        &["reduce", "nothing.py", "--passes", "", "--until", "fails"],
        &["bisect", "m.py", "--passes", "relax.Normalize", "--until", "command: false"],
        &["bisect", "m.py", "--passes", "relax.Normalize", "--until", "command: true"],
        &["bisect", "m.py", "--passes", "relax.Normalize", "--until", "crahses"],
    ] {
        let (out, said, code) = case.run(args, b"");
        assert!(code != 0, "{args:?}: {out}");
        shown.push_str(&super::transcript(args, (out, said, code)));
        shown.push('\n');
    }
    case.golden(&shown);
}

/// The command fails every other time.
#[test]
fn predicates_that_are_not_the_same_each_time() {
    let case = case("predicates_that_differ", 4);
    let flip = "#!/bin/sh\nif [ -e flip ]; then rm flip; exit 1; else touch flip; exit 0; fi\n";
    let case = case.file("flip.sh", flip);
    std::fs::write(case.path("flip"), "").expect("a file");
    let (_, said, code) = case.run(&["reduce", "m.py", "--passes", "", "--until", "command: sh flip.sh"], b"");
    assert!(code == 1 && said.contains("is not deterministic"), "{code} {said}");
}

/// Tests a pass that occurs twice, a pass that hangs, and a fault in two functions.
#[test]
fn the_step_is_found_among_others_of_its_pass() {
    let case = case("the_step_is_found", 6);
    let bisect = |passes: &str, until: &str| {
        let args = ["bisect", "m.py", "--passes", passes, "--until", until, "--timeout", "3", "--json"];
        let (out, said, code) = case.run(&args, b"");
        assert_eq!(code, 0, "{until}: {said}");
        serde_json::from_str::<serde_json::Value>(&out).expect("JSON")
    };
    let twice = "bad.Rewrites{how=nothing},relax.Normalize,bad.Rewrites{how=operator,at=1}";
    let found = bisect(twice, "command: ! grep -q R.nn.rleu");
    assert_eq!((&found["step"], &found["pass"]), (&3.into(), &"bad.Rewrites{how=operator, at=1}".into()), "{found}");
    assert_eq!(found["rewrite"]["number"], 1, "both functions have the fault: {found}");
    let found = bisect("relax.Normalize,zoo.Ends{how=endless}", "hangs");
    assert_eq!((&found["step"], &found["pass"]), (&2.into(), &"zoo.Ends{how=endless}".into()), "{found}");
    assert_eq!(found["plugin"], "passhost-zoo", "{found}");
}

/// A command that hangs is ended, with all processes that it started. If the search is killed, it leaves neither the
/// command nor a folder behind.
#[cfg(target_os = "linux")]
#[test]
fn a_search_leaves_nothing_behind() {
    let case = case("a_search_leaves_nothing", 4);
    let search = |script: &str| {
        let until = format!("command: echo $$ > pid; {script}");
        let args = ["bisect", "m.py", "--passes", "relax.Normalize", "--timeout", "5", "--until", &until];
        let mut command = case.command(&args);
        command.env("TMPDIR", case.path("tmp"));
        command
    };
    std::fs::create_dir_all(case.path("tmp")).expect("a folder");
    let is_gone = || {
        let pid = std::fs::read_to_string(case.path("pid")).unwrap_or_default();
        !pid.trim().is_empty() && !std::path::Path::new("/proc").join(pid.trim()).exists()
    };
    let is_empty = || std::fs::read_dir(case.path("tmp")).expect("the folder").next().is_none();
    let soon = |holds: &dyn Fn() -> bool| {
        let begin = std::time::Instant::now();
        while !holds() && begin.elapsed() < std::time::Duration::from_secs(30) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(holds());
    };
    let (_, said, code) = case.finish(search("sleep 600; true"), b"");
    assert!(code == 1 && said.contains("it exceeded the time limit; see --timeout"), "{code} {said}");
    // The process that adopts an ended process may need a moment to collect its exit status.
    soon(&|| is_gone() && is_empty());
    std::fs::remove_file(case.path("pid")).expect("a file");
    let mut killed = search("sleep 600; true").spawn().expect("a search");
    soon(&|| case.path("pid").exists());
    killed.kill().and_then(|()| killed.wait()).expect("it is killed");
    soon(&|| is_gone() && is_empty());
}

/// `reduce` returns the empty module for a command that fails for every module, and warns with the reason.
#[test]
fn a_command_that_fails_for_each_module() {
    let case = case("a_command_that_fails_for_each_module", 3);
    let reduce = |command: &'static str| ["reduce", "m.py", "--passes", "", "--until", command, "-o", "small.py"];
    let (_, said, code) = case.run(&reduce("command: false"), b"");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning: the command also fails for a module without functions"), "{said}");
    let (_, said, code) = case.run(&reduce("command: ! grep -q R.subtract"), b"");
    assert!(code == 0 && !said.contains("warning"), "{said}");
    let (_, said, code) = case.run(&["bisect", "m.py", "--passes", "wrong.Subtraction", "--until", "fails"], b"");
    assert!(code == 1 && said.contains("values were not compared; --until differs does that"), "{code} {said}");
}
