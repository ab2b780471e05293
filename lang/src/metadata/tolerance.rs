//! The greatest change of computed values that a pass may cause.

use super::wire::tolerance;
use std::fmt;

/// The number of roundings by which float types narrower than 32 bits may differ, if a contract allows floats to differ. `rtol` and `atol`
/// apply to `float32` and wider types.
pub const NARROW_ROUNDINGS: f64 = 8.0;

/// The promise of a pass about the values computed before and after it. `passhost validate` checks the promise.
///
/// ```
/// use plugin_api::prelude::Tolerance;
///
/// assert_eq!(Tolerance::default(), Tolerance::Exact);
/// let sums = Tolerance::Reassociated { rtol: 1e-5, atol: 1e-6 };
/// assert_eq!(sums.to_string(), "reassociated, rtol 1e-5, atol 1e-6");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Tolerance {
    /// Every value has the same bits, except for the sign of a zero and the payload of a NaN.
    #[default]
    Exact,
    /// Floats are computed in a different order, or with fewer roundings. They differ by at most `atol`, plus `rtol` times the largest
    /// value of the tensor. Values that a function computes in `float16` or `bfloat16` may also differ by 8 roundings of that type.
    Reassociated {
        /// The tolerance relative to the largest value of the tensor.
        rtol: f64,
        /// The absolute tolerance.
        atol: f64,
    },
    /// Floats are computed in a different data type. Results differ by at most `atol`, plus `rtol` times the largest value of the tensor,
    /// and may have a different float type.
    Precision {
        /// The tolerance relative to the largest value of the tensor.
        rtol: f64,
        /// The absolute tolerance.
        atol: f64,
    },
    /// Like `Reassociated`, after the attribute `training` of every call is set to false: operators that differ in training take their
    /// inference form.
    Inference {
        /// The tolerance relative to the largest value of the tensor.
        rtol: f64,
        /// The absolute tolerance.
        atol: f64,
    },
    /// Like `Reassociated`, after the attribute `training` of every call is set to true.
    Training {
        /// The tolerance relative to the largest value of the tensor.
        rtol: f64,
        /// The absolute tolerance.
        atol: f64,
    },
    /// Parameters or results of functions may change. A function with unchanged parameters and results computes the same values.
    Signature,
    /// Functions accept fewer inputs, for example only one shape. They compute the same values for accepted inputs, and reject all others.
    Specialized,
    /// No promise, for example for a pass that instruments or randomizes. The pass is not validated.
    Unchecked,
}

impl Tolerance {
    /// Returns the relative and the absolute tolerance of floats.
    pub const fn limits(self) -> (f64, f64) {
        match self {
            Tolerance::Reassociated { rtol, atol }
            | Tolerance::Precision { rtol, atol }
            | Tolerance::Inference { rtol, atol }
            | Tolerance::Training { rtol, atol } => (rtol, atol),
            Tolerance::Exact | Tolerance::Signature | Tolerance::Specialized | Tolerance::Unchecked => (0.0, 0.0),
        }
    }

    /// Returns the number of the variant in the metadata.
    #[doc(hidden)]
    pub const fn number(self) -> u8 {
        match self {
            Tolerance::Exact => tolerance::EXACT,
            Tolerance::Reassociated { .. } => tolerance::REASSOCIATED,
            Tolerance::Precision { .. } => tolerance::PRECISION,
            Tolerance::Inference { .. } => tolerance::INFERENCE,
            Tolerance::Training { .. } => tolerance::TRAINING,
            Tolerance::Signature => tolerance::SIGNATURE,
            Tolerance::Specialized => tolerance::SPECIALIZED,
            Tolerance::Unchecked => tolerance::UNCHECKED,
        }
    }

    /// Returns the variant whose number is `number`, with these limits.
    pub(crate) fn of(number: u8, rtol: f64, atol: f64) -> Option<Tolerance> {
        Some(match number {
            tolerance::EXACT => Tolerance::Exact,
            tolerance::REASSOCIATED => Tolerance::Reassociated { rtol, atol },
            tolerance::PRECISION => Tolerance::Precision { rtol, atol },
            tolerance::INFERENCE => Tolerance::Inference { rtol, atol },
            tolerance::TRAINING => Tolerance::Training { rtol, atol },
            tolerance::SIGNATURE => Tolerance::Signature,
            tolerance::SPECIALIZED => Tolerance::Specialized,
            tolerance::UNCHECKED => Tolerance::Unchecked,
            _ => return None,
        })
    }

    /// Returns true if the limits are valid: the relative one from 0 to 1, the absolute one any finite nonnegative number.
    #[doc(hidden)]
    pub const fn is_sensible(self) -> bool {
        let (rtol, atol) = self.limits();
        rtol >= 0.0 && rtol <= 1.0 && atol >= 0.0 && atol < f64::INFINITY
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tolerance::Exact => f.write_str("bit-exact"),
            Tolerance::Reassociated { rtol, atol } => write!(f, "reassociated, rtol {rtol:e}, atol {atol:e}"),
            Tolerance::Precision { rtol, atol } => write!(f, "different precision, rtol {rtol:e}, atol {atol:e}"),
            Tolerance::Inference { rtol, atol } => {
                write!(f, "reassociated for inference, rtol {rtol:e}, atol {atol:e}")
            }
            Tolerance::Training { rtol, atol } => write!(f, "reassociated for training, rtol {rtol:e}, atol {atol:e}"),
            Tolerance::Signature => f.write_str("bit-exact for functions with unchanged signatures"),
            Tolerance::Specialized => f.write_str("bit-exact for inputs that are still accepted"),
            Tolerance::Unchecked => f.write_str("none"),
        }
    }
}
