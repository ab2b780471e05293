//! Calls the rules of operators while a module is read. A failing rule is not reported as a fault of the module.

use crate::engine::Engine;
use passhost_lang::ir::Call;
use passhost_lang::metadata::OpInfo;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use script::Operators;
use std::cell::Cell;

/// Calls the operators of an engine, and records whether a rule panicked or ended its process.
pub(super) struct Rules<'e> {
    engine: &'e Engine,
    broke: Cell<bool>,
}

impl<'e> Rules<'e> {
    pub(super) fn of(engine: &'e Engine) -> Rules<'e> {
        Rules { engine, broke: Cell::new(false) }
    }

    pub(super) fn broke(&self) -> bool {
        self.broke.get()
    }
}

impl Infer for Rules<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        self.engine.infer(call).inspect_err(|error| {
            if matches!(error, InferError::Panicked(_)) {
                self.broke.set(true);
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
