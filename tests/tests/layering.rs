//! Checks the dependencies of the architecture against `cargo metadata`, and the documents' statements about files.

use passhost_tests::root;
use plugin_api::scalar::{DType, DTypeInfo, Intrinsic, Math};
use proc_macro2::TokenTree;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::visit::{self, Visit};

/// Normal dependencies that each crate may have on crates of this workspace.
const ARROWS: &[(&str, &[&str])] = &[
    ("passhost-lang", &[]),
    ("passhost-schedule", &["passhost-lang"]),
    ("passhost-te", &["passhost-lang"]),
    ("passhost-plugin-api", &["passhost-lang", "passhost-schedule", "passhost-te"]),
    ("passhost-importer", &["passhost-plugin-api"]),
    ("passhost-registry", &["passhost-lang"]),
    ("passhost-runtime", &["passhost-lang"]),
    ("passhost-script", &["passhost-lang"]),
    ("passhost-native", &["passhost-lang", "passhost-runtime"]),
    (
        "passhost",
        &[
            "passhost-lang",
            "passhost-native",
            "passhost-plugin-api",
            "passhost-registry",
            "passhost-runtime",
            "passhost-script",
        ],
    ),
    ("passhost-plugin-test", &["passhost", "passhost-plugin-api", "passhost-registry", "passhost-script"]),
    ("passhost-embedding", &["passhost"]),
    ("passhost-python", &["passhost", "passhost-schedule", "passhost-te"]),
    (
        "passhost-tests",
        &[
            "passhost",
            "passhost-native",
            "passhost-plugin-api",
            "passhost-plugin-test",
            "passhost-registry",
            "passhost-runtime",
            "passhost-schedule",
            "passhost-script",
        ],
    ),
];

/// Permitted dependencies of crates under `plugins/`.
const PLUGIN: &[&str] = &["passhost-importer", "passhost-plugin-api"];

fn packages() -> BTreeMap<String, Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let args = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let output = Command::new(cargo).args(args).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let data: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let list = data["packages"].as_array().expect("packages").clone();
    list.into_iter().map(|package| (package["name"].as_str().expect("name").to_string(), package)).collect()
}

fn dependencies(package: &Value, kinds: &[Option<&str>]) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().expect("dependencies").iter();
    all.filter(|dep| kinds.contains(&dep["kind"].as_str()))
        .map(|dep| dep["rename"].as_str().or(dep["name"].as_str()).expect("name").to_string())
        .collect()
}

fn is_plugin(package: &Value) -> bool {
    let manifest = package["manifest_path"].as_str().expect("manifest_path");
    ["plugins", "tests/bad-plugins", "tests/toy-format"]
        .iter()
        .any(|folder| Path::new(manifest).starts_with(root().join(folder)))
}

#[test]
fn arrows_point_one_way() {
    let packages = packages();
    for (name, package) in &packages {
        let allowed: &[&str] = match ARROWS.iter().find(|(crate_name, _)| crate_name == name) {
            Some((_, allowed)) => allowed,
            None if is_plugin(package) => PLUGIN,
            None => panic!("`{name}` is not in the list of arrows; say where it is"),
        };
        for dep in dependencies(package, &[None]).iter().filter(|dep| packages.contains_key(*dep)) {
            assert!(allowed.contains(&dep.as_str()), "`{name}` must not depend on `{dep}`");
        }
    }
}

#[test]
fn plugins_have_one_dependency() {
    for (name, package) in packages().iter().filter(|(_, package)| is_plugin(package)) {
        let deps = dependencies(package, &[None]);
        let format = FORMATS.iter().filter(|(plugin, _)| plugin == name).flat_map(|(_, used)| *used).copied();
        let allowed: BTreeSet<String> = ["passhost-plugin-api"].into_iter().chain(format).map(String::from).collect();
        assert_eq!(deps, allowed, "normal dependencies of `{name}`");
    }
}

/// Plugins that read a file format, each with the library for readers of models, and the crates that decode the format, which are
/// maintained elsewhere.
const FORMATS: [(&str, &[&str]); 2] =
    [("passhost-onnx", &["passhost-importer", "prost"]), ("passhost-pt2", &["passhost-importer", "serde_json", "zip"])];

/// A dependency is linked if the sources name it. Tests of a plugin have other plugins as dev-dependencies, so that
/// cargo builds them, too.
#[test]
fn no_crate_links_two_plugins() {
    let packages = packages();
    for (name, package) in &packages {
        let manifest = Path::new(package["manifest_path"].as_str().expect("manifest_path"));
        let text = sources(manifest.parent().expect("a folder"));
        let is_linked = |dep: &&String| {
            let Some(plugin) = packages.get(*dep).filter(|dep| is_plugin(dep)) else { return false };
            let targets = plugin["targets"].as_array().expect("targets").iter();
            let mut libraries =
                targets.filter(|target| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"rlib".into())));
            libraries.any(|library| text.contains(&library["name"].as_str().expect("a name").replace('-', "_")))
        };
        let all = dependencies(package, &[None, Some("dev"), Some("build")]);
        let mut plugins: Vec<&String> = all.iter().filter(is_linked).collect();
        if is_plugin(package) {
            plugins.push(name);
        }
        assert!(plugins.len() <= 1, "`{name}` links several plugins: {plugins:?}");
    }
}

/// Authors copy passes, so passes use only visitors, patterns, edits and builders.
#[test]
fn passes_use_no_records() {
    for folder in ["relax-passes", "tir-passes", "template", "conv-grouping"] {
        let text = sources(&root().join("plugins").join(folder).join("src"));
        assert!(text.contains("declare_pass!"), "{folder} does not contain a pass");
        // The names of loop kinds are not kinds of records.
        let text = text.replace("loop_kind::", "");
        for raw in ["records", "kind::", "flag::", ".index()", ".raw()", "value_at("] {
            assert!(!text.contains(raw), "a pass of {folder} uses `{raw}`");
        }
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace manifest");
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("workspace dependencies");
    for line in section.lines().take_while(|line| !line.starts_with('[')) {
        let external = line.contains('=') && !line.starts_with('#') && !line.contains("path =");
        assert!(!external || line.contains(" # "), "no reason beside `{line}`");
    }
}

/// Returns all Rust text below a folder.
fn sources(folder: &Path) -> String {
    let mut out = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push_str(&std::fs::read_to_string(&path).expect("a source file"));
        }
    }
    out
}

/// Dependencies of which `programs_plugins_and_tests_share_one_build` compares only the features.
const ONLY_FEATURES: [&str; 5] = ["getrandom", "regex-automata", "regex-syntax", "serde", "syn_3"];

/// Returns the packages that crates depend on, with their features.
fn built_from(which: &[&str], edges: &str) -> BTreeSet<String> {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(["tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]", "-e", edges]).args(which);
    let output = command.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.trim_end_matches(" (*)").to_string()).filter(|line| !line.is_empty()).collect()
}

/// The README builds the program, tests build plugins, and the Python package is built after them. If these used
/// different features of a crate, each would rebuild that crate and all its dependents.
#[test]
fn programs_plugins_and_tests_share_one_build() {
    let all = built_from(&["--workspace"], "normal,build,dev");
    let own = built_from(&["-p", "template-plugin"], "normal,build,dev");
    let pairs = [
        ("passhost", &all),
        ("passhost-python", &all),
        ("passhost-tir-passes", &all),
        ("template-plugin", &all),
        ("template-plugin", &own),
    ];
    for (package, tested) in pairs {
        let alone = built_from(&["-p", package], "normal,build");
        let other: Vec<&String> = alone.difference(tested).collect();
        assert!(alone.len() > 30, "{alone:?}");
        assert!(
            other.is_empty(),
            "{package}: tests add features, which the host or plugin-api should ask for: {other:#?}"
        );
    }
}

#[test]
fn every_dependency_is_used() {
    let packages = packages();
    let lib = |package: &Value| {
        let kinds =
            |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"));
        let target = package["targets"].as_array()?.iter().find(kinds)?;
        target["name"].as_str().map(str::to_string)
    };
    let mut used = BTreeSet::new();
    for (name, package) in &packages {
        let manifest = Path::new(package["manifest_path"].as_str().expect("manifest_path"));
        let text = sources(manifest.parent().expect("the folder of a crate"));
        for dep in dependencies(package, &[None, Some("dev"), Some("build")]) {
            let lib = packages.get(&dep).and_then(lib).unwrap_or_else(|| dep.replace('-', "_"));
            let named = [format!("{lib}::"), format!("use {lib} as ")].iter().any(|name| text.contains(name));
            let is_used = named || ONLY_FEATURES.contains(&dep.as_str());
            // Tests of a plugin load the plugins that its manifest lists.
            let beside = manifest.with_file_name("passes.toml");
            let is_loaded = packages.get(&dep).is_some_and(is_plugin)
                && std::fs::read_to_string(beside).is_ok_and(|text| text.contains(dep.trim_start_matches("passhost-")));
            assert!(is_used || is_loaded, "`{name}` does not use its dependency `{dep}`");
            used.insert(dep);
        }
    }
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace manifest");
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("workspace dependencies");
    for line in section.lines().take_while(|line| !line.starts_with('[')) {
        let Some((dep, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else { continue };
        assert!(used.contains(dep) || packages.contains_key(dep), "no crate depends on `{dep}`");
    }
}

#[test]
fn architecture_names_files_that_exist_and_a_test_for_each_invariant() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut paths = 0;
    for word in text.split('`').skip(1).step_by(2) {
        let path_like = word.contains('/') && !word.contains([' ', '<', '{', '*', ':']) && !word.starts_with('-');
        if path_like {
            paths += 1;
            assert!(root().join(word).exists(), "ARCHITECTURE.md names `{word}`, which does not exist");
        }
    }
    assert!(paths >= 10, "the map names only {paths} paths");
    let invariants = text.split("## Invariants").nth(1).expect("a section of invariants");
    let invariants = invariants.split("\n## ").next().unwrap_or(invariants);
    let mut rows = 0;
    for line in invariants.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if cells == ["invariant", "test"] || line == "|---|---|" {
            continue;
        }
        let [_, test] = cells.as_slice() else { panic!("not an invariant and its test: {line}") };
        let test = test.strip_prefix('`').and_then(|test| test.strip_suffix('`')).unwrap_or_default();
        let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("no test in: {line}"));
        let source = std::fs::read_to_string(root().join(file)).unwrap_or_else(|_| panic!("no file `{file}`"));
        let keyword = if file.ends_with(".py") { "def" } else { "fn" };
        assert!(source.contains(&format!("{keyword} {name}(")), "no test `{name}` in `{file}`");
        rows += 1;
    }
    assert!(rows >= 80, "the map has only {rows} invariants");
}

/// Returns true if the documentation in a source has an example that rustdoc runs.
fn has_examples(source: &str) -> bool {
    let fence = |line: &str| {
        line.trim_start().strip_prefix("//")?.strip_prefix(['/', '!'])?.trim().strip_prefix("```").map(str::to_string)
    };
    let mut is_open = false;
    source.lines().filter_map(fence).any(|language| {
        is_open = !is_open && !language.starts_with('`');
        is_open && ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&&*language)
    })
}

/// Cargo compiles a target once more for its tests, and rustdoc reads a library for its examples, even if there are none. The
/// template is exempt, because its users write tests.
#[test]
fn targets_are_built_for_tests_where_they_have_some() {
    assert!(has_examples("/// ```\n/// f();\n/// ```\n") && has_examples("//! ```no_run\n"));
    assert!(!has_examples("/// ```relax before\n/// x\n/// ```\n/// ```text\n/// ```\n"));
    let mut wrong = Vec::new();
    for (name, package) in packages().iter().filter(|(name, _)| *name != "template-plugin") {
        for target in package["targets"].as_array().expect("targets") {
            let is = |kind: &str| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|own| own == kind));
            let file = Path::new(target["src_path"].as_str().expect("a path"));
            if !["lib", "rlib", "cdylib", "bin"].iter().any(|kind| is(kind)) {
                continue;
            }
            let source = match file.file_name().is_some_and(|file| file == "lib.rs") {
                true => sources(file.parent().expect("a folder")),
                false => std::fs::read_to_string(file).expect("a source"),
            };
            let has_tests = source.contains("#[test]") || source.contains("proptest!");
            if target["test"] != has_tests {
                wrong.push(format!("{name}, {}: `test` should be {has_tests}", target["name"]));
            }
            let has_examples = has_examples(&source) || source.contains("doc = include_str!");
            if (is("lib") || is("rlib")) && target["doctest"] != has_examples {
                wrong.push(format!("{name}, {}: `doctest` should be {has_examples}", target["name"]));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Maximum number of intrinsics or data types that an item outside of `lang/src/scalar` may name.
const MOST_NAMED: usize = 5;

/// Items that may name more, each with the reason.
const NAME_MORE: &[(&str, &str, &str)] = &[
    ("host/src/files/safetensors.rs", "DTYPES", "the names of a file format, which has only some of the types"),
    ("runtime/src/math.rs", "macro_rules", "the mathematics of each row that is the same for both widths"),
    (
        "plugins/onnx/src/tensors.rs",
        "dtype_of",
        "the numbers of ONNX, with types of 2 and 4 bits and messages for others",
    ),
    ("plugins/onnx/src/ops/elementwise.rs", "ROWS", "names of Relax operators, which can also be names of intrinsics"),
    ("plugins/pt2/src/ops/elementwise.rs", "ROWS", "names of Relax operators, which can also be names of intrinsics"),
    ("plugins/pt2/src/args.rs", "dtype_of", "the numbers of PyTorch, which has only some of the types"),
    ("plugins/pt2/src/promote.rs", "common", "PyTorch's rules for pairs of types"),
];

/// The names in an item: string literals, and paths of two segments.
#[derive(Default)]
struct Named {
    /// The items, each with the strings and paths that it contains.
    items: Vec<(String, BTreeSet<String>)>,
}

impl Named {
    fn item(&mut self, name: String, visit: impl FnOnce(&mut Named)) {
        let mut inner = Named { items: vec![(name, BTreeSet::new())] };
        visit(&mut inner);
        self.items.append(&mut inner.items);
    }

    fn add(&mut self, name: String) {
        if let Some((_, names)) = self.items.first_mut() {
            names.insert(name);
        }
    }

    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: Vec<String> = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Punct(mark) if mark.as_char() == ':' => continue,
                TokenTree::Literal(literal) => self.add(literal.to_string().trim_matches('"').to_string()),
                TokenTree::Punct(_) => path.clear(),
            }
            if let [.., of, name] = &path[..] {
                self.add(format!("{of}::{name}"));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.item(item.sig.ident.to_string(), |named| visit::visit_item_fn(named, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.item(item.sig.ident.to_string(), |named| visit::visit_impl_item_fn(named, item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.item(item.ident.to_string(), |named| visit::visit_item_const(named, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.item(item.ident.to_string(), |named| visit::visit_item_static(named, item));
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let path = item.mac.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.item(path, |named| visit::visit_item_macro(named, item));
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.tokens(mac.tokens.clone());
    }

    /// Skips documentation.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.add(text.value());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., of, name] = &segments[..] {
            self.add(format!("{of}::{name}"));
        }
        visit::visit_path(self, path);
    }
}

/// Returns the intrinsic that a string or path names.
fn intrinsic_of(name: &str) -> Option<&str> {
    let known = Intrinsic::find(name).map(|row| row.name);
    known.or_else(|| {
        name.strip_prefix("Math::").filter(|name| Math::ALL.iter().any(|math| format!("{math:?}") == *name))
    })
}

/// Returns the data type that a string or path names, such as `float32`, `DType::F32` or `Scalar::F32`.
fn dtype_of(name: &str) -> Option<String> {
    let short = |row: &DTypeInfo| row.short.replace("boolean", "bool").to_uppercase();
    let variant = name.strip_prefix("DType::").or_else(|| name.strip_prefix("Scalar::")).map(str::to_uppercase);
    let is_named =
        |row: &&DTypeInfo| row.name == name || variant.as_ref().is_some_and(|variant| *variant == short(row));
    DType::all().iter().find(is_named).map(|row| row.name.to_string())
}

/// Each fact about an intrinsic or a data type is in its row in `lang/src/scalar`, so adding one does not touch other lists.
#[test]
fn numbers_have_one_home() {
    let (mut used, mut wrong) = (BTreeSet::new(), Vec::new());
    for file in rust_files(root()) {
        let path = file.strip_prefix(root()).expect("a file of the workspace").to_string_lossy().into_owned();
        let in_tests = path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples" | "target"));
        if path.starts_with("lang/src/scalar/") || in_tests || path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a source file");
        let mut named = Named::default();
        named.visit_file(&syn::parse_file(&text).expect("Rust"));
        for (item, names) in named.items {
            let intrinsics: BTreeSet<&str> = names.iter().filter_map(|name| intrinsic_of(name)).collect();
            let dtypes: BTreeSet<String> = names.iter().filter_map(|name| dtype_of(name)).collect();
            if intrinsics.len().max(dtypes.len()) <= MOST_NAMED {
                continue;
            }
            let allowed = NAME_MORE.iter().find(|(file, of, _)| (*file, *of) == (&*path, &*item));
            if allowed.is_none() {
                wrong.push(format!("`{item}` in {path} lists {intrinsics:?} {dtypes:?}"));
            }
            used.insert((path.clone(), item));
        }
    }
    assert!(
        wrong.is_empty(),
        "look up rows of `lang/src/scalar` instead, or add the item to NAME_MORE with a reason:\n{}",
        wrong.join("\n")
    );
    for (file, item, _) in NAME_MORE {
        assert!(
            used.contains(&(file.to_string(), item.to_string())),
            "`{item}` in {file} no longer needs an exception"
        );
    }
}

/// Returns the Rust files of the workspace's crates.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.') || entry.file_name() == "target";
        if path.is_dir() && !hidden {
            out.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
    out
}
