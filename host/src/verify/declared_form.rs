//! Converts the result of a pass to the form that a reader of its text would store: attributes and effects as operators declare them, and
//! calls at the current types of the called functions.

use crate::verify::{KeptParts, Unverified, pairs};
use passhost_lang::PassError;
use passhost_lang::ir::import::Importer;
use passhost_lang::ir::{Body, Call, Module, TypeId};
use passhost_lang::typing::infer_types::infer_types;
use passhost_lang::typing::operator_checks::{with_declared_attributes, with_effects_of_unknown};
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use passhost_lang::typing::relations::{Relation, relation};
use script::Operators;
use std::collections::BTreeMap;

/// Returns the module of a reader in the form that a reader of the printed text would store.
///
/// # Errors
/// As [`in_declared_form`].
pub(crate) fn read_in_declared_form(module: Module, ops: &dyn Operators) -> Result<Module, (String, PassError)> {
    let nothing = Module::new(std::iter::empty::<(&str, Body)>());
    in_declared_form(&nothing, module, ops, &mut KeptParts::new(&Unverified::default()))
}

/// Returns the result of a pass, with its changed functions and their callers in the form that a reader of the printed text would store.
/// Returns the same handle if nothing changes.
///
/// # Errors
/// If a changed function is invalid, or a call no longer fits the called function. Contains the function's name.
pub(crate) fn in_declared_form(
    before: &Module,
    after: Module,
    ops: &dyn Operators,
    kept: &mut KeptParts<'_>,
) -> Result<Module, (String, PassError)> {
    if before.same(&after) {
        return Ok(after);
    }
    let changed: Vec<(&str, Option<&Body>, &Body)> = match pairs(before, &after) {
        Some(pairs) => {
            pairs.filter(|(_, old, new)| !old.same(new)).map(|(name, old, new)| (name, Some(old), new)).collect()
        }
        None => after.functions().map(|(name, body)| (name, before.get(name), body)).collect(),
    };
    let mut edit = None;
    for (name, old, body) in changed.iter().filter(|(.., body)| body.function().is_some()) {
        let all_kept = old.is_some_and(|old| kept.of(old, body).has_all_calls(body));
        let declared = declared(body, all_kept, ops).map_err(|why| (name.to_string(), why))?;
        if !declared.same(body) {
            edit.get_or_insert_with(|| after.edit()).set(*name, declared);
        }
    }
    let types: Vec<(&str, &Body)> = changed
        .iter()
        .filter(|(_, old, new)| has_narrower_type(*old, new))
        .map(|(name, _, new)| (*name, *new))
        .collect();
    let declared = edit.map_or_else(|| after.clone(), |edit| edit.finish());
    if types.is_empty() { Ok(declared) } else { called_as(&declared, &types.into_iter().collect(), ops) }
}

/// Converts a function. Attributes of unchanged calls already have the declared form, but effects also depend on the
/// surrounding code.
fn declared(body: &Body, all_kept: bool, ops: &dyn Operators) -> Result<Body, PassError> {
    let body = if all_kept { body.clone() } else { with_declared_attributes(body, |op| ops.op_info(op))? };
    Ok(with_effects_of_unknown(&body, |op| ops.op_info(op))?)
}

/// Returns true if the new type of a Relax function can be used wherever the old type can. If the kind of type changed, the pass must
/// already have updated the callers.
fn has_narrower_type(old: Option<&Body>, new: &Body) -> bool {
    let (Some(was), Some(is)) = (old.and_then(Body::function), new.function()) else { return false };
    let (was, is) = (was.value().ty(), is.value().ty());
    if !was.is_known() || !is.is_known() || was.same(is) {
        return false;
    }
    let (was, is) = (was.to_owned(), is.to_owned());
    matches!(relation(&was, &is), Relation::Equal | Relation::Wider)
}

/// Updates calls of functions whose type changed, and the types of values that depend on them.
fn called_as(
    module: &Module,
    callees: &BTreeMap<&str, &Body>,
    ops: &dyn Operators,
) -> Result<Module, (String, PassError)> {
    let mut edit = module.edit();
    for (name, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
        let mut calls = body.edit();
        let mut types: BTreeMap<&str, TypeId> = BTreeMap::new();
        for user in body.values() {
            for (i, operand) in user.operands().enumerate() {
                let Some((callee, of)) = operand.as_global().and_then(|name| callees.get_key_value(name)) else {
                    continue;
                };
                // Symbolic variables of the type become variables of this function.
                let import = || Importer::of(of).ty(calls.builder(), of.root().ty());
                let ty = *types.entry(callee).or_insert_with(import);
                let callee = calls.builder().global_var(callee, ty);
                calls.set_operand(user, i, callee);
            }
        }
        if calls.is_dirty() {
            let called = calls.finish().map_err(PassError::from).and_then(|body| infer_types(&body, &Rules(ops)));
            edit.set(name, called.map_err(|why| (name.to_string(), why))?);
        }
    }
    Ok(edit.finish())
}

struct Rules<'o>(&'o dyn Operators);

impl Infer for Rules<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        self.0.infer(call)
    }
}
