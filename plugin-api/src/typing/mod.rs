//! Types of Relax: declarations of operators and their rules, checks of calls, relations between types, inference and
//! normalization.

pub mod infer_types;
pub mod normalize;
pub mod operator_checks;
pub mod operators;
pub mod relations;
