//! How far a pass may change what a module computes.

use super::wire::tolerance;
use std::fmt;

/// Roundings by which values of a float type of less than 32 bits may differ where a contract allows floats to differ at all:
/// `rtol` and `atol` are those of `float32` and wider types.
pub const NARROW_ROUNDINGS: f64 = 8.0;

/// What a pass promises of the values that a module computes before and after it. `passhost validate` compares them.
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
    /// Every value has the same bits; only the sign of a zero and the payload of a NaN may differ.
    #[default]
    Exact,
    /// Floats are computed in another order, or with fewer roundings. They differ by at most `atol`, plus `rtol` times the
    /// largest value of the tensor. What a function computes in `float16` or `bfloat16` may differ by 8 roundings of that
    /// type, too.
    Reassociated {
        /// Relative to the largest value of the tensor.
        rtol: f64,
        /// In any case.
        atol: f64,
    },
    /// Floats are computed in another data type. They differ by at most as much; results may have another float type.
    Precision {
        /// Relative to the largest value of the tensor.
        rtol: f64,
        /// In any case.
        atol: f64,
    },
    /// As `Reassociated`, once the attribute `training` of every call is false: operators that compute differently while a
    /// model is trained become what they are for inference.
    Inference {
        /// Relative to the largest value of the tensor.
        rtol: f64,
        /// In any case.
        atol: f64,
    },
    /// As `Reassociated`, once the attribute `training` of every call is true.
    Training {
        /// Relative to the largest value of the tensor.
        rtol: f64,
        /// In any case.
        atol: f64,
    },
    /// Functions get other parameters or results. A function that keeps them computes the same values.
    Signature,
    /// Functions take some of the inputs that they took before, as of one shape only. They compute the same values for these,
    /// and refuse others.
    Specialized,
    /// It promises nothing, as a pass that instruments or randomizes. It is not validated.
    Unchecked,
}

impl Tolerance {
    /// The relative and the absolute difference that floats may have.
    pub const fn limits(self) -> (f64, f64) {
        match self {
            Tolerance::Reassociated { rtol, atol }
            | Tolerance::Precision { rtol, atol }
            | Tolerance::Inference { rtol, atol }
            | Tolerance::Training { rtol, atol } => (rtol, atol),
            Tolerance::Exact | Tolerance::Signature | Tolerance::Specialized | Tolerance::Unchecked => (0.0, 0.0),
        }
    }

    /// Its number in the metadata.
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

    /// The one of a number, with these limits.
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

    /// Whether its limits are numbers from 0 up to 1 (relative), or any finite number (absolute).
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
            Tolerance::Precision { rtol, atol } => write!(f, "another precision, rtol {rtol:e}, atol {atol:e}"),
            Tolerance::Inference { rtol, atol } => {
                write!(f, "reassociated for inference, rtol {rtol:e}, atol {atol:e}")
            }
            Tolerance::Training { rtol, atol } => write!(f, "reassociated for training, rtol {rtol:e}, atol {atol:e}"),
            Tolerance::Signature => f.write_str("bit-exact where signatures stay"),
            Tolerance::Specialized => f.write_str("bit-exact for the inputs that are still taken"),
            Tolerance::Unchecked => f.write_str("none"),
        }
    }
}
