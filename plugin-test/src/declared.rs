//! Passes that the sources declare, but the plugin does not export: the compiler finds nothing wrong with them.

use std::path::{Path, PathBuf};

/// A problem for each pass that `declare_pass!` declares in the sources of a crate, and that is not among `exported`.
pub(crate) fn missing(folder: &Path, exported: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    for path in sources(&folder.join("src")) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for name in declared(&text).into_iter().filter(|name| !exported.contains(name)) {
            let shown = path.strip_prefix(folder).unwrap_or(&path).display();
            problems.push(format!(
                "{shown} declares the pass `{name}`, but the plugin does not have it; add its constant to `passes` of \
                 `export_plugin!`"
            ));
        }
    }
    problems
}

/// Names in `function pass NAME = "acme.Name" {`, but for those in comments, which are examples.
fn declared(text: &str) -> Vec<&str> {
    let name = |line: &'_ str| -> Option<std::ops::Range<usize>> {
        let (before, rest) = line.split_once(" pass ")?;
        let granularity = before.split_whitespace().next_back()?;
        let is_pass = ["module", "function", "dataflow", "prim_func"].contains(&granularity);
        let (constant, name) =
            rest.split_once(" = \"").filter(|_| is_pass && !before.trim_start().starts_with("//"))?;
        let is_constant = constant.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let end = name.find('"').filter(|_| is_constant)?;
        let start = line.len() - name.len();
        Some(start..start + end)
    };
    text.lines().filter_map(|line| Some(&line[name(line)?])).collect()
}

/// Rust files in a folder and those below it, sorted.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_are_declared_and_not_exported_are_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(folder.path().join("src/late")).expect("a folder");
        let text = "declare_pass! {\n    /// Folds.\n    pub function pass FOLD = \"acme.Fold\" {\n    }\n}\n\
                    declare_pass! {\n    /// pub function pass DOC = \"acme.Doc\" {\n    dataflow pass LATE = \"acme.Late\" { run: late }\n}\n";
        std::fs::write(folder.path().join("src/late/mod.rs"), text).expect("a file");
        assert_eq!(declared(text), ["acme.Fold", "acme.Late"]);
        let expected = "src/late/mod.rs declares the pass `acme.Late`, but the plugin does not have it; add its constant to \
                        `passes` of `export_plugin!`";
        assert_eq!(missing(folder.path(), &["acme.Fold"]), [expected]);
    }
}
