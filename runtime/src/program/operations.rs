//! How many operations of floats a program does.

use super::{Affine, Binary, Instr, Program, Reg, Unary};
use std::collections::HashMap;

/// How many operations of floats a call does, where these registers have these values. An operation of two numbers is one, and
/// so is a function of one number; a product and a sum that are rounded once are two. Of two branches, the longer one counts.
/// `None` if the number of iterations of a loop depends on something else.
pub fn float_operations(program: &Program, known: &[(Reg, i64)]) -> Option<u64> {
    let count = Count { program, known: known.iter().copied().collect() };
    count.of(&program.body)
}

struct Count<'p> {
    program: &'p Program,
    known: HashMap<Reg, i64>,
}

impl Count<'_> {
    fn of(&self, list: &[Instr]) -> Option<u64> {
        list.iter().try_fold(0u64, |sum, instr| {
            let n = match instr {
                Instr::Binary { op, dst, a, .. } => u64::from(self.is_float(*dst) && self.is_float(*a) && counts(*op)),
                Instr::Unary { op: Unary::Math(_), .. } => 1,
                Instr::MulAdd { .. } => 2,
                Instr::For(of) => match self.of(&of.body)? {
                    0 => 0,
                    inner => inner.saturating_mul(self.value(&of.extent)?.max(0) as u64),
                },
                Instr::If { then, otherwise, .. } => self.of(then)?.max(self.of(otherwise)?),
                Instr::While { head, body, .. } => match (self.of(head)?, self.of(body)?) {
                    (0, 0) => 0,
                    _ => return None,
                },
                _ => 0,
            };
            Some(sum.saturating_add(n))
        })
    }

    fn is_float(&self, reg: Reg) -> bool {
        self.program.registers.get(reg.index()).is_some_and(|scalar| scalar.is_float())
    }

    fn value(&self, form: &Affine) -> Option<i64> {
        form.terms
            .iter()
            .try_fold(form.constant, |sum, (reg, factor)| sum.checked_add(self.known.get(reg)?.checked_mul(*factor)?))
    }
}

/// Whether an operation of floats computes something: the sign of another number is only moved.
fn counts(op: Binary) -> bool {
    op != Binary::CopySign
}
