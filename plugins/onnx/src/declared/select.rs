//! Non-maximum suppression: selects boxes that do not overlap.

use super::{arg, attr, dims, flag, int, of_shape, wrong};
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{InferError, OpDecl};

pub(super) const NON_MAX_SUPPRESSION: OpDecl = OpDecl {
    name: "onnx.non_max_suppression",
    doc: "Boxes by descending score, without boxes that overlap a better box.\n\n \
          Contains, for each batch and class, the numbers of at most `most` boxes, then -1. \
          `thresholds` contains the threshold of the overlap and the threshold of the score.\n\n Type: int64, batch, classes, `most`",
    args: &[arg("boxes"), arg("scores"), arg("thresholds")],
    attrs: &[attr("most", AttrType::Int), attr("center", AttrType::Bool), attr("by_score", AttrType::Bool)],
    infer,
    legalize: Some(legalize),
    ..OpDecl::EMPTY
};

fn infer(call: Call<'_>) -> Result<Type, InferError> {
    let (_, scores) = (dims(call, 0, 3)?, dims(call, 1, 3)?);
    let most = int(call, "most");
    if most < 0 {
        return wrong(format!("`most` must not be negative, found {most}"));
    }
    let shape = scores.map(|dims| vec![dims[0].clone(), dims[1].clone(), Dim::Int(most)]);
    Ok(of_shape(DType::I64, 3, shape))
}

/// Builds a PrimFunc whose steps update a tensor of numbers: a flag for each box that is still available, the best box,
/// and the selected boxes.
fn legalize(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("non_max_suppression", call);
    let (boxes, scores, thresholds) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let most = int(call, "most");
    let [batch, classes, n] = scores.shape() else { return wrong("its scores do not have three dimensions") };
    let (batch, classes, n) = (batch.clone(), classes.clone(), n.clone());
    let size = TeExpr::of_dim(n.clone()).cast(DType::I64);
    let whole = [batch.clone(), classes.clone(), n.clone() + (most + 1)];
    let start = te.compute("left", &whole, |i| i[2].lt(&size).select(TeExpr::int(1, DType::I64), -1));
    let axes = [("b", batch.clone()), ("c", classes.clone()), ("m", Dim::Int(most)), ("phase", Dim::Int(3)), ("n", n)];
    let over: Vec<TeExpr> = axes.iter().map(|(name, extent)| te.reduce_axis(name, extent)).collect();
    let (b, c, m, phase, at) = (&over[0], &over[1], &over[2], &over[3], &over[4]);
    let slot = phase.eq(0).select(&size, phase.eq(1).select(at, &size + 1 + m));
    let place = [b.clone(), c.clone(), slot];
    let threshold = |k: i64| thresholds.at([TeExpr::int(k, DType::I64)]);
    let side = |of: &TeExpr, k: i64| boxes.at([b.clone(), of.clone(), TeExpr::int(k, DType::I64)]);
    // Returns the lower and the upper end along an axis.
    let ends = |of: &TeExpr, k: i64| match flag(call, "center") {
        true => {
            let (middle, half) = (side(of, 1 - k), side(of, 3 - k) / 2.0);
            (&middle - &half, middle + half)
        }
        false => {
            let (p, q) = (side(of, k), side(of, k + 2));
            (p.min(&q), p.max(q))
        }
    };
    let chosen = te.scatter("chosen", &start, &over.iter().collect::<Vec<_>>(), &place, |all| {
        let of = |slot: TeExpr| all.at([b.clone(), c.clone(), slot]);
        let score = |of: &TeExpr| scores.at([b.clone(), c.clone(), of.clone()]);
        let so_far = at.eq(0).select(TeExpr::int(-1, DType::I64), of(size.clone()));
        let known = so_far.max(0);
        let passes = match flag(call, "by_score") {
            true => score(at).gt(threshold(1)),
            false => TeExpr::int(1, DType::BOOL),
        };
        let better = so_far.lt(0).or(score(at).gt(score(&known)));
        let best = of(at.clone()).eq(1).and(passes).and(better).select(at, so_far);
        let winner = of(size.clone());
        let other = winner.max(0);
        let inner = |k: i64| {
            let ((p, q), (r, s)) = (ends(at, k), ends(&other, k));
            (q.min(s) - p.max(r)).max(0.0)
        };
        let area = |of: &TeExpr| {
            let ((p, q), (r, s)) = (ends(of, 0), ends(of, 1));
            (q - p) * (s - r)
        };
        let common = inner(0) * inner(1);
        let overlap = &common / (area(at) + area(&other) - &common);
        let gone = at.eq(&winner).or(area(at).gt(0.0).and(area(&other).gt(0.0)).and(overlap.gt(threshold(0))));
        let left = winner.ge(0).and(gone).if_then_else(TeExpr::int(0, DType::I64), of(at.clone()));
        phase.eq(0).if_then_else(best, phase.eq(1).if_then_else(left, winner))
    });
    let out = te.compute("T_chosen", &[batch, classes, Dim::Int(most)], |i| {
        chosen.at([i[0].clone(), i[1].clone(), &i[2] + &size + 1])
    });
    te.finish(&[out])
}
