//! Boxes with scores.

use super::super::{Legal, float_attr, number_of};
use super::{at, number};
use crate::declare::{flag, int};
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr, TeTensor};

/// Moves the valid elements of each row to its front, and sets the other elements to -1. For a batch and a position, `valid`
/// returns true if the element is valid, and `value` returns its value. Also returns the number of valid elements of each row.
pub(super) fn packed(
    te: &Te<'_>,
    shape: &[Dim],
    valid: &dyn Fn(&TeExpr, &TeExpr) -> TeExpr,
    value: &dyn Fn(&TeExpr, &TeExpr) -> TeExpr,
) -> [TeTensor; 2] {
    let [batch, n] = [0, 1].map(|axis| shape[axis].clone());
    let (b, k) = (te.reduce_axis("b", &batch), te.reduce_axis("k", &n));
    let zeros = te.compute("zeros", std::slice::from_ref(&batch), |_| TeExpr::int(0, DType::I32));
    let step = |so_far: TeExpr| so_far + valid(&b, &k).cast(DType::I32);
    let places = te.compute("places", shape, |_| TeExpr::int(0, DType::I32));
    // The number of valid elements up to each element.
    let places = te.scatter("places", &places, &[&b, &k], &[b.clone(), k.clone()], |all| {
        let before = k.eq(0).if_then_else(TeExpr::int(0, DType::I32), all.at([b.clone(), &k - 1]));
        step(before)
    });
    let counts = te.scatter("counts", &zeros, &[&b, &k], std::slice::from_ref(&b), |all| step(all.at([&b])));
    let nothing = te.compute("nothing", shape, |_| TeExpr::int(-1, DType::I32));
    let place = [b.clone(), (places.at([&b, &k]) - 1).max(0).cast(k.dtype())];
    let out = te.scatter("packed", &nothing, &[&b, &k], &place, |all| {
        valid(&b, &k).if_then_else(value(&b, &k), all.at(&place))
    });
    [out, counts]
}

/// Returns the rows of the data at the given positions; -1 for a negative position.
pub(super) fn rows(te: &Te<'_>, name: &str, x: &TeTensor, positions: &TeTensor) -> TeTensor {
    te.compute(name, x.shape(), |i| {
        let from = positions.at(&i[..2]);
        let value = x.at([i[0].clone(), from.cast(DType::I64), i[2].clone()]);
        from.ge(0).if_then_else(value, TeExpr::int(-1, DType::I64).cast(x.dtype()))
    })
}

pub(super) fn valid_counts(call: Call<'_>) -> Legal {
    let te = Te::new("get_valid_counts", call);
    let x = te.input(0)?;
    let (score, id) = (int(call, "score_index").unwrap_or(1), int(call, "id_index").unwrap_or(0));
    let threshold = number(float_attr(call, "score_threshold").unwrap_or(0.0), x.dtype());
    let valid = |b: &TeExpr, k: &TeExpr| {
        let part = |of: i64| x.at([b.clone(), k.clone(), at(of)]);
        let passes = part(score).gt(&threshold);
        if id < 0 { passes } else { passes.and(part(id).ge(TeExpr::int(0, DType::I64).cast(x.dtype()))) }
    };
    let [indices, counts] = packed(&te, &x.shape()[..2], &valid, &|_, k| k.cast(DType::I32));
    let out = rows(&te, "out_tensor", &x, &indices);
    te.finish(&[counts, out, indices])
}

/// Computes the softmax over the classes.
fn softmax(te: &Te<'_>, x: &TeTensor) -> TeTensor {
    let without = [x.shape()[0].clone(), x.shape()[2].clone()];
    let [k, j] = ["k", "j"].map(|name| te.reduce_axis(name, &x.shape()[1]));
    let largest = te.compute("T_softmax_maxelem", &without, |i| x.at([&i[0], &k, &i[1]]).largest(&[&k]));
    let exp = te.compute("T_softmax_exp", x.shape(), |i| (x.at(i) - largest.at([&i[0], &i[2]])).math("exp"));
    let sum = te.compute("T_softmax_expsum", &without, |i| exp.at([&i[0], &j, &i[1]]).sum(&[&j]));
    te.compute("T_softmax_norm", x.shape(), |i| exp.at(i) / sum.at([&i[0], &i[2]]))
}

pub(super) fn decoded(call: Call<'_>) -> Legal {
    let te = Te::new("multibox_transform_loc", call);
    let (classes, offsets, anchor) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let dtype = classes.dtype();
    let factors: Vec<f64> =
        call.attr("variances").map(|list| list.items().filter_map(number_of).collect()).unwrap_or_default();
    let factor = |k: usize| factors.get(k).copied().unwrap_or(1.0);
    let clips = flag(call, "clip");
    let (batch, n) = (classes.shape()[0].clone(), classes.shape()[2].clone());
    let boxes = te.compute("multibox_boxes", &[batch, n, Dim::Int(4)], |i| {
        let side = |k: i64| anchor.at([at(0), i[1].clone(), at(k)]);
        let offset = |k: usize| offsets.at([i[0].clone(), &i[1] * 4 + k as i64]) * factor(k);
        // Returns the lower and the upper end along an axis; axis 0 is x.
        let ends = |axis: usize| {
            let (low, high) = (side(axis as i64), side(axis as i64 + 2));
            let length = &high - &low;
            let middle = offset(axis) * &length + (low + high) * 0.5;
            let half = offset(axis + 2).math("exp") * 0.5 * length;
            [&middle - &half, middle + half].map(|end| match clips {
                true => end.min(1.0).max(0.0),
                false => end,
            })
        };
        let ([left, right], [top, bottom]) = (ends(0), ends(1));
        i[2].eq(0).select(top, i[2].eq(1).select(left, i[2].eq(2).select(bottom, right)))
    });
    let scores = if flag(call, "apply_softmax") { softmax(&te, &classes) } else { classes };
    let threshold = number(float_attr(call, "threshold").unwrap_or(0.0), dtype);
    let background = flag(call, "keep_background");
    let scores = te.compute("multibox_scores", scores.shape(), |i| {
        let score = scores.at(i);
        let kept = score.ge(&threshold).cast(dtype) * &score;
        if background { kept } else { i[1].eq(0).if_then_else(TeExpr::int(0, DType::I64).cast(dtype), kept) }
    });
    te.finish(&[boxes, scores])
}
