//! The cost of instructions, in units of work (see [`Limits`](crate::Limits)).
//!
//! An instruction has a fixed cost, and a cost per lane if its result varies. The weights are upper bounds of
//! measurements (`examples/units.rs`), so that the same limit ends any loop after about the same time. Costs depend
//! only on the program and its arguments, so that a run reaches its limit at the same place on every machine.

use super::columns::{Mask, Shape};
use super::memory::Positions;
use crate::program::{Affine, Binary, Instr, Program, Scalar, Unary, each_instr};

/// The fixed cost of any instruction: decoding it and finding its registers.
pub(super) const INSTRUCTION: u64 = 200;
/// The cost of a term of a linear form.
const TERM: u64 = 30;
/// The cost of a tile of a loop that runs in lanes.
pub(super) const TILE: u64 = 400;
/// The costs of splitting the lanes by a condition: a fixed cost, and a cost per lane.
const DIVIDE: (u64, u64) = (1_000, 20);
/// The cost, per lane, of evaluating a condition and the position that it depends on.
const LOOK: u64 = 40;
/// The cost of a row of lanes with a constant distance between elements.
const ROW: u64 = 60;
/// The cost per lane of memory traffic: at most one cache line per element, and more if each lane has a separate
/// position.
const LINE: u64 = 120;
const GATHER: u64 = 300;
/// The costs of a call: a fixed cost, a cost per parameter, and a cost per register and buffer.
const CALL: (u64, u64, u64) = (4_000, 1_500, 150);
/// The additional cost of a call with its own stack.
const OWN_STACK: u64 = 1_000_000;

/// Returns the cost of calling a function.
pub(super) fn call(program: &Program, own_stack: bool) -> u64 {
    let things = program.registers.len() + program.storages.len() + program.buffers.len();
    let (once, param, thing) = CALL;
    let stack = if own_stack { OWN_STACK } else { 0 };
    once + param * program.params.len() as u64 + thing * things as u64 + stack
}

/// Returns the least cost of a list. Code with an unknown trip count counts as 0.
///
/// Sums the cost in thirds of a unit. An instruction executed for all lanes at once costs [`INSTRUCTION`], which is
/// more than a third of a unit per lane.
pub(super) fn least(list: &[Instr]) -> u64 {
    thirds(list) / 3
}

fn thirds(list: &[Instr]) -> u64 {
    let mut sum = 0u64;
    for instr in list {
        sum = sum.saturating_add(match instr {
            Instr::For(of) if !may_be_left(&of.body) => {
                thirds(&of.body).saturating_mul(of.extent.as_constant().unwrap_or(0).max(0) as u64)
            }
            Instr::If { then, otherwise, .. } => thirds(then).min(thirds(otherwise)),
            Instr::For(_) | Instr::While { .. } => 0,
            _ => 1,
        });
        if may_be_left(std::slice::from_ref(instr)) {
            break;
        }
    }
    sum
}

/// Returns true if an instruction in the list can jump out of it or of an enclosing list.
fn may_be_left(list: &[Instr]) -> bool {
    let mut found = false;
    each_instr(list, &mut |instr| found |= matches!(instr, Instr::Break | Instr::Continue | Instr::Return(_)));
    found
}

/// Returns the cost of a form that is the same in all lanes.
pub(super) fn form(form: &Affine) -> u64 {
    TERM * form.terms.len() as u64
}

/// Returns the cost, for each lane, of a form that varies over the lanes.
pub(super) fn varying_form(form: &Affine) -> u64 {
    4 + 8 * form.terms.len() as u64
}

/// Returns the cost of splitting the lanes by a condition.
pub(super) fn divide(lanes: usize) -> u64 {
    DIVIDE.0 + DIVIDE.1 * lanes as u64
}

/// Returns the cost of examining each lane.
pub(super) fn look(lanes: usize) -> u64 {
    LOOK * lanes as u64
}

/// Returns the cost, for each lane, of an operation on two numbers of a type.
pub(super) fn binary(op: Binary, of: Scalar) -> u64 {
    let is_simple = matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Min | Binary::Max);
    match of {
        Scalar::F32 if is_simple => 1,
        Scalar::F64 if is_simple => 3,
        Scalar::F16 if is_simple => 25,
        Scalar::Bf16 if is_simple => 70,
        _ if of.is_float() && op.is_truth() => 15,
        _ if of.is_float() && op == Binary::Div => 25,
        _ if of.is_float() => 600,
        _ if op.divides() => 150,
        _ => 65,
    }
}

/// Returns the cost, for each lane, of an operation on one number.
pub(super) fn unary(op: Unary, from: Scalar, to: Scalar) -> u64 {
    match op {
        Unary::Math(math) => math.cost(),
        _ if from.is_float() && to.is_float() => 25,
        _ => 45,
    }
}

/// The cost, per lane, of a multiply-add with one rounding.
pub(super) const MUL_ADD: u64 = 40;

/// The cost, per lane, of a choice between two numbers, or of copying one.
pub(super) const CHOICE: u64 = 45;

/// Returns the cost of a memory access by all active lanes.
pub(super) fn access(at: &Positions, shape: &Shape, mask: &Mask, element: Scalar) -> u64 {
    let lanes = shape.total as u64;
    let runs = mask.as_ref().map_or(0, |runs| runs.len() as u64);
    if at.varying {
        return (GATHER + runs.min(1) * ROW) * lanes;
    }
    if at.strides == [0; 3] {
        return lanes + ROW * (1 + runs);
    }
    let [planes, rows, columns] = shape.extents.map(|extent| extent as u64);
    // If the elements are not contiguous, part of each cache line is read but unused.
    let waste = if at.strides[2].unsigned_abs() > 1 { 2 } else { 1 };
    let bytes = at.strides[2].unsigned_abs().saturating_mul(element.bytes() * waste);
    let converts = if matches!(element, Scalar::F32 | Scalar::F64) { 0 } else { 12 };
    let of_lane = if columns == 1 { LINE } else { bytes.clamp(1, LINE) + converts };
    of_lane * lanes + ROW * (planes * rows).min(lanes).max(runs)
}
