//! Constants as typed arrays: read with [`Value::as_constant`], built as [`Array`]s.
//!
//! The data of a constant is little-endian and need not be aligned for its type, so it is read element by element.

pub use crate::scalar::{AsElement, Bf16, Element, F16, Number};

use crate::ir::attrs::AttrView;
use crate::ir::make::builder::{BodyBuilder, V};
use crate::ir::records::attr;
use crate::ir::storage::tensor::Tensor;
use crate::ir::types::{DTensorType, DType, Ty, Type};
use crate::ir::value::Value;
use crate::ir::view::Expr;
use crate::scalar::{access, holds_all};

/// An error of reading or building a constant.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::ConstantError;
///
/// assert!(matches!(Array::new(&[2], [1.0f32]), Err(ConstantError::Count { wanted: 2, found: 1, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstantError {
    /// The Rust type cannot represent some values of the data type.
    #[error(
        "the elements of the constant are {found}, and not all of them fit {wanted}; read them as {found}, or convert them with `cast`"
    )]
    Type {
        /// The data type of the constant.
        found: DType,
        /// The data type of the requested elements.
        wanted: DType,
    },
    /// Rust lacks a type for the elements.
    #[error(
        "the elements of the constant are {found}, for which Rust does not have a type; use `bytes` to get the data"
    )]
    NoType {
        /// The data type of the constant.
        found: DType,
    },
    /// The number of elements does not match the shape.
    #[error("a constant of shape {shape:?} has {wanted} elements, found {found}")]
    Count {
        /// The shape.
        shape: Vec<i64>,
        /// The number of elements of the shape.
        wanted: usize,
        /// The number of elements found.
        found: usize,
    },
    /// No tensor can have this shape.
    #[error("invalid shape {shape:?}: each dimension must be 0 or more, and their product must fit in 64 bits")]
    Shape {
        /// The shape.
        shape: Vec<i64>,
    },
}

/// A constant of a body, or an [`Array`], as a typed array.
///
/// The example quantizes a float32 weight to int8 with a single scale:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder};
///
/// fn quantize(body: &Body) -> Result<Body, PassError> {
///     body.try_rewrite(|value, rw| {
///         let Some(call) = value.as_call_to("relax.matmul") else { return Ok(Action::Keep) };
///         let (Some(x), Some(w)) = (call.arg(0), call.arg(1)) else { return Ok(Action::Keep) };
///         let Some(weight) = w.as_constant().filter(|weight| weight.dtype() == DType::F32) else {
///             return Ok(Action::Keep);
///         };
///         let most = weight.values::<f32>()?.fold(0.0, |most: f32, w| most.max(w.abs()));
///         if most == 0.0 || !most.is_finite() {
///             return Ok(Action::Keep);
///         }
///         let scale = most / 127.0;
///         let int8 = rw.constant(weight.shape(), weight.values::<f32>()?.map(|w| (w / scale).round() as i8))?;
///         let (scale, zero) = (rw.constant(&[], [scale])?, rw.constant(&[], [0i8])?);
///         let float = rw.call("relax.dequantize", &[int8, scale, zero], &[], &w.ty().to_owned());
///         let (x, float) = (rw.v(x), rw.emit(float, "weight"));
///         Ok(Action::Replace(rw.call_like(call, &[x, float])))
///     })
/// }
///
/// let mut b = BodyBuilder::new();
/// b.begin_function(0, AttrsId::NONE, None);
/// let ty = b.ty(&Type::tensor([1, 2], DType::F32));
/// let (x, matmul) = (b.param("x", ty), b.op("relax.matmul"));
/// let weight = b.array(&Array::new(&[2, 2], [0.5f32, -1.0, 0.25, 0.0])?);
/// b.begin_block();
/// let y = b.call(matmul, &[x, weight], AttrsId::NONE, ty, false, Some("y"));
/// b.end();
/// b.end_function(y, ty);
/// let body = quantize(&b.finish()?)?;
/// let call = body.values().find_map(|value| value.as_call_to("relax.dequantize")).expect("a call");
/// let int8 = call.arg(0).and_then(|arg| arg.as_constant()).expect("a constant");
/// assert_eq!((int8.dtype(), int8.shape()), (DType::I8, &[2, 2][..]));
/// assert_eq!(int8.to_vec::<i8>()?, [64, -127, 32, 0]);
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone)]
pub struct Constant<'a> {
    tensor: &'a Tensor,
    dtype: DType,
    shape: Vec<i64>,
}

impl std::fmt::Debug for Constant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Constant({} {:?})", self.dtype, self.shape)
    }
}

impl<'a> Constant<'a> {
    fn of(tensor: &'a Tensor, ty: Ty<'_>) -> Option<Constant<'a>> {
        let (Type::Tensor(of) | Type::DTensor(DTensorType { tensor: of, .. })) = ty.to_owned() else { return None };
        let shape = of.shape?.iter().map(|dim| dim.as_int()).collect::<Option<Vec<i64>>>()?;
        Some(Constant { tensor, dtype: of.dtype, shape })
    }

    /// Returns the data type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the dimensions; empty for a scalar.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        count(&self.shape).unwrap_or(0)
    }

    /// Returns true if the constant is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the data: elements in row-major order, each little-endian; elements narrower than 8 bits are packed.
    pub fn bytes(&self) -> &'a [u8] {
        self.tensor.bytes()
    }

    /// Returns a hash of the data; equal data has equal hashes.
    pub fn hash128(&self) -> (u64, u64) {
        self.tensor.hash128()
    }

    /// Iterates over the elements in row-major order, as numbers of any type.
    ///
    /// # Errors
    /// If Rust lacks a type for the elements, such as 8-bit floats.
    pub fn numbers(&self) -> Result<impl ExactSizeIterator<Item = Number> + use<'a>, ConstantError> {
        let (get, _) = access(self.dtype).ok_or(ConstantError::NoType { found: self.dtype })?;
        Ok(self.bytes().chunks_exact(self.dtype.bytes().max(1)).map(get))
    }

    /// Iterates over the elements in row-major order. `T` is the element type, or a wider type that can represent all its values.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::F16;
    ///
    /// let array = Array::new(&[2], [F16::from_f32(0.5), F16::from_f32(2.0)])?;
    /// assert_eq!(array.view().values::<f32>()?.sum::<f32>(), 2.5);
    /// let error = array.view().values::<i32>().map(|_| ()).expect_err("0.5 is not an integer");
    /// assert!(error.to_string().starts_with("the elements of the constant are float16, and not all of them fit int32"));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If `T` cannot represent every value of the data type; [`Constant::cast`] converts anyway.
    pub fn values<T: Element>(&self) -> Result<impl ExactSizeIterator<Item = T> + use<'a, T>, ConstantError> {
        let numbers = self.numbers()?;
        if !holds_all(T::DTYPE, self.dtype) {
            return Err(ConstantError::Type { found: self.dtype, wanted: T::DTYPE });
        }
        Ok(numbers.map(T::of))
    }

    /// Collects [`Constant::values`] into a vector.
    ///
    /// # Errors
    /// As for [`Constant::values`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, ConstantError> {
        Ok(self.values::<T>()?.collect())
    }

    /// Iterates over the elements in row-major order, converted by [`Element::of`], which changes values that do not fit.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// let array = Array::new(&[3], [1.7f32, -3.0, 1e9])?;
    /// assert_eq!(array.view().cast::<i8>()?.collect::<Vec<_>>(), [1, -3, 127]);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If Rust lacks a type for the elements.
    pub fn cast<T: Element>(&self) -> Result<impl ExactSizeIterator<Item = T> + use<'a, T>, ConstantError> {
        Ok(self.numbers()?.map(T::of))
    }

    /// Returns the element of a constant with one element, read as in [`Constant::values`]. Returns `None` if the number of elements is not
    /// 1, or if `T` cannot represent every value of the data type.
    pub fn scalar<T: Element>(&self) -> Option<T> {
        self.values().ok().filter(|values| values.len() == 1)?.next()
    }

    /// Converts the constant to an array, without copying the data.
    pub fn to_array(&self) -> Array {
        Array { tensor: self.tensor.clone(), dtype: self.dtype, shape: self.shape.clone() }
    }
}

/// A typed array that can become a constant of a body.
///
/// Rewriters, edits and builders make a constant in one step, as in `rw.constant(&[2], [1.0f32, 2.0])`. Use an array to build a constant
/// before its body exists, or to convert it:
///
/// ```
/// use plugin_api::prelude::*;
///
/// let array = Array::new(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
/// let half = array.cast(DType::F16)?;
/// assert_eq!((half.dtype(), half.view().to_vec::<f32>()?), (DType::F16, vec![1.0, 2.0, 3.0, 4.0]));
///
/// let error = Array::new(&[2, 2], [1i64, 2, 3]).expect_err("one is missing");
/// assert_eq!(error.to_string(), "a constant of shape [2, 2] has 4 elements, found 3");
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Array {
    tensor: Tensor,
    dtype: DType,
    shape: Vec<i64>,
}

impl Array {
    /// Builds an array from elements in row-major order: a slice, an array, or an iterator. A scalar has the shape `&[]`.
    ///
    /// # Errors
    /// If the number of elements does not match the shape.
    pub fn new<T: AsElement>(shape: &[i64], values: impl IntoIterator<Item = T>) -> Result<Array, ConstantError> {
        let wanted = count(shape).ok_or_else(|| ConstantError::Shape { shape: shape.to_vec() })?;
        let mut bytes = Vec::new();
        // Taking one surplus element detects an excess, even from an infinite iterator.
        let found = values.into_iter().take(wanted.saturating_add(1)).map(|v| v.element().put(&mut bytes)).count();
        if found != wanted {
            return Err(ConstantError::Count { shape: shape.to_vec(), wanted, found });
        }
        Ok(Array { tensor: Tensor::new(&bytes), dtype: T::Element::DTYPE, shape: shape.to_vec() })
    }

    /// Builds an array from its data without a copy: elements in row-major order, each little-endian.
    ///
    /// # Errors
    /// If the length of the data does not match the shape.
    pub fn of(tensor: Tensor, dtype: DType, shape: &[i64]) -> Result<Array, ConstantError> {
        let elements = count(shape).ok_or_else(|| ConstantError::Shape { shape: shape.to_vec() })?;
        let found = tensor.bytes().len() / dtype.bytes().max(1);
        if elements.checked_mul(dtype.bytes()) != Some(tensor.bytes().len()) {
            return Err(ConstantError::Count { shape: shape.to_vec(), wanted: elements, found });
        }
        Ok(Array { tensor, dtype, shape: shape.to_vec() })
    }

    /// Returns the data type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns a view to read the elements.
    pub fn view(&self) -> Constant<'_> {
        Constant { tensor: &self.tensor, dtype: self.dtype, shape: self.shape.clone() }
    }

    /// Converts the array to a data type that may be known only at run time. Elements are converted by [`Element::of`].
    ///
    /// # Errors
    /// If Rust lacks a type for one of the two data types.
    pub fn cast(&self, dtype: DType) -> Result<Array, ConstantError> {
        let (_, put) = access(dtype).ok_or(ConstantError::NoType { found: dtype })?;
        let mut bytes = Vec::with_capacity(self.view().len() * dtype.bytes());
        self.view().numbers()?.for_each(|number| put(number, &mut bytes));
        Ok(Array { tensor: Tensor::new(&bytes), dtype, shape: self.shape.clone() })
    }

    /// Returns the type of the constant that the array becomes.
    pub fn ty(&self) -> Type {
        Type::tensor(self.shape.iter().copied(), self.dtype)
    }
}

/// Returns the number of elements of a shape.
fn count(shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, dim| n.checked_mul(usize::try_from(*dim).ok()?))
}

impl<'a> Value<'a> {
    /// Returns the value as a constant. Returns `None` for a variable, even if it is another name for a constant; patterns look through
    /// such names.
    pub fn as_constant(self) -> Option<Constant<'a>> {
        match self.view() {
            Expr::Const(tensor) => Constant::of(tensor, self.ty()),
            _ => None,
        }
    }
}

impl<'a> AttrView<'a> {
    /// Returns the leaf as a constant.
    pub fn as_constant(self) -> Option<Constant<'a>> {
        let at = (self.kind() == attr::CONST).then_some(self.rec.val as usize)?;
        Constant::of(self.raw.tensors().get(at)?, Ty { raw: self.raw, id: self.raw.consts().get(at)?.ty })
    }
}

impl BodyBuilder {
    /// Adds a constant from an array.
    pub fn array(&mut self, array: &Array) -> V {
        self.constant(&array.tensor, &array.ty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Element + PartialEq + std::fmt::Debug>(array: &Array, expected: &[T]) {
        assert_eq!(array.view().to_vec::<T>().expect("read"), expected);
    }

    #[test]
    fn every_data_type_is_written_and_read() {
        fn round<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) {
            let array = Array::new(&[values.len() as i64], values).expect("made");
            assert_eq!(array.dtype(), T::DTYPE);
            assert_eq!(array.view().bytes().len(), values.len() * T::DTYPE.bytes());
            read(&array, values);
        }
        round(&[true, false]);
        round(&[i8::MIN, -1, i8::MAX]);
        round(&[i16::MIN, -1, i16::MAX]);
        round(&[i32::MIN, -1, i32::MAX]);
        round(&[i64::MIN, -1, i64::MAX]);
        round(&[0, u8::MAX]);
        round(&[0, u16::MAX]);
        round(&[0, u32::MAX]);
        round(&[0, u64::MAX]);
        round(&[-0.5f32, f32::MAX, f32::INFINITY]);
        round(&[-0.5f64, f64::MIN_POSITIVE]);
        round(&[F16(0x3c00), F16(1), F16(0x7bff)]);
        round(&[Bf16(0x3f80), Bf16(1), Bf16(0x7f7f)]);
    }

    #[test]
    fn data_is_little_endian_and_needs_no_alignment() {
        let array = Array::new(&[2], [1i32, 0x0102_0304]).expect("made");
        assert_eq!(array.view().bytes(), [1, 0, 0, 0, 4, 3, 2, 1]);
        read(&array, &[1i64, 0x0102_0304]);
    }

    /// Tests the rule of `values` independently: small numbers survive conversion to any type that is wide enough.
    #[test]
    fn what_is_wide_enough_holds_every_value() {
        let all: [DType; 12] = [
            DType::I8,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::U8,
            DType::U16,
            DType::U32,
            DType::U64,
            DType::F16,
            DType::BF16,
            DType::F32,
            DType::F64,
        ];
        for found in all {
            for wanted in all {
                let extremes = extremes(found);
                let array = Array::new(&[extremes.len() as i64], &extremes).expect("made").cast(found).expect("cast");
                let there: Vec<Number> = array.view().numbers().expect("numbers").collect();
                let back = array.cast(wanted).and_then(|there| there.cast(found)).expect("cast");
                let whole = |array: &Array| array.view().numbers().expect("numbers").map(same).collect::<Vec<_>>();
                let kept = whole(&array) == whole(&array.cast(wanted).expect("cast"))
                    && back.view().bytes() == array.view().bytes();
                assert_eq!(holds_all(wanted, found), kept, "{found} in {wanted}: {there:?}");
            }
        }
        assert!(holds_all(DType::BOOL, DType::BOOL));
        assert!(!holds_all(DType::BOOL, DType::U8) && !holds_all(DType::U8, DType::BOOL));
    }

    /// Maps numbers to keys that are equal for equal values, whatever their type.
    fn same(number: Number) -> (i128, u64) {
        match number {
            Number::Bool(v) => (i128::from(v), 0),
            Number::Int(v) => (i128::from(v), 0),
            Number::UInt(v) => (i128::from(v), 0),
            Number::Float(v) if v.fract() == 0.0 && v.abs() < 1e30 => (v as i128, 0),
            Number::Float(v) => (0, v.to_bits()),
        }
    }

    /// Returns numbers at the limits of a type. Converting them to the type preserves the representable ones.
    fn extremes(dtype: DType) -> Vec<f64> {
        let float =
            [0.0, 1.0, -1.0, 1.0 / 1024.0, 65504.0, f64::from(Bf16(0x7f7f).to_f32()), f64::from(Bf16(1).to_f32())];
        match dtype {
            DType::F64 => [&float[..], &[f64::MAX, 1.0 + f64::EPSILON, 1e-300]].concat(),
            DType::F32 => [&float[..], &[f64::from(f32::MAX), f64::from(1.0 + f32::EPSILON)]].concat(),
            DType::F16 => vec![0.0, 1.0, -1.0, 1.0 + 1.0 / 1024.0, 65504.0, 2f64.powi(-24)],
            DType::BF16 => [&float[..4], &float[5..]].concat(),
            _ => vec![0.0, 1.0, -1.0, -1e30, 1e30],
        }
    }

    #[test]
    fn what_cannot_be_read_or_made_says_why() {
        let array = Array::new(&[1], [3i64]).expect("made");
        let error = array.view().to_vec::<i32>().expect_err("too narrow");
        assert_eq!(error, ConstantError::Type { found: DType::I64, wanted: DType::I32 });
        let narrow: DType = "float8_e4m3fn".parse().expect("a data type");
        assert_eq!(array.cast(narrow).err(), Some(ConstantError::NoType { found: narrow }));
        let endless = Array::new(&[2], std::iter::repeat(1u8)).expect_err("too many");
        assert_eq!(endless.to_string(), "a constant of shape [2] has 2 elements, found 3");
        for shape in [&[-1i64][..], &[i64::MAX, 3]] {
            assert!(matches!(Array::new(shape, [0u8]), Err(ConstantError::Shape { .. })), "{shape:?}");
        }
        assert_eq!(Array::new(&[0, 4], [0f32; 0]).expect("empty").view().len(), 0);
        assert_eq!(Array::new(&[], [2f32]).expect("scalar").view().scalar::<f64>(), Some(2.0));
    }
}
