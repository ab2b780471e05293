//! The differences between TVM and passhost.

/// Selects whether a plan and its run behave as in passhost or as in TVM 0.27. Each method is one difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// As in passhost.
    #[default]
    Passhost,
    /// As in TVM 0.27.
    Tvm,
}

impl Compat {
    /// Returns the mode for a request.
    pub fn of(tvm_compat: bool) -> Compat {
        if tvm_compat { Compat::Tvm } else { Compat::Passhost }
    }

    /// Returns true if the run behaves as in TVM.
    pub fn is_tvm(self) -> bool {
        self == Compat::Tvm
    }

    /// Returns true if a single-item pipeline calls the item directly, and a longer pipeline is a Sequential.
    pub(crate) fn calls_the_pipeline(self) -> bool {
        self.is_tvm()
    }

    /// Returns true if any string can be a name in a list. Names are then compared literally, and only the run detects
    /// missing required passes. Otherwise, the planner looks up each name.
    pub(crate) fn takes_any_name(self) -> bool {
        self.is_tvm()
    }

    /// Returns true if the planner reports contradictions: passes both required and disabled, required passes that
    /// invalidate each other, and required passes that the pipeline does not contain.
    pub(crate) fn reports_clashes(self) -> bool {
        !self.is_tvm()
    }

    /// Returns true if a required pass runs every time, directly before its user, regardless of the facts, and without
    /// its own requirements. Otherwise, it runs unless it is still valid, after its requirements, and with all its
    /// members.
    pub(crate) fn runs_required_each_time(self) -> bool {
        self.is_tvm()
    }

    /// Returns true if a step runs even if a member of one of its requirements did not run.
    pub(crate) fn runs_in_spite_of_missing_members(self) -> bool {
        self.is_tvm()
    }

    /// Returns true if the result of a pass is lost when an instrument fails after it.
    pub fn loses_result_of_failed_after(self) -> bool {
        self.is_tvm()
    }

    /// Returns true if instruments are not notified of the end of a pass after it failed, or after an instrument failed
    /// after it.
    pub fn leaves_failed_passes_open(self) -> bool {
        self.is_tvm()
    }
}
