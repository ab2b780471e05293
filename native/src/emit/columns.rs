//! Loops around reductions that become vectors although nobody asked for it.
//!
//! Each step of a reduction waits for the one before: a product of matrices without a schedule adds one element in the
//! time in which the machine could add a hundred. Where the loops around the reduction are data-parallel, several of their
//! iterations advance together. Each one adds in the order that is written, so the bits are the same. In a program that
//! asks for vectors, threads or unrolled loops, the author has decided, and nothing is added.

use runtime::program::{Instr, Loop, LoopKind, Program, Reg, each_instr};
use std::collections::BTreeSet;

/// Shorter loops stay as they are.
const FEWEST: i64 = 4;
/// Lanes if elements next to each other in the loop are far apart in memory.
const FAR: i64 = 8;

/// The variables of these loops.
pub(super) fn columns(program: &Program) -> BTreeSet<Reg> {
    let (mut out, mut asks) = (BTreeSet::new(), false);
    each_instr(&program.body, &mut |instr| asks |= matches!(instr, Instr::For(of) if of.kind != LoopKind::Serial));
    if !asks {
        innermost(&program.body, &mut out);
    }
    out
}

/// Adds the innermost ones of a list. Gives whether there are some.
fn innermost(list: &[Instr], out: &mut BTreeSet<Reg>) -> bool {
    let mut found = false;
    for instr in list {
        found |= match instr {
            Instr::For(of) => innermost(&of.body, out) || column(of).is_some_and(|of| out.insert(of.var)),
            Instr::If { then, otherwise, .. } => innermost(then, out) | innermost(otherwise, out),
            Instr::While { head, body, .. } => innermost(head, out) | innermost(body, out),
            _ => false,
        };
    }
    found
}

/// Of loops that are data-parallel together and have a loop in them: the innermost one that is long enough.
fn column(first: &Loop) -> Option<&Loop> {
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
    found.filter(|_| of.body.iter().any(|instr| matches!(instr, Instr::For(_))))
}

/// Lanes for a loop of so many iterations: about as many in each vector.
pub(super) fn lanes(extent: i64, most: i64, is_far: bool) -> i64 {
    let most = if is_far { FAR } else { most };
    let vectors = (extent + most - 1) / most;
    (extent + vectors - 1) / vectors
}
