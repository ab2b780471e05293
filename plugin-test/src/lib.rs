//! Runs the goldens and doc examples of a plugin's passes, in-process and through the built library, and compares.
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
//! host loads the first, the test links the second. The nearest `passes.toml`, in the folder of the crate or above it,
//! says which plugins there are: the crate itself, the operators, and what its passes require. `passhost new` writes
//! all of this.
//!
//! # Goldens
//!
//! Each pass has one file of cases, `tests/goldens/<stem>.txt`, named like the pass in snake case
//! (`relax.ToNonDataflow`: `to_non_dataflow.txt`). A case is
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
//! with, in place of the last section, `-- unchanged` if the pass gives back what it was given, or `-- error` and the
//! message if it fails. Whole modules are compared, and every result must read back to itself.
//! `BLESS=1 cargo test` rewrites the files; the difference is for you to review.
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
//! An example is a module, or functions of one. The pass runs with its default options over the first text; what comes
//! out must be, printed, what the second text is, printed: types and defaults may be left out, names count. The
//! examples come from the metadata of the built library; `passhost explain` shows them.
//!
//! # Passes that nobody exports
//!
//! A pass that is declared in the sources, but is not in the lists of `export_plugin!`, is a problem: the compiler says
//! nothing of it, and no pipeline finds it.
//!
//! # Two ways
//!
//! The cases run twice: the passes of the plugin as functions of the test, where a debugger and a sanitizer see
//! them, and through the library, as `passhost run` does it. Modules, errors and diagnostics must be the same.
#![forbid(unsafe_code)]

mod cases;
mod declared;
mod examples;
mod outcome;
#[cfg(test)]
mod tests;

use passhost::{Engine, Manifest};
use plugin_api::declare::declarations::PluginDecl;
use registry::{Pipeline, Plan, Request};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs all goldens and doc examples of the plugin that this test belongs to: `plugin_test::run!(my_passes)`, with the
/// name of its library, in which `export_plugin!` stands at the root.
#[macro_export]
macro_rules! run {
    ($plugin:path) => {{
        use $plugin as plugin;
        $crate::run(&plugin::__PASSHOST_PLUGIN, env!("CARGO_MANIFEST_DIR"))
    }};
}

/// Runs all goldens and doc examples of the plugin in `folder`; [`run!`] finds both.
///
/// # Panics
/// If a golden or an example differs, a pass has none, a file belongs to no pass, or the two ways differ; with
/// everything that is wrong.
#[allow(clippy::panic, reason = "this is how a test fails")]
pub fn run(plugin: &'static PluginDecl, folder: &str) {
    let problems = problems(Path::new(folder), plugin);
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// A plugin in both forms.
pub(crate) struct Tested {
    plugin: &'static PluginDecl,
    engine: Engine,
}

impl Tested {
    fn plan(&self, passes: &str) -> Result<Plan, String> {
        let pipeline = Pipeline::parse(passes).map_err(|error| error.to_string())?;
        let request = Request { pipeline, selections: Vec::new(), ..Request::default() };
        Plan::new(&request, self.engine.registry()).map_err(|error| error.to_string())
    }
}

fn problems(folder: &Path, plugin: &'static PluginDecl) -> Vec<String> {
    let engine = match engine(folder) {
        Ok(engine) => engine,
        Err(error) => return vec![error],
    };
    let tested = Tested { plugin, engine };
    let registry = tested.engine.registry();
    // Composite passes have no code.
    let is_own = |id| registry.pass_owner(id).name == plugin.name && registry.members(id).is_none();
    let own: Vec<_> = registry.passes().filter(|(id, _)| is_own(*id)).collect();
    if own.is_empty() {
        return vec![format!("passes.toml lists no plugin `{}` with passes; add `crate = \".\"` to it", plugin.name)];
    }
    let exported: Vec<&str> = own.iter().map(|(_, info)| info.name.as_str()).collect();
    let mut problems = declared::missing(folder, &exported);
    let mut stems: BTreeMap<String, &str> = BTreeMap::new();
    for (_, info) in own {
        stems.insert(stem(&info.name), &info.name);
        problems.extend(examples::check(&tested, info));
    }
    for path in files(&folder.join("tests/goldens")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stems.remove(&name).is_none() {
            problems.push(format!("{}: no pass of `{}` has this name", path.display(), plugin.name));
        }
        problems.extend(cases::check(&tested, &path));
    }
    problems.extend(
        stems.into_iter().map(|(stem, pass)| format!("pass `{pass}` has no goldens; write tests/goldens/{stem}.txt")),
    );
    problems
}

fn engine(folder: &Path) -> Result<Engine, String> {
    let manifest = folder.ancestors().map(|above| above.join("passes.toml")).find(|path| path.is_file());
    let manifest = manifest.ok_or_else(|| format!("no passes.toml in {} nor above it", folder.display()))?;
    let manifest = Manifest::load(&manifest).map_err(|error| text(&error))?;
    Engine::new(&manifest).map_err(|error| text(&error))
}

fn text(error: &passhost::Error) -> String {
    error.reports().iter().map(|report| report.render(false)).collect()
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

/// What differs between two texts.
pub(crate) fn diff(expected: (&str, &str), found: (&str, &str)) -> String {
    let diff = similar::TextDiff::from_lines(expected.1, found.1);
    diff.unified_diff().header(expected.0, found.0).to_string()
}
