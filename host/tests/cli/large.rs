//! Tests of unusually large plugins and manifests: each command takes linear time, and names can be arbitrarily long.

use super::Case;
use super::bad_plugins::example;
use inputs::{Kind, Much, manifest, module, undeclared, write_plugin};

#[path = "../../../tests/src/large.rs"]
#[allow(dead_code, unreachable_pub, reason = "a file of another crate")]
mod inputs;

/// Creates a case with a plugin that has `n` items of a kind.
fn case(name: &'static str, kind: Kind, n: usize, keys: &str) -> Case {
    let case = Case::new(name).file("undeclared.py", undeclared(n));
    let case = case.file("functions.py", module(Much::Functions, n)).file("symbols.py", module(Much::Symbols, n));
    write_plugin(&case.path("."), &example("many"), kind, n).expect("a plugin");
    if keys.is_empty() { case } else { case.file("passes.toml", manifest(keys, n)) }
}

fn run(case: &Case, args: &[&str]) -> (String, String, i32) {
    let mut command = case.command(args);
    command.env("ZOO_MANY", "many.block");
    case.finish(command, b"")
}

/// Returns the processor time in milliseconds, as reported by the shell.
fn on_processor(case: &Case, args: &[String]) -> f64 {
    let mut command = std::process::Command::new("bash");
    command.args(["-c", "\"$0\" \"$@\" >/dev/null 2>&1; times", env!("CARGO_BIN_EXE_passhost")]).args(args);
    command.current_dir(case.path(".")).env("ZOO_MANY", "many.block").env("XDG_CACHE_HOME", case.path("cache"));
    let times = command.output().expect("a shell runs");
    let text = String::from_utf8_lossy(&times.stdout).into_owned();
    // The format is `0m0.012s 0m0.004s`: first the times of the shell, then those of its children.
    let of_children = text.lines().last().unwrap_or_default().split_whitespace();
    let seconds = of_children.filter_map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    });
    seconds.sum::<f64>() * 1e3
}

/// Eight times as many items may take a little more than eight times as long; a quadratic command would take 64 times
/// as long. `cargo run --release -p passhost-tests --bin large` shows the figures.
#[test]
fn every_command_takes_time_in_proportion() {
    const FEW: usize = 3_000;
    const MANY: usize = 8 * FEW;
    const LAST: &str = "many.P2999";
    let rows: &[(Kind, &str, &[&str])] = &[
        (Kind::Passes, "", &["list"]),
        (Kind::Passes, "", &["run", "small.py", "-o", "out.py", "--passes", "all()"]),
        (Kind::Passes, "", &["run", "small.py", "-o", "out.py", "--passes", "many.Counts{n=N}", "--statistics"]),
        (Kind::Passes, "", &["run", "undeclared.py", "-o", "out.py", "--passes", "many.Counts"]),
        (Kind::Passes, "", &["run", "functions.py", "-o", "out.py", "--passes", "many.Counts"]),
        (Kind::Passes, "", &["run", "symbols.py", "-o", "out.py", "--passes", "many.Counts"]),
        (Kind::Chain, "", &["check"]),
        (Kind::Chain, "", &["plan", "--passes", LAST]),
        (Kind::Chain, "", &["run", "small.py", "-o", "out.py", "--passes", "all()"]),
        (Kind::Contracts, "", &["run", "small.py", "-o", "out.py", "--passes", "many.All"]),
        (Kind::Contracts, "", &["list"]),
        (Kind::Missing, "", &["check"]),
        (Kind::Nested, "", &["check"]),
        (Kind::Others, "unknown config keys", &["check"]),
        (Kind::Others, "config keys", &["plan", "--passes", "many.Counts"]),
        (Kind::Passes, "wrong pipelines", &["check"]),
        (Kind::Passes, "wrong lists", &["check"]),
        (Kind::Passes, "duplicate keys", &["check"]),
        (Kind::Passes, "unknown keys", &["check"]),
    ];
    for (kind, keys, args) in rows {
        let measured = |n: usize| {
            let case = case("proportion", *kind, n, keys);
            let last = format!("many.P{}", n - 1);
            let args: Vec<String> =
                args.iter().map(|arg| arg.replace(LAST, &last).replace("=N", &format!("={n}"))).collect();
            on_processor(&case, &args)
        };
        // On a busy machine even the ratio varies.
        let ratio = || measured(MANY) / measured(FEW).max(20.0);
        let found: Vec<f64> = (0..3).map(|_| ratio()).take_while(|ratio| *ratio > 20.0).collect();
        assert!(found.len() < 3, "{kind:?} {keys}: {args:?} took {found:.1?} times as long with eight times as much");
    }
}

/// The comparison of a manifest with its lockfile also takes linear time.
#[test]
fn lockfiles_take_time_in_proportion() {
    let measured = |n: usize| {
        let (mut manifest, mut lock) = (String::new(), "format = 1\n".to_string());
        let digest = "0".repeat(64);
        for i in 0..n {
            manifest += &format!("[[plugin]]\npath = \"lib{i}.so\"\n");
            lock += &format!(
                "[[plugin]]\napi = \"0.2.0\"\nfrom = \"path lib{i}.so\"\nname = \"p{i}\"\nversion = \"1.0.0\"\n\
                 [plugin.sha256]\nx = \"{digest}\"\n"
            );
        }
        let case = Case::new("lock_proportion").file("passes.toml", manifest).file("passes.lock", lock);
        let (_, stderr, code) = run(&case, &["list", "--locked"]);
        assert!(code == 3 && stderr.contains("lib0.so"), "{code}: {}", &stderr[..stderr.len().min(500)]);
        on_processor(&case, &["list".to_string(), "--locked".to_string()])
    };
    let found: Vec<f64> = (0..3).map(|_| measured(80_000) / measured(10_000)).take_while(|it| *it > 20.0).collect();
    assert!(found.len() < 3, "it took {found:.1?} times as long with eight times as much");
}

#[test]
fn of_many_errors_the_first_are_shown() {
    let n = 5_000;
    for (kind, keys, problems) in [
        (Kind::Passes, "wrong pipelines", n),
        (Kind::Passes, "wrong lists", n),
        (Kind::Passes, "unknown keys", n),
        (Kind::Missing, "", n),
        (Kind::Others, "unknown config keys", n),
        (Kind::Nested, "", 1),
    ] {
        let (_, stderr, code) = run(&case("many_errors", kind, n, keys), &["check"]);
        assert_eq!(code, 2, "{kind:?} {keys}: {stderr}");
        let end = format!("{problems} problem{} in passes.toml\n", if problems == 1 { "" } else { "s" });
        assert!(stderr.ends_with(&end), "{kind:?} {keys}: {}", &stderr[stderr.len().saturating_sub(300)..]);
        assert!(stderr.lines().count() < 400, "{kind:?} {keys}");
        assert!(problems == 1 || stderr.contains(&format!("... and {} more", problems - 20)), "{kind:?} {keys}");
    }
    let case = case("many_warnings", Kind::Passes, n, "");
    let (_, stderr, code) = run(&case, &["run", "undeclared.py", "-o", "out.py", "--passes", "many.Counts"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains(&format!("... and {} more warnings", n - 20)), "{stderr}");
}

#[test]
fn a_long_chain_is_run() {
    let n = 30_000;
    let (case, last) = (case("chain", Kind::Chain, n, ""), format!("many.P{}", n - 1));
    let (stdout, stderr, code) = run(&case, &["plan", "--passes", &last]);
    // The pipeline, the steps, and a note that there are many.
    assert_eq!((stdout.lines().count(), code), (n + 2, 0), "{stderr}");
    let (_, stderr, code) = run(&case, &["run", "small.py", "-o", "out.py", "--passes", &last]);
    let ran = stderr.lines().filter(|line| line.starts_with("many.P")).count();
    assert_eq!((ran, code), (n, 0), "{}", &stderr[..stderr.len().min(500)]);
    assert_eq!(run(&case, &["check"]).2, 0);
}

/// Tests names and descriptions that are longer than the maximum width to which the standard library can pad.
#[test]
fn names_and_texts_of_any_length() {
    let case = case("wide", Kind::Wide, 100_000, "");
    let name = format!("many.{}", "P".repeat(100_000));
    let commands: [&[&str]; 7] = [
        &["list"],
        &["config"],
        &["check"],
        &["explain", &name],
        &["explain", "many.Counts"],
        &["plan", "--passes", &name],
        &["run", "small.py", "-o", "out.py", "--passes", &name, "--statistics", "--timing"],
    ];
    for args in commands {
        let (stdout, stderr, code) = run(&case, args);
        let longest = stdout.lines().chain(stderr.lines()).map(|line| line.chars().count()).max().unwrap_or(0);
        // Commands that explain one item do not cut its text.
        let most = if args[0] == "explain" || args[0] == "plan" { usize::MAX } else { 3_000 };
        assert!(code == 0 && longest < most, "{:?}: {code}, {longest}\n{}", args[0], &stderr[..stderr.len().min(500)]);
        assert!(args[0] == "check" || (stdout + &stderr).contains('…'), "{}", args[0]);
    }
    let (stdout, stderr, code) = run(&case, &["plan", "--json", "--passes", &name]);
    assert!(code == 0 && stdout.contains(&name), "{}", &stderr[..stderr.len().min(500)]);
}
