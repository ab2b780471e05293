//! Checks that a rewritten sum fits its data type wherever the original sums do.
//!
//! TIR's integers do not overflow. If an intermediate sum wraps around, the final sum is still correct, but dividing or comparing it may
//! not be: `(0 - a) % m` differs from `a * (m - 1) % m` where that product wraps around.

use super::bounds::Bounds;
use super::store::{Id, Store};
use super::sum::Sum;
use super::to_dim::FIRST_ATOM;
use crate::ir::DType;
use crate::ir::records::prim;

/// Maximum coefficient with which a multiple of a 64-bit symbolic variable is assumed to fit.
const MAX_MULTIPLE: u64 = 1 << 16;
/// Maximum size of an expression that is searched for symbolic variables.
const MAX_SIZE: u32 = 64;

impl Store {
    /// Returns true if a sum fits its data type whenever the sums in `given` fit theirs.
    pub(super) fn fits_where(&self, sum: &Sum, given: &Sum, dtype: DType) -> bool {
        self.fits_where_one(sum, [given], dtype)
    }

    /// Returns true if a sum fits its data type whenever all given sums do. This holds if the sum is one of the given sums or follows from
    /// one ([`is_nearer_to_0`]), if it is an atom, or if its bounds lie within the type.
    fn fits_where_one<'s>(&self, sum: &Sum, given: impl IntoIterator<Item = &'s Sum>, dtype: DType) -> bool {
        let follows = |given: &Sum| sum == given || is_nearer_to_0(sum, given);
        let is_atom = matches!(sum.terms[..], [] | [(_, 1)]) && sum.constant == 0;
        is_atom || given.into_iter().any(follows) || self.is_within(sum, dtype) || self.is_of_dimensions(sum, dtype)
    }

    /// Builds both sides of an operation that must not wrap around. Returns `None` if a side may not fit although the
    /// given sums do.
    pub(super) fn build_both<'s>(
        &mut self,
        [left, right]: [&Sum; 2],
        given: impl IntoIterator<Item = &'s Sum> + Clone,
        dtype: DType,
    ) -> Option<(Id, Id)> {
        let fits = |side: &Sum| self.fits_where_one(side, given.clone(), dtype);
        (fits(left) && fits(right)).then_some(())?;
        Some((self.build(left, dtype)?, self.build(right, dtype)?))
    }

    fn is_within(&self, sum: &Sum, dtype: DType) -> bool {
        let bounds = self.sum_bounds(sum);
        bounds.is_finite() && bounds.is_within(Bounds::of_dtype(dtype))
    }

    /// Returns true for small multiples of 64-bit symbolic variables. Such variables are extents, far below the 64-bit limit, whereas
    /// loaded values are arbitrary.
    fn is_of_dimensions(&self, sum: &Sum, dtype: DType) -> bool {
        let is_small = |(id, c): &(Id, i64)| c.unsigned_abs() <= MAX_MULTIPLE && self.is_dimension(*id);
        dtype == DType::I64 && sum.constant.unsigned_abs() < 1 << 61 && sum.terms.iter().all(is_small)
    }

    fn is_dimension(&self, id: Id) -> bool {
        let is_known = |id: &Id| {
            let node = self.at(*id);
            match node.op {
                prim::VAR => node.a < FIRST_ATOM.into(),
                prim::INT => true,
                op => (prim::ADD..=prim::MAX).contains(&op),
            }
        };
        self.size[id as usize] <= MAX_SIZE && self.parts(id).iter().all(is_known)
    }
}

/// Returns true if `sum` is a multiple of the same atom as `given`, with a coefficient and a constant nearer to 0.
fn is_nearer_to_0(sum: &Sum, given: &Sum) -> bool {
    let ([(atom, c)], [(of, was)]) = (&sum.terms[..], &given.terms[..]) else { return false };
    let towards_0 = |now: i64, was: i64| now.signum() * was.signum() >= 0 && now.unsigned_abs() <= was.unsigned_abs();
    // Without its constant, the multiple may not fit, but half of the multiple (or less) does.
    let half = towards_0(*c, *was) && c.unsigned_abs() <= was.unsigned_abs() / 2;
    let multiple = if c == was { c.abs() == 1 || sum.constant == given.constant } else { half };
    atom == of && multiple && towards_0(sum.constant, given.constant)
}
