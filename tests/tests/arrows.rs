//! Checks that folders within a crate depend on each other in one direction: each uses only folders that come before it
//! in the table in ARCHITECTURE.md. Also checks that files do not use each other in cycles.

use passhost_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// The path of a module or of an item from the root of its crate.
type ModPath = Vec<String>;

/// Folders without cycles between their files, including the files of their subfolders.
const WITHOUT_CIRCLES: [&str; 4] = ["host/src/cli", "host/src/run", "script/src/read", "python/src"];

/// The node of a folder's own file, such as `mod.rs`, among the nodes of its modules.
const OWN_FILE: &str = "mod.rs";

/// Maximum number of files in a source folder, so that a listing fits on a screen.
const MOST_FILES: usize = 15;

/// Returns the crates and their top-level modules, lowest first, from ARCHITECTURE.md.
fn orders() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = text.split("## Arrows between modules").nth(1).expect("a section on arrows between modules");
    let section = section.split("\n## ").next().unwrap_or(section);
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<String>>();
    let rows = section.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|');
        let (first, second) = (cells.next()?, cells.next()?);
        Some((names(first).into_iter().next()?.trim_end_matches('/').to_string(), names(second)))
    });
    rows.collect()
}

/// Returns the Rust files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
    out
}

/// Returns the path of the module in a file, such as `ir`, `make`.
fn module_of(src: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(src).expect("a file of the crate").with_extension("");
    let mut parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib" || last == "main") {
        parts.pop();
    }
    parts
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                let condition = list.tokens.to_string().replace(' ', "");
                condition == "test" || condition.starts_with("all(test")
            })
    })
}

/// The paths in a file that lead to its crate, except paths in tests.
#[derive(Default)]
struct Paths {
    module: ModPath,
    /// The modules of the crate.
    modules: BTreeSet<ModPath>,
    found: BTreeSet<ModPath>,
    /// The names that the file imports, each in its module, with their paths.
    imported: BTreeMap<ModPath, ModPath>,
}

impl Paths {
    /// Returns the paths of a file.
    fn of(file: &Path, module: ModPath, modules: &BTreeSet<ModPath>) -> Paths {
        let mut paths = Paths { module, modules: modules.clone(), ..Paths::default() };
        paths.visit_file(&parsed(file));
        paths
    }

    /// Returns a written path from the root of the crate; `None` if it leads to another crate or to a local name.
    fn absolute(&self, segments: &[String]) -> Option<ModPath> {
        let mut segments = segments.iter().cloned().peekable();
        let mut base = match segments.peek()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            first => {
                let child = [&self.module[..], &[first.to_string()]].concat();
                return (self.modules.contains(&child) && segments.len() > 1)
                    .then(|| self.module.iter().cloned().chain(segments).collect());
            }
        };
        segments.next_if(|segment| segment == "crate" || segment == "self");
        while segments.next_if(|segment| segment == "super").is_some() {
            base.pop();
        }
        base.extend(segments);
        Some(base)
    }

    /// Adds a written path.
    fn add(&mut self, segments: &[String]) {
        self.found.extend(self.absolute(segments));
    }

    fn tree(&mut self, start: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                start.push(path.ident.to_string());
                self.tree(start, &path.tree);
                start.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(start, item)),
            UseTree::Name(name) => self.leaf(start, name.ident.to_string(), None),
            UseTree::Rename(name) => self.leaf(start, name.ident.to_string(), Some(name.rename.to_string())),
            UseTree::Glob(_) => self.add(start),
        }
    }

    fn leaf(&mut self, start: &[String], name: String, renamed: Option<String>) {
        let mut path = start.to_vec();
        path.extend((name != "self").then_some(name));
        let Some(target) = self.absolute(&path) else { return };
        let name = [&self.module[..], renamed.or(path.pop()).as_slice()].concat();
        self.imported.insert(name, target.clone());
        self.found.insert(target);
    }

    /// Adds `crate :: a :: b` in a macro's tokens.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: Vec<String> = Vec::new();
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Group(group) => self.tokens(group.stream()),
                proc_macro2::TokenTree::Ident(name) if name == "crate" => path = vec![name.to_string()],
                proc_macro2::TokenTree::Ident(name) if !path.is_empty() => path.push(name.to_string()),
                proc_macro2::TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => {}
                _ => self.add_unless_bare(std::mem::take(&mut path)),
            }
        }
        self.add_unless_bare(path);
    }

    /// Adds a path in a macro's tokens, except the `crate` of `pub(crate)`.
    fn add_unless_bare(&mut self, path: Vec<String>) {
        if path.len() > 1 {
            self.add(&path);
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    /// Ignores the module in `pub(in crate::run)`.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<String>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        self.tokens(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }
}

fn parsed(file: &Path) -> syn::File {
    let text = std::fs::read_to_string(file).expect("a source file");
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the names re-exported at the root of a crate, with the module of each.
fn root_names(src: &Path) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for item in parsed(&src.join("lib.rs")).items {
        let Item::Use(item) = item else { continue };
        let UseTree::Path(path) = &item.tree else { continue };
        let mut paths = Paths::default();
        paths.tree(&mut vec!["crate".to_string()], &item.tree);
        let names = paths.found.iter().filter_map(|path| path.last());
        out.extend(names.map(|name| (name.clone(), path.ident.to_string())));
    }
    out
}

/// Returns the other names at the root of a crate: its macros, wherever they are defined, and other crates.
fn others(src: &Path) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for file in files(src) {
        for item in parsed(&file).items {
            match item {
                Item::Macro(item) => out.extend(item.ident.map(|name| name.to_string())),
                Item::Use(ItemUse { tree: UseTree::Name(name), .. }) => drop(out.insert(name.ident.to_string())),
                _ => {}
            }
        }
    }
    out
}

/// Returns the pairs of top-level modules of a crate in which one uses the other, with the first file that does so.
fn arrows(src: &Path, modules: &[String]) -> BTreeMap<(String, String), PathBuf> {
    let (names, others) = (root_names(src), others(src));
    let mut out = BTreeMap::new();
    for file in files(src) {
        let module = module_of(src, &file);
        let test = module.iter().any(|part| part == "tests");
        let Some(own) = module.first().cloned().filter(|own| !test && modules.contains(own)) else { continue };
        let paths = Paths::of(&file, module, &BTreeSet::new());
        for first in paths.found.iter().filter_map(|path| path.first()) {
            let used = if modules.contains(first) { Some(first) } else { names.get(first) };
            assert!(used.is_some() || others.contains(first), "{}: what is `crate::{first}`?", file.display());
            if let Some(used) = used.filter(|used| **used != own) {
                out.entry((own.clone(), used.clone())).or_insert_with(|| file.clone());
            }
        }
    }
    out
}

#[test]
fn folders_use_those_before_them() {
    let orders = orders();
    assert!(orders.len() >= 4, "the table of ARCHITECTURE.md has only {} crates", orders.len());
    for (name, order) in orders {
        let src = root().join(&name).join("src");
        let mut there: BTreeSet<String> =
            files(&src).iter().filter_map(|file| module_of(&src, file).into_iter().next()).collect();
        there.retain(|module| module != "tests");
        assert_eq!(there, order.iter().cloned().collect(), "top-level modules of {name}, and those of ARCHITECTURE.md");
        let place = |module: &String| order.iter().position(|other| other == module);
        let arrows = arrows(&src, &order);
        assert!(!arrows.is_empty(), "no module of {name} uses another one");
        for ((from, to), file) in arrows {
            assert!(place(&to) < place(&from), "{}: `{from}` must not use `{to}`", file.display());
        }
    }
}

/// The files of a crate as a graph.
struct Graph {
    /// The paths that each module uses.
    used: BTreeMap<ModPath, BTreeSet<ModPath>>,
}

impl Graph {
    /// Reads the files of a crate, without its tests. A path through an imported name counts as a path to its origin.
    fn of(src: &Path) -> Graph {
        let files = files(src).into_iter().map(|file| (module_of(src, &file), file));
        let files: Vec<_> = files.filter(|(module, _)| !module.iter().any(|part| part == "tests")).collect();
        let modules: BTreeSet<ModPath> = files.iter().map(|(module, _)| module.clone()).collect();
        let (mut used, mut imported) = (BTreeMap::new(), BTreeMap::new());
        for (module, file) in files {
            let paths = Paths::of(&file, module.clone(), &modules);
            imported.extend(paths.imported);
            used.insert(module, paths.found);
        }
        let origin = |mut path: ModPath| {
            // Each step follows one import; a longer chain would be a cycle of imports.
            for _ in 0..imported.len() {
                let found = (1..=path.len()).find_map(|n| Some((n, imported.get(&path[..n])?)));
                let Some((n, target)) = found.filter(|(n, target)| path[..*n] != target[..]) else { break };
                path = [&target[..], &path[n..]].concat();
            }
            path
        };
        for paths in used.values_mut() {
            *paths = std::mem::take(paths).into_iter().map(origin).collect();
        }
        Graph { used }
    }

    /// Returns the folders in a folder, and the folder itself.
    fn folders(&self, folder: &[String]) -> BTreeSet<&[String]> {
        let inside = self.used.keys().filter(|module| module.starts_with(folder));
        inside.flat_map(|module| (folder.len()..module.len()).map(|n| &module[..n])).collect()
    }

    /// Returns the part of a folder that contains a module: a module or folder in it, or its own file.
    fn part<'p>(folder: &[String], module: &'p [String]) -> Option<&'p str> {
        module.strip_prefix(folder).map(|rest| rest.first().map_or(OWN_FILE, String::as_str))
    }

    /// Returns the dependencies between the parts of a folder.
    fn arrows(&self, folder: &[String]) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut out: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, paths) in &self.used {
            let Some(own) = Graph::part(folder, module) else { continue };
            let modules = paths
                .iter()
                .filter_map(|path| (0..=path.len()).rev().find_map(|n| self.used.get_key_value(&path[..n])));
            let used = modules.filter_map(|(module, _)| Graph::part(folder, module));
            out.entry(own).or_default().extend(used.filter(|used| *used != own));
        }
        out
    }

    /// Returns the parts of a folder that are in cycles or between two cycles, each with the parts that it uses.
    fn circles(&self, folder: &[String]) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut arrows = self.arrows(folder);
        loop {
            let is_used = |part: &str| arrows.values().any(|used| used.contains(part));
            let outside = arrows.iter().find(|(part, used)| used.is_empty() || !is_used(part));
            let Some(part) = outside.map(|(part, _)| *part) else { return arrows };
            arrows.remove(part);
            for used in arrows.values_mut() {
                used.remove(part);
            }
        }
    }
}

#[test]
fn modules_of_a_folder_form_no_circle() {
    for room in WITHOUT_CIRCLES {
        let (name, inner) = room.split_once("/src").expect("a folder of a crate");
        let inner: ModPath = inner.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect();
        let graph = Graph::of(&root().join(name).join("src"));
        assert!(graph.arrows(&inner).values().any(|used| !used.is_empty()), "no module of {room} uses another one");
        let folders = graph.folders(&inner);
        assert!(folders.len() > 1, "{room} has no folders");
        for folder in folders {
            let circles = graph.circles(folder);
            assert!(circles.is_empty(), "{name}/src/{}: circles among {circles:?}", folder.join("/"));
        }
    }
}

#[test]
fn circles_are_found_through_imports_and_the_own_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let circles = || {
        let graph = Graph::of(folder.path());
        let text =
            |(part, used): (&str, BTreeSet<&str>)| format!("{part} {}", used.into_iter().collect::<Vec<_>>().join(" "));
        graph.folders(&[]).into_iter().flat_map(|folder| graph.circles(folder)).map(text).collect::<Vec<_>>()
    };
    write("lib.rs", "mod a; pub use a::high::run;");
    write("a/mod.rs", "pub mod high; mod low; pub use low::Low;");
    write("a/low.rs", "pub(in crate::a) struct Low;");
    write("a/high.rs", "use super::Low; pub fn run() -> Low { Low }");
    assert_eq!(circles(), [""; 0]);
    write("a/low.rs", "pub(super) struct Low; impl Low { fn f() { crate::run(); } }");
    assert_eq!(circles(), ["high low", "low high"], "through names that others import");
    write("a/low.rs", "pub(super) struct Low(super::Own);");
    write("a/mod.rs", "pub mod high; mod low; pub use low::Low; struct Own; fn f() { high::run(); }");
    assert_eq!(circles(), ["high low", "low mod.rs", "mod.rs high low"], "through the folder's own file");
    write("a/low.rs", "pub(super) struct Low; #[cfg(test)] mod tests { use super::super::Own; }");
    assert_eq!(circles(), [""; 0], "tests do not count");
}

#[test]
fn folders_fit_at_a_glance() {
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (name, _) in orders() {
        for file in files(&root().join(&name).join("src")) {
            *folders.entry(file.parent().expect("a folder").to_path_buf()).or_default() += 1;
        }
    }
    for (folder, files) in folders {
        assert!(files <= MOST_FILES, "{} has {files} files", folder.display());
    }
}
