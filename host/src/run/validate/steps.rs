//! An instrument that keeps the modules before and after each pass.

use passhost_lang::PassError;
use passhost_lang::ir::Module;
use passhost_lang::metadata::{Granularity, Tolerance};
use plugin_api::declare::instrument::{PassFacts, PassInstrument};
use registry::Registry;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A pass that ran, with the modules before and after it. The two modules share the parts that the pass did not change.
#[derive(Clone, Debug)]
pub struct ValidatedStep {
    /// Number of the step in the plan.
    pub position: usize,
    /// Full name of the pass.
    pub pass: String,
    /// The plugin that provides the pass.
    pub plugin: String,
    /// The granularity of the pass.
    pub granularity: Granularity,
    /// The tolerance in its contract.
    pub tolerance: Tolerance,
    /// The module before the pass.
    pub before: Module,
    /// The module after the pass.
    pub after: Module,
}

/// The successful passes of a run, in order. A composite pass appears only as its members.
#[derive(Clone)]
pub struct ChangedSteps {
    steps: Rc<RefCell<Vec<ValidatedStep>>>,
    most: usize,
}

impl Default for ChangedSteps {
    fn default() -> ChangedSteps {
        ChangedSteps::first(usize::MAX)
    }
}

impl ChangedSteps {
    /// Collects at most `most` steps, because each one keeps its modules in memory.
    pub fn first(most: usize) -> ChangedSteps {
        ChangedSteps { steps: Rc::default(), most }
    }

    /// Creates the instrument that collects the steps.
    pub fn instrument(&self, registry: &Registry) -> Box<dyn PassInstrument> {
        let tolerances = registry.passes().map(|(_, info)| (info.name.clone(), info.tolerance)).collect();
        Box::new(Collector { steps: self.clone(), tolerances, open: Vec::new() })
    }

    /// Returns the steps collected so far.
    pub fn seen(&self) -> Vec<ValidatedStep> {
        self.steps.borrow().clone()
    }

    /// Removes and returns the collected steps.
    pub fn take(&self) -> Vec<ValidatedStep> {
        self.steps.take()
    }
}

struct Collector {
    steps: ChangedSteps,
    tolerances: HashMap<String, Tolerance>,
    /// The module before each pass in progress, and whether another pass ran inside of it.
    open: Vec<(Module, bool)>,
}

impl PassInstrument for Collector {
    fn run_before(&mut self, module: &Module, _: &PassFacts<'_>) -> Result<(), PassError> {
        self.open.iter_mut().for_each(|(_, has_inner)| *has_inner = true);
        self.open.push((module.clone(), false));
        Ok(())
    }

    fn run_after(&mut self, module: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        let Some((before, false)) = self.open.pop() else { return Ok(()) };
        let mut steps = self.steps.steps.borrow_mut();
        if steps.len() >= self.steps.most {
            return Ok(());
        }
        steps.push(ValidatedStep {
            position: pass.position,
            pass: pass.name.to_string(),
            plugin: pass.plugin.to_string(),
            granularity: pass.granularity,
            tolerance: self.tolerances.get(pass.name).copied().unwrap_or_default(),
            before,
            after: module.clone(),
        });
        Ok(())
    }

    fn run_failed(&mut self, _: &Module, _: &PassFacts<'_>, _: &str) -> Result<(), PassError> {
        self.open.pop();
        Ok(())
    }
}

impl ValidatedStep {
    /// Returns the step with functions renamed to the names that they have outside of the module, because a pass may rename them this way.
    /// Returns `None` if they already have these names, cannot have them, or lose them in the pass.
    pub(super) fn with_visible_names(&self) -> Option<ValidatedStep> {
        let names = self.before.visible_names().ok()?;
        let public = |name: &str| self.before.get(name).is_some_and(|body| !body.is_private());
        if !names.iter().any(|(name, visible)| name != visible && public(name)) {
            return None;
        }
        let before = self.before.rename_functions(&names).ok()?;
        let after = self.after.rename_functions(&self.after.visible_names().ok()?).ok()?;
        let keeps_all = names.iter().all(|(name, visible)| !public(name) || after.get(visible).is_some());
        keeps_all.then(|| ValidatedStep { before, after, ..self.clone() })
    }
}
