//! Operators that rearrange elements.

use super::blocks::{reshaped, transposed};
use super::{Legal, Row, axis_of, cannot, result_shape, result_shapes};
use crate::declare::{int, ints, text};
use crate::manipulate::may_be_squeezed;
use plugin_api::arith::{product, prove_equal};
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::te::{Te, TeExpr};

pub(super) const ROWS: &[Row] = &[
    ("relax.permute_dims", permute_dims),
    ("relax.expand_dims", expand_dims),
    ("relax.squeeze", squeeze),
    ("relax.reshape", reshape),
    ("relax.flatten", reshape),
    ("relax.broadcast_to", broadcast_to),
    ("relax.concat", concat),
    ("relax.split", split),
    ("relax.stack", stack),
    ("relax.repeat", repeat),
    ("relax.tile", tile),
    ("relax.flip", flip),
    ("relax.reverse_sequence", reverse_sequence),
    ("relax.meshgrid", meshgrid),
    ("relax.nn.batch_flatten", reshape),
    ("relax.nn.pixel_shuffle", pixel_shuffle),
];

fn permute_dims(call: Call<'_>) -> Legal {
    let te = Te::new("transpose", call);
    let x = te.input(0)?;
    let n = x.ndim();
    let axes = ints(call, "axes").unwrap_or_else(|| (0..n as i64).rev().collect());
    let axes: Vec<usize> = axes.into_iter().map(|axis| axis_of(axis, n)).collect();
    let out = transposed(&te, &x, &axes, &result_shape(call)?);
    te.finish(&[out])
}

fn expand_dims(call: Call<'_>) -> Legal {
    let te = Te::new("expand_dims", call);
    te.name_axes("i");
    let x = te.input(0)?;
    let shape = result_shape(call)?;
    let axes = ints(call, "axis").unwrap_or_default();
    let new: Vec<usize> = axes.into_iter().map(|axis| axis_of(axis, shape.len())).collect();
    let old = (0..shape.len()).filter(|axis| !new.contains(axis));
    let out = te.compute("expand_dims", &shape, |i| x.at(old.map(|axis| &i[axis])));
    te.finish(&[out])
}

fn squeeze(call: Call<'_>) -> Legal {
    let te = Te::new("squeeze", call);
    let x = te.input(0)?;
    let n = x.ndim();
    let gone: Vec<usize> = match ints(call, "axis") {
        Some(axes) => {
            let named = axes.into_iter().map(|axis| axis_of(axis, n));
            named.filter(|axis| may_be_squeezed(&x.shape()[*axis])).collect()
        }
        None => (0..n).filter(|axis| x.shape()[*axis].as_int() == Some(1)).collect(),
    };
    let out = te.compute("T_squeeze", &result_shape(call)?, |i| {
        let mut left = i.iter().cloned();
        let zero = TeExpr::of_dim(Dim::Int(0));
        x.at((0..n).map(|axis| match gone.contains(&axis) {
            true => zero.clone(),
            false => left.next().unwrap_or_else(|| zero.clone()),
        }))
    });
    te.finish(&[out])
}

/// Computes `reshape` and `flatten`: elements keep their order.
fn reshape(call: Call<'_>) -> Legal {
    let te = Te::new("reshape", call);
    let x = te.input(0)?;
    let out = reshaped(&te, &x, &result_shape(call)?);
    te.finish(&[out])
}

fn broadcast_to(call: Call<'_>) -> Legal {
    let te = Te::new("broadcast_to", call);
    let x = te.input(0)?;
    let shape = result_shape(call)?;
    let skipped = shape.len().saturating_sub(x.ndim());
    // A symbolic extent that differs from the wanted extent may be 1.
    let may_be_one = |from: &Dim, to: &Dim| from.as_int().is_none() && prove_equal(from, to) != Some(true);
    let out = te.compute("T_broadcast_to", &shape, |i| {
        let mut at = i.to_vec();
        for (axis, from) in x.shape().iter().enumerate().filter(|(axis, from)| may_be_one(from, &shape[axis + skipped]))
        {
            let place = &mut at[axis + skipped];
            let is_one = TeExpr::of_dim(from.clone()).eq(1);
            *place = is_one.if_then_else(TeExpr::int(0, place.dtype()), &*place);
        }
        x.broadcast_at(&at, &shape)
    });
    te.finish(&[out])
}

fn concat(call: Call<'_>) -> Legal {
    let te = Te::new("concatenate", call);
    let parts = te.inputs(0)?;
    let Some(first) = parts.first() else { return cannot("at least one tensor is needed") };
    let axis = axis_of(int(call, "axis").unwrap_or(0), first.ndim());
    let out = te.compute("T_concat", &result_shape(call)?, |i| {
        let (mut start, mut value) = (first.shape()[axis].clone(), first.at(i));
        for part in &parts[1..] {
            let mut index = i.to_vec();
            index[axis] = &i[axis] - &start;
            let reached = match start.as_int() {
                Some(_) => TeExpr::of_dim(start.clone()).le(&i[axis]),
                None => TeExpr::int(0, start.dtype()).le(&index[axis]),
            };
            value = reached.if_then_else(part.at(&index), value);
            start = start + part.shape()[axis].clone();
        }
        value
    });
    te.finish(&[out])
}

fn split(call: Call<'_>) -> Legal {
    let te = Te::new("split", call);
    let x = te.input(0)?;
    // As in TVM, type inference treats a negative cut as 0, but the result cannot be computed.
    if let Some(cut) = ints(call, "indices_or_sections").unwrap_or_default().iter().find(|cut| **cut < 0) {
        return cannot(format!("it splits at {cut}; indices must be 0 or more"));
    }
    let axis = axis_of(int(call, "axis").unwrap_or(0), x.ndim());
    // A single part is not wrapped in a tuple.
    let parts: Vec<Type> = match call.ty().to_owned() {
        Type::Tuple(parts) => parts.to_vec(),
        part => vec![part],
    };
    let sections = call.attr("indices_or_sections").is_some_and(|attr| attr.as_int().is_some());
    let (mut start, mut results) = (Dim::Int(0), Vec::new());
    for part in parts.iter() {
        let Type::Tensor(part) = part else { return cannot("its results are not tensors") };
        let Some(shape) = &part.shape else { return cannot("the shapes of its results are unknown") };
        let name = if sections { "T_split_sections" } else { "T_split" };
        results.push(te.compute(name, shape, |i| {
            let mut index = i.to_vec();
            index[axis] = &i[axis] + &start;
            x.at(&index)
        }));
        start = start + shape[axis].clone();
    }
    te.finish(&results)
}

fn stack(call: Call<'_>) -> Legal {
    let te = Te::new("stack", call);
    let parts = te.inputs(0)?;
    let shape = result_shape(call)?;
    let axis = axis_of(int(call, "axis").unwrap_or(0), shape.len());
    let out = te.compute("T_stack", &shape, |i| {
        let mut index = i.to_vec();
        let number = index.remove(axis);
        let parts = parts.iter().map(|part| part.at(&index)).zip(0i64..);
        let stacked = parts.reduce(|(others, _), (value, k)| (number.eq(k).if_then_else(value, others), k));
        stacked.map_or_else(|| TeExpr::of_dim(Dim::Int(0)), |(value, _)| value)
    });
    te.finish(&[out])
}

fn repeat(call: Call<'_>) -> Legal {
    let te = Te::new("repeat", call);
    let x = te.input(0)?;
    let Some(repeats) = int(call, "repeats") else { return cannot("the number of repeats is missing") };
    let (x, axis) = match int(call, "axis") {
        Some(axis) => (x.clone(), axis_of(axis, x.ndim())),
        None => (reshaped(&te, &x, &[product(x.shape())]), 0),
    };
    let mut shape = x.shape().to_vec();
    shape[axis] = match shape[axis].as_int() {
        Some(_) => shape[axis].clone() * repeats,
        None => Dim::binary(plugin_api::scalar::PrimOp::Mul, Dim::Int(repeats), shape[axis].clone()),
    };
    let out = te.compute("T_repeat", &shape, |i| {
        let mut index = i.to_vec();
        index[axis] = &i[axis] / repeats;
        x.at(&index)
    });
    te.finish(&[out])
}

fn tile(call: Call<'_>) -> Legal {
    let te = Te::new("tile", call);
    let x = te.input(0)?;
    let out = te.compute("T_tile", &result_shape(call)?, |i| {
        x.at(i[i.len() - x.ndim()..].iter().zip(x.shape()).map(|(at, size)| at % size))
    });
    te.finish(&[out])
}

fn flip(call: Call<'_>) -> Legal {
    let te = Te::new("flip", call);
    let x = te.input(0)?;
    let axis = axis_of(int(call, "axis").unwrap_or(0), x.ndim());
    let out = te.compute("T_reverse_sequence", x.shape(), |i| {
        let mut index = i.to_vec();
        index[axis] = TeExpr::of_dim(x.shape()[axis].clone()) - 1 - &i[axis];
        x.at(&index)
    });
    te.finish(&[out])
}

/// Moves channels into pixels: each pixel becomes a square of `factor` by `factor` pixels.
fn pixel_shuffle(call: Call<'_>) -> Legal {
    let te = Te::new("pixel_shuffle", call);
    let x = te.input(0)?;
    let (Some(factor), Some(channel)) = (int(call, "upscale_factor"), x.ndim().checked_sub(3)) else {
        return cannot("the channels or the factor are missing");
    };
    let out = te.compute("pixel_shuffle", &result_shape(call)?, |i| {
        let mut index = i.to_vec();
        let [row, column] = [1, 2].map(|k| &i[channel + k]);
        index[channel] = (&i[channel] * factor + row % factor) * factor + column % factor;
        index[channel + 1] = row / factor;
        index[channel + 2] = column / factor;
        x.at(&index)
    });
    te.finish(&[out])
}

/// Reverses the first elements along an axis; the number of elements depends on the index along the batch axis.
fn reverse_sequence(call: Call<'_>) -> Legal {
    let te = Te::new("reverse_sequence", call);
    let (x, lengths) = (te.input(0)?, te.input(1)?);
    let along = |key: &str, usual: i64| axis_of(int(call, key).unwrap_or(usual), x.ndim());
    let (time, batch) = (along("seq_axis", 1), along("batch_axis", 0));
    let size = TeExpr::of_dim(x.shape()[time].clone()).cast(DType::I64);
    let out = te.compute("T_reverse_sequence", x.shape(), |i| {
        let length = lengths.at([&i[batch]]).cast(DType::I64).min(size);
        let at = i[time].cast(DType::I64);
        let mut index = i.to_vec();
        index[time] = at.lt(&length).select(length - 1 - &at, at).cast(i[time].dtype());
        x.at(&index)
    });
    te.finish(&[out])
}

fn meshgrid(call: Call<'_>) -> Legal {
    let te = Te::new("meshgrid", call);
    let parts = te.inputs(0)?;
    let swaps = text(call, "indexing") == Some("xy");
    let shapes = result_shapes(call)?;
    let grid = |(k, part): (usize, &plugin_api::te::TeTensor)| {
        let axis = if swaps && k < 2 && parts.len() > 1 { 1 - k } else { k };
        let mut shape = shapes[k].clone();
        if swaps && shape.len() > 1 {
            shape[..2].clone_from_slice(&[parts[1].shape()[0].clone(), parts[0].shape()[0].clone()]);
        }
        te.compute("T_meshgrid", &shape, |i| part.at([&i[axis]]))
    };
    let out: Vec<_> = parts.iter().enumerate().map(grid).collect();
    te.finish(&out)
}
