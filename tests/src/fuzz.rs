//! The bodies of the fuzz targets in `tests/fuzz`, with their assertions. They are here so that the workspace compiles
//! them and its tests run them on seeds and past findings; the targets themselves need a nightly compiler.

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

/// Formats and renders an error, and checks that its positions are inside the text.
fn complains(error: &passhost::Error) {
    assert!(!error.to_string().is_empty());
    for report in error.reports() {
        assert!(!report.render(false).is_empty());
    }
}

/// Parses the metadata section of a plugin.
pub fn metadata(section: &[u8]) {
    match PluginMeta::decode(section) {
        // Parsed metadata is shown to users.
        Ok(meta) => drop(format!("{meta:?}")),
        Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
    }
}

/// Parses a `passes.toml`, with its pipelines.
pub fn manifest(text: &str) {
    let path = Path::new("passes.toml");
    let (manifest, problems) = Manifest::parse_all(path, text);
    for pipeline in manifest.pipelines.values() {
        match Pipeline::parse(&pipeline.passes) {
            Ok(parsed) => {
                let text = parsed.to_string();
                // Texts are compared, because NaN is not equal to itself.
                assert_eq!(Pipeline::parse(&text).map(|again| again.to_string()), Ok(text));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if let Some(error) = manifest.error(problems) {
        complains(&error);
    }
}

/// Parses a `passes.lock`.
pub fn lockfile(text: &str) {
    let path = Path::new("passes.lock");
    match parse(path, text) {
        Ok(entries) => {
            let written = write(&entries);
            assert_eq!(parse(path, &written).expect("the written text can be read"), entries, "{written}");
        }
        Err(error) => complains(&error),
    }
}

/// Parses a TVMScript module that uses a few operators.
///
/// # Errors
/// The error in the text.
pub fn read(text: &str) -> Result<Module, ReadError> {
    script::read(text, &SomeOps)
}

/// Parses, checks and prints a TVMScript module that uses a few operators.
pub fn text(text: &str) {
    match read(text) {
        Ok(module) => {
            let printed = script::print(&module, &SomeOps).expect("the module can be printed");
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
