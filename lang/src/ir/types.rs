//! Types and dimensions: owned forms for computation, and [`Ty`], the view of a type inside a body.

mod dims;
pub mod loop_kind;
mod view;

use crate::ir::nested::{Nests, Part, Parts};
use crate::scalar::PrimOp;
use std::sync::Arc;

pub use crate::scalar::{DType, UnknownDType};
pub use view::{Ty, dim_at};

/// Maximum number of parts of a type, dimension or attribute as a tree, where shared parts count once per use.
pub const MAX_SIZE: u32 = 1 << 20;

/// A symbolic variable: its number in the body, and its data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sym {
    /// Number in the body.
    pub id: u32,
    /// Data type, `int64` in shapes.
    pub dtype: DType,
}

/// A dimension, or another scalar expression over symbolic variables.
#[derive(Clone)]
pub enum Dim {
    /// An `int64`. Integers of other types, such as the `int32` of most TIR loops, use a different variant: [`Dim::as_int`] returns the
    /// value of an integer of any type.
    Int(i64),
    /// A symbolic variable.
    Var(Sym),
    /// Any other expression.
    Expr(Arc<DimExpr>),
}

/// A compound dimension.
#[derive(Clone)]
pub enum DimExpr {
    /// Integer of a type other than `int64`.
    Int(i64, DType),
    /// Float, by its bits as `f64`.
    Float(u64, DType),
    /// An operation on two operands.
    Binary(PrimOp, DType, Dim, Dim),
    /// `Not` or `Cast`.
    Unary(PrimOp, DType, Dim),
}

impl DimExpr {
    /// Moves the compound operands of this expression to `rest`.
    fn take_operands(&mut self, rest: &mut Vec<Arc<DimExpr>>) {
        let mut take = |dim: &mut Dim| {
            if let Dim::Expr(inner) = std::mem::replace(dim, Dim::Int(0)) {
                rest.push(inner);
            }
        };
        match self {
            DimExpr::Int(..) | DimExpr::Float(..) => {}
            DimExpr::Binary(_, _, a, b) => {
                take(a);
                take(b);
            }
            DimExpr::Unary(_, _, a) => take(a),
        }
    }
}

/// Drops the operands iteratively, because an expression may be nested deeper than the stack allows.
impl Drop for DimExpr {
    fn drop(&mut self) {
        let mut rest = Vec::new();
        self.take_operands(&mut rest);
        while let Some(inner) = rest.pop() {
            if let Some(mut last) = Arc::into_inner(inner) {
                last.take_operands(&mut rest);
            }
        }
    }
}

impl Dim {
    /// Returns the value of an integer constant of any type.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Dim::Int(v) => Some(*v),
            Dim::Expr(e) => match **e {
                DimExpr::Int(v, _) => Some(v),
                _ => None,
            },
            Dim::Var(_) => None,
        }
    }

    /// Returns the data type.
    pub fn dtype(&self) -> DType {
        match self {
            Dim::Int(_) => DType::I64,
            Dim::Var(sym) => sym.dtype,
            Dim::Expr(e) => match **e {
                DimExpr::Int(_, t) | DimExpr::Float(_, t) | DimExpr::Binary(_, t, ..) | DimExpr::Unary(_, t, _) => t,
            },
        }
    }

    /// Builds an operation on two dimensions, without simplifying it.
    pub fn binary(op: PrimOp, a: Dim, b: Dim) -> Dim {
        let dtype = if op.is_truth() { DType::BOOL } else { a.dtype() };
        Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, a, b)))
    }

    /// Builds a choice between two dimensions, without simplifying it.
    pub fn if_then_else(cond: Dim, then: Dim, other: Dim) -> Dim {
        let dtype = then.dtype();
        let both = Dim::Expr(Arc::new(DimExpr::Binary(PrimOp::Else, dtype, then, other)));
        Dim::Expr(Arc::new(DimExpr::Binary(PrimOp::If, dtype, cond, both)))
    }

    /// Returns the two values of a [`Dim::if_then_else`], given its second operand; `None` for any other dimension.
    pub fn choice(&self) -> Option<(&Dim, &Dim)> {
        let Dim::Expr(expr) = self else { return None };
        match &**expr {
            DimExpr::Binary(PrimOp::Else, _, then, otherwise) => Some((then, otherwise)),
            _ => None,
        }
    }

    /// Returns the operation, its data type and its operands (three for a choice); `None` for numbers and variables.
    #[doc(hidden)]
    pub fn operation(&self) -> Option<(PrimOp, DType, Vec<&Dim>)> {
        let Dim::Expr(expr) = self else { return None };
        match &**expr {
            DimExpr::Int(..) | DimExpr::Float(..) => None,
            DimExpr::Unary(op, dtype, a) => Some((*op, *dtype, vec![a])),
            DimExpr::Binary(op, dtype, a, b) => match b.choice().filter(|_| *op == PrimOp::If) {
                Some((then, otherwise)) => Some((*op, *dtype, vec![a, then, otherwise])),
                None => Some((*op, *dtype, vec![a, b])),
            },
        }
    }

    /// Builds an integer of any type.
    pub fn int(value: i64, dtype: DType) -> Dim {
        if dtype == DType::I64 { Dim::Int(value) } else { Dim::Expr(Arc::new(DimExpr::Int(value, dtype))) }
    }

    /// Builds a float.
    pub fn float(value: f64, dtype: DType) -> Dim {
        Dim::Expr(Arc::new(DimExpr::Float(value.to_bits(), dtype)))
    }

    /// Calls `f` with every symbolic variable, from left to right, once per occurrence.
    pub fn vars(&self, f: &mut impl FnMut(Sym)) {
        self.each_part(|part| {
            if let Dim::Var(sym) = part {
                f(*sym);
            }
        });
    }
}

impl From<i64> for Dim {
    fn from(v: i64) -> Dim {
        Dim::Int(v)
    }
}

/// A type, owned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// Any value.
    #[default]
    Object,
    /// Scalar.
    Prim {
        /// Data type of the scalar.
        dtype: DType,
        /// The value of the scalar, if known.
        value: Option<Dim>,
    },
    /// Shape.
    Shape {
        /// Number of dimensions, -1 if unknown.
        ndim: i32,
        /// The dimensions, if known.
        dims: Option<Vec<Dim>>,
    },
    /// Tensor.
    Tensor(TensorType),
    /// Tuple.
    Tuple(Parts<Type>),
    /// Function.
    Callable {
        /// The parameters; `None` means any.
        params: Option<Parts<Type>>,
        /// Result.
        ret: Part<Type>,
        /// True if the function has no effects.
        pure: bool,
    },
    /// Tensor distributed over a device mesh.
    DTensor(DTensorType),
    /// TIR buffer.
    Buffer(BufferType),
    /// TIR pointer.
    Pointer {
        /// The element type of the memory; [`DType::VOID`] if unspecified.
        dtype: DType,
        /// Memory scope; `global` for plain handles.
        scope: String,
    },
    /// A type of a kind that this API does not support; the id refers to its original body.
    Unknown(u16),
}

impl Nests for Type {
    fn depth(&self) -> u32 {
        match self {
            Type::Tuple(fields) => fields.depth(),
            Type::Callable { params, ret, .. } => params.as_ref().map_or(0, Parts::depth).max(ret.depth()),
            _ => 0,
        }
    }

    fn size(&self) -> u32 {
        let dims =
            |dims: &Option<Vec<Dim>>| dims.as_ref().map_or(0, |dims| u32::try_from(dims.len()).unwrap_or(u32::MAX));
        let parts = match self {
            Type::Tuple(fields) => fields.size(),
            Type::Callable { params, ret, .. } => params.as_ref().map_or(0, Parts::size).saturating_add(ret.size()),
            Type::Shape { dims: shape, .. } => dims(shape),
            Type::Tensor(tensor) | Type::DTensor(DTensorType { tensor, .. }) => dims(&tensor.shape),
            _ => 0,
        };
        parts.saturating_add(1)
    }
}

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Data type of the elements, [`DType::VOID`] if unknown.
    pub dtype: DType,
    /// Number of dimensions, -1 if unknown.
    pub ndim: i32,
    /// The dimensions, if known.
    pub shape: Option<Vec<Dim>>,
    /// The index of its virtual device in the module's global infos.
    pub vdevice: Option<u32>,
}

/// The type of a tensor distributed over a device mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DTensorType {
    /// The whole tensor.
    pub tensor: TensorType,
    /// The index of the mesh in the list `mesh` of the module's global infos.
    pub mesh: u32,
    /// For each axis of the mesh, the axis of the tensor that it divides; `None` means that each device holds the whole tensor.
    pub placement: Vec<Option<u32>>,
}

/// The type of a TIR buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BufferType {
    /// Data type of the elements.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<Dim>,
    /// Strides in elements; empty for a compact buffer.
    pub strides: Vec<Dim>,
    /// Offset of the first element, in elements.
    pub elem_offset: Option<Dim>,
    /// Memory scope, empty for global.
    pub scope: String,
    /// Alignment of the data in bytes.
    pub align: u32,
    /// Factor of the offset.
    pub offset_factor: u32,
    /// True for the row-major tile layout; false without a layout.
    pub tiled: bool,
}

impl BufferType {
    /// Builds a compact buffer in global memory, aligned to 64 bytes, without a layout.
    pub fn new(shape: Vec<Dim>, dtype: DType) -> BufferType {
        let (strides, scope) = (Vec::new(), String::new());
        BufferType { dtype, shape, strides, elem_offset: None, scope, align: 64, offset_factor: 1, tiled: false }
    }
}

impl Type {
    /// Returns the type of an unknown function: any parameters, any result, possibly with effects.
    pub fn opaque_callable() -> Type {
        Type::callable(None, Type::Object, false)
    }

    /// Returns the type of a TIR function as Relax functions see it: any arguments, and its result if it returns one.
    pub fn prim_func(ret: Option<Type>) -> Type {
        Type::callable(None, ret.unwrap_or(Type::tuple([])), false)
    }

    /// Returns the type of a function with the given parameters (`None` means any) and result; `pure` is true for a function without
    /// effects.
    pub fn callable(params: Option<Vec<Type>>, ret: Type, pure: bool) -> Type {
        Type::Callable { params: params.map(Into::into), ret: ret.into(), pure }
    }

    /// Returns the type of a tuple of fields.
    pub fn tuple(fields: impl IntoIterator<Item = Type>) -> Type {
        Type::Tuple(fields.into_iter().collect())
    }

    /// Sets the purity of a function type; returns other types unchanged.
    pub fn with_purity(mut self, now: bool) -> Type {
        if let Type::Callable { pure, .. } = &mut self {
            *pure = now;
        }
        self
    }

    /// Calls `f` with every dimension in the type. Dimensions in function types are included only if `callables` is
    /// true.
    pub fn each_dim(&self, callables: bool, f: &mut dyn FnMut(&Dim)) {
        match self {
            Type::Tensor(tensor) | Type::DTensor(DTensorType { tensor, .. }) => {
                tensor.shape.iter().flatten().for_each(f)
            }
            Type::Shape { dims, .. } => dims.iter().flatten().for_each(f),
            Type::Prim { value, .. } => value.iter().for_each(f),
            Type::Tuple(fields) => fields.iter().for_each(|field| field.each_dim(callables, f)),
            Type::Callable { params, ret, .. } if callables => {
                params.iter().flatten().chain([&**ret]).for_each(|ty| ty.each_dim(callables, f));
            }
            _ => {}
        }
    }

    /// Applies `f` to each dimension in the type. Dimensions in function types are included only if `callables` is
    /// true.
    pub fn map_dims(&self, callables: bool, f: &dyn Fn(&Dim) -> Dim) -> Type {
        let tensor = |t: &TensorType| TensorType {
            shape: t.shape.as_ref().map(|dims| dims.iter().map(f).collect()),
            ..t.clone()
        };
        let all = |types: &[Type]| types.iter().map(|ty| ty.map_dims(callables, f)).collect();
        match self {
            Type::Tensor(t) => Type::Tensor(tensor(t)),
            Type::DTensor(t) => Type::DTensor(DTensorType { tensor: tensor(&t.tensor), ..t.clone() }),
            Type::Shape { ndim, dims } => {
                Type::Shape { ndim: *ndim, dims: dims.as_ref().map(|dims| dims.iter().map(f).collect()) }
            }
            Type::Prim { dtype, value } => Type::Prim { dtype: *dtype, value: value.as_ref().map(f) },
            Type::Tuple(fields) => Type::Tuple(all(fields)),
            Type::Callable { params, ret, pure } if callables => Type::Callable {
                params: params.as_deref().map(all),
                ret: ret.map_dims(callables, f).into(),
                pure: *pure,
            },
            other => other.clone(),
        }
    }

    /// Calls `f` with the symbolic variables that a parameter or match_cast of this type defines: the variables that stand alone as a
    /// dimension.
    pub fn each_defined(&self, f: &mut dyn FnMut(Sym)) {
        self.each_dim(false, &mut |dim| {
            if let Dim::Var(sym) = dim {
                f(*sym);
            }
        });
    }

    /// Returns the type of a tensor of known shape.
    pub fn tensor(shape: impl IntoIterator<Item = impl Into<Dim>>, dtype: DType) -> Type {
        let shape: Vec<Dim> = shape.into_iter().map(Into::into).collect();
        Type::Tensor(TensorType { dtype, ndim: shape.len() as i32, shape: Some(shape), vdevice: None })
    }

    /// Returns the type of a tensor of unknown shape; `ndim` is -1 if the number of dimensions is also unknown.
    pub fn tensor_ndim(ndim: i32, dtype: DType) -> Type {
        Type::Tensor(TensorType { dtype, ndim, shape: None, vdevice: None })
    }

    /// Returns the type of a shape of known dimensions.
    pub fn shape(dims: Vec<Dim>) -> Type {
        Type::Shape { ndim: dims.len() as i32, dims: Some(dims) }
    }

    /// Returns the type as a tensor type.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        if let Type::Tensor(t) = self { Some(t) } else { None }
    }
}
