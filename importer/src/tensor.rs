//! Tensors of a model.

use crate::known::Known;
use plugin_api::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// The result of reading a part of a model. The reader adds the node to the reason in the error.
pub type Res<A> = Result<A, String>;

/// A tensor: a value of the function under construction, or known data that becomes such a value when it
/// is used.
#[derive(Clone)]
pub struct T(pub Rc<Inner>);

/// The content of a tensor.
pub struct Inner {
    /// The data type of the elements.
    pub dtype: DType,
    /// The rank; -1 if unknown.
    pub ndim: i32,
    /// The dimensions, if they are known.
    pub shape: Option<Vec<Dim>>,
    /// The value of the function, once there is one.
    pub v: Cell<Option<V>>,
    /// The elements, if they are known.
    pub known: Option<Known>,
    /// The bytes of a constant.
    pub data: Option<Tensor>,
    /// The narrow type that the bytes hold, if any.
    pub narrow: Option<DType>,
}

impl T {
    /// Creates a tensor from known elements.
    pub fn known_as(known: Known) -> T {
        T(Rc::new(Inner {
            dtype: known.dtype,
            ndim: known.shape.len() as i32,
            shape: Some(known.shape.iter().map(|dim| Dim::Int(*dim)).collect()),
            v: Cell::new(None),
            known: Some(known),
            data: None,
            narrow: None,
        }))
    }

    /// Creates a constant.
    pub fn data(shape: &[i64], dtype: DType, data: Tensor, known: Option<Known>) -> T {
        T(Rc::new(Inner {
            dtype,
            ndim: shape.len() as i32,
            shape: Some(shape.iter().map(|dim| Dim::Int(*dim)).collect()),
            v: Cell::new(None),
            known,
            data: Some(data),
            narrow: None,
        }))
    }

    /// Creates a tensor from a value of the function.
    pub fn of(v: V, ty: &Type) -> Res<T> {
        let Type::Tensor(ty) = ty else { return Err(format!("expected a tensor, found a value of type {ty:?}")) };
        let inner = Inner {
            dtype: ty.dtype,
            ndim: ty.ndim,
            shape: ty.shape.clone(),
            v: Cell::new(Some(v)),
            known: None,
            data: None,
            narrow: None,
        };
        Ok(T(Rc::new(inner)))
    }

    /// Returns the data type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Returns the narrow type that the bytes hold, if any.
    pub fn narrow(&self) -> Option<DType> {
        self.0.narrow
    }

    /// Returns the data type in the model.
    pub fn logical(&self) -> DType {
        self.0.narrow.unwrap_or(self.0.dtype)
    }

    /// Returns the same bytes as a narrow type.
    pub fn with_narrow(&self, narrow: DType) -> T {
        self.tagged(Some(narrow))
    }

    /// Returns the bytes as a tensor.
    pub fn plain(&self) -> T {
        self.tagged(None)
    }

    fn tagged(&self, narrow: Option<DType>) -> T {
        let Inner { dtype, ndim, ref shape, ref v, ref known, ref data, .. } = *self.0;
        let inner =
            Inner { dtype, ndim, shape: shape.clone(), v: v.clone(), known: known.clone(), data: data.clone(), narrow };
        T(Rc::new(inner))
    }

    /// Returns the elements, if they are known.
    pub fn known(&self) -> Option<&Known> {
        self.0.known.as_ref()
    }

    /// Returns the dimensions, if they are known.
    pub fn shape(&self) -> Option<&[Dim]> {
        self.0.shape.as_deref()
    }

    /// Returns the dimensions.
    pub fn dims(&self) -> Res<Vec<Dim>> {
        self.0.shape.clone().ok_or_else(|| {
            "the shape of an operand is not known; specify the input sizes, as in `shapes=[\"x=1,3,224,224\"]`"
                .to_string()
        })
    }

    /// Returns the dimensions. Fewer than `least` are an error.
    pub fn dims_from(&self, least: usize) -> Res<Vec<Dim>> {
        let dims = self.dims()?;
        match dims.len() >= least {
            true => Ok(dims),
            false => Err(format!("an operand has {} dimensions; at least {least} are needed", dims.len())),
        }
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> Res<usize> {
        usize::try_from(self.0.ndim).map_err(|_| {
            "the number of dimensions of an operand is not known; specify the input sizes, as in `shapes=[\"x=1,3,224,224\"]`"
                .to_string()
        })
    }

    /// Returns a dimension.
    pub fn dim(&self, axis: usize) -> Res<Dim> {
        self.dims()?.get(axis).cloned().ok_or_else(|| format!("an operand lacks axis {axis}"))
    }

    /// Returns an axis of this tensor; negative axes count from the end.
    pub fn axis(&self, axis: i64) -> Res<usize> {
        axis_of(axis, self.rank()?)
    }

    /// Returns the dimensions, if all are numbers.
    pub fn sizes(&self) -> Option<Vec<i64>> {
        self.shape()?.iter().map(Dim::as_int).collect()
    }

    /// Returns the elements as integers, if they are known integers.
    pub fn ints(&self) -> Option<Vec<i64>> {
        self.known()?.ints()
    }

    /// Returns the elements as floats, if they are known numbers.
    pub fn floats(&self) -> Option<Vec<f64>> {
        self.known()?.floats()
    }

    /// Returns true if the elements are floats.
    pub fn is_float(&self) -> bool {
        self.dtype().is_float()
    }
}

/// Returns an axis of a tensor of rank `rank`; negative axes count from the end.
pub fn axis_of(axis: i64, rank: usize) -> Res<usize> {
    let n = rank as i64;
    if axis < -n || axis >= n {
        return Err(format!("axis {axis} of a tensor of {rank} dimensions; it must be from {} to {}", -n, n - 1));
    }
    Ok((if axis < 0 { axis + n } else { axis }) as usize)
}
