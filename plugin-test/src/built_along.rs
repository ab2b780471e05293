//! Plugins that cargo built together with the test.
//!
//! A plugin of the manifest that is a dev-dependency by path has its library in the folder of the test's executable, with
//! the same flags and the same plugin API as the tested crate. So the host does not build it once more in a target folder
//! of its own.

use passhost::Manifest;
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

/// The folder in which cargo puts what a test needs.
pub(crate) fn folder_of_test() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_path_buf)
}

/// The folder and library of each dev-dependency by path that is a plugin and was built.
fn libraries(folder: &Path, built: &Path) -> Vec<(PathBuf, PathBuf)> {
    let Some(own) = cargo_toml(folder) else { return Vec::new() };
    let dependencies = own.get("dev-dependencies").and_then(toml::Value::as_table);
    let paths = dependencies.into_iter().flatten().filter_map(|(_, dependency)| dependency.get("path")?.as_str());
    let library = |path: &str| {
        let dependency = folder.join(path).canonicalize().ok()?;
        let library = built.join(file_name(&cargo_toml(&dependency)?)?);
        is_made_of(&library, &dependency, folder).then_some((dependency, library))
    };
    paths.filter_map(library).collect()
}

/// Whether a library is newer than its sources, and the crate in `dependency` is among them: in a target folder that several
/// checkouts share, it can be that of another one.
fn is_made_of(library: &Path, dependency: &Path, tested: &Path) -> bool {
    let time = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let stem = library.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let list = library.with_file_name(stem.trim_start_matches(std::env::consts::DLL_PREFIX)).with_extension("d");
    let (Some(built), Ok(text)) = (time(library), std::fs::read_to_string(list)) else { return false };
    // The first line has the sources after the library, and spaces in their names after a backslash.
    let sources = text.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, sources)| sources);
    let sources: Vec<String> = sources.replace("\\ ", "\0").split(' ').map(|path| path.replace('\0', " ")).collect();
    // Cargo names the sources of a member of a workspace from the root of that.
    let place = |source: &String| tested.ancestors().map(|above| above.join(source)).find(|path| path.is_file());
    let sources: Option<Vec<PathBuf>> = sources.iter().map(place).collect();
    sources.is_some_and(|sources| {
        let own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path.starts_with(dependency));
        sources.iter().any(own) && sources.iter().all(|path| time(path).is_some_and(|time| time <= built))
    })
}

/// `libmy_passes.so` of a crate with a dynamic library.
fn file_name(table: &toml::Table) -> Option<String> {
    let lib = table.get("lib")?;
    let kinds = lib.get("crate-type")?.as_array()?;
    kinds.iter().find(|kind| kind.as_str() == Some("cdylib"))?;
    let package = || table.get("package")?.get("name")?.as_str();
    let name = lib.get("name").and_then(toml::Value::as_str).or_else(package)?.replace('-', "_");
    Some(format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX))
}

fn cargo_toml(folder: &Path) -> Option<toml::Table> {
    std::fs::read_to_string(folder.join("Cargo.toml")).ok()?.parse().ok()
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
