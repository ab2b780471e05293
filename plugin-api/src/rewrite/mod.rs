//! Changes bodies: edits, mutators and rewriters, and changes that many passes make.

pub mod edit;
mod inline;
pub mod mutators;
pub mod outline;
mod outputs;
pub mod remove_unused;

pub use edit::Edit;
