//! The Sequentials and composite passes that have begun, and their rounds.

use crate::instruments::Started;
use passhost_lang::ir::Module;
use registry::{Facts, PassId, Registry, Step};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// A Sequential or composite pass that has begun.
pub(super) struct Whole<'p> {
    pub(super) step: Cow<'p, Step>,
    /// Number of the line in the plan.
    pub(super) number: usize,
    /// The instruments that were notified of the start.
    pub(super) started: Started,
    pub(super) before: Module,
    /// Number of passes that ran before it.
    pub(super) begun: usize,
    /// The rounds, if the step runs until nothing changes.
    pub(super) rounds: Option<Rounds>,
}

/// The rounds of a Sequential so far.
pub(super) struct Rounds {
    /// Properties that held before the first round, and the number of counters at that time.
    pub(super) facts: Facts,
    pub(super) counted: usize,
    /// The modules before the first round and after each round, by hash.
    seen: HashMap<u64, Vec<(u32, Module)>>,
    /// For each round, the passes that changed the module.
    changed: Vec<BTreeSet<PassId>>,
}

impl Rounds {
    pub(super) fn of(module: &Module, facts: &Facts, counted: usize) -> Rounds {
        let seen = HashMap::from([(module.structural_hash(), vec![(0, module.clone())])]);
        Rounds { facts: facts.clone(), counted, seen, changed: Vec::new() }
    }

    /// Records that a round ended with this module. Returns the earlier round that ended with the same module, if any;
    /// rounds count from 1.
    pub(super) fn ended(&mut self, round: u32, module: &Module, changed: BTreeSet<PassId>) -> Option<u32> {
        self.changed.push(changed);
        let alike = self.seen.entry(module.structural_hash()).or_default();
        if let Some((earlier, _)) = alike.iter().find(|(_, seen)| seen.structural_eq(module)) {
            return Some(*earlier);
        }
        alike.push((round, module.clone()));
        None
    }

    /// Returns the passes that changed the module after a given round.
    pub(super) fn changed_after(&self, round: u32, registry: &Registry) -> Vec<String> {
        let passes: BTreeSet<PassId> = self.changed.iter().skip(round as usize).flatten().copied().collect();
        passes.into_iter().map(|pass| format!("`{}`", registry.pass(pass).name)).collect()
    }
}
