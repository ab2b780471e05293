//! Uses plugins that cargo built together with the test.
//!
//! A plugin of the manifest that is a dev-dependency by path has its library in the folder of the test's
//! executable, built with the same flags and the same plugin API as the tested crate. So the host need not build it
//! again in another target folder.

use passhost::Manifest;
use passhost::plugins::crates::library_in;
use passhost::plugins::manifest::Source;
use std::path::{Path, PathBuf};

/// Replaces the crates that are dev-dependencies of the crate in `folder` by their libraries in `built`.
pub(crate) fn use_libraries(manifest: &mut Manifest, folder: &Path, built: &Path) {
    let libraries = libraries(folder, built);
    for entry in &mut manifest.plugins {
        let Source::Crate(source) = &entry.source else { continue };
        let Ok(source) = source.canonicalize() else { continue };
        if let Some((_, library)) = libraries.iter().find(|(dependency, _)| *dependency == source) {
            entry.source = Source::Path(library.clone());
        }
    }
}

/// Returns the folder where cargo puts the dependencies of a test.
pub(crate) fn folder_of_test() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_path_buf)
}

/// Returns the folder and library of each dev-dependency by path that is a plugin and was built. In a target folder
/// shared by several checkouts, a library of another one is not used.
fn libraries(folder: &Path, built: &Path) -> Vec<(PathBuf, PathBuf)> {
    let own = std::fs::read_to_string(folder.join("Cargo.toml")).ok().and_then(|text| text.parse().ok());
    let own: toml::Table = own.unwrap_or_default();
    let dependencies = own.get("dev-dependencies").and_then(toml::Value::as_table);
    let paths = dependencies.into_iter().flatten().filter_map(|(_, dependency)| dependency.get("path")?.as_str());
    let library = |path: &str| {
        let dependency = folder.join(path).canonicalize().ok()?;
        Some((dependency.clone(), library_in(built, &dependency)?))
    };
    paths.filter_map(library).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dev_dependencies_that_were_built_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        for name in ["built", "not-built", "unlisted", "own"] {
            let text = format!("[package]\nname = \"{name}\"\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n");
            write(&format!("{name}/Cargo.toml"), &text);
        }
        let dependencies = "[dev-dependencies]\nbuilt = { path = \"../built\" }\nnot-built = { path = \"../not-built\" }\n\
                            serde = \"1\"\n";
        let own = std::fs::read_to_string(folder.path().join("own/Cargo.toml")).expect("a file");
        write("own/Cargo.toml", &(own + dependencies));
        let library = format!("deps/{}built{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        write("deps/built.d", &format!("libbuilt.so: {}\n", folder.path().join("built/src/lib.rs").display()));
        write("built/src/lib.rs", "");
        write(&library, "");
        let entry = |name: &str| format!("[[plugin]]\ncrate = \"{name}\"\n");
        let text = ["../built", "../not-built", "../unlisted", "."].map(entry).concat();
        let mut manifest = Manifest::parse(&folder.path().join("own/passes.toml"), &text).expect("a manifest");
        let before: Vec<Source> = manifest.plugins.iter().map(|entry| entry.source.clone()).collect();
        use_libraries(&mut manifest, &folder.path().join("own"), &folder.path().join("deps"));
        let after: Vec<Source> = manifest.plugins.iter().map(|entry| entry.source.clone()).collect();
        assert_eq!(after[0], Source::Path(folder.path().join(library)));
        assert_eq!(after[1..], before[1..]);
        // The library of another checkout.
        write("deps/built.d", &format!("libbuilt.so: {}\n", folder.path().join("unlisted/Cargo.toml").display()));
        assert_eq!(libraries(&folder.path().join("own"), &folder.path().join("deps")), []);
    }
}
