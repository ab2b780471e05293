//! Operators that change elements at positions given by other tensors.

use super::blocks::{map, raveled, reshaped, unraveled};
use super::{Legal, Row, axis_of, cannot, int_arg, result_shape};
use crate::declare::{broadcast, flag, int, same_shape, text};
use plugin_api::arith::product;
use plugin_api::ir::{Call, DType, Type};
use plugin_api::te::{Te, TeExpr, TeTensor};

pub(super) const ROWS: &[Row] = &[
    ("relax.scatter_elements", scatter_elements),
    ("relax.scatter_nd", scatter_nd),
    ("relax.index_put", index_put),
    ("relax.slice_scatter", slice_scatter),
    ("relax.grad.take_backward", take_backward),
    ("relax.cumsum", |call| cumulated(call, "cumsum", 0, |before, x| before + x)),
    ("relax.cumprod", |call| cumulated(call, "cumprod", 1, |before, x| before * x)),
    ("relax.multinomial_from_uniform", multinomial),
];

/// Combines the current value of an element with an update.
type Update = fn(TeExpr, TeExpr) -> TeExpr;

/// Returns the update that a call specifies.
fn update_of(call: Call<'_>) -> Option<Update> {
    Some(match text(call, "reduction").unwrap_or("update") {
        "update" => |_, new| new,
        "add" => |old, new| old + new,
        "mul" => |old, new| old * new,
        "min" => |old, new| old.min(new),
        "max" => |old, new| old.max(new),
        "mean" => |old, new| halved(old + new),
        _ => return None,
    })
}

/// Halves a sum; integers are rounded towards 0.
fn halved(sum: TeExpr) -> TeExpr {
    if sum.dtype().is_float() { sum / 2.0 } else { sum.trunc_div(2) }
}

/// Returns an axis for each dimension of a tensor.
fn over(te: &Te<'_>, x: &TeTensor) -> Vec<TeExpr> {
    x.shape().iter().enumerate().map(|(axis, size)| te.reduce_axis(&format!("k{axis}"), size)).collect()
}

fn scatter_elements(call: Call<'_>) -> Legal {
    let Some(update) = update_of(call) else { return cannot("it is not legalized for its reduction") };
    let te = Te::new("scatter_elements", call);
    let (x, indices, updates) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let axis = axis_of(int(call, "axis").unwrap_or(0), x.ndim());
    let k = over(&te, &indices);
    let size = TeExpr::of_dim(x.shape()[axis].clone());
    let index = indices.at(&k).cast(size.dtype());
    let mut place = k.clone();
    place[axis] = index.lt(0).select(&index + size, &index);
    let all: Vec<&TeExpr> = k.iter().collect();
    let out = te.scatter("scatter_elements", &x, &all, &place, |old| update(old.at(&place), updates.at(&k)));
    te.finish(&[out])
}

fn scatter_nd(call: Call<'_>) -> Legal {
    let update = update_of(call).filter(|_| text(call, "reduction") != Some("mean"));
    let Some(update) = update else { return cannot("it is not legalized for its reduction") };
    let te = Te::new("scatter_nd", call);
    let (x, indices, updates) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let Some(outer) = indices.ndim().checked_sub(1) else { return cannot("its indices must have dimensions") };
    let Some(depth) = indices.shape()[outer].as_int() else { return cannot("the length of its indices is unknown") };
    let k = over(&te, &updates);
    if k.len() < outer || depth + (k.len() - outer) as i64 != x.ndim() as i64 {
        return cannot("its updates do not match its indices");
    }
    let at = |depth: i64| indices.at(k[..outer].iter().cloned().chain([TeExpr::int(depth, DType::I64)]));
    let place: Vec<TeExpr> = (0..depth).map(at).chain(k[outer..].iter().cloned()).collect();
    let all: Vec<&TeExpr> = k.iter().collect();
    let out = te.scatter("scatter_nd", &x, &all, &place, |old| update(old.at(&place), updates.at(&k)));
    te.finish(&[out])
}

/// Replaces the elements at given positions, or adds to them. Indices and values are broadcast; values of a different shape are
/// taken in order, as in TVM.
fn index_put(call: Call<'_>) -> Legal {
    let te = Te::new("index_put", call);
    let x = te.input(0)?;
    let is_tuple = call.arg(1).is_some_and(|arg| matches!(arg.ty().to_owned(), Type::Tuple(_)));
    let indices = if is_tuple { te.inputs(1)? } else { vec![te.input(1)?] };
    let values = te.input(2)?;
    let shape = indices.iter().try_fold(Vec::new(), |shape, index| broadcast(&shape, index.shape()).ok().flatten());
    let Some(shape) = shape else { return cannot("its indices cannot be broadcast together") };
    if indices.len() != x.ndim() {
        return cannot("it needs an index for each dimension");
    }
    let k: Vec<TeExpr> =
        shape.iter().enumerate().map(|(axis, size)| te.reduce_axis(&format!("k{axis}"), size)).collect();
    let each = indices.iter().zip(x.shape()).map(|(index, size)| {
        let index = index.broadcast_at(&k, &shape).cast(DType::I64);
        index.lt(0).select(&index + TeExpr::of_dim(size.clone()).cast(DType::I64), &index)
    });
    let place: Vec<TeExpr> = each.collect();
    let is_spread = values.ndim() <= shape.len()
        && broadcast(values.shape(), &shape)
            .is_ok_and(|wide| wide.is_some_and(|wide| same_shape(&wide, &shape) == Some(true)));
    let value = match is_spread {
        true => values.broadcast_at(&k, &shape),
        false => values.at(unraveled(raveled(&k, &shape), values.shape())),
    };
    let all: Vec<&TeExpr> = k.iter().collect();
    let adds = flag(call, "accumulate");
    let out = te.scatter("index_put", &x, &all, &place, |old| if adds { old.at(&place) + value } else { value });
    te.finish(&[out])
}

/// Replaces the elements of a slice by the elements of another tensor. An index before the start of the slice is not
/// replaced.
fn slice_scatter(call: Call<'_>) -> Legal {
    let te = Te::new("slice_scatter", call);
    let (x, source) = (te.input(0)?, te.input(1)?);
    let (Some(start), Some(end), Some(step)) = (int_arg(call, 2), int_arg(call, 3), int_arg(call, 4)) else {
        return cannot("start, end or step is not constant");
    };
    if step < 1 || start < 0 {
        return cannot("its slice does not run forward from the start of the axis");
    }
    let axis = axis_of(int(call, "axis").unwrap_or(0), x.ndim());
    let last = TeExpr::of_dim(source.shape()[axis].clone()) - 1;
    let out = te.compute("T_where", &result_shape(call)?, |i| {
        let at = &i[axis];
        let ahead = at - start;
        let inside = TeExpr::int(start, at.dtype()).le(at).and(at.lt(end)).and((&ahead % step).eq(0));
        let mut index = i.to_vec();
        index[axis] = (ahead / step).min(last).max(0);
        inside.if_then_else(source.at(&index), x.at(i))
    });
    te.finish(&[out])
}

/// Computes the gradient of `take`: the gradients of all elements taken from one position are added.
fn take_backward(call: Call<'_>) -> Legal {
    let te = Te::new("take_backward", call);
    let (gradient, x, indices) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let axis = int(call, "axis").map(|axis| axis_of(axis, x.ndim()));
    let first = axis.unwrap_or(0);
    let n = indices.ndim();
    let k = over(&te, &gradient);
    let inner = x.ndim() - axis.map_or(x.ndim(), |axis| axis + 1);
    if k.len() != first + n + inner {
        return cannot("its gradient does not match the shape of the taken elements");
    }
    let index = indices.at(&k[first..first + n]);
    let place = match axis {
        None => unraveled(index.cast(DType::I64), x.shape()),
        Some(axis) => {
            let mut place = k.clone();
            drop(place.splice(axis..axis + n, [index]));
            place
        }
    };
    let zero = TeExpr::int(0, DType::I64).cast(x.dtype());
    let zeros = te.compute("T_full", x.shape(), |_| zero);
    let all: Vec<&TeExpr> = k.iter().collect();
    let out = te.scatter("take_backward", &zeros, &all, &place, |old| old.at(&place) + gradient.at(&k));
    te.finish(&[out])
}

/// Returns for each sample the first index in its row at which the cumulative probability exceeds the sample.
fn multinomial(call: Call<'_>) -> Legal {
    let te = Te::new("multinomial_from_uniform", call);
    let (probabilities, samples, rows) = (te.input(0)?, te.input(1)?, te.input(2)?);
    if probabilities.ndim() != 2 || samples.ndim() != rows.ndim() {
        return cannot("it is legalized for a matrix of probabilities, with one sample per requested row");
    }
    if samples.dtype() != probabilities.dtype() {
        return cannot("its samples and its probabilities have different data types");
    }
    let at = over(&te, &probabilities);
    let start = map(&te, "T_copy", &probabilities, |x| x);
    let sums = te.scatter("cumsum", &start, &[&at[0], &at[1]], &at, |so_far| {
        let before = so_far.at([at[0].clone(), &at[1] - 1]);
        at[1].lt(1).if_then_else(so_far.at(&at), before + so_far.at(&at))
    });
    let size = &probabilities.shape()[1];
    let k = te.reduce_axis("k", size);
    let passed = te.compute("passed", rows.shape(), |i| {
        sums.at([rows.at(i), k.clone()]).le(samples.at(i)).cast(DType::I64).sum(&[&k])
    });
    let last = TeExpr::of_dim(size.clone()).cast(DType::I64) - 1;
    let dtype = call.ty().dtype();
    let out = map(&te, "T_cast", &passed, |passed| passed.min(last).cast(dtype));
    te.finish(&[out])
}

/// Combines each element with all previous elements along an axis, or in flattened order without an axis. With
/// `exclusive`, the element itself is left out.
fn cumulated(call: Call<'_>, name: &str, of_nothing: i64, f: Update) -> Legal {
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let (x, axis) = match int(call, "axis") {
        Some(axis) => (x.clone(), axis_of(axis, x.ndim())),
        None => (reshaped(&te, &x, &[product(x.shape())]), 0),
    };
    let dtype = call.ty().dtype();
    let k = over(&te, &x);
    let mut before = k.clone();
    before[axis] = &k[axis] - 1;
    let first = || TeExpr::int(of_nothing, DType::I64).cast(dtype);
    let exclusive = flag(call, "exclusive");
    let start = map(&te, "T_cast", &x, |x| if exclusive { first() } else { x.cast(dtype) });
    let all: Vec<&TeExpr> = k.iter().collect();
    let out = te.scatter(name, &start, &all, &k, |so_far| {
        let own = if exclusive { x.at(&before).cast(dtype) } else { so_far.at(&k) };
        k[axis].lt(1).if_then_else(so_far.at(&k), f(so_far.at(&before), own))
    });
    te.finish(&[out])
}
