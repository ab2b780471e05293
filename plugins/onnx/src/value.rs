//! The values that names of a model refer to.

use crate::known::Known;
use plugin_api::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// The result of reading a part of a model. The reader adds the node to the reason in the error.
pub(crate) type Res<A> = Result<A, String>;

/// A value of a model.
#[derive(Clone)]
pub(crate) enum Item {
    Tensor(T),
    /// A sequence. Its length is known while reading.
    Sequence(Rc<Vec<Item>>),
    /// An empty optional value.
    Nothing,
}

/// A tensor: a value of the function under construction, or known data that becomes such a value when it
/// is used.
#[derive(Clone)]
pub(crate) struct T(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) dtype: DType,
    /// The rank; -1 if unknown.
    pub(crate) ndim: i32,
    pub(crate) shape: Option<Vec<Dim>>,
    pub(crate) v: Cell<Option<V>>,
    pub(crate) known: Option<Known>,
    pub(crate) data: Option<Tensor>,
    /// The narrow type that the bytes hold, if any.
    pub(crate) narrow: Option<DType>,
}

impl From<T> for Item {
    fn from(tensor: T) -> Item {
        Item::Tensor(tensor)
    }
}

impl Item {
    pub(crate) fn tensor(&self) -> Res<T> {
        match self {
            Item::Tensor(tensor) => Ok(tensor.clone()),
            Item::Sequence(_) => Err("expected a tensor, found a sequence".to_string()),
            Item::Nothing => Err("expected a tensor, found an optional value that is empty".to_string()),
        }
    }
}

impl T {
    /// Creates a tensor from known elements.
    pub(crate) fn known_as(known: Known) -> T {
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
    pub(crate) fn data(shape: &[i64], dtype: DType, data: Tensor, known: Option<Known>) -> T {
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
    pub(crate) fn of(v: V, ty: &Type) -> Res<T> {
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

    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Returns the narrow type that the bytes hold, if any.
    pub(crate) fn narrow(&self) -> Option<DType> {
        self.0.narrow
    }

    /// Returns the data type in the model.
    pub(crate) fn logical(&self) -> DType {
        self.0.narrow.unwrap_or(self.0.dtype)
    }

    /// Returns the same bytes as a narrow type.
    pub(crate) fn with_narrow(&self, narrow: DType) -> T {
        self.tagged(Some(narrow))
    }

    /// Returns the bytes as a tensor.
    pub(crate) fn plain(&self) -> T {
        self.tagged(None)
    }

    fn tagged(&self, narrow: Option<DType>) -> T {
        let Inner { dtype, ndim, ref shape, ref v, ref known, ref data, .. } = *self.0;
        let inner =
            Inner { dtype, ndim, shape: shape.clone(), v: v.clone(), known: known.clone(), data: data.clone(), narrow };
        T(Rc::new(inner))
    }

    pub(crate) fn known(&self) -> Option<&Known> {
        self.0.known.as_ref()
    }

    pub(crate) fn shape(&self) -> Option<&[Dim]> {
        self.0.shape.as_deref()
    }

    /// Returns the dimensions.
    pub(crate) fn dims(&self) -> Res<Vec<Dim>> {
        self.0.shape.clone().ok_or_else(|| {
            "the shape of an operand is not known; give sizes to the inputs, as in `shapes=[\"x=1,3,224,224\"]`"
                .to_string()
        })
    }

    /// Returns the dimensions. Fewer than `least` are an error.
    pub(crate) fn dims_from(&self, least: usize) -> Res<Vec<Dim>> {
        let dims = self.dims()?;
        match dims.len() >= least {
            true => Ok(dims),
            false => Err(format!("an operand has {} dimensions; at least {least} are needed", dims.len())),
        }
    }

    pub(crate) fn rank(&self) -> Res<usize> {
        usize::try_from(self.0.ndim).map_err(|_| {
            "the number of dimensions of an operand is not known; give sizes to the inputs, as in `shapes=[\"x=1,3,224,224\"]`"
                .to_string()
        })
    }

    /// Returns a dimension.
    pub(crate) fn dim(&self, axis: usize) -> Res<Dim> {
        self.dims()?.get(axis).cloned().ok_or_else(|| format!("an operand lacks axis {axis}"))
    }

    /// Returns an axis of this tensor; negative axes count from the end.
    pub(crate) fn axis(&self, axis: i64) -> Res<usize> {
        axis_of(axis, self.rank()?)
    }

    /// Returns the dimensions, if all are numbers.
    pub(crate) fn sizes(&self) -> Option<Vec<i64>> {
        self.shape()?.iter().map(Dim::as_int).collect()
    }

    pub(crate) fn ints(&self) -> Option<Vec<i64>> {
        self.known()?.ints()
    }

    pub(crate) fn floats(&self) -> Option<Vec<f64>> {
        self.known()?.floats()
    }

    pub(crate) fn is_float(&self) -> bool {
        self.dtype().is_float()
    }
}

/// Returns an axis of a tensor of rank `rank`; negative axes count from the end.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Res<usize> {
    let n = rank as i64;
    if axis < -n || axis >= n {
        return Err(format!("axis {axis} of a tensor of {rank} dimensions; it must be from {} to {}", -n, n - 1));
    }
    Ok((if axis < 0 { axis + n } else { axis }) as usize)
}
