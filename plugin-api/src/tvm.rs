//! Visitors, mutators and builders with the names that they have in TVM, for passes that are ported from TVM.
//!
//! | in TVM | here | otherwise |
//! |---|---|---|
//! | `PostOrderVisit` | [`post_order_visit`], [`post_order_visit_value`] | [`Body::values`](crate::ir::Body::values), which needs no hook |
//! | `relax::ExprVisitor` | [`ExprVisitor`] | [`Body::bindings`](crate::ir::Body::bindings), [`ScopeVisitor`](crate::walk::scopes::ScopeVisitor) |
//! | `tirx::StmtVisitor` | [`StmtVisitor`] | [`Value::stmt`](crate::ir::Value::stmt) for each of [`Body::values`](crate::ir::Body::values) |
//! | `relax::ExprFunctor` | [`ExprFunctor`] | a [`ValueMap`](crate::walk::value_map::ValueMap) of results: operands come before their users |
//! | `relax::ExprMutator`, `ExprMutatorBase` | [`ExprMutator`], [`ExprMutatorBase`] | [`Body::rewrite`](crate::ir::Body::rewrite) |
//! | `tirx::StmtMutator` | [`StmtMutator`] | [`Body::rewrite`](crate::ir::Body::rewrite), [`TirRewrite`](crate::tir::TirRewrite) |
//! | `relax::BlockBuilder` | [`BlockBuilder`], [`FunctionBuilder`] | [`Edit`](crate::rewrite::Edit) changes a function; [`BodyBuilder`](crate::ir::BodyBuilder) builds one without type inference |
//!
//! `docs/porting-from-tvm.md` in passhost's repository ports a pass step by step.

pub use crate::build::{BlockBuilder, FunctionBuilder};
pub use crate::rewrite::mutators::{ExprMutator, ExprMutatorBase, StmtMutator};
pub use crate::walk::functor::{ExprFunctor, Results};
pub use crate::walk::visitors::{ExprVisitor, StmtVisitor, Walk, post_order_visit, post_order_visit_value};
