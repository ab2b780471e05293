//! The packed functions that passes insert into modules.

use super::Packed;
use super::sorting::{SORTED, SORTED_BYTES, order};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::tensor::Tensor;
use crate::vm::failure::Cause;
use crate::vm::value::Value;
use passhost_lang::ir::DType;
use passhost_lang::ir::constant::{Element, Number};
use std::cmp::Ordering;

/// Units of work per element read.
const READ: u64 = 100;

pub(super) fn add_to(packed: &mut Packed) {
    packed.add("relax.run.shape_to_tensor", shape_to_tensor);
    packed.add("relax.run.unique", unique);
    packed.add("relax.run.nonzero", nonzero);
    packed.add("relax.run.all_class_non_max_suppression", super::boxes::suppressed);
    packed.add("vm.builtin.copy", |args, _| Ok(copied(argument(args, 0)?)));
    packed.add("vm.builtin.to_device", |args, _| Ok(argument(args, 0)?.clone()));
    packed.add("vm.builtin.null_value", |_, _| Ok(Value::Null));
    packed.add("vm.builtin.make_tuple", |args, _| Value::tuple(args.to_vec()));
    packed.add("vm.builtin.tuple_getitem", |args, _| element(args));
    packed.add("vm.builtin.shape_of", |args, _| Ok(Value::shape(tensor(args, 0)?.shape())));
    packed.add("vm.builtin.tensor_to_shape", |args, _| tensor_to_shape(argument(args, 0)?));
    packed.add("vm.builtin.reshape", |args, _| {
        let shape = argument(args, 1)?.as_shape().ok_or_else(|| wrong(args, 1, "a shape"))?;
        Ok(Value::Tensor(tensor(args, 0)?.reshaped(shape)?))
    });
}

pub(super) fn wrong(args: &[Value], i: usize, wanted: &str) -> Cause {
    let found = args.get(i).map_or("missing".to_string(), Value::described);
    Cause::mismatch(format!("argument {i}"), found, wanted)
}

fn argument(args: &[Value], i: usize) -> Result<&Value, Cause> {
    args.get(i).ok_or_else(|| wrong(args, i, "a value"))
}

/// Copies a tensor into its own memory; returns other values unchanged.
fn copied(value: &Value) -> Value {
    value.as_tensor().map_or_else(|| value.clone(), |tensor| Value::Tensor(tensor.copied()))
}

pub(super) fn tensor(args: &[Value], i: usize) -> Result<&Tensor, Cause> {
    argument(args, i)?.as_tensor().ok_or_else(|| wrong(args, i, "a tensor"))
}

fn element(args: &[Value]) -> Result<Value, Cause> {
    let fields = argument(args, 0)?.as_tuple().ok_or_else(|| wrong(args, 0, "a tuple"))?;
    let at = argument(args, 1)?.as_int().and_then(|at| usize::try_from(at).ok());
    at.and_then(|at| fields.get(at)).cloned().ok_or_else(|| wrong(args, 1, "an index of the tuple"))
}

/// Executes `R.memory.view`: returns all or part of the bytes of a tensor as a new tensor.
pub(in crate::vm) fn viewed(args: &[Value]) -> Result<Value, Cause> {
    let of = tensor(args, 0)?;
    let shape = args.get(1).and_then(Value::as_shape).unwrap_or(of.shape());
    let dtype = if let Some(Value::DType(dtype)) = args.get(2) { *dtype } else { of.dtype() };
    let offset = args.get(3).and_then(Value::as_int).unwrap_or(0);
    let beyond = || {
        let wanted = format!("at most its {} bytes", of.nbytes());
        let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
        let found = format!("{dtype} of shape [{}] from byte {offset} on", extents.join(", "));
        Cause::mismatch("a view of a tensor", found, wanted)
    };
    of.viewed(dtype, shape, offset).map(Value::Tensor).ok_or_else(beyond)
}

/// Converts extents to a one-dimensional tensor.
pub(in crate::vm) fn shape_to_tensor(args: &[Value], limits: &Limits) -> Result<Value, Cause> {
    let extents = argument(args, 0)?.as_shape().ok_or_else(|| wrong(args, 0, "a shape"))?;
    integers(&[extents.len() as i64], extents.iter().copied(), limits)
}

/// Converts a one-dimensional tensor to extents.
pub(in crate::vm) fn tensor_to_shape(value: &Value) -> Result<Value, Cause> {
    let wanted = "a tensor of integers of one dimension";
    let wrong = || Cause::mismatch("the argument", value.described(), wanted);
    let tensor = value.as_tensor().filter(|tensor| tensor.shape().len() == 1 && tensor.dtype().is_int());
    let extents: Vec<i64> = tensor.ok_or_else(wrong)?.numbers().map(i64::of).collect();
    Ok(Value::shape(&extents))
}

/// Creates an int64 tensor.
pub(super) fn integers(shape: &[i64], values: impl IntoIterator<Item = i64>, limits: &Limits) -> Result<Value, Cause> {
    let mut out = Tensor::zeros(DType::I64, shape, limits)?;
    for (element, value) in out.bytes_mut().chunks_exact_mut(8).zip(values) {
        element.copy_from_slice(&value.to_le_bytes());
    }
    Ok(Value::Tensor(out))
}

/// Returns the distinct elements of a tensor, or the distinct slices along an axis, sorted or in the order of first
/// occurrence. Depending on flags, also returns the first position of each, the index of the distinct element for
/// each position, and the counts.
fn unique(args: &[Value], limits: &Limits) -> Result<Value, Cause> {
    let x = tensor(args, 0)?;
    let flag = |i: usize| args.get(i).and_then(Value::as_int).is_some_and(|flag| flag != 0);
    let n = x.len() as u64;
    limits.work(SORTED.saturating_mul(n))?;
    let _room = limits.memory(n.saturating_mul(SORTED_BYTES))?;
    let slices = Slices::of(x, args.get(5).and_then(Value::as_int))?;
    let mut groups = slices.groups();
    if !flag(1) {
        groups.order_by_first();
    }
    let n = [groups.firsts.len() as i64];
    let mut fields = vec![Value::Tensor(slices.picked(&groups.firsts, limits)?)];
    if flag(2) {
        fields.push(integers(&n, groups.firsts.iter().map(|first| *first as i64), limits)?);
    }
    if flag(3) {
        fields.push(integers(&[groups.of.len() as i64], groups.of.iter().map(|of| *of as i64), limits)?);
    }
    if flag(4) {
        fields.push(integers(&n, groups.counts.iter().copied(), limits)?);
    }
    match fields.len() {
        1 => Ok(fields.swap_remove(0)),
        _ => Value::tuple(fields),
    }
}

/// A tensor viewed as slices along an axis, or as its elements.
struct Slices<'t> {
    x: &'t Tensor,
    numbers: Vec<Number>,
    /// The shape of a selection; the extent of the axis is the number of selected slices.
    shape: Vec<i64>,
    axis: usize,
    /// Number of separate parts of a slice, number of slices, and number of contiguous elements of a part.
    outer: usize,
    extent: usize,
    inner: usize,
}

impl<'t> Slices<'t> {
    fn of(x: &'t Tensor, axis: Option<i64>) -> Result<Slices<'t>, Cause> {
        let numbers: Vec<Number> = x.numbers().collect();
        if numbers.len() < x.len() {
            return Err(Fault::numbers_of(x.dtype()).into());
        }
        let Some(axis) = axis else {
            let extent = x.len();
            return Ok(Slices { x, numbers, shape: vec![extent as i64], axis: 0, outer: 1, extent, inner: 1 });
        };
        let ndim = x.shape().len() as i64;
        let at = usize::try_from(if axis < 0 { axis + ndim } else { axis }).ok().filter(|at| *at < ndim as usize);
        let Some(axis) = at else {
            return Err(Cause::mismatch("the axis", axis.to_string(), format!("one of {ndim} axes")));
        };
        let product = |dims: &[i64]| dims.iter().product::<i64>() as usize;
        let (before, after) = (product(&x.shape()[..axis]), product(&x.shape()[axis + 1..]));
        let extent = x.shape()[axis] as usize;
        Ok(Slices { x, numbers, shape: x.shape().to_vec(), axis, outer: before, extent, inner: after })
    }

    /// Returns the positions of the elements of a slice, as ranges.
    fn parts(&self, slice: usize) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.outer).map(move |outer| {
            let start = (outer * self.extent + slice) * self.inner;
            start..start + self.inner
        })
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let pairs = self.parts(a).flatten().zip(self.parts(b).flatten());
        let mut orders = pairs.map(|(a, b)| order(self.numbers[a], self.numbers[b]));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Groups equal slices, in sorted order.
    fn groups(&self) -> Groups {
        let mut sorted: Vec<usize> = (0..self.extent).collect();
        // The sort is stable, so the first of equal slices stays first.
        sorted.sort_by(|a, b| self.compare(*a, *b));
        let mut groups = Groups { firsts: Vec::new(), counts: Vec::new(), of: vec![0; self.extent] };
        for at in sorted {
            match groups.firsts.last().zip(groups.counts.last_mut()) {
                Some((first, count)) if self.compare(*first, at).is_eq() => *count += 1,
                _ => {
                    groups.firsts.push(at);
                    groups.counts.push(1);
                }
            }
            groups.of[at] = groups.firsts.len() - 1;
        }
        groups
    }

    /// Returns a tensor that consists of the given slices.
    fn picked(&self, slices: &[usize], limits: &Limits) -> Result<Tensor, Cause> {
        let mut shape = self.shape.clone();
        shape[self.axis] = slices.len() as i64;
        let mut out = Tensor::zeros(self.x.dtype(), &shape, limits)?;
        let width = self.x.dtype().bytes();
        let size = (self.inner * width).max(1);
        for (k, to) in out.bytes_mut().chunks_exact_mut(size).enumerate() {
            let (outer, slice) = (k / slices.len(), slices[k % slices.len()]);
            let from = (outer * self.extent + slice) * self.inner * width;
            to.copy_from_slice(&self.x.bytes()[from..from + size]);
        }
        Ok(out)
    }
}

/// Groups of equal slices.
struct Groups {
    /// The first slice and the size of each group.
    firsts: Vec<usize>,
    counts: Vec<i64>,
    /// The group of each slice.
    of: Vec<usize>,
}

impl Groups {
    /// Sorts the groups by their first slices.
    fn order_by_first(&mut self) {
        let mut order: Vec<usize> = (0..self.firsts.len()).collect();
        order.sort_by_key(|group| self.firsts[*group]);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, group)| place[*group] = at);
        self.firsts = order.iter().map(|group| self.firsts[*group]).collect();
        self.counts = order.iter().map(|group| self.counts[*group]).collect();
        self.of.iter_mut().for_each(|group| *group = place[*group]);
    }
}

/// Returns the indices of nonzero elements, with one row per dimension and one column per element.
fn nonzero(args: &[Value], limits: &Limits) -> Result<Value, Cause> {
    let x = tensor(args, 0)?;
    let (n, n_dims) = (x.len() as u64, x.shape().len() as u64);
    limits.work(READ.saturating_mul(1 + n_dims).saturating_mul(n))?;
    let found = || x.numbers().enumerate().filter(|(_, number)| bool::of(*number)).map(|(at, _)| at);
    let n_found = found().count() as u64;
    let _room = limits.memory(n_found.saturating_mul(8 * (1 + n_dims)))?;
    let found: Vec<usize> = found().collect();
    let mut rows = Vec::with_capacity(found.len() * x.shape().len());
    for axis in 0..x.shape().len() {
        let inner: usize = x.shape()[axis + 1..].iter().map(|extent| *extent as usize).product();
        let extent = x.shape()[axis] as usize;
        rows.extend(found.iter().map(|at| (at / inner % extent) as i64));
    }
    integers(&[x.shape().len() as i64, found.len() as i64], rows, limits)
}
