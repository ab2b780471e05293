//! What a pass needs: `use plugin_api::prelude::*;`.

pub use crate::arith::Analyzer;
pub use crate::block_builder::{BlockBuilder, FunctionBuilder};
pub use crate::diagnostics::{Diagnostics, Severity};
pub use crate::functor::ExprFunctor;
pub use crate::ir::{
    Attr, AttrView, AttrsId, Body, BodyBuilder, BodyKind, Call, DType, Dict, Dim, Edit, Expr, Function, Module,
    NodeSpec, Region, SealError, Stmt, Sym, Tensor, TensorType, Ty, Type, TypeId, V, Value, records,
};
pub use crate::names::{did_you_mean, nearest};
pub use crate::numbering::value_key;
pub use crate::op::{ArgDecl, AttrDecl, DefaultDecl, Infer, InferError, Inferred, OpDecl};
pub use crate::pass::{Ctx, PassError};
pub use crate::rewrite::{Action, ExprMutator, Rewriter, StmtMutator};
pub use crate::scoped_map::ScopedMap;
pub use crate::unused::remove_all_unused;
pub use crate::users::{Regions, Users};
pub use crate::visit::{ExprVisitor, StmtVisitor, Walk, post_order_visit};
pub use crate::{
    bail, declare_composite, declare_config, declare_instrument, declare_pass, declare_property, export_plugin,
    pass_error, tracing,
};
