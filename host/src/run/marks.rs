//! What all threads of a run share: the number under which plugins keep analyses, and plugins that did what no plugin should.

use crate::engine::Engine;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OpInfo;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use registry::OwnerId;
use script::Operators;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers of a run, and plugins that cannot be trusted any more in it.
pub(super) struct Marks {
    /// Plugins keep analyses under this number; see [`Marks::replaced`].
    run: AtomicU64,
    /// Nodes of the functions that passes replaced since the run has this number, and at how many to look again.
    replaced: AtomicUsize,
    look_at: AtomicUsize,
    /// Why each of these plugins is not called again, neither its passes nor its checkers.
    plugins: Mutex<BTreeMap<OwnerId, String>>,
}

impl Default for Marks {
    fn default() -> Marks {
        let (replaced, look_at) = (AtomicUsize::new(0), AtomicUsize::new(FEW_NODES));
        Marks { run: AtomicU64::new(next_number()), replaced, look_at, plugins: Mutex::default() }
    }
}

/// Replaced functions of fewer nodes may be kept.
const FEW_NODES: usize = 1 << 16;
/// So many times the nodes of the module, too.
const TIMES: usize = 4;

/// Different each time, and never 0.
fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

fn nodes(body: &Body) -> usize {
    body.raw().nodes().len()
}

impl Marks {
    /// The number under which plugins keep analyses. They forget those of another number.
    pub(super) fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }

    /// A pass replaced functions by these of this module. A plugin that keeps an analysis keeps its function, and sees
    /// only that something else uses the function, which can be another plugin that does the same. So after passes have
    /// replaced a few times the module, the run has a new number.
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

    /// Why a plugin is not called any more.
    pub(super) fn of(&self, owner: OwnerId) -> Option<String> {
        self.all().get(&owner).cloned()
    }

    /// The first reason stays.
    pub(super) fn add(&self, owner: OwnerId, why: String) {
        self.all().entry(owner).or_insert(why);
    }
}

/// The rules of operators. A plugin whose rule panicked is marked; its rules are asked all the same, since without them
/// no later pass could be verified.
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
