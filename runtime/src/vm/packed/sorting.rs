//! Operators that sort along an axis: `relax.sort`, `relax.argsort` and `relax.topk`. As in TVM, they lack
//! legalizations, because target-specific passes replace them by library calls.

use crate::fault::Fault;
use crate::limits::Limits;
use crate::tensor::Tensor;
use crate::vm::failure::Cause;
use crate::vm::value::Value;
use passhost_lang::ir::Call;
use passhost_lang::scalar::{DType, Element, Number, word_of};
use std::cmp::Ordering;

/// Units of work per sorted element.
pub(super) const SORTED: u64 = 3_000;
/// Bytes per sorted element: the number, and three positions.
pub(super) const SORTED_BYTES: u64 = 16 + 3 * 8;

/// Orders numbers of one data type. NaN is last, and all NaNs are equal.
pub(super) fn order(a: Number, b: Number) -> Ordering {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        (Number::UInt(a), Number::UInt(b)) => a.cmp(&b),
        (a, b) => i64::of(a).cmp(&i64::of(b)),
    }
}

/// Executes a call of one of these operators.
pub(in crate::vm) fn sorted(call: Call<'_>, name: &str, x: &Value, limits: &Limits) -> Result<Value, Cause> {
    let wrong = || Cause::mismatch(format!("the argument of `{name}`"), x.described(), "a tensor");
    let x = x.as_tensor().ok_or_else(wrong)?;
    let flag = |key: &str, usual: bool| call.attr(key).and_then(|flag| flag.as_bool()).unwrap_or(usual);
    let is_topk = name == "relax.topk";
    let descending = if is_topk { flag("largest", true) } else { flag("descending", false) };
    let rows = Rows::new(x, call.attr("axis").and_then(|axis| axis.as_int()).unwrap_or(-1), descending, limits)?;
    let dtype = call.attr("dtype").and_then(|dtype| dtype.as_dtype()).filter(|dtype| dtype.is_known());
    let (values, indices) = match (name, call.attr("ret_type").and_then(|which| which.as_str())) {
        ("relax.sort", _) | (_, Some("values")) => (true, false),
        ("relax.argsort", _) | (_, Some("indices")) => (false, true),
        _ => (true, true),
    };
    let k = call.attr("k").map_or(Some(1), |k| k.as_int()).filter(|_| is_topk);
    // If `k` is less than 1 or exceeds the number of elements, all elements are returned.
    let k = k.and_then(|k| usize::try_from(k).ok()).filter(|k| (1..rows.extent).contains(k)).unwrap_or(rows.extent);
    let mut results = Vec::new();
    if values {
        results.push(Value::Tensor(rows.values(k, limits)?));
    }
    if indices {
        results.push(Value::Tensor(rows.indices(k, dtype.unwrap_or(DType::I32), limits)?));
    }
    if results.len() == 1 { Ok(results.swap_remove(0)) } else { Value::tuple(results) }
}

/// A tensor and the sorted order of each of its rows along an axis.
struct Rows<'t> {
    x: &'t Tensor,
    axis: usize,
    extent: usize,
    /// Distance between successive elements of a row.
    inner: usize,
    /// The positions of the elements in sorted order, row by row.
    places: Vec<usize>,
}

impl<'t> Rows<'t> {
    /// Sorts the rows. The sort is stable; NaN is last.
    fn new(x: &'t Tensor, axis: i64, descending: bool, limits: &Limits) -> Result<Rows<'t>, Cause> {
        let ndim = x.shape().len() as i64;
        let axis = if axis < 0 { axis + ndim } else { axis };
        let Some(extent) = usize::try_from(axis).ok().and_then(|axis| x.shape().get(axis)) else {
            return Err(Cause::mismatch("the axis", axis.to_string(), format!("one of {ndim} axes")));
        };
        let (axis, extent) = (axis as usize, *extent as usize);
        limits.work(SORTED.saturating_mul(x.len() as u64))?;
        let _room = limits.memory((x.len() as u64).saturating_mul(SORTED_BYTES))?;
        let numbers: Vec<Number> = x.numbers().collect();
        if numbers.len() < x.len() {
            return Err(Fault::numbers_of(x.dtype()).into());
        }
        // If the tensor is empty, the other extents may have any value, so their product is not computed.
        let inner = if x.is_empty() { 0 } else { x.shape()[axis + 1..].iter().product::<i64>() as usize };
        let mut places = Vec::with_capacity(numbers.len());
        for first in (0..numbers.len()).filter(|at| at / inner % extent == 0) {
            let number = |place: &usize| numbers[first + place * inner];
            let mut row: Vec<usize> = (0..extent).collect();
            row.sort_by(|a, b| match (number(a), number(b)) {
                (a, b) if descending && !is_nan(a) && !is_nan(b) => order(b, a),
                (a, b) => order(a, b),
            });
            places.extend(row);
        }
        Ok(Rows { x, axis, extent, inner, places })
    }

    /// Builds a tensor from the first `k` elements of each row; `element` writes an element, given its position in
    /// `x` and in the row.
    fn made(
        &self,
        k: usize,
        dtype: DType,
        limits: &Limits,
        element: impl Fn(&mut [u8], usize, usize),
    ) -> Result<Tensor, Cause> {
        let mut shape = self.x.shape().to_vec();
        shape[self.axis] = k as i64;
        let mut out = Tensor::zeros(dtype, &shape, limits)?;
        for (at, bytes) in out.bytes_mut().chunks_exact_mut(dtype.bytes().max(1)).enumerate() {
            let (outer, j, inner) = (at / (self.inner * k), at / self.inner % k, at % self.inner);
            let place = self.places[(outer * self.inner + inner) * self.extent + j];
            element(bytes, (outer * self.extent + place) * self.inner + inner, place);
        }
        Ok(out)
    }

    fn values(&self, k: usize, limits: &Limits) -> Result<Tensor, Cause> {
        let width = self.x.dtype().bytes();
        self.made(k, self.x.dtype(), limits, |to, from, _| to.copy_from_slice(&self.x.bytes()[from * width..][..width]))
    }

    fn indices(&self, k: usize, dtype: DType, limits: &Limits) -> Result<Tensor, Cause> {
        if word_of(dtype, Number::Int(0)).is_none() {
            return Err(Fault::numbers_of(dtype).into());
        }
        self.made(k, dtype, limits, |to, _, place| {
            if let Some((word, width)) = word_of(dtype, Number::Int(place as i64)) {
                to.copy_from_slice(&word.to_le_bytes()[..width]);
            }
        })
    }
}

fn is_nan(number: Number) -> bool {
    matches!(number, Number::Float(value) if value.is_nan())
}
