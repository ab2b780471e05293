//! `passes.lock`: the state of a manifest's plugins when they were last used.
//!
//! The lockfile is next to the manifest and has its name (`late.toml` → `late.lock`). A built library is pinned by one sha256 per target
//! triple, so that a lockfile from one system does not fail on another. A crate is pinned by a digest of its sources, manifests and
//! Cargo.lock, because a rebuilt library depends on profile and path. It is also pinned by the digests of the other
//! inputs that cargo reports: files and environment variables, each by name. With the names, the next host can check
//! them before it builds. Registry crates are pinned by Cargo.lock. Entries are sorted, with one field per line, so
//! that version control can merge changes.

mod compared;
mod keeper;

pub(crate) use compared::changed;
pub use compared::{Change, Compared};
pub use keeper::{Keeper, Mode};

use crate::report::error::{Error, Problem};
use semver::Version;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Version of the format that this host writes, and the newest version that it reads.
const FORMAT: i64 = 1;

const HEAD: &str = "\
# Written by `passhost run` and `passhost lock`: the plugins in the manifest beside it.
# Keep this file under version control. `--locked` refuses plugins that differ from it.
";

/// Returns the path of a manifest's lockfile.
pub fn path_of(manifest: &Path) -> PathBuf {
    let path = manifest.with_extension("lock");
    // The manifest itself may have the extension `lock`.
    if path == manifest { manifest.with_extension("lock.lock") } else { path }
}

/// The recorded state of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// The plugin API that it was built against.
    pub api: Version,
    /// Content of the plugin.
    pub pin: Pin,
}

/// The content of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The sha256 of a built library, for each target triple that was used.
    Built(BTreeMap<String, String>),
    /// A crate.
    Crate(CratePin),
}

/// The inputs from which a crate was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CratePin {
    /// Digest of the sources, the manifests and Cargo.lock of the crate.
    pub sources: String,
    /// The sha256 of the other files from which cargo built the crate, by name relative to the workspace. A name that ends with `/` is a
    /// folder, with the digest of the names in it.
    pub inputs: BTreeMap<String, String>,
    /// The environment variables that were read, with the sha256 of their values; [`UNSET`] for unset variables.
    pub env: BTreeMap<String, String>,
}

/// Used for an environment variable without a value.
pub const UNSET: &str = "unset";

/// Entries by the source of the plugin in the manifest: `crate plugins/a`, `path liba.so`, `name a`.
pub type Entries = BTreeMap<String, Entry>;

/// Returns true if a text is a sha256 in the form used here.
pub(crate) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Formats entries as the text of a lockfile.
pub fn write(entries: &Entries) -> String {
    let plugin = |(from, entry): (&String, &Entry)| {
        let mut table = toml::Table::new();
        let mut text = |key: &str, value: &str| table.insert(key.to_string(), value.into());
        text("from", from);
        text("name", &entry.name);
        text("version", &entry.version.to_string());
        text("api", &entry.api.to_string());
        match &entry.pin {
            Pin::Crate(CratePin { sources, inputs, env }) => {
                text("sources", sources);
                let others = [("inputs", inputs), ("env", env)].into_iter().filter(|(_, digests)| !digests.is_empty());
                others.for_each(|(key, digests)| drop(table.insert(key.to_string(), digest_table(digests))));
            }
            Pin::Built(hashes) => drop(table.insert("sha256".to_string(), digest_table(hashes))),
        }
        toml::Value::Table(table)
    };
    let mut table = toml::Table::new();
    table.insert("format".to_string(), FORMAT.into());
    if !entries.is_empty() {
        table.insert("plugin".to_string(), toml::Value::Array(entries.iter().map(plugin).collect()));
    }
    format!("{HEAD}{table}")
}

fn digest_table(digests: &BTreeMap<String, String>) -> toml::Value {
    toml::Value::Table(digests.iter().map(|(name, digest)| (name.clone(), digest.as_str().into())).collect())
}

/// Reads a lockfile. Returns `None` if it does not exist.
///
/// # Errors
/// If it cannot be read or is damaged; the error gives the position of the damage.
pub fn load(path: &Path) -> Result<Option<Entries>, Error> {
    let wrong =
        |message: String| damaged(path, "", message, None, "correct the file, or delete it and run `passhost lock`");
    // Opening a pipe would wait for its writer.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(wrong("is not a regular file".to_string()));
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        wrong(format!("line {line} is not UTF-8"))
    })?;
    parse(path, &text).map(Some)
}

/// Reads the text of a lockfile.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse(path: &Path, text: &str) -> Result<Entries, Error> {
    let wrong = |Wrong { message, span, help }| damaged(path, text, message, Some(span), help);
    if let Some(span) = merge_mark(text) {
        let message = "it contains both sides of a merge".to_string();
        let help = "keep the entries of both sides, or delete the file and run `passhost lock`";
        return Err(wrong(Wrong { message, span, help }));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        wrong(Wrong { message: error.message().trim().to_string(), span, help: RESTORE })
    })?;
    read(&table).map_err(wrong)
}

const RESTORE: &str = "restore it from version control, or delete it and run `passhost lock`";

fn damaged(path: &Path, text: &str, message: String, span: Option<Range<usize>>, help: &str) -> Error {
    let problem = Problem { message, span, help: help.to_string() };
    Error::Lockfile { path: path.to_path_buf(), text: text.into(), problem }
}

/// Returns the first conflict marker of version control.
fn merge_mark(text: &str) -> Option<Range<usize>> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if ["<<<<<<< ", "=======\n", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) {
            return Some(at..at + line.trim_end().len());
        }
        at += line.len();
    }
    None
}

/// A mistake in the text.
struct Wrong {
    message: String,
    span: Range<usize>,
    help: &'static str,
}

type Value<'t> = toml::Spanned<DeValue<'t>>;
type Table<'t> = toml::Spanned<DeTable<'t>>;

fn wrong<T>(message: impl Into<String>, span: Range<usize>) -> Result<T, Wrong> {
    Err(Wrong { message: message.into(), span, help: RESTORE })
}

fn read(table: &Table<'_>) -> Result<Entries, Wrong> {
    let format = table.get_ref().get("format");
    let number = |value: &Value<'_>| match value.get_ref() {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    match format.map(|value| (number(value), value.span())) {
        Some((Some(FORMAT), _)) => {}
        Some((Some(newer), span)) if newer > FORMAT => {
            let message = format!("it has format {newer}, but this passhost supports {FORMAT}");
            return Err(Wrong { message, span, help: "upgrade passhost" });
        }
        Some((_, span)) => return wrong(format!("`format` must be {FORMAT}"), span),
        None => return wrong(format!("`format = {FORMAT}` is missing"), 0..0),
    }
    known_keys(table.get_ref(), &["format", "plugin"])?;
    let Some(plugins) = table.get_ref().get("plugin") else { return Ok(Entries::new()) };
    let DeValue::Array(plugins) = plugins.get_ref() else {
        return wrong("`plugin` must be a list of tables: [[plugin]]", plugins.span());
    };
    let mut entries = Entries::new();
    for plugin in plugins.iter() {
        let (from, entry) = read_entry(plugin)?;
        if entries.contains_key(&from) {
            return wrong(format!("`{from}` has two entries"), plugin.span());
        }
        entries.insert(from, entry);
    }
    Ok(entries)
}

fn known_keys(table: &DeTable<'_>, known: &[&str]) -> Result<(), Wrong> {
    match table.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
        Some((key, _)) => {
            wrong(format!("unknown key `{}`; known keys: {}", key.get_ref(), known.join(", ")), key.span())
        }
        None => Ok(()),
    }
}

fn read_entry(value: &Value<'_>) -> Result<(String, Entry), Wrong> {
    let DeValue::Table(table) = value.get_ref() else {
        return wrong("`plugin` must be a list of tables: [[plugin]]", value.span());
    };
    known_keys(table, &["from", "name", "version", "api", "sources", "inputs", "env", "sha256"])?;
    let text = |key: &str| match table.get(key).map(|value| (value.get_ref(), value.span())) {
        Some((DeValue::String(text), span)) => Ok((text.to_string(), span)),
        Some((_, span)) => wrong(format!("`{key}` must be a string"), span),
        None => wrong(format!("an entry lacks `{key}`"), value.span()),
    };
    let version = |key: &str| {
        let (text, span) = text(key)?;
        Version::parse(&text).or_else(|error| wrong(format!("`{key}` is not a version: {error}"), span))
    };
    let pin = match (table.get("sources"), table.get("sha256")) {
        (Some(_), None) => {
            let (sources, span) = text("sources")?;
            if !is_hash(&sources) {
                return wrong("`sources` is not 64 digits 0-9 and a-f", span);
            }
            let others =
                |key: &str, unset| table.get(key).map_or(Ok(BTreeMap::new()), |it| read_digests(key, it, unset));
            Pin::Crate(CratePin { sources, inputs: others("inputs", None)?, env: others("env", Some(UNSET))? })
        }
        (None, Some(hashes)) => Pin::Built(read_digests("sha256", hashes, None)?),
        _ => return wrong("an entry must have either `sources` (a crate) or `sha256` (a built library)", value.span()),
    };
    let entry = Entry { name: text("name")?.0, version: version("version")?, api: version("api")?, pin };
    Ok((text("from")?.0, entry))
}

/// Reads a table of names with digests. The word `other` is accepted in place of a digest.
fn read_digests(key: &str, value: &Value<'_>, other: Option<&str>) -> Result<BTreeMap<String, String>, Wrong> {
    let DeValue::Table(table) = value.get_ref() else {
        return wrong(format!("`{key}` must be a table of names with digests"), value.span());
    };
    let read = |(name, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &Value<'_>)| match value.get_ref() {
        DeValue::String(text) if is_hash(text) || Some(text.as_ref()) == other => {
            Ok((name.get_ref().to_string(), text.to_string()))
        }
        DeValue::String(_) => {
            let message = format!("`{key}`: the value for {} is not 64 digits 0-9 and a-f", name.get_ref());
            wrong(message, value.span())
        }
        _ => wrong(format!("`{key}`: the value for {} must be a string", name.get_ref()), value.span()),
    };
    table.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Entries {
        let version = |text| Version::parse(text).expect("a version");
        let entry =
            |name: &str, pin| Entry { name: name.to_string(), version: version("1.2.3-a"), api: version("0.1.0"), pin };
        let crate_pin = |inputs: &[(&str, &str)], env: &[(&str, &str)]| {
            let table = |rows: &[(&str, &str)]| rows.iter().map(|row| (row.0.to_string(), row.1.to_string())).collect();
            Pin::Crate(CratePin { sources: "0".repeat(64), inputs: table(inputs), env: table(env) })
        };
        let digest = "1".repeat(64);
        let hashes = [("x86_64-unknown-linux-gnu", "a"), ("aarch64-apple-darwin", "b")];
        let hashes = hashes.map(|(target, digit)| (target.to_string(), digit.repeat(64)));
        BTreeMap::from([
            ("path lib/libb.so".to_string(), entry("b", Pin::Built(hashes.into()))),
            (
                "crate \"a\"\n".to_string(),
                entry("a", crate_pin(&[("../b \"c\"/", &digest), ("\n", &digest)], &[("A", UNSET), ("B", &digest)])),
            ),
            ("crate c".to_string(), entry("c", crate_pin(&[], &[]))),
        ])
    }

    #[test]
    fn what_is_written_is_read() {
        for entries in [entries(), Entries::new()] {
            let text = write(&entries);
            assert_eq!(parse(Path::new("passes.lock"), &text).expect("a lockfile"), entries, "{text}");
        }
    }

    #[test]
    fn entries_are_sorted_with_one_field_on_a_line() {
        let text = write(&entries());
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        assert_eq!(lines.iter().filter(|line| line.contains(" = ")).count(), 1 + 9 + 6 + 5, "{text}");
        let at = |what: &str| lines.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("{text}"));
        assert!(at("crate") < at("path lib") && at("aarch64") < at("x86_64"), "{text}");
    }

    /// Reading a text that is truncated anywhere, or in which any byte is replaced, succeeds or returns an error.
    #[test]
    fn damaged_texts_are_read_or_refused() {
        let text = write(&entries());
        for at in 0..text.len() {
            let _ = parse(Path::new("passes.lock"), &text[..at]);
            for byte in ["[", "\"", "=", "9", "\n", "é"] {
                let _ = parse(Path::new("passes.lock"), &format!("{}{byte}{}", &text[..at], &text[at + 1..]));
            }
        }
    }

    #[test]
    fn lockfiles_have_the_name_of_their_manifest() {
        assert_eq!(path_of(Path::new("a/passes.toml")), Path::new("a/passes.lock"));
        assert_eq!(path_of(Path::new("x.lock")), Path::new("x.lock.lock"));
    }
}
