//! What the fuzz targets of `tests/fuzz` do with their input, and what must hold. It is here so that the workspace
//! compiles it and its tests run it over seeds and past findings: the targets themselves need a nightly compiler.

mod forge;
mod operators;
mod prim_funcs;
mod sections;
mod texts;

pub use forge::{Counts, Finding, Forge, Outcome};
pub use operators::SomeOps;
pub use prim_funcs::{PRIM_FUNCS, prim_funcs};
pub use sections::{bytes, mutate, seal};
pub use texts::{damaged, generated};

use passhost::Manifest;
use passhost::plugins::lock::{parse, write};
use plugin_api::ir::Module;
use plugin_api::metadata::PluginMeta;
use registry::Pipeline;
use script::ReadError;
use std::path::Path;

/// An error is said and drawn; its places must lie in the text.
fn complains(error: &passhost::Error) {
    assert!(!error.to_string().is_empty());
    for report in error.reports() {
        assert!(!report.render(false).is_empty());
    }
}

/// The metadata section of a plugin.
pub fn metadata(section: &[u8]) {
    match PluginMeta::decode(section) {
        // What it says is shown to users.
        Ok(meta) => drop(format!("{meta:?}")),
        Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
    }
}

/// A `passes.toml`, with the pipelines in it.
pub fn manifest(text: &str) {
    let path = Path::new("passes.toml");
    let (manifest, problems) = Manifest::parse_all(path, text);
    for pipeline in manifest.pipelines.values() {
        match Pipeline::parse(&pipeline.passes) {
            Ok(parsed) => {
                let text = parsed.to_string();
                // As texts: not every number is equal to itself.
                assert_eq!(Pipeline::parse(&text).map(|again| again.to_string()), Ok(text));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if let Some(error) = manifest.error(problems) {
        complains(&error);
    }
}

/// A `passes.lock`.
pub fn lockfile(text: &str) {
    let path = Path::new("passes.lock");
    match parse(path, text) {
        Ok(entries) => {
            let written = write(&entries);
            assert_eq!(parse(path, &written).expect("what is written can be read"), entries, "{written}");
        }
        Err(error) => complains(&error),
    }
}

/// A TVMScript module with a few operators, only read.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Result<Module, ReadError> {
    script::read(text, &SomeOps)
}

/// A TVMScript module with a few operators.
pub fn text(text: &str) {
    match read(text) {
        Ok(module) => {
            let printed = script::print(&module, &SomeOps).expect("everything in it has a text");
            let again = script::read(&printed, &SomeOps).unwrap_or_else(|error| panic!("{error}\n{printed}"));
            assert!(again.structural_eq(&module), "{printed}\n{}", crate::differing(&module, &again));
        }
        Err(error) => {
            let places = error.diagnostics.iter().map(|found| found.span.clone());
            assert!(
                !error.diagnostics.is_empty() && places.into_iter().all(|span| text.get(span).is_some()),
                "{error}"
            );
        }
    }
}
