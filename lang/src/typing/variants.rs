//! Enums that cross the plugin boundary and may get new variants. A new variant is a compile error here; it needs an example in
//! `plugin-api/src/abi/version/tests/forms.rs`, which the test of the contract of each version uses.

use crate::ir::{Attr, DimExpr, Type};
use crate::typing::operators::{DefaultDecl, InferError};

const _: fn(&DefaultDecl, &InferError) = |default, error| {
    match default {
        DefaultDecl::Required | DefaultDecl::None | DefaultDecl::Bool(_) | DefaultDecl::Int(_) => {}
        DefaultDecl::Float(_) | DefaultDecl::Str(_) | DefaultDecl::Ints(_) | DefaultDecl::Floats(_) => {}
        DefaultDecl::Strs(_) | DefaultDecl::Bools(_) | DefaultDecl::SameAs(_) => {}
    }
    match error {
        InferError::Wrong(_) | InferError::UnknownOp { .. } | InferError::Panicked(_) | InferError::NoHost(_) => {}
    }
};

/// The enums in the tables of a body.
const _: fn(&Type, &DimExpr, &Attr) = |ty, dim, attr| {
    match ty {
        Type::Object | Type::Prim { .. } | Type::Shape { .. } | Type::Tensor(_) | Type::Tuple(_) => {}
        Type::Callable { .. } | Type::DTensor(_) | Type::Buffer(_) | Type::Pointer { .. } | Type::Unknown(_) => {}
    }
    match dim {
        DimExpr::Int(..) | DimExpr::Float(..) | DimExpr::Binary(..) | DimExpr::Unary(..) => {}
    }
    match attr {
        Attr::None | Attr::Bool(_) | Attr::Int(_) | Attr::Float(_) | Attr::Str(_) | Attr::DType(_) => {}
        Attr::Type(_) | Attr::Dim(_) | Attr::Tensor(..) | Attr::List(_) | Attr::Dict(_) | Attr::Object(..) => {}
    }
};
