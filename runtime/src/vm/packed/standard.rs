//! The packed functions that passes write into modules.

use super::Packed;
use super::sorting::{SORTED, SORTED_BYTES, order};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::tensor::Tensor;
use crate::vm::failure::Cause;
use crate::vm::value::Value;
use plugin_api::ir::constant::{Element, Number};
use plugin_api::prelude::DType;

/// Units of work for an element that is read.
const READ: u64 = 100;

pub(super) fn add_to(packed: &mut Packed) {
    packed.add("relax.run.shape_to_tensor", shape_to_tensor);
    packed.add("relax.run.unique", unique);
    packed.add("relax.run.nonzero", nonzero);
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

fn wrong(args: &[Value], i: usize, wanted: &str) -> Cause {
    let found = args.get(i).map_or("missing".to_string(), Value::described);
    Cause::mismatch(format!("argument {i}"), found, wanted)
}

fn argument(args: &[Value], i: usize) -> Result<&Value, Cause> {
    args.get(i).ok_or_else(|| wrong(args, i, "a value"))
}

/// A tensor in memory of its own; any other value as it is.
fn copied(value: &Value) -> Value {
    value.as_tensor().map_or_else(|| value.clone(), |tensor| Value::Tensor(tensor.copied()))
}

fn tensor(args: &[Value], i: usize) -> Result<&Tensor, Cause> {
    argument(args, i)?.as_tensor().ok_or_else(|| wrong(args, i, "a tensor"))
}

fn element(args: &[Value]) -> Result<Value, Cause> {
    let fields = argument(args, 0)?.as_tuple().ok_or_else(|| wrong(args, 0, "a tuple"))?;
    let at = argument(args, 1)?.as_int().and_then(|at| usize::try_from(at).ok());
    at.and_then(|at| fields.get(at)).cloned().ok_or_else(|| wrong(args, 1, "an index of the tuple"))
}

/// Extents as a tensor of one dimension.
pub(in crate::vm) fn shape_to_tensor(args: &[Value], limits: &Limits) -> Result<Value, Cause> {
    let extents = argument(args, 0)?.as_shape().ok_or_else(|| wrong(args, 0, "a shape"))?;
    integers(&[extents.len() as i64], extents.iter().copied(), limits)
}

/// A tensor of one dimension as extents.
pub(in crate::vm) fn tensor_to_shape(value: &Value) -> Result<Value, Cause> {
    let wanted = "a tensor of integers of one dimension";
    let wrong = || Cause::mismatch("the argument", value.described(), wanted);
    let tensor = value.as_tensor().filter(|tensor| tensor.shape().len() == 1 && tensor.dtype().is_int());
    let extents: Vec<i64> = tensor.ok_or_else(wrong)?.numbers().map(i64::of).collect();
    Ok(Value::shape(&extents))
}

/// A tensor of int64.
fn integers(shape: &[i64], values: impl IntoIterator<Item = i64>, limits: &Limits) -> Result<Value, Cause> {
    let mut out = Tensor::zeros(DType::I64, shape, limits)?;
    for (element, value) in out.bytes_mut().chunks_exact_mut(8).zip(values) {
        element.copy_from_slice(&value.to_le_bytes());
    }
    Ok(Value::Tensor(out))
}

/// The different elements of a tensor, and as flags say where each is first, which one each element is, and how many
/// there are of each.
fn unique(args: &[Value], limits: &Limits) -> Result<Value, Cause> {
    let x = tensor(args, 0)?;
    let flag = |i: usize| args.get(i).and_then(Value::as_int).is_some_and(|flag| flag != 0);
    if args.get(5).is_some_and(|axis| axis.as_int().is_some()) && x.shape().len() != 1 {
        return Err(Fault::unsupported("`relax.unique` along an axis of several").into());
    }
    let n = x.len() as u64;
    limits.work(SORTED.saturating_mul(n))?;
    let _room = limits.memory(n.saturating_mul(SORTED_BYTES))?;
    let numbers: Vec<Number> = x.numbers().collect();
    let mut sorted: Vec<usize> = (0..numbers.len()).collect();
    sorted.sort_by(|a, b| order(numbers[*a], numbers[*b]));
    // For each different element the position of its first one, and how many there are.
    let mut groups: Vec<(usize, i64)> = Vec::new();
    let mut group_of = vec![0i64; numbers.len()];
    for at in sorted {
        match groups.last_mut().filter(|(first, _)| order(numbers[*first], numbers[at]).is_eq()) {
            Some((_, count)) => *count += 1,
            None => groups.push((at, 1)),
        }
        group_of[at] = groups.len() as i64 - 1;
    }
    let n = [groups.len() as i64];
    let mut out = Tensor::zeros(x.dtype(), &n, limits)?;
    let width = x.dtype().bytes();
    for (to, (first, _)) in out.bytes_mut().chunks_exact_mut(width.max(1)).zip(&groups) {
        to.copy_from_slice(&x.bytes()[first * width..(first + 1) * width]);
    }
    let mut fields = vec![Value::Tensor(out)];
    if flag(2) {
        fields.push(integers(&n, groups.iter().map(|(first, _)| *first as i64), limits)?);
    }
    if flag(3) {
        fields.push(integers(&[group_of.len() as i64], group_of, limits)?);
    }
    if flag(4) {
        fields.push(integers(&n, groups.iter().map(|(_, count)| *count), limits)?);
    }
    match fields.len() {
        1 => Ok(fields.swap_remove(0)),
        _ => Value::tuple(fields),
    }
}

/// The indices of the elements that are not 0: a row for each dimension, a column for each element.
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
