//! The settings of a validation.

use crate::run::execute::backend::Executor;
use runtime::Tensor;
use runtime::vm::Bounds;
use std::collections::BTreeMap;

/// The settings of a validation.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Seed of all inputs.
    pub seed: u64,
    /// Extents of symbolic dimensions by name. Other dimensions get several extents.
    pub dims: BTreeMap<String, i64>,
    /// The function to execute; `None` for every public function that a change affects.
    pub function: Option<String>,
    /// Maximum size of all tensors that exist at the same time, in bytes. Intermediate results that both sides share may
    /// take a quarter more.
    pub memory: u64,
    /// Maximum number of units of work for one function and pass; see [`Limits`](runtime::Limits).
    pub work: u64,
    /// The executor of PrimFuncs.
    pub executor: Executor,
    /// Minimum and maximum of random values.
    pub bounds: Bounds,
    /// Arrays by name of the parameter. They form a further input of the functions that have such parameters.
    pub arrays: BTreeMap<String, Tensor>,
    /// Number of inputs for each size of the symbolic dimensions.
    pub inputs_per_size: usize,
}

impl Validation {
    /// Creates settings with this seed and memory limit, and the default limit of work.
    pub fn new(seed: u64, memory: u64) -> Validation {
        Validation {
            seed,
            dims: BTreeMap::new(),
            function: None,
            memory,
            work: runtime::USUAL_WORK,
            executor: Executor::default(),
            bounds: Bounds::default(),
            arrays: BTreeMap::new(),
            inputs_per_size: 1,
        }
    }
}
