//! How much the inputs of a function covered.

use super::cases::{Aim, Case};
use runtime::vm::InputRange;
use std::collections::{BTreeMap, BTreeSet};

/// What the inputs of some functions covered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Kinds of values with which the results were compared.
    pub ranges: BTreeSet<InputRange>,
    /// Extents that were tried, by the names of symbolic dimensions.
    pub sizes: BTreeMap<String, BTreeSet<i64>>,
    /// Parts that may or may not be executed, such as branches: how many were, and how many there are.
    pub parts: (usize, usize),
    /// Loops whose extent is data: how many had no iteration, one, and more, and how many there are.
    pub loops: (usize, usize),
    /// Inputs with which races and values that are not chosen were looked for.
    pub watched: usize,
    /// Inputs that violate an assertion on both sides.
    pub violations: usize,
    /// Inputs that the function does not take before the pass.
    pub refused: usize,
    /// Inputs with a dimension of 0 that have a result before the pass, and none after it.
    pub lost: usize,
    /// What the budget left out.
    pub left_out: BTreeSet<Aim>,
    /// The mode that the contract is about, if calls before the pass compute as in the other one: the pass changes what they
    /// compute, as its contract says.
    pub mode: Option<Mode>,
}

/// Calls that were executed as in another mode than the module says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The mode: inference or training.
    pub of: &'static str,
    /// How many calls.
    pub calls: usize,
}

impl Coverage {
    /// An input was compared.
    pub(super) fn case(&mut self, case: &Case) {
        self.ranges.insert(case.range);
        for (name, extent) in &case.dims {
            self.sizes.entry(name.clone()).or_default().insert(*extent);
        }
    }

    /// Other functions.
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
        self.lost += other.lost;
        self.left_out.extend(&other.left_out);
    }

    /// In a few words: sizes, values, branches.
    pub(crate) fn short(&self) -> String {
        let mut out = Vec::new();
        if let Some(Mode { of, calls }) = self.mode {
            let plural = if calls == 1 { "" } else { "s" };
            out.push(format!("compared as for {of}, which changes {calls} call{plural} before the pass"));
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
        if self.lost > 0 {
            let plural = if self.lost == 1 { "" } else { "s" };
            out.push(format!("no result after the pass for {} input{plural} with a dimension of 0", self.lost));
        }
        let left_out: Vec<&str> = self.left_out.iter().map(|aim| aim.name()).collect();
        if !left_out.is_empty() {
            out.push(format!("the budget left out {}", left_out.join(" and ")));
        }
        out.join(", ")
    }
}

impl Aim {
    /// What the budget can leave out.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Aim::First | Aim::Given => "inputs",
            Aim::Size => "sizes",
            Aim::Values => "special values",
            Aim::Coverage => "branches",
        }
    }
}
