//! Moves loop-invariant computations out of loops.
//!
//! Moves only instructions that cannot fail, and never to a place between loops that run together.

use super::{Instr, Loop, Program, Reg, each_instr};
use std::collections::BTreeSet;

/// Moves instructions of a program out of loops.
pub(super) fn hoist(program: &mut Program) {
    each_list(&mut program.body);
}

fn each_list(list: &mut Vec<Instr>) {
    let mut out = Vec::with_capacity(list.len());
    for mut instr in list.drain(..) {
        match &mut instr {
            Instr::For(of) => out.extend(out_of(of, of.lanes, &mut BTreeSet::new())),
            Instr::If { then, otherwise, .. } => {
                each_list(then);
                each_list(otherwise);
            }
            Instr::While { head, body, .. } => {
                each_list(head);
                each_list(body);
            }
            _ => {}
        }
        out.push(instr);
    }
    *list = out;
}

/// Returns the instructions to move before a loop, or before the first of several loops that run together.
fn out_of(of: &mut Loop, together: u8, inside: &mut BTreeSet<Reg>) -> Vec<Instr> {
    inside.insert(of.var);
    if together > 1
        && let [Instr::For(inner)] = &mut of.body[..]
    {
        return out_of(inner, together - 1, inside);
    }
    each_list(&mut of.body);
    each_instr(&of.body, &mut |instr| inside.extend(instr.written()));
    let (mut out, mut rest) = (Vec::new(), Vec::new());
    for instr in of.body.drain(..) {
        match moved(&instr, inside) {
            Some(dst) => {
                inside.remove(&dst);
                out.push(instr);
            }
            None => rest.push(instr),
        }
    }
    of.body = rest;
    out
}

/// Returns the result register of a loop-invariant instruction that cannot fail.
fn moved(instr: &Instr, inside: &BTreeSet<Reg>) -> Option<Reg> {
    let outside = |regs: &[Reg]| regs.iter().all(|reg| !inside.contains(reg));
    match instr {
        Instr::Const { dst, .. } => Some(*dst),
        Instr::Affine { dst, form } => form.terms.iter().all(|(reg, _)| !inside.contains(reg)).then_some(*dst),
        Instr::Unary { dst, a, .. } => outside(&[*a]).then_some(*dst),
        Instr::Binary { op, dst, a, b, .. } => (!op.divides() && outside(&[*a, *b])).then_some(*dst),
        Instr::MulAdd { dst, a, b, c } => outside(&[*a, *b, *c]).then_some(*dst),
        Instr::Select { dst, cond, then, otherwise } => outside(&[*cond, *then, *otherwise]).then_some(*dst),
        _ => None,
    }
}
