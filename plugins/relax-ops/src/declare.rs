//! Short forms for declarations, and helpers that the rules of several families share.

use plugin_api::arith::{Analyzer, Bounds, apply, prove_equal};
use plugin_api::ir::{Call, DType, Dim, DimExpr, TensorType, Type, Value};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, InferFn, OpDecl};

/// Concatenates strings at compile time.
macro_rules! joined_text {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&str] = &[$($part),+];
        const BYTES: [u8; $crate::declare::length(PARTS)] = $crate::declare::joined(PARTS);
        const TEXT: &str = match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("texts that are joined are text"),
        };
        TEXT
    }};
}
pub(crate) use joined_text;

/// Documents an operator: what it does, its type rule, and an example with parameters, a call and the type of the call.
/// The test `examples_hold` checks the example.
macro_rules! documented {
    ($does:expr, $rule:expr, $call:expr, $ty:expr $(,)?) => {
        joined_text!($does, "\n\n Type: ", $rule, ".\n\n     ", $call, "\n     # ", $ty)
    };
    ($does:expr, $rule:expr, $params:expr, $call:expr, $ty:expr $(,)?) => {
        joined_text!($does, "\n\n Type: ", $rule, ".\n\n     ", $params, "\n     ", $call, "\n     # ", $ty)
    };
}
pub(crate) use documented;

/// Returns the total length of strings in bytes.
pub(crate) const fn length(parts: &[&str]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < parts.len() {
        n += parts[i].len();
        i += 1;
    }
    n
}

/// Concatenates the bytes of strings.
pub(crate) const fn joined<const N: usize>(parts: &[&str]) -> [u8; N] {
    let (mut out, mut at, mut part) = ([0; N], 0, 0);
    while part < parts.len() {
        let (bytes, mut i) = (parts[part].as_bytes(), 0);
        while i < bytes.len() {
            out[at] = bytes[i];
            (at, i) = (at + 1, i + 1);
        }
        part += 1;
    }
    out
}

/// Returns the part of an operator's name after `relax`, which also follows `R` in a call.
pub(crate) const fn spelled(name: &'static str) -> &'static str {
    name.split_at("relax".len()).1
}

/// Declares a pure operator.
pub(crate) const fn op(
    name: &'static str,
    doc: &'static str,
    args: &'static [ArgDecl],
    attrs: &'static [AttrDecl],
    infer: InferFn,
) -> OpDecl {
    OpDecl { name, args, attrs, doc, infer, ..OpDecl::EMPTY }
}

/// Marks an operator as impure.
pub(crate) const fn impure(op: OpDecl) -> OpDecl {
    OpDecl { pure: false, ..op }
}

/// Declares an argument.
pub(crate) const fn arg(name: &'static str, kind: ArgKind) -> ArgDecl {
    ArgDecl { name, kind, ..ArgDecl::EMPTY }
}

/// Declares a required attribute.
pub(crate) const fn attr(name: &'static str, ty: AttrType) -> AttrDecl {
    AttrDecl { name, ty, ..AttrDecl::EMPTY }
}

/// Declares an attribute with a default.
pub(crate) const fn attr_or(name: &'static str, ty: AttrType, default: DefaultDecl) -> AttrDecl {
    AttrDecl { name, ty, default, ..AttrDecl::EMPTY }
}

/// Makes this attribute and the attributes after it keyword-only.
pub(crate) const fn by_name(attr: AttrDecl) -> AttrDecl {
    AttrDecl { by_name: true, ..attr }
}

/// A single tensor argument named `x`.
pub(crate) const X: &[ArgDecl] = &[arg("x", ArgKind::Tensor)];
/// A single tensor argument named `data`.
pub(crate) const DATA: &[ArgDecl] = &[arg("data", ArgKind::Tensor)];
/// Two tensor arguments.
pub(crate) const X1_X2: &[ArgDecl] = &[arg("x1", ArgKind::Tensor), arg("x2", ArgKind::Tensor)];

/// The result of a type rule.
pub(crate) type Inferred = Result<Type, InferError>;

/// Returns an error of a type rule.
pub(crate) fn wrong<T>(message: String) -> Result<T, InferError> {
    Err(InferError::wrong(message))
}

/// Returns argument `i`.
pub(crate) fn argument<'a>(call: Call<'a>, i: usize) -> Result<Value<'a>, InferError> {
    let missing = || InferError::wrong(format!("argument {i} is missing; the call has {}", call.args().len()));
    call.arg(i).ok_or_else(missing)
}

/// Returns the type of argument `i`, which must be a tensor.
pub(crate) fn tensor(call: Call<'_>, i: usize) -> Result<TensorType, InferError> {
    match argument(call, i)?.ty().to_owned() {
        Type::Tensor(t) => Ok(t),
        // The annotation of the result describes its distribution over a mesh.
        Type::DTensor(t) => Ok(t.tensor),
        other => wrong(format!("argument {i} must be a tensor, found {}", kind_name(&other))),
    }
}

pub(crate) fn kind_name(ty: &Type) -> &'static str {
    match ty {
        Type::Prim { .. } => "a scalar",
        Type::Shape { .. } => "a shape",
        Type::Tuple(_) => "a tuple",
        Type::Callable { .. } => "a function",
        Type::Tensor(_) | Type::DTensor(_) => "a tensor",
        _ => "a value of unknown type",
    }
}

/// Returns the types in argument `i`, which must be a tuple of tensors.
pub(crate) fn tensors(call: Call<'_>, i: usize) -> Result<Vec<TensorType>, InferError> {
    let fields = match argument(call, i)?.ty().to_owned() {
        Type::Tuple(fields) => fields,
        other => return wrong(format!("argument {i} must be a tuple of tensors, found {}", kind_name(&other))),
    };
    let each = fields.into_iter().enumerate().map(|(k, ty)| match ty {
        Type::Tensor(t) => Ok(t),
        Type::DTensor(t) => Ok(t.tensor),
        other => wrong(format!("element {k} of argument {i} must be a tensor, found {}", kind_name(&other))),
    });
    each.collect()
}

/// Returns the dimension count and the dimensions of argument `i`, which must be a shape. The dimensions are `None` if
/// unknown.
pub(crate) fn shape(call: Call<'_>, i: usize) -> Result<(i32, Option<Vec<Dim>>), InferError> {
    match argument(call, i)?.ty().to_owned() {
        Type::Shape { ndim, dims } => Ok((ndim, dims)),
        other => wrong(format!("argument {i} must be a shape such as R.shape([1, n]), found {}", kind_name(&other))),
    }
}

/// Returns the number of elements of a tensor with these dimensions. As in TVM, sums are not multiplied out, because a
/// product of eight sums would have 256 terms.
pub(crate) fn elements(dims: &[Dim]) -> Result<Dim, InferError> {
    let mut known = dims.iter().filter_map(Dim::as_int);
    if known.clone().any(|dim| dim == 0) {
        return Ok(Dim::Int(0));
    }
    let fits = known.try_fold(1i64, i64::checked_mul).is_some();
    if fits { Ok(product_of(dims)) } else { wrong("the number of elements exceeds 64 bits".to_string()) }
}

/// Multiplies dimensions in order; adjacent constants are folded.
fn product_of(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Int(1), |product, dim| product * dim.clone())
}

/// Returns a repeat count as a dimension; it must not be negative.
pub(crate) fn times(repeats: i64) -> Result<Dim, InferError> {
    if repeats < 0 { wrong(format!("repeats must not be negative, found {repeats}")) } else { Ok(Dim::Int(repeats)) }
}

/// Returns the number of steps of length `by` from `start` (inclusive) to `end` (exclusive); 0 if `end` is before
/// `start`. Symbolic dimensions are never negative, so most step counts are not either; if that cannot be proved, the
/// result is clamped with `max(…, 0)`.
pub(crate) fn steps_between((start, end): (&Dim, &Dim), by: i64) -> Dim {
    let span = apply(PrimOp::Sub, end, start);
    let steps = apply(PrimOp::FloorDiv, &apply(PrimOp::Add, &span, &Dim::Int(by.saturating_sub(1))), &Dim::Int(by));
    if is_never_negative(&steps) { steps } else { apply(PrimOp::Max, &steps, &Dim::Int(0)) }
}

/// Returns true if a dimension is nonnegative for all nonnegative values of its symbolic variables.
pub(crate) fn is_never_negative(dim: &Dim) -> bool {
    if let Some(value) = dim.as_int() {
        return value >= 0;
    }
    let mut analyzer = Analyzer::new();
    dim.vars(&mut |sym| analyzer.bind_bounds(sym, Bounds::at_least(0)));
    analyzer.can_prove_greater_equal(dim, &Dim::Int(0))
}

/// Returns an error if a dimension of a shape is known to be negative.
pub(crate) fn not_negative(dims: Option<&[Dim]>) -> Result<(), InferError> {
    let mut all = dims.into_iter().flatten().enumerate();
    match all.find(|(_, dim)| dim.as_int().is_some_and(|dim| dim < 0)) {
        Some((axis, dim)) => wrong(format!("dimension {axis} of the shape is {}; it must not be negative", show(dim))),
        None => Ok(()),
    }
}

/// Returns an attribute that is a list of integers, or `None` if it is `None`.
pub(crate) fn ints(call: Call<'_>, key: &str) -> Option<Vec<i64>> {
    let value = call.attr(key)?;
    value.as_ints().or_else(|| value.as_int().map(|v| vec![v]))
}

/// Returns an integer attribute.
pub(crate) fn int(call: Call<'_>, key: &str) -> Option<i64> {
    call.attr(key)?.as_int()
}

/// Returns a string attribute.
pub(crate) fn text<'a>(call: Call<'a>, key: &str) -> Option<&'a str> {
    call.attr(key)?.as_str()
}

/// Returns the value of a constant dimension.
pub(crate) fn number(dim: &Dim) -> Option<f64> {
    match dim {
        Dim::Expr(expr) if let DimExpr::Float(bits, _) = **expr => Some(f64::from_bits(bits)),
        dim => dim.as_int().map(|value| value as f64),
    }
}

/// Returns a boolean attribute; false if it is absent.
pub(crate) fn flag(call: Call<'_>, key: &str) -> bool {
    call.attr(key).and_then(|attr| attr.as_bool()).unwrap_or(false)
}

/// Returns the data type in the attribute `key` (such as `out_dtype`), or `otherwise` if it is not set.
pub(crate) fn out_dtype(call: Call<'_>, key: &str, otherwise: DType) -> DType {
    asked_dtype(call, key).unwrap_or(otherwise)
}

/// Returns the data type that an attribute names, or `None` if it is `None`, empty or void.
pub(crate) fn asked_dtype(call: Call<'_>, key: &str) -> Option<DType> {
    call.attr(key)?.as_dtype().filter(|dtype| dtype.is_known())
}

/// Formats a dimension for a message.
pub(crate) fn show(dim: &Dim) -> String {
    dim.as_int().map_or_else(|| "a symbolic number of".to_string(), |v| v.to_string())
}

/// Returns an error if a data type is known and not a float.
pub(crate) fn needs_float(dtype: DType) -> Result<(), InferError> {
    match dtype.is_known() && !dtype.is_float() {
        true => wrong(format!("needs a tensor of floats, found {dtype}; convert it with R.astype")),
        false => Ok(()),
    }
}

/// Returns an error if a data type is known and not an integer.
pub(crate) fn needs_int(dtype: DType, what: &str) -> Result<(), InferError> {
    match dtype.is_known() && !dtype.is_int() {
        true => wrong(format!("{what} must be integers, found {dtype}; convert them with R.astype")),
        false => Ok(()),
    }
}

/// Normalizes an axis, which counts from the end if negative; `None` if the number of dimensions is unknown.
pub(crate) fn axis(axis: i64, ndim: i32) -> Result<Option<usize>, InferError> {
    if ndim < 0 {
        return Ok(None);
    }
    let n = i64::from(ndim);
    if axis < -n || axis >= n {
        return wrong(format!(
            "axis {axis} is out of range for a tensor of {ndim} dimensions; it must be from {} to {}",
            -n,
            n - 1
        ));
    }
    Ok(Some((if axis < 0 { axis + n } else { axis }) as usize))
}

/// Normalizes axes and checks that they are distinct; `None` if the number of dimensions is unknown.
pub(crate) fn axes(axes: &[i64], ndim: i32) -> Result<Option<Vec<usize>>, InferError> {
    let mut out = Vec::with_capacity(axes.len());
    for value in axes {
        let Some(at) = axis(*value, ndim)? else { return Ok(None) };
        if out.contains(&at) {
            return wrong(format!("axis {value} is given twice"));
        }
        out.push(at);
    }
    Ok(Some(out))
}

/// Returns the common data type of two operands, which must agree where both are known.
pub(crate) fn same_dtype(a: DType, b: DType) -> Result<DType, InferError> {
    match (a.is_known(), b.is_known()) {
        (true, true) if a != b => wrong(format!("data types {a} and {b} differ; convert one with R.astype")),
        (true, true) => Ok(a),
        _ => Ok(DType::VOID),
    }
}

/// Broadcasts two shapes; `None` if the result is unknown. All axes are checked, so a mismatch is found even next to an
/// axis of unknown size.
pub(crate) fn broadcast(a: &[Dim], b: &[Dim]) -> Result<Option<Vec<Dim>>, InferError> {
    let n = a.len().max(b.len());
    let mut out = Vec::with_capacity(n);
    let mut known = true;
    for i in 0..n {
        let x = (i + a.len()).checked_sub(n).map(|i| &a[i]);
        let y = (i + b.len()).checked_sub(n).map(|i| &b[i]);
        let (x, y) = match (x, y) {
            (Some(x), Some(y)) => (x, y),
            (Some(one), None) | (None, Some(one)) => {
                out.push(one.clone());
                continue;
            }
            (None, None) => break,
        };
        match (x.as_int(), y.as_int()) {
            (Some(p), Some(q)) if p != q && p != 1 && q != 1 => {
                return wrong(format!(
                    "dimensions {p} and {q} (axis {i}) do not broadcast: they must be equal, or one of them must be 1"
                ));
            }
            (_, Some(1)) => out.push(x.clone()),
            (Some(1), _) => out.push(y.clone()),
            _ if prove_equal(x, y) == Some(true) => out.push(x.clone()),
            _ => known = false,
        }
    }
    Ok(known.then_some(out))
}

/// Returns the type of two broadcast tensors.
pub(crate) fn broadcast_tensors(a: &TensorType, b: &TensorType, dtype: DType) -> Inferred {
    let vdevice = same_device(a, b)?;
    let ndim = if a.ndim < 0 || b.ndim < 0 { -1 } else { a.ndim.max(b.ndim) };
    let shape = match (&a.shape, &b.shape) {
        (Some(x), Some(y)) => broadcast(x, y)?,
        _ => None,
    };
    Ok(Type::Tensor(TensorType { dtype, ndim, shape, vdevice }))
}

/// Returns the common device of two operands, which must agree where both are known.
pub(crate) fn same_device(a: &TensorType, b: &TensorType) -> Result<Option<u32>, InferError> {
    match (a.vdevice, b.vdevice) {
        (Some(x), Some(y)) if x != y => {
            wrong("the operands are on different virtual devices; move one with R.to_vdevice".to_string())
        }
        (x, y) => Ok(x.or(y)),
    }
}

/// Returns a tensor type with the data type and device of `like`, and a different shape. With 0 dimensions, it is a
/// scalar, whose shape is known.
pub(crate) fn with_shape(like: &TensorType, ndim: i32, shape: Option<Vec<Dim>>) -> Type {
    let shape = if ndim == 0 { Some(Vec::new()) } else { shape };
    let ndim = shape.as_ref().map_or(ndim, |dims| dims.len() as i32);
    Type::Tensor(TensorType { dtype: like.dtype, ndim, shape, vdevice: like.vdevice })
}

/// Returns the tensor type with a different data type.
pub(crate) fn with_dtype(like: TensorType, dtype: DType) -> Type {
    Type::Tensor(TensorType { dtype, ..like })
}

/// Compares two shapes: `Some(true)` if they are provably equal, `Some(false)` if they cannot be equal.
pub(crate) fn same_shape(a: &[Dim], b: &[Dim]) -> Option<bool> {
    if a.len() != b.len() {
        return Some(false);
    }
    let mut all = Some(true);
    for (a, b) in a.iter().zip(b) {
        match prove_equal(a, b) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}
