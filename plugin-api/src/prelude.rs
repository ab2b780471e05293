//! What a pass needs: `use plugin_api::prelude::*;`.

pub use crate::ir::{
    Attr, AttrView, AttrsId, Body, BodyBuilder, BodyKind, Call, DType, Dict, Dim, Edit, Expr, Function, Module,
    NodeSpec, Region, SealError, Sym, Tensor, TensorType, Ty, Type, TypeId, V, Value, records,
};
pub use crate::op::{ArgDecl, AttrDecl, DefaultDecl, Infer, InferError, Inferred, OpDecl};
pub use crate::pass::{Ctx, PassError, Severity};
pub use crate::scoped_map::ScopedMap;
pub use crate::{bail, declare_pass, export_plugin, pass_error, tracing};
