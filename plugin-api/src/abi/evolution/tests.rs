//! What may change from one version of the API to the next, checked on the records and numbers as text.

mod contract;
mod forms;

use super::super::layout::fingerprint_of;
use super::*;
use contract::contract;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Versions that were released, with a hash of their contract: history does not change.
const FROZEN: [(&str, &str); 1] = [("0.1", "24000a3a9444150e")];

fn file(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/api").join(format!("{version}.txt"))
}

/// Writes a file beside its place, so that who reads it meanwhile sees the old one or the new one whole.
fn write(file: &Path, text: &str) {
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file)).expect("can be written");
}

/// `0.2` of `0.2.0`.
fn minor(version: &str) -> &str {
    version.rsplit_once('.').expect("three numbers").0
}

/// The contract of a version: its file, and what the version had that its file, which is frozen, does not say.
fn text_of(version: &str) -> String {
    let read = |version: &str| {
        let file = file(version);
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    let also = format!("{version}-also");
    let also = if file(&also).exists() { read(&also) } else { String::new() };
    read(version) + &also
}

/// What kind of fact a line says; numbers have the name of their module or enum instead.
const KINDS: [&str; 5] = ["record ", "type ", "section ", "bytes ", "form "];

/// Bytes that a newer version writes in another form, which all versions read: a data type is an attribute by its name, as
/// a text has it.
const REPLACED: [&str; 1] = ["bytes attr.DType = "];

/// What a newer version does that plugins of the older one would not survive. Of a kind of line that the older text does
/// not have at all, nothing is known, so nothing can be lost and nothing counts as added.
fn breaks(older: &str, newer: &str) -> Vec<String> {
    let lines = |text| str::lines(text).filter(|line| !line.starts_with('#')).collect::<Vec<&str>>();
    let (was, kept) = (lines(older), lines(newer));
    let mut found = Vec::new();
    let replaced = |line: &str| REPLACED.iter().any(|start| line.starts_with(start));
    let lost = was.iter().filter(|line| !kept.contains(line) && !replaced(line));
    found.extend(lost.map(|line| format!("lost: {line}")));
    let new: Vec<&str> = kept.iter().filter(|line| !was.contains(line)).copied().collect();
    let added = |kind: &'static str| new.iter().filter(move |line| line.starts_with(kind));
    let open = |line: &str| {
        let name = line.strip_prefix("record ").and_then(|rest| rest.split(['.', ':']).next());
        name.is_some_and(|name| older.contains(&format!("record {name}: may grow\n")))
    };
    for line in added("record ") {
        let record = line.split(['.', ':']).next().unwrap_or(line);
        let is_new = !was.iter().any(|old| old.split(['.', ':']).next() == Some(record));
        if !is_new && !open(line) {
            found.push(format!("added to a record that cannot grow: {line}"));
        }
    }
    if was.iter().any(|line| line.starts_with("section ")) {
        found.extend(added("section ").map(|line| format!("older plugins would leave this section out: {line}")));
    }
    found.extend(twice(&kept));
    found.extend(order(older, newer));
    found
}

/// Numbers and slots that two have.
fn twice(lines: &[&str]) -> Vec<String> {
    let mut numbers: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for line in lines {
        let pair = match line.strip_prefix("section ") {
            Some(section) => section.split_once(' ').map(|(slot, name)| ("section", slot, name)),
            None if KINDS.iter().any(|kind| line.starts_with(kind)) => None,
            None => line.split_once(": ").map(|(name, value)| (name.split('.').next().unwrap_or(name), value, name)),
        };
        if let Some((module, value, name)) = pair
            && let Some(other) = numbers.insert((module, value), name)
        {
            found.push(format!("one number for `{other}` and `{name}`: {value}"));
        }
    }
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
        write(&file, &found);
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
        let text = |served: &Served| text_of(&format!("0.{}", served.minor));
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

/// The same on what really crosses: each of these is a change of the code that no layout shows.
#[cfg(target_pointer_width = "64")]
#[test]
fn what_no_layout_shows_is_seen() {
    let own = contract();
    let swapped = |a: &str, b: &str| {
        assert!(own.contains(&format!("{a}\n")) && own.contains(&format!("{b}\n")), "`{a}` and `{b}` are there");
        let (name_a, value_a) = a.rsplit_once(' ').expect("a name");
        let (name_b, value_b) = b.rsplit_once(' ').expect("a name");
        let swapped = own.replace(&format!("{a}\n"), &format!("{name_a} {value_b}\n"));
        swapped.replace(&format!("{b}\n"), &format!("{name_b} {value_a}\n"))
    };
    let changed = |line: &str, new: &str| {
        let line = own.lines().find(|found| found.starts_with(line)).unwrap_or_else(|| panic!("`{line}` is there"));
        own.replace(&format!("{line}\n"), new)
    };
    let sections = changed("section 1 operands", "section 4 operands: u32\n");
    let fields = own.replace("form event.0 = ", "form event.00 = ").replace("form event.1 = ", "form event.0 = ");
    let fields = fields.replace("form event.00 = ", "form event.1 = ");
    let cases = [
        ("sections swapped", sections.replace("section 4 lists", "section 1 lists"), "lost: section 1 operands: u32"),
        ("a section of other records", changed("section 4 ", "section 4 lists: u8\n"), "lost: section 4 lists: u32"),
        ("a section more", format!("{own}section 16 more: u32\n"), "older plugins would leave this section out"),
        ("a slot twice", format!("{own}section 15 more: u32\n"), "one number for `spans: u32` and `more: u32`: 15"),
        ("status swapped", swapped("entry.FAILED: u32 = 1", "entry.PANICKED: u32 = 2"), "lost: entry.FAILED: u32 = 1"),
        ("status twice", format!("{own}entry.MORE: u32 = 3\n"), "one number for `entry.VETOED` and `entry.MORE`"),
        ("answers", swapped("codec.WRONG: u32 = 2", "codec.UNKNOWN_OP: u32 = 3"), "lost: codec.WRONG: u32 = 2"),
        (
            "variants swapped",
            swapped("Granularity.Module: 0", "Granularity.Function: 1"),
            "lost: Granularity.Module: 0",
        ),
        ("a field of another type", changed("type NodeRec.a:", "type NodeRec.a: i32\n"), "lost: type NodeRec.a: u32"),
        (
            "a function",
            changed("type Services.print:", "type Services.print: fn() -> u32\n"),
            "lost: type Services.print",
        ),
        ("bytes changed", changed("bytes error ", "bytes error = 00\n"), "lost: bytes error = "),
        ("fields in another order", fields, "lost: form event.0 = 1 "),
        ("a new tag in the middle", changed("form event.2", "form event.2 = 9 00\n"), "lost: form event.2 = 3 03"),
    ];
    for (what, newer, message) in cases {
        let found = breaks(&own, &newer);
        assert!(found.iter().any(|found| found.starts_with(message)), "{what}: {found:?}");
    }
    let grown = format!("{own}form event.9 = 9 00\nbytes value.More = 0a\nGranularity.More: 5\ntype New.x: u8\n");
    assert_eq!(breaks(&own, &grown), [""; 0], "growth at the end");
}

#[test]
fn what_an_older_text_does_not_speak_of_is_not_compared() {
    let older = "# What it had.\nkind.FUNC: u16 = 1\n";
    let newer = "kind.FUNC: u16 = 1\nsection 0 nodes: NodeRec\nbytes error = 00\nform event.0 = 1 61\ntype A.x: u8\n";
    assert_eq!(breaks(older, newer), [""; 0]);
}

#[test]
fn the_contracts_of_released_versions_are_as_they_were() {
    for (version, hash) in FROZEN {
        assert_eq!(format!("{:016x}", xxh3_64(text_of(version).as_bytes())), hash, "{version}");
    }
}

#[test]
fn each_version_has_its_fingerprint() {
    if std::env::var_os("BLESS").is_some() {
        // What the compiler read is being replaced.
        return;
    }
    let of = |version: &str| fingerprint(&Version::parse(version).expect("a version"));
    assert_eq!((of("0.1.0"), of(API_VERSION)), (Ok(RECORDS), Ok(FINGERPRINT)));
    let text = text_of(minor(API_VERSION));
    assert_eq!(fingerprint_of(&text), FINGERPRINT);
    let sections = text.replace("section 1 ", "section 99 ");
    let numbers = text.replace("entry.FAILED: u32 = 1", "entry.FAILED: u32 = 2");
    assert!(![sections, numbers].iter().any(|changed| fingerprint_of(changed) == FINGERPRINT));
    assert_eq!(of("0.3.0"), Err(ApiMismatch::NewerPlugin { found: Version::new(0, 3, 0) }));
}

#[test]
fn the_side_to_upgrade_is_told() {
    let check = |version: &str| fingerprint(&Version::parse(version).expect("a version")).map(|_| ());
    for version in ["0.1.0", "0.1.9", "0.2.0", "0.2.7"] {
        assert_eq!(check(version), Ok(()), "{version}");
    }
    let help = |version| check(version).expect_err("refused").help();
    assert!(help("0.0.9").starts_with("upgrade the plugin"));
    for version in ["0.3.0", "1.0.0", "2.1.0"] {
        assert!(help(version).starts_with("upgrade passhost"), "{version}");
    }
}
