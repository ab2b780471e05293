//! Checks that need more than the records of a function: operators, types, symbolic variables and other functions. After a pass, also checks
//! that the text of each function reads as the same function.
//!
//! Scopes and single definitions are checked when a body is sealed. A-normal form is a property rather than an invariant, so it is not
//! checked here. Calls that were found correct are cached, so a repeated call costs one hash look-up.

mod changed;
pub mod declared_form;
mod function;
mod function_attrs;
mod kept;
mod known_calls;
mod plain;
mod plain_tir;
pub(crate) mod snapshot;
mod symbols;
mod tir;
mod tir_scopes;
pub(crate) mod undeclared;

pub use crate::verify::changed::verify_changed;
pub(crate) use crate::verify::changed::{Affected, affected, pairs, verify_attributes};
use crate::verify::function::{Before, well_formed};
pub(crate) use crate::verify::kept::{Kept, KeptParts, Unverified};
pub(crate) use crate::verify::known_calls::KnownCalls;
pub use crate::verify::plain_tir::is_plain as is_plain_prim_func;
pub use crate::verify::undeclared::{UndeclaredOperator, undeclared_operators};
use passhost_lang::ir::{Body, BodyKind, Module};
use passhost_lang::typing::operators::Infer;

/// A fault in a function, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", in_function(.function))]
pub struct Violation {
    /// Name of the function in its module; empty if the fault is in the module itself.
    pub function: String,
    /// Position of the node in its body.
    pub node: usize,
    /// The found and the expected value.
    pub message: String,
}

fn in_function(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("function `{name}`: ") }
}

/// Checks all functions of a module. Does not check that their texts read as the same functions, because they come from a text, or
/// [`verify_changed`] checked them.
///
/// # Errors
/// The first violation, in the order of the functions and of their nodes.
pub fn verify_module(module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    verify_meta(module)?;
    let rules = KnownCalls::new(infer, module.len());
    module.functions().try_for_each(|(name, body)| verify_function(name, body, module, &rules))
}

/// Checks all functions of a module that was read from text. As in TVM, a declared result type may contradict the returned value; the reader
/// warns of that.
///
/// # Errors
/// As for [`verify_module`].
pub fn verify_read(module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    let rules = KnownCalls::new(infer, module.len());
    module.functions().try_for_each(|(name, body)| {
        well_formed(Before { body: Some(body), kept: None }, name, body, module, &rules, None).map(drop)
    })
}

/// Checks that the functions and attributes of a module are of permitted kinds.
///
/// # Errors
/// The first invalid function or attribute, in the order of the functions.
pub fn verify_kinds(module: &Module) -> Result<(), Violation> {
    verify_meta(module)?;
    module.functions().try_for_each(|(name, body)| verify_kind(name, body))
}

fn verify_meta(module: &Module) -> Result<(), Violation> {
    match module.meta() {
        Some(meta) if meta.kind() != BodyKind::Module => Err(of_module(
            "its attributes are a function; set them with `ModuleEdit::set_attrs`, or use those of another module"
                .into(),
        )),
        _ => Ok(()),
    }
}

fn verify_kind(name: &str, body: &Body) -> Result<(), Violation> {
    let what = match body.kind() {
        BodyKind::Function | BodyKind::PrimFunc | BodyKind::Extern => return Ok(()),
        BodyKind::Module => "the attributes of a module",
        _ => "an unsupported kind of function",
    };
    let message = format!("is {what}; a module can contain only Relax functions, PrimFuncs and external functions");
    Err(Violation { function: name.to_string(), node: 0, message })
}

fn of_module(message: String) -> Violation {
    Violation { function: String::new(), node: 0, message }
}

/// Checks one function.
///
/// # Errors
/// The first violation, in the order of the nodes.
pub fn verify_function(name: &str, body: &Body, module: &Module, infer: &dyn Infer) -> Result<(), Violation> {
    well_formed(Before::default(), name, body, module, infer, None).map(drop)
}

#[cfg(test)]
mod tests;
