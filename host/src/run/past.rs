//! What ran before: a run that continues where another one failed, and one that does a part of its plan.

use registry::PassId;
use std::collections::VecDeque;

/// What became of a pass in an earlier run of the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// It changed the module.
    Changed,
    /// It ran and changed nothing.
    Unchanged,
    /// Instruments did not let it run.
    Vetoed,
}

impl Past {
    /// As a bundle has it.
    pub fn name(self) -> &'static str {
        match self {
            Past::Changed => "changed",
            Past::Unchanged => "unchanged",
            Past::Vetoed => "vetoed",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Past> {
        [Past::Changed, Past::Unchanged, Past::Vetoed].into_iter().find(|past| past.name() == name)
    }
}

/// Which passes of a plan are called. Passes that are not called count as ones that changed nothing.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// What became of the first passes, which are not called.
    pub past: Vec<Past>,
    /// Only this pass is called.
    pub only: Option<PassId>,
    /// No pass is called after this one.
    pub until: Option<PassId>,
}

/// What is left of a [`Part`] while a run goes on.
pub(super) struct Rest {
    past: VecDeque<Past>,
    only: Option<PassId>,
    until: Option<PassId>,
    over: bool,
}

impl Rest {
    pub(super) fn of(part: &Part) -> Rest {
        Rest { past: part.past.iter().copied().collect(), only: part.only, until: part.until, over: false }
    }

    /// Whether passes are left that ran before.
    pub(super) fn is_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// What becomes of the next pass without a call; `None`: it is called.
    pub(super) fn instead(&mut self, pass: PassId) -> Option<Past> {
        if let Some(past) = self.past.pop_front() {
            return Some(past);
        }
        let left_out = self.over || self.only.is_some_and(|only| only != pass);
        self.over |= self.until == Some(pass);
        left_out.then_some(Past::Unchanged)
    }
}

/// Where a run first failed: enough to run the same step again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The module before the step.
    pub before: plugin_api::ir::Module,
    /// What became of the passes before it.
    pub past: Vec<Past>,
}
