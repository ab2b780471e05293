//! Operators that pick elements.

use super::blocks::{transposed, unraveled};
use super::{Legal, Row, axis_of, cannot, dims, numbers, result_shape};
use crate::declare::{flag, int, text};
use crate::index::bound_within;
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::te::{Te, TeExpr, TeOperand, TeTensor, greatest_value};

pub(super) const ROWS: &[Row] = &[
    ("relax.take", take),
    ("relax.gather_elements", gather_elements),
    ("relax.gather_nd", gather_nd),
    ("relax.index_tensor", index_tensor),
    ("relax.one_hot", one_hot),
    ("relax.strided_slice", strided_slice),
];

fn take(call: Call<'_>) -> Legal {
    let te = Te::new("take", call);
    let x = te.input(0)?;
    // A number is written into the function; a constant becomes an argument.
    let is_number = call.arg(1).is_some_and(|indices| matches!(indices.ty().to_owned(), Type::Prim { .. }));
    let indices = if is_number { te.operand(1)? } else { TeOperand::Tensor(te.input(1)?) };
    if matches!(&indices, TeOperand::Number(number) if number.as_int().is_none()) {
        return cannot("its index is a variable");
    }
    let n = indices.shape().len();
    let axis = int(call, "axis").map(|axis| axis_of(axis, x.ndim()));
    let size = axis.map_or_else(|| plugin_api::arith::product(x.shape()), |axis| x.shape()[axis].clone());
    let last = TeExpr::of_dim(size.clone()) - 1;
    let mode = text(call, "mode").unwrap_or("fast");
    if !["fast", "clip", "wrap", "nan"].contains(&mode) {
        return cannot(format!("it is not legalized for the mode `{mode}`"));
    }
    let out = te.compute("T_take", &result_shape(call)?, |i| {
        let first = axis.unwrap_or(0);
        let given = match &indices {
            TeOperand::Number(number) => number.clone(),
            TeOperand::Tensor(tensor) => tensor.at(&i[first..first + n]),
        };
        let wide = given.cast(size.dtype());
        let at = match mode {
            "clip" if given.dtype().bits() < 32 => clipped(&given, &last),
            "clip" => TeExpr::int(0, wide.dtype()).max(&wide).min(&last),
            "wrap" => (wide.trunc_mod(&size) + &size).trunc_mod(&size),
            // A number gets the type of the extents, whatever its type in the call. Elements of a tensor keep their
            // type.
            _ if is_number => wide.clone(),
            _ => given,
        };
        let value = match axis {
            None => x.at(unraveled(at.cast(size.dtype()), x.shape())),
            Some(axis) => {
                let mut index = i.to_vec();
                drop(index.splice(axis..axis + n, [at]));
                x.at(&index)
            }
        };
        match mode {
            "nan" => {
                let inside = TeExpr::int(0, wide.dtype()).le(&wide).and(wide.lt(&size));
                inside.if_then_else(value, TeExpr::float(f64::NAN, x.dtype()))
            }
            _ => value,
        }
    });
    te.finish(&[out])
}

/// Clamps an index to 0 … `last` if its data type has larger values.
fn clipped(index: &TeExpr, last: &TeExpr) -> TeExpr {
    let at_least = TeExpr::int(0, index.dtype()).max(index).cast(last.dtype());
    let greatest = greatest_value(index.dtype()).as_int();
    match greatest.zip(last.as_int()).is_some_and(|(greatest, last)| greatest <= last) {
        true => at_least,
        false => at_least.min(last),
    }
}

fn gather_elements(call: Call<'_>) -> Legal {
    let te = Te::new("gather", call);
    let (x, indices) = (te.input(0)?, te.input(1)?);
    let axis = axis_of(int(call, "axis").unwrap_or(0), x.ndim());
    let out = te.compute("T_gather", &result_shape(call)?, |i| {
        let mut index = i.to_vec();
        index[axis] = indices.at(i);
        x.at(&index)
    });
    te.finish(&[out])
}

fn gather_nd(call: Call<'_>) -> Legal {
    let te = Te::new("te_gather_nd", call);
    let (x, indices) = (te.input(0)?, te.input(1)?);
    let Some(last) = indices.ndim().checked_sub(1) else { return cannot("its indices must have dimensions") };
    let Some(depth) = indices.shape()[last].as_int() else { return cannot("the length of its indices is unknown") };
    let batch = int(call, "batch_dims").unwrap_or(0) as usize;
    let axes: Vec<usize> = [last].into_iter().chain(0..last).collect();
    let shape: Vec<Dim> = axes.iter().map(|axis| indices.shape()[*axis].clone()).collect();
    let indices = transposed(&te, &indices, &axes, &shape);
    let out = te.compute("T_gather_nd", &result_shape(call)?, |i| {
        let (outer, inner) = i.split_at(last);
        let at = |k: i64| indices.at([TeExpr::int(k, DType::I64)].into_iter().chain(outer.iter().cloned()));
        let of_batch = outer[..batch.min(last)].iter().cloned();
        x.at(of_batch.chain((0..depth).map(at)).chain(inner.iter().cloned()))
    });
    te.finish(&[out])
}

/// Computes `index_tensor`. The indices are broadcast to one shape, whose axes come first, followed by the unindexed
/// axes of the data.
fn index_tensor(call: Call<'_>) -> Legal {
    let te = Te::new("index_tensor", call);
    let (x, indices) = (te.input(0)?, te.taken_inputs(1)?);
    let shape = result_shape(call)?;
    let Some(ndim) = (shape.len() + indices.len()).checked_sub(x.ndim()).filter(|ndim| *ndim <= shape.len()) else {
        return cannot("its indices do not match its shape");
    };
    let of = &shape[..ndim];
    let wide = |index: &TeTensor| te.compute("T_broadcast_to", of, |i| index.broadcast_at(i, of));
    let indices: Vec<TeTensor> = if indices.len() > 1 { indices.iter().map(wide).collect() } else { indices };
    let out = te.compute("advanced_index", &shape, |i| {
        let (outer, inner) = i.split_at(ndim);
        x.at(indices.iter().map(|index| index.at(outer)).chain(inner.iter().cloned()))
    });
    te.finish(&[out])
}

fn one_hot(call: Call<'_>) -> Legal {
    let te = Te::new("one_hot", call);
    let indices = te.input(0)?;
    let (TeOperand::Number(on), TeOperand::Number(off)) = (te.operand(1)?, te.operand(2)?) else {
        return cannot("its values are not numbers");
    };
    let shape = result_shape(call)?;
    let axis = int(call, "axis").filter(|axis| *axis != -1).map_or(indices.ndim(), |axis| axis_of(axis, shape.len()));
    let out = te.compute("T_one_hot", &shape, |i| {
        let mut index = i.to_vec();
        let class = index.remove(axis);
        indices.at(&index).cast(class.dtype()).eq(class).select(on, off)
    });
    te.finish(&[out])
}

/// Returns the index of the first element of a slice along an axis of this size.
fn first_of_slice(size: &Dim, begin: &Dim, forward: bool, inbound: bool) -> TeExpr {
    match (size.as_int(), begin.as_int()) {
        (Some(size), Some(begin)) => {
            let from = if begin < 0 { begin + size } else { begin };
            let from = if forward { from.clamp(0, size) } else { from.clamp(-1, size - 1) };
            TeExpr::of_dim(Dim::Int(from))
        }
        (None, Some(from @ 0..)) if forward => match from == 0 || inbound {
            true => TeExpr::of_dim(Dim::Int(from)),
            false => TeExpr::of_dim(Dim::Int(from)).min(size),
        },
        (None, Some(begin)) => {
            let (low, high) = if forward { (0, 0) } else { (-1, -1) };
            let from = if begin < 0 { TeExpr::of_dim(size.clone()) + begin } else { TeExpr::int(begin, size.dtype()) };
            from.min(TeExpr::of_dim(size.clone()) + high).max(low)
        }
        (_, None) if inbound => TeExpr::of_dim(begin.clone()),
        (_, None) => TeExpr::of_dim(bound_within(begin, size, forward)),
    }
}

fn strided_slice(call: Call<'_>) -> Legal {
    let te = Te::new("strided_slice", call);
    let x = te.input(0)?;
    let axes: Vec<usize> = numbers(call, 1)?.into_iter().map(|axis| axis_of(axis, x.ndim())).collect();
    let begin = dims(call, 2)?;
    let strides = if call.arg(4).is_some() { numbers(call, 4)? } else { vec![1; axes.len()] };
    let unsized_axis = axes.iter().any(|axis| x.shape()[*axis].as_int().is_none());
    let inbound = flag(call, "assume_inbound");
    let mut first = Vec::new();
    for ((axis, begin), stride) in axes.iter().zip(&begin).zip(&strides) {
        first.push(first_of_slice(&x.shape()[*axis], begin, *stride > 0, inbound));
    }
    let name = if unsized_axis { "T_dynamic_strided_slice_with_axes" } else { "T_strided_slice_with_axes" };
    let out = te.compute(name, &result_shape(call)?, |i| {
        let mut index = i.to_vec();
        for ((axis, first), stride) in axes.iter().zip(&first).zip(&strides) {
            index[*axis] = first + &i[*axis] * *stride;
        }
        x.at(&index)
    });
    te.finish(&[out])
}
