//! The reader state for one TIR function. Its methods are in the modules that read the parts of a function.

use crate::read::scope::Scope;
use crate::words::diagnostic::Diagnostic;
use foldhash::fast::RandomState;
use passhost_lang::ir::{Attr, BodyBuilder, DType, Sym, TypeId, V};
use ruff_python_ast::ExprCall;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A value of the function: expression, variable or buffer.
#[derive(Clone, Copy)]
pub(in crate::read) struct E {
    pub(super) v: V,
    pub(super) ty: TypeId,
    /// For a buffer, the data type of its elements.
    pub(super) dtype: DType,
    pub(super) is: Is,
    /// Number of nodes after the value was read, which is the place of its conversions.
    pub(super) end: u32,
}

/// The value does not have a place of its own; conversions are at the reader's current place.
pub(in crate::read) const HERE: u32 = u32::MAX;

/// The kind of a named value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum Is {
    Value,
    Buffer,
    /// A single-element buffer that is used by name.
    Scalar,
    /// An untyped literal, which takes the type of the other operand.
    Literal,
}

/// The start of a scope's names in the log.
pub(in crate::read) struct Mark(pub(super) usize);

/// The buffer of a parameter: its name, and the call with its type.
#[derive(Clone, Copy)]
pub(in crate::read) struct Matched<'a> {
    pub(super) name: &'a str,
    pub(super) call: &'a ExprCall,
}

/// Reads one TIR function.
pub(in crate::read) struct TirReader<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) b: BodyBuilder,
    pub(super) names: HashMap<&'a str, E, RandomState>,
    /// Values hidden by definitions, to be restored at the end of the scope.
    pub(super) log: Vec<(&'a str, Option<E>)>,
    /// The start of the names of the innermost schedulable block in the log.
    pub(super) block: usize,
    /// Type parameters of the function.
    pub(super) type_params: Vec<&'a str>,
    /// Name of the function, if it is not private.
    pub(super) public: Option<&'a str>,
    /// Symbolic variables by name: from the signature, and introduced by quoted shapes.
    pub(super) syms: HashMap<String, Sym, RandomState>,
    /// Symbolic variables that represent nodes, by operand word.
    pub(super) sym_of: BTreeMap<u32, Sym>,
    /// Data types of variables declared by the head of the body or by a parameter, for earlier shapes.
    pub(super) declared: HashMap<&'a str, DType, RandomState>,
    /// True where shapes introduce variables; elsewhere, they only mention existing variables.
    pub(super) in_signature: bool,
    pub(super) literals: HashMap<(i64, u32), V, RandomState>,
    pub(super) prim_types: HashMap<u32, TypeId, RandomState>,
    /// Start and extent of each loop variable, by operand word.
    pub(super) loops: BTreeMap<u32, (V, V)>,
    /// Conversions of values that were read before other values: their nodes, and their place.
    pub(super) runs: Vec<(Range<u32>, u32)>,
    /// True if the function consists of schedulable blocks.
    pub(super) s_tir: bool,
    /// True for the older syntax, in which `T.alloc_buffer` belongs to the block.
    pub(super) old: bool,
    pub(super) func_attrs: Vec<(String, Attr)>,
    pub(super) root: Option<V>,
    /// Parameters that are turned into buffers by a statement of the function.
    pub(super) matched: HashMap<&'a str, Matched<'a>>,
    /// True if a block does not declare its accesses.
    pub(super) unsaid: bool,
    pub(super) faults: Vec<Diagnostic>,
    /// Names that faulty statements would have defined.
    pub(super) poisoned: Vec<&'a str>,
}
