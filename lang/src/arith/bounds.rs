//! Constant bounds of integers, and the bounds of operations.

use crate::ir::DType;
use crate::ir::records::prim;

/// The least and the greatest value that an integer expression can have. An unknown bound is [`Bounds::NEG_INF`] or [`Bounds::POS_INF`].
///
/// ```
/// use plugin_api::arith::Bounds;
///
/// let index = Bounds::of(0, 15);
/// assert!(index.contains(15) && !index.contains(16) && index.is_finite());
/// assert!(!Bounds::at_least(1).is_finite());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The lower bound.
    pub min: i64,
    /// The upper bound.
    pub max: i64,
}

/// Infinity in the computation of bounds. It exceeds the 64-bit range even after division by any 64-bit number.
const INF: i128 = 1 << 126;

impl Bounds {
    /// Lower bound if no lower bound is known.
    pub const NEG_INF: i64 = i64::MIN;
    /// Upper bound if no upper bound is known.
    pub const POS_INF: i64 = i64::MAX;
    /// The bounds of an unknown integer.
    pub const EVERYTHING: Bounds = Bounds { min: Bounds::NEG_INF, max: Bounds::POS_INF };

    /// Returns the bounds `min..=max`.
    pub const fn of(min: i64, max: i64) -> Bounds {
        Bounds { min, max }
    }

    /// Returns the bounds of all values from `min` upwards.
    pub const fn at_least(min: i64) -> Bounds {
        Bounds { min, max: Bounds::POS_INF }
    }

    /// Returns the bounds of all values up to `max`.
    pub const fn at_most(max: i64) -> Bounds {
        Bounds { min: Bounds::NEG_INF, max }
    }

    /// Returns the range of a data type; unbounded for 64-bit types and for types that are not integers.
    pub fn of_dtype(dtype: DType) -> Bounds {
        match (dtype.code(), u32::from(dtype.bits())) {
            (6, _) => Bounds::of(0, 1),
            (0, bits @ 1..64) => Bounds::of(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (1, bits @ 1..63) => Bounds::of(0, (1 << bits) - 1),
            (1, _) => Bounds::at_least(0),
            _ => Bounds::EVERYTHING,
        }
    }

    /// Returns true if a value lies within the bounds.
    pub fn contains(self, value: i64) -> bool {
        self.min <= value && value <= self.max
    }

    /// Returns true if `other` contains all values of `self`.
    pub(super) fn is_within(self, other: Bounds) -> bool {
        other.contains(self.min) && other.contains(self.max)
    }

    /// Returns true if both bounds are known.
    pub fn is_finite(self) -> bool {
        self.min != Bounds::NEG_INF && self.max != Bounds::POS_INF
    }

    /// Returns the value if there is only one.
    pub fn constant(self) -> Option<i64> {
        (self.min == self.max && self.is_finite()).then_some(self.min)
    }

    /// Returns the intersection; `self` if the two are disjoint, because nothing follows from a contradiction.
    #[must_use]
    pub fn intersect(self, other: Bounds) -> Bounds {
        let both = Bounds::of(self.min.max(other.min), self.max.min(other.max));
        if both.min <= both.max { both } else { self }
    }

    /// Returns the smallest bounds that contain both.
    #[must_use]
    pub fn union(self, other: Bounds) -> Bounds {
        Bounds::of(self.min.min(other.min), self.max.max(other.max))
    }

    fn wide(self) -> (i128, i128) {
        let min = if self.min == Bounds::NEG_INF { -INF } else { i128::from(self.min) };
        let max = if self.max == Bounds::POS_INF { INF } else { i128::from(self.max) };
        (min, max)
    }

    /// Returns the 64-bit bounds that contain `min..=max`. A lower bound beyond 64 bits is rounded down, and an upper bound is rounded
    /// up. A range entirely beyond 64 bits wraps around, so its bounds are unknown.
    fn narrow(min: i128, max: i128) -> Bounds {
        let (low, high) = (i128::from(i64::MIN), i128::from(i64::MAX));
        if max < low || min > high {
            return Bounds::EVERYTHING;
        }
        Bounds { min: min.clamp(low, high - 1) as i64, max: max.clamp(low + 1, high) as i64 }
    }

    fn corners(a: Bounds, b: Bounds, f: impl Fn(i128, i128) -> i128) -> Bounds {
        let ((a, b), (c, d)) = (a.wide(), b.wide());
        let values = [f(a, c), f(a, d), f(b, c), f(b, d)];
        let (min, max) = values.iter().fold((i128::MAX, i128::MIN), |(min, max), v| (min.min(*v), max.max(*v)));
        Bounds::narrow(min, max)
    }

    /// Returns the bounds of a single value.
    pub(super) fn exactly(value: i64) -> Bounds {
        Bounds::narrow(value.into(), value.into())
    }

    pub(super) fn add(self, other: Bounds) -> Bounds {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        Bounds::narrow(a.saturating_add(c), b.saturating_add(d))
    }

    pub(super) fn negate(self) -> Bounds {
        let (min, max) = self.wide();
        Bounds::narrow(-max, -min)
    }

    pub(super) fn scale(self, by: i64) -> Bounds {
        self.mul(Bounds::of(by, by))
    }

    fn mul(self, other: Bounds) -> Bounds {
        // 0 times infinity is 0, because every actual value is finite.
        Bounds::corners(self, other, i128::saturating_mul)
    }

    /// Returns the largest absolute value.
    fn magnitude(self) -> i128 {
        let (min, max) = self.wide();
        min.abs().max(max.abs())
    }

    /// Returns the bounds of quotients rounded down. Divisors are never 0.
    pub(super) fn floordiv(self, by: Bounds) -> Bounds {
        if by.min >= 0 {
            let by = Bounds { min: by.min.max(1), max: by.max.max(1) };
            return Bounds::corners(self, by, i128::div_euclid);
        }
        if by.max <= 0 {
            return self.negate().floordiv(by.negate());
        }
        let most = self.magnitude();
        Bounds::narrow(-most, most)
    }

    pub(super) fn floormod(self, by: Bounds) -> Bounds {
        let (low, high) = by.wide();
        if let Some(by) = by.constant().filter(|by| *by > 0)
            && self.is_finite()
            && self.min.div_euclid(by) == self.max.div_euclid(by)
        {
            return Bounds::of(self.min.rem_euclid(by), self.max.rem_euclid(by));
        }
        let rest = Bounds::narrow((low + 1).min(0), (high - 1).max(0));
        // The remainder of two nonnegative numbers is at most the dividend.
        if by.min >= 0 && self.min >= 0 { Bounds::of(rest.min, rest.max.min(self.max)) } else { rest }
    }

    fn truncdiv(self, by: Bounds) -> Bounds {
        if by.min >= 0 {
            let by = Bounds { min: by.min.max(1), max: by.max.max(1) };
            return Bounds::corners(self, by, |a, b| a / b);
        }
        let most = self.magnitude();
        Bounds::narrow(-most, most)
    }

    fn truncmod(self, by: Bounds) -> Bounds {
        let most = by.magnitude().saturating_sub(1).max(0);
        let (min, max) = self.wide();
        Bounds::narrow(min.max(-most).min(0), max.min(most).max(0))
    }

    /// Returns the bounds of an operation from the bounds of its operands.
    pub(super) fn binary(op: u16, a: Bounds, b: Bounds) -> Bounds {
        match op {
            prim::FLOORDIV..=prim::TRUNCMOD if b.constant() == Some(0) => Bounds::EVERYTHING,
            prim::ADD => a.add(b),
            prim::SUB => a.add(b.negate()),
            prim::MUL => a.mul(b),
            prim::FLOORDIV => a.floordiv(b),
            prim::FLOORMOD => a.floormod(b),
            prim::TRUNCDIV => a.truncdiv(b),
            prim::TRUNCMOD => a.truncmod(b),
            prim::MIN => Bounds::of(a.min.min(b.min), a.max.min(b.max)),
            prim::MAX => Bounds::of(a.min.max(b.min), a.max.max(b.max)),
            prim::EQ..=prim::OR => Bounds::of(0, 1),
            prim::BITAND if a.min >= 0 && b.min >= 0 => Bounds::of(0, a.max.min(b.max)),
            prim::BITAND if b.min >= 0 => Bounds::of(0, b.max),
            prim::BITAND if a.min >= 0 => Bounds::of(0, a.max),
            prim::SHL if a.min >= 0 && a.max <= i64::from(i32::MAX) && b.min >= 0 && b.max < 63 => {
                Bounds::corners(a, b, |a, b| a << b.clamp(0, 62))
            }
            prim::SHR if b.min >= 0 && b.max < 63 => Bounds::corners(a, b, |a, b| a >> b.clamp(0, 62)),
            _ => Bounds::EVERYTHING,
        }
    }
}
