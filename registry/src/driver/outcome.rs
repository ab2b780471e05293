//! The outcome of a step.

use std::fmt;

/// The outcome of a step. The driver returns the first four outcomes; a run adds the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step ran and changed the module.
    Changed,
    /// The step ran and did not change the module.
    Unchanged,
    /// The step did not run, because its effect still holds.
    StillValid,
    /// The step did not run, for the given reason: the plan skipped it, or another step failed or was
    /// vetoed.
    Skipped(String),
    /// The step did not run, because the given instruments vetoed it.
    Vetoed(String),
    /// The step was not called, for the given reason, because it is not among the passes to call.
    Uncalled(&'static str),
    /// The step failed.
    Failed,
    /// The step stopped, because the given member failed or was skipped.
    Stopped(String),
}

impl Outcome {
    /// Returns the outcome of a step that ran to completion.
    pub fn of_run(changed: bool) -> Outcome {
        if changed { Outcome::Changed } else { Outcome::Unchanged }
    }

    /// Returns true if the step ran to completion.
    pub fn ran(&self) -> bool {
        matches!(self, Outcome::Changed | Outcome::Unchanged)
    }
}

/// Formats the outcome, such as `skipped: opt_level 3 > 2`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Changed => f.write_str("changed"),
            Outcome::Unchanged => f.write_str("unchanged"),
            Outcome::StillValid => f.write_str("kept: still valid"),
            Outcome::Skipped(why) => write!(f, "skipped: {why}"),
            Outcome::Vetoed(by) => write!(f, "vetoed by {by}"),
            Outcome::Uncalled(why) => write!(f, "not called: {why}"),
            Outcome::Failed => f.write_str("failed"),
            Outcome::Stopped(member) => write!(f, "stopped at {member}"),
        }
    }
}
