//! Vectorizes loops around reductions without a request.
//!
//! Each step of a reduction waits for the previous step, so an unscheduled matrix product adds one element in the time
//! in which the machine could add a hundred. If the loops around the reduction are data-parallel, several of their
//! iterations are advanced together. Each iteration adds in the original order, so the bits stay the same. A program
//! that already requests vectors, threads or unrolling is left unchanged. Loops that LLVM vectorizes itself are also
//! left unchanged: it unrolls short reductions, and may reorder integer sums.

use super::memory::MOST_STEP;
use runtime::program::{Access, Instr, Loop, LoopKind, Program, Reg, each_instr};
use std::collections::BTreeSet;

/// Minimum trip count of a vectorized loop.
const FEWEST: i64 = 4;
/// Minimum number of steps of a reduction whose outer loops are vectorized.
const SHORT: i64 = 64;
/// Maximum number of lanes if neighbouring iterations access distant memory, because their elements are loaded one by
/// one.
const FAR: i64 = 8;

/// Returns the variables of the loops to vectorize.
pub(super) fn loops_to_vectorize(program: &Program) -> BTreeSet<Reg> {
    let (mut out, mut has_schedule) = (BTreeSet::new(), false);
    each_instr(&program.body, &mut |instr| {
        has_schedule |= matches!(instr, Instr::For(of) if of.kind != LoopKind::Serial)
    });
    if !has_schedule {
        innermost(&program.body, program, &mut out);
    }
    out
}

/// Adds the variables of the innermost loops in `list` that are chosen for vectorization. Returns true if there are
/// any.
fn innermost(list: &[Instr], program: &Program, out: &mut BTreeSet<Reg>) -> bool {
    let mut found = false;
    for instr in list {
        found |= match instr {
            Instr::For(of) => {
                innermost(&of.body, program, out) || chosen(of, program).is_some_and(|of| out.insert(of.var))
            }
            Instr::If { then, otherwise, .. } => innermost(then, program, out) | innermost(otherwise, program, out),
            Instr::While { head, body, .. } => innermost(head, program, out) | innermost(body, program, out),
            _ => false,
        };
    }
    found
}

/// Chooses a loop for vectorization among nested data-parallel loops around a long loop that stores floats: the
/// innermost loop that is long enough.
fn chosen<'p>(first: &'p Loop, program: &Program) -> Option<&'p Loop> {
    let (mut of, mut found) = (first, None);
    for left in (0..first.lanes).rev() {
        if of.extent.as_constant().is_some_and(|extent| extent >= FEWEST) {
            found = Some(of);
        }
        match &of.body[..] {
            [Instr::For(inner)] if left > 0 => of = inner,
            _ => break,
        }
    }
    found.filter(|_| of.body.iter().any(|instr| matches!(instr, Instr::For(of) if is_long(of, 1, program))))
}

/// Returns true if a loop and its enclosing loops together have many iterations and store floats.
fn is_long(of: &Loop, around: i64, program: &Program) -> bool {
    let steps = around.saturating_mul(of.extent.as_constant().unwrap_or(SHORT).max(1));
    let is_float = |access: &Access| program.buffers[access.buffer as usize].element.is_float();
    of.body.iter().any(|instr| match instr {
        Instr::For(inner) => is_long(inner, steps, program),
        Instr::Store { access, .. } => steps >= SHORT && is_float(access),
        Instr::If { then, otherwise, .. } => {
            let stores = |instr: &Instr| matches!(instr, Instr::Store { access, .. } if is_float(access));
            steps >= SHORT && then.iter().chain(otherwise).any(stores)
        }
        _ => false,
    })
}

/// Returns the number of lanes for a loop, at most `most`.
pub(super) fn lanes(of: &Loop, extent: i64, most: i64) -> i64 {
    let mut far = false;
    each_instr(&of.body, &mut |instr| {
        if let Instr::Load { access, .. } | Instr::Store { access, .. } = instr {
            far |= !(0..=MOST_STEP).contains(&access.offset.factor(of.var));
        }
    });
    extent.min(if far { FAR } else { most })
}
