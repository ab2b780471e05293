//! Checks that folders within a crate depend on each other in one direction: each uses only folders that come before it
//! in the table in ARCHITECTURE.md.

use passhost_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree};

/// Folders whose modules do not use each other in a circle.
const WITHOUT_CIRCLES: [&str; 4] = ["host/src/cli", "host/src/run", "script/src/read", "script/src/read/tir"];

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

/// The paths in a file that begin at the crate, without those in tests.
struct Paths {
    module: Vec<String>,
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    /// Adds a written path. Paths that begin with neither `crate` nor `super` lead to other crates or into the same
    /// folder.
    fn add(&mut self, segments: &[String]) {
        let mut segments = segments.iter().cloned().peekable();
        let mut base = match segments.peek().map(String::as_str) {
            Some("crate") => {
                segments.next();
                Vec::new()
            }
            Some("super") => self.module.clone(),
            _ => return,
        };
        while segments.next_if(|segment| segment == "super").is_some() {
            base.pop();
        }
        base.extend(segments);
        self.found.insert(base);
    }

    fn tree(&mut self, start: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                start.push(path.ident.to_string());
                self.tree(start, &path.tree);
                start.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(start, item)),
            UseTree::Name(name) => self.leaf(start, name.ident.to_string()),
            UseTree::Rename(name) => self.leaf(start, name.ident.to_string()),
            UseTree::Glob(_) => self.add(start),
        }
    }

    fn leaf(&mut self, start: &[String], name: String) {
        let mut path = start.to_vec();
        path.extend((name != "self").then_some(name));
        self.add(&path);
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
                _ => {
                    self.add(&path);
                    path.clear();
                }
            }
        }
        self.add(&path);
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
        let mut paths = Paths { module: Vec::new(), found: BTreeSet::new() };
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
        let mut paths = Paths { module, found: BTreeSet::new() };
        paths.visit_file(&parsed(&file));
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

/// Returns which modules directly in a folder use which.
fn arrows_inside(src: &Path, folder: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let files = files(src).into_iter().map(|file| (module_of(src, &file), file));
    let inside = |module: &[String]| module.strip_prefix(folder).and_then(|rest| rest.first().cloned());
    let files: Vec<_> = files.filter(|(module, _)| !module.iter().any(|part| part == "tests")).collect();
    let modules: BTreeSet<String> = files.iter().filter_map(|(module, _)| inside(module)).collect();
    let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, file) in files {
        let Some(own) = inside(&module) else { continue };
        let mut paths = Paths { module, found: BTreeSet::new() };
        paths.visit_file(&parsed(&file));
        let used = paths.found.iter().filter_map(|path| inside(path));
        let used: BTreeSet<String> = used.filter(|used| *used != own && modules.contains(used)).collect();
        out.entry(own).or_default().extend(used);
    }
    out
}

#[test]
fn modules_of_a_folder_form_no_circle() {
    for folder in WITHOUT_CIRCLES {
        let (name, inner) = folder.split_once("/src/").expect("a folder of a crate");
        let inner: Vec<String> = inner.split('/').map(str::to_string).collect();
        let mut arrows = arrows_inside(&root().join(name).join("src"), &inner);
        assert!(arrows.values().any(|used| !used.is_empty()), "no module of {folder} uses another one");
        // Modules that do not use any of the remaining modules are not in a circle.
        while let Some(last) = arrows.iter().find(|(_, used)| used.is_empty()).map(|(module, _)| module.clone()) {
            arrows.remove(&last);
            for used in arrows.values_mut() {
                used.remove(&last);
            }
        }
        assert!(arrows.is_empty(), "{folder}: circles among {arrows:?}");
    }
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
