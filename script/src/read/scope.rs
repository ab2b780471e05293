//! Facts shared by the readers of a module's functions.

use super::arguments;
use crate::Operators;
use crate::metadata::weights::{NoWeights, Weights};
use crate::metadata::{Metadata, Object};
use crate::words::devices::Devices;
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, is_name, span};
use passhost_lang::ir::Type;
use ruff_python_ast::Expr;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Options for reading a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// True if types may contradict each other: a call that does not match its operator or function stays untyped, and
    /// declared types are accepted. Verification detects contradictions.
    pub unchecked: bool,
    /// True if a parameter `a: T.handle` that is used only by `A = T.match_buffer(a, ...)` becomes the buffer `A`, as
    /// in TVM. Otherwise, the parameter remains a handle, and the buffer is derived from it.
    pub matched_parameters: bool,
}

/// The context of a function that is read on its own.
#[derive(Default)]
pub(crate) struct Around<'a> {
    /// Functions that it refers to, each with its type and the number of symbolic variables in this type.
    pub(crate) functions: BTreeMap<&'a str, (Type, u32)>,
    /// The virtual devices of its module.
    pub(crate) vdevices: Devices,
    /// Number of device meshes of its module.
    pub(crate) meshes: usize,
    /// Constants outside the text.
    pub(crate) weights: Option<&'a dyn Weights>,
    pub(crate) options: ReadOptions,
    /// True if the text was printed by the host.
    pub(crate) as_written: bool,
}

/// Facts shared by the functions of a module.
pub(crate) struct Scope<'a> {
    pub(crate) text: &'a str,
    pub(crate) ops: &'a dyn Operators,
    /// Type of each function of the module, with its number of symbolic variables.
    pub(crate) globals: BTreeMap<&'a str, (Type, u32)>,
    /// Names declared as `n = TypeVar("n")`.
    pub(crate) type_vars: BTreeSet<&'a str>,
    /// Name of the class that contains the module.
    pub(crate) class: &'a str,
    /// Global infos that types refer to.
    pub(crate) vdevices: Devices,
    /// Number of device meshes among the global infos.
    pub(crate) meshes: usize,
    /// Objects that the text refers to.
    pub(crate) metadata: Metadata,
    /// The file with the constants that the text names `weights["w0"]`, if any.
    pub(crate) weights_file: Option<&'a str>,
    pub(crate) weights: &'a dyn Weights,
    /// Undeclared operators, with their first call and number of calls.
    pub(crate) opaque: RefCell<BTreeMap<String, (Range<usize>, usize)>>,
    /// Declared results that contradict the returned values, by their positions.
    pub(crate) contradictions: RefCell<BTreeMap<usize, Diagnostic>>,
    /// Results needed by the current function that were unknown in its first reading.
    pub(crate) again: Again<'a>,
    pub(crate) options: ReadOptions,
    /// True if redundant parts are kept, because the host compares its own printed text with the result.
    pub(crate) as_written: bool,
}

/// The state for reading a function twice. This happens if the function calls another function whose result type is
/// not known yet. In the second reading, the call has its type, and its variable has the type `R.Any`, as in TVM.
#[derive(Default)]
pub(crate) struct Again<'a> {
    /// The functions called too early.
    pub(crate) later: BTreeSet<&'a str>,
    /// The function's own result type, if undeclared.
    pub(crate) result: Option<Type>,
}

impl<'a> Scope<'a> {
    /// Creates the initial scope of a text, without declarations.
    pub(super) fn of(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Scope<'a> {
        let Around { functions: globals, vdevices, meshes, weights, options, as_written } = around;
        Scope {
            text,
            ops,
            globals,
            type_vars: BTreeSet::new(),
            class: "Module",
            vdevices,
            meshes,
            metadata: Metadata::default(),
            weights_file: None,
            weights: weights.unwrap_or(&NoWeights),
            opaque: RefCell::default(),
            contradictions: RefCell::default(),
            again: Again::default(),
            options,
            as_written,
        }
    }

    /// Returns the metadata object that an expression refers to; `None` for other expressions.
    pub(crate) fn metadata(&self, expr: &Expr) -> Read<Option<Object>> {
        let Expr::Subscript(outer) = expr else { return Ok(None) };
        if let (Some(file), Expr::StringLiteral(name)) = (self.weights_file, &*outer.slice)
            && is_name(&outer.value, "weights")
        {
            let found = self.weights.tensor(file, name.value.to_str());
            let object = found.map(|(tensor, ty)| Some(Object::Tensor(tensor, ty)));
            return object.map_err(|why| Diagnostic::new(span(expr), why));
        }
        let Expr::Subscript(inner) = &*outer.value else { return Ok(None) };
        if !is_name(&inner.value, "metadata") {
            return Ok(None);
        }
        let (Expr::StringLiteral(key), Some(index)) = (&*inner.slice, arguments::int(&outer.slice)) else {
            let message = "expected an object such as metadata[\"ir.GenericConst\"][0]";
            return Err(Diagnostic::new(span(expr), message));
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let object = self.metadata.object(key.value.to_str(), index);
        object.map(Some).map_err(|why| Diagnostic::new(span(expr), why))
    }

    /// Reads the key of an attribute; a multi-line key is in the metadata.
    pub(crate) fn string(&self, expr: &Expr) -> Read<String> {
        if let Expr::StringLiteral(text) = expr {
            return Ok(text.value.to_str().to_string());
        }
        match self.metadata(expr)? {
            Some(Object::Str(text)) => Ok(text),
            _ => Err(Diagnostic::new(span(expr), "expected a string as the key")),
        }
    }
}
