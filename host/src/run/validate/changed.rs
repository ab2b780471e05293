//! Finds the functions that a pass changed, and selects the functions to execute for the change. Functions are compared by the parts
//! that affect their values. Attributes that do not affect execution are ignored, such as the kind of operator that a pass recognized.

use super::steps::ValidatedStep;
use super::units::{PRIMITIVE, Unit, is_entry, reach};
use super::verdict::Verdict;
use passhost_lang::PassError;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, BodyKind, Module, Value};
use passhost_lang::metadata::{Granularity, Tolerance};
use passhost_lang::names::{did_you_mean, nearest};
use runtime::Fault;
use runtime::program::{Program, lower, lower_strictly};
use runtime::vm::NUM_INPUT;
use std::collections::BTreeSet;

/// Attributes of Relax functions that affect which inputs are created and which functions are executed.
const LOOKED_AT: [&str; 2] = [PRIMITIVE, NUM_INPUT];

/// Returns the functions of a module that are executed differently in another module or are missing there.
pub(super) fn functions<'m>(before: &'m Module, after: &'m Module) -> Vec<&'m str> {
    let differs = |(name, body): &(&str, &Body)| match after.get(name) {
        Some(other) => !executes_same(body, other),
        None => true,
    };
    let gone = before.functions().filter(differs).map(|(name, _)| name);
    let new = after.functions().filter(|(name, _)| before.get(name).is_none()).map(|(name, _)| name);
    gone.chain(new).collect()
}

/// Returns the functions that show the effect of a pass. For a pass over PrimFuncs, these are the changed PrimFuncs. For any other pass,
/// these are the public Relax functions that reach a change, and changed functions that none of them reaches. `changed` is not empty.
/// Uncalled private functions that are added or removed are ignored.
///
/// # Errors
/// The verdict, if there is nothing to execute.
pub(super) fn units(step: &ValidatedStep, changed: &BTreeSet<&str>, only: Option<&str>) -> Result<Vec<Unit>, Verdict> {
    let (before, after) = (&step.before, &step.after);
    if let Some(name) = only {
        return match before.get(name).map(Body::kind) {
            Some(BodyKind::Function) => Ok(vec![Unit::Function(name.to_string())]),
            Some(BodyKind::PrimFunc) => Ok(vec![Unit::PrimFunc(name.to_string())]),
            _ => {
                let near = did_you_mean(&nearest(name, before.functions().map(|(name, _)| name)));
                Err(Verdict::NotValidated {
                    why: format!("the module before the pass does not contain a function `{name}`{near}"),
                })
            }
        };
    }
    let is = |name: &str, kind: BodyKind| before.get(name).is_some_and(|body| body.kind() == kind);
    let prim_funcs = || changed.iter().filter(|name| is(name, BodyKind::PrimFunc));
    if step.granularity == Granularity::PrimFunc && changed.len() == prim_funcs().count() {
        return Ok(prim_funcs().map(|name| Unit::PrimFunc(name.to_string())).collect());
    }
    let mut units = BTreeSet::new();
    let mut reached = BTreeSet::new();
    for (name, body) in before.functions().filter(|(_, body)| body.kind() == BodyKind::Function && is_entry(body)) {
        let all: BTreeSet<&str> = reach(before, name).union(&reach(after, name)).copied().collect();
        if !all.is_disjoint(changed) && body.function().is_some() {
            units.insert(Unit::Function(name.to_string()));
            reached.extend(all);
        }
    }
    for name in changed.iter().filter(|name| !reached.contains(*name)) {
        match before.get(name).map(Body::kind) {
            // An uncalled function may be removed.
            _ if after.get(name).is_none() && before.get(name).is_some_and(Body::is_private) => {}
            Some(BodyKind::Function) => drop(units.insert(Unit::Function(name.to_string()))),
            Some(BodyKind::PrimFunc) => drop(units.insert(Unit::PrimFunc(name.to_string()))),
            // A new function that no executable function reaches.
            _ => {}
        }
    }
    let is_out_of_reach = |name: &&str| {
        let sides = [before.get(name), after.get(name)];
        sides.iter().any(Option::is_none) && sides.into_iter().flatten().all(Body::is_private)
    };
    match units.is_empty() {
        false => Ok(units.into_iter().collect()),
        true if changed.iter().all(is_out_of_reach) => Err(Verdict::Unchanged),
        true => Err(Verdict::NotValidated { why: no_unit(step) }),
    }
}

fn no_unit(step: &ValidatedStep) -> String {
    match step.tolerance {
        Tolerance::Signature => "none of the functions has the same parameters before and after the pass".to_string(),
        _ => "none of the changed functions can be executed both before and after the pass".to_string(),
    }
}

/// Returns true if two functions are known to execute in the same way.
fn executes_same(a: &Body, b: &Body) -> bool {
    if a.same(b) || a.structural_eq(b) {
        return true;
    }
    match (a.kind(), b.kind()) {
        (BodyKind::PrimFunc, BodyKind::PrimFunc) => {
            let same = |lower: fn(&Body) -> Result<Program, Fault>| {
                lower(a).is_ok_and(|a| lower(b).is_ok_and(|b| a.executes_same(&b)))
            };
            // A `Select` and a conditional choice differ only where both values are evaluated.
            a.is_private() == b.is_private()
                && same(lower)
                && (!has_select(a) && !has_select(b) || same(lower_strictly))
        }
        (BodyKind::Function, BodyKind::Function) => plain(a).is_ok_and(|a| plain(b).is_ok_and(|b| a.structural_eq(&b))),
        _ => false,
    }
}

fn has_select(body: &Body) -> bool {
    body.values().any(|value| value.kind() == kind::SELECT)
}

/// Removes the ignored attributes from a Relax function and the functions nested in it.
fn plain(body: &Body) -> Result<Body, PassError> {
    let functions: Vec<Value<'_>> = body.values().filter(|value| value.as_function().is_some()).collect();
    let mut edit = body.edit();
    for function in functions {
        for (key, _) in function.attrs().iter().filter(|(key, _)| !LOOKED_AT.contains(key)) {
            edit.remove_attr(function, key);
        }
    }
    Ok(edit.finish()?)
}
