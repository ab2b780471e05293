//! What a version of the API fixes, checked on the records and numbers as text.

mod contract;
mod forms;

use super::super::layout::fingerprint_of;
use super::*;
use contract::contract;
use std::path::{Path, PathBuf};

fn file() -> PathBuf {
    let (minor, _) = API_VERSION.rsplit_once('.').expect("three numbers");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api").join(format!("{minor}.txt"))
}

/// Writes a file beside its place, so that a reader sees the old one or the new one whole.
fn write(file: &Path, text: &str) {
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file)).expect("can be written");
}

// Places of pointers differ elsewhere.
#[cfg(target_pointer_width = "64")]
#[test]
fn the_contract_is_that_of_this_version() {
    let (file, found) = (file(), contract());
    if std::env::var_os("BLESS").is_some() {
        write(&file, &found);
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == found,
        "what crosses the boundary differs from {}.\nIf this version is not released yet, write the file with BLESS=1. \
         If it is, raise API_VERSION, name the file of the new version in abi/layout.rs, and write it with BLESS=1.",
        file.display()
    );
}

/// Each of these changes the code in a way that no layout shows. The contract shows it, and so does the fingerprint.
#[cfg(target_pointer_width = "64")]
#[test]
fn what_no_layout_shows_changes_the_fingerprint() {
    let own = contract();
    let changed = |line: &str, new: &str| {
        let line = own.lines().find(|found| found.starts_with(line)).unwrap_or_else(|| panic!("`{line}` is there"));
        own.replace(&format!("{line}\n"), &format!("{new}\n"))
    };
    let fields = own.replace("form event.0 = ", "form event.00 = ").replace("form event.1 = ", "form event.0 = ");
    let cases = [
        ("a section in another slot", changed("section 1 operands", "section 4 operands: u32")),
        ("a section of other records", changed("section 4 ", "section 4 lists: u8")),
        ("a section more", format!("{own}section 16 more: u32\n")),
        ("a status", changed("entry.FAILED: u32 = 1", "entry.FAILED: u32 = 2")),
        ("an answer", changed("inferred.WRONG: u32 = 2", "inferred.WRONG: u32 = 3")),
        ("a variant", changed("Granularity.Module: 0", "Granularity.Module: 1")),
        ("a field of another type", changed("type NodeRec.a:", "type NodeRec.a: i32")),
        ("a function", changed("type Services.print:", "type Services.print: fn() -> u32")),
        ("bytes", changed("bytes error ", "bytes error = 00")),
        ("fields in another order", fields.replace("form event.00 = ", "form event.1 = ")),
    ];
    for (what, other) in cases {
        assert_ne!(other, own, "{what}");
        assert_ne!(fingerprint_of(&other), fingerprint_of(&own), "{what}");
    }
}

#[test]
fn plugins_of_this_version_have_its_fingerprint() {
    if std::env::var_os("BLESS").is_some() {
        // What the compiler read is being replaced.
        return;
    }
    let text = std::fs::read_to_string(file()).expect("the contract");
    assert_eq!(fingerprint_of(&text), FINGERPRINT);
}

#[test]
fn the_side_to_upgrade_is_named() {
    let own = Version::parse(API_VERSION).expect("a version");
    let with_minor = |minor| Version::new(own.major, minor, 7);
    assert_eq!(fingerprint(&with_minor(own.minor)), Ok(FINGERPRINT));
    let refused = |version: Version| {
        let error = fingerprint(&version).expect_err("refused");
        (error.to_string(), error.help())
    };
    let said = |version: &Version| format!("was built against plugin API {version}, but this host has {API_VERSION}");
    for version in [Version::new(0, 0, 9), with_minor(own.minor - 1)] {
        assert_eq!(
            refused(version.clone()),
            (said(&version), "upgrade the plugin: rebuild it against the plugin API of this host")
        );
    }
    for version in [with_minor(own.minor + 1), Version::new(1, 0, 0), Version::new(2, 1, 0)] {
        assert_eq!(refused(version.clone()), (said(&version), "upgrade passhost, or use an older build of the plugin"));
    }
}
