//! Writes Relax functions as ONNX models, and runs them with onnxruntime.
//!
//! | module | what |
//! |---|---|
//! | `proto` | the messages of ONNX |
//! | `graph` | converting a function to a graph |
//! | `operators` | the counterpart of each operator |
//! | `session` | a process with onnxruntime |

mod graph;
mod operators;
mod proto;
pub(crate) mod session;
#[cfg(test)]
mod tests;

pub(crate) use operators::known;
