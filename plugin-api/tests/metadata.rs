//! Tests the metadata section: written metadata is read back, and any other bytes cause an error with a
//! position.
#![allow(clippy::unwrap_used, reason = "test helpers may panic, which fails the test")]

use plugin_api::abi::MetaError;
use plugin_api::abi::export::{encode, encoded_len};
use plugin_api::declare::contributions::Contributions;
use plugin_api::declare::declarations::{PluginDecl, is_full_name};
use plugin_api::metadata::{AttrDefault, OptionValue, PluginHead, PluginMeta};
use plugin_api::prelude::*;
use proptest::prelude::*;

declare_pass! {
    /// Summary.
    ///
    /// Rest.
    pub module pass FIRST = "test.First" {
        opt_level: 2,
        required: ["test.Second (>= 0.2, < 0.4)"],
        options: Options {
            /// Names.
            names: Vec<String> = ["a"],
        },
        run: first,
    }
}

fn first(module: &Module, _: &Options, _: &Ctx) -> Result<Module, PassError> {
    Ok(module.clone())
}

const OP: OpDecl = OpDecl {
    name: "test.op",
    args: &[ArgDecl { name: "x", kind: plugin_api::metadata::ArgKind::Tensor, optional: true }],
    attrs: &[
        AttrDecl {
            name: "must",
            ty: plugin_api::metadata::AttrType::Int,
            default: DefaultDecl::Required,
            by_name: false,
        },
        AttrDecl {
            name: "none",
            ty: plugin_api::metadata::AttrType::OptInt,
            default: DefaultDecl::None,
            by_name: false,
        },
        AttrDecl {
            name: "list",
            ty: plugin_api::metadata::AttrType::IntList,
            default: DefaultDecl::Ints(&[1, -1]),
            by_name: false,
        },
    ],
    pure: true,
    doc: "An operator.",
    infer: |_| Ok(Type::Object),
    legalize: None,
};

declare_instrument! {
    /// Sees.
    pub SEES = "test.Sees" {
        new: sees,
        options: SeesOptions {
            /// How often.
            every: i64 = 2,
        },
    }
}

struct Sees;

impl plugin_api::declare::instrument::PassInstrument for Sees {}

fn sees(_: &SeesOptions, _: &Ctx) -> Result<Sees, PassError> {
    Ok(Sees)
}

declare_config! {
    /// How many.
    ///
    /// Of all.
    pub LIMIT: i64 = "test.limit" { default: 16, range: -1..=1024 }
}
declare_config! {
    /// How much.
    pub RATE: f64 = "test.loops.rate" { range: ..=0.5 }
}
declare_config! {
    /// Which.
    NAMES: Vec<String> = "test.loops.names" { default: ["a", "b"], }
}
declare_property! {
    /// All is well.
    pub WELL = "test.well" { check: well }
}
declare_property! {
    /// All was well.
    pub BELIEVED = "test.believed" {}
}
declare_composite! {
    /// Both.
    pub BOTH = "test.Both" {
        passes: ["test.First{names=[x, y]}", "other.Second"],
        required: ["test.Second (>= 0.2)"],
        opt_level: 3,
    }
}

fn well(_: &Body, _: &Ctx) -> Result<(), PassError> {
    Ok(())
}

declare_reader! {
    /// Reads.
    reader READS = "reads" {
        extensions: ["rd", "rds"],
        begins: [b"reads"],
        options: ReadOptions {
            /// How many.
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

const PLUGIN: PluginDecl = PluginDecl {
    name: "test",
    version: "1.2.3",
    passes: &[&FIRST],
    operators: &[OP],
    more: Contributions {
        config: &[&LIMIT.decl, &RATE.decl, &NAMES.decl],
        properties: &[&WELL, &BELIEVED],
        composites: &[&BOTH],
        instruments: &[&SEES],
        readers: &[&READS],
        writers: &[&WRITES],
    },
};
static BLOCK: [u8; encoded_len(&PLUGIN)] = encode(&PLUGIN);

/// Length of magic, format, tag and length.
const HEAD: usize = 16;

fn field(tag: u16, content: &[u8]) -> Vec<u8> {
    [&tag.to_le_bytes()[..], &(content.len() as u32).to_le_bytes(), content].concat()
}

/// Returns the block with the given content.
fn block(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_le_bytes();
    [&BLOCK[..HEAD - 4], &length, content].concat()
}

fn error(bytes: &[u8]) -> String {
    PluginMeta::decode(bytes).unwrap_err().to_string()
}

/// Returns the block with the first occurrence of `from` replaced by equally many bytes.
fn replaced(from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = BLOCK.windows(from.len()).position(|window| window == from).unwrap();
    let mut bytes = BLOCK.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[test]
fn instruments_are_read() {
    let meta = PluginMeta::decode(&BLOCK).unwrap();
    let [sees] = meta.instruments.as_slice() else { panic!("{:?}", meta.instruments) };
    assert_eq!(
        (sees.name.as_str(), sees.summary().as_str(), sees.options[0].name.as_str()),
        ("test.Sees", "Sees.", "every")
    );
    assert_eq!(sees.options[0].default, Some(OptionValue::Int(2)));
    let wrong = error(&replaced(b"test.Sees", b"test_Sees"));
    assert_eq!(
        wrong,
        "its metadata is wrong: field `name` of instrument `test_Sees` is `test_Sees`; it must be `namespace.Name`"
    );
}

/// Plugins with an older API lack instrument data.
#[test]
fn metadata_without_instruments_has_none() {
    const OLDER: PluginDecl = PluginDecl { more: Contributions::NONE, ..PLUGIN };
    static BLOCK: [u8; encoded_len(&OLDER)] = encode(&OLDER);
    assert_eq!(PluginMeta::decode(&BLOCK).unwrap().instruments, []);
}

#[test]
fn what_is_written_is_read() {
    let meta = PluginMeta::decode(&BLOCK).unwrap();
    assert_eq!((meta.name.as_str(), meta.version.to_string().as_str()), ("test", "1.2.3"));
    let pass = &meta.passes[0];
    assert_eq!(pass.doc, " Summary.\n\n Rest.\n");
    assert_eq!((pass.name.as_str(), pass.opt_level, pass.summary().as_str()), ("test.First", 2, "Summary."));
    assert_eq!(pass.required[0].to_string(), "test.Second (>=0.2, <0.4)");
    assert_eq!(pass.options[0].default, Some(OptionValue::List([OptionValue::Str("a".into())].into())));
    let defaults: Vec<_> = meta.operators[0].attrs.iter().map(|attr| attr.default.clone()).collect();
    let list = OptionValue::List([OptionValue::Int(1), OptionValue::Int(-1)].into());
    assert_eq!(defaults, [None, Some(AttrDefault::None), Some(AttrDefault::Value(list))]);
    assert!(meta.operators[0].args[0].optional);
}

#[test]
fn contributions_are_read_as_they_are_written() {
    let meta = PluginMeta::decode(&BLOCK).unwrap();
    let options: Vec<_> = meta
        .config
        .iter()
        .map(|option| {
            let default = option.default.as_ref().map_or("none".to_string(), ToString::to_string);
            format!(
                "{}: {}, default {default}, range {:?}",
                option.name,
                option.ty,
                option.allowed.text().unwrap_or_default()
            )
        })
        .collect();
    let expected = [
        "test.limit: int, default 16, range \"-1..=1024\"",
        "test.loops.rate: float, default none, range \"..=0.5\"",
        "test.loops.names: list of string, default [a, b], range \"\"",
    ];
    assert_eq!(options, expected);
    assert_eq!(meta.config[0].doc, " How many.\n\n Of all.\n");
    let in_range = |value| meta.config[0].allowed.has(&OptionValue::Int(value));
    assert_eq!([-2, -1, 1024, 1025].map(in_range), [false, true, true, false]);
    let checked: Vec<_> = meta.properties.iter().map(|property| (property.name.as_str(), property.checked)).collect();
    assert_eq!(checked, [("test.well", true), ("test.believed", false)]);
    let both = &meta.composites[0];
    assert_eq!((both.name.as_str(), both.opt_level, both.doc.as_str()), ("test.Both", 3, " Both.\n"));
    assert_eq!(both.members, ["test.First{names=[x, y]}", "other.Second"]);
    assert_eq!(both.required[0].to_string(), "test.Second (>=0.2)");
}

#[test]
fn plugins_without_contributions_are_read() {
    let mut without = Vec::new();
    let mut rest = &BLOCK[HEAD..];
    while let Some((head, content)) = rest.split_first_chunk::<6>() {
        let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        if ![18, 19, 20, 22, 23].contains(&u16::from_le_bytes([head[0], head[1]])) {
            without.extend_from_slice(&rest[..6 + len]);
        }
        rest = &content[len..];
    }
    let (meta, all) = (PluginMeta::decode(&block(&without)).unwrap(), PluginMeta::decode(&BLOCK).unwrap());
    // Different bytes have a different digest.
    let digest = meta.digest;
    assert_ne!(digest, all.digest);
    let (config, properties, composites, readers, writers) = Default::default();
    assert_eq!(meta, PluginMeta { digest, config, properties, composites, readers, writers, ..all });
}

#[test]
fn readers_and_writers_come_over_whole() {
    let meta = PluginMeta::decode(&BLOCK).unwrap();
    let [reader] = meta.readers.as_slice() else { panic!("{:?}", meta.readers) };
    assert_eq!((reader.name.as_str(), reader.summary().as_str()), ("reads", "Reads."));
    assert_eq!((reader.extensions.join(" ").as_str(), reader.begins.as_slice()), ("rd rds", &[b"reads".to_vec()][..]));
    assert_eq!((reader.options[0].name.as_str(), reader.example.as_str()), ("most", "passhost run model.rd"));
    let [writer] = meta.writers.as_slice() else { panic!("{:?}", meta.writers) };
    assert_eq!((writer.name.as_str(), writer.extensions.len(), writer.begins.len()), ("writes", 1, 0));
    // Declarations that the compiler would reject.
    let whole = [field(1, b"x"), field(32, b" d")].concat();
    for (content, expected) in [
        (field(22, &[field(1, b"a.b"), field(32, b"d")].concat()), "field `name` of reader `a.b` is `a.b`; it must be"),
        (field(22, &[field(1, b"tvmscript"), field(32, b"d")].concat()), "is `tvmscript`, the built-in format"),
        (field(22, &[&whole[..], &field(56, b".x")].concat()), "field `extension` of reader `x` is `.x`; it must be"),
        (field(23, &[&whole[..], &field(56, b"py")].concat()), "is `py`; it belongs to TVMScript, the built-in format"),
        (field(22, &[&whole[..], &field(56, b"x"), &field(56, b"x")].concat()), "is `x`; it is listed twice"),
        ([field(22, &whole), field(22, &whole)].concat(), "two of its readers are called `x`"),
        (field(23, &field(1, b"x")), "writer `x` lacks the field `doc`"),
    ] {
        let error = PluginMeta::decode(&block(&[&BLOCK[HEAD..], &content].concat())).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_context_without_a_host_has_the_default() {
    let ctx = Ctx::detached();
    let (limit, rate, names): (i64, Option<f64>, Vec<String>) = (LIMIT.get(&ctx), RATE.get(&ctx), NAMES.get(&ctx));
    assert_eq!((limit, rate, names), (16, None, vec!["a".to_string(), "b".to_string()]));
}

#[test]
fn unknown_fields_and_padding_are_passed_over() {
    let known = PluginMeta::decode(&BLOCK).unwrap();
    let longer = [&field(999, b"from the future"), &BLOCK[HEAD..], &field(1000, &[0xff; 70])].concat();
    let read = PluginMeta::decode(&block(&longer)).unwrap();
    assert_eq!(PluginMeta { digest: known.digest, ..read }, known);
    assert_eq!(PluginMeta::decode(&[&BLOCK[..], &[0; 13]].concat()).unwrap(), known);
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    assert_eq!(error(b""), r#"its metadata starts with "" instead of "PASSHOST""#);
    assert_eq!(error(b"PLUGHOST and so on"), r#"its metadata starts with "PLUGHOST" instead of "PASSHOST""#);
    assert_eq!(
        error(&replaced(b"PASSHOST\x01", b"PASSHOST\x02")),
        "its metadata has format 2, but this host reads format 1"
    );
    let len = BLOCK.len();
    assert_eq!(
        error(&BLOCK[..len - 1]),
        format!("its metadata is truncated or has a wrong length, at byte 16 of {} (in the block)", len - 1)
    );
    let mut huge = BLOCK.to_vec();
    huge[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(PluginMeta::decode(&huge), Err(MetaError::Truncated { at: 16, .. })));
    assert_eq!(
        error(&block(&[1, 0, 255, 255, 255, 255, 0])),
        "its metadata is truncated or has a wrong length, at byte 0 of 7 (in the plugin)"
    );
    assert_eq!(error(&block(&[])), "its metadata is wrong: the plugin lacks the field `name`");
    assert_eq!(
        error(&replaced(b" Summary.", b" Summ\xffry.")),
        "its metadata is wrong: field `doc` of pass `test.First` is not UTF-8"
    );
    let two = [&BLOCK[..], &BLOCK[..]].concat();
    assert_eq!(
        error(&two),
        "its metadata is wrong: field `block` of the section is followed by other bytes; link only one plugin into each library"
    );
    assert_eq!(
        error(&replaced(b"test.First", b"test_First")),
        "its metadata is wrong: field `name` of pass `test_First` is `test_First`; it must be `namespace.Name`"
    );
    let version = error(&replaced(b"1.2.3", b"1.2.x"));
    let expected = "its metadata is wrong: field `version` of the plugin is `1.2.x`, which is not a version: ";
    assert!(version.starts_with(expected), "{version}");
    assert_eq!(
        error(&replaced(b"(>= 0.2, < 0.4)", b"(>= 0.2, < abc)")),
        "its metadata is wrong: field `required` of pass `test.First` entry `test.Second (>= 0.2, < abc)` lacks a version requirement in its \
         brackets, as in `test.Second (>= 0.2)`"
    );
}

/// Returns the block with an additional field in its pass.
fn pass_with(tag: u16, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = &BLOCK[HEAD..];
    while let Some((head, behind)) = rest.split_first_chunk::<6>() {
        let found = u16::from_le_bytes([head[0], head[1]]);
        let (mine, behind) = behind.split_at(u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize);
        let more = if found == 16 { field(tag, content) } else { Vec::new() };
        out.extend(field(found, &[mine, &more].concat()));
        rest = behind;
    }
    block(&out)
}

/// The error is in the plugin's source, so rebuilding it unchanged would not help.
#[test]
fn declarations_that_do_not_compile_are_refused() {
    let refused = |bytes: &[u8]| {
        let error = PluginMeta::decode(bytes).unwrap_err();
        assert!(error.help().contains("in the source of the plugin"), "{error}: {}", error.help());
        error.to_string()
    };
    let of_pass = |tag, content: &str| {
        let said = refused(&pass_with(tag, content.as_bytes()));
        let start = "its metadata is wrong: field ";
        said.strip_prefix(start).unwrap_or_else(|| panic!("{said}")).replace(" of pass `test.First`", "")
    };
    let (required, requires, establishes, preserves, invalidates) = (34, 37, 38, 39, 40);
    assert_eq!(of_pass(required, "test.First (>= 1)"), "`required` contains the pass itself");
    assert_eq!(of_pass(required, "test.Second"), "`required` has `test.Second` twice");
    assert_eq!(
        of_pass(required, "a.C (>= x)"),
        "`required` entry `a.C (>= x)` lacks a version requirement in its brackets, as in `a.C (>= 0.2)`"
    );
    assert_eq!(
        of_pass(required, "a.C >= 1"),
        "`required` entry `a.C >= 1` is not a full name such as `relax.Normalize`"
    );
    assert_eq!(of_pass(requires, "anf"), "`requires` has `anf`, which is not a full name such as `relax.anf`");
    assert_eq!(of_pass(establishes, ""), "`establishes` has ``, which is not a full name such as `relax.anf`");
    assert_eq!(of_pass(preserves, "anf"), "`preserves` has `anf`, which is not a full name such as `relax.anf`");
    assert_eq!(of_pass(invalidates, "all"), "`invalidates` has `all`, which is not a full name such as `relax.anf`");
    assert!(PluginMeta::decode(&pass_with(preserves, b"all")).is_ok());
    let named = |name: &[u8]| refused(&block(&[&field(1, name), &BLOCK[HEAD..]].concat()));
    let right = "it must be a crate name: letters, digits, `_`, `-` and `.`, as in `acme-passes`";
    assert_eq!(named(b""), format!("its metadata is wrong: field `name` of the plugin is ``; {right}"));
    assert_eq!(named(b"a b"), format!("its metadata is wrong: field `name` of the plugin is `a b`; {right}"));
}

#[test]
fn two_of_one_name_are_refused() {
    let mut rest = &BLOCK[HEAD..];
    let mut said = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<6>() {
        let whole = 6 + u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        if u16::from_le_bytes([head[0], head[1]]) >= 16 {
            said.push(error(&block(&[&BLOCK[HEAD..], &rest[..whole]].concat())));
        }
        rest = &behind[whole - 6..];
    }
    said.dedup_by_key(|text| text.split('`').next().unwrap_or_default().to_string());
    let expected = [
        "two of its passes are called `test.First`",
        "two of its operators are called `test.op`",
        "two of its config options are called `test.limit`",
        "two of its properties are called `test.well`",
        "two of its passes are called `test.Both`",
        "two of its instruments are called `test.Sees`",
        "two of its readers are called `reads`",
        "two of its writers are called `writes`",
    ];
    assert_eq!(said, expected);
}

/// The head of a plugin with a newer API can always be read.
#[test]
fn the_head_is_read_whatever_the_rest_is() {
    let granularity = replaced(&field(36, &[0]), &field(36, &[99]));
    assert!(error(&granularity).contains("is 99, which this host does not support"));
    let (head, meta) = (PluginHead::decode(&granularity).unwrap(), PluginMeta::decode(&BLOCK).unwrap());
    let whole = PluginHead { name: meta.name, version: meta.version, api: meta.api, fingerprint: meta.fingerprint };
    assert_eq!(head, whole);
    assert_eq!(PluginHead::decode(b"no metadata"), Err(PluginMeta::decode(b"no metadata").unwrap_err()));
}

#[test]
fn errors_of_contributions_say_what_is_wrong() {
    assert_eq!(
        error(&replaced(b"test.limit", b"test_limit")),
        "its metadata is wrong: field `name` of config option `test_limit` is `test_limit`; it must be `namespace.key`"
    );
    let default = [&[2][..], &16i64.to_le_bytes()].concat();
    assert_eq!(
        error(&replaced(&default, &[&[2][..], &1025i64.to_le_bytes()].concat())),
        "its metadata is wrong: field `default` of config option `test.limit` is 1025, which is not in its range -1..=1024"
    );
    assert_eq!(
        error(&replaced(&[b" Of all.\n", &*field(42, &[1])].concat(), &[b" Of all.\n", &*field(42, &[0])].concat())),
        "its metadata is wrong: field `default` of config option `test.limit` is 16, which is not of type bool"
    );
    assert_eq!(
        error(&replaced(b"test.well", b"test-well")),
        "its metadata is wrong: field `name` of property `test-well` is `test-well`; it must be `namespace.name`"
    );
    assert_eq!(
        error(&replaced(b"test.Both", b"test Both")),
        "its metadata is wrong: field `name` of composite pass `test Both` is `test Both`; it must be `namespace.Name`"
    );
}

#[test]
fn names_have_two_parts() {
    for name in ["a.B", "relax.nn.conv2d", "_a._1"] {
        assert!(is_full_name(name), "{name}");
    }
    for name in ["", "a", ".", "a.", ".b", "a..b", "a.b-c", "a.1b", "a b.c", "ä.b"] {
        assert!(!is_full_name(name), "{name}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (PluginMeta::decode(&bytes), PluginHead::decode(&bytes));
        let _ = (PluginMeta::decode(&block(&bytes)), PluginHead::decode(&block(&bytes)));
    }

    #[test]
    fn changed_bytes_are_refused_or_read(
        changes in proptest::collection::vec((0..BLOCK.len(), any::<u8>()), 1..8),
        cut in 0..BLOCK.len(),
    ) {
        let mut bytes = BLOCK.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        let _ = PluginMeta::decode(&bytes);
        let _ = PluginMeta::decode(&block(&bytes[HEAD.max(cut)..]));
        prop_assert!(PluginMeta::decode(&BLOCK[..cut]).is_err());
    }
}

#[test]
fn a_summary_is_the_first_sentence_on_one_line() {
    use plugin_api::metadata::summary;
    let two = "\n Merges calls of one compiler, in the\n order of the module. More.\n\n And more.";
    assert_eq!(summary(two), "Merges calls of one compiler, in the order of the module.");
    assert_eq!(summary(" No full stop\n here\n\n Next."), "No full stop here");
    assert_eq!(summary(""), "");
}
