//! Native code for loop programs, with exactly the interpreter's bits.
//!
//! [`Native`] is a [`Backend`](runtime::Backend): it writes a loop program as text of LLVM, which an [`Llvm`] library that is found when the
//! program runs makes into code of this machine. Without such a library everything runs on the interpreter. What no code
//! is made for runs there, too.
//!
//! | module | what |
//! |---|---|
//! | `emit` | from a loop program to text of LLVM |
//! | `llvm` | the library: finding it, compiling, loading |
//! | `call` | a call of the code, and what the code calls back |
//! | `threads` | loops over threads |
//! | `forks` | forks of the process |
//! | `functions` | functions of floats that code calls |
//! | `pad` | rows of private memory become whole vectors |
//! | `cache` | object code on disk |
//! | `backend` | the kernels |
//! | `header`, `export` | code that other programs load, and how C calls it |
//! | `link` | from object code to a shared library |

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
mod pad;
mod threads;

pub use backend::{Made, Native, Text};
pub use cache::Cache;
pub use export::{ExportError, Library};
pub use llvm::{Llvm, LlvmError, Output};
