//! Numbers of lanes.

use plugin_api::prelude::*;
use plugin_api::scalar::Intrinsic;
use plugin_api::scalar::PrimOp;

/// The number of lanes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    /// The number; for scalable vectors, the factor of `T.vscale()`.
    pub(super) n: i64,
    /// True if the number of lanes is a multiple of `T.vscale()`, known only at run time.
    pub(super) scalable: bool,
}

impl Lanes {
    pub(super) const ONE: Lanes = Lanes { n: 1, scalable: false };

    /// Returns the lanes of a data type.
    pub(super) fn of_type(dtype: DType) -> Lanes {
        let n = i64::from(dtype.lanes() as i16);
        Lanes { n: n.abs().max(1), scalable: n < 0 }
    }

    /// Returns the lanes for a trip count: a positive number, or `T.vscale()` times a positive number.
    pub(super) fn of_extent(extent: Value<'_>) -> Option<Lanes> {
        let positive = |value: Value<'_>| value.dim()?.as_int().filter(|n| (1..=i64::from(i16::MAX)).contains(n));
        if let Some(n) = positive(extent) {
            return Some(Lanes { n, scalable: false });
        }
        let Expr::Arith { op: PrimOp::Mul, a, b: Some(b) } = extent.view() else { return None };
        let is_vscale = |value: Value<'_>| value.as_call_to("tirx.vscale").is_some();
        let n = if is_vscale(a) { positive(b) } else { positive(a).filter(|_| is_vscale(b)) };
        Some(Lanes { n: n?, scalable: true })
    }

    /// Returns the data type with this many lanes of `dtype`; if `dtype` is a vector itself, all of its lanes are
    /// repeated.
    ///
    /// # Errors
    /// If there are more lanes than a data type can have.
    pub(super) fn of(self, dtype: DType) -> Result<DType, PassError> {
        let n = self.n.saturating_mul(elements(dtype));
        let Ok(lanes) = i16::try_from(if self.scalable { -n } else { n }) else {
            bail!("a vector of {n} lanes exceeds the limit of {}; shorten the loop", i16::MAX);
        };
        Ok(DType::new(dtype.code(), dtype.bits(), lanes as u16))
    }

    pub(super) fn max(self, other: Lanes) -> Lanes {
        Lanes { n: self.n.max(other.n), scalable: self.scalable || other.scalable }
    }
}

/// Returns the number of lanes of a data type.
pub(super) fn elements(dtype: DType) -> i64 {
    i64::from(dtype.lanes() as i16).abs().max(1)
}

/// Returns true if an operator applies to vectors lane by lane.
pub(super) fn vectorizable(op: &str) -> bool {
    let Some(name) = op.strip_prefix("tirx.").or_else(|| op.strip_prefix("prim.")) else { return false };
    Intrinsic::find(name).is_some_and(|row| row.has_lanes)
}
