//! Runs the fuzz targets on their seeds and past findings.
#![forbid(unsafe_code)]

use passhost::Manifest;
use passhost::plugins::lock::{CratePin, Entries, Entry, Pin, parse, write};
use passhost::plugins::object_file;
use passhost_tests::{engine, fuzz, root};
use plugin_api::abi::export::{encode, encoded_len};
use plugin_api::declare::contributions::Contributions;
use plugin_api::declare::declarations::PluginDecl;
use plugin_api::declare::instrument::PassInstrument;
use plugin_api::metadata::PluginMeta;
use plugin_api::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A manifest with every key.
const MANIFEST: &str = r#"# Every key.
search = ["target/release", '..']
default_pipeline = "late"
opt_level = 0x2
disabled = ["relax.Normalize"]
required = ["acme.GroupConvolutions"]
config = { "acme.limit" = 3, "acme.rates" = [0.5, 1e3], "acme.on" = true, "acme.name" = "a b" }

[[plugin]]
path = "libacme.so"
version = ">= 0.2, < 0.4"
api = "0.1"

[[plugin]]
name = "acme"

[pipelines]
early = "relax.Normalize,acme.Odd{times=-1, rate=.5, on=true, names=[a, \"b c\"], rates=[1e9]}"

[pipelines.late]
passes = """relax.DeadCodeElimination,
  acme.GroupConvolutions{through=[relax.nn.relu]}"""
opt_level = 3

[pipelines.late.config]
"acme.limit" = 4
"#;

fn folder(kind: &str, target: &str) -> PathBuf {
    root().join("tests/fuzz").join(kind).join(target)
}

/// Returns the files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| (entry.path(), std::fs::read(entry.path()).expect("a file"))).collect()
}

/// Returns the modules in the goldens of the standard passes.
fn modules() -> Vec<String> {
    let goldens = ["plugins/relax-passes/tests/goldens", "plugins/conv-grouping/tests/goldens"];
    let texts = goldens.iter().flat_map(|folder| files(&root().join(folder)).into_values());
    let mut out = Vec::new();
    for text in texts {
        let text = String::from_utf8(text).expect("a golden");
        let befores = text.split("-- before\n").skip(1).filter_map(|rest| rest.split("\n-- ").next());
        out.extend(befores.map(|before| format!("{before}\n")));
    }
    out.sort_by_key(String::len);
    out
}

/// Returns handwritten modules.
fn written() -> Vec<String> {
    let texts = files(&root().join("tests/goldens/written")).into_values();
    let written =
        |text: Vec<u8>| String::from_utf8(text).expect("a text").split("# is read as\n").next().map(str::to_string);
    texts.filter_map(written).collect()
}

/// Returns all kinds that occur in a body.
fn kinds(body: &Body) -> BTreeSet<(u8, u16)> {
    let raw = body.raw();
    let nodes = raw.nodes().iter().map(|rec| (0, rec.kind));
    let leaves = raw.leaves().iter().map(|rec| (1, rec.kind));
    let types = raw.types().iter().map(|rec| (2, rec.kind));
    let dims = raw.prims().iter().map(|rec| (3, rec.op));
    let attrs = raw.attrs().iter().map(|rec| (4, rec.kind));
    nodes.chain(leaves).chain(types).chain(dims).chain(attrs).collect()
}

/// Returns small bodies, each with a kind of node that earlier bodies lack.
fn bodies() -> Vec<Vec<u8>> {
    let (mut seen, mut out) = (BTreeSet::new(), Vec::new());
    for text in modules() {
        let Ok(module) = script::read(&text, engine()) else { continue };
        for (_, body) in module.functions().filter(|(_, body)| body.len() < 60) {
            let before = seen.len();
            seen.extend(kinds(body));
            if seen.len() > before {
                out.push(fuzz::bytes(body));
            }
        }
    }
    out
}

declare_config! {
    /// Number of elements.
    LIMIT: i64 = "test.limit" { default: 16, range: -1..=1024 }
}
declare_property! {
    /// All is well.
    WELL = "test.well" {}
}
declare_composite! {
    /// Both.
    BOTH = "test.Both" {
        opt_level: 3, passes: ["test.First{names=[x, y]}", "other.Second"], required: ["test.Third (>= 0.2, < 0.4)"],
    }
}
declare_instrument! {
    /// Sees.
    SEES = "test.Sees" {
        new: sees,
        options: SeesOptions {
            /// Number of repetitions.
            every: i64 = 2,
        },
    }
}

struct Sees;

impl PassInstrument for Sees {}

fn sees(_: &SeesOptions, _: &Ctx) -> Result<Sees, PassError> {
    Ok(Sees)
}

declare_reader! {
    /// Reads.
    reader READS = "reads" {
        extensions: ["rd", "rds"],
        begins: [b"reads"],
        options: ReadOptions {
            /// Number of elements.
            most: i64 in (1..) = 2,
        },
        example: "passhost run model.rd",
        run: reads,
    }
}

fn reads(_: &Source, _: &ReadOptions, _: &Ctx) -> Result<Module, PassError> {
    Ok(Module::new(Vec::<(String, Body)>::new()))
}

declare_writer! {
    /// Writes.
    writer WRITES = "writes" { extensions: ["rd"], run: writes }
}

fn writes(_: &Module, output: &mut Output, _: &Ctx) -> Result<(), PassError> {
    output.put(b"written")
}

/// Contributions that the standard plugins lack.
const PLUGIN: PluginDecl = PluginDecl {
    name: "test",
    version: "1.2.3",
    passes: &[],
    operators: &[],
    more: Contributions {
        config: &[&LIMIT.decl],
        properties: &[&WELL],
        composites: &[&BOTH],
        instruments: &[&SEES],
        readers: &[&READS],
        writers: &[&WRITES],
    },
};
static BLOCK: [u8; encoded_len(&PLUGIN)] = encode(&PLUGIN);

fn metadata() -> Vec<Vec<u8>> {
    let owners = engine().registry().owners().filter_map(|(_, owner)| owner.file.clone());
    let sections = owners.map(|file| object_file::metadata(&file).expect("a plugin"));
    sections.filter(|section| section.len() < 8_000).chain([BLOCK.to_vec()]).collect()
}

fn lockfile() -> String {
    let version = |text: &str| text.parse().expect("a version");
    let entry = |name: &str, pin| Entry { name: name.into(), version: version("1.2.3-a"), api: version("0.1.0"), pin };
    let hashes = [("x86_64-unknown-linux-gnu", "a"), ("aarch64-apple-darwin", "b")];
    let hashes = hashes.map(|(target, digit)| (target.to_string(), digit.repeat(64))).into();
    write(&Entries::from([
        ("path lib/libb.so".to_string(), entry("b", Pin::Built(hashes))),
        (
            "crate \"a\"\n".to_string(),
            entry(
                "a",
                Pin::Crate(CratePin {
                    sources: "0".repeat(64),
                    inputs: [("../table.txt".to_string(), "1".repeat(64))].into(),
                    env: [("CC".to_string(), "unset".to_string())].into(),
                }),
            ),
        ),
    ]))
}

/// Rewrites the seeds from the project's files, with BLESS=1.
#[test]
fn seeds_are_accepted() {
    if std::env::var_os("BLESS").is_some() {
        let own = std::fs::read(root().join("passes.toml")).expect("the default manifest");
        let readable = |text: &String| text.len() < 3_000 && script::read(text, &fuzz::SomeOps).is_ok();
        let texts = modules().into_iter().filter(readable).take(12).chain(written().into_iter().filter(readable));
        let texts = texts.map(String::into_bytes);
        for (target, seeds) in [
            ("lockfile", vec![lockfile().into_bytes(), write(&Entries::new()).into_bytes()]),
            ("manifest", vec![own, MANIFEST.into()]),
            ("metadata", metadata()),
            ("seal", bodies()),
            ("text", texts.chain((0..8).map(|seed| fuzz::generated(seed).into_bytes())).collect()),
        ] {
            let folder = folder("seeds", target);
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).expect("a folder");
            for (i, seed) in seeds.iter().enumerate() {
                std::fs::write(folder.join(i.to_string()), seed).expect("a file");
            }
        }
    }
    let text = |seed: &[u8]| String::from_utf8(seed.to_vec()).expect("a text");
    let path = Path::new("a");
    let check = |target: &str, accepts: &dyn Fn(&[u8]) -> bool| {
        let seeds = files(&folder("seeds", target));
        assert!(seeds.len() >= 2, "no seeds of {target}");
        for (path, seed) in seeds {
            assert!(accepts(&seed), "{} is refused; BLESS=1 cargo test rewrites it", path.display());
        }
    };
    check("lockfile", &|seed| parse(path, &text(seed)).is_ok());
    check("manifest", &|seed| Manifest::parse(path, &text(seed)).is_ok());
    check("metadata", &|seed| PluginMeta::decode(seed).is_ok());
    check("seal", &fuzz::seal);
    check("text", &|seed| script::read(&text(seed), &fuzz::SomeOps).is_ok());
}

/// Runs the targets on all inputs on which they failed before.
#[test]
fn findings_stay_mended() {
    for (target, run) in [
        ("metadata", (|input| fuzz::metadata(input)) as fn(&[u8])),
        ("seal", |input| {
            fuzz::seal(input);
        }),
        ("lockfile", |input| fuzz::lockfile(&String::from_utf8_lossy(input))),
        ("manifest", |input| fuzz::manifest(&String::from_utf8_lossy(input))),
        ("text", |input| fuzz::text(&String::from_utf8_lossy(input))),
    ] {
        for kind in ["seeds", "findings"] {
            files(&folder(kind, target)).values().for_each(|input| run(input));
        }
    }
}

/// Runs the target `seal` for a short time. Its changes must leave some bodies valid, and make others invalid.
#[test]
fn changed_bodies_are_refused_or_can_be_used() {
    let mut inputs: Vec<Vec<u8>> = files(&folder("seeds", "seal")).into_values().collect();
    let (mut sealed, n) = (0, 3_000);
    for seed in 0..n {
        let at = seed as usize % inputs.len();
        let changed = fuzz::mutate(&inputs[at], seed);
        if fuzz::seal(&changed) {
            sealed += 1;
            inputs[at] = changed;
        }
    }
    assert!(sealed > n / 20 && sealed < n, "{sealed} of {n}");
}

/// Runs the target `text` for a short time on generated modules. The damage must leave some texts readable, and make
/// others unreadable.
#[test]
fn damaged_modules_are_refused_or_can_be_used() {
    let (mut read, n) = (0, 1_500);
    for seed in 0..n {
        let text = fuzz::damaged(b"", seed);
        fuzz::text(&text);
        read += u32::from(script::read(&text, &fuzz::SomeOps).is_ok());
    }
    assert!(read > n / 20 && read < n * 9 / 10, "{read} of {n}");
}
