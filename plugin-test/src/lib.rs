//! Runs the goldens of a plugin's passes through its built library, as the host loads it.
//!
//! A plugin has one file of cases for each pass, `tests/goldens/<stem>.txt`, named like the pass in snake case, and a
//! test of one line: `plugin_test::run_goldens(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_NAME"))`. A case is
//!
//! ```text
//! == what it shows
//! passes: relax.Normalize
//! -- before
//! (a module)
//! -- after
//! (the module that comes out, or with `-- unchanged` nothing: the same handle; with `-- error` the message)
//! ```
//!
//! Whole modules are compared, and every result must read back to itself. `BLESS=1 cargo test` rewrites the files.
#![forbid(unsafe_code)]

use passhost::{Engine, Manifest, Runner};
use plugin_api::ir::Module;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One case.
struct Case {
    title: String,
    passes: String,
    before: String,
    outcome: String,
}

/// Runs all goldens of the plugin in `folder` that is called `plugin`.
///
/// # Panics
/// If a golden differs, a pass has none, or a file belongs to no pass; with everything that is wrong.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn run_goldens(folder: &str, plugin: &str) {
    let problems = problems(Path::new(folder), plugin);
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

fn problems(folder: &Path, plugin: &str) -> Vec<String> {
    let engine = match engine(folder) {
        Ok(engine) => engine,
        Err(error) => return vec![error],
    };
    let registry = engine.registry();
    let own = registry.passes().filter(|(id, _)| registry.pass_owner(*id).name == plugin);
    let mut stems: BTreeMap<String, String> = own.map(|(_, info)| (stem(&info.name), info.name.clone())).collect();
    let mut problems = Vec::new();
    for path in files(&folder.join("tests/goldens")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stems.remove(&name).is_none() {
            problems.push(format!("{}: no pass of `{plugin}` has this name", path.display()));
        }
        problems.extend(file(&engine, &path));
    }
    problems.extend(stems.into_iter().map(|(stem, pass)| format!("pass `{pass}` has no goldens; write {stem}.txt")));
    problems
}

fn engine(folder: &Path) -> Result<Engine, String> {
    let manifest = folder.ancestors().map(|above| above.join("passes.toml")).find(|path| path.is_file());
    let manifest = manifest.ok_or_else(|| format!("no passes.toml in {} nor above it", folder.display()))?;
    let manifest = Manifest::load(&manifest).map_err(|error| error.to_string())?;
    Engine::new(&manifest).map_err(|error| error.to_string())
}

/// `relax.ToNonDataflow` → `to_non_dataflow`.
fn stem(pass: &str) -> String {
    let mut out = String::new();
    for c in plugin_api::names::short_name(pass).chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).collect();
    files.sort();
    files
}

fn file(engine: &Engine, path: &Path) -> Vec<String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return vec![format!("{}: {error}", path.display())],
    };
    let (mut problems, mut actual) = (Vec::new(), String::new());
    for case in cases(&text) {
        let outcome = run(engine, &case).unwrap_or_else(|problem| {
            problems.push(format!("{}: {}: {problem}", path.display(), case.title));
            case.outcome.clone()
        });
        let Case { title, passes, before, .. } = case;
        actual.push_str(&format!("== {title}\npasses: {passes}\n-- before\n{before}{outcome}"));
    }
    if actual == text {
        return problems;
    }
    if std::env::var_os("BLESS").is_some() {
        problems.extend(std::fs::write(path, actual).err().map(|error| format!("{}: {error}", path.display())));
    } else {
        let diff = similar::TextDiff::from_lines(&text, &actual).unified_diff().header("golden", "now").to_string();
        problems.push(format!("{} differs; BLESS=1 cargo test rewrites it\n{diff}", path.display()));
    }
    problems
}

fn cases(text: &str) -> Vec<Case> {
    let parts = text.split("== ").skip(1);
    let case = |part: &str| {
        let (title, rest) = part.split_once('\n')?;
        let (passes, rest) = rest.strip_prefix("passes: ")?.split_once('\n')?;
        let rest = rest.strip_prefix("-- before\n")?;
        let end = rest.find("-- ").unwrap_or(rest.len());
        let (before, outcome) = rest.split_at(end);
        Some(Case {
            title: title.to_string(),
            passes: passes.to_string(),
            before: before.to_string(),
            outcome: outcome.to_string(),
        })
    };
    parts.filter_map(case).collect()
}

/// The outcome section of a case, as it is now.
fn run(engine: &Engine, case: &Case) -> Result<String, String> {
    let read = |text: &str| script::read(text, engine).map_err(|error| format!("{error}"));
    let before = read(&case.before)?;
    let pipeline = Pipeline::parse(&case.passes).map_err(|error| error.to_string())?;
    let request = Request { pipeline, selections: Vec::new() };
    let plan = Plan::new(&request, engine.registry()).map_err(|error| error.to_string())?;
    let report = Runner::new(engine, BTreeMap::new()).run(&plan, before.clone()).map_err(|error| error.to_string())?;
    if let Some(error) = report.error {
        return Ok(format!("-- error\n{error}\n\n"));
    }
    if report.module.same(&before) {
        return Ok("-- unchanged\n\n".to_string());
    }
    let printed = script::print(&report.module, engine);
    reads_back(&report.module, &read(&printed)?)?;
    Ok(format!("-- after\n{printed}\n"))
}

fn reads_back(module: &Module, again: &Module) -> Result<(), String> {
    if module.structural_eq(again) { Ok(()) } else { Err("the result does not read back to itself".to_string()) }
}
