//! Which branches and statements the inputs reach: what none of them reaches may compute anything.

use super::steps::ValidatedStep;
use super::units::{Unit, reach};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{BodyKind, Module};
use runtime::Kernel;
use runtime::vm::{Binding, Kernels, Observer};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A branch of an If: the function, the node of the If, and whether it is the branch for true.
type Branch = (String, u32, bool);

/// The branches that a run executed.
#[derive(Clone, Debug, Default)]
pub(super) struct Branches(BTreeSet<Branch>);

impl Observer for Branches {
    fn branches(&mut self, binding: &Binding<'_>, holds: bool) {
        self.0.insert((binding.function().to_string(), binding.binding().word(), holds));
    }
}

/// What no input has reached yet: branches of the functions that are executed, before and after the pass, and statements
/// and choices of the PrimFuncs that it changed.
pub(super) struct Unreached {
    before: BTreeSet<Branch>,
    after: BTreeSet<Branch>,
    prim_funcs: Vec<(String, Arc<dyn Kernel>)>,
    /// How many branches there are.
    branches: usize,
    /// Whether a function asserts something.
    asserts: bool,
}

impl Unreached {
    pub(super) fn of(step: &ValidatedStep, unit: &Unit, changed: &BTreeSet<&str>, kernels: &Kernels) -> Unreached {
        let (before, after) = (branches(&step.before, unit), branches(&step.after, unit));
        let mut prim_funcs = Vec::new();
        for module in [&step.before, &step.after] {
            for name in reach(module, unit.name()).intersection(changed) {
                let body = module.get(name).filter(|body| body.kind() == BodyKind::PrimFunc);
                // What cannot be prepared is reported when it is executed.
                prim_funcs.extend(body.and_then(|body| Some(((*name).to_string(), kernels.get(body).ok()?))));
            }
        }
        let branches = before.len() + after.len();
        let names = reach(&step.before, unit.name());
        let mut bodies = names.iter().filter(|name| changed.contains(*name)).filter_map(|name| step.before.get(name));
        let asserts = bodies.any(|body| body.values().any(|value| value.kind() == kind::ASSERT));
        Unreached { before, after, prim_funcs, branches, asserts }
    }

    /// An input was executed on both sides.
    pub(super) fn executed(&mut self, before: &Branches, after: &Branches) {
        self.before.retain(|branch| !before.0.contains(branch));
        self.after.retain(|branch| !after.0.contains(branch));
    }

    /// Whether a function asserts something before the pass.
    pub(super) fn asserts(&self) -> bool {
        self.asserts
    }

    /// How many of the parts that may or may not be executed were, and how many there are.
    pub(super) fn parts(&self) -> (usize, usize) {
        let executed: Vec<bool> = self.prim_funcs.iter().flat_map(|(_, kernel)| kernel.executed()).collect();
        let reached = self.branches - self.before.len() - self.after.len();
        (reached + executed.iter().filter(|executed| **executed).count(), self.branches + executed.len())
    }

    /// How many of the loops whose extent is data had no iteration, one, and more, and how many there are.
    pub(super) fn loops(&self) -> (usize, usize) {
        let trips: Vec<[bool; 3]> = self.prim_funcs.iter().flat_map(|(_, kernel)| kernel.trips()).collect();
        (trips.iter().filter(|trips| **trips == [true; 3]).count(), trips.len())
    }

    /// The first of what no input has reached.
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

/// All branches of the functions that a function reaches.
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
