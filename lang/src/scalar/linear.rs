//! Linear forms: sums of atoms with coefficients, and splits of an index as atoms.

/// A coefficient of a linear form. Each operation returns `None` if the result does not fit.
pub trait Coefficient: Clone + PartialEq {
    /// Returns the sum.
    fn plus(&self, other: &Self) -> Option<Self>;
    /// Returns the difference.
    fn minus(&self, other: &Self) -> Option<Self>;
    /// Returns the product.
    fn times(&self, other: &Self) -> Option<Self>;
    /// Returns the negation.
    fn negated(&self) -> Option<Self>;
    /// Returns true for 0.
    fn is_zero(&self) -> bool;
}

macro_rules! integers {
    ($($int:ty)*) => {$(
        impl Coefficient for $int {
            fn plus(&self, other: &Self) -> Option<Self> {
                self.checked_add(*other)
            }

            fn minus(&self, other: &Self) -> Option<Self> {
                self.checked_sub(*other)
            }

            fn times(&self, other: &Self) -> Option<Self> {
                self.checked_mul(*other)
            }

            fn negated(&self) -> Option<Self> {
                self.checked_neg()
            }

            fn is_zero(&self) -> bool {
                *self == 0
            }
        }
    )*};
}

integers! { i64 i128 }

/// A linear form: `terms[0].1 * terms[0].0 + … + constant`, in which each atom occurs once. Its users determine which expressions are
/// atoms, and the order of the terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear<A, N = i64> {
    /// The atoms with their coefficients.
    pub terms: Vec<(A, N)>,
    /// The term without an atom.
    pub constant: N,
}

impl<A: PartialEq, N: Coefficient> Linear<A, N> {
    /// Creates a form without atoms.
    pub fn constant(constant: N) -> Linear<A, N> {
        Linear { terms: Vec::new(), constant }
    }

    /// Creates the form of a single atom.
    pub fn atom(atom: A) -> Linear<A, N>
    where
        N: From<u8>,
    {
        Linear { terms: vec![(atom, 1.into())], constant: 0.into() }
    }

    /// Returns the value of a form without atoms.
    pub fn as_constant(&self) -> Option<N> {
        self.terms.is_empty().then(|| self.constant.clone())
    }

    /// Returns the atom and its coefficient if the form consists of a single term.
    pub fn as_term(&self) -> Option<&(A, N)> {
        match &self.terms[..] {
            [term] if self.constant.is_zero() => Some(term),
            _ => None,
        }
    }

    /// Returns the coefficient of an atom; 0 if it does not occur.
    pub fn coefficient(&self, atom: &A) -> N
    where
        N: Default,
    {
        self.terms.iter().find(|(known, _)| known == atom).map_or_else(N::default, |(_, by)| by.clone())
    }

    /// Adds a multiple of an atom; a new atom becomes the last term. A coefficient that becomes 0 remains.
    pub fn add(&mut self, atom: A, by: N) -> Option<()> {
        self.add_at(atom, by, |terms, _| terms.len())
    }

    fn add_at(&mut self, atom: A, by: N, place: impl FnOnce(&[(A, N)], &A) -> usize) -> Option<()> {
        match self.terms.iter_mut().find(|(known, _)| *known == atom) {
            Some((_, known)) => *known = known.plus(&by)?,
            None => self.terms.insert(place(&self.terms, &atom), (atom, by)),
        }
        Some(())
    }

    /// Removes the terms with the coefficient 0.
    #[must_use]
    pub fn without_zeros(mut self) -> Linear<A, N> {
        self.terms.retain(|(_, by)| !by.is_zero());
        self
    }

    /// Returns the sum. New atoms become the last terms.
    pub fn plus(self, other: Linear<A, N>) -> Option<Linear<A, N>> {
        self.plus_at(other, |terms, _| terms.len())
    }

    /// Returns the sum. A new atom goes to the position among the terms that `place` returns.
    pub fn plus_at(mut self, other: Linear<A, N>, place: impl Fn(&[(A, N)], &A) -> usize) -> Option<Linear<A, N>> {
        other.terms.into_iter().try_for_each(|(atom, by)| self.add_at(atom, by, &place))?;
        self.constant = self.constant.plus(&other.constant)?;
        Some(self.without_zeros())
    }

    /// Returns the difference.
    pub fn minus(mut self, other: Linear<A, N>) -> Option<Linear<A, N>> {
        for (atom, by) in other.terms {
            match self.terms.iter_mut().find(|(known, _)| *known == atom) {
                Some((_, known)) => *known = known.minus(&by)?,
                None => self.terms.push((atom, by.negated()?)),
            }
        }
        self.constant = self.constant.minus(&other.constant)?;
        Some(self.without_zeros())
    }

    /// Returns the product with a number.
    pub fn scaled(mut self, by: &N) -> Option<Linear<A, N>> {
        for (_, known) in &mut self.terms {
            *known = known.times(by)?;
        }
        self.constant = self.constant.times(by)?;
        Some(self.without_zeros())
    }
}

/// The split `source // lower % extent` of an index. A sum of splits is a [`Linear`] form with splits as atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<S> {
    /// The index.
    pub source: S,
    /// The divisor, at least 1.
    pub lower: i64,
    /// The number of values; `None` for the whole quotient.
    pub extent: Option<i64>,
}

impl<S: Clone> Split<S> {
    /// Creates the split that is the whole index.
    pub fn whole(source: S) -> Split<S> {
        Split { source, lower: 1, extent: None }
    }

    /// Returns `lower * extent`, so that the split equals `source % upper // lower`.
    pub fn upper(&self) -> Option<i64> {
        self.lower.checked_mul(self.extent?)
    }

    /// Returns the quotient and the remainder of the split and a positive number. Returns `None` if the number does not divide the extent,
    /// or the divisor of the quotient does not fit.
    pub fn cut(&self, at: i64) -> Option<(Split<S>, Split<S>)> {
        let rest = match self.extent {
            Some(extent) if extent % at != 0 => return None,
            extent => extent.map(|extent| extent / at),
        };
        let quotient = Split { lower: self.lower.checked_mul(at)?, extent: rest, ..self.clone() };
        Some((quotient, Split { extent: Some(at), ..self.clone() }))
    }

    /// Returns the quotient of `scale * self` and a positive number, as a split and its coefficient. Returns `None` if it is not a multiple
    /// of a split.
    pub fn floordiv(&self, scale: i64, by: i64) -> Option<(Split<S>, i64)> {
        if scale % by == 0 {
            return Some((self.clone(), scale / by));
        }
        let at = ratio(by, scale)?;
        match self.extent {
            Some(extent) if extent <= at => Some((self.clone(), 0)),
            _ => Some((self.cut(at)?.0, 1)),
        }
    }

    /// Returns the remainder of `scale * self` and a positive number, as a split and its coefficient. Returns `None` if it is not a
    /// multiple of a split.
    pub fn floormod(&self, scale: i64, by: i64) -> Option<(Split<S>, i64)> {
        if scale % by == 0 {
            return Some((self.clone(), 0));
        }
        let at = ratio(by, scale)?;
        match self.extent {
            Some(extent) if at % extent == 0 => Some((self.clone(), scale)),
            _ => Some((self.cut(at)?.1, scale)),
        }
    }
}

/// Returns the quotient of two numbers if the divisor is positive and divides the first number.
pub fn ratio(of: i64, by: i64) -> Option<i64> {
    (by > 0 && of % by == 0).then(|| of / by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_occur_once_and_disappear_at_0() {
        let [a, b] = ["a", "b"].map(Linear::<_, i64>::atom);
        let sum = a.clone().scaled(&3).and_then(|sum| sum.minus(b.clone())).expect("a sum");
        assert_eq!(sum, Linear { terms: vec![("a", 3), ("b", -1)], constant: 0 });
        assert_eq!(sum.clone().plus(b), a.clone().scaled(&3));
        assert_eq!(sum.clone().minus(sum.clone()), Some(Linear::constant(0)));
        assert_eq!(sum.scaled(&i64::MAX), None);
        assert_eq!(a.as_term(), Some(&("a", 1)));
    }

    /// Compares with the values, for all scales, divisors and splits of a small range.
    #[test]
    fn quotients_and_remainders_of_splits_have_the_right_values() {
        let value = |(split, scale): (Split<()>, i64), x: i64| {
            let digit = x.div_euclid(split.lower);
            scale * split.extent.map_or(digit, |extent| digit.rem_euclid(extent))
        };
        for (lower, extent, scale, by) in (1..4)
            .flat_map(|l| [None, Some(4), Some(6)].map(|e| (l, e)))
            .flat_map(|(l, e)| (-4..9).flat_map(move |scale| (1..13).map(move |by| (l, e, scale, by))))
        {
            let split = Split { source: (), lower, extent };
            for x in 0..80 {
                let whole = value((split, scale), x);
                if let Some(found) = split.floordiv(scale, by) {
                    assert_eq!(value(found, x), whole.div_euclid(by), "{split:?} * {scale} // {by}");
                }
                if let Some(found) = split.floormod(scale, by) {
                    assert_eq!(value(found, x), whole.rem_euclid(by), "{split:?} * {scale} % {by}");
                }
            }
        }
        assert_eq!(Split::whole(()).floordiv(2, 6), Some((Split { source: (), lower: 3, extent: None }, 1)));
        assert_eq!(Split { extent: Some(6), ..Split::whole(()) }.floormod(1, 4), None);
    }
}
