//! What may change from one version of the API to the next, checked on the records and numbers as text.

use super::super::entry::{Entry, RunResult};
use super::super::layout::{Layout, RECORDS, records};
use super::super::module::{FuncEntry, ModuleHdr};
use super::super::services::{CtxRecord, DiagnosticRecord, LogRecord, RawBytes, Services, Sink, SpanRecord};
use super::super::view::{BodyHdr, RawSlice, RawView, TensorHdr};
use super::*;
use crate::ir::records::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Every record with the places of its fields, and every number that has a meaning on both sides, a line each.
fn contract() -> String {
    let mut text = format!("fingerprint = {RECORDS:016x}\n");
    macro_rules! list {
        ($($field:ident: $ty:ty),* $(,)?) => { $(record::<$ty>(&mut text, stringify!($ty));)* };
    }
    records!(list);
    // Later than the fingerprint, which covers what 0.1 had.
    record::<SpanRecord>(&mut text, "SpanRecord");
    constants(&mut text, include_str!("../../ir/records.rs"));
    constants(&mut text, include_str!("../wire.rs"));
    constants(&mut text, include_str!("../services.rs"));
    constants(&mut text, include_str!("../instrument.rs"));
    constants(&mut text, include_str!("../../meta.rs"));
    constants(&mut text, include_str!("../../pass.rs"));
    text
}

fn record<T: Layout>(text: &mut String, name: &str) {
    let size = if T::SIZE == 0 { "may grow".to_string() } else { format!("{} bytes", T::SIZE) };
    text.push_str(&format!("record {name}: {size}\n"));
    T::FIELDS.iter().for_each(|(field, at)| text.push_str(&format!("record {name}.{field} at {at}\n")));
}

/// The constants in modules of a source file, and the enums with numbers.
fn constants(text: &mut String, source: &str) {
    let mut within = "";
    for line in source.lines() {
        let opens = ["pub mod ", "mod ", "pub enum "].iter().find_map(|start| line.strip_prefix(start));
        if let Some(name) = opens.and_then(|rest| rest.strip_suffix(" {")) {
            within = name;
        } else if line == "}" {
            within = "";
        } else if let Some(rest) =
            ["    pub const ", "    pub(super) const "].iter().find_map(|start| line.strip_prefix(start))
            && !within.is_empty()
        {
            let (name, value) = rest.split_once(": ").expect("a constant has a type");
            text.push_str(&format!("{within}.{name}: {}\n", value.trim_end_matches(';')));
        } else if let Some((name, number)) = line.trim().split_once(" = ").filter(|_| !within.is_empty())
            && let Some(number) = number.strip_suffix(',').filter(|number| number.parse::<u32>().is_ok())
        {
            text.push_str(&format!("{within}.{name}: {number}\n"));
        }
    }
}

fn file(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/api").join(format!("{version}.txt"))
}

/// `0.2` of `0.2.0`.
fn minor(version: &str) -> &str {
    version.rsplit_once('.').expect("three numbers").0
}

/// What a newer version does that plugins of the older one would not survive.
fn breaks(older: &str, newer: &str) -> Vec<String> {
    let open = |text: &str, line: &str| {
        let name = line.strip_prefix("record ").and_then(|rest| rest.split(['.', ':']).next());
        name.is_some_and(|name| text.contains(&format!("record {name}: may grow\n")))
    };
    let mut found = Vec::new();
    let kept: Vec<&str> = newer.lines().collect();
    found.extend(older.lines().filter(|line| !kept.contains(line)).map(|line| format!("lost: {line}")));
    let was: Vec<&str> = older.lines().collect();
    for line in kept.iter().filter(|line| !was.contains(line) && line.starts_with("record ")) {
        let record = line.split(['.', ':']).next().unwrap_or(line);
        let is_new = !was.iter().any(|old| old.split(['.', ':']).next() == Some(record));
        if !is_new && !open(older, line) {
            found.push(format!("added to a record that cannot grow: {line}"));
        }
    }
    let mut numbers: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for line in kept.iter().filter(|line| !line.starts_with("record ")) {
        let Some((name, value)) = line.split_once(": ") else { continue };
        let module = name.split('.').next().unwrap_or(name);
        if let Some(other) = numbers.insert((module, value), name) {
            found.push(format!("one number for `{other}` and `{name}`: {value}"));
        }
    }
    found.extend(order(older, newer));
    found
}

/// Fields of records that may grow stand behind those that were there.
fn order(older: &str, newer: &str) -> Vec<String> {
    let last = |text: &str| -> BTreeMap<String, usize> {
        let place = |line: &str| {
            let (field, at) = line.strip_prefix("record ")?.split_once(" at ")?;
            Some((field.split('.').next()?.to_string(), at.parse().ok()?))
        };
        let mut last = BTreeMap::new();
        text.lines().filter_map(place).for_each(|(record, at): (String, usize)| {
            let end = last.entry(record).or_insert(0);
            *end = at.max(*end);
        });
        last
    };
    let ends = last(older);
    let was: Vec<&str> = older.lines().collect();
    let before = |line: &&str| {
        let Some((field, at)) = line.strip_prefix("record ").and_then(|rest| rest.split_once(" at ")) else {
            return false;
        };
        let end = field.split('.').next().and_then(|record| ends.get(record));
        !was.contains(line) && end.is_some_and(|end| at.parse::<usize>().is_ok_and(|at| at <= *end))
    };
    newer.lines().filter(before).map(|line| format!("stands before what was there: {line}")).collect()
}

// Places of pointers differ elsewhere.
#[cfg(target_pointer_width = "64")]
#[test]
fn the_contract_is_that_of_this_version() {
    let (file, found) = (file(minor(API_VERSION)), contract());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &found).expect("can be written");
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == found,
        "what crosses the boundary is not what {} says.\nIf this version was not released yet, BLESS=1 writes it. If it \
         was, raise API_VERSION, freeze what has grown in abi/evolution.rs, and BLESS=1 writes a new file.",
        file.display()
    );
}

#[test]
fn each_version_only_adds_to_the_one_before() {
    for pair in SERVED.windows(2) {
        let text = |served: &Served| {
            let file = file(&format!("0.{}", served.minor));
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        let found = breaks(&text(&pair[0]), &text(&pair[1]));
        assert!(found.is_empty(), "0.{} breaks plugins of 0.{}: {found:#?}", pair[1].minor, pair[0].minor);
    }
}

#[test]
fn the_last_version_is_this_one() {
    let own = Version::parse(API_VERSION).expect("a version");
    assert_eq!((own.major, own.minor), (0, SERVED.last().expect("there is one").minor));
    assert!(SERVED.windows(2).all(|pair| pair[0].minor + 1 == pair[1].minor));
}

#[test]
fn what_breaks_is_seen() {
    let older = "fingerprint = 1\nrecord A: 8 bytes\nrecord A.x at 0\nrecord A.y at 4\nrecord B: may grow\nrecord B.x at \
                 0\nkind.FUNC: u16 = 1\n";
    assert_eq!(breaks(older, older), [""; 0]);
    let added = format!("{older}record B.y at 8\nrecord C: may grow\nrecord C.x at 0\nkind.PARAM: u16 = 2\n");
    assert_eq!(breaks(older, &added), [""; 0]);
    let cases = [
        (older.replace("fingerprint = 1", "fingerprint = 2"), "lost: fingerprint = 1"),
        (older.replace("A.x at 0", "A.x at 8"), "lost: record A.x at 0"),
        (older.replace("kind.FUNC: u16 = 1", "kind.FUNC: u16 = 3"), "lost: kind.FUNC: u16 = 1"),
        (format!("{older}record A.z at 8\n"), "added to a record that cannot grow: record A.z at 8"),
        (format!("{older}record B.y at 0\n"), "stands before what was there: record B.y at 0"),
        (format!("{older}kind.PARAM: u16 = 1\n"), "one number for `kind.FUNC` and `kind.PARAM`: u16 = 1"),
    ];
    for (newer, message) in cases {
        assert!(breaks(older, &newer).iter().any(|found| found == message), "{message}: {:?}", breaks(older, &newer));
    }
}

#[test]
fn the_side_to_upgrade_is_told() {
    let check = |version: &str| check_api(&Version::parse(version).expect("a version"));
    for version in ["0.1.0", "0.1.9", "0.2.0", "0.2.7"] {
        assert_eq!(check(version), Ok(()), "{version}");
    }
    let help = |version| check(version).expect_err("refused").help();
    assert!(help("0.0.9").starts_with("upgrade the plugin"));
    for version in ["0.3.0", "1.0.0", "2.1.0"] {
        assert!(help(version).starts_with("upgrade passhost"), "{version}");
    }
}
