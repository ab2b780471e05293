//! Reads and writes TVMScript, the exchange format with TVM.
#![forbid(unsafe_code)]

mod metadata;
mod print;
mod read;
mod reads_back;
mod words;

pub use print::{Printed, Unprintable, print, print_function, print_with_spans};
pub use read::{ReadModule, read, read_with_warnings};
pub use reads_back::{Unfaithful, attributes_read_back, reads_back, stale_callee};
pub use words::diagnostic::{Diagnostic, ReadError, line_column, one_line_end};

use plugin_api::ir::Call;
use plugin_api::metadata::OpInfo;
use plugin_api::typing::operators::{Infer, InferError, Inferred};

/// Who knows the operators: the host with its plugins.
pub trait Operators: Infer {
    /// Facts of an operator.
    fn op_info(&self, name: &str) -> Option<&OpInfo>;

    /// Nearest names of operators.
    fn near_ops(&self, name: &str) -> Vec<String>;
}

/// No operators: enough to print, with attributes in the order of their names.
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
