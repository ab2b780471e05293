//! Builds calls of Relax operators on the values of a model.

use crate::known::{self, Elem, Known};
use crate::tensor::{Res, T};
use plugin_api::names::{FreshNames, identifier};
use plugin_api::prelude::*;
use plugin_api::tvm::FunctionBuilder;
use std::cell::RefCell;

/// The function under construction, and the values to which its names refer.
pub struct Emitter<'a> {
    /// The function under construction.
    pub b: &'a FunctionBuilder<'a, 'a>,
    /// Number of open branches. Values created in a branch are not visible outside of it.
    pub branches: usize,
    /// Names of values and of symbolic dimensions.
    pub names: FreshNames,
    /// Pairs of symbolic sizes that calls assume to be equal.
    assumed: RefCell<Vec<(Dim, Dim)>>,
}

/// The attributes of a call.
pub type Attrs<'t> = &'t [(&'t str, Attr)];

impl<'a> Emitter<'a> {
    /// Creates an emitter for a function under construction.
    pub fn new(b: &'a FunctionBuilder<'a, 'a>) -> Emitter<'a> {
        Emitter { b, branches: 0, names: FreshNames::default(), assumed: RefCell::default() }
    }

    /// Records that a call assumes that two sizes are equal, which is checked when the model runs.
    fn assume_equal(&self, size: &Dim, other: &Dim) {
        self.assumed.borrow_mut().push((size.clone(), other.clone()));
    }

    /// Returns the pairs of sizes that the calls since the last `take_assumed` assume to be equal.
    pub fn take_assumed(&self) -> Vec<(Dim, Dim)> {
        self.assumed.take()
    }

    /// Returns a tensor as a value of the function.
    pub fn v(&self, tensor: &T) -> Res<V> {
        if let Some(v) = tensor.0.v.get() {
            return Ok(v);
        }
        let v = match (&tensor.0.data, tensor.known()) {
            (Some(data), _) => {
                let ty = Type::tensor(tensor.shape().unwrap_or_default().iter().cloned(), tensor.dtype());
                self.b.constant_of_bytes(data, &ty)
            }
            (None, Some(known)) => match known.array() {
                Some(array) => self.b.array(&array),
                None => self.computed(known)?,
            },
            (None, None) => return Err("a value is neither known nor computed".to_string()),
        };
        if v.is_leaf() || self.branches == 0 {
            tensor.0.v.set(Some(v));
        }
        Ok(v)
    }

    /// Computes a tensor from known elements that depend on symbolic dimensions.
    fn computed(&self, known: &Known) -> Res<V> {
        let divisor =
            known.elems.iter().map(|elem| if let Elem::Ratio(_, by) = elem { *by } else { 1 }).max().unwrap_or(1);
        let whole = |elem: &Elem| match elem {
            Elem::Int(dim) => Some(dim.clone()),
            Elem::Ratio(dim, by) if divisor % by == 0 => Some(known::mul(dim, &Dim::Int(divisor / by))),
            Elem::Ratio(..) => None,
            Elem::Float(value) => {
                let value = value * divisor as f64;
                (value.fract() == 0.0 && value.abs() < 1e15).then_some(Dim::Int(value as i64))
            }
        };
        let dims: Option<Vec<Dim>> = known.elems.iter().map(whole).collect();
        let dims =
            dims.ok_or("a tensor depends on the sizes of inputs in a way that is not supported; give their sizes")?;
        let vector = T::of_v(self, self.b.call("relax.shape_to_tensor", &[self.b.shape(&dims)]))?;
        let shaped = self.reshape(&vector, known.shape.iter().map(|dim| Dim::Int(*dim)).collect())?;
        let typed = self.cast(&shaped, known.dtype)?;
        match divisor {
            1 => self.v(&typed),
            by => self.v(&self.div(&typed, &self.scalar(by as f64, known.dtype)?)?),
        }
    }

    /// Emits a call of an operator on tensors.
    pub fn call(&self, op: &str, args: &[&T], attrs: Attrs<'_>) -> Res<T> {
        let args: Vec<V> = args.iter().map(|arg| self.v(arg)).collect::<Res<_>>()?;
        T::of_v(self, self.call_v(op, &args, attrs)?)
    }

    /// Emits a call of an operator on values of the function.
    pub fn call_v(&self, op: &str, args: &[V], attrs: Attrs<'_>) -> Res<V> {
        let v = self.b.call_with(op, args, attrs);
        match self.b.error() {
            Some(error) => Err(error.message),
            None => Ok(v),
        }
    }

    /// Returns the elements of a tuple.
    pub fn parts(&self, tuple: V, n: usize) -> Res<Vec<T>> {
        (0..n).map(|at| T::of_v(self, self.b.get(tuple, at as u32))).collect()
    }

    /// Returns a number as a tensor of rank 0.
    pub fn scalar(&self, value: f64, dtype: DType) -> Res<T> {
        self.full(value, dtype, &[])
    }

    /// Returns a constant whose elements are all `value`.
    pub fn full(&self, value: f64, dtype: DType, shape: &[i64]) -> Res<T> {
        let n = known::count(shape).ok_or("a constant does not fit in memory")?;
        if n > known::MOST {
            return self.filled(value, dtype, &shape.iter().map(|dim| Dim::Int(*dim)).collect::<Vec<Dim>>());
        }
        let array = Array::new(shape, std::iter::repeat_n(value, n)).and_then(|array| array.cast(dtype));
        self.array(&array.map_err(|error| error.to_string())?)
    }

    /// Returns a constant of type int64.
    pub fn int64s(&self, shape: &[i64], values: &[i64]) -> Res<T> {
        self.array(&Array::new(shape, values.iter().copied()).map_err(|error| error.to_string())?)
    }

    /// Returns an array as a constant.
    pub fn array(&self, array: &Array) -> Res<T> {
        let tensor = T::of_v(self, self.b.array(array))?;
        let Some(known) = Known::of_array(array) else { return Ok(tensor) };
        let result = T::known_as(known);
        result.0.v.set(tensor.0.v.get());
        Ok(result)
    }

    /// Returns a tensor whose elements are all `value`. The shape may be symbolic.
    pub fn filled(&self, value: f64, dtype: DType, shape: &[Dim]) -> Res<T> {
        let fill = self.v(&self.scalar(value, dtype)?)?;
        T::of_v(self, self.call_v("relax.full", &[self.b.shape(shape), fill], &[("dtype", dtype.into())])?)
    }

    /// Converts a tensor to another data type.
    pub fn cast(&self, x: &T, dtype: DType) -> Res<T> {
        if x.dtype() == dtype {
            return Ok(x.clone());
        }
        if let Some(known) = x.known() {
            let elems: Option<Vec<Elem>> = known.elems.iter().map(|elem| elem.cast(dtype)).collect();
            if let Some(known) = elems.and_then(|elems| Known::new(dtype, known.shape.clone(), elems)) {
                return Ok(T::known_as(known));
            }
        }
        self.call("relax.astype", &[x], &[("dtype", dtype.into())])
    }

    /// Converts 16-bit floats to 32-bit floats, for sums and powers.
    pub fn wide(&self, x: &T) -> Res<T> {
        if x.is_float() && x.dtype().bits() < 32 { self.cast(x, DType::F32) } else { Ok(x.clone()) }
    }

    /// Reshapes a tensor.
    pub fn reshape(&self, x: &T, dims: Vec<Dim>) -> Res<T> {
        if x.shape().is_some_and(|shape| shape == dims) {
            return Ok(x.clone());
        }
        if let (Some(known), Some(shape)) = (x.known(), dims.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>())
            && let Some(known) = Known::new(known.dtype, shape, known.elems.to_vec())
        {
            return Ok(T::known_as(known));
        }
        let args = [self.v(x)?, self.b.shape(&dims)];
        T::of_v(self, self.call_v("relax.reshape", &args, &[])?)
    }

    /// Permutes the axes of a tensor.
    pub fn transpose(&self, x: &T, axes: &[usize]) -> Res<T> {
        if axes.iter().enumerate().all(|(at, axis)| at == *axis) {
            return Ok(x.clone());
        }
        let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
        self.call("relax.permute_dims", &[x], &[("axes", axes.into())])
    }

    /// Swaps the last two axes.
    pub fn swapped(&self, x: &T) -> Res<T> {
        let mut axes: Vec<usize> = (0..x.rank()?).collect();
        let n = axes.len();
        if n < 2 {
            return Err("a matrix has two dimensions".to_string());
        }
        axes.swap(n - 1, n - 2);
        self.transpose(x, &axes)
    }

    /// Inserts axes of length 1 at the given positions of the result.
    pub fn unsqueeze(&self, x: &T, axes: &[usize]) -> Res<T> {
        let mut dims = x.dims()?;
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        for axis in axes {
            if axis > dims.len() {
                return Err(format!("the result does not have axis {axis}"));
            }
            dims.insert(axis, Dim::Int(1));
        }
        self.reshape(x, dims)
    }

    /// Removes axes of length 1. Symbolic lengths are checked when the model runs.
    pub fn squeeze(&self, x: &T, axes: &[usize]) -> Res<T> {
        let one =
            |(at, dim): (usize, Dim)| if axes.contains(&at) && dim.as_int().is_none() { Dim::Int(1) } else { dim };
        let least = axes.iter().map(|axis| axis + 1).max().unwrap_or(0);
        let dims: Vec<Dim> = x.dims_from(least)?.into_iter().enumerate().map(one).collect();
        let x = &self.as_shape(x, dims.clone())?;
        if let Some(axis) = axes.iter().find(|axis| dims[**axis].as_int().is_some_and(|dim| dim != 1)) {
            return Err(format!("axis {axis} has length {:?}; only axes of length 1 can be removed", dims[*axis]));
        }
        let kept = dims.into_iter().enumerate().filter(|(at, _)| !axes.contains(at)).map(|(_, dim)| dim).collect();
        self.reshape(x, kept)
    }

    /// Concatenates tensors along an axis.
    pub fn concat(&self, parts: &[T], axis: usize) -> Res<T> {
        /// Maximum number of parts to concatenate at once, because each part is an alternative in the expression of an
        /// element.
        const MOST: usize = 128;
        if let [one] = parts {
            return Ok(one.clone());
        }
        if parts.len() > MOST {
            let some: Vec<T> = parts.chunks(MOST).map(|some| self.concat(some, axis)).collect::<Res<_>>()?;
            return self.concat(&some, axis);
        }
        let parts: Vec<V> = parts.iter().map(|part| self.v(part)).collect::<Res<_>>()?;
        T::of_v(self, self.call_v("relax.concat", &[self.b.tuple(&parts)], &[("axis", (axis as i64).into())])?)
    }

    /// Returns a range along each of several axes, from `begin` (inclusive) to `end` (exclusive), in steps.
    pub fn slice(&self, x: &T, axes: &[usize], begin: &[Dim], end: &[Dim], steps: &[i64]) -> Res<T> {
        let of =
            |dims: &[Dim]| self.b.tuple(&dims.iter().map(|dim| self.b.prim_value(dim.clone())).collect::<Vec<V>>());
        let ints = |values: Vec<i64>| of(&values.into_iter().map(Dim::Int).collect::<Vec<Dim>>());
        let x = self.v(x)?;
        let axes = ints(axes.iter().map(|axis| *axis as i64).collect());
        let (begin, end) = (of(begin), of(end));
        let mut args = vec![x, axes, begin, end];
        if steps.iter().any(|step| *step != 1) {
            args.push(ints(steps.to_vec()));
        }
        T::of_v(self, self.call_v("relax.strided_slice", &args, &[("assume_inbound", true.into())])?)
    }

    /// Returns a range along one axis.
    pub fn range(&self, x: &T, axis: usize, begin: impl Into<Dim>, end: impl Into<Dim>) -> Res<T> {
        self.slice(x, &[axis], &[begin.into()], &[end.into()], &[1])
    }

    /// Returns the part of a tensor at one position of an axis, without that axis.
    pub fn pick(&self, x: &T, axis: usize, at: i64) -> Res<T> {
        let part = self.range(x, axis, at, at + 1)?;
        self.squeeze(&part, &[axis])
    }

    /// Broadcasts a tensor to a shape.
    pub fn broadcast_to(&self, x: &T, dims: &[Dim]) -> Res<T> {
        if x.shape().is_some_and(|shape| shape == dims) {
            return Ok(x.clone());
        }
        let args = [self.v(x)?, self.b.shape(dims)];
        T::of_v(self, self.call_v("relax.broadcast_to", &args, &[])?)
    }

    /// Emits an operator `relax.{op}` on one tensor.
    pub fn un(&self, op: &str, x: &T) -> Res<T> {
        self.call(&format!("relax.{op}"), &[x], &[])
    }

    /// Emits an operator on two broadcast tensors. Symbolic sizes that are not provably equal are checked when the
    /// model runs.
    pub fn bin(&self, op: &str, a: &T, b: &T) -> Res<T> {
        let (a, b) = self.agreeing(a, b)?;
        self.call(&format!("relax.{op}"), &[&a, &b], &[])
    }

    /// Adjusts the sizes of two tensors so that they can provably be broadcast.
    pub fn agreeing(&self, a: &T, b: &T) -> Res<(T, T)> {
        self.agreeing_before(a, b, 0)
    }

    /// Like [`agreeing`](Emitter::agreeing), without the last `last` axes.
    fn agreeing_before(&self, a: &T, b: &T, last: usize) -> Res<(T, T)> {
        let (Some(x), Some(y)) = (a.shape(), b.shape()) else { return Ok((a.clone(), b.clone())) };
        let (mut p, mut q) = (x.to_vec(), y.to_vec());
        let n = p.len().min(q.len());
        for back in last + 1..=n {
            let (i, j) = (x.len() - back, y.len() - back);
            if p[i].as_int() == Some(1) || q[j].as_int() == Some(1) || known::same(&p[i], &q[j]) {
                continue;
            }
            match (p[i].as_int(), q[j].as_int()) {
                (Some(_), Some(_)) => {}
                (Some(_), None) => {
                    self.assume_equal(&q[j], &p[i]);
                    q[j] = p[i].clone();
                }
                _ => {
                    self.assume_equal(&p[i], &q[j]);
                    p[i] = q[j].clone();
                }
            }
        }
        Ok((self.as_shape(a, p)?, self.as_shape(b, q)?))
    }

    /// Returns the tensor with these dimensions. Sizes with different names are assumed to be equal, as in
    /// [`Emitter::agreeing`].
    pub fn fitted(&self, x: &T, dims: Vec<Dim>) -> Res<T> {
        for (own, wanted) in x.dims()?.iter().zip(&dims).filter(|(own, wanted)| own != wanted) {
            self.assume_equal(own, wanted);
        }
        self.as_shape(x, dims)
    }

    /// Returns the tensor with these dimensions. Dimensions that differ from the known ones are checked when the model
    /// runs.
    pub fn as_shape(&self, x: &T, dims: Vec<Dim>) -> Res<T> {
        if x.shape().is_some_and(|shape| shape == dims) {
            return Ok(x.clone());
        }
        let ty = Type::tensor(dims, x.dtype());
        T::of(self.b.match_cast(self.v(x)?, &ty), &ty)
    }

    /// Adds two tensors.
    pub fn add(&self, a: &T, b: &T) -> Res<T> {
        self.bin("add", a, b)
    }

    /// Subtracts a tensor from another.
    pub fn sub(&self, a: &T, b: &T) -> Res<T> {
        self.bin("subtract", a, b)
    }

    /// Multiplies two tensors.
    pub fn mul(&self, a: &T, b: &T) -> Res<T> {
        self.bin("multiply", a, b)
    }

    /// Divides a tensor by another.
    pub fn div(&self, a: &T, b: &T) -> Res<T> {
        self.bin("divide", a, b)
    }

    /// Adds a number to each element.
    pub fn add_s(&self, a: &T, value: f64) -> Res<T> {
        self.add(a, &self.scalar(value, a.dtype())?)
    }

    /// Multiplies each element by a number.
    pub fn mul_s(&self, a: &T, value: f64) -> Res<T> {
        self.mul(a, &self.scalar(value, a.dtype())?)
    }

    /// Returns the larger of each element and a number.
    pub fn max_s(&self, a: &T, value: f64) -> Res<T> {
        self.bin("maximum", a, &self.scalar(value, a.dtype())?)
    }

    /// Returns `then` where a condition holds, and `otherwise` elsewhere.
    pub fn select(&self, cond: &T, then: &T, otherwise: &T) -> Res<T> {
        let (then, otherwise) = self.agreeing(then, otherwise)?;
        let (cond, then) = self.agreeing(cond, &then)?;
        let (cond, otherwise) = self.agreeing(&cond, &otherwise)?;
        self.call("relax.where", &[&cond, &then, &otherwise], &[])
    }

    /// Multiplies matrices. Sums of 16-bit floats are computed in single precision.
    pub fn matmul(&self, a: &T, b: &T) -> Res<T> {
        let (a, b) = &self.multiplied(a, b)?;
        if !matches!(a.dtype(), DType::F16 | DType::BF16) {
            return self.call("relax.matmul", &[a, b], &[]);
        }
        let wide = self.call("relax.matmul", &[a, b], &[("out_dtype", DType::F32.into())])?;
        self.cast(&wide, a.dtype())
    }

    /// Adjusts the symbolic sizes of the operands of a product so that they provably fit.
    fn multiplied(&self, a: &T, b: &T) -> Res<(T, T)> {
        let (a, b) = self.agreeing_before(a, b, 2)?;
        let (Some(x), Some(y)) = (a.shape(), b.shape()) else { return Ok((a, b)) };
        let (Some(k), at) = (x.last().cloned(), y.len().saturating_sub(2)) else { return Ok((a, b)) };
        let Some(other) = y.get(at).cloned().filter(|other| !known::same(other, &k)) else { return Ok((a, b)) };
        if k.as_int().is_none() {
            let mut dims = x.to_vec();
            dims[x.len() - 1] = other;
            return Ok((self.as_shape(&a, dims)?, b));
        }
        if other.as_int().is_some() {
            return Ok((a, b));
        }
        let mut dims = y.to_vec();
        dims[at] = k;
        let b = self.as_shape(&b, dims)?;
        Ok((a, b))
    }

    /// Emits a reduction `relax.{op}` over axes.
    pub fn reduce(&self, op: &str, x: &T, axes: &[usize], keep: bool) -> Res<T> {
        let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
        self.call(&format!("relax.{op}"), &[x], &[("axis", axes.into()), ("keepdims", keep.into())])
    }

    /// Creates a symbolic dimension.
    pub fn fresh(&mut self, hint: &str) -> Dim {
        let name = self.names.fresh(&identifier(hint));
        self.b.sym(&name)
    }

    /// Gives the unknown dimensions of a tensor new names.
    pub fn named_dims(&mut self, x: T, hint: &str) -> Res<T> {
        if x.shape().is_some() {
            return Ok(x);
        }
        let rank = x.rank()?;
        let dims: Vec<Dim> = (0..rank).map(|_| self.fresh(hint)).collect();
        self.shaped(&x, dims)
    }

    /// Gives a tensor of unknown shape a shape. New symbolic dimensions get their sizes from the tensor; others are
    /// checked when the function is executed.
    pub fn shaped(&self, x: &T, shape: Vec<Dim>) -> Res<T> {
        let ty = Type::tensor(shape, x.dtype());
        T::of(self.b.match_cast(self.v(x)?, &ty), &ty)
    }

    /// Converts integers to dimensions. Unknown integers become new symbolic dimensions.
    pub fn dims_of(&mut self, x: &T, hint: &str) -> Res<Vec<Dim>> {
        if let Some(dims) = x.known().and_then(Known::dims) {
            return Ok(dims);
        }
        let vector = match x.rank()? {
            0 => self.reshape(x, vec![Dim::Int(1)])?,
            1 => x.clone(),
            n => return Err(format!("a shape must have one dimension, found {n}")),
        };
        let n = vector
            .dim(0)?
            .as_int()
            .ok_or("the number of dimensions of a result depends on data; give it as a constant")?;
        let vector = self.cast(&vector, DType::I64)?;
        let shape = self.call_v("relax.tensor_to_shape", &[self.v(&vector)?], &[])?;
        let dims: Vec<Dim> = (0..n).map(|_| self.fresh(hint)).collect();
        self.b.match_cast(shape, &Type::shape(dims.clone()));
        Ok(dims)
    }

    /// Returns dimensions as a tensor of integers.
    pub fn of_dims(&self, dims: Vec<Dim>) -> Res<T> {
        Known::vector(dims).map(T::known_as).ok_or_else(|| "a shape has too many dimensions".to_string())
    }

    /// Returns the integers from 0 (inclusive) to a size (exclusive).
    pub fn arange(&self, end: &Dim, dtype: DType) -> Res<T> {
        let args = [0.into(), end.clone(), 1.into()].map(|dim: Dim| self.b.prim_value(dim));
        let numbers = T::of_v(self, self.call_v("relax.arange", &args, &[("dtype", DType::I64.into())])?)?;
        self.cast(&numbers, dtype)
    }
}

impl T {
    /// Returns a value of the function as a tensor.
    pub fn of_v(cx: &Emitter<'_>, v: V) -> Res<T> {
        T::of(v, &cx.b.type_of(v))
    }
}
