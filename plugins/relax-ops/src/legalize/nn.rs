//! Matrix products, losses and other neural network operators.

use super::blocks::{map, map2, padded, with};
use super::reduce::reduce;
use super::{Legal, Row, cannot, float_attr, result_shape};
use crate::declare::{int, ints, out_dtype, text};
use crate::linear::Subscripts;
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::scalar::PrimOp;
use plugin_api::te::{Te, TeExpr, TeTensor};
use plugin_api::typing::operators::InferError;
use std::collections::BTreeMap;

pub(super) const ROWS: &[Row] = &[
    ("relax.matmul", matmul),
    ("relax.outer", outer),
    ("relax.einsum", einsum),
    ("relax.nn.pad", pad),
    ("relax.nn.dropout", dropout),
    ("relax.nn.cross_entropy_with_logits", cross_entropy),
    ("relax.nn.nll_loss", nll_loss),
    ("relax.grad.nll_loss_backward", nll_loss_backward),
];

fn matmul(call: Call<'_>) -> Legal {
    let te = Te::new("matmul", call);
    te.name_axes("i");
    let (a, b) = (te.input(0)?, te.input(1)?);
    let (n, m) = (a.ndim(), b.ndim());
    if n == 0 || m == 0 {
        return cannot("an operand must have dimensions");
    }
    let dtype = out_dtype(call, "out_dtype", a.dtype());
    let k = te.reduce_axis("k", &a.shape()[n - 1]);
    let out = te.compute("matmul", &result_shape(call)?, |i| {
        let (rows, columns) = (usize::from(n > 1), usize::from(m > 1));
        let batch = &i[..i.len() - rows - columns];
        let row = i[batch.len()..batch.len() + rows].iter().chain([&k]);
        let column = std::iter::once(&k).chain(&i[batch.len() + rows..]);
        let of = |x: &TeTensor, other: &TeTensor, own: Vec<TeExpr>| {
            let skipped = batch.len() + own.len() - x.ndim();
            let lead = batch[skipped..].iter().zip(x.shape()).enumerate().map(|(k, (at, dim))| {
                let across = (other.ndim() + k).checked_sub(x.ndim()).and_then(|k| other.shape().get(k));
                match dim.as_int() {
                    Some(1) if across.is_some_and(|across| across.as_int() != Some(1)) => TeExpr::of_dim(Dim::Int(0)),
                    _ => at.clone(),
                }
            });
            x.at(lead.chain(own)).cast(dtype)
        };
        (of(&a, &b, row.cloned().collect()) * of(&b, &a, column.cloned().collect())).sum(&[&k])
    });
    te.finish(&[out])
}

fn outer(call: Call<'_>) -> Legal {
    let te = Te::new("outer", call);
    let (a, b) = (te.input(0)?, te.input(1)?);
    let out = te.compute("outer", &result_shape(call)?, |i| a.at([&i[0]]) * b.at([&i[1]]));
    te.finish(&[out])
}

fn einsum(call: Call<'_>) -> Legal {
    let te = Te::new("einsum", call);
    let operands = te.inputs(0)?;
    let ndims: Vec<Option<usize>> = operands.iter().map(|operand| Some(operand.ndim())).collect();
    let Subscripts { inputs, output } = match Subscripts::of_call(call, &ndims) {
        Ok(Some(subscripts)) => subscripts,
        Ok(None) => return cannot("its subscripts must name each axis of its operands"),
        Err(why) => return cannot(why),
    };
    let shape = result_shape(call)?;
    let mut summed: Vec<(char, Dim)> = Vec::new();
    for (name, size) in inputs.iter().flatten().zip(operands.iter().flat_map(|operand| operand.shape())) {
        match summed.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) if known.as_int() == Some(1) => *known = size.clone(),
            None if !output.contains(name) => summed.push((*name, size.clone())),
            _ => {}
        }
    }
    let reduced: Vec<TeExpr> = summed
        .iter()
        .map(|(name, size)| te.reduce_axis(&name.to_string().replace(|c: char| !c.is_ascii(), "k"), size))
        .collect();
    let out = te.compute("T_einsum", &shape, |i| {
        let free = output.iter().zip(&shape).zip(i);
        let axes: BTreeMap<char, (&Dim, &TeExpr)> = free
            .chain(summed.iter().map(|(name, size)| (name, size)).zip(&reduced))
            .map(|((name, size), at)| (*name, (size, at)))
            .collect();
        // An axis of length 1 is broadcast.
        let at = |(name, own): (&char, &Dim)| {
            let (size, at) = axes.get(name)?;
            let repeats = own.as_int() == Some(1) && size.as_int() != Some(1);
            Some(if repeats { TeExpr::of_dim(Dim::Int(0)) } else { (*at).clone() })
        };
        let elements = operands.iter().zip(&inputs);
        let elements = elements.map(|(operand, names)| operand.at(names.iter().zip(operand.shape()).filter_map(at)));
        let product = elements.reduce(|all, one| all * one).unwrap_or_else(|| TeExpr::int(1, DType::I64));
        let over: Vec<&TeExpr> = reduced.iter().collect();
        if over.is_empty() { product } else { product.sum(&over) }
    });
    te.finish(&[out])
}

fn pad(call: Call<'_>) -> Legal {
    let widths = ints(call, "pad_width").unwrap_or_default();
    let value = float_attr(call, "pad_value").unwrap_or(0.0);
    let shape = result_shape(call)?;
    let (name, block) = match text(call, "pad_mode") {
        Some("replicate") => ("replicate_pad", "ReplicatePadInput"),
        Some("reflect") => ("reflect_pad", "ReflectPadInput"),
        Some("circular") => ("circular_pad", "CircularPadInput"),
        Some("constant") | None => ("pad", "PadInput"),
        Some(other) => return cannot(format!("it is not legalized for the mode `{other}`")),
    };
    let te = Te::new(name, call);
    te.name_axes("i");
    let x = te.input(0)?;
    if widths.len() != 2 * x.ndim() {
        return cannot("it needs two widths for each axis");
    }
    let out = if name == "pad" {
        let widths: Vec<(Dim, Dim)> = widths.chunks(2).map(|pad| (Dim::Int(pad[0]), Dim::Int(pad[1]))).collect();
        let value = TeExpr::float(value, DType::F64).cast(x.dtype());
        padded(&te, block, &x, &widths, value)
    } else {
        te.compute(block, &shape, |i| {
            let each = i.iter().zip(x.shape()).zip(widths.chunks(2));
            x.at(each.map(|((at, size), pad)| match name {
                "reflect_pad" if is_wider(size, pad) => reflected(at - pad[0], size),
                "reflect_pad" => {
                    let last = TeExpr::of_dim(size.clone() - 1);
                    let away = TeExpr::int(pad[0], at.dtype())
                        .le(at)
                        .select(at - pad[0], TeExpr::int(pad[0], at.dtype()) - at);
                    let left = away.le(&last).select(&last - &away, &away - &last);
                    last - left
                }
                "replicate_pad" => {
                    let last = TeExpr::of_dim(size.clone() - 1);
                    TeExpr::int(0, at.dtype()).max(last.min(at - pad[0]))
                }
                _ => (at + (TeExpr::of_dim(size.clone()) - pad[0])) % size,
            }))
        })
    };
    te.finish(&[out])
}

/// Returns true if a border is so wide that elements are reflected more than once. TVM then reads outside of the tensor.
fn is_wider(size: &Dim, pad: &[i64]) -> bool {
    size.as_int().is_some_and(|size| pad.iter().any(|width| *width >= size.max(1)))
}

/// Computes the index of an element after reflections at both ends of a dimension.
fn reflected(at: TeExpr, size: &Dim) -> TeExpr {
    let last = size.clone() - 1;
    let there_and_back = TeExpr::of_dim(Dim::binary(PrimOp::Max, last.clone() * 2, Dim::Int(1)));
    let away = at % &there_and_back;
    let back = TeExpr::of_dim(last.clone() * 2) - &away;
    away.le(TeExpr::of_dim(last)).select(away, back)
}

/// Returns the data unchanged, because inference drops nothing.
fn dropout(call: Call<'_>) -> Legal {
    let te = Te::new("dropout", call);
    let x = te.input(0)?;
    te.name_axes("i");
    let same = map(&te, "compute", &x, |x| x);
    te.name_axes("ax");
    let one = TeExpr::int(1, DType::I64).cast(x.dtype());
    let mask = map(&te, "T_full_like", &x, |_| one);
    te.finish(&[same, mask])
}

fn cross_entropy(call: Call<'_>) -> Legal {
    let te = Te::new("cross_entropy_with_logits", call);
    let (x, y) = (te.input(0)?, te.input(1)?);
    let product = map2(&te, "T_multiply", &x, &y, |x, y| x * y);
    let axes: Vec<usize> = (0..x.ndim()).collect();
    let sum = reduce(&te, "T_multiply_red", &product, &axes, false, TeExpr::sum);
    let mut out = map(&te, "T_multiply", &sum, |sum| -sum);
    if x.ndim() > 1 {
        let batch = TeExpr::of_dim(x.shape()[0].clone()).cast(x.dtype());
        out = map(&te, "T_divide", &out, |out| out / batch);
    }
    te.finish(&[out])
}

fn nll_loss(call: Call<'_>) -> Legal {
    let weighted = call.arg(2).is_some();
    let te = Te::new(if weighted { "nll_loss" } else { "nll_loss_without_weight" }, call);
    let (x, targets) = (te.input(0)?, te.input(1)?);
    let weights = class_weights(&te, weighted.then_some(2), &x)?;
    let ignored = int(call, "ignore_index").unwrap_or(-100);
    let zero = || TeExpr::int(0, DType::I64).cast(x.dtype());
    let loss = te.compute("nll_loss", targets.shape(), |i| {
        let class = targets.at(i);
        let mut index = i.to_vec();
        index.insert(usize::from(x.ndim() > 1), class.clone());
        class.ne(ignored).select((zero() - x.at(&index)) * weights.at([&class]), zero())
    });
    let all: Vec<usize> = (0..targets.ndim()).collect();
    let total = |name: &str, x: &TeTensor| match all.is_empty() {
        true => x.clone(),
        false => reduce(&te, name, x, &all, false, TeExpr::sum),
    };
    let out = match text(call, "reduction") {
        Some("none") => loss,
        Some("sum") => total("nll_loss_red", &loss),
        _ => {
            let counted = te.compute("nll_loss", targets.shape(), |i| {
                let class = targets.at(i);
                class.ne(ignored).select(weights.at([&class]), zero())
            });
            let sum = total("nll_loss_red", &loss);
            map2(&te, "T_divide", &sum, &total("nll_loss_red", &counted), |a, b| a / b)
        }
    };
    te.finish(&[out])
}

/// Returns the weight of each class: an argument, or 1.
fn class_weights(te: &Te<'_>, arg: Option<usize>, x: &TeTensor) -> Result<TeTensor, InferError> {
    if let Some(arg) = arg {
        return te.input(arg);
    }
    let classes = x.shape().get(usize::from(x.ndim() > 1)).cloned().unwrap_or(Dim::Int(1));
    let one = TeExpr::int(1, DType::I64).cast(x.dtype());
    Ok(te.compute("T_full", &[classes], |_| one))
}

/// Computes the gradient from the weights of the targets; ignored classes have gradient 0.
fn nll_loss_backward(call: Call<'_>) -> Legal {
    let weighted = call.arg(3).is_some();
    let te = Te::new(if weighted { "nll_loss_backward" } else { "te_nll_loss_backward_no_weight" }, call);
    let (mut gradient, x, targets) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let mut weights = class_weights(&te, weighted.then_some(3), &x)?;
    let zero = || TeExpr::int(0, DType::I64).cast(x.dtype());
    te.name_axes("i");
    if let Some(ignored) = int(call, "ignore_index").filter(|ignored| *ignored >= 0) {
        weights = te.compute("weights_new", weights.shape(), |i| i[0].eq(ignored).select(zero(), weights.at(i)));
    }
    let each = te.compute("all_weights", targets.shape(), |i| weights.at([targets.at(i)]));
    te.name_axes("ax");
    let reduction = text(call, "reduction").unwrap_or("mean");
    if reduction != "none" {
        let shape = targets.shape();
        gradient = te.compute("T_broadcast_to", shape, |i| gradient.broadcast_at(i, shape));
    }
    if reduction == "mean" {
        let all: Vec<usize> = (0..each.ndim()).collect();
        let sum =
            if all.is_empty() { each.clone() } else { reduce(&te, "all_weights_red", &each, &all, false, TeExpr::sum) };
        gradient = with(&te, "T_divide", &gradient, &sum, |gradient, sum| gradient / sum);
    }
    te.name_axes("i");
    let out = te.compute("pred_grad", x.shape(), |i| {
        let mut index = i.to_vec();
        let class = index.remove(usize::from(x.ndim() > 1));
        let is_target = class.eq(targets.at(&index).cast(class.dtype()));
        is_target.select(-each.at(&index) * gradient.at(&index), zero())
    });
    te.finish(&[out])
}
