//! Runs the goldens and doc examples of a plugin's passes, in-process and through the built library, and compares
//! the results.
//!
//! An author writes one test, `tests/goldens.rs`, with the name of the library of the crate:
//!
//! ```ignore
//! #[test]
//! fn goldens() {
//!     plugin_test::run!(my_passes);
//! }
//! ```
//!
//! `Cargo.toml` has this crate under `[dev-dependencies]`, and `crate-type = ["cdylib", "rlib"]` under `[lib]`: the
//! host loads the first, the test links the second. The nearest `passes.toml`, in the folder of the crate or above
//! it, lists the plugins: the crate itself, the operators, and the plugins that its passes require. `passhost new`
//! writes all of this.
//!
//! # Goldens
//!
//! Each pass, including composite ones, has one file of cases, `tests/goldens/<stem>.txt`, named like the pass in
//! snake case (`relax.ToNonDataflow`: `to_non_dataflow.txt`). A case is
//!
//! ```text
//! == what it shows
//! passes: relax.Normalize
//! -- before
//! (a module)
//! -- after
//! (the module that comes out)
//!
//! ```
//!
//! The last section is `-- unchanged` instead if the pass returns the same handle (an equal module that was built
//! again is shown as `-- after`), or `-- error` and the message if it fails. If a pass or instrument reports
//! diagnostics, they follow in a section `-- diagnostics`. Whole modules are compared, and every result must be
//! printed as a text that reads as the same module. `BLESS=1 cargo test` rewrites the sections after the module;
//! the difference is for you to review. `ONLY=to_non_dataflow cargo test` runs the cases and examples of that pass
//! alone, and `ONLY=a,b` those of two.
//!
//! Further lines between the title and the module are settings of the run. Keys with a star may be repeated.
//!
//! | line | meaning |
//! |---|---|
//! | `config: acme.limit=4` * | sets a config option, as `passhost run --config` does |
//! | `opt_level: 3` | sets the opt_level |
//! | `instrument: acme.Counter{every=2}` * | an instrument observes the run; its statistics, and those of the passes, follow in a section `-- statistics` |
//! | `requires: acme.no_dataflow` * | after the passes, the checker of this property runs on each function; the case ends with an error if it fails. Without `passes:`, it runs on the module of the case |
//! | `missed: all` | missed opportunities reported by passes follow in the section `-- diagnostics` |
//! | `statistics: all` | statistics of passes follow in a section `-- statistics` |
//!
//! Each instrument of the plugin needs a case with `instrument:`. Each property with a checker needs two with
//! `requires:`: one in which it holds, and one with an `-- error`. These cases can be in any file, including one
//! that is named like the instrument or property.
//!
//! # Doc examples
//!
//! The documentation of each pass, above its `declare_pass!`, has at least one pair of fenced examples:
//!
//! ````text
//! /// ```relax before
//! /// @R.function
//! /// def main(x: R.Tensor((2,), "float32")):
//! ///     return R.nn.relu(R.nn.relu(x))
//! /// ```
//! /// ```relax after
//! /// @R.function
//! /// def main(x: R.Tensor((2,), "float32")):
//! ///     return R.nn.relu(x)
//! /// ```
//! ````
//!
//! An example is a module, or functions of one. The pass runs on the first text with its default options, or with those in the
//! first line, such as `# options: {times=2}`. The printed result must equal the printed second text, so types and defaults may
//! be omitted, but names matter. The examples come from the metadata of the built library; `passhost explain` shows them.
//! # Declarations that are not exported
//!
//! A pass, composite pass, config option, property or instrument that the sources declare but `export_plugin!` does
//! not list is a problem, because the compiler accepts it, but pipelines cannot find it.
//!
//! # Two ways
//!
//! The cases run twice: with the passes, checkers and instruments of the plugin as functions of the test, for
//! debuggers and sanitizers, and through the library, as `passhost run` does it. Modules, errors, diagnostics and
//! statistics must be the same.
#![forbid(unsafe_code)]

mod built_along;
mod cases;
mod examples;
mod outcome;
#[cfg(test)]
mod tests;

use outcome::{Outcome, Setup};
use passhost::plugins::declared::{self, UnknownOperator};
use passhost::{Engine, Manifest, create_module_pass};
use plugin_api::declare::declarations::PluginDecl;
use plugin_api::metadata::PassInfo;
use registry::{PassId, Registry};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Runs all goldens and doc examples of the plugin that this test belongs to: `plugin_test::run!(my_passes)`, with
/// the name of its library, which has `export_plugin!` at its root.
#[macro_export]
macro_rules! run {
    ($plugin:path) => {{
        use $plugin as plugin;
        $crate::run(&plugin::__PASSHOST_PLUGIN, env!("CARGO_MANIFEST_DIR"))
    }};
}

/// Runs all goldens and doc examples of the plugin in `folder`; [`run!`] provides both arguments.
///
/// # Panics
/// Panics with all problems if a golden or an example differs, a pass, instrument or property has none, a file does
/// not belong to any, or the two ways differ.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn run(plugin: &'static PluginDecl, folder: &str) {
    let only = std::env::var("ONLY").ok();
    let problems = problems(Path::new(folder), plugin, only.as_deref());
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// A problem found by the test.
pub(crate) struct Problem {
    /// The case or example in which the problem occurs.
    pub(crate) place: Option<String>,
    pub(crate) text: String,
}

impl Problem {
    /// Creates a problem outside of cases.
    pub(crate) fn of(text: String) -> Problem {
        Problem { place: None, text }
    }
}

/// Formats problems. A problem that several cases share is shown once, with the places of the other cases.
fn shown(problems: Vec<Problem>) -> Vec<String> {
    let mut grouped: Vec<(String, Vec<String>)> = Vec::new();
    for Problem { place, text } in problems {
        match grouped.iter_mut().find(|(known, _)| *known == text) {
            Some((_, places)) => places.extend(place),
            None => grouped.push((text, place.into_iter().collect())),
        }
    }
    let one = |(text, places): (String, Vec<String>)| match places.split_first() {
        None => text,
        Some((first, [])) => format!("{first}: {text}"),
        Some((first, others)) => format!("{first}: {text}\nThe same in\n  {}", others.join("\n  ")),
    };
    grouped.into_iter().map(one).collect()
}

/// A plugin in both forms.
pub(crate) struct Tested {
    plugin: &'static PluginDecl,
    engine: Engine,
}

/// The instruments and properties that the cases use.
#[derive(Default)]
pub(crate) struct Used {
    instruments: BTreeSet<String>,
    /// Properties that were checked, each with true if it held.
    checked: BTreeSet<(String, bool)>,
}

impl Used {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.instruments.extend(outcome.instruments.iter().cloned());
        self.checked.extend(outcome.checked.iter().cloned());
    }

    /// Records the use by a case that could not run. The error is reported, so the case does not also count as missing.
    fn add_failed(&mut self, setup: &Setup, outcome: &str) {
        let name = |text: &String| text.split_once('{').map_or(text.as_str(), |(name, _)| name).trim().to_string();
        self.instruments.extend(setup.instruments.iter().map(name));
        let holds = !outcome.starts_with("-- error");
        self.checked.extend(setup.requires.iter().map(|property| (property.clone(), holds)));
    }
}

/// Returns the problems of the goldens and examples; if `only` lists names, of the files with these names.
fn problems(folder: &Path, plugin: &'static PluginDecl, only: Option<&str>) -> Vec<String> {
    let is_wanted = |stem: &str| only.is_none_or(|only| only.split(',').any(|one| one.trim() == stem));
    let engine = match engine(folder) {
        Ok(engine) => engine,
        Err(error) => return vec![error],
    };
    let tested = Tested { plugin, engine };
    let registry = tested.engine.registry();
    let own: Vec<_> = registry.passes().filter(|(id, _)| registry.pass_owner(*id).name == plugin.name).collect();
    let is_composite = |id: PassId| registry.members(id).is_some();
    if !own.iter().any(|(id, _)| !is_composite(*id)) {
        return vec![format!(
            "passes.toml does not list a plugin `{}` with passes; add `crate = \".\"` to it",
            plugin.name
        )];
    }
    let missing = unexported(&tested.engine, plugin, folder);
    let missing = missing.into_iter().chain(unknown_operators(&tested.engine, folder));
    let mut problems: Vec<Problem> = missing.map(Problem::of).collect();
    let mut stems: BTreeMap<String, &str> = BTreeMap::new();
    for (id, info) in own.into_iter().filter(|(_, info)| is_wanted(&stem(&info.name))) {
        stems.insert(stem(&info.name), &info.name);
        problems.extend(examples::check(&tested, info, is_composite(id)));
    }
    let others: BTreeSet<String> =
        instruments(registry, plugin).chain(properties(registry, plugin)).map(stem).collect();
    let (mut used, mut n_files) = (Used::default(), 0);
    for path in files(&folder.join("tests/goldens")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !is_wanted(&name) {
            continue;
        }
        n_files += 1;
        if stems.remove(&name).is_none() && !others.contains(&name) {
            let (path, plugin) = (path.display(), plugin.name);
            let text = format!("{path}: `{plugin}` does not have a pass, instrument or property of this name");
            problems.push(Problem::of(text));
        }
        problems.extend(cases::check(&tested, &path, &mut used));
    }
    let without =
        stems.into_iter().map(|(stem, pass)| format!("pass `{pass}` lacks goldens: write tests/goldens/{stem}.txt"));
    problems.extend(without.map(Problem::of));
    match only {
        None => problems.extend(unused(registry, plugin, &used).into_iter().map(Problem::of)),
        Some(only) if n_files == 0 => {
            problems.push(Problem::of(format!("ONLY={only}: no file in tests/goldens has this name")))
        }
        Some(_) => {}
    }
    shown(problems)
}

/// Returns a problem for each declaration in the sources that the plugin does not export.
fn unexported(engine: &Engine, plugin: &PluginDecl, folder: &Path) -> Vec<String> {
    let owner = engine.registry().owners().find(|(_, owner)| owner.name == plugin.name);
    let listed = owner.and_then(|(id, _)| engine.listed(id));
    let found = listed.map_or(Vec::new(), |listed| declared::unexported(folder, &listed.meta));
    found.iter().map(|found| format!("{found}; {}", found.remedy())).collect()
}

/// Returns a problem for each undeclared operator in a pattern or a call. Such a pattern never matches.
fn unknown_operators(engine: &Engine, folder: &Path) -> Vec<String> {
    let found = declared::unknown_operators(folder, engine.registry());
    found.iter().map(|found| format!("{found}; {}", UnknownOperator::REMEDY)).collect()
}

/// Returns the instruments of a plugin, by name.
fn instruments<'r>(registry: &'r Registry, plugin: &'r PluginDecl) -> impl Iterator<Item = &'r str> {
    let own =
        registry.instruments().filter(|(id, _)| registry.owner(registry.instrument_place(*id).0).name == plugin.name);
    own.map(|(_, info)| info.name.as_str())
}

/// Returns the properties of a plugin that have a checker, by name.
fn properties<'r>(registry: &'r Registry, plugin: &'r PluginDecl) -> impl Iterator<Item = &'r str> {
    let own = registry.properties().filter(|(info, owner)| info.checked && registry.owner(*owner).name == plugin.name);
    own.map(|(info, _)| info.name.as_str())
}

/// Returns a problem for each instrument and each checker that no case uses.
fn unused(registry: &Registry, plugin: &PluginDecl, used: &Used) -> Vec<String> {
    let case = |name: &str, line: &str| format!("write one in tests/goldens/{}.txt, with `{line}: {name}`", stem(name));
    let mut problems = Vec::new();
    for name in instruments(registry, plugin).filter(|name| !used.instruments.contains(*name)) {
        problems.push(format!("instrument `{name}` lacks a case; {}", case(name, "instrument")));
    }
    for name in properties(registry, plugin) {
        for (holds, what) in [(true, "holds"), (false, "does not hold")] {
            if !used.checked.contains(&(name.to_string(), holds)) {
                problems.push(format!("property `{name}` lacks a case in which it {what}; {}", case(name, "requires")));
            }
        }
    }
    problems
}

fn engine(folder: &Path) -> Result<Engine, String> {
    let manifest = folder.ancestors().map(|above| above.join("passes.toml")).find(|path| path.is_file());
    let manifest = manifest.ok_or_else(|| format!("no passes.toml in {} or above it", folder.display()))?;
    let mut manifest = Manifest::load(&manifest).map_err(|error| text(&error))?;
    if let Some(built) = built_along::folder_of_test() {
        built_along::use_libraries(&mut manifest, folder, &built);
    }
    let mut engine = Engine::new(&manifest).map_err(|error| text(&error))?;
    requirements(&mut engine).map_err(|error| text(&error))?;
    Ok(engine)
}

/// Adds a pass for each property that has a checker. It requires the property and does nothing, so that the host
/// calls the checker as for any pass.
fn requirements(engine: &mut Engine) -> Result<(), passhost::Error> {
    let checked = engine.registry().properties().filter(|(info, _)| info.checked);
    let names: Vec<String> = checked.map(|(info, _)| info.name.clone()).collect();
    for property in names {
        let mut info = PassInfo::new(&outcome::requirement(&property));
        info.contract.requires.push(property);
        engine.add_pass(create_module_pass(info, |module, _| Ok(module.clone())))?;
    }
    Ok(())
}

fn text(error: &passhost::Error) -> String {
    error.reports().iter().map(|report| report.render(false)).collect()
}

/// Converts `relax.ToNonDataflow` to `to_non_dataflow`.
fn stem(pass: &str) -> String {
    heck::ToSnakeCase::to_snake_case(plugin_api::names::short_name(pass))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).collect();
    files.sort();
    files
}

/// Returns the differences between two texts.
pub(crate) fn diff(expected: (&str, &str), found: (&str, &str)) -> String {
    let diff = similar::TextDiff::from_lines(expected.1, found.1);
    diff.unified_diff().header(expected.0, found.0).to_string()
}
