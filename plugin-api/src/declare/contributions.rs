//! Further contributions of a plugin, besides passes and operators: config options, properties, composite passes,
//! instruments, readers and writers.

use crate::PassError;
use crate::declare::declarations::OptionDecl;
use crate::declare::declarations::{check_required, fail, is_blank, is_full_name, same, write_default, write_strs};
use crate::declare::formats::{ReaderDecl, WriterDecl};
use crate::declare::instrument::NewInstrument;
use crate::declare::options::OptionField;
use crate::declare::pass::Ctx;
use crate::declare::range::RangeDecl;
use crate::ir::Body;
use crate::metadata::wire::{Writer, tag};
use crate::metadata::{OptionType, OptionValue};
use crate::names::syntax::is_record_of;
use crate::typing::operators::DefaultDecl;
use std::marker::PhantomData;

/// Declarations of all contributions except passes and operators.
#[derive(Clone, Copy)]
pub struct Contributions {
    /// Config options.
    pub config: &'static [&'static ConfigDecl],
    /// Properties.
    pub properties: &'static [&'static PropertyDecl],
    /// Composite passes.
    pub composites: &'static [&'static CompositeDecl],
    /// Instruments.
    pub instruments: &'static [&'static InstrumentDecl],
    /// Readers of file formats.
    pub readers: &'static [&'static ReaderDecl],
    /// Writers of file formats.
    pub writers: &'static [&'static WriterDecl],
}

impl Contributions {
    /// No contributions.
    pub const NONE: Contributions =
        Contributions { config: &[], properties: &[], composites: &[], instruments: &[], readers: &[], writers: &[] };

    /// Returns true if there are readers or writers, which plugin API 1.0 does not support.
    pub(crate) const fn has_formats(&self) -> bool {
        !self.readers.is_empty() || !self.writers.is_empty()
    }
}

/// A config option whose value is a `T`, or an `Option` without a default; created by
/// [`declare_config!`](crate::declare_config).
#[derive(Clone, Copy)]
pub struct Config<T> {
    /// Declaration of the option.
    pub decl: ConfigDecl,
    value: PhantomData<fn() -> T>,
}

/// The declaration of a config option.
#[derive(Clone, Copy)]
pub struct ConfigDecl {
    /// Key, `namespace.key`; further dots address fields of a record.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
    /// Type of the value.
    pub ty: OptionType,
    /// Default value; `Required` and `None` mean that there is no default.
    pub default: DefaultDecl,
    /// Allowed values.
    pub range: RangeDecl,
}

/// The checker of a property. It returns an error if a function lacks the property.
pub type CheckFn = fn(&Body, &Ctx) -> Result<(), PassError>;

/// One property of Relax functions.
#[derive(Clone, Copy)]
pub struct PropertyDecl {
    /// Full name, `namespace.name`.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
    /// Checker of the property.
    pub check: Option<CheckFn>,
}

/// One composite pass.
#[derive(Clone, Copy)]
pub struct CompositeDecl {
    /// Full name, `namespace.Name`.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
    /// Lowest opt_level at which the pass runs without being required.
    pub opt_level: i32,
    /// Full names of passes, each optionally followed by a version requirement, as in
    /// [`PassDecl`](crate::declare::declarations::PassDecl).
    pub required: &'static [&'static str],
    /// Members of the composite pass in order, each as in a pipeline: `acme.Fold{times=2}`.
    pub passes: &'static [&'static str],
}

/// One instrument.
#[derive(Clone, Copy)]
pub struct InstrumentDecl {
    /// Full name, `namespace.Name`.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
    /// Options.
    pub options: &'static [OptionDecl],
    /// Creates an instrument for a run.
    pub new: NewInstrument,
}

impl<T> Config<T> {
    /// Creates an option; called by `declare_config!`.
    #[doc(hidden)]
    pub const fn new(decl: ConfigDecl) -> Config<T> {
        Config { decl, value: PhantomData }
    }

    /// Returns the key, `namespace.key`.
    pub const fn name(&self) -> &'static str {
        self.decl.name
    }
}

impl<T: OptionField> Config<T> {
    /// Returns the value in a context: the user's value, otherwise the default.
    ///
    /// # Panics
    /// If the host passes a value of a different type, which it rules out before a run.
    pub fn get(&self, ctx: &Ctx) -> T {
        let value = ctx.config(self.name()).or_else(|| self.decl.default.value());
        value.as_ref().and_then(T::from_value).unwrap_or_else(|| self.mistyped(value.as_ref()))
    }
}

impl<T: OptionField> Config<Option<T>> {
    /// Returns the user's value in a context; `None` if it is not set.
    ///
    /// # Panics
    /// If the host passes a value of a different type, which it rules out before a run.
    pub fn get(&self, ctx: &Ctx) -> Option<T> {
        let value = ctx.config(self.name())?;
        Some(T::from_value(&value).unwrap_or_else(|| self.mistyped(Some(&value))))
    }
}

impl<T> Config<T> {
    #[expect(clippy::panic, reason = "the host checks each value before a run, so this is a bug in passhost")]
    fn mistyped(&self, value: Option<&OptionValue>) -> ! {
        let value = value.map_or_else(|| "no value".to_string(), |value| format!("`{value}`"));
        panic!("the host passed {value} for config option `{}`, which is a {}", self.name(), self.decl.ty)
    }
}

impl ConfigDecl {
    /// Returns this declaration after checking its name, strings and numbers.
    pub const fn checked(self) -> ConfigDecl {
        let name = self.name;
        if !is_full_name(name) {
            fail(&["`", name, "` is not a config key: write `namespace.key`, as in `acme.limit`"]);
        }
        if is_blank(self.doc) {
            fail(&["config option `", name, "` lacks documentation: write `/// What it says.` above its declaration"]);
        }
        self.range.check(&self.default, "config option", name);
        self
    }
}

impl PropertyDecl {
    /// Returns this declaration after checking its name and documentation.
    pub const fn checked(self) -> PropertyDecl {
        let name = self.name;
        if !is_full_name(name) {
            fail(&["`", name, "` is not the name of a property: write `namespace.name`, as in `relax.anf`"]);
        }
        if is_blank(self.doc) {
            fail(&["property `", name, "` lacks documentation: write `/// What holds.` above its declaration"]);
        }
        self
    }
}

impl CompositeDecl {
    /// Returns this declaration after checking its names and strings.
    pub const fn checked(self) -> CompositeDecl {
        let name = self.name;
        if !is_full_name(name) {
            fail(&["`", name, "` is not the name of a composite pass: write `namespace.Name`, as in `acme.Cleanup`"]);
        }
        if is_blank(self.doc) {
            fail(&["composite pass `", name, "` lacks documentation: write `/// What it does.` above its declaration"]);
        }
        check_required("composite pass", name, self.required);
        if self.passes.is_empty() {
            fail(&["`passes` of composite pass `", name, "` is empty: name at least one pass"]);
        }
        let mut i = 0;
        while i < self.passes.len() {
            let entry = self.passes[i];
            if !is_member(entry) {
                let right =
                    "` is not the full name of a pass: write it as in `relax.Normalize` or `acme.Fold{times=2}`";
                fail(&["`passes` of composite pass `", name, "`: `", entry, right]);
            }
            if same(member_name(entry), name) {
                fail(&["`passes` of composite pass `", name, "` contains the composite pass itself"]);
            }
            i += 1;
        }
        self
    }
}

/// Returns the name in an entry of a composite pass.
const fn member_name(entry: &str) -> &str {
    let bytes = entry.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'{' {
            return entry.split_at(i).0;
        }
        i += 1;
    }
    entry
}

/// Returns true if an entry is a full name, optionally followed by braces.
const fn is_member(entry: &str) -> bool {
    let (bytes, name) = (entry.as_bytes(), member_name(entry));
    is_full_name(name) && (name.len() == entry.len() || bytes[bytes.len() - 1] == b'}')
}

/// Checks all declarations together at compile time. `passes` lists the passes of the plugin.
pub(crate) const fn check(more: &Contributions, passes: &[&crate::declare::declarations::PassDecl]) {
    let mut i = 0;
    while i < more.config.len() {
        let mut j = 0;
        while j < i {
            let (first, second) = (more.config[j].name, more.config[i].name);
            if same(first, second) {
                fail(&["two config options of the plugin are called `", first, "`; rename one of them"]);
            }
            if is_record_of(first, second) || is_record_of(second, first) {
                fail(&[
                    "config options `",
                    first,
                    "` and `",
                    second,
                    "`: a key that is a prefix of other keys is a record and has no value; rename one of them",
                ]);
            }
            j += 1;
        }
        i += 1;
    }
    let mut i = 0;
    while i < more.properties.len() {
        let mut j = 0;
        while j < i {
            if same(more.properties[j].name, more.properties[i].name) {
                let name = more.properties[i].name;
                fail(&["two properties of the plugin are called `", name, "`; rename one of them"]);
            }
            j += 1;
        }
        i += 1;
    }
    let mut i = 0;
    while i < more.composites.len() {
        let name = more.composites[i].name;
        let (mut j, mut twice) = (0, false);
        while j < i {
            twice |= same(more.composites[j].name, name);
            j += 1;
        }
        let mut j = 0;
        while j < passes.len() {
            twice |= same(passes[j].name, name);
            j += 1;
        }
        if twice {
            fail(&["two passes of the plugin are called `", name, "`; rename one of them"]);
        }
        i += 1;
    }
}

/// Writes the declarations into the metadata block.
pub(crate) const fn write<const N: usize>(w: &mut Writer<N>, more: &Contributions) {
    let mut i = 0;
    while i < more.config.len() {
        write_config(w, more.config[i]);
        i += 1;
    }
    let mut i = 0;
    while i < more.properties.len() {
        let property = more.properties[i];
        let at = w.open(tag::PROPERTY);
        w.field(tag::NAME, property.name.as_bytes());
        w.field(tag::DOC, property.doc.as_bytes());
        w.field(tag::CHECKED, &[property.check.is_some() as u8]);
        w.close(at);
        i += 1;
    }
    let mut i = 0;
    while i < more.composites.len() {
        let composite = more.composites[i];
        let at = w.open(tag::COMPOSITE);
        w.field(tag::NAME, composite.name.as_bytes());
        w.field(tag::DOC, composite.doc.as_bytes());
        w.field(tag::OPT_LEVEL, &composite.opt_level.to_le_bytes());
        write_strs(w, tag::REQUIRED, composite.required);
        write_strs(w, tag::MEMBER, composite.passes);
        w.close(at);
        i += 1;
    }
}

const fn write_config<const N: usize>(w: &mut Writer<N>, config: &ConfigDecl) {
    let at = w.open(tag::CONFIG);
    w.field(tag::NAME, config.name.as_bytes());
    w.field(tag::DOC, config.doc.as_bytes());
    w.field(tag::TYPE, &[config.ty as u8]);
    if !matches!(config.default, DefaultDecl::None) {
        write_default(w, &config.default);
    }
    config.range.write(w);
    w.close(at);
}
