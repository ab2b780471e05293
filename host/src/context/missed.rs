//! What the user wants to know about what passes miss: everything, or what one pass says about one variable.

use passhost_lang::ir::Module;
use plugin_api::abi::host::Wanted;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What is wanted in a context.
#[derive(Clone, Default)]
pub(crate) enum Missed {
    #[default]
    Nothing,
    /// Everything that passes report as missed.
    All,
    /// What a pass says about a variable.
    One(Arc<Question>),
}

/// Why a pass matches no pattern at a variable: asked before a run, and answered by the diagnostics of the pass.
pub struct Question {
    pass: String,
    function: Option<String>,
    variable: String,
    /// The module before the pass.
    module: OnceLock<Module>,
    /// Whether the pass searched for a pattern.
    searched: AtomicBool,
}

impl Question {
    /// Asks the pass with this full name about a variable, in one function or in all.
    pub fn new(pass: &str, function: Option<&str>, variable: &str) -> Question {
        let (pass, variable, function) = (pass.to_string(), variable.to_string(), function.map(str::to_string));
        Question { pass, function, variable, module: OnceLock::new(), searched: AtomicBool::new(false) }
    }

    /// The module as it was when the pass began; `None` if the pass did not run.
    pub fn module(&self) -> Option<&Module> {
        self.module.get()
    }

    /// Whether the pass searched for a pattern, anywhere.
    pub fn searched(&self) -> bool {
        self.searched.load(Ordering::Relaxed)
    }
}

impl Missed {
    /// A pass begins.
    pub(crate) fn begins(&self, pass: &str, module: &Module) {
        if let Missed::One(question) = self
            && question.pass == pass
        {
            question.module.get_or_init(|| module.clone());
        }
    }

    /// What is wanted of a pass in a function. A pass asks when it searches for a pattern.
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

    /// Whether something that a pass reports as missed is shown.
    pub(crate) fn shows(&self, pass: &str) -> bool {
        match self {
            Missed::Nothing => false,
            Missed::All => true,
            Missed::One(question) => question.pass == pass,
        }
    }
}
