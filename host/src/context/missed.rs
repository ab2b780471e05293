//! Selects which reports of missed optimizations are shown: none, all, or those of one pass at one variable.

use passhost_lang::ir::Module;
use plugin_api::abi::host::Wanted;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The reports to show in a context.
#[derive(Clone, Default)]
pub(crate) enum Missed {
    #[default]
    Nothing,
    /// All missed optimizations that passes report.
    All,
    /// The reports of one pass about one variable.
    One(Arc<Question>),
}

/// A request to explain why a pass matches no pattern at a variable. It is set before a run, and the diagnostics of
/// the pass contain the answer.
pub struct Question {
    pass: String,
    function: Option<String>,
    variable: String,
    /// The module before the pass.
    module: OnceLock<Module>,
    /// True if the pass searched for a pattern.
    searched: AtomicBool,
}

impl Question {
    /// Creates a request to the pass with this full name about a variable, in one function or in all functions.
    pub fn new(pass: &str, function: Option<&str>, variable: &str) -> Question {
        let (pass, variable, function) = (pass.to_string(), variable.to_string(), function.map(str::to_string));
        Question { pass, function, variable, module: OnceLock::new(), searched: AtomicBool::new(false) }
    }

    /// Returns the module at the start of the pass; `None` if the pass did not run.
    pub fn module(&self) -> Option<&Module> {
        self.module.get()
    }

    /// Returns true if the pass searched for a pattern anywhere.
    pub fn searched(&self) -> bool {
        self.searched.load(Ordering::Relaxed)
    }
}

impl Missed {
    /// Records that a pass begins.
    pub(crate) fn begins(&self, pass: &str, module: &Module) {
        if let Missed::One(question) = self
            && question.pass == pass
        {
            question.module.get_or_init(|| module.clone());
        }
    }

    /// Returns the reports to show for a pass in a function. A pass calls this before it searches for a pattern.
    pub(crate) fn of(&self, pass: &str, function: Option<&str>) -> Wanted {
        match self {
            Missed::Nothing => Wanted::Nothing,
            Missed::All => Wanted::Missed,
            Missed::One(question) if question.pass == pass => {
                question.searched.store(true, Ordering::Relaxed);
                match question.function.as_deref() {
                    Some(wanted) if function.is_some_and(|function| function != wanted) => Wanted::Nothing,
                    _ => Wanted::At(question.variable.clone()),
                }
            }
            Missed::One(_) => Wanted::Nothing,
        }
    }

    /// Returns true if the missed optimizations that a pass reports are shown.
    pub(crate) fn shows(&self, pass: &str) -> bool {
        match self {
            Missed::Nothing => false,
            Missed::All => true,
            Missed::One(question) => question.pass == pass,
        }
    }
}
