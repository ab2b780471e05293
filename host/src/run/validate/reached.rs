//! Tracks which branches and statements the inputs reach. Code that no input reaches is not validated.

use super::steps::ValidatedStep;
use super::units::{Unit, reach};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{BodyKind, Module};
use runtime::Kernel;
use runtime::vm::{Binding, Kernels, Observer};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A branch of an If: the function, the node of the If, and true for the branch taken if its condition holds.
type Branch = (String, u32, bool);

/// The branches that a run executed.
#[derive(Clone, Debug, Default)]
pub(super) struct Branches(BTreeSet<Branch>);

impl Observer for Branches {
    fn branches(&mut self, binding: &Binding<'_>, holds: bool) {
        self.0.insert((binding.function().to_string(), binding.binding().word(), holds));
    }
}

/// Code that no input has reached yet: branches of the executed functions before and after the pass, and statements and choices of the
/// PrimFuncs that it changed.
pub(super) struct Unreached {
    before: BTreeSet<Branch>,
    after: BTreeSet<Branch>,
    prim_funcs: Vec<(String, Arc<dyn Kernel>)>,
    /// Total number of branches.
    branches: usize,
    /// True if a function contains an assertion.
    asserts: bool,
}

impl Unreached {
    pub(super) fn of(step: &ValidatedStep, unit: &Unit, changed: &BTreeSet<&str>, kernels: &Kernels) -> Unreached {
        let (before, after) = (branches(&step.before, unit), branches(&step.after, unit));
        let mut prim_funcs = Vec::new();
        for module in [&step.before, &step.after] {
            for name in reach(module, unit.name()).intersection(changed) {
                let body = module.get(name).filter(|body| body.kind() == BodyKind::PrimFunc);
                // A kernel that cannot be prepared is reported when it is executed.
                prim_funcs.extend(body.and_then(|body| Some(((*name).to_string(), kernels.get(body).ok()?))));
            }
        }
        let branches = before.len() + after.len();
        let names = reach(&step.before, unit.name());
        let mut bodies = names.iter().filter(|name| changed.contains(*name)).filter_map(|name| step.before.get(name));
        let asserts = bodies.any(|body| body.values().any(|value| value.kind() == kind::ASSERT));
        Unreached { before, after, prim_funcs, branches, asserts }
    }

    /// Records an input that was executed on both sides.
    pub(super) fn executed(&mut self, before: &Branches, after: &Branches) {
        self.before.retain(|branch| !before.0.contains(branch));
        self.after.retain(|branch| !after.0.contains(branch));
    }

    /// Returns true if a function contains an assertion before the pass.
    pub(super) fn asserts(&self) -> bool {
        self.asserts
    }

    /// Returns the number of conditional parts that were executed, and their total.
    pub(super) fn parts(&self) -> (usize, usize) {
        let executed: Vec<bool> = self.prim_funcs.iter().flat_map(|(_, kernel)| kernel.executed()).collect();
        let reached = self.branches - self.before.len() - self.after.len();
        (reached + executed.iter().filter(|executed| **executed).count(), self.branches + executed.len())
    }

    /// Returns the number of variable-extent loops that were executed with zero, one and more iterations, and their total.
    pub(super) fn loops(&self) -> (usize, usize) {
        let trips: Vec<[bool; 3]> = self.prim_funcs.iter().flat_map(|(_, kernel)| kernel.trips()).collect();
        (trips.iter().filter(|trips| **trips == [true; 3]).count(), trips.len())
    }

    /// Returns the first part that no input has reached.
    pub(super) fn first(&self, step: &ValidatedStep) -> Option<String> {
        let sides = [(&self.before, &step.before, "before"), (&self.after, &step.after, "after")];
        for (branches, module, when) in sides {
            if let Some((function, node, holds)) = branches.first() {
                let body = module.get(function)?;
                let name = body.value_at(*node as usize).name().unwrap_or("_");
                return Some(format!("the branch for {holds} of `{name}` in `{function}` {when} the pass"));
            }
        }
        let part = |(name, kernel): &(String, Arc<dyn Kernel>)| {
            Some(format!("a part of `{name}`: {}", kernel.never_executed()?))
        };
        self.prim_funcs.iter().find_map(part)
    }
}

/// Returns all branches of a function and the functions that it calls.
fn branches(module: &Module, unit: &Unit) -> BTreeSet<Branch> {
    let mut out = BTreeSet::new();
    for name in reach(module, unit.name()) {
        let Some(body) = module.get(name).filter(|body| body.kind() == BodyKind::Function) else { continue };
        for value in body.values().filter(|value| value.kind() == kind::IF) {
            out.extend([true, false].map(|holds| (name.to_string(), value.word(), holds)));
        }
    }
    out
}
