//! The usual imports of a pass: `use plugin_api::prelude::*;`.

pub use crate::PassError;
pub use crate::arith::Analyzer;
pub use crate::build::{BlockBuilder, FunctionBuilder};
pub use crate::declare::analysis::Analysis;
pub use crate::declare::diagnostics::{Diagnostics, Severity};
pub use crate::declare::formats::{FileBytes, Output, Source};
pub use crate::declare::instrument::{PassFacts, PassInstrument};
pub use crate::declare::pass::Ctx;
pub use crate::ir::{
    Array, Attr, AttrView, AttrsId, Bf16, Block, Body, BodyBuilder, BodyKind, Call, Constant, ConstantError, DType,
    Dict, Dim, Expr, F16, Function, Module, NodeSpec, Region, SealError, Stmt, Sym, Tensor, TensorType, Ty, Type,
    TypeId, UseCounts, V, Value,
};
pub use crate::metadata::{Granularity, Tolerance};
pub use crate::names::{FreshNames, did_you_mean, nearest};
pub use crate::pattern::{
    Capture, Match, Matcher, Pattern, is_call, is_call_of_function, is_call_tir, is_call_tir_of, is_call_to, is_chain,
    is_commutative, is_const, is_op, is_param, is_scalar, is_tuple, is_tuple_get, wildcard,
};
pub use crate::rewrite::grouping::{Constants, GroupedFunctions, Groups};
pub use crate::rewrite::mutators::{Action, ExprMutator, Rewriter, StmtMutator};
pub use crate::rewrite::remove_unused::remove_all_unused;
pub use crate::rewrite::{Edit, Operand};
pub use crate::services::evaluation::{ConstantValue, Evaluated, EvaluationError, EvaluationLimits, Reason};
pub use crate::typing::legalized::Legalized;
pub use crate::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, Infer, InferError, Inferred, OpDecl};
pub use crate::walk::disjoint_sets::DisjointSets;
pub use crate::walk::functor::ExprFunctor;
pub use crate::walk::in_place::InPlace;
pub use crate::walk::open_scopes::OpenScopes;
pub use crate::walk::scoped_map::ScopedMap;
pub use crate::walk::scopes::{Scope, ScopeVisitor, visit_scopes};
pub use crate::walk::users::{Regions, Users};
pub use crate::walk::value_key::{ValueForm, ValueNumbers, value_form, value_key};
pub use crate::walk::value_map::{ValueMap, ValueSet};
pub use crate::walk::visitors::{ExprVisitor, StmtVisitor, Walk, post_order_visit};
pub use crate::{
    bail, declare_composite, declare_config, declare_instrument, declare_pass, declare_property, declare_reader,
    declare_writer, export_plugin, pass_error, tracing,
};
