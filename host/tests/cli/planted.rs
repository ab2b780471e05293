//! Tests of planted faults: `bisect` finds the pass, function and rewrite, `reduce` shrinks the module, and `replay` reproduces the fault in
//! another folder.

use super::bad_plugins::example;
use super::searches::case_of;
use super::{Case, root};
use serde_json::{Value, json};

/// Returns functions with chains of operators. Every third operator is an `R.nn.relu`. In `second`, one operator has a different shape.
fn chains(length: usize) -> String {
    let chain = |name: &str, dim: usize| {
        let ty = format!("R.Tensor(({dim}, 6), dtype=\"float32\")");
        let binding = |at: usize| {
            let before = at.checked_sub(1).map_or("x".to_string(), |at| format!("lv{at}"));
            let value = match at % 3 {
                0 => format!("R.add({before}, y)"),
                1 => format!("R.nn.relu({before})"),
                _ => format!("R.multiply({before}, x)"),
            };
            format!("            lv{at}: {ty} = {value}\n")
        };
        let bindings: String = (0..length).map(binding).collect();
        format!(
            "    @R.function\n    def {name}(x: {ty}, y: {ty}) -> {ty}:\n        with R.dataflow():\n{bindings}            \
             gv: {ty} = R.subtract(lv{}, y)\n            R.output(gv)\n        return gv\n\n",
            length - 1
        )
    };
    format!("@I.ir_module\nclass Module:\n{}{}{}", chain("first", 4), chain("main", 4), chain("second", 5))
}

/// A fault: the predicate, and the pass with its options. Also contains the expected result of `bisect`: the function, and either the
/// rewrite with its place or the bindings.
struct Fault {
    until: &'static str,
    pass: String,
    function: &'static str,
    rewrite: Option<(usize, String)>,
    bindings: Option<Vec<String>>,
}

/// Returns faults of passes that rewrite each `R.nn.relu`, one of them wrongly.
fn in_rewrites(places: &[(&'static str, &'static str, usize)]) -> Vec<Fault> {
    let fault = |(until, how, at): &(&'static str, &'static str, usize)| {
        let name = format!("lv{}", 3 * (at - 1) + 1);
        let is_rewrite = *how != "panic";
        Fault {
            until,
            pass: format!("bad.Rewrites{{how={how}, at={at}}}"),
            function: "first",
            rewrite: is_rewrite.then(|| (*at, name.clone())),
            bindings: (!is_rewrite).then(Vec::new),
        }
    };
    places.iter().map(fault).collect()
}

/// Returns other faults.
fn others() -> Vec<Fault> {
    let fault = |until, pass: &str, function, rewrite: Option<(usize, &str)>, bindings: Option<&[&str]>| Fault {
        until,
        pass: pass.to_string(),
        function,
        rewrite: rewrite.map(|(at, name)| (at, name.to_string())),
        bindings: bindings.map(|names| names.iter().map(|name| (*name).to_string()).collect()),
    };
    vec![
        fault("fails: lost its way", "bad.Panics", "first", None, Some(&[])),
        fault("fails: to its taste", "bad.Fails", "first", None, None),
        fault("ill-formed", "bad.WrongType", "first", Some((1, "lv0")), None),
        fault("fails: was removed", "bad.UsesRemoved", "first", Some((1, "lv0")), None),
        fault("crashes", "zoo.Ends{how=segv}", "main", None, Some(&[])),
        fault("differs", "wrong.Subtraction", "first", Some((1, "gv")), None),
        fault("differs", "wrong.Relu", "first", Some((1, "lv1")), None),
    ]
}

fn case(name: &'static str, length: usize) -> Case {
    case_of(name, chains(length))
}

fn found(case: &Case, Fault { until, pass, .. }: &Fault, manifest: &str) -> Value {
    let passes = if manifest == "passes.toml" {
        format!("relax.Normalize,{pass},relax.DeadCodeElimination")
    } else {
        pass.clone()
    };
    let args = ["bisect", "m.py", "--manifest", manifest, "--passes", &passes, "--until", until, "--json"];
    let (out, said, code) = case.run(&[&args[..], &["--deny-unknown-operators"]].concat(), b"");
    assert_eq!(code, 0, "{pass}: {said}");
    serde_json::from_str(&out).expect("JSON")
}

/// Checks that `bisect` finds the planted fault.
fn is_found(case: &Case, fault: &Fault, manifest: &str) {
    let found = found(case, fault, manifest);
    let plain = |text: &str| text.replace([' ', '"'], "");
    assert_eq!(plain(found["pass"].as_str().unwrap_or_default()), plain(&fault.pass), "{found}");
    assert_eq!(found["functions"], json!([fault.function]), "{}: {found}", fault.pass);
    let rewrite = fault.rewrite.as_ref().map(|(number, at)| json!({ "number": number, "at": at }));
    assert_eq!(found["rewrite"], json!(rewrite), "{}: {found}", fault.pass);
    if let Some(bindings) = &fault.bindings {
        let names = found["bindings"].as_array().map_or(0, Vec::len);
        assert!(bindings.iter().all(|name| found["bindings"].to_string().contains(name)), "{found}");
        assert!(names <= 3, "{found}");
    }
}

#[test]
fn the_rewrite_is_found() {
    let case = case("the_rewrite_is_found", 24);
    for fault in in_rewrites(&[("ill-formed", "type", 7), ("differs", "value", 3)]) {
        is_found(&case, &fault, "passes.toml");
    }
    let run = ["run", "m.py", "--passes", "bad.Rewrites{how=type, at=7}", "--rewrites"];
    let (_, said, code) = case.run(&[&run[..], &["6"]].concat(), b"");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("rewrites applied: 6; the next one is at `lv19`"), "{said}");
    let (_, said, code) = case.run(&[&run[..], &["main=6"]].concat(), b"");
    assert!(code == 3 && said.contains("function `first`"), "{said}");
    let (_, said, code) = case.run(&[&run[..], &["main=some"]].concat(), b"");
    assert!(code == 2 && said.contains("`some` is not a number of rewrites"), "{said}");
}

/// Creates two lockfiles, each next to its manifest. Two of the three plugins changed, and one of these two now behaves
/// differently.
fn two_locks(case: &Case, how: &str) {
    let built = std::path::Path::new(env!("CARGO_BIN_EXE_passhost")).with_file_name("deps/libpasshost_misbehaves.so");
    let library = std::fs::read(built).expect("the library, which the workspace builds");
    let mark = b"the mark of bad: nothing";
    let at = library.windows(mark.len()).position(|bytes| bytes == mark).expect("the mark");
    for side in ["old", "new"] {
        std::fs::create_dir_all(case.path(side)).expect("a folder");
        let (mut bad, mut ends) = (library.clone(), std::fs::read(example("ends")).expect("the library"));
        if side == "new" {
            bad[at + 17..][..7].copy_from_slice(format!("{how:<7}").as_bytes());
            ends.extend(b"something at the end");
        }
        let ops = root().join("plugins/relax-ops").display().to_string();
        let manifest =
            format!("[[plugin]]\ncrate = \"{ops}\"\n[[plugin]]\npath = \"liba.so\"\n[[plugin]]\npath = \"libb.so\"\n");
        for (name, bytes) in [("liba.so", ends), ("libb.so", bad), ("passes.toml", manifest.into_bytes())] {
            std::fs::write(case.path(side).join(name), bytes).expect("a file");
        }
        let (_, said, code) = case.run(&["lock", "--manifest", &format!("{side}/passes.toml")], b"");
        assert_eq!(code, 0, "{said}");
    }
}

const BETWEEN: &[&str] = &["bisect", "m.py", "--between", "old/passes.lock", "new/passes.lock", "--json"];

#[test]
fn a_plugin_that_changed_between_two_locks() {
    let case = case("a_plugin_that_changed", 9);
    two_locks(&case, "value");
    for until in [&[][..], &["--until", "differs"]] {
        let (out, said, code) =
            case.run(&[BETWEEN, &["--passes", "bad.Rewrites{how=marked, at=2}"], until].concat(), b"");
        assert_eq!(code, 0, "{said}");
        let found: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(found["plugin"], "passhost-misbehaves", "{out}");
        assert!(out.contains("sha256"), "{out}");
    }
    let (_, said, code) = case.run(&[BETWEEN, &["--passes", "zoo.Idle"]].concat(), b"");
    assert!(code == 1 && said.contains("--until gives the same answer"), "{code} {said}");
    std::fs::write(case.path("old/libb.so"), "").expect("a file");
    let (_, said, code) = case.run(&[BETWEEN, &["--passes", "zoo.Idle"]].concat(), b"");
    assert!(code != 0 && said.contains("libb.so"), "{code} {said}");
}

/// Tests all twenty faults in modules of 300 or more bindings. Takes a minute: `cargo test -p passhost --test cli
/// twenty -- --ignored`.
#[test]
#[ignore = "takes a minute"]
fn twenty_planted_faults() {
    let case = case("twenty_planted_faults", 102);
    // A pass that is wrong from the seventh rewrite on needs seven rewrites.
    let mut faults = in_rewrites(&[
        ("ill-formed", "type", 1),
        ("ill-formed", "type", 7),
        ("ill-formed", "type", 4),
        ("differs", "value", 1),
        ("differs", "value", 2),
        ("differs", "value", 3),
        ("differs", "value", 5),
        ("fails", "operator", 1),
        ("fails", "operator", 2),
        ("fails", "operator", 4),
        ("fails", "panic", 2),
    ]);
    faults.push(Fault {
        until: "fails",
        pass: "bad.Rewrites{how=panic, dim=5}".to_string(),
        function: "second",
        rewrite: None,
        bindings: Some(Vec::new()),
    });
    faults.extend(others());
    let begin = std::time::Instant::now();
    let (mut small, mut replayed) = (0, 0);
    two_locks(&case, "value");
    let (out, said, _) = case.run(&[BETWEEN, &["--passes", "bad.Rewrites{how=marked, at=3}"]].concat(), b"");
    assert!(out.contains("passhost-misbehaves"), "{said}");
    let of_lock = in_rewrites(&[("differs", "marked", 3)]);
    let all = faults.iter().map(|fault| (fault, "passes.toml"));
    for (fault, manifest) in all.chain(of_lock.iter().map(|fault| (fault, "new/passes.toml"))) {
        is_found(&case, fault, manifest);
        let bindings = reduced(&case, fault, manifest);
        small += usize::from(bindings <= 5);
        replayed += usize::from(is_replayed(&case, fault, manifest));
        let seconds = begin.elapsed().as_secs();
        println!("{seconds} s: {} until {}: {bindings} bindings", fault.pass, fault.until);
    }
    println!("{} faults found, {small} reduced to at most 5 bindings, {replayed} replayed", faults.len() + 1);
    assert!(small >= 18 && replayed == faults.len() + 1);
}

/// Returns the number of bindings in the reduced module.
fn reduced(case: &Case, fault: &Fault, manifest: &str) -> usize {
    let args =
        ["reduce", "m.py", "--manifest", manifest, "--passes", &fault.pass, "--until", fault.until, "-o", "small.py"];
    let (_, said, code) = case.run(&[&args[..], &["--deny-unknown-operators"]].concat(), b"");
    assert_eq!(code, 0, "{}: {said}", fault.pass);
    let small = std::fs::read_to_string(case.path("small.py")).expect("the module");
    small.lines().filter(|line| line.contains(" = R.")).count()
}

/// Returns true if the bundle of a failure reproduces the failure in a new folder.
fn is_replayed(case: &Case, fault: &Fault, manifest: &str) -> bool {
    let validate: &[&str] = if fault.until == "differs" { &["--validate"] } else { &["--deny-unknown-operators"] };
    let run = ["run", "m.py", "-o", "o.py", "--manifest", manifest, "--passes", &fault.pass, "--bundle", "b.json"];
    let (_, said, code) = case.run(&[&run[..], validate].concat(), b"");
    assert!(code != 0, "{}: {said}", fault.pass);
    let other = Case::empty("a new folder");
    for (from, to) in
        [("b.json", "b.json"), (manifest, "passes.toml"), ("new/liba.so", "liba.so"), ("new/libb.so", "libb.so")]
    {
        std::fs::copy(case.path(from), other.path(to)).expect("a copy");
    }
    let (_, said, code) = other.run(&["replay", "b.json", "-o", "o.py"], b"");
    code != 0 && said.contains("this is the same failure as in the bundle")
}
