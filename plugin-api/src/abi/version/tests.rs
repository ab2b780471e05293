//! Checks the fixed parts of an API version, with records and numbers as text.

mod contract;
mod forms;

use super::super::layout::{CONTRACTS, FINGERPRINT, fingerprint_of};
use super::*;
use contract::contract;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Fingerprints of the released minor versions, from 1.0 on, which never change. The plugin in `tests/evolution`
/// has the first fingerprint.
#[cfg(target_pointer_width = "64")]
const RELEASED: &[u64] = &[0x5810_9a20_4573_7621];

fn file() -> PathBuf {
    let (minor, _) = API_VERSION.rsplit_once('.').expect("three numbers");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api").join(format!("{minor}.txt"))
}

/// Writes a temporary file and renames it, so that readers see either the complete old file or the complete new
/// file.
fn write(file: &Path, text: &str) {
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file)).expect("can be written");
}

// Offsets of pointers depend on the platform.
#[cfg(target_pointer_width = "64")]
#[test]
fn the_contract_is_that_of_this_version() {
    let (file, found) = (file(), contract());
    let is_released = RELEASED.len() == CONTRACTS.len();
    if std::env::var_os("BLESS").is_some() && !is_released {
        write(&file, &found);
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let help = if is_released {
        "This version is released and does not change. Raise the minor number of API_VERSION, add the file of the new \
         version to CONTRACTS in abi/layout.rs, and write it with BLESS=1."
    } else {
        "This version is not released yet: write the file with BLESS=1."
    };
    assert!(written == found, "what crosses the boundary differs from {}.\n{help}", file.display());
}

#[cfg(target_pointer_width = "64")]
#[test]
fn released_versions_do_not_change() {
    let released: Vec<String> = RELEASED.iter().map(|fingerprint| format!("{fingerprint:016x}")).collect();
    let found: Vec<String> = FINGERPRINTS.iter().take(RELEASED.len()).map(|found| format!("{found:016x}")).collect();
    assert_eq!(found, released, "the files in tests/api and the records of released versions stay as they are");
}

/// Returns a line of an older contract that is missing from the newer contract.
fn broken<'a>(older: &'a str, newer: &str) -> Option<&'a str> {
    let newer: BTreeSet<&str> = newer.lines().collect();
    older.lines().find(|line| !newer.contains(line))
}

// Offsets of pointers depend on the platform.
#[cfg(target_pointer_width = "64")]
#[test]
fn each_version_keeps_what_the_ones_before_it_have() {
    let own = contract();
    for (minor, older) in CONTRACTS.iter().enumerate() {
        let line = broken(older, &own);
        assert_eq!(line, None, "plugins of 1.{minor} rely on this; a minor version only adds");
    }
    let added = format!("{own}kind.NEW: u16 = 0x121\ntag.NEW: u16 = 56\nrecord ServicesOf1_1: 176 bytes\n");
    assert_eq!(broken(&own, &added), None, "additions do not break older plugins");
    for line in ["record Services: 168 bytes", "kind.LET: u16 = 0x117", "type Entry.legalize:", "form event.0 = "] {
        let line = own.lines().find(|found| found.starts_with(line)).unwrap_or_else(|| panic!("`{line}` is there"));
        assert_eq!(broken(&own, &own.replace(line, &format!("{line}0"))), Some(line));
    }
}

/// A reused number would have a different meaning in older plugins.
#[test]
fn no_number_has_two_meanings() {
    let contract = contract();
    let mut meanings: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (name, value) in contract.lines().filter_map(|line| line.split_once(": ")) {
        let Some((group, _)) = name.split_once('.').filter(|_| !name.contains(' ')) else { continue };
        let value = value.rsplit(" = ").next().unwrap_or(value);
        let other = meanings.insert((group, value), name);
        assert_eq!(other, None, "{name} is {value}, too");
    }
    assert!(meanings.len() > 250, "the numbers are read");
}

/// Each case is a change that layouts do not show, but that changes the contract and therefore the fingerprint.
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

/// The compiled contract equals the file, and each minor version has one.
#[test]
fn plugins_of_this_version_have_its_fingerprint() {
    let own = Version::parse(API_VERSION).expect("a version");
    assert_eq!(CONTRACTS.len() as u64, own.minor + 1);
    if std::env::var_os("BLESS").is_some() {
        // The compiled contract is being replaced.
        return;
    }
    let text = std::fs::read_to_string(file()).expect("the contract");
    assert_eq!(fingerprint_of(&text), FINGERPRINT);
}

/// The API version is the crate version in which the API last changed.
#[test]
fn no_api_is_newer_than_the_crate() {
    let crate_version = Version::parse(env!("CARGO_PKG_VERSION")).expect("a version");
    let own = Version::parse(API_VERSION).expect("a version");
    assert!(own.major == crate_version.major && own <= crate_version, "API {own}, crate {crate_version}");
}

#[test]
fn the_side_to_upgrade_is_named() {
    let own = Version::parse(API_VERSION).expect("a version");
    for (minor, of_minor) in FINGERPRINTS.iter().enumerate() {
        assert_eq!(fingerprint(&Version::new(own.major, minor as u64, 7)), Ok(*of_minor));
    }
    let refused = |version: Version| {
        let error = fingerprint(&version).expect_err("refused");
        (error.to_string(), error.help())
    };
    let said = |version: &Version| format!("was built against plugin API {version}, but this host has {API_VERSION}");
    for version in [Version::new(0, 3, 0), Version::new(own.major - 1, 99, 0)] {
        assert_eq!(
            refused(version.clone()),
            (said(&version), "upgrade the plugin: rebuild it against the plugin API of this host")
        );
    }
    let newer = [(own.major, own.minor + 1), (own.major, u64::MAX), (own.major + 1, 0)];
    for version in newer.map(|(major, minor)| Version::new(major, minor, 0)) {
        assert_eq!(refused(version.clone()), (said(&version), "upgrade passhost, or use an older build of the plugin"));
    }
}
