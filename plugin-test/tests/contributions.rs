//! Tests goldens that set config, run composite passes, and test properties and instruments. `BLESS=1` rewrites
//! those of `tests/goldens`.
#![forbid(unsafe_code)]

#[path = "../examples/contributes.rs"]
mod contributes;

use plugin_api::declare::contributions::{Contributions, InstrumentDecl, PropertyDecl};
use plugin_api::declare::declarations::PluginDecl;
use plugin_api::declare::instrument::PassInstrument;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const FILES: [&str; 4] = ["counter.txt", "fold.txt", "folded.txt", "tidy.txt"];

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

/// Returns the library of the example, built like this test.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let exe = std::env::current_exe().expect("the path of the test program");
        let folder = exe.ancestors().nth(2).expect("the folder of the profile");
        let is_release = folder.file_name().is_some_and(|name| name == "release");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--offline", "--quiet", "--example", "contributes", "-p", "passhost-plugin-test"]);
        cargo.args(is_release.then_some("--release")).current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.env("CARGO_TARGET_DIR", folder.parent().expect("a target folder"));
        assert!(cargo.status().expect("cargo runs").success(), "the example does not build");
        let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        folder.join("examples").join(format!("{prefix}contributes{suffix}"))
    })
}

/// Creates a folder with the plugin and its goldens, each changed by `change`, which is passed the name of the
/// file.
fn folder(change: impl Fn(&str, String) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").canonicalize().expect("the plugins");
    let entry = |name: &str| format!("[[plugin]]\ncrate = \"{}\"\n", plugins.join(name).display());
    let own = format!("[[plugin]]\npath = \"{}\"\n", library().display());
    let manifest = own + &["relax-ops", "relax-passes"].map(entry).concat();
    std::fs::write(folder.path().join("passes.toml"), manifest).expect("a manifest");
    let into = folder.path().join("tests/goldens");
    std::fs::create_dir_all(&into).expect("a folder");
    for file in FILES {
        let text = std::fs::read_to_string(goldens().join(file)).expect("a golden");
        std::fs::write(into.join(file), change(file, text)).expect("a golden");
    }
    folder
}

/// Returns the problems of the goldens of a folder; empty if there are none.
fn problems(plugin: &'static PluginDecl, folder: &Path) -> String {
    let path = folder.display().to_string();
    let result = catch_unwind(|| plugin_test::run(plugin, &path));
    result.map_or_else(|panic| *panic.downcast::<String>().expect("a text"), |()| String::new())
}

#[test]
fn everything_of_a_plugin_has_its_goldens() {
    let folder = folder(|_, text| text);
    assert_eq!(problems(&contributes::__PASSHOST_PLUGIN, folder.path()), "");
    if std::env::var_os("BLESS").is_some() {
        for file in FILES {
            std::fs::copy(folder.path().join("tests/goldens").join(file), goldens().join(file)).expect("a golden");
        }
    }
}

/// Removes the lines of some kind from a file.
fn without(text: &str, start: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with(start)).collect()
}

#[test]
fn what_no_case_uses_is_named() {
    let folder = folder(|file, text| match file {
        "counter.txt" => without(&text, "instrument:"),
        // Only one case remains, in which the property holds.
        "folded.txt" => text.split_inclusive("== ").take(2).collect::<String>().trim_end_matches("== ").to_string(),
        _ => text,
    });
    std::fs::remove_file(folder.path().join("tests/goldens/tidy.txt")).expect("it is there");
    let found = problems(&contributes::__PASSHOST_PLUGIN, folder.path());
    for expected in [
        "pass `example.Tidy` lacks goldens: write tests/goldens/tidy.txt",
        "instrument `example.Counter` lacks a case; write one in tests/goldens/counter.txt, with `instrument: \
         example.Counter`",
        "property `example.folded` lacks a case in which it does not hold; write one in tests/goldens/folded.txt, with \
         `requires: example.folded`",
    ] {
        assert!(found.contains(expected), "{found}");
    }
    assert!(!found.contains("in which it holds"), "{found}");
}

#[test]
fn settings_that_are_wrong_are_told() {
    let wrong = |from: &str, to: &str| {
        let folder = folder(|_, text| text.replacen(from, to, 1));
        problems(&contributes::__PASSHOST_PLUGIN, folder.path())
    };
    for (from, to, expected) in [
        ("config: example.fold.limit=1", "config: example.fold.limit", "`config: example.fold.limit` is not KEY=VALUE"),
        (
            "config: example.fold.limit=1",
            "config: example.fold.limits=1",
            "one call at most: `config: example.fold.limits=1`: unknown config option `example.fold.limits`; did you mean \
             `example.fold.limit`?",
        ),
        ("config: example.fold.limit=0", "config: example.fold.limit=-1", "which is not in 0.."),
        ("instrument: example.Counter\n", "instrument: example.Count\n", "example.Counter"),
        (
            "requires: example.folded",
            "requires: example.fold",
            "`requires: example.fold`: a property of this name with a checker is not declared",
        ),
    ] {
        let found = wrong(from, to);
        assert!(found.contains(expected), "{to}: {found}");
    }
}

/// Cases that cannot run are a problem, but do not count as missing.
#[test]
fn what_many_cases_have_is_reported_once_with_the_place_of_each() {
    let folder = folder(|_, text| {
        ["Fold", "Tidy"]
            .iter()
            .fold(text, |text, name| text.replace(&format!("passes: example.{name}"), "passes: example.Fld"))
    });
    let found = problems(&contributes::__PASSHOST_PLUGIN, folder.path());
    assert_eq!(found.matches("unknown pass `example.Fld`").count(), 1, "{found}");
    let place = |file: &str, line: usize, title: &str| {
        format!("{}:{line}: {title}", folder.path().join("tests/goldens").join(file).display())
    };
    assert!(found.starts_with(&place("counter.txt", 1, "all passes are counted")), "{found}");
    assert!(found.contains("\nThe same in\n  "), "{found}");
    assert!(found.contains("folded.txt:"), "{found}");
    assert!(!found.contains("lacks a case"), "{found}");
}

/// A plugin whose checker and instrument have no effect in this process.
static OTHER: PluginDecl = PluginDecl {
    more: Contributions { properties: &[&LENIENT], instruments: &[&QUIET], ..contributes::__PASSHOST_PLUGIN.more },
    ..contributes::__PASSHOST_PLUGIN
};

const LENIENT: PropertyDecl = PropertyDecl { check: Some(|_, _| Ok(())), ..contributes::FOLDED };
const QUIET: InstrumentDecl = InstrumentDecl { new: |_, _| Ok(Box::new(Quiet)), ..contributes::COUNTER };

struct Quiet;

impl PassInstrument for Quiet {}

#[test]
fn checkers_and_instruments_are_compared_both_ways() {
    let found = problems(&OTHER, folder(|_, text| text).path());
    for case in ["three calls", "a pass that stops too early", "all passes are counted", "a pass is refused"] {
        assert!(found.contains(&format!("{case}: the library and the in-process run differ")), "{case}: {found}");
    }
    assert_eq!(found.matches("the library and the in-process run differ").count(), 4, "{found}");
}
