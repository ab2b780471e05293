//! Finds the functions that must be verified after a pass, and checks that their texts read as the same functions.

use crate::verify::KnownCalls;
use crate::verify::function::{Before, Callees, well_formed};
use crate::verify::{Kept, KeptParts, Unverified, Violation, of_module, verify_meta};
use passhost_lang::ir::{Body, Dict, Module};
use script::Operators;

/// Checks everything in `after` that is not in `before`, which was verified already: that it is well-formed, and that its text reads as the
/// same function.
///
/// # Errors
/// The first violation, in the order of the functions and of their nodes.
pub fn verify_changed(before: &Module, after: &Module, ops: &dyn Operators) -> Result<(), Violation> {
    verify_attributes(before, after, ops)?;
    let affected = affected(before, after, &mut KeptParts::new(&Unverified::default()));
    let rules = KnownCalls::new(ops, affected.len());
    affected.iter().try_for_each(|affected| affected.check(after, &rules))
}

/// Checks attributes and global infos of `after` that `before` does not contain.
pub(crate) fn verify_attributes(before: &Module, after: &Module, ops: &dyn Operators) -> Result<(), Violation> {
    let (Some(new), old) = (after.meta(), before.meta()) else { return Ok(()) };
    if old.is_some_and(|old| old.same(new)) {
        return Ok(());
    }
    verify_meta(after)?;
    script::attributes_read_back(after, ops).map_err(|error| of_module(format!("attributes of the module: {error}")))
}

/// A function that must be verified after a pass.
pub(crate) struct Affected<'m> {
    name: &'m str,
    pub(crate) body: &'m Body,
    /// The function before the pass.
    before: Option<&'m Body>,
    kept: Kept,
    /// True if the whole function must be checked; false if only the functions that it names may have changed.
    whole: bool,
    /// True if the function is new or changed.
    new: bool,
}

impl Affected<'_> {
    /// Checks the function as a part of `module`.
    pub(crate) fn check(&self, module: &Module, ops: &dyn Operators) -> Result<(), Violation> {
        match self.whole {
            true => {
                verify_result(Before { body: self.before, kept: Some(&self.kept) }, self.name, self.body, module, ops)
            }
            false => verify_globals(self.name, self.body, module),
        }
    }

    /// Returns the name and body of the function, if it is new or changed.
    pub(crate) fn changed(&self) -> Option<(&str, &Body)> {
        self.new.then_some((self.name, self.body))
    }
}

/// Returns the functions to verify after a pass turned `before` into `after`, in their order.
pub(crate) fn affected<'m>(before: &'m Module, after: &'m Module, kept: &mut KeptParts<'_>) -> Vec<Affected<'m>> {
    if before.same(after) {
        return Vec::new();
    }
    // A changed set of functions, or a changed signature, can invalidate calls in unchanged functions.
    let same_devices = same_devices(before, after);
    let Some(pairs) = pairs(before, after).filter(|_| same_devices) else {
        let affected = |(name, body): (&'m str, &'m Body)| {
            let old = before.get(name);
            let new = !old.is_some_and(|old| old.same(body));
            // Types refer to devices by index, so unchanged types may now refer to other devices.
            let (before, whole) = (old.filter(|_| same_devices), new || !same_devices);
            let kept = before.filter(|_| whole).map(|old| kept.take(old, body)).unwrap_or_default();
            Affected { name, body, before, kept, whole, new }
        };
        return after.functions().map(affected).collect();
    };
    let whole: Vec<bool> = pairs.clone().map(|(_, old, new)| !old.same(new)).collect();
    let other_type = |(_, old, new): (&str, &Body, &Body)| !old.root().ty().same(new.root().ty());
    let signatures_changed = pairs.clone().zip(&whole).any(|(pair, whole)| *whole && other_type(pair));
    let all = pairs.zip(whole).map(|((name, old, body), whole)| Affected {
        name,
        body,
        before: Some(old),
        kept: if whole { kept.take(old, body) } else { Kept::default() },
        whole,
        new: whole,
    });
    all.filter(|affected| affected.whole || signatures_changed).collect()
}

/// Returns true if the types of two modules refer to the same virtual devices and meshes.
fn same_devices(before: &Module, after: &Module) -> bool {
    match (before.meta(), after.meta()) {
        (None, None) => true,
        (Some(old), Some(new)) if old.same(new) => true,
        _ => {
            let infos = |module: &Module| module.global_infos().map(Dict::to_owned).unwrap_or_default();
            infos(before) == infos(after)
        }
    }
}

/// Pairs the functions of two modules by name. Returns `None` if the names differ.
pub(crate) fn pairs<'m>(
    before: &'m Module,
    after: &'m Module,
) -> Option<impl Iterator<Item = (&'m str, &'m Body, &'m Body)> + Clone> {
    let both = before.functions().zip(after.functions());
    // Modules share names if one was made from the other.
    let same_names = both.clone().all(|((n, _), (m, _))| std::ptr::eq(n, m) || n == m);
    (before.len() == after.len() && same_names).then(|| both.map(|((_, old), (name, new))| (name, old, new)))
}

/// Checks a function that a pass returned: that it is well-formed, and that its text reads as the same function. If it already contradicted
/// its declared result type before the pass, it may still do so.
///
/// # Errors
/// The first violation, in the order of the nodes.
fn verify_result(
    before: Before<'_>,
    name: &str,
    body: &Body,
    module: &Module,
    ops: &dyn Operators,
) -> Result<(), Violation> {
    if well_formed(before, name, body, module, ops, Some(ops))? {
        return Ok(());
    }
    script::reads_back(name, body, module, ops).map_err(|error| {
        let (function, node) = (name.to_string(), error.node.unwrap_or(0));
        Violation { function, node, message: error.to_string() }
    })
}

/// Checks only that the functions that `body` names exist with the expected types.
fn verify_globals(name: &str, body: &Body, module: &Module) -> Result<(), Violation> {
    // Unused leaves stay in the table, so only uses count.
    let mut callees = Callees::of(body);
    for user in body.values() {
        if let Some(message) = callees.fault(user, module) {
            return Err(Violation { function: name.to_string(), node: user.index().unwrap_or(0), message });
        }
    }
    match script::stale_callee(body, module) {
        Some(callee) => {
            let message = format!(
                "calls `{callee}` with its former type; the type has changed: infer the types of its callers again"
            );
            Err(Violation { function: name.to_string(), node: 0, message })
        }
        None => Ok(()),
    }
}
