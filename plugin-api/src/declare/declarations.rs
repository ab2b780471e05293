//! Declarations of a plugin as constants, and their encoding in the metadata section. Created by the macros.

use crate::PassError;
use crate::declare::contributions::Contributions;
use crate::declare::pass::{Batch, Ctx};
use crate::declare::range::RangeDecl;
use crate::ir::{Body, Module, Value};
use crate::metadata::wire::{FORMAT, MAGIC, Writer, tag, value};
use crate::metadata::{Granularity, OptionType, OptionValue, Tolerance};
pub use crate::names::syntax::is_full_name;
use crate::names::syntax::{ALL, is_option_name, is_plugin_name, is_required, required_name};
use crate::rewrite::Edit;
use crate::typing::operators::{DefaultDecl, OpDecl};

/// Version of the plugin API, that is, the version of this crate in which the interface between host and plugins last
/// changed. A host loads plugins of this and earlier versions. The metadata of a plugin contains the lowest version
/// that supports everything it uses ([`api_of`]), so that older hosts can also load it.
pub const API_VERSION: &str = "1.1.0";

/// Returns the lowest version of the plugin API that supports everything a plugin uses. Readers and writers need 1.1.
pub const fn api_of(plugin: &PluginDecl) -> &'static str {
    if plugin.more.has_formats() { API_VERSION } else { "1.0.0" }
}

/// Everything that a plugin contributes.
#[derive(Clone, Copy)]
pub struct PluginDecl {
    /// Name of the crate and the plugin.
    pub name: &'static str,
    /// Version of the crate and the plugin.
    pub version: &'static str,
    /// Passes.
    pub passes: &'static [&'static PassDecl],
    /// Operators.
    pub operators: &'static [OpDecl],
    /// All other contributions.
    pub more: Contributions,
}

impl PluginDecl {
    /// A plugin without contributions.
    pub const EMPTY: PluginDecl =
        PluginDecl { name: "", version: "0.0.0", passes: &[], operators: &[], more: Contributions::NONE };
}

/// One pass.
#[derive(Clone, Copy)]
pub struct PassDecl {
    /// Full name, `namespace.Name`.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
    /// Lowest opt_level at which the pass runs without being required.
    pub opt_level: i32,
    /// As in TVM; stored, but without effect.
    pub traceable: bool,
    /// True if the pass must process one function at a time.
    pub sequential: bool,
    /// Full names of passes, each optionally followed by a version requirement: `relax.Normalize (>= 0.2)`.
    pub required: &'static [&'static str],
    /// Required properties.
    pub requires: &'static [&'static str],
    /// Established properties.
    pub establishes: &'static [&'static str],
    /// Preserved properties and passes.
    pub preserves: &'static [&'static str],
    /// Invalidated properties and passes.
    pub invalidates: &'static [&'static str],
    /// The permitted change of computed values.
    pub tolerance: Tolerance,
    /// Options.
    pub options: &'static [OptionDecl],
    /// Body of the pass.
    pub run: RunFn,
}

/// One option.
#[derive(Clone, Copy)]
pub struct OptionDecl {
    /// Key.
    pub name: &'static str,
    /// Type.
    pub ty: OptionType,
    /// Default.
    pub default: DefaultDecl,
    /// Allowed values.
    pub range: RangeDecl,
    /// Documentation.
    pub doc: &'static str,
}

/// Body of a pass, by granularity. Options are in declaration order.
#[derive(Clone, Copy)]
pub enum RunFn {
    /// Whole module.
    Module(fn(&Module, &[OptionValue], &Ctx) -> Result<Module, PassError>),
    /// Each Relax function of a batch.
    Function(fn(&[OptionValue], &mut Batch<'_>)),
    /// Each dataflow block of each function of a batch.
    DataflowBlock(fn(&[OptionValue], &mut Batch<'_>)),
    /// Each PrimFunc of a batch.
    PrimFunc(fn(&[OptionValue], &mut Batch<'_>)),
}

impl RunFn {
    /// Returns the unit that the pass processes.
    pub const fn granularity(&self) -> Granularity {
        match self {
            RunFn::Module(_) => Granularity::Module,
            RunFn::Function(_) => Granularity::Function,
            RunFn::DataflowBlock(_) => Granularity::DataflowBlock,
            RunFn::PrimFunc(_) => Granularity::PrimFunc,
        }
    }
}

/// Runs a dataflow-block pass on every dataflow block of one function, outer blocks first.
pub fn each_dataflow_block(
    body: &Body,
    mut run: impl FnMut(&mut Edit<'_>, Value<'_>) -> Result<(), PassError>,
) -> Result<Body, PassError> {
    let mut blocks = body.values().filter(|value| value.kind() == crate::ir::records::kind::DATAFLOW).peekable();
    if blocks.peek().is_none() {
        return Ok(body.clone());
    }
    let mut edit = body.edit();
    for block in blocks {
        run(&mut edit, block)?;
    }
    Ok(edit.finish()?)
}

/// Facts about the build in the metadata.
pub(crate) struct Built {
    pub(crate) api: &'static str,
    pub(crate) fingerprint: u64,
    pub(crate) target: &'static str,
    pub(crate) rustc: &'static str,
}

pub(crate) const fn write_plugin<const N: usize>(w: &mut Writer<N>, plugin: &PluginDecl, built: &Built) {
    w.bytes(&MAGIC);
    w.bytes(&FORMAT.to_le_bytes());
    let at = w.open(0);
    w.field(tag::NAME, plugin.name.as_bytes());
    w.field(tag::VERSION, plugin.version.as_bytes());
    w.field(tag::API, built.api.as_bytes());
    w.field(tag::FINGERPRINT, &built.fingerprint.to_le_bytes());
    w.field(tag::TARGET, built.target.as_bytes());
    w.field(tag::RUSTC, built.rustc.as_bytes());
    let mut i = 0;
    while i < plugin.passes.len() {
        write_pass(w, plugin.passes[i]);
        i += 1;
    }
    let mut i = 0;
    while i < plugin.operators.len() {
        write_op(w, &plugin.operators[i]);
        i += 1;
    }
    crate::declare::contributions::write(w, &plugin.more);
    crate::declare::instrument::write(w, plugin.more.instruments);
    crate::declare::formats::write(w, plugin.more.readers, plugin.more.writers);
    w.close(at);
}

pub(crate) const fn write_strs<const N: usize>(w: &mut Writer<N>, tag: u16, items: &[&str]) {
    let mut i = 0;
    while i < items.len() {
        w.field(tag, items[i].as_bytes());
        i += 1;
    }
}

const fn write_pass<const N: usize>(w: &mut Writer<N>, pass: &PassDecl) {
    let at = w.open(tag::PASS);
    w.field(tag::NAME, pass.name.as_bytes());
    w.field(tag::DOC, pass.doc.as_bytes());
    w.field(tag::OPT_LEVEL, &pass.opt_level.to_le_bytes());
    w.field(tag::GRANULARITY, &[pass.run.granularity() as u8]);
    w.field(tag::TRACEABLE, &[pass.traceable as u8]);
    w.field(tag::SEQUENTIAL, &[pass.sequential as u8]);
    write_strs(w, tag::REQUIRED, pass.required);
    write_strs(w, tag::REQUIRES, pass.requires);
    write_strs(w, tag::ESTABLISHES, pass.establishes);
    write_strs(w, tag::PRESERVES, pass.preserves);
    write_strs(w, tag::INVALIDATES, pass.invalidates);
    write_tolerance(w, pass.tolerance);
    write_options(w, pass.options);
    w.close(at);
}

/// Writes nothing for an exact pass, like plugins from before tolerances existed.
const fn write_tolerance<const N: usize>(w: &mut Writer<N>, tolerance: Tolerance) {
    if matches!(tolerance, Tolerance::Exact) {
        return;
    }
    let (rtol, atol) = tolerance.limits();
    let at = w.open(tag::TOLERANCE);
    w.byte(tolerance.number());
    w.bytes(&rtol.to_bits().to_le_bytes());
    w.bytes(&atol.to_bits().to_le_bytes());
    w.close(at);
}

pub(crate) const fn write_options<const N: usize>(w: &mut Writer<N>, options: &[OptionDecl]) {
    let mut i = 0;
    while i < options.len() {
        let option = &options[i];
        let inner = w.open(tag::OPTION);
        w.field(tag::NAME, option.name.as_bytes());
        w.field(tag::TYPE, &[option.ty as u8]);
        write_default(w, &option.default);
        option.range.write(w);
        w.field(tag::DOC, option.doc.as_bytes());
        w.close(inner);
        i += 1;
    }
}

const fn write_op<const N: usize>(w: &mut Writer<N>, op: &OpDecl) {
    let at = w.open(tag::OPERATOR);
    w.field(tag::NAME, op.name.as_bytes());
    w.field(tag::DOC, op.doc.as_bytes());
    w.field(tag::PURE, &[op.pure as u8]);
    let mut i = 0;
    while i < op.args.len() {
        let arg = &op.args[i];
        let inner = w.open(tag::ARG);
        w.field(tag::NAME, arg.name.as_bytes());
        w.field(tag::TYPE, &[arg.kind as u8]);
        w.field(tag::OPTIONAL, &[arg.optional as u8]);
        w.close(inner);
        i += 1;
    }
    let mut i = 0;
    while i < op.attrs.len() {
        let attr = &op.attrs[i];
        let inner = w.open(tag::ATTR);
        w.field(tag::NAME, attr.name.as_bytes());
        w.field(tag::TYPE, &[attr.ty as u8]);
        write_default(w, &attr.default);
        if attr.by_name {
            w.field(tag::BY_NAME, &[1]);
        }
        w.close(inner);
        i += 1;
    }
    w.close(at);
}

pub(crate) const fn write_default<const N: usize>(w: &mut Writer<N>, default: &DefaultDecl) {
    if !matches!(default, DefaultDecl::Required) {
        write_value(w, tag::DEFAULT, default);
    }
}

/// Writes a value as a field: a byte for its kind, then the value or values.
pub(crate) const fn write_value<const N: usize>(w: &mut Writer<N>, field: u16, value: &DefaultDecl) {
    let at = w.open(field);
    match value {
        DefaultDecl::Required => {}
        DefaultDecl::None => w.byte(value::NONE),
        DefaultDecl::SameAs(attribute) => {
            w.byte(value::SAME_AS);
            w.bytes(attribute.as_bytes());
        }
        DefaultDecl::Bool(v) => w.bytes(&[value::BOOL, *v as u8]),
        DefaultDecl::Int(v) => {
            w.byte(value::INT);
            w.bytes(&v.to_le_bytes());
        }
        DefaultDecl::Float(v) => {
            w.byte(value::FLOAT);
            w.bytes(&v.to_bits().to_le_bytes());
        }
        DefaultDecl::Str(v) => {
            w.byte(value::STR);
            w.bytes(v.as_bytes());
        }
        DefaultDecl::Ints(items) => {
            w.byte(value::INTS);
            let mut i = 0;
            while i < items.len() {
                w.bytes(&items[i].to_le_bytes());
                i += 1;
            }
        }
        DefaultDecl::Floats(items) => {
            w.byte(value::FLOATS);
            let mut i = 0;
            while i < items.len() {
                w.bytes(&items[i].to_bits().to_le_bytes());
                i += 1;
            }
        }
        DefaultDecl::Bools(items) => {
            w.byte(value::BOOLS);
            let mut i = 0;
            while i < items.len() {
                w.byte(items[i] as u8);
                i += 1;
            }
        }
        DefaultDecl::Strs(items) => {
            w.byte(value::STRS);
            write_strs(w, tag::NAME, items);
        }
        // Evaluated at compile time, so the panic becomes a compile error of the plugin.
        _ => panic!("the metadata of a plugin cannot contain this kind of default"),
    }
    w.close(at);
}

impl PassDecl {
    /// Returns this declaration after checking its names and strings. Errors in a single pass are reported at its
    /// declaration.
    pub const fn checked(self) -> PassDecl {
        let name = self.name;
        if !is_full_name(name) {
            fail(&["`", name, "` is not the name of a pass: write `namespace.Name`, as in `acme.GroupConvolutions`"]);
        }
        if is_blank(self.doc) {
            fail(&["pass `", name, "` lacks documentation: write `/// What it does.` above its declaration"]);
        }
        check_required("pass", name, self.required);
        check_contract(name, "requires", self.requires, false);
        check_contract(name, "establishes", self.establishes, false);
        check_contract(name, "preserves", self.preserves, true);
        check_contract(name, "invalidates", self.invalidates, false);
        if !self.tolerance.is_sensible() {
            fail(&["`tolerance` of pass `", name, "` needs an rtol from 0 to 1, and an atol of 0 or more"]);
        }
        check_options("pass", name, self.options);
        self
    }
}

/// Checks that `required` of a pass or composite pass lists full names of other passes, without duplicates.
pub(crate) const fn check_required(what: &str, name: &str, required: &[&str]) {
    let mut i = 0;
    while i < required.len() {
        let entry = required[i];
        if !is_required(entry) {
            let right = "` is not a full name, alone or with a version: write it as in `relax.Normalize` or `relax.Normalize \
                         (>= 0.2)`";
            fail(&["`required` of ", what, " `", name, "`: `", entry, right]);
        }
        let other = required_name(entry);
        if same(other, name) {
            fail(&["`required` of ", what, " `", name, "` contains the pass itself; remove it"]);
        }
        let mut j = 0;
        while j < i {
            if same(required_name(required[j]), other) {
                fail(&["`required` of ", what, " `", name, "` has `", other, "` twice; remove one of them"]);
            }
            j += 1;
        }
        i += 1;
    }
}

/// Checks that a list in the contract of a pass contains full names, or `all` if that is allowed.
const fn check_contract(name: &str, list: &str, items: &[&str], all: bool) {
    let mut i = 0;
    while i < items.len() {
        if !(is_full_name(items[i]) || all && same(items[i], ALL)) {
            let right = if all {
                "` is not a full name such as `relax.anf`, and not `all`"
            } else {
                "` is not a full name: write it as in `relax.anf`"
            };
            fail(&["`", list, "` of pass `", name, "`: `", items[i], right]);
        }
        i += 1;
    }
}

/// Checks that the options of a pass or an instrument have distinct names that a pipeline can contain, and
/// documentation.
pub(crate) const fn check_options(what: &str, name: &str, options: &[OptionDecl]) {
    let mut i = 0;
    while i < options.len() {
        if is_blank(options[i].doc) {
            let said = "` lacks documentation: write `/// What it says.` above it";
            fail(&["option `", options[i].name, "` of ", what, " `", name, said]);
        }
        if !is_option_name(options[i].name) {
            let right = "` is not a name: write letters, digits and `_`, as in `max_groups`";
            fail(&["option `", options[i].name, "` of ", what, " `", name, right]);
        }
        options[i].range.check(&options[i].default, "option", options[i].name);
        let mut j = 0;
        while j < i {
            if same(options[j].name, options[i].name) {
                fail(&["`options` of ", what, " `", name, "` has `", options[i].name, "` twice; remove one of them"]);
            }
            j += 1;
        }
        i += 1;
    }
}

/// Checks the plugin as a whole at compile time.
pub(crate) const fn check(plugin: &PluginDecl) {
    if !is_plugin_name(plugin.name) {
        let right = "` is not the name of a plugin: write the name of a crate, with letters, digits, `_`, `-` and `.`, as in `acme-passes`";
        fail(&["`", plugin.name, right]);
    }
    crate::declare::instrument::check(plugin.more.instruments);
    crate::declare::formats::check(plugin.more.readers, plugin.more.writers);
    let mut i = 0;
    while i < plugin.passes.len() {
        let name = plugin.passes[i].name;
        let mut j = 0;
        while j < i {
            if same(plugin.passes[j].name, name) {
                fail(&["two passes of the plugin are called `", name, "`; rename one of them"]);
            }
            j += 1;
        }
        i += 1;
    }
    let mut i = 0;
    while i < plugin.operators.len() {
        let name = plugin.operators[i].name;
        if !is_full_name(name) {
            fail(&["`", name, "` is not the name of an operator: write `namespace.name`, as in `relax.nn.conv2d`"]);
        }
        let mut j = 0;
        while j < i {
            if same(plugin.operators[j].name, name) {
                fail(&["two operators of the plugin are called `", name, "`; rename one of them"]);
            }
            j += 1;
        }
        i += 1;
    }
    crate::declare::contributions::check(&plugin.more, plugin.passes);
}

/// Stops compilation with a message. Constant code cannot format strings, so the parts are joined here.
pub(crate) const fn fail(parts: &[&str]) -> ! {
    let mut text = [0; 512];
    let mut len = 0;
    let mut i = 0;
    while i < parts.len() {
        let part = parts[i].as_bytes();
        let mut j = 0;
        while j < part.len() && len < text.len() {
            text[len] = part[j];
            len += 1;
            j += 1;
        }
        i += 1;
    }
    match std::str::from_utf8(text.split_at(len).0) {
        Ok(text) => panic!("{}", text),
        Err(_) => panic!("a declaration of the plugin has a name that is too long"),
    }
}

pub(crate) const fn is_blank(text: &str) -> bool {
    text.as_bytes().trim_ascii().is_empty()
}

pub(crate) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
