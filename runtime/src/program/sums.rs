//! Writes integer registers as sums of other registers, and relates quotients and remainders to what is divided.

use super::{Affine, Binary, Instr, Literal, Program, Reg, Scalar, each_instr};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of registers in a sum that is expanded.
const MOST_TERMS: usize = 16;
/// Maximum number of divisions that lead from a register to what is divided.
const MOST_DIVISIONS: usize = 4;

/// A quotient, a remainder or a maximum: the operation and its operands, which are expanded.
type Part = (Binary, Affine, Affine);

/// The sums, quotients and remainders in the registers of a program.
#[derive(Default)]
pub struct Sums {
    /// Registers that are written more than once.
    rewritten: BTreeSet<Reg>,
    /// The registers that hold sums, expanded to registers that are written once and are not sums.
    sums: BTreeMap<Reg, Affine>,
    /// The first register that holds each part.
    parts: HashMap<Part, Reg>,
    part_of: BTreeMap<Reg, Part>,
}

impl Sums {
    /// Analyzes a program. `fits` returns true if a register of fewer than 64 bits holds a sum without wrapping around.
    pub fn of(program: &Program, fits: impl Fn(Reg, &Affine) -> bool) -> Sums {
        let (mut sums, mut written) = (Sums::default(), BTreeSet::new());
        each_instr(&program.body, &mut |instr| {
            sums.rewritten.extend(instr.written().filter(|reg| !written.insert(*reg)));
        });
        each_instr(&program.body, &mut |instr| {
            let Some(reg) = instr.written().filter(|reg| sums.is_fixed(*reg)) else { return };
            let Some(sum) = sums.sum(reg, instr) else { return };
            // Sums of 64 bits wrap like the registers.
            let holds = program.registers[reg.index()] == Scalar::Int(64) || fits(reg, &sum);
            if holds && sums.are_fixed(&sum) {
                let sum = sums.written_out(&sum);
                sums.sums.insert(reg, sum);
            }
        });
        sums
    }

    /// Returns true if a register is written at most once. Unwritten registers are passed by the caller.
    pub fn is_fixed(&self, reg: Reg) -> bool {
        !self.rewritten.contains(&reg)
    }

    fn are_fixed(&self, form: &Affine) -> bool {
        form.terms.iter().all(|(reg, _)| self.is_fixed(*reg))
    }

    /// Returns the sum that an instruction writes to a register.
    fn sum(&mut self, reg: Reg, instr: &Instr) -> Option<Affine> {
        let of = |reg: &Reg| Affine::from(*reg);
        let number = |reg: &Reg| self.sums.get(reg)?.as_constant();
        Some(match instr {
            Instr::Const { value: Literal::Int(value), .. } => Affine::from(*value),
            Instr::Affine { form, .. } => form.clone(),
            Instr::Binary { op: Binary::Add, a, b, .. } => of(a).plus(&of(b), 1),
            Instr::Binary { op: Binary::Sub, a, b, .. } => of(a).plus(&of(b), -1),
            Instr::Binary { op: Binary::Mul, a, b, .. } => {
                let (of, factor) = number(b).map(|n| (a, n)).or_else(|| Some((b, number(a)?)))?;
                Affine::from(0).plus(&Affine::from(*of), factor)
            }
            Instr::Binary { op: op @ (Binary::FloorDiv | Binary::FloorMod | Binary::Max), a, b, .. } => {
                let [a, b] = [a, b].map(|reg| self.written_out(&of(reg)));
                [&a, &b].into_iter().all(|of| self.are_fixed(of)).then_some(())?;
                let part = (*op, a, b);
                self.part_of.insert(reg, part.clone());
                of(self.parts.entry(part).or_insert(reg))
            }
            _ => return None,
        })
    }

    /// Expands each register in `form` that holds a sum.
    #[must_use]
    pub fn written_out(&self, form: &Affine) -> Affine {
        form.terms.iter().fold(Affine::from(form.constant), |sum, (reg, factor)| match self.sums.get(reg) {
            Some(of) if sum.terms.len() + of.terms.len() <= MOST_TERMS => sum.plus(of, *factor),
            _ => sum.plus(&Affine::from(*reg), *factor),
        })
    }

    /// Returns true if the values of `known` registers determine the value of `reg`: it is among them, or its quotient
    /// and remainder by the same divisor are determined. A divisor must satisfy `is_invariant`.
    pub fn determine(&self, reg: Reg, known: &BTreeSet<Reg>, is_invariant: &dyn Fn(&Affine) -> bool) -> bool {
        Determined { sums: self, known, is_invariant }.reg(reg, MOST_DIVISIONS)
    }
}

/// The search for registers whose values follow from others.
struct Determined<'s> {
    sums: &'s Sums,
    known: &'s BTreeSet<Reg>,
    is_invariant: &'s dyn Fn(&Affine) -> bool,
}

impl Determined<'_> {
    fn reg(&self, reg: Reg, depth: usize) -> bool {
        if self.known.contains(&reg) || depth == 0 {
            return self.known.contains(&reg);
        }
        let whole = Affine::from(reg);
        let is_division =
            |(op, of, divisor): &&Part| *op != Binary::Max && *of == whole && (self.is_invariant)(divisor);
        self.sums.parts.keys().filter(is_division).any(|(_, _, divisor)| {
            [Binary::FloorMod, Binary::FloorDiv].into_iter().all(|op| self.part(op, &whole, divisor, depth - 1))
        })
    }

    /// Returns true if a quotient or remainder is determined, under the name of an equal one if needed.
    fn part(&self, op: Binary, of: &Affine, divisor: &Affine, depth: usize) -> bool {
        let own = self.sums.parts.get(&(op, of.clone(), divisor.clone()));
        if own.is_some_and(|reg| self.reg(*reg, depth)) {
            return true;
        }
        let inner = of.as_reg().and_then(|reg| self.sums.part_of.get(&reg));
        let Some((_, whole, by)) = inner.filter(|(inner, ..)| *inner == op) else { return false };
        let Some(n) = divisor.as_constant().filter(|n| *n > 0) else { return false };
        match op {
            // (x % (n * m)) % n is x % n.
            Binary::FloorMod => is_multiple(by, n) && self.part(op, whole, divisor, depth),
            // (x // m) // n is x // (n * m).
            _ => self.part(op, whole, &by.times(n), depth),
        }
    }
}

/// Returns true if a form is a multiple of `n`.
fn is_multiple(form: &Affine, n: i64) -> bool {
    form.terms.iter().map(|(_, factor)| *factor).chain([form.constant]).all(|factor| factor % n == 0)
}
