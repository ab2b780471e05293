//! Linear forms over integer registers.

use super::Reg;

/// A constant plus registers times constants. Unlike [`Linear`](passhost_lang::scalar::Linear), it computes like the machine: arithmetic is
/// 64-bit, wraps around and never fails. Its terms are in the order of the registers, so that equal forms have equal records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affine {
    /// The constant.
    pub constant: i64,
    /// Distinct registers in order, with nonzero factors.
    pub terms: Vec<(Reg, i64)>,
}

impl From<i64> for Affine {
    fn from(constant: i64) -> Affine {
        Affine { constant, terms: Vec::new() }
    }
}

impl From<Reg> for Affine {
    fn from(reg: Reg) -> Affine {
        Affine { constant: 0, terms: vec![(reg, 1)] }
    }
}

impl Affine {
    /// Returns the value if the expression does not contain registers.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns the register if the form is a single register.
    pub fn as_reg(&self) -> Option<Reg> {
        match self.terms[..] {
            [(reg, 1)] if self.constant == 0 => Some(reg),
            _ => None,
        }
    }

    /// Returns the factor of a register.
    pub fn factor(&self, reg: Reg) -> i64 {
        self.terms.iter().find(|(of, _)| *of == reg).map_or(0, |(_, factor)| *factor)
    }

    /// Returns `self + other * factor`.
    #[must_use]
    pub fn plus(&self, other: &Affine, factor: i64) -> Affine {
        let mut terms: Vec<(Reg, i64)> = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some((a, f)), Some((b, g))) if a == b => {
                    let term = (*a, f.wrapping_add(g.wrapping_mul(factor)));
                    left.next();
                    right.next();
                    term
                }
                (Some((a, _)), Some((b, g))) if b < a => {
                    right.next();
                    (*b, g.wrapping_mul(factor))
                }
                (Some((a, f)), _) => {
                    left.next();
                    (*a, *f)
                }
                (None, Some((b, g))) => {
                    right.next();
                    (*b, g.wrapping_mul(factor))
                }
                (None, None) => break,
            };
            terms.extend((next.1 != 0).then_some(next));
        }
        Affine { constant: self.constant.wrapping_add(other.constant.wrapping_mul(factor)), terms }
    }

    /// Returns `self * factor`.
    #[must_use]
    pub fn times(&self, factor: i64) -> Affine {
        Affine::from(0).plus(self, factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_registers_in_order_and_drop_what_cancels() {
        let [a, b, c] = [0, 1, 2].map(|n| Affine::from(Reg(n)));
        let sum = c.plus(&a, 3).plus(&b, -1).plus(&Affine::from(7), 2);
        assert_eq!(sum, Affine { constant: 14, terms: vec![(Reg(0), 3), (Reg(1), -1), (Reg(2), 1)] });
        assert_eq!(sum.plus(&b, 1).factor(Reg(1)), 0);
        assert_eq!(sum.plus(&sum, -1), Affine::from(0));
        assert_eq!(sum.times(2).factor(Reg(0)), 6);
    }
}
