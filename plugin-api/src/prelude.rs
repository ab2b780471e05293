//! The usual imports of a pass: `use plugin_api::prelude::*;`.
//!
//! It has at most 60 names: those that most plugins need. The others are imported from their modules:
//!
//! | for | import from |
//! |---|---|
//! | names of operators and options in messages; fresh names | [`names`](crate::names) |
//! | building a function node by node, kinds of bodies, elements of constants | [`ir`](crate::ir) |
//! | more forms of patterns, searches without a context | [`pattern`](crate::pattern) |
//! | groups of bindings that become functions, unused values | [`rewrite`](crate::rewrite) |
//! | scopes, regions, value numbers, disjoint sets, in-place updates | [`walk`](crate::walk) |
//! | the evaluation of calls | [`services::evaluation`](crate::services::evaluation) |
//! | rules of operators | [`typing`](crate::typing) |
//! | visitors, mutators and builders, as in TVM | [`tvm`](crate::tvm) |

mod rest_of_1_0;

pub use crate::PassError;
pub use crate::arith::Analyzer;
pub use crate::declare::diagnostics::Severity;
pub use crate::declare::formats::{Output, Source};
pub use crate::declare::instrument::{PassFacts, PassInstrument};
pub use crate::declare::pass::Ctx;
pub use crate::ir::{
    Array, Attr, AttrView, Block, Body, Call, Constant, DType, Dim, Expr, Function, Module, Stmt, Sym, Tensor,
    TensorType, Type, V, Value,
};
pub use crate::metadata::Tolerance;
pub use crate::pattern::{Capture, Match, Pattern, is_commutative, is_op, wildcard};
pub use crate::rewrite::mutators::{Action, Rewriter};
pub use crate::rewrite::remove_unused::remove_all_unused;
pub use crate::rewrite::{Edit, Operand};
pub use crate::typing::legalized::Legalized;
pub use crate::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};
pub use crate::walk::in_place::InPlace;
pub use crate::walk::users::Users;
pub use crate::walk::value_map::{ValueMap, ValueSet};
pub use crate::{
    bail, declare_composite, declare_config, declare_instrument, declare_pass, declare_property, declare_reader,
    declare_writer, export_plugin, pass_error, tracing,
};

#[doc(hidden)]
pub use rest_of_1_0::*;
