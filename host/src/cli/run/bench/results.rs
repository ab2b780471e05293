//! The results of a measurement.

use super::against::Compared;
use super::turns::Turns;
use crate::run::execute::peak::Peaks;
use crate::run::execute::timed::Timed;
use native::Made;

/// The results of a measurement, with the settings.
pub(super) struct Bench {
    pub(super) input: String,
    pub(super) function: String,
    /// A description of the passes that ran.
    pub(super) passes: String,
    /// A description of the backend that executed the kernels.
    pub(super) backend: String,
    pub(super) threads: usize,
    /// Compilation of all kernels, measured with `--cold`.
    pub(super) cold: Option<Made>,
    pub(super) made: Made,
    pub(super) measured: Measured,
    /// The kernels, slowest first.
    pub(super) kernels: Vec<Kernel>,
}

/// Times of the runs, with the peaks of the machine and the other program.
pub(super) struct Measured {
    pub(super) turns: Turns,
    pub(super) peaks: Option<Peaks>,
    pub(super) against: Option<Compared>,
}

/// A kernel of the executed module.
pub(super) struct Kernel {
    pub(super) name: String,
    pub(super) timed: Timed,
}
