//! What TVM does differently.

/// Whose rules a plan and its run follow. Each deviation of TVM 0.27 is one question here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Those of passhost.
    #[default]
    Passhost,
    /// Those of TVM 0.27.
    Tvm,
}

impl Compat {
    /// Of what a request asks for.
    pub fn of(tvm_compat: bool) -> Compat {
        if tvm_compat { Compat::Tvm } else { Compat::Passhost }
    }

    /// Whether they are those of TVM.
    pub fn is_tvm(self) -> bool {
        self == Compat::Tvm
    }

    /// Whether a pipeline of one item calls that item, and a longer one is a Sequential.
    pub(crate) fn calls_the_pipeline(self) -> bool {
        self.is_tvm()
    }

    /// Whether any text can be a name in a list: names are compared as they are, and only the run finds out that no
    /// plugin contributes a required one. Otherwise the planner looks up each name.
    pub(crate) fn takes_any_name(self) -> bool {
        self.is_tvm()
    }

    /// Whether the planner reports what contradicts itself: passes both required and disabled, required passes that
    /// invalidate each other, and required passes that the pipeline does not contain.
    pub(crate) fn reports_clashes(self) -> bool {
        !self.is_tvm()
    }

    /// Whether each required pass runs each time directly before its user, whatever holds, and without what it requires
    /// itself. Otherwise it runs unless it is still valid, after what it requires, and with all its members.
    pub(crate) fn runs_required_each_time(self) -> bool {
        self.is_tvm()
    }

    /// Whether a step runs although a member of what it needs did not.
    pub(crate) fn runs_in_spite_of_missing_members(self) -> bool {
        self.is_tvm()
    }

    /// Whether the result of a pass is lost if an instrument fails after it.
    pub fn loses_result_of_failed_after(self) -> bool {
        self.is_tvm()
    }

    /// Whether instruments do not learn that a pass ended, once it failed or one of them failed after it.
    pub fn leaves_failed_passes_open(self) -> bool {
        self.is_tvm()
    }
}
