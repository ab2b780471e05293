//! Creates plugins, manifests and modules of any size without a compiler, by giving a library a generated metadata
//! section.

use std::fmt::Write;
use std::path::Path;

/// Tags of fields. They are repeated here as numbers, because the format must not change with the code.
mod tag {
    pub(super) const PASS: u16 = 16;
    pub(super) const OPERATOR: u16 = 17;
    pub(super) const CONFIG: u16 = 18;
    pub(super) const PROPERTY: u16 = 19;
    pub(super) const COMPOSITE: u16 = 20;
    pub(super) const INSTRUMENT: u16 = 21;
    pub(super) const NAME: u16 = 1;
    pub(super) const DOC: u16 = 32;
    pub(super) const OPT_LEVEL: u16 = 33;
    pub(super) const REQUIRED: u16 = 34;
    pub(super) const TRACEABLE: u16 = 35;
    pub(super) const GRANULARITY: u16 = 36;
    pub(super) const ESTABLISHES: u16 = 38;
    pub(super) const PRESERVES: u16 = 39;
    pub(super) const INVALIDATES: u16 = 40;
    pub(super) const OPTION: u16 = 41;
    pub(super) const TYPE: u16 = 42;
    pub(super) const DEFAULT: u16 = 43;
    pub(super) const PURE: u16 = 47;
    pub(super) const CHECKED: u16 = 51;
    pub(super) const MEMBER: u16 = 52;
}

/// Number of bytes before the fields: magic, format, tag and length.
const HEAD: usize = 16;

/// The fields of a record.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn put(mut self, tag: u16, content: &[u8]) -> Fields {
        self.0.extend(tag.to_le_bytes());
        self.0.extend((content.len() as u32).to_le_bytes());
        self.0.extend_from_slice(content);
        self
    }

    fn texts(self, tag: u16, texts: impl IntoIterator<Item = String>) -> Fields {
        texts.into_iter().fold(self, |fields, text| fields.put(tag, text.as_bytes()))
    }

    fn named(name: &str) -> Fields {
        Fields::default().put(tag::NAME, name.as_bytes()).put(tag::DOC, b" One of many.\n")
    }

    fn pass(name: &str) -> Fields {
        Fields::named(name).put(tag::OPT_LEVEL, &[0; 4]).put(tag::GRANULARITY, &[0]).put(tag::TRACEABLE, &[0])
    }

    /// Returns an integer option with default 0.
    fn option(name: &str) -> Fields {
        Fields::named(name).put(tag::TYPE, &[1]).put(tag::DEFAULT, &[2, 0, 0, 0, 0, 0, 0, 0, 0])
    }
}

/// The kind of item that occurs many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Independent passes.
    Passes,
    /// Passes that each require the previous pass.
    Chain,
    /// A pass that requires all others, which each establish a property and invalidate two others.
    Contracts,
    /// Passes that each require a nonexistent pass with a similar name.
    Missing,
    /// Composite passes that each contain the previous composite pass.
    Nested,
    /// Options of one pass.
    Options,
    /// Config options, properties, instruments and operators.
    Others,
    /// One pass, config option, property, instrument and operator whose names, descriptions and defaults have many
    /// characters.
    Wide,
}

/// Returns the metadata block of a plugin with `n` items of a kind, and a pass `many.Counts` that increments as many
/// counters as its option `n` specifies. Build information is copied from a library.
pub fn metadata(library: &[u8], kind: Kind, n: usize) -> Vec<u8> {
    let section = section(library);
    let len = u32::from_le_bytes([section[12], section[13], section[14], section[15]]) as usize;
    let mut block = section[..HEAD + len].to_vec();
    let counts = Fields::pass("many.Counts").put(tag::OPTION, &Fields::option("n").0);
    block.extend(Fields::default().put(tag::PASS, &counts.0).0);
    let count = if kind == Kind::Wide { 0 } else { n };
    (0..count).for_each(|i| block.extend(one(kind, i, n).0));
    let of_all = |fields: Fields| Fields::default().put(tag::PASS, &fields.0).0;
    match kind {
        Kind::Contracts => {
            block.extend(of_all(Fields::pass("many.All").texts(tag::REQUIRED, (0..n).map(|i| format!("many.P{i}")))));
        }
        Kind::Options => {
            let options = (0..n).map(|i| Fields::option(&format!("option_{i}")));
            block.extend(of_all(options.fold(Fields::pass("many.P0"), |all, option| all.put(tag::OPTION, &option.0))));
        }
        Kind::Wide => block.extend(wide(n).0),
        _ => {}
    }
    let len = (block.len() - HEAD) as u32;
    block[HEAD - 4..HEAD].copy_from_slice(&len.to_le_bytes());
    block
}

/// Returns one item of each kind whose names and descriptions have `n` characters.
fn wide(n: usize) -> Fields {
    let named = |letter: &str| {
        let name = format!("many.{}", letter.repeat(n));
        Fields::default().put(tag::NAME, name.as_bytes()).put(tag::DOC, "ä ".repeat(n / 2).as_bytes())
    };
    let text =
        |fields: Fields| fields.put(tag::TYPE, &[3]).put(tag::DEFAULT, &[&[4], "x".repeat(n).as_bytes()].concat());
    let option = Fields::default().put(tag::NAME, "o".repeat(n).as_bytes()).put(tag::DOC, "ö".repeat(n).as_bytes());
    let facts =
        |fields: Fields| fields.put(tag::OPT_LEVEL, &[0; 4]).put(tag::GRANULARITY, &[0]).put(tag::TRACEABLE, &[0]);
    let pass = facts(named("P")).texts(tag::REQUIRED, ["many.Counts".to_string()]);
    let pass = pass.texts(tag::ESTABLISHES, [format!("many.{}", "p".repeat(n))]).put(tag::OPTION, &text(option).0);
    Fields::default()
        .put(tag::PASS, &pass.0)
        .put(tag::CONFIG, &text(named("c")).0)
        .put(tag::PROPERTY, &named("p").put(tag::CHECKED, &[0]).0)
        .put(tag::INSTRUMENT, &named("i").0)
        .put(tag::OPERATOR, &named("o").put(tag::PURE, &[1]).0)
}

/// Returns contribution number `i` of a kind.
fn one(kind: Kind, i: usize, n: usize) -> Fields {
    let pass = Fields::pass(&format!("many.P{i}"));
    let before = || i.checked_sub(1);
    let pass = match kind {
        Kind::Passes => pass,
        Kind::Chain => pass.texts(tag::REQUIRED, before().map(|i| format!("many.P{i}"))),
        Kind::Missing => pass.texts(tag::REQUIRED, [format!("many.Q{i}")]),
        Kind::Contracts => {
            let invalid = [(i + 1) % n, (i + 7) % n].map(|i| format!("many.P{i}"));
            let pass = pass.texts(tag::ESTABLISHES, [format!("many.property_{i}")]);
            pass.texts(tag::PRESERVES, ["all".to_string()]).texts(tag::INVALIDATES, invalid)
        }
        Kind::Nested => {
            let member = before().map_or("many.Counts".to_string(), |i| format!("many.P{i}"));
            let composite = Fields::named(&format!("many.P{i}")).put(tag::OPT_LEVEL, &[0; 4]);
            return Fields::default().put(tag::COMPOSITE, &composite.texts(tag::MEMBER, [member]).0);
        }
        Kind::Options | Kind::Wide => return Fields::default(),
        Kind::Others => {
            let name = |what: &str| format!("many.{what}_{i}");
            let operator = Fields::named(&name("op")).put(tag::PURE, &[1]);
            let property = Fields::named(&name("property")).put(tag::CHECKED, &[0]);
            return Fields::default()
                .put(tag::CONFIG, &Fields::option(&name("key")).0)
                .put(tag::PROPERTY, &property.0)
                .put(tag::INSTRUMENT, &Fields::named(&name("instrument")).0)
                .put(tag::OPERATOR, &operator.0);
        }
    };
    Fields::default().put(tag::PASS, &pass.0)
}

fn word(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | usize::from(*byte))
}

/// Returns the position of the section header for the metadata in a 64-bit ELF library of this machine.
fn header(library: &[u8]) -> usize {
    let (table, size) = (word(library, 0x28), usize::from(library[0x3a]));
    let count = usize::from(library[0x3c]) + 256 * usize::from(library[0x3d]);
    let names = usize::from(library[0x3e]) + 256 * usize::from(library[0x3f]);
    let names = word(library, table + names * size + 24);
    let is_it = |header: &usize| {
        let name = names + (word(library, *header) & 0xffff_ffff);
        library[name..].starts_with(b".passhost\0")
    };
    (0..count).map(|i| table + i * size).find(is_it).expect("a plugin has a metadata section")
}

fn section(library: &[u8]) -> &[u8] {
    let header = header(library);
    let (at, len) = (word(library, header + 24), word(library, header + 32));
    &library[at..at + len]
}

/// Returns a library whose metadata section is this block, appended at the end.
pub fn with_metadata(library: &[u8], block: &[u8]) -> Vec<u8> {
    let header = header(library);
    let (mut out, at) = (library.to_vec(), library.len() as u64);
    out[header + 24..header + 32].copy_from_slice(&at.to_le_bytes());
    out[header + 32..header + 40].copy_from_slice(&(block.len() as u64).to_le_bytes());
    out.extend_from_slice(block);
    out
}

/// Writes `libmany.so`, its metadata `many.block` (which the library reads if `ZOO_MANY` names it), and a manifest.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write_plugin(folder: &Path, library: &Path, kind: Kind, n: usize) -> std::io::Result<()> {
    let library = std::fs::read(library)?;
    let block = metadata(&library, kind, n);
    std::fs::write(folder.join("libmany.so"), with_metadata(&library, &block))?;
    std::fs::write(folder.join("many.block"), block)?;
    std::fs::write(folder.join("passes.toml"), MANIFEST)
}

const MANIFEST: &str = "[[plugin]]\npath = \"libmany.so\"\n";

/// Returns a manifest with many items of a kind.
pub fn manifest(what: &str, n: usize) -> String {
    let mut out = String::new();
    let line = |i: usize| match what {
        "wrong pipelines" => format!("pipelines.p{i} = \"many.R{i}\"\n"),
        "pipelines" => format!("pipelines.p{i} = \"many.P{i}\"\n"),
        "duplicate keys" => format!("key = {i}\n"),
        "unknown keys" => format!("key_{i} = {i}\n"),
        "unknown config keys" => format!("config.many.kye_{i} = {i}\n"),
        "config keys" => format!("config.many.key_{i} = {i}\n"),
        "wrong lists" => {
            format!("{}\"many.R{i}\",{}", if i == 0 { "disabled = [" } else { "" }, if i + 1 == n { "]\n" } else { "" })
        }
        _ => format!("# {what} {i}\n"),
    };
    (0..n).for_each(|i| out.push_str(&line(i)));
    out + MANIFEST
}

/// Returns a module with one function that calls `n` undeclared operators, each once.
pub fn undeclared(n: usize) -> String {
    let ty = "R.Tensor((2, 3), dtype=\"float32\")";
    let mut out = format!("@I.ir_module\nclass Module:\n    @R.function\n    def main(x: {ty}) -> {ty}:\n");
    for i in 0..n {
        let _ = writeln!(out, "        v{i}: {ty} = R.many.po_{i}(x)");
    }
    out + "        return x\n"
}

/// The kind of item that occurs many times in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Much {
    /// Functions, each with its own symbolic variable.
    Functions,
    /// Symbolic variables of one function.
    Symbols,
    /// Symbolic variables defined by match_casts, and branches after them.
    Casts,
    /// Undeclared operators, and two equal calls.
    Undeclared,
    /// Virtual devices, each with a parameter.
    Devices,
}

/// Returns a module with `n` items of a kind.
pub fn module(much: Much, n: usize) -> String {
    let mut out = "@I.ir_module\nclass Module:\n".to_string();
    let tensor = |i: usize| format!("R.Tensor((\"n{i}\",), dtype=\"float32\")");
    let main = |params: &str| format!("    @R.function\n    def main({params}) -> R.Object:\n");
    let params =
        |ty: &dyn Fn(usize) -> String| (0..n).map(|i| format!("x{i}: {}", ty(i))).collect::<Vec<_>>().join(", ");
    match much {
        Much::Functions => {
            let function =
                |i| format!("    @R.function\n    def f{i}(x: {}) -> R.Object:\n        return x\n", tensor(i));
            (0..n).for_each(|i| out.push_str(&function(i)));
        }
        Much::Symbols => out.push_str(&(main(&params(&tensor)) + "        return x0\n")),
        Much::Casts => {
            out.push_str(&main("x: R.Tensor((\"m\",), dtype=\"float32\"), c: R.Tensor((), dtype=\"bool\")"));
            let cast = |i| {
                format!(
                    "        n{i} = T.int64()\n        y{i} = R.match_cast(x, R.Tensor((n{i},), dtype=\"float32\"))\n"
                )
            };
            (0..n).for_each(|i| out.push_str(&cast(i)));
            let branch = |i| {
                format!(
                    "        if c:\n            z{i} = R.add(x, x)\n        else:\n            z{i} = R.nn.relu(x)\n"
                )
            };
            (0..n).for_each(|i| out.push_str(&branch(i)));
            out.push_str("        return x\n");
        }
        Much::Undeclared => {
            out.push_str(&main("x: R.Tensor((2,), dtype=\"float32\")"));
            (0..n).for_each(|i| out.push_str(&format!("        y{i} = R.made.up{i}(x)\n")));
            out.push_str("        a = R.nn.relu(x)\n        b = R.nn.relu(x)\n        return (a, b)\n");
        }
        Much::Devices => {
            let devices: Vec<String> = (0..n).map(|i| format!("I.vdevice(\"cuda\", {i}, \"global\")")).collect();
            let _ = writeln!(out, "    I.module_global_infos({{\"vdevice\": [{}]}})", devices.join(", "));
            let ty = |i| format!("R.Tensor((2,), dtype=\"float32\", vdevice=\"cuda:{i}:global\")");
            out.push_str(&(main(&params(&ty)) + "        return x0\n"));
        }
    }
    out
}
