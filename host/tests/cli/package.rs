//! Tests of `passhost package`: the content of a wheel, and what is refused.

use super::{Case, root};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

fn template() -> String {
    root().join("plugins/template").to_string_lossy().into_owned()
}

/// Returns a packaging command. It builds without optimization, which would take most of the time and is not tested.
fn package(case: &Case, args: &[&str]) -> Command {
    let mut command = case.command(args);
    for (setting, value) in [("OPT_LEVEL", "0"), ("LTO", "off"), ("CODEGEN_UNITS", "16")] {
        command.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    command
}

/// Returns the only wheel in a folder, and its files by name.
fn wheel(case: &Case, folder: &str) -> (PathBuf, BTreeMap<String, Vec<u8>>) {
    let found: Vec<PathBuf> =
        std::fs::read_dir(case.path(folder)).expect("the folder").flatten().map(|entry| entry.path()).collect();
    let [path] = found.as_slice() else { panic!("{found:?}") };
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).expect("the wheel")).expect("an archive");
    let mut files = BTreeMap::new();
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).expect("a file");
        let mut content = Vec::new();
        file.read_to_end(&mut content).expect("its content");
        files.insert(file.name().expect("a name").into_owned(), content);
    }
    (path.clone(), files)
}

#[test]
fn a_wheel_has_the_library_a_manifest_and_an_entry_point() {
    let case = Case::new("package");
    let (stdout, stderr, code) = case.finish(package(&case, &["package", &template()]), b"");
    assert_eq!(code, 0, "{stdout}{stderr}");
    let (path, files) = wheel(&case, "dist");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(
        name.starts_with("template_plugin-0.1.0-py3-none-manylinux_2_") && stdout.contains(&name),
        "{name} {stdout}"
    );
    let text = |name: &str| String::from_utf8(files[name].clone()).expect("a text");
    let info = "template_plugin-0.1.0.dist-info";
    assert_eq!(text(&format!("{info}/entry_points.txt")), "[passhost.plugins]\ntemplate-plugin = template_plugin\n");
    let record = text(&format!("{info}/RECORD"));
    assert_eq!(record.lines().count(), files.len());
    for (name, content) in files.iter().filter(|(name, _)| !name.ends_with("RECORD")) {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        assert!(record.contains(&format!("{name},sha256={hash},{}\n", content.len())), "{name}\n{record}");
    }
    // The manifest finds the files as pip would unpack them.
    for (name, content) in &files {
        let path = case.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }
    let (listed, stderr, code) = case.run(&["list", "--manifest", "template_plugin/passes.toml"], b"");
    assert!(code == 0 && listed.contains("template_plugin.FoldRepeated"), "{listed}{stderr}");

    let (stdout, stderr, code) = case.finish(package(&case, &["package", &template(), "-o", "again"]), b"");
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(std::fs::read(&path).expect("a wheel") == std::fs::read(wheel(&case, "again").0).expect("a wheel"));
}

#[test]
fn libraries_for_other_systems_are_of_the_same_crate() {
    let case = Case::new("package_systems");
    let library = case.path("libtemplate_plugin.so");
    let (stdout, stderr, code) = case.finish(package(&case, &["package", &template(), "-o", "one"]), b"");
    assert_eq!(code, 0, "{stdout}{stderr}");
    let (_, files) = wheel(&case, "one");
    let built = files.iter().find(|(name, _)| name.ends_with("libtemplate_plugin.so")).expect("the library").1;
    std::fs::write(library, built).expect("a file");
    let other = "aarch64-unknown-linux-gnu=libtemplate_plugin.so";
    let (stdout, stderr, code) =
        case.finish(package(&case, &["package", &template(), "-o", "both", "--library", other]), b"");
    assert_eq!(code, 0, "{stdout}{stderr}");
    let (path, files) = wheel(&case, "both");
    assert!(path.ends_with("template_plugin-0.1.0-py3-none-any.whl"), "{}", path.display());
    assert!(files.contains_key("template_plugin/aarch64-unknown-linux-gnu/libtemplate_plugin.so"));

    let case = case.file("text.so", "text");
    let conv = root().join("plugins/conv-grouping").to_string_lossy().into_owned();
    let twice = ["--library", other, "--library", other];
    let mut shown = String::new();
    for args in [
        &["package", &template(), "--library", "aarch64-apple-darwin=text.so"][..],
        &["package", &template(), "--library", "aarch64-apple-darwin=missing.so"],
        &["package", &template(), "--library", "missing.so"],
        &["package", &conv, "--library", other],
        &[&["package", &template()], &twice[..]].concat(),
        &["package", &template(), "--name", "1st"],
        &["package", &template(), "--name", "passhost"],
        &["package", "nowhere"],
        &["package", &template(), "-o", "small.py"],
    ] {
        shown += &case.shown(args, package(&case, args), b"");
    }
    case.golden(&shown.replace(&*root().to_string_lossy(), "$ROOT"));
}
