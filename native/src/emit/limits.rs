//! Limits the amount of code, and counts work: each function has a budget, and calls back when the budget is spent.
//!
//! The work of a short loop is counted by its enclosing code, so innermost loops need no counting, and no loop runs
//! long without counting. The interpreter counts at least as much for the same work, so native code does not exceed a
//! limit that the interpreter observes.

use super::Field;
use super::function::Function;
use runtime::program::{Access, Binary, Instr, Loop, LoopKind, Reg, Unary};

/// Maximum total work of a loop whose work is counted by its enclosing code.
const LONG: u64 = 1 << 21;
/// Units between two calls of the callback.
const BUDGET: i64 = 1 << 26;

/// Maximum number of iterations counted for a vectorized loop, because lanes run together.
pub(super) const VECTOR: u64 = 4;

/// Maximum number of instructions after unrolling, both per loop and for all loops of a PrimFunc together. The total
/// also limits vectorized loops.
const MOST_UNROLLED: u64 = 4096;
const ALL_UNROLLED: u64 = 1 << 14;
/// Maximum number of instructions in a loop that LLVM may vectorize, because LLVM compares all pairs of accesses.
const MOST_TO_VECTORIZE: u64 = 512;
/// Number of elements in a cache line.
const LINE: u64 = 16;
/// Cost of an access that may wait for memory in each iteration.
const FAR: u64 = 60;
/// Number of lanes of the widest registers.
const LANES: u64 = 16;
/// Cost of an instruction with masked lanes.
const MASKED: u64 = 4;

impl Function<'_, '_> {
    /// Returns true if LLVM unrolls a loop that requests it: the extent must be constant, and the result small enough
    /// for LLVM.
    pub(super) fn may_be_unrolled(&mut self, of: &Loop) -> bool {
        let around = Lanes { of: self.vector.as_ref().map(|vector| vector.var), masked: self.mask.is_some() };
        let vectors = self.vector.as_ref().map_or(1, |vector| u64::from(vector.lanes).div_ceil(LANES));
        let size = size(of, around).saturating_mul(vectors);
        let all = self.module.unrolled.saturating_add(size);
        let may = of.extent.as_constant().is_some() && size <= MOST_UNROLLED && all <= ALL_UNROLLED;
        if may {
            self.module.unrolled = all;
        }
        may
    }

    /// Takes units from the budget. Exported code does not have a budget.
    pub(super) fn spend(&mut self, units: u64) {
        if self.module.purpose.standalone {
            return;
        }
        let slot = self.slot_with("budget", "i64", &BUDGET.to_string());
        let before = self.op(format_args!("load i64, ptr {slot}"));
        let left = self.op(format_args!("sub i64 {before}, {}", units.min(LONG * LONG)));
        self.line(format_args!("store i64 {left}, ptr {slot}"));
        let spent = self.op(format_args!("icmp slt i64 {left}, 0"));
        let (ask, on) = (self.label(), self.label());
        self.branch(&spent, &ask, &on);
        self.start(&ask);
        let used = self.op(format_args!("sub i64 {BUDGET}, {left}"));
        let callback = self.context_field(Field::Work, "ptr");
        let code = self.op(format_args!("call i32 {callback}(ptr %context, i64 {used})"));
        self.leave_if(&code);
        self.line(format_args!("store i64 {BUDGET}, ptr {slot}"));
        self.go(&on);
        self.start(&on);
    }
}

/// Returns the cost of one iteration, for a loop that counts its own work; `None` if the enclosing code counts it.
pub(super) fn own_cost(of: &Loop) -> Option<u64> {
    match total(of) {
        Some(units) if units <= LONG => None,
        _ => Some(cost_of(&of.body, Some(of))),
    }
}

/// Returns the cost of a list, excluding inner loops that count their own work. `around` is the innermost enclosing
/// loop.
pub(super) fn cost_of(list: &[Instr], around: Option<&Loop>) -> u64 {
    list.iter().fold(1, |sum: u64, instr| sum.saturating_add(cost(instr, around)))
}

/// Returns the total cost of a loop; `None` if unbounded.
fn total(of: &Loop) -> Option<u64> {
    let mut extent = of.extent.as_constant()?.max(0) as u64;
    if of.kind == LoopKind::Vectorized {
        extent = extent.min(VECTOR);
    }
    Some(extent.saturating_mul(cost_of(&of.body, Some(of))))
}

/// Returns the total cost of a list; `None` if unbounded.
pub(crate) fn of_list(list: &[Instr]) -> Option<u64> {
    list.iter().try_fold(0u64, |sum, instr| {
        let units = match instr {
            Instr::For(of) => of_list(&of.body)?.saturating_mul(of.extent.as_constant()?.max(0) as u64),
            Instr::If { then, otherwise, .. } => of_list(then)?.max(of_list(otherwise)?),
            Instr::While { .. } => return None,
            other => cost(other, None),
        };
        Some(sum.saturating_add(units))
    })
}

/// Returns true if each iteration of a loop may access a different cache line, because the index depends on the loop
/// variable or is computed.
fn is_far(access: &Access, around: &Loop) -> bool {
    if access.offset.factor(around.var).unsigned_abs() >= LINE {
        return true;
    }
    let is_index = |instr: &Instr| {
        matches!(instr, Instr::Load { .. }) && instr.written().is_some_and(|reg| access.offset.factor(reg) != 0)
    };
    // Long lists are not searched, because the cost of their other instructions suffices.
    around.body.len() <= 64 && around.body.iter().any(is_index)
}

/// Returns true if LLVM can process a vectorized loop in reasonable time.
pub(super) fn may_be_vector(of: &Loop) -> bool {
    size(of, Lanes::default()) <= ALL_UNROLLED
}

/// Returns true if LLVM would take long to vectorize a loop.
pub(super) fn is_large(of: &Loop) -> bool {
    size_of_list(&of.body, Lanes::default()) > MOST_TO_VECTORIZE
}

/// The lanes in which an instruction is executed.
#[derive(Clone, Copy, Default)]
struct Lanes {
    /// The variable of the vectorized loop; `None` outside vectors.
    of: Option<Reg>,
    /// True if some lanes are masked.
    masked: bool,
}

/// Estimates the number of machine instructions of a loop after all requested unrolling.
fn size(of: &Loop, lanes: Lanes) -> u64 {
    let extent = of.extent.as_constant().map_or(1, |extent| extent.max(0) as u64);
    let (times, within) = match of.kind {
        LoopKind::Unrolled => (extent, lanes),
        LoopKind::Vectorized if lanes.of.is_none() => {
            (extent.div_ceil(LANES), Lanes { of: Some(of.var), masked: false })
        }
        _ => (1, lanes),
    };
    size_of_list(&of.body, within).saturating_add(1).saturating_mul(times)
}

fn size_of_list(list: &[Instr], lanes: Lanes) -> u64 {
    let own = if lanes.masked { MASKED } else { 1 };
    list.iter().fold(0, |sum: u64, instr| {
        let inner =
            |lanes| instr.lists().into_iter().map(|list| size_of_list(list, lanes)).fold(own, u64::saturating_add);
        sum.saturating_add(match instr {
            Instr::For(of) => size(of, lanes),
            Instr::If { .. } if lanes.of.is_some() => inner(Lanes { masked: true, ..lanes }),
            // Non-contiguous elements are accessed one by one.
            Instr::Load { access, .. } | Instr::Store { access, .. }
                if lanes.of.is_some_and(|var| !matches!(access.offset.factor(var), 0 | 1)) =>
            {
                own.saturating_mul(LANES)
            }
            Instr::Unary { op: Unary::Math(_), .. }
            | Instr::Binary { op: Binary::Pow | Binary::Atan2 | Binary::Hypot, .. } => cost(instr, None),
            _ => inner(lanes),
        })
    })
}

fn cost(instr: &Instr, around: Option<&Loop>) -> u64 {
    let list = |list: &[Instr]| list.iter().fold(0, |sum: u64, instr| sum.saturating_add(cost(instr, around)));
    match instr {
        Instr::For(of) => total(of).filter(|units| *units <= LONG).unwrap_or(8),
        Instr::If { then, otherwise, .. } => 2 + list(then).max(list(otherwise)),
        Instr::While { .. } => 8,
        Instr::Unary { op: Unary::Math(_), .. } => 50,
        Instr::Binary { op: Binary::Pow | Binary::Atan2 | Binary::Hypot, .. } => 150,
        Instr::Binary { op, .. } if op.divides() => 20,
        Instr::Load { access, .. } | Instr::Store { access, .. } => {
            if around.is_some_and(|around| is_far(access, around)) { FAR } else { 3 }
        }
        Instr::Allocate { .. } => 1_000,
        _ => 1,
    }
}
