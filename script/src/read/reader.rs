//! The reader state for one function. Its methods are in the modules that read expressions, types and statements.

use crate::read::scope::Scope;
use foldhash::fast::RandomState;
use passhost_lang::ir::{Attr, AttrsId, BodyBuilder, Dim, Sym, TypeId, V};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A name in scope.
#[derive(Clone)]
pub(in crate::read) struct Local<'a> {
    pub(super) v: V,
    pub(super) span: Range<usize>,
    /// The previous meaning, if hidden by an inner scope.
    pub(super) outer: Option<Box<Local<'a>>>,
    pub(super) depth: usize,
    pub(super) life: std::marker::PhantomData<&'a ()>,
}

/// The kind of the open block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum Open {
    No,
    Block,
    /// A dataflow block that may have ended; a directly following dataflow block continues it.
    Dataflow,
}

/// Reads one function.
pub(crate) struct FnReader<'a> {
    pub(crate) scope: &'a Scope<'a>,
    pub(crate) b: BodyBuilder,
    pub(super) locals: HashMap<&'a str, Local<'a>, RandomState>,
    /// Names of each open scope, innermost last.
    pub(super) scopes: Vec<Vec<&'a str>>,
    /// The open block at each level.
    pub(super) blocks: Vec<Open>,
    pub(super) in_dataflow: bool,
    /// Names of the outputs of the enclosing dataflow block.
    pub(super) outputs: Vec<&'a str>,
    pub(crate) syms: HashMap<String, Sym, RandomState>,
    /// Variables of index maps, by name.
    pub(crate) index_syms: HashMap<&'a str, Sym, RandomState>,
    /// True if unknown names in dimensions become symbolic variables (in strings).
    pub(crate) implicit_syms: bool,
    pub(crate) types: HashMap<&'a str, TypeId, RandomState>,
    /// Names for the dimensions of shapes with unknown dimensions.
    pub(crate) named_dims: HashMap<V, Vec<Dim>, RandomState>,
    /// True if the type being read must have a shape, because it is the type of an allocation.
    pub(crate) exact_shapes: bool,
    /// True if the type being read mentions a variable.
    pub(crate) speaks_of_values: bool,
    pub(crate) calls: HashMap<Box<[u32]>, (TypeId, bool), RandomState>,
    pub(crate) globals: HashMap<&'a str, V, RandomState>,
    pub(crate) attrs: HashMap<&'a str, AttrsId, RandomState>,
    /// The operator for which an entry of `attrs` was checked.
    pub(crate) attrs_op: HashMap<AttrsId, String, RandomState>,
    pub(crate) operators: HashMap<&'a str, (&'a passhost_lang::metadata::OpInfo, V), RandomState>,
    /// Attributes of each open function.
    pub(super) func_attrs: Vec<Vec<(String, Attr)>>,
    /// Name of the function of the module, if it is not private.
    pub(super) public: Option<&'a str>,
    /// True for each open function that is declared pure.
    pub(super) pure: Vec<bool>,
    /// Names that were declared as `n = TypeVar("n")` above a local function.
    pub(super) local_type_vars: HashSet<&'a str, RandomState>,
    /// Names of the module, such as `cls`.
    pub(crate) modules: HashSet<&'a str, RandomState>,
    /// Calls of undeclared operators.
    pub(crate) opaque: HashSet<V, RandomState>,
    /// Functions called before their result type is known.
    pub(crate) later: HashSet<V, RandomState>,
    /// Scalar variables, with their symbolic variables.
    pub(super) scalars: HashMap<V, Sym, RandomState>,
    /// Number of parts of the types of all bindings.
    pub(super) parts: u64,
}
