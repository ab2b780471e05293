//! Executes modules exactly and deterministically: tensors, PrimFuncs as loop programs, and their interpreter.
//!
//! A [`Backend`] prepares a PrimFunc once as a [`Kernel`], which runs on tensors and scalars within [`Limits`]. A
//! failed run returns a [`Fault`], which contains the cause and the place in the module.

#![forbid(unsafe_code)]

pub mod bind;
pub mod by_body;
pub mod fault;
pub mod files;
pub mod fork;
pub mod interpret;
pub mod kernel;
pub mod limits;
pub mod math;
pub mod program;
mod room;
mod spare;
pub mod tensor;
pub mod vm;

pub use by_body::ByBody;
pub use fault::{Fault, FaultKind, Place};
pub use interpret::{Interpreter, OneLane, Watching};
pub use kernel::{Arg, Backend, Kernel};
pub use limits::{Limits, USUAL_WORK};
pub use room::Room;
pub use tensor::Tensor;
