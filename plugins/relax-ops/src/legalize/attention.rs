//! Attention.

use super::blocks::{map, math, reshaped, transposed, with};
use super::reduce::reduce;
use super::{Legal, Row, cannot, float_attr};
use crate::declare::text;
use plugin_api::arith::{prove_equal, simplify};
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Note, Te, TeExpr, TeTensor};
use plugin_api::typing::operators::InferError;

pub(super) const ROWS: &[Row] = &[
    ("relax.nn.attention", |call| attention(call, "attention")),
    ("relax.nn.attention_bias", |call| attention(call, "attention_bias")),
    ("relax.nn.attention_var_len", var_len),
];

/// Reshapes a tensor from (batch, position, head, depth) to (batch and head, position, depth).
fn heads(te: &Te<'_>, x: &TeTensor) -> TeTensor {
    let [batch, places, heads, depth] = [0, 1, 2, 3].map(|axis| x.shape()[axis].clone());
    let shape = [batch.clone(), heads.clone(), places.clone(), depth.clone()];
    let x = transposed(te, x, &[0, 2, 1, 3], &shape);
    reshaped(te, &x, &[batch * heads, places, depth])
}

/// Multiplies batches of matrices, the second operand transposed or not. Each matrix of the second operand is shared by
/// `group` consecutive matrices of the first.
fn batch_matmul(te: &Te<'_>, name: &str, a: &TeTensor, b: &TeTensor, group: &Dim, is_transposed: bool) -> TeTensor {
    let columns = if is_transposed { 1 } else { 2 };
    let k = te.reduce_axis("k", &a.shape()[2]);
    let shape = [a.shape()[0].clone(), a.shape()[1].clone(), b.shape()[columns].clone()];
    let notes = [("layout_free_placeholders", Note::Tensors(vec![b.clone()]))];
    te.compute_with(name, &shape, &notes, |i| {
        let of = &i[0] / group;
        let second = if is_transposed { b.at([&of, &i[2], &k]) } else { b.at([&of, &k, &i[2]]) };
        (a.at([&i[0], &i[1], &k]) * second).sum(&[&k])
    })
}

/// The positions that a query sees: the positions up to its own, and a number of later positions.
enum Seen {
    Beyond(Dim),
    /// The absolute difference of these two numbers.
    Difference(Dim, Dim),
}

impl Seen {
    fn difference(a: Dim, b: Dim) -> Seen {
        match simplify(&(a.clone() - b.clone())).as_int() {
            Some(difference) => Seen::Beyond(Dim::Int(difference.abs())),
            None => Seen::Difference(a, b),
        }
    }

    /// Returns the condition under which `place` sees `other`, in the form that TVM uses.
    fn sees(&self, place: &TeExpr, other: &TeExpr) -> TeExpr {
        let (a, b) = match self {
            Seen::Beyond(offset) => return other.le(place + offset),
            Seen::Difference(a, b) => (a, b),
        };
        let is_more = match a.as_int().or(b.as_int()) {
            Some(_) => TeExpr::of_dim(b.clone()).le(TeExpr::of_dim(a.clone())),
            None => TeExpr::of_dim(Dim::Int(0)).le(TeExpr::of_dim(simplify(&(a.clone() - b.clone())))),
        };
        let differences = [(a, b), (b, a)].map(|(a, b)| TeExpr::of_dim(simplify(&(a.clone() - b.clone()))));
        let [more, fewer] = differences;
        (other - is_more.select(more, fewer)).le(place)
    }
}

/// Sets hidden elements to zero.
fn lower(te: &Te<'_>, x: &TeTensor, seen: &Seen) -> TeTensor {
    te.name_axes("i");
    let out = te.compute("trilu", x.shape(), |i| seen.sees(&i[1], &i[2]).select(x.at(i), 0));
    te.name_axes("ax");
    out
}

/// Computes the softmax over the last axis.
fn softmax(te: &Te<'_>, x: &TeTensor) -> TeTensor {
    te.name_axes("i");
    let rows = &x.shape()[..2];
    let k = te.reduce_axis("k", &x.shape()[2]);
    let largest = te.compute("T_softmax_maxelem", rows, |i| x.at([&i[0], &i[1], &k]).largest(&[&k]));
    let exp = te.compute("T_softmax_exp", x.shape(), |i| (x.at(i) - largest.at(&i[..2])).math("exp"));
    let k = te.reduce_axis("k", &x.shape()[2]);
    let sum = te.compute("T_softmax_expsum", rows, |i| exp.at([&i[0], &i[1], &k]).sum(&[&k]));
    let notes = [("axis", plugin_api::ir::Attr::Int(2).into())];
    let out = te.compute_with("T_softmax_norm", x.shape(), &notes, |i| exp.at(i) / sum.at(&i[..2]));
    te.name_axes("ax");
    out
}

/// Computes the softmax over the visible elements of the last axis.
fn masked(te: &Te<'_>, x: &TeTensor, seen: &Seen) -> TeTensor {
    let x = lower(te, x, seen);
    let largest = reduce(te, "trilu_red", &x, &[2], true, TeExpr::largest);
    let exp = math(te, &with(te, "T_subtract", &x, &largest, |x, largest| x - largest), "exp");
    let exp = lower(te, &exp, seen);
    let sum = reduce(te, "trilu_red", &exp, &[2], true, TeExpr::sum);
    with(te, "T_divide", &exp, &sum, |exp, sum| exp / sum)
}

/// Returns the number of consecutive query heads that share one key head.
fn group_of(queries: &Dim, keys: &Dim) -> Option<Dim> {
    match (queries.as_int(), keys.as_int()) {
        _ if prove_equal(queries, keys) == Some(true) => Some(Dim::Int(1)),
        (Some(queries), Some(keys)) if keys > 0 && queries % keys == 0 => Some(Dim::Int(queries / keys)),
        _ => None,
    }
}

fn attention(call: Call<'_>, name: &str) -> Legal {
    let te = Te::new(name, call);
    let (q, k, v) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let bias = if name == "attention_bias" { Some(te.input(3)?) } else { None };
    if [&q, &k, &v].iter().any(|x| x.ndim() != 4) {
        return cannot("its arguments do not have four dimensions");
    }
    if call.attr("window_size").is_some_and(|attr| attr.as_int().is_some()) {
        return cannot("it is legalized only without a window");
    }
    let (places, keys, depth) = (q.shape()[1].clone(), k.shape()[1].clone(), q.shape()[3].clone());
    let out_shape = [0, 2, 1].map(|axis| q.shape()[axis].clone());
    let Some(group) =
        group_of(&q.shape()[2], &k.shape()[2]).filter(|_| prove_equal(&k.shape()[2], &v.shape()[2]) == Some(true))
    else {
        return cannot("its numbers of heads may not match");
    };
    let (queries, dtype) = (heads(&te, &q), q.dtype());
    let mut p = batch_matmul(&te, "T_batch_matmul_NT", &queries, &heads(&te, &k), &group, true);
    p = match float_attr(call, "scale") {
        Some(scale) => map(&te, "T_multiply", &p, |p| p * scale),
        None => map(&te, "T_divide", &p, |p| p / TeExpr::of_dim(depth).cast(dtype).math("sqrt")),
    };
    if let Some(bias) = bias {
        let mut wide = out_shape.to_vec();
        wide.push(keys.clone());
        let flat = p.shape().to_vec();
        let sum = with(&te, "T_add", &reshaped(&te, &p, &wide), &bias, |p, bias| p + bias);
        p = reshaped(&te, &sum, &flat);
    }
    let shares = match text(call, "causal_mask") {
        None => softmax(&te, &p),
        Some("TopLeft") => masked(&te, &p, &Seen::Beyond(Dim::Int(0))),
        Some("BottomRight") => masked(&te, &p, &Seen::difference(places, keys)),
        Some(other) => return cannot(format!("it is not legalized for the mask `{other}`")),
    };
    let out = batch_matmul(&te, "T_batch_matmul_NN", &shares, &heads(&te, &v), &group, false);
    let width = v.shape()[3].clone();
    let mut wide = out_shape.to_vec();
    wide.push(width.clone());
    let out = reshaped(&te, &out, &wide);
    let [batch, heads, places] = out_shape;
    let out = transposed(&te, &out, &[0, 2, 1, 3], &[batch, places, heads, width]);
    te.finish(&[out])
}

/// Positions of queries or keys in sequences of various lengths, one after the other.
struct Sequences {
    /// The starts of all sequences, and the end of the last.
    starts: TeTensor,
    /// The index of the sequence that contains each position.
    of: TeTensor,
}

impl Sequences {
    fn new(te: &Te<'_>, starts: &TeTensor, places: &Dim) -> Sequences {
        let count = starts.shape()[0].clone() - 1;
        let k = te.reduce_axis("k", &count);
        let of = te.compute("sequence", std::slice::from_ref(places), |i| {
            starts.at([&k + 1]).cast(DType::I64).le(i[0].cast(DType::I64)).cast(DType::I64).sum(&[&k])
        });
        Sequences { starts: starts.clone(), of }
    }

    /// Returns the start and the length of sequence `at`.
    fn extent(&self, at: &TeExpr) -> (TeExpr, TeExpr) {
        let start = self.starts.at([at]).cast(DType::I64);
        let end = self.starts.at([at + 1]).cast(DType::I64);
        (start.clone(), end - start)
    }
}

/// Returns the condition under which a key is visible to a query of the same sequence.
fn visible(mask: Option<&str>, sequences: [&Sequences; 2], at: &TeExpr, [query, key]: [&TeExpr; 2]) -> TeExpr {
    let [(first, queries), (start, keys)] = sequences.map(|of| of.extent(at));
    let ahead = key.cast(DType::I64) - start - (query.cast(DType::I64) - first);
    match mask {
        None => TeExpr::int(1, DType::BOOL),
        Some("BottomRight") => ahead.le((&queries - &keys).max(keys - queries)),
        _ => ahead.le(0),
    }
}

/// Refuses unsupported forms of attention with sequences of various lengths.
fn check_var_len(call: Call<'_>, qkv: [&TeTensor; 3], starts: [&TeTensor; 2]) -> Result<(), InferError> {
    if qkv.iter().any(|x| x.ndim() != 4) || qkv[0].shape()[0].as_int() != Some(1) {
        return cannot("its arguments must have four dimensions, the first of length 1");
    }
    if starts.iter().any(|starts| starts.ndim() != 1) {
        return cannot("the starts of its sequences must have one dimension");
    }
    if call.attr("window_size").is_some_and(|attr| attr.as_int().is_some()) {
        return cannot("it is legalized only without a window");
    }
    match text(call, "causal_mask") {
        None | Some("TopLeft" | "BottomRight") => Ok(()),
        Some(other) => {
            cannot(format!("it is legalized only for the masks `TopLeft` and `BottomRight`, found `{other}`"))
        }
    }
}

/// Computes attention of sequences of various lengths. TVM calls CUTLASS for this operator.
fn var_len(call: Call<'_>) -> Legal {
    let te = Te::new("attention_var_len", call);
    let (q, k, v) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let (starts_q, starts_k) = (te.input(3)?, te.input(4)?);
    check_var_len(call, [&q, &k, &v], [&starts_q, &starts_k])?;
    let mask = text(call, "causal_mask");
    let (places, heads, depth) = (q.shape()[1].clone(), q.shape()[2].clone(), q.shape()[3].clone());
    let Some(group) = group_of(&heads, &k.shape()[2]) else { return cannot("its numbers of heads may not match") };
    let (keys, dtype) = (k.shape()[1].clone(), q.dtype());
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let sequences = [Sequences::new(&te, &starts_q, &places), Sequences::new(&te, &starts_k, &keys)];
    let first = |i: [&TeExpr; 3]| {
        let [place, head, element] = i.map(TeExpr::clone);
        [TeExpr::of_dim(Dim::Int(0)), place, head, element]
    };
    let h = te.reduce_axis("h", &depth);
    let products = te.compute("products", &[heads.clone(), places.clone(), keys.clone()], |i| {
        let one = q.at(first([&i[1], &i[0], &h])).cast(wide);
        (one * k.at(first([&i[2], &(&i[0] / &group), &h])).cast(wide)).sum(&[&h])
    });
    let last = TeExpr::of_dim(starts_q.shape()[0].clone()).cast(DType::I64) - 1;
    // Minus infinity for a key that is not visible.
    let scores = te.compute("scores", products.shape(), |i| {
        let scaled = match float_attr(call, "scale") {
            Some(scale) => products.at(i) * scale,
            None => products.at(i) / TeExpr::of_dim(depth).cast(wide).math("sqrt"),
        };
        let at = sequences[0].of.at([&i[1]]);
        let same = at.eq(sequences[1].of.at([&i[2]])).and(at.lt(&last));
        let sees = same.if_then_else(
            visible(mask, [&sequences[0], &sequences[1]], &at, [&i[1], &i[2]]),
            TeExpr::int(0, DType::BOOL),
        );
        sees.select(scaled, TeExpr::float(f64::NEG_INFINITY, wide))
    });
    let t = te.reduce_axis("k", &keys);
    let largest = te.compute("largest", &scores.shape()[..2], |i| scores.at([&i[0], &i[1], &t]).largest(&[&t]));
    let exp = te.compute("exp", scores.shape(), |i| (scores.at(i) - largest.at(&i[..2])).math("exp"));
    let t = te.reduce_axis("k", &keys);
    let sum = te.compute("sum", &scores.shape()[..2], |i| exp.at([&i[0], &i[1], &t]).sum(&[&t]));
    let t = te.reduce_axis("k", &keys);
    let wide_shape = [Dim::Int(1), places, heads, v.shape()[3].clone()];
    let out = te.compute("values", &wide_shape, |i| {
        let value = v.at(first([&t, &(&i[2] / &group), &i[3]])).cast(wide);
        let share = exp.at([&i[2], &i[1], &t]);
        share.gt(0.0).if_then_else(&share * value, TeExpr::float(0.0, wide)).sum(&[&t])
    });
    let out = te.compute("attention_var_len", &wide_shape, |i| {
        let sum = sum.at([&i[2], &i[1]]);
        sum.gt(0.0).if_then_else(out.at(i) / &sum, TeExpr::float(0.0, wide)).cast(dtype)
    });
    te.finish(&[out])
}
