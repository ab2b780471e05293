//! The other names that the preludes of plugin API 1.0 and 1.1 had. They are hidden from the documentation, and stay until 2.0,
//! so that source written against these versions compiles (decision 0012). New code imports the names from their modules. Do not
//! add names.

pub use crate::build::{BlockBuilder, FunctionBuilder};
pub use crate::declare::analysis::Analysis;
pub use crate::declare::diagnostics::Diagnostics;
pub use crate::declare::formats::FileBytes;
pub use crate::ir::{
    AttrsId, Bf16, BodyBuilder, BodyKind, ConstantError, Dict, F16, NodeSpec, Region, SealError, Ty, TypeId, UseCounts,
};
pub use crate::metadata::Granularity;
pub use crate::names::{FreshNames, did_you_mean, nearest};
pub use crate::pattern::{
    Matcher, is_call, is_call_of_function, is_call_tir, is_call_tir_of, is_call_to, is_chain, is_const, is_param,
    is_scalar, is_tuple, is_tuple_get,
};
pub use crate::rewrite::grouping::{Constants, GroupedFunctions, Groups};
pub use crate::rewrite::mutators::{ExprMutator, StmtMutator};
pub use crate::services::evaluation::{ConstantValue, Evaluated, EvaluationError, EvaluationLimits, Reason};
pub use crate::typing::operators::{Infer, Inferred};
pub use crate::walk::disjoint_sets::DisjointSets;
pub use crate::walk::functor::ExprFunctor;
pub use crate::walk::open_scopes::OpenScopes;
pub use crate::walk::scoped_map::ScopedMap;
pub use crate::walk::scopes::{Scope, ScopeVisitor, visit_scopes};
pub use crate::walk::users::Regions;
pub use crate::walk::value_key::{ValueForm, ValueNumbers, value_form, value_key};
pub use crate::walk::visitors::{ExprVisitor, StmtVisitor, Walk, post_order_visit};
