//! Finds out whether a pass made a function depend on the order of execution, or on values that are not selected. Both sides are executed by
//! an interpreter that watches loops whose iterations may run in parallel.

use super::cases::{Case, LITTLE};
use super::sides::{Side, execute, side_of};
use super::steps::ValidatedStep;
use super::units::{Unit, reach};
use crate::engine::Engine;
use passhost_lang::ir::{BodyKind, Module};
use runtime::vm::{Kernels, Value};
use runtime::{Limits, Watching};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Executions in the watching interpreter.
pub(super) struct Order {
    kernels: Arc<Kernels>,
    /// True if the function has code whose faults only an execution in a different order can reveal.
    is_worth_it: bool,
    /// Units of work left for these executions.
    left: u64,
    /// Number of watched inputs.
    pub(super) watched: usize,
}

impl Order {
    pub(super) fn new(step: &ValidatedStep, unit: &Unit, changed: &BTreeSet<&str>) -> Order {
        let mut kernels = reach(&step.after, unit.name()).into_iter().filter(|name| changed.contains(name));
        let is_worth_it = kernels.any(|name| {
            let body = step.after.get(name).filter(|body| body.kind() == BodyKind::PrimFunc);
            body.is_some_and(Watching::is_worth_it)
        });
        Order { kernels: Arc::new(Kernels::new(Watching)), is_worth_it, left: LITTLE, watched: 0 }
    }

    /// Returns a dependence that the function has after the pass, but not before it.
    pub(super) fn introduced(
        &mut self,
        engine: &Engine,
        step: &ValidatedStep,
        unit: &Unit,
        (case, args): (&Case, &[Value]),
        memory: u64,
    ) -> Option<String> {
        if !self.is_worth_it || self.left == 0 {
            return None;
        }
        let limits = Limits::with_fresh_bytes(memory, self.left, case.fresh);
        let side = |module: &Module| self.side(engine, module, unit, args, &limits);
        let (after, fails) = match side(&step.after) {
            Side::Fails(why, _) => (Some(why), true),
            Side::Limit(_) => (None, true),
            _ => (None, false),
        };
        // The pass is not at fault if the function already failed in this way before it. Nor is it at fault if the remaining work limit
        // is too low to determine this.
        let is_excused = fails && matches!(side(&step.before), Side::Fails(..) | Side::Limit(_));
        self.left = self.left.saturating_sub(limits.work_done());
        self.watched += usize::from(!fails);
        after.filter(|_| !is_excused)
    }

    /// Returns properties of the function before the pass that excuse a difference.
    pub(super) fn doubts(
        &self,
        engine: &Engine,
        step: &ValidatedStep,
        unit: &Unit,
        (case, args): (&Case, &[Value]),
        memory: u64,
    ) -> Doubts {
        let limits = Limits::with_fresh_bytes(memory, MOST_OF_OVERFLOWS, case.fresh);
        let is_unordered = matches!(self.side(engine, &step.before, unit, args, &limits), Side::Fails(..));
        Doubts { is_unordered, overflows: limits.has_overflowed() }
    }

    fn side(&self, engine: &Engine, module: &Module, unit: &Unit, args: &[Value], limits: &Limits) -> Side {
        let done = execute(engine, module, unit, args, limits, &self.kernels, &mut ());
        done.map_or_else(|failure| side_of(&failure), |_| Side::Cannot(String::new()))
    }
}

/// Dependencies of a function that a pass may change.
pub(super) struct Doubts {
    /// True if the result depends on the order of execution, or on values that are not selected.
    pub(super) is_unordered: bool,
    /// True if an integer overflows, because its value then depends on the compiler.
    pub(super) overflows: bool,
}

/// Maximum units of work to find an overflow.
const MOST_OF_OVERFLOWS: u64 = 10 * LITTLE;
