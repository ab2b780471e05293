//! Counts the float operations of a program.

use super::conditions::less_than_zero;
use super::{Affine, Binary, Instr, Literal, Loop, Program, Reg, Unary, each_instr};
use std::collections::{BTreeSet, HashMap};

/// Returns the number of float operations of a call, given the values of some registers. Binary operations and
/// unary functions count as one, a fused multiply-add as two. A branch counts in proportion to how often its
/// condition holds, if this can be computed from a few thousand iterations of the enclosing loops, for example at
/// the end of a row that is not a multiple of the tile. Otherwise, the longer branch counts. `None` if a trip
/// count is unknown.
pub fn float_operations(program: &Program, known: &[(Reg, i64)]) -> Option<u64> {
    let mut defined = HashMap::new();
    each_instr(&program.body, &mut |instr| defined.extend(instr.written().map(|reg| (reg, instr))));
    let (loops, holding) = (Vec::new(), Vec::new());
    let mut count = Count { program, known: known.iter().copied().collect(), defined, loops, holding };
    // Branches contribute fractions, so the sum is rounded.
    count.of(&program.body).map(|operations| operations.round() as u64)
}

/// Maximum number of loop variable combinations to try.
const MOST_TRIED: i64 = 1 << 12;

/// Maximum number of steps from a condition back to the loop variables that it depends on.
const STEPS: u32 = 8;

struct Count<'p> {
    program: &'p Program,
    known: HashMap<Reg, i64>,
    defined: HashMap<Reg, &'p Instr>,
    /// The enclosing loops, each with variable, first value and extent.
    loops: Vec<(Reg, i64, i64)>,
    /// Forms that are less than 0 in the enclosing branches.
    holding: Vec<Affine>,
}

impl<'p> Count<'p> {
    fn of(&mut self, list: &'p [Instr]) -> Option<f64> {
        list.iter().try_fold(0f64, |sum, instr| {
            self.learn(instr);
            let n = match instr {
                Instr::Binary { op, dst, a, .. } => {
                    f64::from(u8::from(self.is_float(*dst) && self.is_float(*a) && counts(*op)))
                }
                Instr::Unary { op: Unary::Math(_), .. } => 1.0,
                Instr::MulAdd { .. } => 2.0,
                Instr::For(of) => self.for_(of)?,
                Instr::If { cond, then, otherwise, .. } => self.if_(*cond, then, otherwise)?,
                Instr::While { head, body, .. } => match self.of(head)? + self.of(body)? {
                    0.0 => 0.0,
                    _ => return None,
                },
                _ => 0.0,
            };
            Some(sum + n)
        })
    }

    /// Records the value of an integer that follows from known ones, such as the number of tiles of an extent.
    fn learn(&mut self, instr: &Instr) {
        let value = match instr {
            Instr::Const { value: Literal::Int(value), .. } => Some(*value),
            Instr::Affine { form, .. } => self.value(form),
            Instr::Binary { op, a, b, .. } => self.known.get(a).zip(self.known.get(b)).and_then(|(a, b)| match op {
                Binary::Add => a.checked_add(*b),
                Binary::Sub => a.checked_sub(*b),
                Binary::Mul => a.checked_mul(*b),
                Binary::Min => Some(*a.min(b)),
                Binary::Max => Some(*a.max(b)),
                Binary::FloorDiv if *b > 0 => Some(a.div_euclid(*b)),
                Binary::FloorMod if *b > 0 => Some(a.rem_euclid(*b)),
                _ => None,
            }),
            _ => None,
        };
        if let Some((reg, value)) = instr.written().zip(value) {
            self.known.insert(reg, value);
        }
    }

    fn for_(&mut self, of: &'p Loop) -> Option<f64> {
        let [min, extent] = [&of.min, &of.extent].map(|form| self.value(form));
        let around = self.loops.len();
        self.loops.extend(min.zip(extent).map(|(min, extent)| (of.var, min, extent)));
        let inner = self.of(&of.body);
        self.loops.truncate(around);
        match inner? {
            0.0 => Some(0.0),
            inner => Some(inner * extent?.max(0) as f64),
        }
    }

    fn if_(&mut self, cond: Reg, then: &'p [Instr], otherwise: &'p [Instr]) -> Option<f64> {
        let forms = less_than_zero(cond, &self.defined, &|reg| (!self.is_float(reg)).then(|| self.form(reg, STEPS)));
        let share = forms.as_ref().and_then(|forms| self.share(forms));
        let forms = share.and(forms).unwrap_or_default();
        // If a form is not less than 0, then -form - 1 is.
        let opposite = match &forms[..] {
            [form] => vec![Affine::from(-1).plus(form, -1)],
            _ => Vec::new(),
        };
        let [then, otherwise] = [(then, forms), (otherwise, opposite)].map(|(list, holds)| {
            let around = self.holding.len();
            self.holding.extend(holds);
            let operations = self.of(list);
            self.holding.truncate(around);
            operations
        });
        let (then, otherwise) = (then?, otherwise?);
        Some(share.map_or(then.max(otherwise), |share| then * share + otherwise * (1.0 - share)))
    }

    /// Returns the fraction of the iterations at the current place in which all `forms` are less than 0.
    fn share(&self, forms: &[Affine]) -> Option<f64> {
        let all: Vec<&Affine> = self.holding.iter().chain(forms).collect();
        let regs: BTreeSet<Reg> = all.iter().flat_map(|form| form.terms.iter().map(|(reg, _)| *reg)).collect();
        let free = regs.into_iter().filter(|reg| !self.known.contains_key(reg));
        let loops: Vec<(Reg, i64, i64)> =
            free.map(|reg| self.loops.iter().find(|(var, ..)| *var == reg).copied()).collect::<Option<_>>()?;
        let tries = loops.iter().try_fold(1i64, |all, (_, _, extent)| all.checked_mul((*extent).max(0)))?;
        if tries > MOST_TRIED {
            return None;
        }
        let (mut reached, mut held) = (0u32, 0u32);
        let mut values = self.known.clone();
        for number in 0..tries {
            let mut rest = number;
            for (var, min, extent) in &loops {
                values.insert(*var, min + rest % extent);
                rest /= extent;
            }
            let holds = |form: &&Affine| value(form, &values).is_some_and(|value| value < 0);
            if all[..self.holding.len()].iter().all(holds) {
                reached += 1;
                held += u32::from(all[self.holding.len()..].iter().all(holds));
            }
        }
        (reached > 0).then(|| f64::from(held) / f64::from(reached))
    }

    /// Expresses a register in terms of others, following at most `steps` steps of its computation.
    fn form(&self, reg: Reg, steps: u32) -> Affine {
        let Some(steps) = steps.checked_sub(1) else { return Affine::from(reg) };
        match self.defined.get(&reg) {
            Some(Instr::Affine { form, .. }) => form
                .terms
                .iter()
                .fold(Affine::from(form.constant), |sum, (reg, factor)| sum.plus(&self.form(*reg, steps), *factor)),
            Some(Instr::Const { value: Literal::Int(value), .. }) => Affine::from(*value),
            Some(Instr::Unary { op: Unary::Cast, a, .. }) if self.keeps(*a, reg) => self.form(*a, steps),
            Some(Instr::Binary { op, a, b, .. }) if !self.is_float(*a) => {
                let [a, b] = [a, b].map(|reg| self.form(*reg, steps));
                match (op, a.as_constant(), b.as_constant()) {
                    (Binary::Add, ..) => a.plus(&b, 1),
                    (Binary::Sub, ..) => a.plus(&b, -1),
                    (Binary::Mul, _, Some(factor)) => a.times(factor),
                    (Binary::Mul, Some(factor), _) => b.times(factor),
                    _ => Affine::from(reg),
                }
            }
            _ => Affine::from(reg),
        }
    }

    /// Returns true if the type of `to` can represent every integer of the type of `from`.
    fn keeps(&self, from: Reg, to: Reg) -> bool {
        let [(least, most), (low, high)] = [from, to].map(|reg| self.program.registers[reg.index()].range());
        !self.is_float(from) && !self.is_float(to) && low <= least && most <= high
    }

    fn is_float(&self, reg: Reg) -> bool {
        self.program.registers.get(reg.index()).is_some_and(|scalar| scalar.is_float())
    }

    fn value(&self, form: &Affine) -> Option<i64> {
        value(form, &self.known)
    }
}

/// Evaluates a form.
fn value(form: &Affine, known: &HashMap<Reg, i64>) -> Option<i64> {
    form.terms
        .iter()
        .try_fold(form.constant, |sum, (reg, factor)| sum.checked_add(known.get(reg)?.checked_mul(*factor)?))
}

/// Returns true if an operation counts as a float operation; `CopySign` does not, because it only moves a sign.
fn counts(op: Binary) -> bool {
    op != Binary::CopySign
}
