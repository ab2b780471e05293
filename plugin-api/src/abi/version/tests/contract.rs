//! The contract of the current code as text, with one line per fact that both sides must agree on.

use super::super::super::entry::{Entry, EntryOf1_1, RunResult};
use super::super::super::layout::{RECORDS, records, records_of_1_1};
use crate::ir::records::*;
use crate::ir::storage::body_handle::BodyHdr;
use crate::ir::storage::layout::Layout;
use crate::ir::storage::module_handle::{FuncEntry, ModuleHdr};
use crate::ir::storage::sections::{RawSlice, RawView, SECTIONS};
use crate::ir::storage::tensor::TensorHdr;
use crate::services::files::{Files, Sources};
use crate::services::*;
use abi_stable::StableAbi;
use abi_stable::type_layout::TLField;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Constants in `src/abi` that the other side never sees.
const INNER: [&str; 6] = [
    // A hash over this text.
    "layout.FINGERPRINT",
    // Maximum number of spans that the host keeps for plugins.
    "spans.MOST_OPEN",
    // A word in a message.
    "entry.NO_TEXT",
    // Locks of the host's list of headers.
    "live.SHARDS",
    // Minimum length of data that the host leaves in a mapped file.
    "tensor.LEAST",
    // Number of fields that the host shows separately; further fields are shown in the message.
    "tracing_sink.MOST_FIELDS",
];

/// Collects all records with offsets and types of their fields, all sections, all numbers with a meaning on both
/// sides, and examples of everything that crosses as bytes.
pub(super) fn contract() -> String {
    let mut text = format!("hash of the records: {RECORDS:016x}\n");
    let mut types = String::new();
    macro_rules! list {
        ($($field:ident: $ty:ty),* $(,)?) => { $(record::<$ty>(&mut text, &mut types, stringify!($ty));)* };
    }
    records!(list);
    records_of_1_1!(list);
    sources().values().for_each(|source| numbers(&mut text, source));
    text.push_str(&types);
    SECTIONS.iter().for_each(|(slot, name, record)| text.push_str(&format!("section {slot} {name}: {record}\n")));
    super::forms::all(&mut text);
    text
}

fn record<T: Layout + StableAbi>(text: &mut String, types: &mut String, name: &str) {
    text.push_str(&format!("record {name}: {} bytes\n", T::SIZE));
    T::FIELDS.iter().for_each(|(field, at)| text.push_str(&format!("record {name}.{field} at {at}\n")));
    for field in T::LAYOUT.get_fields().expect("a record has fields").iter() {
        types.push_str(&format!("type {name}.{}: {}\n", field.name(), type_of(&field)));
    }
}

/// Returns the type of a field; for a function, its parameters and result.
fn type_of(field: &TLField) -> String {
    match field.function_range().get(0).filter(|_| field.is_function()) {
        Some(function) => signature(&function.to_string()),
        None => field.full_type().to_string().trim().to_string(),
    }
}

/// Returns `fn(u32, Sink) -> u32` for abi_stable's `fn(,: u32, param_1: Sink)->u32`, which lists its lifetimes on
/// further lines.
fn signature(text: &str) -> String {
    let parts = text.lines().next().and_then(|line| line.strip_prefix("fn(")?.rsplit_once(")->"));
    let (params, result) = parts.unwrap_or_else(|| panic!("`{text}` is not a signature"));
    let params = params.trim_start_matches(',').split(", ");
    let params: Vec<&str> = params.map(|param| param.split_once(": ").map_or(param, |(_, ty)| ty).trim()).collect();
    format!("fn({}) -> {}", params.join(", "), result.trim())
}

/// Folders whose files contain numbers with a meaning on both sides, and single files of other folders.
const FOLDERS: &[&str] = &["abi", "abi/host", "ir/storage", "metadata", "services"];
const FILES: &[&str] = &["ir/module.rs", "ir/records.rs", "declare/diagnostics.rs", "declare/pass.rs"];

/// Returns these files by their path in the crate, which is their order in the contract. Some belong to this crate,
/// some to `lang`.
fn sources() -> BTreeMap<PathBuf, PathBuf> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut out = BTreeMap::new();
    for src in [own.join("src"), own.join("../lang/src")] {
        let files = |folder: &&str| std::fs::read_dir(src.join(folder)).into_iter().flatten();
        let inside = FOLDERS.iter().flat_map(files).map(|file| file.expect("a file").path());
        let inside = inside.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let named = FILES.iter().map(|path| src.join(path)).filter(|path| path.exists());
        let place = |path: &Path| path.strip_prefix(&src).expect("a file of the crate").to_path_buf();
        out.extend(inside.chain(named).map(|path| (place(&path), path)));
    }
    for place in FOLDERS.iter().chain(FILES) {
        assert!(out.keys().any(|file| file.starts_with(place)), "no crate has `{place}`");
    }
    out
}

/// Adds the constants of a source file and its modules, and the enums with numbers.
fn numbers(text: &mut String, path: &Path) {
    let source = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "mod");
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let file = file.or(folder).expect("a name");
    let (mut within, mut is_numbered) = (None, false);
    for line in source.lines() {
        let item = without_visibility(line);
        if line == "}" {
            (within, is_numbered) = (None, false);
        } else if line.starts_with("#[repr(u") {
            is_numbered = true;
        } else if let Some(name) = opened(item) {
            within = Some(name);
        } else if within == Some("tests") || (within.is_none() && line.starts_with(' ')) {
            // Tests, or lines inside other items.
        } else if let Some((name, value)) = constant(without_visibility(line.trim_start())) {
            let name = format!("{}.{name}", within.unwrap_or(file));
            if !INNER.contains(&name.as_str()) {
                text.push_str(&format!("{name}: {value}\n"));
            }
        } else if let Some(name) = within.filter(|_| is_numbered)
            && let Some(variant) = line.trim().strip_suffix(',').filter(|variant| !variant.starts_with("//"))
        {
            let number = variant.split_once(" = ").filter(|(_, number)| number.parse::<u32>().is_ok());
            let (variant, number) = number.unwrap_or_else(|| panic!("`{name}::{variant}` must have its own number"));
            text.push_str(&format!("{name}.{variant}: {number}\n"));
        }
    }
}

fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    let rest = if rest.starts_with('(') { rest.split_once(')').map_or(rest, |(_, rest)| rest) } else { rest };
    rest.trim_start()
}

/// Returns the module or enum that starts here.
fn opened(item: &str) -> Option<&str> {
    ["mod ", "enum "].iter().find_map(|start| item.strip_prefix(start))?.strip_suffix(" {")
}

/// Returns the name, and the type with value, of a constant that can cross the boundary.
fn constant(item: &str) -> Option<(&str, &str)> {
    let (name, value) = item.strip_prefix("const ")?.strip_suffix(';')?.split_once(": ")?;
    let ty = value.split_once(" = ")?.0;
    let crosses = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "&str"].contains(&ty) || ty.starts_with("[u8; ");
    // The offset of a field is listed with its record.
    (crosses && !value.contains("offset_of!")).then_some((name, value))
}
