//! Whether a pass made a function depend on an order of execution, or on values that are not chosen: both sides are executed
//! by an interpreter that watches loops whose iterations may run at the same time.

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

/// The executions that are watched.
pub(super) struct Order {
    kernels: Arc<Kernels>,
    /// Whether the function has something that only they show.
    is_worth_it: bool,
    /// Units of work that are left for them.
    left: u64,
    /// Inputs that were watched.
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

    /// What the function depends on after the pass, but not before it.
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
        // What fails in this way before the pass, too, is not its fault.
        let before_fails = fails && matches!(side(&step.before), Side::Fails(..));
        self.left = self.left.saturating_sub(limits.work_done());
        self.watched += usize::from(!fails);
        after.filter(|_| !before_fails)
    }

    /// What keeps a difference from being the fault of the pass: of the function before it.
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

/// What a function depends on that a pass may change.
pub(super) struct Doubts {
    /// An order of execution, or values that are not chosen.
    pub(super) is_unordered: bool,
    /// What a number is that overflows: up to what compiles the function.
    pub(super) overflows: bool,
}

/// Units of work to find an overflow.
const MOST_OF_OVERFLOWS: u64 = 10 * LITTLE;
