//! What a plugin says of itself: owned records, as decoded from the metadata section of its file.
//!
//! The host lists, plans and checks with these alone, so no code of a plugin runs for that. Plugin authors never
//! build them: the export macro derives them from the declarations of the passes and operators.

mod allowed;
#[doc(hidden)]
pub mod decode;
mod tolerance;
mod value_text;
pub mod wire;

use crate::ir::nested::{Nests, Parts};
use crate::names::syntax::{ALL, is_full_name};
use semver::{Version, VersionReq};
use std::collections::HashSet;
use std::fmt::{self, Write};

pub use allowed::Allowed;
pub use tolerance::{NARROW_ROUNDINGS, Tolerance};

/// Everything in one metadata section.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginMeta {
    /// Name of the plugin, by convention the name of its crate.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// Version of the plugin API (the protocol) that it was built against.
    pub api: Version,
    /// Fingerprint of the layouts that cross the boundary.
    pub fingerprint: u64,
    /// Hash of the bytes that all this was read from; the code of the plugin has the same in memory.
    pub digest: u128,
    /// Target triple or architecture and system, as known at compile time.
    pub target: String,
    /// Compiler that built it; reported, never compared.
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
}

/// An enum whose numbers cross the boundary: back from a number. To leave out a variant is a compile error.
macro_rules! from_number {
    ($Ty:ident { $($variant:ident),* $(,)? }) => {
        impl $Ty {
            /// The one of that number.
            pub fn of(number: u8) -> Option<$Ty> {
                const ALL: &[$Ty] = &[$($Ty::$variant),*];
                const _: fn($Ty) = |one| match one { $($Ty::$variant => {})* };
                ALL.iter().copied().find(|one| *one as u8 == number)
            }
        }
    };
}

/// What a pass works on.
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
    /// What its members work on: a composite pass.
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

/// Facts of one pass (TVM's `PassInfo`, with contract, options and documentation).
#[derive(Clone, Debug, PartialEq)]
pub struct PassInfo {
    /// Full name, `namespace.Name`.
    pub name: String,
    /// Lowest opt_level of the context at which it runs when nothing else asks for it.
    pub opt_level: i32,
    /// Passes whose effect must hold before it, in order.
    pub required: Vec<Required>,
    /// As in TVM; carried, without effect.
    pub traceable: bool,
    /// Whether it must not work on two functions at a time.
    pub sequential: bool,
    /// What it works on.
    pub granularity: Granularity,
    /// What it needs, gives and keeps.
    pub contract: Contract,
    /// How far it may change what a module computes.
    pub tolerance: Tolerance,
    /// Its options with defaults.
    pub options: Vec<OptionInfo>,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

impl PassInfo {
    /// A pass of that name with nothing special: opt_level 0, requires nothing, promises nothing.
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

    /// Lines of the documentation as written, without the space behind `///`; indented code keeps its depth.
    pub fn doc_lines(&self) -> impl Iterator<Item = &str> {
        doc_lines(&self.doc)
    }

    /// First sentence of the documentation.
    pub fn summary(&self) -> String {
        summary(&self.doc)
    }

    /// What is wrong with `required` or its contract: the field, and why. Its name is looked at elsewhere.
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

/// What is wrong with the entries of `required` of a pass of that name.
pub(crate) fn wrong_required(name: &str, required: &[Required]) -> Option<String> {
    let mut seen = HashSet::new();
    required.iter().find_map(|entry| {
        if !is_full_name(&entry.name) {
            Some(no_full_name(&entry.name, "relax.Normalize"))
        } else if entry.name == name {
            Some("has the pass itself".to_string())
        } else if !seen.insert(&entry.name) {
            Some(format!("has `{}` twice", entry.name))
        } else {
            None
        }
    })
}

/// What is wrong with a list of a contract; `all` is in it only where that means something.
pub(crate) fn wrong_names(names: &[String], all: bool) -> Option<String> {
    let wrong = names.iter().find(|name| !(is_full_name(name) || all && *name == ALL))?;
    Some(no_full_name(wrong, "relax.anf"))
}

fn no_full_name(name: &str, right: &str) -> String {
    format!("has `{name}`, which is not a full name such as `{right}`")
}

/// Facts of one instrument.
#[derive(Clone, Debug, PartialEq)]
pub struct InstrumentInfo {
    /// Full name, `namespace.Name`.
    pub name: String,
    /// Its options with defaults.
    pub options: Vec<OptionInfo>,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

impl InstrumentInfo {
    /// Lines of the documentation as written, without the space behind `///`; indented code keeps its depth.
    pub fn doc_lines(&self) -> impl Iterator<Item = &str> {
        doc_lines(&self.doc)
    }

    /// First sentence of the documentation.
    pub fn summary(&self) -> String {
        summary(&self.doc)
    }
}

/// Lines of a documentation as written, without the space behind `///`; indented code keeps its depth.
pub fn doc_lines(doc: &str) -> impl Iterator<Item = &str> {
    let text = doc.trim_matches('\n');
    text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end())
}

/// First sentence of a documentation, on one line, or its first paragraph if that has no full stop.
pub fn summary(doc: &str) -> String {
    let lines = doc.lines().map(str::trim).skip_while(|line| line.is_empty());
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<&str>>().join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    paragraph[..end].to_string()
}

/// What of the metadata says whether the host and the plugin understand each other at all. A plugin of a newer plugin API
/// has these fields too, whatever else it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginHead {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: Version,
    /// Version of the plugin API (the protocol) that it was built against.
    pub api: Version,
    /// Fingerprint of the layouts that cross the boundary.
    pub fingerprint: u64,
}

/// An entry of `required`: a full name, and optionally a requirement on the plugin that provides it.
#[derive(Clone, Debug, PartialEq)]
pub struct Required {
    /// Full name of the pass.
    pub name: String,
    /// Requirement on the version of the providing plugin, as in `relax.Normalize (>= 0.2)`.
    pub version: Option<VersionReq>,
}

impl Required {
    /// Reads an entry: `relax.Normalize`, `relax.Normalize (>= 0.2)`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Required, String> {
        let (name, version) = match text.split_once(" (") {
            None => (text, None),
            Some((name, rest)) => {
                let req = rest.strip_suffix(')').and_then(|req| VersionReq::parse(req).ok());
                let why =
                    || format!("entry `{text}` has no version requirement in its brackets; as in `{name} (>= 0.2)`");
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

/// The contract of a pass, by names of properties (`relax.anf`) and, where it says so, of passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contract {
    /// Properties that must hold before it.
    pub requires: Vec<String>,
    /// Properties that hold after it.
    pub establishes: Vec<String>,
    /// Properties or passes that stay valid when it changes the module; `all` for every one.
    pub preserves: Vec<String>,
    /// Properties or passes that it makes invalid although `preserves` would keep them.
    pub invalidates: Vec<String>,
}

/// One option of a pass or an instrument, or one attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionInfo {
    /// Key, as written in `Name{key=value}`.
    pub name: String,
    /// Type of its value.
    pub ty: OptionType,
    /// Value when it is not given; `None`: must be given.
    pub default: Option<OptionValue>,
    /// Values that it may have.
    pub allowed: Allowed,
    /// Documentation.
    pub doc: String,
}

/// Type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OptionType {
    /// `true` or `false`.
    Bool = 0,
    /// A 64-bit integer.
    Int = 1,
    /// A 64-bit float; an integer is accepted.
    Float = 2,
    /// A string; quotes may be left out where it is a plain word.
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

/// Value of an option, a config key or an operator's attribute default.
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
    /// This value as one of type `ty`: integers widen to float, everything else must match. `None` if it does not.
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

/// As written in a pipeline: strings are bare where they are plain words, otherwise quoted with `\"` and `\\` escaped.
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

/// A string in quotes, on one line.
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

/// Whether a string can be in a pipeline without quotes: letters, digits, `_`, `.`, `-`, not starting like a
/// number, and not `true` or `false`.
pub fn is_plain_word(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
        && text != "true"
        && text != "false"
}

/// One operator: signature, attributes and purity.
#[derive(Clone, Debug, PartialEq)]
pub struct OpInfo {
    /// Full name, as in `relax.nn.conv2d`.
    pub name: String,
    /// Tensor (or tuple, shape) arguments in order.
    pub args: Vec<ArgInfo>,
    /// Attributes in printing order, with types and defaults as TVM's text form has them.
    pub attrs: Vec<AttrInfo>,
    /// Whether it has no effect.
    pub pure: bool,
    /// Documentation.
    pub doc: String,
}

/// One argument of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgInfo {
    /// Name.
    pub name: String,
    /// What the argument must be.
    pub kind: ArgKind,
    /// Whether it may be left out (from the right).
    pub optional: bool,
}

/// What an argument of an operator must be.
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
    /// What its value must be.
    pub ty: AttrType,
    /// Value when it is not written; `None`: must be written.
    pub default: Option<AttrDefault>,
    /// Whether it, and those after it, must be written with their names.
    pub by_name: bool,
}

/// Type of an operator's attribute.
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
    /// Anything that an attribute can hold.
    Any = 8,
    /// String, or `None`.
    OptStr = 9,
    /// As many integers as the default has. One integer, or a shorter list, stands for its repetition: a `padding` of
    /// `[1, 2]` is `[1, 2, 1, 2]`.
    RepeatedInts = 10,
}

/// Default of an operator's attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrDefault {
    /// `None`.
    None,
    /// A value.
    Value(OptionValue),
    /// The value of another attribute of the call; `None` means this, too.
    SameAs(String),
}

/// One config option.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigInfo {
    /// Key, `namespace.key`; more dots make a record of fields.
    pub name: String,
    /// Type of its value.
    pub ty: OptionType,
    /// Value when it is not set; `None`: it has none then.
    pub default: Option<OptionValue>,
    /// Values that it may have.
    pub allowed: Allowed,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

/// One property of Relax functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyInfo {
    /// Full name, as in `relax.anf`.
    pub name: String,
    /// Whether its plugin has a checker for it.
    pub checked: bool,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}

/// One composite pass: passes that run one after the other as one.
#[derive(Clone, Debug, PartialEq)]
pub struct CompositeInfo {
    /// Full name, `namespace.Name`.
    pub name: String,
    /// Lowest opt_level of the context at which it runs when nothing else asks for it.
    pub opt_level: i32,
    /// Passes whose effect must hold before it, in order.
    pub required: Vec<Required>,
    /// Its members in order, each as in a pipeline.
    pub members: Vec<String>,
    /// Documentation; the first sentence is the summary.
    pub doc: String,
}
