//! Moves loop-invariant computations out of loops.
//!
//! Moves only instructions that cannot fail, and never to a place between loops that run together.

use super::{Binary, Instr, Literal, Loop, Program, Reg, Scalar, each_instr};
use std::collections::BTreeSet;

/// Moves instructions of a program out of loops.
pub(super) fn hoist(program: &mut Program) {
    hoist_with(program, true);
}

impl Program {
    /// Returns the program for code that executes each loop on its own: instructions are moved to places between loops that run
    /// together, too.
    #[must_use]
    pub fn for_single_loops(&self) -> Program {
        let mut program = self.clone();
        hoist_with(&mut program, false);
        program
    }
}

fn hoist_with(program: &mut Program, together: bool) {
    let mut body = std::mem::take(&mut program.body);
    let mut positive = BTreeSet::new();
    each_instr(&body, &mut |instr| {
        let is_positive = match instr {
            Instr::Const { value, .. } => matches!(value, Literal::Int(1..)),
            Instr::Binary { op: Binary::Max, b, .. } => positive.contains(b),
            _ => false,
        };
        positive.extend(instr.written().filter(|_| is_positive));
    });
    Hoist { safe: &program.safe, together, positive, registers: &mut program.registers }.each_list(&mut body);
    program.body = body;
}

struct Hoist<'p> {
    /// Quotients and remainders whose divisor is positive where they are computed.
    safe: &'p BTreeSet<Reg>,
    /// True if loops may run together, so that nothing may be between them.
    together: bool,
    /// Registers that are known to be positive.
    positive: BTreeSet<Reg>,
    registers: &'p mut Vec<Scalar>,
}

impl Hoist<'_> {
    fn each_list(&mut self, list: &mut Vec<Instr>) {
        let mut out = Vec::with_capacity(list.len());
        for mut instr in list.drain(..) {
            match &mut instr {
                Instr::For(of) => out.extend(self.out_of(of, of.lanes, &mut BTreeSet::new())),
                Instr::If { then, otherwise, .. } => {
                    self.each_list(then);
                    self.each_list(otherwise);
                }
                Instr::While { head, body, .. } => {
                    self.each_list(head);
                    self.each_list(body);
                }
                _ => {}
            }
            out.push(instr);
        }
        *list = out;
    }

    /// Returns the instructions to move before a loop, or before the first of several loops that run together.
    fn out_of(&mut self, of: &mut Loop, together: u8, inside: &mut BTreeSet<Reg>) -> Vec<Instr> {
        inside.insert(of.var);
        if self.together
            && together > 1
            && let [Instr::For(inner)] = &mut of.body[..]
        {
            return self.out_of(inner, together - 1, inside);
        }
        self.each_list(&mut of.body);
        each_instr(&of.body, &mut |instr| inside.extend(instr.written()));
        let mut out = Vec::new();
        self.take(&mut of.body, inside, &mut out);
        out
    }

    /// Moves loop-invariant instructions that cannot fail from a list to `out`, also from under conditions.
    fn take(&mut self, list: &mut Vec<Instr>, inside: &mut BTreeSet<Reg>, out: &mut Vec<Instr>) {
        for mut instr in std::mem::take(list) {
            if let Instr::If { then, otherwise, .. } = &mut instr {
                self.take(then, inside, out);
                self.take(otherwise, inside, out);
            }
            match invariant(&instr, inside).filter(|_| self.cannot_fail(&instr)) {
                Some(dst) => {
                    inside.remove(&dst);
                    self.guard(&mut instr, out);
                    out.push(instr);
                }
                None => list.push(instr),
            }
        }
    }

    /// Returns false for a division whose divisor may be 0.
    fn cannot_fail(&self, instr: &Instr) -> bool {
        !matches!(instr, Instr::Binary { op, dst, .. } if op.divides() && !self.safe.contains(dst))
    }

    /// Replaces a divisor by its maximum with 1. It is positive where the division was, but need not be positive before a
    /// loop or a condition.
    fn guard(&mut self, instr: &mut Instr, out: &mut Vec<Instr>) {
        let Instr::Binary { op, b, place, .. } = instr else { return };
        if !op.divides() || self.positive.contains(b) {
            return;
        }
        let of = self.registers[b.index()];
        let [one, divisor] = [0, 1].map(|at| Reg((self.registers.len() + at) as u32));
        self.registers.extend([of, of]);
        self.positive.extend([one, divisor]);
        out.push(Instr::Const { dst: one, value: Literal::Int(1) });
        out.push(Instr::Binary { op: Binary::Max, dst: divisor, a: *b, b: one, place: *place });
        *b = divisor;
    }
}

/// Returns the result register of an instruction that only computes, from registers that are not written inside a loop.
pub(super) fn invariant(instr: &Instr, inside: &BTreeSet<Reg>) -> Option<Reg> {
    let outside = |regs: &[Reg]| regs.iter().all(|reg| !inside.contains(reg));
    match instr {
        Instr::Const { dst, .. } => Some(*dst),
        Instr::Affine { dst, form } => form.terms.iter().all(|(reg, _)| !inside.contains(reg)).then_some(*dst),
        Instr::Unary { dst, a, .. } => outside(&[*a]).then_some(*dst),
        Instr::Binary { dst, a, b, .. } => outside(&[*a, *b]).then_some(*dst),
        Instr::MulAdd { dst, a, b, c } => outside(&[*a, *b, *c]).then_some(*dst),
        Instr::Select { dst, cond, then, otherwise } => outside(&[*cond, *then, *otherwise]).then_some(*dst),
        _ => None,
    }
}
