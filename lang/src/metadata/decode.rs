//! Reads the metadata section: arbitrary bytes produce either records or an error that names the field.

use crate::metadata::wire::{self, FORMAT, Fields, MAGIC, read_value, tag};
use crate::metadata::*;
use crate::names::syntax::{is_full_name, is_option_name, is_plugin_name};
use semver::Version;
use std::collections::HashSet;
use xxhash_rust::xxh3::xxh3_128;

/// The reason why the metadata of a plugin cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// The section does not start with the magic bytes.
    #[error("its metadata starts with {:?} instead of \"PASSHOST\"", String::from_utf8_lossy(.found))]
    Magic {
        /// The bytes found instead.
        found: Vec<u8>,
    },
    /// The byte format has an unsupported version.
    #[error("its metadata has format {found}, but this host reads format {FORMAT}")]
    Format {
        /// The version found.
        found: u16,
    },
    /// A record ends early, or contains a wrong length.
    #[error("its metadata is truncated or has a wrong length, at byte {at} of {len} (in {within})")]
    Truncated {
        /// The position in the record.
        at: usize,
        /// The length of the record.
        len: usize,
        /// The record.
        within: String,
    },
    /// A field has invalid content.
    #[error("its metadata is wrong: field `{field}` of {within} {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// The record.
        within: String,
        /// The reason.
        why: String,
    },
    /// A declaration is not valid in this version of the plugin API. It was compiled with an older version, or not with the macros.
    #[error("its metadata is wrong: field `{field}` of {within} {why}")]
    Declared {
        /// The field.
        field: &'static str,
        /// The record.
        within: String,
        /// The reason.
        why: String,
    },
    /// Two declarations have the same name.
    #[error("two of its {what} are called `{name}`")]
    Twice {
        /// The kind of declaration.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A required field is missing.
    #[error("its metadata is wrong: {within} lacks the field `{field}`")]
    Missing {
        /// The field.
        field: &'static str,
        /// The record.
        within: String,
    },
}

impl MetaError {
    /// Returns advice on how to fix the error.
    pub fn help(&self) -> &'static str {
        match self {
            MetaError::Format { .. } => "use a host and a plugin with the same format",
            MetaError::Declared { .. } => "correct the declaration in the source of the plugin, and rebuild it",
            MetaError::Twice { .. } => "rename one of them in the source of the plugin, and rebuild it",
            _ => "rebuild it with `export_plugin!` of the plugin API of this host",
        }
    }
}

/// Returns the fields of a metadata section, and the length of the block that contains them; bytes after the block must be zero padding.
fn content(section: &[u8]) -> Result<(&[u8], usize), MetaError> {
    let start = || section[..section.len().min(MAGIC.len())].to_vec();
    let rest = section.strip_prefix(&MAGIC).ok_or_else(|| MetaError::Magic { found: start() })?;
    let cut = |at| MetaError::Truncated { at, len: section.len(), within: "the block".into() };
    let (format, rest) = rest.split_first_chunk::<2>().ok_or(cut(8))?;
    let found = u16::from_le_bytes(*format);
    if found != FORMAT {
        return Err(MetaError::Format { found });
    }
    let (len, rest) = rest.get(2..).and_then(|rest| rest.split_first_chunk::<4>()).ok_or(cut(10))?;
    let len = u32::from_le_bytes(*len) as usize;
    let content = rest.get(..len).ok_or(cut(16))?;
    if rest[len..].iter().any(|byte| *byte != 0) {
        let why = "is followed by other bytes; link only one plugin into each library".to_string();
        return Err(MetaError::Field { field: "block", within: "the section".into(), why });
    }
    Ok((content, section.len() - (rest.len() - len)))
}

impl PluginHead {
    /// Reads the fields of a metadata section that are the same in every version of the plugin API. Check the version first, because the
    /// other fields depend on it.
    ///
    /// # Errors
    /// An error that names the invalid field and the reason.
    pub fn decode(section: &[u8]) -> Result<PluginHead, MetaError> {
        head(&Record::plugin(content(section)?.0))
    }
}

impl PluginMeta {
    /// Reads all records of a metadata section.
    ///
    /// # Errors
    /// An error that names the invalid field and the reason.
    pub fn decode(section: &[u8]) -> Result<PluginMeta, MetaError> {
        let (content, len) = content(section)?;
        Ok(PluginMeta { digest: xxh3_128(&section[..len]), ..plugin(content)? })
    }
}

/// The description of a record in messages, formatted on demand.
#[derive(Clone)]
enum Within<'a> {
    Plugin,
    /// The kind of record, and its name.
    Named(&'static str, &'a str),
    /// A record without a readable name: its kind, its number, and the enclosing record.
    Numbered(&'static str, usize, String),
}

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Within::Plugin => f.write_str("the plugin"),
            Within::Named(what, name) => write!(f, "{what} `{name}`"),
            Within::Numbered(what, number, outer) => write!(f, "{what} {number} of {outer}"),
        }
    }
}

/// A record being read: its bytes, and its description in messages.
struct Record<'a> {
    bytes: &'a [u8],
    within: Within<'a>,
}

impl<'a> Record<'a> {
    fn plugin(bytes: &'a [u8]) -> Record<'a> {
        Record { bytes, within: Within::Plugin }
    }

    fn fields(&self) -> impl Iterator<Item = Result<(u16, &'a [u8]), MetaError>> + '_ {
        let len = self.bytes.len();
        Fields::new(self.bytes)
            .map(move |field| field.map_err(|at| MetaError::Truncated { at, len, within: self.within.to_string() }))
    }

    fn wrong(&self, field: &'static str, why: impl Into<String>) -> MetaError {
        MetaError::Field { field, within: self.within.to_string(), why: why.into() }
    }

    fn declared(&self, field: &'static str, why: impl Into<String>) -> MetaError {
        MetaError::Declared { field, within: self.within.to_string(), why: why.into() }
    }

    /// Builds the error for a number that only newer hosts support.
    fn unknown(&self, field: &'static str, number: u8) -> MetaError {
        self.wrong(field, format!("is {number}, which this host does not support"))
    }

    fn str(&self, field: &'static str, bytes: &[u8]) -> Result<String, MetaError> {
        let text = std::str::from_utf8(bytes).map_err(|_| self.wrong(field, "is not UTF-8"))?;
        Ok(text.to_string())
    }

    /// Returns the field if it is present.
    fn find(&self, tag: u16) -> Result<Option<&'a [u8]>, MetaError> {
        for item in self.fields() {
            let (found, bytes) = item?;
            if found == tag {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    fn first(&self, tag: u16, field: &'static str) -> Result<&'a [u8], MetaError> {
        self.find(tag)?.ok_or_else(|| MetaError::Missing { field, within: self.within.to_string() })
    }

    fn text(&self, tag: u16, field: &'static str) -> Result<String, MetaError> {
        self.str(field, self.first(tag, field)?)
    }

    fn array<const N: usize>(&self, tag: u16, field: &'static str) -> Result<[u8; N], MetaError> {
        self.sized(field, self.first(tag, field)?)
    }

    fn sized<const N: usize>(&self, field: &'static str, bytes: &[u8]) -> Result<[u8; N], MetaError> {
        bytes.try_into().map_err(|_| self.wrong(field, format!("has {} bytes, not {N}", bytes.len())))
    }

    /// Returns a flag that defaults to false.
    fn optional_flag(&self, tag: u16, field: &'static str) -> Result<bool, MetaError> {
        Ok(self.optional::<1>(tag, field)?.is_some_and(|flag| flag != [0]))
    }

    /// Returns the contents of all fields with a tag.
    fn all(&self, tag: u16) -> Result<Vec<&'a [u8]>, MetaError> {
        let mut out = Vec::new();
        for item in self.fields() {
            let (found, bytes) = item?;
            if found == tag {
                out.push(bytes);
            }
        }
        Ok(out)
    }

    fn texts(&self, tag: u16, field: &'static str) -> Result<Vec<String>, MetaError> {
        self.all(tag)?.into_iter().map(|bytes| self.str(field, bytes)).collect()
    }

    /// Returns the field if it is present.
    fn optional<const N: usize>(&self, tag: u16, field: &'static str) -> Result<Option<[u8; N]>, MetaError> {
        self.find(tag)?.map(|bytes| self.sized(field, bytes)).transpose()
    }

    /// Returns the name of a declaration, which must contain a namespace.
    fn full_name(&self, right: &str) -> Result<String, MetaError> {
        let name = self.text(tag::NAME, "name")?;
        if is_full_name(&name) {
            return Ok(name);
        }
        Err(self.declared("name", format!("is `{name}`; it must be `{right}`")))
    }

    /// Returns the entries of `required` of the pass or composite pass with the given name.
    fn required(&self, name: &str) -> Result<Vec<Required>, MetaError> {
        let mut required: Vec<Required> = Vec::new();
        for text in self.texts(tag::REQUIRED, "required")? {
            let entry = Required::parse(&text).map_err(|why| self.declared("required", why))?;
            required.push(entry);
        }
        match wrong_required(name, &required) {
            Some(why) => Err(self.declared("required", why)),
            None => Ok(required),
        }
    }

    /// Returns a list of a contract; the entry `all` is accepted only if the parameter `all` is true.
    fn names(&self, tag: u16, field: &'static str, all: bool) -> Result<Vec<String>, MetaError> {
        let names = self.texts(tag, field)?;
        match wrong_names(&names, all) {
            Some(why) => Err(self.declared(field, why)),
            None => Ok(names),
        }
    }

    /// Returns the default value, if any.
    fn default(&self) -> Result<Option<AttrDefault>, MetaError> {
        let Some(bytes) = self.find(tag::DEFAULT)? else { return Ok(None) };
        let read = match bytes {
            [wire::value::NONE] => Some(AttrDefault::None),
            [wire::value::SAME_AS, name @ ..] => {
                std::str::from_utf8(name).ok().map(|name| AttrDefault::SameAs(name.into()))
            }
            value => read_value(value).map(AttrDefault::Value),
        };
        read.map(Some).ok_or_else(|| self.wrong("default", "is not a value that this host can read"))
    }

    /// Returns the records of one kind inside this record. Each has a unique name that is valid in `name=value`.
    fn parts<T>(
        &self,
        tag: u16,
        what: &'static str,
        read: impl Fn(Record<'a>) -> Result<T, MetaError>,
        name: impl Fn(&T) -> &String,
    ) -> Result<Vec<T>, MetaError> {
        let parts = self.records(tag, what, read)?;
        let mut seen = HashSet::new();
        for name in parts.iter().map(name) {
            if !is_option_name(name) || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                return Err(
                    self.declared(what, format!("is called `{name}`; a name consists of letters, digits and `_`"))
                );
            }
            if !seen.insert(name) {
                return Err(self.declared(what, format!("has `{name}` twice")));
            }
        }
        drop(seen);
        Ok(parts)
    }

    fn records<T>(
        &self,
        tag: u16,
        what: &'static str,
        read: impl Fn(Record<'a>) -> Result<T, MetaError>,
    ) -> Result<Vec<T>, MetaError> {
        let mut out = Vec::new();
        for item in self.fields() {
            let (found, bytes) = item?;
            if found == tag {
                let name = Record { bytes, within: Within::Plugin }.find(tag::NAME).ok().flatten();
                let within = match name.and_then(|name| std::str::from_utf8(name).ok()) {
                    Some(name) => Within::Named(what, name),
                    None => Within::Numbered(what, out.len(), self.within.to_string()),
                };
                out.push(read(Record { bytes, within })?);
            }
        }
        Ok(out)
    }
}

fn head(record: &Record<'_>) -> Result<PluginHead, MetaError> {
    let version = |tag, field| {
        let text = record.text(tag, field)?;
        Version::parse(&text)
            .map_err(|error| record.wrong(field, format!("is `{text}`, which is not a version: {error}")))
    };
    Ok(PluginHead {
        name: record.text(tag::NAME, "name")?,
        version: version(tag::VERSION, "version")?,
        api: version(tag::API, "api")?,
        fingerprint: u64::from_le_bytes(record.array(tag::FINGERPRINT, "fingerprint")?),
    })
}

fn plugin(bytes: &[u8]) -> Result<PluginMeta, MetaError> {
    let record = Record::plugin(bytes);
    let PluginHead { name, version, api, fingerprint } = head(&record)?;
    if !is_plugin_name(&name) {
        let right = "it must be a crate name: letters, digits, `_`, `-` and `.`, as in `acme-passes`";
        return Err(record.declared("name", format!("is `{name}`; {right}")));
    }
    let meta = PluginMeta {
        name,
        version,
        api,
        fingerprint,
        digest: 0,
        target: record.text(tag::TARGET, "target")?,
        rustc: record.text(tag::RUSTC, "rustc")?,
        passes: record.records(tag::PASS, "pass", pass)?,
        operators: record.records(tag::OPERATOR, "operator", operator)?,
        config: record.records(tag::CONFIG, "config option", config)?,
        properties: record.records(tag::PROPERTY, "property", property)?,
        composites: record.records(tag::COMPOSITE, "composite pass", composite)?,
        instruments: record.records(tag::INSTRUMENT, "instrument", instrument)?,
        readers: record.records(tag::READER, "reader", format)?,
        writers: record.records(tag::WRITER, "writer", format)?,
    };
    let composites = meta.composites.iter().map(|composite| &composite.name);
    once("passes", meta.passes.iter().map(|pass| &pass.name).chain(composites))?;
    once("operators", meta.operators.iter().map(|operator| &operator.name))?;
    once("config options", meta.config.iter().map(|option| &option.name))?;
    once("properties", meta.properties.iter().map(|property| &property.name))?;
    once("instruments", meta.instruments.iter().map(|instrument| &instrument.name))?;
    once("readers", meta.readers.iter().map(|reader| &reader.name))?;
    once("writers", meta.writers.iter().map(|writer| &writer.name))?;
    Ok(meta)
}

/// Checks that each name occurs once.
fn once<'a>(what: &'static str, mut names: impl Iterator<Item = &'a String>) -> Result<(), MetaError> {
    let mut seen = HashSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => Err(MetaError::Twice { what, name: name.clone() }),
        None => Ok(()),
    }
}

fn pass(record: Record<'_>) -> Result<PassInfo, MetaError> {
    let name = record.full_name("namespace.Name")?;
    let [granularity] = record.array(tag::GRANULARITY, "granularity")?;
    let known = Granularity::of(granularity).filter(|known| *known != Granularity::Composite);
    let granularity = known.ok_or_else(|| record.unknown("granularity", granularity))?;
    Ok(PassInfo {
        required: record.required(&name)?,
        name,
        opt_level: i32::from_le_bytes(record.array(tag::OPT_LEVEL, "opt_level")?),
        traceable: record.array::<1>(tag::TRACEABLE, "traceable")? != [0],
        sequential: record.optional_flag(tag::SEQUENTIAL, "sequential")?,
        granularity,
        contract: Contract {
            requires: record.names(tag::REQUIRES, "requires", false)?,
            establishes: record.names(tag::ESTABLISHES, "establishes", false)?,
            preserves: record.names(tag::PRESERVES, "preserves", true)?,
            invalidates: record.names(tag::INVALIDATES, "invalidates", false)?,
        },
        tolerance: tolerance(&record)?,
        options: record.parts(tag::OPTION, "option", option, |option| &option.name)?,
        doc: record.text(tag::DOC, "doc")?,
    })
}

/// Returns the tolerance of a pass; without a tolerance, values must stay the same.
fn tolerance(record: &Record<'_>) -> Result<Tolerance, MetaError> {
    let Some(bytes) = record.optional::<17>(tag::TOLERANCE, "tolerance")? else { return Ok(Tolerance::Exact) };
    let [number, limits @ ..] = bytes;
    let (rtol, atol) = limits.split_at(8);
    let float = |bytes: &[u8]| f64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
    let tolerance =
        Tolerance::of(number, float(rtol), float(atol)).ok_or_else(|| record.unknown("tolerance", number))?;
    match tolerance.is_sensible() {
        true => Ok(tolerance),
        false => Err(record.declared("tolerance", "needs rtol from 0 to 1, and atol of 0 or more")),
    }
}

fn option(record: Record<'_>) -> Result<OptionInfo, MetaError> {
    let [ty] = record.array(tag::TYPE, "type")?;
    let ty = OptionType::of(ty).ok_or_else(|| record.unknown("type", ty))?;
    let default = match record.default()? {
        None => None,
        Some(AttrDefault::None | AttrDefault::SameAs(_)) => {
            return Err(record.wrong("default", format!("is None, which is not of type {ty}")));
        }
        Some(AttrDefault::Value(value)) => {
            let why = format!("is {value}, which is not of type {ty}");
            Some(value.coerce(ty).ok_or_else(|| record.wrong("default", why))?)
        }
    };
    let allowed = allowed(&record, ty)?;
    if let Some(default) = default.as_ref().filter(|default| !allowed.has(default)) {
        return Err(record.wrong("default", format!("is {default}, which is not in its range {allowed}")));
    }
    Ok(OptionInfo { name: record.text(tag::NAME, "name")?, ty, default, allowed, doc: record.text(tag::DOC, "doc")? })
}

fn operator(record: Record<'_>) -> Result<OpInfo, MetaError> {
    Ok(OpInfo {
        name: record.full_name("namespace.name")?,
        args: record.records(tag::ARG, "argument", argument)?,
        attrs: attributes(&record)?,
        pure: record.array::<1>(tag::PURE, "pure")? != [0],
        doc: record.text(tag::DOC, "doc")?,
    })
}

fn instrument(record: Record<'_>) -> Result<InstrumentInfo, MetaError> {
    let name = record.full_name("namespace.Name")?;
    let options = record.parts(tag::OPTION, "option", option, |option| &option.name)?;
    Ok(InstrumentInfo { name, options, doc: record.text(tag::DOC, "doc")? })
}

/// Decodes a reader or a writer.
fn format(record: Record<'_>) -> Result<FormatInfo, MetaError> {
    let example = record.find(tag::EXAMPLE)?.map(|bytes| record.str("example", bytes)).transpose()?;
    let info = FormatInfo {
        name: record.text(tag::NAME, "name")?,
        extensions: record.texts(tag::EXTENSION, "extension")?,
        begins: record.all(tag::BEGINS)?.into_iter().map(<[u8]>::to_vec).collect(),
        options: record.parts(tag::OPTION, "option", option, |option| &option.name)?,
        example: example.unwrap_or_default(),
        doc: record.text(tag::DOC, "doc")?,
    };
    match info.wrong() {
        Some((field, why)) => Err(record.declared(field, why)),
        None => Ok(info),
    }
}

fn argument(record: Record<'_>) -> Result<ArgInfo, MetaError> {
    let [kind] = record.array(tag::TYPE, "type")?;
    let kind = ArgKind::of(kind).ok_or_else(|| record.unknown("type", kind))?;
    let optional = record.array::<1>(tag::OPTIONAL, "optional")? != [0];
    Ok(ArgInfo { name: record.text(tag::NAME, "name")?, kind, optional })
}

fn attributes(operator: &Record<'_>) -> Result<Vec<AttrInfo>, MetaError> {
    let attrs = operator.parts(tag::ATTR, "attribute", attribute, |attribute| &attribute.name)?;
    let has_value =
        |name: &str| attrs.iter().any(|of| of.name == name && !matches!(of.default, Some(AttrDefault::SameAs(_))));
    let lost = |attr: &AttrInfo| matches!(&attr.default, Some(AttrDefault::SameAs(name)) if !has_value(name));
    match attrs.iter().find(|attr| lost(attr)) {
        Some(attr) => {
            Err(operator.wrong("default", format!("of `{}` does not name an attribute with its own value", attr.name)))
        }
        None => Ok(attrs),
    }
}

fn attribute(record: Record<'_>) -> Result<AttrInfo, MetaError> {
    let [ty] = record.array(tag::TYPE, "type")?;
    let ty = AttrType::of(ty).ok_or_else(|| record.unknown("type", ty))?;
    let by_name = record.optional::<1>(tag::BY_NAME, "by_name")?.is_some_and(|by_name| by_name != [0]);
    Ok(AttrInfo { name: record.text(tag::NAME, "name")?, ty, default: record.default()?, by_name })
}

fn config(record: Record<'_>) -> Result<ConfigInfo, MetaError> {
    let name = record.full_name("namespace.key")?;
    let OptionInfo { ty, default, allowed, doc, .. } = option(record)?;
    Ok(ConfigInfo { name, ty, default, allowed, doc })
}

/// Returns the allowed values of an option with the given type.
fn allowed(record: &Record<'_>, ty: OptionType) -> Result<Allowed, MetaError> {
    let end = |bytes: Option<[u8; 8]>, field| match (bytes, ty) {
        (None, _) => Ok(None),
        (Some(bytes), OptionType::Int) => Ok(Some(OptionValue::Int(i64::from_le_bytes(bytes)))),
        (Some(bytes), OptionType::Float) => Ok(Some(OptionValue::Float(f64::from_le_bytes(bytes)))),
        (Some(_), _) => Err(record.wrong(field, format!("is present, but a {ty} cannot have a range"))),
    };
    let from = end(record.optional(tag::FROM, "from")?, "from")?;
    let to = end(record.optional(tag::UP_TO, "up_to")?, "up_to")?;
    let Some(bytes) = record.find(tag::ONE_OF)? else {
        return Ok(if from.is_none() && to.is_none() { Allowed::All } else { Allowed::Range(from, to) });
    };
    let of_type = |value: OptionValue| {
        value.coerce(ty).ok_or_else(|| record.wrong("one_of", format!("has a value that is not of type {ty}")))
    };
    match read_value(bytes) {
        Some(OptionValue::List(values)) if values.is_whole() => {
            values.into_iter().map(of_type).collect::<Result<_, _>>().map(Allowed::OneOf)
        }
        _ => Err(record.wrong("one_of", "is not a list that this host can read")),
    }
}

fn property(record: Record<'_>) -> Result<PropertyInfo, MetaError> {
    Ok(PropertyInfo {
        name: record.full_name("namespace.name")?,
        checked: record.array::<1>(tag::CHECKED, "checked")? != [0],
        doc: record.text(tag::DOC, "doc")?,
    })
}

fn composite(record: Record<'_>) -> Result<CompositeInfo, MetaError> {
    let name = record.full_name("namespace.Name")?;
    Ok(CompositeInfo {
        required: record.required(&name)?,
        name,
        opt_level: i32::from_le_bytes(record.array(tag::OPT_LEVEL, "opt_level")?),
        members: record.texts(tag::MEMBER, "member")?,
        doc: record.text(tag::DOC, "doc")?,
    })
}
