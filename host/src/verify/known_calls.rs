//! Caches the results of inference rules for calls that look the same to a rule. Small functions often contain the same calls, and a rule
//! costs more than the rest of checking a call.

use crate::workers::call_key;
use passhost_lang::ir::Call;
use passhost_lang::metadata::OpInfo;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use script::Operators;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::RandomState;

/// Inference rules with a cache of their results.
pub(crate) struct KnownCalls<'r, R: ?Sized> {
    rules: &'r R,
    known: RefCell<HashMap<u64, Inferred>>,
    hasher: RandomState,
    /// False for a single function. It needs no cache, because its check already recognizes repeated calls.
    several: bool,
}

impl<'r, R: ?Sized> KnownCalls<'r, R> {
    /// Creates a cache for checking `functions` functions.
    pub(crate) fn new(rules: &'r R, functions: usize) -> KnownCalls<'r, R> {
        KnownCalls { rules, known: RefCell::default(), hasher: RandomState::new(), several: functions > 1 }
    }

    fn key(&self, call: Call<'_>) -> Option<u64> {
        if self.several { call_key(&self.hasher, call) } else { None }
    }
}

impl<R: Infer + ?Sized> Infer for KnownCalls<'_, R> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let Some(key) = self.key(call) else { return self.rules.infer(call) };
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(known.clone());
        }
        let inferred = self.rules.infer(call)?;
        self.known.borrow_mut().insert(key, inferred.clone());
        Ok(inferred)
    }
}

impl<R: Operators + ?Sized> Operators for KnownCalls<'_, R> {
    fn op_info(&self, name: &str) -> Option<&OpInfo> {
        self.rules.op_info(name)
    }

    fn near_ops(&self, name: &str) -> Vec<String> {
        self.rules.near_ops(name)
    }
}
