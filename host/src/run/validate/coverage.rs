//! The coverage of the inputs of a function.

use super::cases::{Aim, Case};
use runtime::vm::InputRange;
use std::collections::{BTreeMap, BTreeSet};

/// The coverage of the inputs of some functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Kinds of values for which results were compared.
    pub ranges: BTreeSet<InputRange>,
    /// The extents that were tried, by name of the symbolic dimension.
    pub sizes: BTreeMap<String, BTreeSet<i64>>,
    /// Conditional parts, such as branches: the number executed, and the total.
    pub parts: (usize, usize),
    /// Loops with a variable extent: the number executed with zero, one and more iterations, and the total.
    pub loops: (usize, usize),
    /// Number of inputs that were checked for races and faults in unselected values.
    pub watched: usize,
    /// Number of inputs that violate an assertion on both sides.
    pub violations: usize,
    /// Number of inputs that the function rejects before the pass.
    pub refused: usize,
    /// Inputs that were skipped for lack of budget.
    pub left_out: BTreeSet<Aim>,
    /// The mode of the contract, if some calls before the pass are in the other mode. The contract allows the pass to change their
    /// results.
    pub mode: Option<Mode>,
}

/// Calls that were executed in a mode other than their mode in the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The mode: inference or training.
    pub of: &'static str,
    /// Number of calls.
    pub calls: usize,
}

impl Coverage {
    /// Records an input that was compared.
    pub(super) fn case(&mut self, case: &Case) {
        self.ranges.insert(case.range);
        for (name, extent) in &case.dims {
            self.sizes.entry(name.clone()).or_default().insert(*extent);
        }
    }

    /// Adds the coverage of other functions.
    pub(super) fn add(&mut self, other: &Coverage) {
        self.ranges.extend(&other.ranges);
        for (name, extents) in &other.sizes {
            self.sizes.entry(name.clone()).or_default().extend(extents);
        }
        self.parts = (self.parts.0 + other.parts.0, self.parts.1 + other.parts.1);
        self.loops = (self.loops.0 + other.loops.0, self.loops.1 + other.loops.1);
        self.watched += other.watched;
        self.violations += other.violations;
        self.refused += other.refused;
        self.left_out.extend(&other.left_out);
    }

    /// Summarizes sizes, values and branches.
    pub(crate) fn short(&self) -> String {
        let mut out = Vec::new();
        if let Some(Mode { of, calls }) = self.mode {
            let plural = if calls == 1 { "" } else { "s" };
            out.push(format!(
                "compared with the tolerance of {of}, which changes {calls} call{plural} before the pass"
            ));
        }
        let sizes: usize = self.sizes.values().map(BTreeSet::len).sum();
        if sizes > 0 {
            out.push(format!("{sizes} sizes"));
        }
        out.push(format!("{} kinds of values", self.ranges.len()));
        if self.parts.1 > 0 {
            out.push(format!("{} of {} branches", self.parts.0, self.parts.1));
        }
        if self.loops.1 > 0 {
            out.push(format!("{} of {} loops over data with 0, 1 and more iterations", self.loops.0, self.loops.1));
        }
        let left_out: Vec<&str> = self.left_out.iter().map(|aim| aim.name()).collect();
        if !left_out.is_empty() {
            out.push(format!("the budget left out {}", left_out.join(" and ")));
        }
        out.join(", ")
    }
}

impl Aim {
    /// Returns the name of the inputs that the budget can exclude.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Aim::First | Aim::Given => "inputs",
            Aim::Size => "sizes",
            Aim::Values => "special values",
            Aim::Coverage => "branches",
        }
    }
}
