//! The metadata of a plugin: owned records, decoded from the metadata section of its file.
//!
//! The host lists, plans and checks passes using only these records, without running plugin code. Plugin authors never build them: the
//! export macro derives them from the declarations of passes and operators.

mod allowed;
#[doc(hidden)]
pub mod decode;
mod tolerance;
mod value_text;
pub mod wire;

use crate::ir::nested::{Nests, Parts};
use crate::names::syntax::{ALL, TVMSCRIPT, TVMSCRIPT_EXTENSION, is_extension, is_format_name, is_full_name};
use semver::{Version, VersionReq};
use std::collections::HashSet;
use std::fmt::{self, Write};

pub use allowed::Allowed;
pub use tolerance::{NARROW_ROUNDINGS, Tolerance};

/// The complete content of a metadata section.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginMeta {
    /// The name of the plugin, by convention the name of its crate.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// The version of the plugin API (the protocol) that the plugin was built against.
    pub api: Version,
    /// The fingerprint of the layouts that cross the boundary.
    pub fingerprint: u64,
    /// The hash of the metadata bytes; the plugin's code contains the same hash.
    pub digest: u128,
    /// Target triple, or architecture and system, as known at compile time.
    pub target: String,
    /// The compiler that built the plugin; reported, never compared.
    pub rustc: String,
    /// Passes in the order of their declaration.
    pub passes: Vec<PassInfo>,
    /// Operators in the order of their declaration.
    pub operators: Vec<OpInfo>,
    /// Config options in the order of their declaration.
    pub config: Vec<ConfigInfo>,
    /// Properties in the order of their declaration.
    pub properties: Vec<PropertyInfo>,
    /// Composite passes in the order of their declaration.
    pub composites: Vec<CompositeInfo>,
    /// Instruments in the order of their declaration.
    pub instruments: Vec<InstrumentInfo>,
    /// Readers in the order of their declaration.
    pub readers: Vec<FormatInfo>,
    /// Writers in the order of their declaration.
    pub writers: Vec<FormatInfo>,
}

/// Defines an enum whose numbers cross the boundary, and the conversion from a number. Omitting a variant is a compile error.
macro_rules! from_number {
    ($Ty:ident { $($variant:ident),* $(,)? }) => {
        impl $Ty {
            /// Returns the variant whose number is `number`.
            pub fn of(number: u8) -> Option<$Ty> {
                const ALL: &[$Ty] = &[$($Ty::$variant),*];
                const _: fn($Ty) = |one| match one { $($Ty::$variant => {})* };
                ALL.iter().copied().find(|one| *one as u8 == number)
            }
        }
    };
}

/// The kind of IR object that a pass transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Granularity {
    /// The whole module.
    Module = 0,
    /// Each Relax function.
    Function = 1,
    /// Each dataflow block of each Relax function.
    DataflowBlock = 2,
    /// Each TIR PrimFunc.
    PrimFunc = 3,
    /// The objects that the members of a composite pass transform.
    Composite = 4,
}

from_number!(Granularity { Module, Function, DataflowBlock, PrimFunc, Composite });
from_number!(OptionType { Bool, Int, Float, Str, BoolList, IntList, FloatList, StrList });
from_number!(ArgKind { Any, Tensor, Tuple, Shape, Prim, Function });
from_number!(AttrType { Bool, Int, Float, Str, IntList, DType, OptInt, OptIntList, Any, OptStr, RepeatedInts });

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Granularity::Module => "module",
            Granularity::Function => "function",
            Granularity::DataflowBlock => "dataflow block",
            Granularity::PrimFunc => "PrimFunc",
            Granularity::Composite => "composite",
        })
    }
}

/// The declaration of one pass (TVM's `PassInfo`, with contract, options and documentation).
#[derive(Clone, Debug, PartialEq)]
pub struct PassInfo {
    /// Full name, `namespace.Name`.
    pub name: String,
    /// The lowest opt_level of the context at which the pass runs unless it is requested explicitly.
    pub opt_level: i32,
    /// Passes whose effect must hold before the pass runs, in order.
    pub required: Vec<Required>,
    /// TVM's flag `traceable`; stored, but without effect.
    pub traceable: bool,
    /// True if the pass must process one function at a time.
    pub sequential: bool,
    /// The kind of IR object that the pass transforms.
    pub granularity: Granularity,
    /// The properties that the pass requires, establishes and preserves.
    pub contract: Contract,
    /// The greatest change of computed values that the pass may cause.
    pub tolerance: Tolerance,
    /// Options of the pass with defaults.
    pub options: Vec<OptionInfo>,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

impl PassInfo {
    /// Returns a pass with defaults: opt_level 0, no requirements and an empty contract.
    pub fn new(name: &str) -> PassInfo {
        PassInfo {
            name: name.to_string(),
            opt_level: 0,
            required: Vec::new(),
            traceable: false,
            sequential: false,
            granularity: Granularity::Module,
            contract: Contract::default(),
            tolerance: Tolerance::Exact,
            options: Vec::new(),
            doc: String::new(),
        }
    }

    /// Iterates over the lines of the documentation as written, without the space after `///`; indented code keeps its indentation.
    pub fn doc_lines(&self) -> impl Iterator<Item = &str> {
        doc_lines(&self.doc)
    }

    /// Returns the first sentence of the documentation.
    pub fn summary(&self) -> String {
        summary(&self.doc)
    }

    /// Returns the invalid field of `required` or the contract, with the reason. The name of the pass is checked elsewhere.
    pub fn wrong(&self) -> Option<(&'static str, String)> {
        let Contract { requires, establishes, preserves, invalidates } = &self.contract;
        let required = wrong_required(&self.name, &self.required).map(|why| ("required", why));
        let lists = [
            ("requires", requires, false),
            ("establishes", establishes, false),
            ("preserves", preserves, true),
            ("invalidates", invalidates, false),
        ];
        let contract = || lists.into_iter().find_map(|(list, names, all)| Some((list, wrong_names(names, all)?)));
        let sensible = self.tolerance.is_sensible();
        let tolerance =
            || (!sensible).then(|| ("tolerance", "needs rtol from 0 to 1, and atol of 0 or more".to_string()));
        required.or_else(contract).or_else(tolerance)
    }
}

/// Returns the error in the entries of `required` of the pass with the given name.
pub(crate) fn wrong_required(name: &str, required: &[Required]) -> Option<String> {
    let mut seen = HashSet::new();
    required.iter().find_map(|entry| {
        if !is_full_name(&entry.name) {
            Some(no_full_name(&entry.name, "relax.Normalize"))
        } else if entry.name == name {
            Some("contains the pass itself".to_string())
        } else if !seen.insert(&entry.name) {
            Some(format!("has `{}` twice", entry.name))
        } else {
            None
        }
    })
}

/// Returns the error in a list of a contract; the entry `all` is accepted only if the parameter `all` is true.
pub(crate) fn wrong_names(names: &[String], all: bool) -> Option<String> {
    let wrong = names.iter().find(|name| !(is_full_name(name) || all && *name == ALL))?;
    Some(no_full_name(wrong, "relax.anf"))
}

fn no_full_name(name: &str, right: &str) -> String {
    format!("has `{name}`, which is not a full name such as `{right}`")
}

/// The declaration of one instrument.
#[derive(Clone, Debug, PartialEq)]
pub struct InstrumentInfo {
    /// Full name, `namespace.Name`.
    pub name: String,
    /// Options of the instrument with defaults.
    pub options: Vec<OptionInfo>,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

impl InstrumentInfo {
    /// Iterates over the lines of the documentation as written, without the space after `///`; indented code keeps its indentation.
    pub fn doc_lines(&self) -> impl Iterator<Item = &str> {
        doc_lines(&self.doc)
    }

    /// Returns the first sentence of the documentation.
    pub fn summary(&self) -> String {
        summary(&self.doc)
    }
}

/// Facts of one reader or writer of a file format.
#[derive(Clone, Debug, PartialEq)]
pub struct FormatInfo {
    /// Name of the format, such as `onnx`.
    pub name: String,
    /// Extensions of its files, in lower case and without the dot.
    pub extensions: Vec<String>,
    /// Byte sequences with which files of the format begin; empty for a writer.
    pub begins: Vec<Vec<u8>>,
    /// Options with defaults.
    pub options: Vec<OptionInfo>,
    /// An example command line, or empty.
    pub example: String,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

impl FormatInfo {
    /// First sentence of the documentation.
    pub fn summary(&self) -> String {
        summary(&self.doc)
    }

    /// Returns the first invalid field (the name or an extension), with the reason.
    pub fn wrong(&self) -> Option<(&'static str, String)> {
        if !is_format_name(&self.name) {
            return Some((
                "name",
                format!("is `{}`; it must be a word of lower-case letters, as in `onnx`", self.name),
            ));
        }
        if self.name == TVMSCRIPT {
            return Some(("name", format!("is `{TVMSCRIPT}`, the built-in format")));
        }
        let mut seen = HashSet::new();
        self.extensions.iter().find_map(|extension| {
            let why = if !is_extension(extension) {
                "it must be lower-case letters and digits, without a dot, as in `onnx`"
            } else if extension == TVMSCRIPT_EXTENSION {
                "it belongs to TVMScript, the built-in format"
            } else if !seen.insert(extension) {
                "it is listed twice"
            } else {
                return None;
            };
            Some(("extension", format!("is `{extension}`; {why}")))
        })
    }
}

/// Iterates over the lines of a doc comment as written, without the space after `///`; indented code keeps its
/// indentation.
pub fn doc_lines(doc: &str) -> impl Iterator<Item = &str> {
    let text = doc.trim_matches('\n');
    text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end())
}

/// Returns the first sentence of a doc comment on one line, or the first paragraph if it does not contain a full stop.
pub fn summary(doc: &str) -> String {
    let lines = doc.lines().map(str::trim).skip_while(|line| line.is_empty());
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<&str>>().join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    paragraph[..end].to_string()
}

/// The part of the metadata that decides whether the host and the plugin are compatible. Plugins built against newer plugin APIs also have
/// these fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginHead {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// The version of the plugin API (the protocol) that the plugin was built against.
    pub api: Version,
    /// The fingerprint of the layouts that cross the boundary.
    pub fingerprint: u64,
}

/// An entry of `required`: a full name, and optionally a version requirement on the plugin that provides it.
#[derive(Clone, Debug, PartialEq)]
pub struct Required {
    /// Full name of the pass.
    pub name: String,
    /// Requirement on the version of the providing plugin, as in `relax.Normalize (>= 0.2)`.
    pub version: Option<VersionReq>,
}

impl Required {
    /// Parses an entry: `relax.Normalize`, `relax.Normalize (>= 0.2)`.
    ///
    /// # Errors
    /// The reason why the entry is invalid.
    pub fn parse(text: &str) -> Result<Required, String> {
        let (name, version) = match text.split_once(" (") {
            None => (text, None),
            Some((name, rest)) => {
                let req = rest.strip_suffix(')').and_then(|req| VersionReq::parse(req).ok());
                let why =
                    || format!("entry `{text}` lacks a version requirement in its brackets, as in `{name} (>= 0.2)`");
                (name, Some(req.ok_or_else(why)?))
            }
        };
        if !is_full_name(name) {
            return Err(format!("entry `{text}` is not a full name such as `relax.Normalize`"));
        }
        Ok(Required { name: name.to_string(), version })
    }
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            None => f.write_str(&self.name),
            Some(version) => write!(f, "{} ({version})", self.name),
        }
    }
}

/// The contract of a pass, as names of properties (`relax.anf`) and, where noted, of passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// Properties that must hold before the pass.
    pub requires: Vec<String>,
    /// Properties that hold after the pass.
    pub establishes: Vec<String>,
    /// Properties or passes that stay valid when the pass changes the module; `all` for all of them.
    pub preserves: Vec<String>,
    /// Properties or passes that the pass invalidates even if `preserves` lists them.
    pub invalidates: Vec<String>,
}

/// One option of a pass or an instrument, or one attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionInfo {
    /// The key, as written in `Name{key=value}`.
    pub name: String,
    /// Type of its value.
    pub ty: OptionType,
    /// The default value; `None` if the option must be given.
    pub default: Option<OptionValue>,
    /// The allowed values.
    pub allowed: Allowed,
    /// Documentation.
    pub doc: String,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OptionType {
    /// `true` or `false`.
    Bool = 0,
    /// A 64-bit integer.
    Int = 1,
    /// A 64-bit float; an integer is accepted.
    Float = 2,
    /// A string; quotes may be omitted around a plain word.
    Str = 3,
    /// A list of booleans.
    BoolList = 4,
    /// A list of integers.
    IntList = 5,
    /// A list of floats.
    FloatList = 6,
    /// A list of strings.
    StrList = 7,
}

impl fmt::Display for OptionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionType::Bool => "bool",
            OptionType::Int => "int",
            OptionType::Float => "float",
            OptionType::Str => "string",
            OptionType::BoolList => "list of bool",
            OptionType::IntList => "list of int",
            OptionType::FloatList => "list of float",
            OptionType::StrList => "list of string",
        })
    }
}

/// The value of an option or a config key, or the default of an operator's attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(String),
    /// A list.
    List(Parts<OptionValue>),
}

impl Nests for OptionValue {
    fn depth(&self) -> u32 {
        if let OptionValue::List(items) = self { items.depth() } else { 0 }
    }

    fn size(&self) -> u32 {
        if let OptionValue::List(items) = self { items.size().saturating_add(1) } else { 1 }
    }
}

impl OptionValue {
    /// Converts the value to type `ty`: integers widen to float, all other types must match. Returns `None` on a mismatch.
    pub fn coerce(self, ty: OptionType) -> Option<OptionValue> {
        let element = match ty {
            OptionType::BoolList => OptionType::Bool,
            OptionType::IntList => OptionType::Int,
            OptionType::FloatList => OptionType::Float,
            OptionType::StrList => OptionType::Str,
            OptionType::Float => {
                return match self {
                    OptionValue::Int(v) => Some(OptionValue::Float(v as f64)),
                    OptionValue::Float(_) => Some(self),
                    _ => None,
                };
            }
            OptionType::Bool => return matches!(self, OptionValue::Bool(_)).then_some(self),
            OptionType::Int => return matches!(self, OptionValue::Int(_)).then_some(self),
            OptionType::Str => return matches!(self, OptionValue::Str(_)).then_some(self),
        };
        match self {
            OptionValue::List(items) if items.is_whole() => {
                items.into_iter().map(|item| item.coerce(element)).collect::<Option<_>>().map(OptionValue::List)
            }
            _ => None,
        }
    }
}

/// Writes the value as in a pipeline: strings are bare if they are plain words, otherwise quoted with `\"` and `\\` escaped.
impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Bool(v) => write!(f, "{v}"),
            OptionValue::Int(v) => write!(f, "{v}"),
            OptionValue::Float(v) => write!(f, "{v:?}"),
            OptionValue::Str(v) if is_plain_word(v) => f.write_str(v),
            OptionValue::Str(v) => write_quoted(f, v),
            OptionValue::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Writes a string in quotes, on one line.
fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '"' | '\\' => write!(f, "\\{c}")?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Returns true if a string can appear in a pipeline without quotes: a word of letters, digits, `_`, `.` and `-` that does not start like a
/// number, and is not `true` or `false`.
pub fn is_plain_word(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
        && text != "true"
        && text != "false"
}

/// One operator: signature, attributes and purity.
#[derive(Clone, Debug, PartialEq)]
pub struct OpInfo {
    /// Full name, such as `relax.nn.conv2d`.
    pub name: String,
    /// Tensor, tuple or shape arguments, in order.
    pub args: Vec<ArgInfo>,
    /// Attributes in printing order, with the types and defaults of TVMScript.
    pub attrs: Vec<AttrInfo>,
    /// True if the operator has no effects.
    pub pure: bool,
    /// Documentation.
    pub doc: String,
}

/// One argument of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgInfo {
    /// Name.
    pub name: String,
    /// The required kind of value.
    pub kind: ArgKind,
    /// True if the argument may be omitted; only trailing arguments may be.
    pub optional: bool,
}

/// The required kind of value of an operator's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ArgKind {
    /// A value of any type.
    Any = 0,
    /// A value of Tensor type.
    Tensor = 1,
    /// A value of Tuple type (of tensors).
    Tuple = 2,
    /// A value of Shape type.
    Shape = 3,
    /// A value of Prim type.
    Prim = 4,
    /// A function: a global, a closure or an external one.
    Function = 5,
}

/// One attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct AttrInfo {
    /// Key.
    pub name: String,
    /// The required type of its value.
    pub ty: AttrType,
    /// The value of an omitted attribute; `None` if it must not be omitted.
    pub default: Option<AttrDefault>,
    /// True if this attribute, and those after it, must be passed by name.
    pub by_name: bool,
}

/// The type of an operator's attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AttrType {
    /// Boolean.
    Bool = 0,
    /// Integer.
    Int = 1,
    /// Float.
    Float = 2,
    /// String.
    Str = 3,
    /// List of integers.
    IntList = 4,
    /// Data type, written as a string; `None` allowed.
    DType = 5,
    /// Integer or `None`.
    OptInt = 6,
    /// List of integers, or `None`.
    OptIntList = 7,
    /// Any attribute value.
    Any = 8,
    /// String, or `None`.
    OptStr = 9,
    /// A list of as many integers as in the default. A single integer or a shorter list is repeated: a `padding` of `[1, 2]` becomes `[1,
    /// 2, 1, 2]`.
    RepeatedInts = 10,
}

/// The default of an operator's attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrDefault {
    /// `None`.
    None,
    /// A value.
    Value(OptionValue),
    /// The value of another attribute of the call, also if the attribute is `None`.
    SameAs(String),
}

/// One config option.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigInfo {
    /// The key, `namespace.key`; further dots address fields of a record.
    pub name: String,
    /// Type of its value.
    pub ty: OptionType,
    /// The default value, if any.
    pub default: Option<OptionValue>,
    /// The allowed values.
    pub allowed: Allowed,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

/// One property of Relax functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyInfo {
    /// Full name, such as `relax.anf`.
    pub name: String,
    /// True if the plugin has a checker for the property.
    pub checked: bool,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

/// One composite pass: passes that run in sequence as one.
#[derive(Clone, Debug, PartialEq)]
pub struct CompositeInfo {
    /// Full name, `namespace.Name`.
    pub name: String,
    /// The lowest opt_level of the context at which the pass runs unless it is requested explicitly.
    pub opt_level: i32,
    /// Passes whose effect must hold before the pass runs, in order.
    pub required: Vec<Required>,
    /// Members of the composite pass in order, each as written in a pipeline.
    pub members: Vec<String>,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}
