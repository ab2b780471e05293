//! Compares functions by the parts that affect their values. Attributes that do not affect execution are ignored, such as the kind of
//! operator that a pass recognized.

use super::units::PRIMITIVE;
use passhost_lang::PassError;
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Body, BodyKind, Value};
use runtime::Fault;
use runtime::program::{Program, lower, lower_strictly};
use runtime::vm::NUM_INPUT;

/// Attributes of Relax functions that affect which inputs are created and which functions are executed.
const LOOKED_AT: [&str; 2] = [PRIMITIVE, NUM_INPUT];

/// Returns true if two functions are known to execute in the same way.
pub(super) fn executes_same(a: &Body, b: &Body) -> bool {
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
