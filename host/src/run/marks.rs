//! State shared by all threads of a run: the number under which plugins cache analyses, and the quarantined plugins.

use crate::engine::Engine;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OpInfo;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use registry::OwnerId;
use script::Operators;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers of a run, and the plugins that are no longer trusted in it.
pub(super) struct Marks {
    /// The number under which plugins cache analyses; see [`Marks::replaced`].
    run: AtomicU64,
    /// Number of nodes in functions that were replaced since the run got its number, and the count at which the next
    /// check is due.
    replaced: AtomicUsize,
    look_at: AtomicUsize,
    /// The quarantined plugins, with the reason. Neither their passes nor their checkers are called.
    plugins: Mutex<BTreeMap<OwnerId, String>>,
}

impl Default for Marks {
    fn default() -> Marks {
        let (replaced, look_at) = (AtomicUsize::new(0), AtomicUsize::new(FEW_NODES));
        Marks { run: AtomicU64::new(next_number()), replaced, look_at, plugins: Mutex::default() }
    }
}

/// Maximum number of nodes of replaced functions that may stay cached, regardless of the size of the module.
const FEW_NODES: usize = 1 << 16;
/// Maximum number of nodes of replaced functions that may stay cached, as a multiple of the module's nodes.
const TIMES: usize = 4;

/// Returns a new number on each call, never 0.
fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

fn nodes(body: &Body) -> usize {
    body.raw().nodes().len()
}

impl Marks {
    /// Returns the number under which plugins cache analyses. Analyses with a different number are dropped.
    pub(super) fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }

    /// Counts functions that a pass replaced in this module. A plugin that caches an analysis keeps the analysed
    /// function alive. It sees that the function has another owner, but not whether that owner is only another plugin's
    /// cache. So the run gets a new number once passes have replaced several times the size of the module.
    pub(super) fn replaced<'a>(&self, by: impl Iterator<Item = &'a Body>, module: &Module) {
        let new: usize = by.map(nodes).sum();
        let all = self.replaced.fetch_add(new, Ordering::Relaxed) + new;
        if all < self.look_at.load(Ordering::Relaxed) {
            return;
        }
        let most = FEW_NODES.max(TIMES * module.functions().map(|(_, body)| nodes(body)).sum::<usize>());
        self.look_at.store(most, Ordering::Relaxed);
        if all >= most {
            self.replaced.store(0, Ordering::Relaxed);
            self.run.store(next_number(), Ordering::Relaxed);
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<OwnerId, String>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why a plugin is quarantined.
    pub(super) fn of(&self, owner: OwnerId) -> Option<String> {
        self.all().get(&owner).cloned()
    }

    /// Quarantines a plugin. The first reason is kept.
    pub(super) fn add(&self, owner: OwnerId, why: String) {
        self.all().entry(owner).or_insert(why);
    }
}

/// Calls the rules of operators during a run. A plugin whose rule panics is quarantined, but its rules are still
/// called, because later passes could not be verified without them.
pub(super) struct Rules<'a> {
    pub(super) engine: &'a Engine,
    pub(super) marks: &'a Marks,
}

impl Infer for Rules<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        self.engine.infer(call).inspect_err(|error| {
            let registry = self.engine.registry();
            let operator = call.op().and_then(|name| Some((name, registry.operator(name)?.1)));
            if let (InferError::Panicked(_), Some((name, owner))) = (error, operator) {
                let plugin = &registry.owner(owner).name;
                self.marks.add(owner, format!("plugin `{plugin}` panicked in the rule of `{name}`"));
            }
        })
    }
}

impl Operators for Rules<'_> {
    fn op_info(&self, name: &str) -> Option<&OpInfo> {
        self.engine.op_info(name)
    }

    fn near_ops(&self, name: &str) -> Vec<String> {
        self.engine.near_ops(name)
    }
}
