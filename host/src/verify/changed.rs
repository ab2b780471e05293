//! What a pass changed: the functions that have to be looked at again, and that their texts read as the same functions.

use crate::verify::KnownCalls;
use crate::verify::function::{Before, Callees, well_formed};
use crate::verify::{Kept, KeptParts, Unverified, Violation, of_module, verify_meta};
use passhost_lang::ir::{Body, Dict, Module};
use script::Operators;

/// Checks what `after` has and `before`, which was verified, did not have: that it is well-formed, and that its text reads
/// as the same.
///
/// # Errors
/// The first violation, in the order of the functions and of their nodes.
pub fn verify_changed(before: &Module, after: &Module, ops: &dyn Operators) -> Result<(), Violation> {
    verify_attributes(before, after, ops)?;
    let affected = affected(before, after, &mut KeptParts::new(&Unverified::default()));
    let rules = KnownCalls::new(ops, affected.len());
    affected.iter().try_for_each(|affected| affected.check(after, &rules))
}

/// Checks attributes and global infos that `before` did not have.
pub(crate) fn verify_attributes(before: &Module, after: &Module, ops: &dyn Operators) -> Result<(), Violation> {
    let (Some(new), old) = (after.meta(), before.meta()) else { return Ok(()) };
    if old.is_some_and(|old| old.same(new)) {
        return Ok(());
    }
    verify_meta(after)?;
    script::attributes_read_back(after, ops).map_err(|error| of_module(format!("attributes of the module: {error}")))
}

/// A function that has to be looked at after a pass.
pub(crate) struct Affected<'m> {
    name: &'m str,
    pub(crate) body: &'m Body,
    /// What it was before.
    before: Option<&'m Body>,
    kept: Kept,
    /// All of it; else only functions that it names may be other ones.
    whole: bool,
    /// It is new.
    new: bool,
}

impl Affected<'_> {
    /// Checks it as a function of `module`.
    pub(crate) fn check(&self, module: &Module, ops: &dyn Operators) -> Result<(), Violation> {
        match self.whole {
            true => {
                verify_result(Before { body: self.before, kept: Some(&self.kept) }, self.name, self.body, module, ops)
            }
            false => verify_globals(self.name, self.body, module),
        }
    }

    /// Its name and body, if it is new.
    pub(crate) fn changed(&self) -> Option<(&str, &Body)> {
        self.new.then_some((self.name, self.body))
    }
}

/// What has to be looked at once `before` became `after`, in the order of the functions.
pub(crate) fn affected<'m>(before: &'m Module, after: &'m Module, kept: &mut KeptParts<'_>) -> Vec<Affected<'m>> {
    if before.same(after) {
        return Vec::new();
    }
    // A changed set of functions, or a changed signature, can make calls in unchanged functions wrong.
    let same_devices = same_devices(before, after);
    let Some(pairs) = pairs(before, after).filter(|_| same_devices) else {
        let affected = |(name, body): (&'m str, &'m Body)| {
            let old = before.get(name);
            let new = !old.is_some_and(|old| old.same(body));
            // Types name devices by their place: what did not change may mean others now.
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

/// Whether the types of two modules name the same virtual devices and meshes.
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

/// The functions of two modules that have the same names, side by side; nothing if the names differ.
pub(crate) fn pairs<'m>(
    before: &'m Module,
    after: &'m Module,
) -> Option<impl Iterator<Item = (&'m str, &'m Body, &'m Body)> + Clone> {
    let both = before.functions().zip(after.functions());
    // Modules of which one was made from the other share their names.
    let same_names = both.clone().all(|((n, _), (m, _))| std::ptr::eq(n, m) || n == m);
    (before.len() == after.len() && same_names).then(|| both.map(|((_, old), (name, new))| (name, old, new)))
}

/// Checks one function that a pass returned: that it is well-formed, and that its text reads as the same function. Where
/// it returned something else than it declared `before`, it still may.
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

/// Checks only that the functions that `body` names are there with the types that it says.
fn verify_globals(name: &str, body: &Body, module: &Module) -> Result<(), Violation> {
    // Leaves that nothing uses any more stay in the table, so the uses decide.
    let mut callees = Callees::of(body);
    for user in body.values() {
        if let Some(message) = callees.fault(user, module) {
            return Err(Violation { function: name.to_string(), node: user.index().unwrap_or(0), message });
        }
    }
    match script::stale_callee(body, module) {
        Some(callee) => {
            let message = format!(
                "calls `{callee}` as the type that it had; its type changed: infer the types of its callers again"
            );
            Err(Violation { function: name.to_string(), node: 0, message })
        }
        None => Ok(()),
    }
}
