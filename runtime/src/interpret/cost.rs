//! What instructions cost, in units of work (see [`Limits`](crate::Limits)).
//!
//! An instruction costs something once, and something for each lane in which its result varies. The weights are upper
//! bounds of what was measured (`examples/units.rs`), so that the same limit ends any loop in about the same time; they
//! depend on the program and its arguments alone, so that it ends at the same place on every machine.

use super::columns::{Mask, Shape};
use super::memory::Positions;
use crate::program::{Affine, Binary, Instr, Math, Program, Scalar, Unary, each_instr};

/// An instruction, whatever it does: to look at it, and to find its registers.
pub(super) const INSTRUCTION: u64 = 200;
/// A term of a form.
const TERM: u64 = 30;
/// A tile of a loop whose iterations run at the same time.
pub(super) const TILE: u64 = 400;
/// To divide the lanes by a condition: once, and for each lane.
const DIVIDE: (u64, u64) = (1_000, 20);
/// A condition that is looked at in each lane, with the position that it is about.
const LOOK: u64 = 40;
/// A row of lanes whose elements follow each other with one step.
const ROW: u64 = 60;
/// The memory of an access, for each lane: at most a line of the cache, and more where the position is another one for
/// each lane.
const LINE: u64 = 120;
const GATHER: u64 = 300;
/// A call of a function: once, for each parameter, and for each register and buffer.
const CALL: (u64, u64, u64) = (4_000, 1_500, 150);
/// A call of a function that needs a stack of its own.
const OWN_STACK: u64 = 1_000_000;

/// A call of a function.
pub(super) fn call(program: &Program, own_stack: bool) -> u64 {
    let things = program.registers.len() + program.storages.len() + program.buffers.len();
    let (once, param, thing) = CALL;
    let stack = if own_stack { OWN_STACK } else { 0 };
    once + param * program.params.len() as u64 + thing * things as u64 + stack
}

/// What a list costs at least: nothing for what is executed an unknown number of times.
///
/// An instruction that is executed for all lanes at once costs [`INSTRUCTION`], which is more than a third of a unit for each lane.
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

/// Whether something in a list ends it, or what contains it.
fn may_be_left(list: &[Instr]) -> bool {
    let mut found = false;
    each_instr(list, &mut |instr| found |= matches!(instr, Instr::Break | Instr::Continue | Instr::Return(_)));
    found
}

/// A form that is the same in all lanes.
pub(super) fn form(form: &Affine) -> u64 {
    TERM * form.terms.len() as u64
}

/// A form of which each lane has its own value, for each lane.
pub(super) fn varying_form(form: &Affine) -> u64 {
    4 + 8 * form.terms.len() as u64
}

/// To divide the lanes by a condition.
pub(super) fn divide(lanes: usize) -> u64 {
    DIVIDE.0 + DIVIDE.1 * lanes as u64
}

/// To look at each lane.
pub(super) fn look(lanes: usize) -> u64 {
    LOOK * lanes as u64
}

/// An operation on two numbers of a type, for each lane.
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

/// An operation on one number, for each lane.
pub(super) fn unary(op: Unary, from: Scalar, to: Scalar) -> u64 {
    match op {
        Unary::Math(Math::Sqrt | Math::Floor | Math::Ceil | Math::Trunc | Math::Round | Math::NearbyInt) => 60,
        Unary::Math(Math::Exp | Math::Exp2 | Math::Log | Math::Log2 | Math::Sigmoid | Math::Erf) => 100,
        Unary::Math(Math::Tanh) => 200,
        // Of an angle that is very large, or beyond the polynomials of the others.
        Unary::Math(_) => 3_000,
        _ if from.is_float() && to.is_float() => 25,
        _ => 45,
    }
}

/// A product and a sum that are rounded once, for each lane.
pub(super) const MUL_ADD: u64 = 40;

/// A choice between two numbers, or a copy of one, for each lane.
pub(super) const CHOICE: u64 = 45;

/// An access to memory of all lanes that take part.
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
    // Between elements that do not follow each other, much is read for nothing.
    let waste = if at.strides[2].unsigned_abs() > 1 { 2 } else { 1 };
    let bytes = at.strides[2].unsigned_abs().saturating_mul(element.bytes() * waste);
    let converts = if matches!(element, Scalar::F32 | Scalar::F64) { 0 } else { 12 };
    let of_lane = if columns == 1 { LINE } else { bytes.clamp(1, LINE) + converts };
    of_lane * lanes + ROW * (planes * rows).min(lanes).max(runs)
}
