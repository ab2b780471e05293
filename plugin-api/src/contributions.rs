//! What a plugin can bring besides passes and operators: config options, properties, composite passes, instruments.

use crate::decl::OptionDecl;
use crate::instrument::NewInstrument;
use crate::meta::OptionType;
use crate::op::DefaultDecl;

/// Declarations of everything but passes and operators.
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
}

impl Contributions {
    /// Nothing.
    pub const NONE: Contributions = Contributions { config: &[], properties: &[], composites: &[], instruments: &[] };
}

/// One config option.
#[derive(Clone, Copy)]
pub struct ConfigDecl {
    /// Key, `namespace.key`; more dots make a record of fields.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
    /// Type of its value.
    pub ty: OptionType,
    /// Value when it is not set; `Required` and `None`: not set.
    pub default: DefaultDecl,
}

/// One property.
#[derive(Clone, Copy)]
pub struct PropertyDecl {
    /// Full name, `namespace.name`.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
}

/// One composite pass.
#[derive(Clone, Copy)]
pub struct CompositeDecl {
    /// Full name, `namespace.Name`.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
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
    /// Makes one for a run.
    pub new: NewInstrument,
}
