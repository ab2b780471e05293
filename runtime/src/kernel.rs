//! The interface of backends, which turn PrimFuncs into callable kernels.

use crate::fault::Fault;
use crate::limits::Limits;
use crate::tensor::Tensor;
use passhost_lang::ir::Body;
use passhost_lang::ir::constant::Number;
use std::sync::Arc;

/// An argument of a PrimFunc. Arguments are in parameter order: a buffer takes a tensor, a scalar takes a number.
/// Symbolic dimensions of buffers are bound from the shapes of the tensors.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A read-only tensor. A function that writes to it is rejected.
    In(&'a Tensor),
    /// A tensor that the function may read and write. Data shared with other tensors is copied first.
    Out(&'a mut Tensor),
    /// An integer or Boolean.
    Int(i64),
    /// A float.
    Float(f64),
}

/// Prepares PrimFuncs for execution.
pub trait Backend: Send + Sync {
    /// Prepares a PrimFunc once, for any number of calls.
    ///
    /// # Errors
    /// Fails if the backend does not support a part of the function.
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault>;

    /// Makes prepared kernels [ready](Kernel::make_ready), for example on several threads.
    fn make_ready(&self, kernels: &[Arc<dyn Kernel>], limits: &Limits) {
        kernels.iter().for_each(|kernel| kernel.make_ready(limits));
    }
}

/// An executable PrimFunc, which may run on several threads at once.
pub trait Kernel: Send + Sync {
    /// Executes the kernel, and returns its result, if any.
    ///
    /// # Errors
    /// Fails if the arguments do not match the parameters, or if a fault occurs. The content of outputs is then
    /// unspecified.
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault>;

    /// Returns false if [`Kernel::make_ready`] would do work for calls within such limits.
    fn is_ready(&self, limits: &Limits) -> bool {
        let _ = limits;
        true
    }

    /// Does the work that the first call would do otherwise, such as compilation. A failure is left to the call.
    fn make_ready(&self, limits: &Limits) {
        let _ = limits;
    }

    /// Returns true if each successful call writes all elements of the tensor at this parameter position, each before
    /// it is read.
    fn writes_all(&self, param: usize) -> bool {
        let _ = param;
        false
    }

    /// Returns the first part never executed by any call: a branch whose condition never held, a value that was never
    /// chosen, or the body of a loop without iterations. `None` if all parts were executed, or if the backend does not
    /// record execution.
    fn never_executed(&self) -> Option<&str> {
        None
    }

    /// Returns which branches, values and loop bodies were executed, in the order of
    /// [`Program::marks`](crate::program::Program::marks); empty if the backend does not record execution.
    fn executed(&self) -> Vec<bool> {
        Vec::new()
    }

    /// For each loop whose extent is read from memory, returns whether the loop ran with no iteration, with one
    /// iteration and with more iterations, each in at least one call. Empty if the backend does not record execution.
    fn trips(&self) -> Vec<[bool; 3]> {
        Vec::new()
    }
}
