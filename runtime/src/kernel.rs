//! The interface of backends: they turn PrimFuncs into kernels, which can be called.

use crate::fault::Fault;
use crate::limits::Limits;
use crate::tensor::Tensor;
use passhost_lang::ir::Body;
use passhost_lang::ir::constant::Number;
use std::sync::Arc;

/// An argument of a PrimFunc. Arguments come in the order of the parameters: a buffer takes a tensor, a scalar
/// takes a number. Symbolic dimensions of buffers are bound from the shapes of the tensors.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A tensor that the function only reads. A function that writes to it is refused.
    In(&'a Tensor),
    /// A tensor that the function may read and write. Data that other tensors share is copied first.
    Out(&'a mut Tensor),
    /// An integer or truth value.
    Int(i64),
    /// A float.
    Float(f64),
}

/// Prepares PrimFuncs for execution.
pub trait Backend: Send + Sync {
    /// Prepares a PrimFunc once, for any number of calls.
    ///
    /// # Errors
    /// Fails if the backend does not execute a part of the function.
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault>;
}

/// A PrimFunc that can be executed, on several threads at once.
pub trait Kernel: Send + Sync {
    /// Executes the kernel, and returns its result if it has one.
    ///
    /// # Errors
    /// Fails if the arguments do not fit the parameters, or if a fault occurs. The content of outputs is then
    /// unspecified.
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault>;

    /// Returns true if each successful call writes all elements of the tensor at this parameter position, and does not
    /// read an element before it is written.
    fn writes_all(&self, param: usize) -> bool {
        let _ = param;
        false
    }

    /// Returns the first part that no call has executed: a branch whose condition never held, a value that was
    /// never chosen, or the body of a loop without iterations. `None` if all parts were executed, or if the backend
    /// does not record it.
    fn never_executed(&self) -> Option<&str> {
        None
    }

    /// Returns which branches, values and loop bodies were executed, in the order of
    /// [`Program::marks`](crate::program::Program::marks); empty if the backend does not record it.
    fn executed(&self) -> Vec<bool> {
        Vec::new()
    }

    /// For each loop whose extent is read from memory, returns whether the loop ran with no iteration, with one
    /// iteration and with more iterations, each in at least one call. Empty if the backend does not record it.
    fn trips(&self) -> Vec<[bool; 3]> {
        Vec::new()
    }
}
