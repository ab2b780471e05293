//! Plugins that did in a run what no plugin should.

use crate::engine::Engine;
use plugin_api::ir::Call;
use plugin_api::metadata::OpInfo;
use plugin_api::typing::operators::{Infer, InferError, Inferred};
use registry::OwnerId;
use script::Operators;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Plugins that cannot be trusted any more in this run, and why: their passes and checkers are not called again.
#[derive(Default)]
pub(super) struct Marks(Mutex<BTreeMap<OwnerId, String>>);

impl Marks {
    fn all(&self) -> MutexGuard<'_, BTreeMap<OwnerId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
