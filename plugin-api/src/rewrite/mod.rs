//! Changes bodies: edits, mutators and rewriters, and changes that many passes make.

mod blocks;
mod constants;
pub mod edit;
mod inline;
pub mod mutators;
mod operand;
pub mod outline;
mod outputs;
pub mod remove_unused;

pub use edit::Edit;
pub use operand::Operand;
