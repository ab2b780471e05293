//! Relax types: declarations of operators and their rules, checks of calls, relations between types, inference and normalization.

mod calls;
pub mod infer_types;
mod inline_call;
pub mod legalized;
mod lift;
pub mod normalize;
pub mod operator_checks;
pub mod operators;
pub mod relations;
mod symbols;
#[cfg(test)]
mod variants;
