//! Tests that operators are found, explained and listed.

use super::*;

#[test]
fn operators_are_explained() {
    let case = Case::new("operators_are_explained").standard();
    let commands: &[&[&str]] = &[
        &["ops", "relax.max"],
        &["explain", "relax.max"],
        &["ops", "nn.conv2d"],
        &["ops", "R.call_packed"],
        &["ops", "relu", "--json"],
        &["ops", "alloc_tensor"],
        &["explain", "alloc_tensor"],
        &["ops", "relax.maxx"],
        &["explain", "relax.nn.rely"],
    ];
    case.says_with(commands, &[], without_files);
}

/// The list contains each operator with its call, as text and as JSON.
#[test]
fn operators_are_listed() {
    let case = Case::new("operators_are_listed").standard();
    let (list, said, code) = case.run(&["ops"], b"");
    assert_eq!((said.as_str(), code), ("", 0));
    let row = list.lines().find(|line| line.starts_with("relax.max ")).expect("a row");
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        cells,
        ["relax.max", "passhost-relax-ops", "R.max(x, axis=None, keepdims=False)", "The largest element over axes."]
    );
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert!(names.is_sorted() && names.len() > 200, "{list}");
    let (json, said, code) = case.run(&["ops", "--json"], b"");
    assert_eq!((said.as_str(), code), ("", 0));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let in_json: Vec<&str> = json.as_array().expect("a list").iter().filter_map(|op| op["operator"].as_str()).collect();
    assert_eq!(names, in_json);
}

/// A crate that is not built does not prevent operators of other plugins from being shown.
#[test]
fn operators_are_shown_beside_a_crate_that_is_not_built() {
    let case = Case::new("beside").standard();
    let listed = std::fs::read_to_string(case.path("passes.toml")).expect("a manifest");
    let own = "[package]\nname = \"own\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    let case = case.file("passes.toml", format!("[[plugin]]\ncrate = \"own\"\n{listed}"));
    std::fs::create_dir_all(case.path("own/src")).expect("a folder");
    let case = case.file("own/src/lib.rs", "//! Nothing.\n").file("own/Cargo.toml", own);
    for args in [&["ops", "relax.max"], &["explain", "relax.max"]] {
        let (found, said, code) = case.run(args, b"");
        assert_eq!(code, 0, "{said}");
        assert!(found.starts_with("relax.max (operator)\n"), "{found}");
        assert!(said.starts_with("warning: ") && said.contains("own") && said.contains("passhost build"), "{said}");
    }
    let (found, said, code) = case.run(&["ops", "relax.maxx"], b"");
    assert!(code != 0 && found.is_empty(), "{found}{said}");
    assert!(said.contains("passhost build") && said.contains("relax.maxx"), "{said}");
    let (found, _, code) = case.run(&["ops", "--locked"], b"");
    assert!(code != 0 && found.is_empty(), "{found}");
}

/// Removes paths of libraries, which differ between machines.
fn without_files(text: String) -> String {
    let line =
        |line: &str| if line.starts_with("file ") { "file       ...\n".to_string() } else { format!("{line}\n") };
    text.lines().map(line).collect()
}
