//! Native code for loop programs, bit-identical to the interpreter.
//!
//! [`Native`] is a [`Backend`](runtime::Backend). It emits a loop program as LLVM IR, which an [`Llvm`] library,
//! found at run time, compiles for this machine. Without a library, everything is interpreted, as are programs that
//! cannot be compiled.
//!
//! | module | what |
//! |---|---|
//! | `emit` | lowering loop programs to LLVM IR |
//! | `llvm` | the library: finding it, compiling, loading |
//! | `call` | calls of the code, and its callbacks |
//! | `threads` | loops over threads |
//! | `forks` | forks of the process |
//! | `functions` | float functions called by the code |
//! | `pad` | padding rows of private memory to whole vectors |
//! | `cache` | object code on disk |
//! | `making` | code that is being compiled |
//! | `backend` | the kernels |
//! | `header`, `export` | code for other programs, and its C header |
//! | `link` | linking object code to a shared library |

mod backend;
mod cache;
mod call;
mod emit;
mod export;
mod forks;
mod functions;
mod header;
pub mod link;
pub mod llvm;
mod making;
mod pad;
mod threads;

pub use backend::{Native, Text};
pub use cache::Cache;
pub use export::{ExportError, Library};
pub use llvm::{Llvm, LlvmError, Output};
pub use making::Made;
