//! Access to operators.

use passhost_lang::ir::Call;
use passhost_lang::metadata::OpInfo;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};

/// Provides the operators; implemented by the host with its plugins.
pub trait Operators: Infer {
    /// Returns the declaration of an operator.
    fn op_info(&self, name: &str) -> Option<&OpInfo>;

    /// Returns the operators with the most similar names.
    fn near_ops(&self, name: &str) -> Vec<String>;
}

/// The implementation without operators; sufficient for printing, with attributes sorted by name.
pub struct NoOps;

impl Infer for NoOps {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        Err(InferError::UnknownOp { name: call.op().unwrap_or("a call").to_string(), near: Vec::new() })
    }
}

impl Operators for NoOps {
    fn op_info(&self, _: &str) -> Option<&OpInfo> {
        None
    }

    fn near_ops(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}
