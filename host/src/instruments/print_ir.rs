//! Prints the module before and after passes, whole or as what changed.

use plugin_api::instrument::{PassFacts, PassInstrument};
use plugin_api::ir::Module;
use plugin_api::meta::Granularity;
use plugin_api::pass::PassError;
use script::Operators;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Which passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Passes {
    /// None.
    #[default]
    None,
    /// Those with these full names.
    Named(BTreeSet<String>),
    /// All.
    All,
}

impl Passes {
    /// All are those that do something themselves: a Sequential is printed if it is named.
    fn has(&self, pass: &PassFacts<'_>) -> bool {
        match self {
            Passes::None => false,
            Passes::Named(names) => names.contains(pass.name),
            Passes::All => pass.granularity != Granularity::Composite,
        }
    }
}

/// What is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The module before these passes.
    pub before: Passes,
    /// The module after these passes.
    pub after: Passes,
    /// What each pass that is no Sequential changed, as a unified diff; nothing if that is nothing.
    pub changes: bool,
}

/// The instrument. Each text begins with a line `# before step 1: relax.Normalize (passhost-relax-passes)`, and a blank
/// line follows it.
pub struct PrintIr {
    printed: Printed,
    operators: Arc<dyn Operators>,
    out: Box<dyn FnMut(&str)>,
    /// The module before each pass that runs now, where it is needed.
    before: Vec<Module>,
}

/// A longer search for the smallest difference helps nobody; what is found until then is shown.
const PATIENCE: Duration = Duration::from_secs(5);

impl PrintIr {
    /// Prints to `out`.
    pub fn new(printed: Printed, operators: Arc<dyn Operators>, out: Box<dyn FnMut(&str)>) -> PrintIr {
        PrintIr { printed, operators, out, before: Vec::new() }
    }

    fn tell(&mut self, when: &str, pass: &PassFacts<'_>, text: &str) {
        let PassFacts { name, plugin, position, .. } = pass;
        (self.out)(&format!("# {when} step {position}: {name} ({plugin})\n{text}\n"));
    }

    fn module(&mut self, when: &str, pass: &PassFacts<'_>, module: &Module) {
        let text = script::print(module, &*self.operators);
        self.tell(when, pass, &text);
    }
}

/// What differs between two modules as text; `None` if that is nothing.
fn difference(before: &Module, after: &Module, operators: &dyn Operators) -> Option<String> {
    if before.same(after) {
        return None;
    }
    let (before, after) = (script::print(before, operators), script::print(after, operators));
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(&before, &after);
    let text = diff.unified_diff().header("before", "after").to_string();
    (!text.is_empty()).then_some(text)
}

impl PassInstrument for PrintIr {
    fn run_before(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        if self.printed.before.has(pass) {
            self.module("before", pass, module);
        }
        if self.printed.changes {
            self.before.push(module.clone());
        }
        Ok(())
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        let before = self.before.pop().filter(|_| pass.granularity != Granularity::Composite);
        if let Some(text) = before.and_then(|before| difference(&before, module, &*self.operators)) {
            self.tell("changed by", pass, &text);
        }
        if self.printed.after.has(pass) {
            self.module("after", pass, module);
        }
        Ok(())
    }

    fn run_failed(&mut self, _: &Module, pass: &PassFacts<'_>, message: &str) -> Result<(), PassError> {
        self.before.pop();
        if self.printed.after.has(pass) {
            let message = message.lines().map(|line| format!("# {line}\n")).collect::<String>();
            self.tell("failed in", pass, &message);
        }
        Ok(())
    }
}
