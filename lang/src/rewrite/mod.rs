//! Changes to bodies: edits, mutators and rewriters, and common rewrites.

mod blocks;
mod constants;
mod dtypes;
pub mod edit;
mod functions;
pub mod grouping;
mod inline;
mod local_functions;
pub mod mutators;
mod operand;
pub mod outline;
mod outputs;
pub mod remove_unused;
mod signature;

pub use edit::Edit;
pub use operand::Operand;
