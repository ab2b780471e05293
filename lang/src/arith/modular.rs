//! Modular sets: the possible remainders of an integer.

use super::store::fold;
use crate::ir::records::prim;

/// The integers `coeff * k + base` for all `k`. If `coeff` is 0, the set is the single integer `base`; if it is 1, the set contains all integers;
/// otherwise `0 <= base < coeff`.
///
/// ```
/// use plugin_api::arith::ModularSet;
///
/// let odd = ModularSet::new(2, 7);
/// assert_eq!((odd.coeff, odd.base), (2, 1));
/// assert!(odd.contains(-3) && !odd.contains(4) && ModularSet::EVERYTHING.contains(4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModularSet {
    /// The distance between two adjacent members.
    pub coeff: i64,
    /// One member of the set.
    pub base: i64,
}

impl ModularSet {
    /// All integers.
    pub const EVERYTHING: ModularSet = ModularSet { coeff: 1, base: 0 };

    /// Returns the set of all `coeff * k + base`; the sign of `coeff` does not matter.
    pub fn new(coeff: i64, base: i64) -> ModularSet {
        ModularSet::wide(coeff.into(), base.into())
    }

    /// Returns true if the set contains an integer.
    pub fn contains(self, value: i64) -> bool {
        let distance = i128::from(value) - i128::from(self.base);
        if self.coeff == 0 { distance == 0 } else { distance % i128::from(self.coeff) == 0 }
    }

    /// Returns the set of a single integer.
    pub(super) fn exactly(base: i64) -> ModularSet {
        ModularSet { coeff: 0, base }
    }

    fn wide(coeff: i128, base: i128) -> ModularSet {
        let coeff = coeff.checked_abs().unwrap_or(1);
        let base = if coeff == 0 { base } else { base.rem_euclid(coeff) };
        match (i64::try_from(coeff), i64::try_from(base)) {
            (Ok(coeff), Ok(base)) => ModularSet { coeff, base },
            _ => ModularSet::EVERYTHING,
        }
    }

    fn parts(self) -> (i128, i128) {
        (self.coeff.into(), self.base.into())
    }

    pub(super) fn add(self, other: ModularSet) -> ModularSet {
        let ((c, x), (d, y)) = (self.parts(), other.parts());
        ModularSet::wide(gcd(c, d), x + y)
    }

    pub(super) fn scale(self, by: i64) -> ModularSet {
        self.mul(ModularSet::exactly(by))
    }

    fn mul(self, other: ModularSet) -> ModularSet {
        let ((c, x), (d, y)) = (self.parts(), other.parts());
        ModularSet::wide(gcd(gcd(c * d, c * y), d * x), x * y)
    }

    /// Returns the smallest set that contains both sets.
    pub(super) fn union(self, other: ModularSet) -> ModularSet {
        let ((c, x), (d, y)) = (self.parts(), other.parts());
        ModularSet::wide(gcd(gcd(c, d), x - y), x)
    }

    /// Returns the set of an operation from the sets of its operands.
    pub(super) fn binary(op: u16, a: ModularSet, b: ModularSet) -> ModularSet {
        if let (0, 0, Some(value)) = (a.coeff, b.coeff, fold(op, a.base, b.base)) {
            return ModularSet::exactly(value);
        }
        let by = (b.coeff == 0 && b.base > 0).then_some(b.base);
        match (op, by) {
            (prim::ADD, _) => a.add(b),
            (prim::SUB, _) => a.add(b.scale(-1)),
            (prim::MUL, _) => a.mul(b),
            (prim::MIN | prim::MAX, _) => a.union(b),
            (prim::FLOORDIV, Some(by)) if a.coeff % by == 0 => ModularSet::new(a.coeff / by, a.base.div_euclid(by)),
            (prim::FLOORMOD, Some(by)) if a.coeff % by == 0 => ModularSet::exactly(a.base.rem_euclid(by)),
            (prim::FLOORMOD, Some(by)) => ModularSet::wide(gcd(a.coeff.into(), by.into()), a.base.into()),
            (prim::TRUNCMOD, Some(by)) => ModularSet::wide(gcd(a.coeff.into(), by.into()), a.base.into()),
            _ => ModularSet::EVERYTHING,
        }
    }
}

/// Returns the greatest common divisor, which is never negative; 0 if both numbers are 0.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}
