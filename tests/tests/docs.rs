//! Checks that `docs/passes.md` matches the metadata of the standard plugins (`BLESS=1 cargo test` rewrites it), and
//! that the links of all documents are valid.
#![forbid(unsafe_code)]

use passhost_tests::{engine, root};
use plugin_api::metadata::{OptionInfo, PassInfo, Tolerance, doc_lines};
use registry::{Direction, Registry};
use std::fmt::Write;
use std::path::PathBuf;

fn list(out: &mut String, what: &str, items: impl IntoIterator<Item = String>) {
    let items: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    if !items.is_empty() {
        let _ = writeln!(out, "- {what}: {}", items.join(", "));
    }
}

fn entry(out: &mut String, plugin: &str, info: &PassInfo) {
    let _ = writeln!(out, "## {}\n", info.name);
    for line in info.doc_lines() {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\n- plugin: `{plugin}`\n- works on: {}\n- opt_level: {}", info.granularity, info.opt_level);
    list(out, "requires", info.required.iter().map(ToString::to_string));
    list(out, "needs", info.contract.requires.clone());
    list(out, "establishes", info.contract.establishes.clone());
    list(out, "preserves", info.contract.preserves.clone());
    list(out, "invalidates", info.contract.invalidates.clone());
    if info.tolerance != Tolerance::Exact {
        list(out, "tolerance", [info.tolerance.to_string()]);
    }
    options(out, &info.options);
    out.push('\n');
}

fn options(out: &mut String, options: &[OptionInfo]) {
    for option in options {
        let default = option.default.as_ref().map_or("must be given".to_string(), |value| format!("default `{value}`"));
        let doc = option.doc.trim().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let allowed = option.allowed.text().map_or(String::new(), |allowed| format!(" in `{allowed}`"));
        let _ = writeln!(out, "- option `{}` ({}{allowed}, {default}): {doc}", option.name, option.ty);
    }
}

fn doc(out: &mut String, name: &str, doc: &str) {
    let _ = writeln!(out, "## {name}\n");
    for line in doc_lines(doc) {
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
}

fn properties(registry: &Registry) -> String {
    let mut all: Vec<_> = registry.properties().collect();
    all.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut out = "# Properties\n\n".to_string();
    for (info, owner) in all {
        doc(&mut out, &info.name, &info.doc);
        let _ = writeln!(out, "- plugin: `{}`", registry.owner(owner).name);
        let _ = writeln!(out, "- checked: {}", if info.checked { "yes" } else { "no" });
        list(&mut out, "established by", registry.establishing(&info.name).map(|id| registry.pass(id).name.clone()));
        out.push('\n');
    }
    out
}

fn config_options(registry: &Registry) -> String {
    let mut all: Vec<_> = registry.config_options().collect();
    all.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut out = "# Config options\n\n".to_string();
    for (info, owner) in all {
        doc(&mut out, &info.name, &info.doc);
        let _ = writeln!(out, "- plugin: `{}`\n- type: {}", registry.owner(owner).name, info.ty);
        list(&mut out, "default", info.default.as_ref().map(ToString::to_string));
        list(&mut out, "range", info.allowed.text());
        out.push('\n');
    }
    out
}

/// Documents readers and writers; empty if there are none.
fn formats(registry: &Registry) -> String {
    let mut out = String::new();
    for direction in [Direction::Read, Direction::Write] {
        for (info, owner) in registry.formats(direction) {
            if out.is_empty() {
                out.push_str("# File formats\n\n");
            }
            doc(&mut out, &format!("{} ({direction})", info.name), &info.doc);
            let _ = writeln!(out, "- plugin: `{}`", registry.owner(owner).name);
            list(&mut out, "extensions", info.extensions.clone());
            list(&mut out, "example", Some(info.example.clone()).filter(|example| !example.is_empty()));
            options(&mut out, &info.options);
            out.push('\n');
        }
    }
    out
}

#[test]
fn passes_are_documented_as_their_metadata_says() {
    let engine = engine();
    let registry = engine.registry();
    let mut passes: Vec<_> = registry.passes().map(|(id, info)| (info, registry.pass_owner(id).name.clone())).collect();
    passes.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut text =
        "# Passes of the standard plugins\n\nGenerated from their metadata; `BLESS=1 cargo test` writes this file.\n\n"
            .to_string();
    for (id, info) in registry.passes() {
        let part_of = |member: &registry::Stage| registry.find_full(&member.name).is_some();
        assert!(registry.members(id).unwrap_or_default().iter().all(part_of), "a member of `{}` is missing", info.name);
    }
    for (info, plugin) in passes {
        assert!(info.doc.lines().count() >= 3, "the documentation of `{}` is too short", info.name);
        entry(&mut text, &plugin, info);
    }
    text.push_str(&properties(registry));
    text.push_str(&config_options(registry));
    text.push_str(&formats(registry));
    let text = format!("{}\n", text.trim_end());
    let path = root().join("docs/passes.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("docs/passes.md can be written");
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/passes.md does not match the metadata; BLESS=1 cargo test rewrites it");
}

#[test]
fn every_pass_and_operator_says_what_it_is() {
    let engine = engine();
    for (_, info) in engine.registry().passes() {
        assert!(!info.summary().is_empty(), "`{}` lacks documentation", info.name);
        for option in &info.options {
            assert!(!option.doc.trim().is_empty(), "option `{}` of `{}` lacks documentation", option.name, info.name);
        }
    }
    for (info, _) in engine.registry().operators() {
        assert!(!info.doc.trim().is_empty(), "operator `{}` lacks documentation", info.name);
    }
}

/// Returns the documents of the repository: the documents at its root, and the documents below `docs`.
fn documents() -> Vec<PathBuf> {
    let mut out = Vec::new();
    for folder in ["", ".github", "docs", "docs/decisions"] {
        let entries = std::fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
        out.extend(entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    out
}

/// Returns the anchor of a heading, as GitHub creates it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut links = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("a document");
        let folder = document.parent().expect("a folder");
        // Text between backquotes is code.
        let text = text.lines().flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect::<String>();
        let between = |start, end| text.split(start).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0));
        for link in between("](", ')').chain(between("src=\"", '"')).chain(between("srcset=\"", '"')) {
            if link.contains("://") {
                continue;
            }
            links += 1;
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if path.is_empty() { document.clone() } else { folder.join(path) };
            assert!(path.exists(), "{} links to `{link}`, which does not exist", document.display());
            let known = |text: String| text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
            let found = heading.is_empty() || std::fs::read_to_string(&path).is_ok_and(known);
            assert!(found, "{} links to `{link}`, which has no such heading", document.display());
        }
    }
    assert!(links >= 10, "only {links} links");
}

/// Code that authors copy from the API documentation uses builders and views. Only functions of `BodyBuilder` itself
/// may be low-level.
#[test]
fn examples_of_the_api_use_no_records() {
    let (mut folders, mut n_files) =
        (["lang/src", "schedule/src", "te/src", "plugin-api/src"].map(|src| root().join(src)).to_vec(), 0);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            n_files += 1;
            let is_doc = |line: &&str| line.trim_start().starts_with("//");
            for (at, line) in text.lines().enumerate().filter(|(_, line)| is_doc(line)) {
                let raw = ["use plugin_api::ir::records", "ir::records::prim,", "NodeSpec::new("];
                let shown = format!("{}:{}: {line}", path.display(), at + 1);
                assert!(!raw.iter().any(|raw| line.contains(raw)), "{shown}\nuse a builder, or `PrimOp`");
            }
        }
    }
    assert!(n_files > 80, "{n_files} files");
}
