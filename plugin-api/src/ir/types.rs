//! Types and dimensions: owned forms to compute with, and [`Ty`], the view of a type inside a body.

use crate::ir::nested::{Nests, Part, Parts};
use crate::ir::records::*;
use crate::ir::storage::sections::RawView;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Most parts that a type, dimension or attribute may have as a tree: shared parts count as often as they are used.
pub const MAX_SIZE: u32 = 1 << 20;

/// Data type: code, bits, lanes (as DLPack has them).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DType(pub u32);

impl DType {
    /// Unknown, or none.
    pub const VOID: DType = DType::new(3, 0, 0);
    /// `int32`.
    pub const I32: DType = DType::new(0, 32, 1);
    /// `int64`.
    pub const I64: DType = DType::new(0, 64, 1);
    /// `bool`.
    pub const BOOL: DType = DType::new(6, 8, 1);
    /// `int8`.
    pub const I8: DType = DType::new(0, 8, 1);
    /// `int16`.
    pub const I16: DType = DType::new(0, 16, 1);
    /// `uint8`.
    pub const U8: DType = DType::new(1, 8, 1);
    /// `uint16`.
    pub const U16: DType = DType::new(1, 16, 1);
    /// `uint32`.
    pub const U32: DType = DType::new(1, 32, 1);
    /// `uint64`.
    pub const U64: DType = DType::new(1, 64, 1);
    /// `bfloat16`.
    pub const BF16: DType = DType::new(4, 16, 1);
    /// `float16`.
    pub const F16: DType = DType::new(2, 16, 1);
    /// `float32`.
    pub const F32: DType = DType::new(2, 32, 1);
    /// `float64`.
    pub const F64: DType = DType::new(2, 64, 1);
    /// `handle`.
    pub const HANDLE: DType = DType::new(3, 64, 1);

    /// From its parts.
    pub const fn new(code: u8, bits: u8, lanes: u16) -> DType {
        DType(code as u32 | (bits as u32) << 8 | (lanes as u32) << 16)
    }

    /// 0 int, 1 uint, 2 float, 3 handle, 4 bfloat, 6 bool, 7 and up the 8-bit floats.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// Bits of one lane.
    pub const fn bits(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Number of lanes; of scalable vectors the negated multiple of the length that is known when the program runs.
    pub const fn lanes(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Whether it is known.
    pub fn is_known(self) -> bool {
        self != DType::VOID
    }

    /// Whether it has a name in a text, which is read as this data type.
    pub fn has_name(self) -> bool {
        let (bits, lanes) = (self.bits(), self.lanes() as i16);
        let known = match self.code() {
            0 | 1 | 2 | 4 => true,
            3 => bits == 64,
            6 => bits == 8,
            code => NARROW.iter().any(|(_, narrow, width)| (*narrow, *width) == (code, bits)),
        };
        self == DType::VOID || known && lanes != 0 && lanes != i16::MIN
    }

    /// Whether it is a float of any width.
    pub fn is_float(self) -> bool {
        matches!(self.code(), 2 | 4) || self.code() >= 7
    }

    /// Whether it is an integer, signed or not.
    pub fn is_int(self) -> bool {
        self.code() <= 1
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        (usize::from(self.bits()) * usize::from(self.lanes())).div_ceil(8)
    }
}

/// Codes of the narrow floats, in DLPack's order from 7 up.
pub(crate) const NARROW: &[(&str, u8, u8)] = &[
    ("float8_e3m4", 7, 8),
    ("float8_e4m3", 8, 8),
    ("float8_e4m3b11fnuz", 9, 8),
    ("float8_e4m3fn", 10, 8),
    ("float8_e4m3fnuz", 11, 8),
    ("float8_e5m2", 12, 8),
    ("float8_e5m2fnuz", 13, 8),
    ("float8_e8m0fnu", 14, 8),
    ("float6_e2m3fn", 15, 6),
    ("float6_e3m2fn", 16, 6),
    ("float4_e2m1fn", 17, 4),
];

impl std::str::FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<DType, UnknownDType> {
        let unknown = || UnknownDType(text.to_string());
        let (text, scalable) = match text.rsplit_once("xvscalex") {
            Some((base, lanes)) => (base, Some(lanes.parse::<i16>().ok().filter(|n| *n > 0).ok_or_else(unknown)?)),
            None => (text, None),
        };
        let (base, lanes) = match text.rsplit_once('x') {
            Some((base, n)) if !base.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty() => {
                (base, n.parse().ok().filter(|lanes| *lanes > 0).ok_or_else(unknown)?)
            }
            _ => (text, 1),
        };
        let lanes = scalable.map_or(lanes, |n| -n as u16);
        if let Some((_, code, bits)) = NARROW.iter().find(|(name, ..)| *name == base) {
            return Ok(DType::new(*code, *bits, lanes));
        }
        match base {
            "bool" => return Ok(DType::new(6, 8, lanes)),
            "handle" => return Ok(DType::new(3, 64, lanes)),
            "void" | "" => return Ok(DType::VOID),
            _ => {}
        }
        let (code, digits) = [("uint", 1u8), ("int", 0), ("bfloat", 4), ("float", 2)]
            .iter()
            .find_map(|(prefix, code)| base.strip_prefix(prefix).map(|digits| (*code, digits)))
            .ok_or_else(unknown)?;
        let bits: u8 = if digits.is_empty() { 32 } else { digits.parse().map_err(|_| unknown())? };
        Ok(DType::new(code, bits, lanes))
    }
}

/// No data type has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no data type `{0}`; a data type is written like \"float32\", \"int64\", \"bool\"")]
pub struct UnknownDType(pub String);

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == DType::VOID {
            return f.write_str("void");
        }
        match self.code() {
            0 => write!(f, "int{}", self.bits())?,
            1 => write!(f, "uint{}", self.bits())?,
            2 => write!(f, "float{}", self.bits())?,
            3 => f.write_str("handle")?,
            4 => write!(f, "bfloat{}", self.bits())?,
            6 => f.write_str("bool")?,
            code => match NARROW.iter().find(|(_, c, _)| *c == code) {
                Some((name, ..)) => f.write_str(name)?,
                None => write!(f, "custom{code}_{}", self.bits())?,
            },
        }
        match self.lanes() as i16 {
            n @ i16::MIN..=-1 => write!(f, "xvscalex{}", n.unsigned_abs())?,
            0 | 1 => {}
            n => write!(f, "x{n}")?,
        }
        Ok(())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

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
    /// An `int64`. Numbers of other types, as the `int32` of most loops of TIR, are none: [`Dim::as_int`] tells the value
    /// of an integer of any type.
    Int(i64),
    /// A symbolic variable.
    Var(Sym),
    /// Anything else.
    Expr(Arc<DimExpr>),
}

/// A compound dimension.
#[derive(Clone)]
pub enum DimExpr {
    /// Integer of a type other than `int64`.
    Int(i64, DType),
    /// Float, by its bits as `f64`.
    Float(u64, DType),
    /// Operation of [`crate::ir::records::prim`] on two operands.
    Binary(u16, DType, Dim, Dim),
    /// `NOT` or `CAST`.
    Unary(u16, DType, Dim),
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

/// One after the other: an expression may be nested deeper than the stack allows.
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
    /// Its value if it is an integer constant of any type.
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

    /// Its data type.
    pub fn dtype(&self) -> DType {
        match self {
            Dim::Int(_) => DType::I64,
            Dim::Var(sym) => sym.dtype,
            Dim::Expr(e) => match **e {
                DimExpr::Int(_, t) | DimExpr::Float(_, t) | DimExpr::Binary(_, t, ..) | DimExpr::Unary(_, t, _) => t,
            },
        }
    }

    /// An operation on two dimensions, not simplified.
    pub fn binary(op: u16, a: Dim, b: Dim) -> Dim {
        let dtype = if (prim::EQ..=prim::OR).contains(&op) { DType::BOOL } else { a.dtype() };
        Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, a, b)))
    }

    /// One of two dimensions, not simplified.
    pub fn if_then_else(cond: Dim, then: Dim, other: Dim) -> Dim {
        let dtype = then.dtype();
        let both = Dim::Expr(Arc::new(DimExpr::Binary(prim::ELSE, dtype, then, other)));
        Dim::Expr(Arc::new(DimExpr::Binary(prim::IF, dtype, cond, both)))
    }

    /// An integer of any type.
    pub fn int(value: i64, dtype: DType) -> Dim {
        if dtype == DType::I64 { Dim::Int(value) } else { Dim::Expr(Arc::new(DimExpr::Int(value, dtype))) }
    }

    /// A float.
    pub fn float(value: f64, dtype: DType) -> Dim {
        Dim::Expr(Arc::new(DimExpr::Float(value.to_bits(), dtype)))
    }

    /// Calls `f` with every symbolic variable, left to right, repeated ones repeatedly.
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
pub enum Type {
    /// Any value.
    #[default]
    Object,
    /// Scalar.
    Prim {
        /// Its data type.
        dtype: DType,
        /// Its value, where that is known.
        value: Option<Dim>,
    },
    /// Shape.
    Shape {
        /// Number of dimensions, -1 if unknown.
        ndim: i32,
        /// The dimensions, where they are known.
        dims: Option<Vec<Dim>>,
    },
    /// Tensor.
    Tensor(TensorType),
    /// Tuple.
    Tuple(Parts<Type>),
    /// Function.
    Callable {
        /// Parameters; `None`: any.
        params: Option<Parts<Type>>,
        /// Result.
        ret: Part<Type>,
        /// Whether it has no effects.
        pure: bool,
    },
    /// Tensor spread over a device mesh.
    DTensor(DTensorType),
    /// TIR buffer.
    Buffer(BufferType),
    /// TIR pointer.
    Pointer {
        /// What it points to, [`DType::VOID`] if that is not said.
        dtype: DType,
        /// Memory scope; `global` for plain handles.
        scope: String,
    },
    /// A type of a kind that this API does not know; the id is that of the body it came from.
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

/// Type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Data type of the elements, [`DType::VOID`] if unknown.
    pub dtype: DType,
    /// Number of dimensions, -1 if unknown.
    pub ndim: i32,
    /// The dimensions, where they are known.
    pub shape: Option<Vec<Dim>>,
    /// Index of its virtual device in the module's global infos.
    pub vdevice: Option<u32>,
}

/// Type of a tensor that is spread over a device mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DTensorType {
    /// The whole tensor.
    pub tensor: TensorType,
    /// Number of the mesh among the module's global infos of key `mesh`.
    pub mesh: u32,
    /// For each axis of the mesh the axis of the tensor that it divides; `None`: each device has all of it.
    pub placement: Vec<Option<u32>>,
}

/// Type of a TIR buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BufferType {
    /// Data type of the elements.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<Dim>,
    /// Strides in elements; empty: compact.
    pub strides: Vec<Dim>,
    /// Offset of the first element, in elements.
    pub elem_offset: Option<Dim>,
    /// Memory scope, empty for global.
    pub scope: String,
    /// Alignment of the data in bytes.
    pub align: u32,
    /// Factor of the offset.
    pub offset_factor: u32,
    /// Whether it has the row-major tile layout; without it, it has no layout.
    pub tiled: bool,
}

impl BufferType {
    /// Compact buffer in global memory, aligned to 64 bytes, without a layout.
    pub fn new(shape: Vec<Dim>, dtype: DType) -> BufferType {
        let (strides, scope) = (Vec::new(), String::new());
        BufferType { dtype, shape, strides, elem_offset: None, scope, align: 64, offset_factor: 1, tiled: false }
    }
}

impl Type {
    /// A function of which nothing is known: any parameters, any result, perhaps with effects.
    pub fn opaque_callable() -> Type {
        Type::callable(None, Type::Object, false)
    }

    /// A TIR function as Relax functions see it: of any arguments, with what it returns, if that is anything.
    pub fn prim_func(ret: Option<Type>) -> Type {
        Type::callable(None, ret.unwrap_or(Type::tuple([])), false)
    }

    /// A function of these parameters, or of any, with its result; `pure`: whether it has no effects.
    pub fn callable(params: Option<Vec<Type>>, ret: Type, pure: bool) -> Type {
        Type::Callable { params: params.map(Into::into), ret: ret.into(), pure }
    }

    /// Tuple of these fields.
    pub fn tuple(fields: impl IntoIterator<Item = Type>) -> Type {
        Type::Tuple(fields.into_iter().collect())
    }

    /// A function type with this purity; any other type as it is.
    pub fn with_purity(mut self, now: bool) -> Type {
        if let Type::Callable { pure, .. } = &mut self {
            *pure = now;
        }
        self
    }

    /// Every dimension that stands in the type; those of function types only with `callables`.
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

    /// The type with `f` of each of its dimensions; those of function types only with `callables`.
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

    /// The symbolic variables that a parameter or match_cast of this type defines: those that stand alone as a dimension.
    pub fn each_defined(&self, f: &mut dyn FnMut(Sym)) {
        self.each_dim(false, &mut |dim| {
            if let Dim::Var(sym) = dim {
                f(*sym);
            }
        });
    }

    /// Tensor of known shape.
    pub fn tensor(shape: impl IntoIterator<Item = impl Into<Dim>>, dtype: DType) -> Type {
        let shape: Vec<Dim> = shape.into_iter().map(Into::into).collect();
        Type::Tensor(TensorType { dtype, ndim: shape.len() as i32, shape: Some(shape), vdevice: None })
    }

    /// Tensor of unknown shape; `ndim` -1 if that is unknown too.
    pub fn tensor_ndim(ndim: i32, dtype: DType) -> Type {
        Type::Tensor(TensorType { dtype, ndim, shape: None, vdevice: None })
    }

    /// Shape of known dimensions.
    pub fn shape(dims: Vec<Dim>) -> Type {
        Type::Shape { ndim: dims.len() as i32, dims: Some(dims) }
    }

    /// As a tensor type.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        if let Type::Tensor(t) = self { Some(t) } else { None }
    }
}

/// View of a type inside a body.
#[derive(Clone, Copy)]
pub struct Ty<'a> {
    pub(crate) raw: &'a RawView<'a>,
    pub(crate) id: u32,
}

impl PartialEq for Ty<'_> {
    /// Same body and same entry; equal types of two bodies compare with [`Ty::to_owned`] or `same_type`.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.raw, other.raw) && self.id == other.id
    }
}

impl fmt::Debug for Ty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", (*self).to_owned())
    }
}

impl<'a> Ty<'a> {
    /// Id in the type table of its body.
    pub fn id(self) -> u32 {
        self.id
    }

    /// The record; `None` where there is no type.
    pub fn rec(self) -> Option<&'a TypeRec> {
        self.raw.types().get(self.id as usize)
    }

    /// Whether a type is there at all.
    pub fn is_known(self) -> bool {
        self.rec().is_some()
    }

    /// Kind, one of [`crate::ir::records::tykind`]; 0 where there is no type.
    pub fn kind(self) -> u16 {
        self.rec().map_or(0, |rec| rec.kind)
    }

    /// Data type of a tensor, scalar or buffer.
    pub fn dtype(self) -> DType {
        self.rec().map_or(DType::VOID, |rec| DType(rec.dtype))
    }

    /// Number of dimensions of a tensor or shape, -1 if unknown.
    pub fn ndim(self) -> i32 {
        self.rec().map_or(-1, |rec| rec.ndim)
    }

    fn list(self) -> &'a [u32] {
        self.rec().map_or(&[], |rec| self.raw.list(rec.off, rec.len))
    }

    /// Dimensions of a tensor or shape, where they are known.
    pub fn dims(self) -> Option<impl ExactSizeIterator<Item = Dim> + 'a> {
        let rec = self.rec()?;
        let known = rec.flags & tyflag::PRIMS != 0 && matches!(rec.kind, tykind::TENSOR | tykind::SHAPE);
        known.then(|| self.list().iter().map(move |id| dim_at(self.raw, *id)))
    }

    /// The dimension expressions in its list: dimensions of a tensor or shape, value of a scalar; those of a buffer too.
    pub fn prims(self) -> Vec<Dim> {
        let rec = self.rec().filter(|rec| rec.flags & tyflag::PRIMS != 0 || rec.kind == tykind::BUFFER);
        let ids = match rec.map(|rec| (rec.kind, self.raw.buffers().get(rec.aux as usize))) {
            None => return Vec::new(),
            Some((tykind::BUFFER, Some(b))) => {
                let lists = [self.raw.list(b.shape_off, b.shape_len), self.raw.list(b.strides_off, b.strides_len)];
                let offset = (b.elem_offset != NONE).then_some(b.elem_offset);
                lists.concat().into_iter().chain(offset).collect()
            }
            Some(_) => self.list().to_vec(),
        };
        ids.into_iter().map(|id| dim_at(self.raw, id)).collect()
    }

    /// Dimensions if each is an integer constant.
    pub fn static_dims(self) -> Option<Vec<i64>> {
        self.dims()?.map(|dim| dim.as_int()).collect()
    }

    /// Types in its list: elements of a tuple; parameters, then the result, of a function.
    pub fn children(self) -> impl ExactSizeIterator<Item = Ty<'a>> + 'a {
        let ids = if self.rec().is_some_and(|rec| rec.flags & tyflag::TYPES != 0) { self.list() } else { &[] };
        ids.iter().map(move |id| Ty { raw: self.raw, id: *id })
    }

    /// Whether it is a tensor.
    pub fn is_tensor(self) -> bool {
        self.kind() == tykind::TENSOR
    }

    /// Whether it is a tuple.
    pub fn is_tuple(self) -> bool {
        self.kind() == tykind::TUPLE
    }

    /// Whether both are the same type, though the table of a body may have it twice.
    pub fn same(self, other: Ty<'_>) -> bool {
        self.is_surely(other) || self.to_owned() == other.to_owned()
    }

    /// Whether both are plainly the same type, record by record. `false` says nothing: other records can be the same type.
    fn is_surely(self, other: Ty<'_>) -> bool {
        // Parts can be shared, so there may be far more of them than records.
        const MOST_PARTS: usize = 10_000;
        let mut work = vec![(self, other)];
        for _ in 0..MOST_PARTS {
            let Some((a, b)) = work.pop() else { return true };
            if a == b {
                continue;
            }
            let (Some(one), Some(two)) = (a.rec(), b.rec()) else { return false };
            let head = |rec: &TypeRec| (rec.kind, rec.flags, rec.dtype, rec.ndim, rec.len, rec.aux);
            if head(one) != head(two) || matches!(one.kind, tykind::BUFFER | tykind::POINTER) {
                return false;
            }
            if one.flags & tyflag::TYPES != 0 {
                work.extend(a.children().zip(b.children()));
                continue;
            }
            let leaf = |prim: &&PrimRec| matches!(prim.op, prim::INT | prim::VAR);
            let dim = |ty: Ty<'_>, id: u32| ty.raw.prims().get(id as usize).filter(leaf).copied();
            let same = |(x, y): (&u32, &u32)| dim(a, *x).is_some_and(|x| dim(b, *y) == Some(x));
            if !a.list().iter().zip(b.list()).all(same) {
                return false;
            }
        }
        false
    }

    /// Result type and purity of a function.
    pub fn callable(self) -> Option<(Ty<'a>, bool)> {
        let rec = self.rec().filter(|rec| rec.kind == tykind::CALLABLE)?;
        let ret = self.children().last()?;
        Some((ret, rec.flags & tyflag::IMPURE == 0))
    }

    /// Record of a buffer.
    pub fn buffer(self) -> Option<&'a BufferRec> {
        let rec = self.rec().filter(|rec| rec.kind == tykind::BUFFER)?;
        self.raw.buffers().get(rec.aux as usize)
    }

    /// Memory scope of a pointer.
    pub fn pointer_scope(self) -> &'a str {
        match self.children().next().and_then(Ty::buffer) {
            None => "global",
            Some(buffer) if buffer.scope == NONE => "",
            Some(buffer) => self.raw.str(buffer.scope),
        }
    }

    /// Memory scope of a buffer, `global` where none is said.
    pub fn buffer_scope(self) -> &'a str {
        match self.buffer() {
            Some(buffer) if buffer.scope != NONE => self.raw.str(buffer.scope),
            _ => "global",
        }
    }

    /// As an owned value. What a body under construction has beyond the size that a sealed one may have is left out.
    pub fn to_owned(self) -> Type {
        self.within(&Left::new())
    }

    /// As an owned value of as many parts as are left.
    fn within(self, left: &Left) -> Type {
        left.part(Type::Object, || self.rec().map(|rec| self.part(rec, left)))
    }

    fn part(self, rec: &TypeRec, left: &Left) -> Type {
        let child = |ty: Ty<'a>| ty.within(left);
        let dim = |id: u32| dim_within(self.raw, id, left);
        let dims = |ids: &[u32]| ids.iter().map(|id| dim(*id)).collect::<Vec<_>>();
        match rec.kind {
            tykind::OBJECT => Type::Object,
            tykind::PRIM => Type::Prim { dtype: DType(rec.dtype), value: self.list().first().map(|id| dim(*id)) },
            tykind::SHAPE => {
                let known = rec.flags & tyflag::PRIMS != 0;
                Type::Shape { ndim: rec.ndim, dims: known.then(|| dims(self.list())) }
            }
            tykind::TENSOR => Type::Tensor(TensorType {
                dtype: DType(rec.dtype),
                ndim: rec.ndim,
                shape: (rec.flags & tyflag::PRIMS != 0).then(|| dims(self.list())),
                vdevice: (rec.aux != NONE).then_some(rec.aux),
            }),
            tykind::TUPLE => Type::Tuple(self.children().map(child).collect()),
            tykind::CALLABLE => {
                let mut types: Vec<Type> = self.children().map(child).collect();
                let ret = types.pop().unwrap_or(Type::Object);
                Type::callable((rec.ndim >= 0).then_some(types), ret, rec.flags & tyflag::IMPURE == 0)
            }
            tykind::DTENSOR => {
                let mut parts = self.children().map(child);
                match (parts.next(), parts.next()) {
                    (Some(Type::Tensor(tensor)), Some(Type::Shape { dims: Some(axes), .. })) => {
                        let axis = |dim: Dim| dim.as_int().and_then(|axis| u32::try_from(axis).ok());
                        let placement = axes.into_iter().map(axis).collect();
                        Type::DTensor(DTensorType { tensor, mesh: rec.aux, placement })
                    }
                    _ => Type::Unknown(rec.kind),
                }
            }
            tykind::BUFFER => match self.raw.buffers().get(rec.aux as usize) {
                Some(b) => Type::Buffer(BufferType {
                    dtype: DType(b.dtype),
                    shape: dims(self.raw.list(b.shape_off, b.shape_len)),
                    strides: dims(self.raw.list(b.strides_off, b.strides_len)),
                    elem_offset: (b.elem_offset != NONE).then(|| dim(b.elem_offset)),
                    scope: self.raw.str(b.scope).to_string(),
                    align: b.align,
                    offset_factor: b.offset_factor,
                    tiled: rec.flags & tyflag::TILED != 0,
                }),
                None => Type::Object,
            },
            tykind::POINTER => Type::Pointer { dtype: DType(rec.dtype), scope: self.pointer_scope().to_string() },
            other => Type::Unknown(other),
        }
    }
}

/// The dimension of an id; 0 if the id is out of range. Depth is bounded by the validator.
pub fn dim_at(raw: &RawView<'_>, id: u32) -> Dim {
    dim_within(raw, id, &Left::new())
}

/// The same of as many parts as are left.
fn dim_within(raw: &RawView<'_>, id: u32, left: &Left) -> Dim {
    left.part(Dim::Int(0), || raw.prims().get(id as usize).map(|rec| dim_part(raw, rec, left)))
}

fn dim_part(raw: &RawView<'_>, rec: &PrimRec, left: &Left) -> Dim {
    let bits = u64::from(rec.a) | u64::from(rec.b) << 32;
    let dtype = DType(rec.dtype);
    let operand = |id| dim_within(raw, id, left);
    match rec.op {
        prim::INT => Dim::int(bits as i64, dtype),
        prim::FLOAT => Dim::Expr(Arc::new(DimExpr::Float(bits, dtype))),
        prim::VAR => Dim::Var(Sym { id: rec.a, dtype }),
        prim::NOT | prim::CAST => Dim::Expr(Arc::new(DimExpr::Unary(rec.op, dtype, operand(rec.a)))),
        op => Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, operand(rec.a), operand(rec.b)))),
    }
}

/// How much may still be written out of a table in which parts are shared: a body under construction may hold, in a few
/// records, what no memory holds as a tree.
struct Left {
    parts: Cell<u32>,
    depth: Cell<u32>,
}

impl Left {
    fn new() -> Left {
        Left { parts: Cell::new(MAX_SIZE), depth: Cell::new(MAX_DEPTH + 1) }
    }

    /// One part, or `none` where nothing is left.
    fn part<T>(&self, none: T, f: impl FnOnce() -> Option<T>) -> T {
        let (parts, depth) = (self.parts.get(), self.depth.get());
        if parts == 0 || depth == 0 {
            return none;
        }
        self.parts.set(parts - 1);
        self.depth.set(depth - 1);
        let out = f().unwrap_or(none);
        self.depth.set(depth);
        out
    }
}
