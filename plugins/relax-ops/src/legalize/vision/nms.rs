//! Suppression of boxes that overlap better boxes.

use super::super::{Legal, float_attr, result_shapes};
use super::boxes::{packed, rows};
use super::{at, number, wide};
use crate::declare::{flag, int, text};
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr, TeTensor};
use plugin_api::typing::legalized::Legalized;

/// Returns the ratio of intersection and union of two boxes. `side` returns a coordinate of the first or the second box.
fn overlap(side: &dyn Fn(bool, i64) -> TeExpr) -> TeExpr {
    let ends = |second: bool, axis: i64| {
        let (a, b) = (side(second, axis), side(second, axis + 2));
        [a.min(&b), a.max(b)]
    };
    let [ax, ay, bx, by] = [(false, 0), (false, 1), (true, 0), (true, 1)].map(|(second, axis)| ends(second, axis));
    let common = |a: &[TeExpr; 2], b: &[TeExpr; 2]| (a[1].min(&b[1]) - a[0].max(&b[0])).max(0.0);
    let area = |x: &[TeExpr; 2], y: &[TeExpr; 2]| (&x[1] - &x[0]) * (&y[1] - &y[0]);
    let both = common(&ay, &by) * common(&ax, &bx);
    let union = area(&ax, &ay) + area(&bx, &by) - &both;
    union.le(0.0).select(number(0.0, both.dtype()), &both / &union)
}

/// Returns the positions of the boxes of each row by descending score; only the first `count` boxes are sorted. Equal
/// scores keep their order, and NaN comes last.
fn sorted(
    te: &Te<'_>,
    shape: &[Dim],
    score: &dyn Fn(&TeExpr, &TeExpr) -> TeExpr,
    count: &dyn Fn(&TeExpr) -> TeExpr,
) -> TeTensor {
    let k = te.reduce_axis("k", &shape[1]);
    let ranks = te.compute("ranks", shape, |i| {
        let (b, j) = (&i[0], &i[1]);
        let (own, other) = (score(b, j), score(b, &k));
        let is_nan = |x: &TeExpr| if x.dtype().is_float() { x.test("isnan") } else { TeExpr::int(0, DType::BOOL) };
        let better = other.gt(&own).or(is_nan(&own).and(is_nan(&other).negated()));
        let same = other.eq(&own).or(is_nan(&own).and(is_nan(&other)));
        let before = better.or(same.and(k.lt(j))).and(k.cast(DType::I32).lt(count(b)));
        before.cast(DType::I32).sum(&[&k])
    });
    let place = |b: &TeExpr, j: &TeExpr| {
        let is_sorted = j.cast(DType::I32).lt(count(b));
        is_sorted.select(ranks.at([b, j]).cast(j.dtype()), j)
    };
    placed(te, shape, &place)
}

/// Returns the inverse of a permutation: for each new position in a row, the old position of the element that `place`
/// moves there.
fn placed(te: &Te<'_>, shape: &[Dim], place: &dyn Fn(&TeExpr, &TeExpr) -> TeExpr) -> TeTensor {
    let (b, j) = (te.reduce_axis("b", &shape[0]), te.reduce_axis("j", &shape[1]));
    let start = te.compute("start", shape, |_| TeExpr::int(0, DType::I32));
    let place = [b.clone(), place(&b, &j)];
    te.scatter("order", &start, &[&b, &j], &place, |_| j.cast(DType::I32))
}

/// The boxes of `relax.vision.non_max_suppression`, in the order of their scores.
struct Boxes<'c> {
    call: Call<'c>,
    x: TeTensor,
    order: TeTensor,
    /// The number of boxes that are considered, by batch.
    kept: TeTensor,
}

impl Boxes<'_> {
    fn element(&self, b: &TeExpr, j: &TeExpr, k: i64) -> TeExpr {
        self.x.at([b.clone(), self.order.at([b, j]).cast(DType::I64), at(k)])
    }

    fn score(&self, b: &TeExpr, j: &TeExpr) -> TeExpr {
        self.element(b, j, int(self.call, "score_index").unwrap_or(1))
    }

    fn is_kept(&self, b: &TeExpr, j: &TeExpr) -> TeExpr {
        j.cast(DType::I32).lt(self.kept.at([b]))
    }

    /// Returns the condition under which one of two boxes may remove the other; `None` if it always may.
    fn compete(&self, b: &TeExpr, [j, k]: [&TeExpr; 2]) -> Option<TeExpr> {
        let id = int(self.call, "id_index").unwrap_or(0);
        (id >= 0 && !flag(self.call, "force_suppress")).then(|| self.element(b, j, id).eq(self.element(b, k, id)))
    }

    fn overlap(&self, b: &TeExpr, [j, k]: [&TeExpr; 2]) -> TeExpr {
        let start = int(self.call, "coord_start").unwrap_or(2);
        overlap(&|second, side| self.element(b, if second { k } else { j }, start + side))
    }

    fn threshold(&self) -> TeExpr {
        number(float_attr(self.call, "iou_threshold").unwrap_or(0.5), self.x.dtype())
    }

    /// Returns true if another box may be selected after `count` boxes.
    fn more(&self, count: &TeExpr) -> TeExpr {
        let most = int(self.call, "max_output_size").unwrap_or(-1);
        if most > 0 { count.lt(most) } else { TeExpr::int(1, DType::BOOL) }
    }

    /// Returns true if box `j` removes box `k`, or makes its score decay.
    fn meet(&self, b: &TeExpr, [j, k]: [&TeExpr; 2], condition: &dyn Fn(TeExpr) -> TeExpr) -> TeExpr {
        let over = condition(self.overlap(b, [j, k]));
        match self.compete(b, [j, k]) {
            Some(compete) => compete.if_then_else(over, TeExpr::int(0, DType::BOOL)),
            None => over,
        }
    }
}

/// The conditions of [`greedy`].
struct Rules<'r> {
    /// True if the box at a position of a batch may be selected.
    valid: &'r dyn Fn(&TeExpr, &TeExpr) -> TeExpr,
    /// True if another box may be selected after this number of boxes.
    more: &'r dyn Fn(&TeExpr) -> TeExpr,
    /// True if a box removes another box.
    removes: &'r dyn Fn(&TeExpr, [&TeExpr; 2]) -> TeExpr,
}

/// Selects boxes: each selected box removes later boxes. Returns a flag for each box, which is 2 if the box is selected,
/// followed by the number of selected boxes.
fn greedy(te: &Te<'_>, shape: &[Dim], rules: &Rules<'_>) -> TeTensor {
    let (batch, n) = (shape[0].clone(), shape[1].clone());
    let size = TeExpr::of_dim(n.clone());
    let no = || TeExpr::int(0, DType::BOOL);
    let start = te.compute("left", &[batch.clone(), n.clone() + 1], |i| {
        i[1].lt(&size).if_then_else((rules.valid)(&i[0], &i[1]), no()).cast(DType::I32)
    });
    let (b, j) = (te.reduce_axis("b", &batch), te.reduce_axis("j", &n));
    // Steps for each box: select it, count it, and remove other boxes.
    let step = te.reduce_axis("step", &(n + 2));
    let k = (&step - 2).max(0);
    let place = [b.clone(), step.eq(0).select(&j, step.eq(1).select(&size, &k))];
    te.scatter("chosen", &start, &[&b, &j, &step], &place, |all| {
        let (own, count) = (all.at([&b, &j]), all.at([&b, &size]));
        let selected = own.eq(1).and((rules.more)(&count)).select(TeExpr::int(2, DType::I32), 0);
        let other = all.at([&b, &k]);
        let hits = own.eq(2).and(k.gt(&j)).and(other.eq(1)).if_then_else((rules.removes)(&b, [&j, &k]), no());
        let left = hits.select(TeExpr::int(0, DType::I32), other);
        let counted = &count + own.eq(2).cast(DType::I32);
        step.eq(0).if_then_else(selected, step.eq(1).if_then_else(counted, left))
    })
}

pub(super) fn suppression(call: Call<'_>) -> Legal {
    let te = Te::new("non_max_suppression", call);
    let (x, count, indices) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let score = int(call, "score_index").unwrap_or(1);
    let [batch, n] = [0, 1].map(|axis| x.shape()[axis].clone());
    let shape = [batch.clone(), n];
    let order = sorted(&te, &shape, &|b, j| x.at([b.clone(), j.clone(), at(score)]), &|b| count.at([b]));
    let top = int(call, "top_k").unwrap_or(-1);
    let kept = te.compute("kept", std::slice::from_ref(&batch), |i| {
        let count = count.at(i);
        if top > 0 { count.min(top) } else { count }
    });
    let boxes = Boxes { call, x, order, kept };
    if float_attr(call, "soft_nms_sigma").is_some_and(|sigma| sigma > 0.0) {
        return softly(te, &boxes, &indices);
    }
    let rules = Rules {
        valid: &|b, j| {
            let zero = TeExpr::int(0, DType::I64).cast(boxes.x.dtype());
            boxes.is_kept(b, j).if_then_else(boxes.score(b, j).gt(zero), TeExpr::int(0, DType::BOOL))
        },
        more: &|count| boxes.more(count),
        removes: &|b, pair| boxes.meet(b, pair, &|over| over.ge(boxes.threshold())),
    };
    let chosen = greedy(&te, &shape, &rules);
    let is_chosen = |b: &TeExpr, j: &TeExpr| chosen.at([b, j]).eq(2);
    if flag(call, "return_indices") {
        let original = |b: &TeExpr, j: &TeExpr| indices.at([b.clone(), boxes.order.at([b, j]).cast(DType::I64)]);
        let [out, counts] = packed(&te, &shape, &is_chosen, &original);
        let counts = te.compute("valid_box_count", &[batch, Dim::Int(1)], |i| counts.at([&i[0]]));
        return te.finish(&[out, counts]);
    }
    let positions = match flag(call, "invalid_to_bottom") {
        true => {
            let [positions, _] = packed(&te, &shape, &is_chosen, &|b, j| boxes.order.at([b, j]));
            positions
        }
        false => te.compute("positions", &shape, |i| is_chosen(&i[0], &i[1]).select(boxes.order.at(i), -1)),
    };
    let out = rows(&te, "out_data", &boxes.x, &positions);
    te.finish(&[out])
}

/// The state of soft suppression: the scores of all boxes, their positions, the best box, its position before the round, and
/// the number of selected boxes.
struct State<'r> {
    all: &'r TeTensor,
    b: &'r TeExpr,
    size: &'r TeExpr,
}

const BEST: i64 = 0;
const OLD: i64 = 1;
const COUNT: i64 = 2;
const SLOTS: i64 = 3;

impl State<'_> {
    fn slot(&self, k: i64) -> TeExpr {
        self.all.at([self.b.clone(), self.size * 2 + k])
    }

    fn score(&self, at: &TeExpr) -> TeExpr {
        self.all.at([self.b, at])
    }

    fn position(&self, at: &TeExpr) -> TeExpr {
        self.all.at([self.b.clone(), at + self.size])
    }

    /// Returns the best of the boxes up to box `k`: the one with the greatest score, or the first of several.
    fn better(&self, r: &TeExpr, k: &TeExpr, threshold: &TeExpr, boxes: &Boxes<'_>) -> TeExpr {
        let best = k.eq(0).if_then_else(number(-1.0, self.all.dtype()), self.slot(BEST));
        let known = best.max(0.0).cast(k.dtype());
        let (own, other) = (self.score(k), self.score(&known));
        let first = own.eq(&other).and(self.position(k).lt(self.position(&known)));
        let is_better = best.lt(0.0).or(own.gt(&other)).or(first);
        let left = self.position(k).ge(r.cast(self.all.dtype())).and(own.gt(threshold));
        let more = boxes.more(&self.slot(COUNT).cast(DType::I32));
        left.and(is_better).and(more).select(k.cast(self.all.dtype()), best)
    }

    /// Returns the score of box `k` after the selection of the best box.
    fn decayed(&self, r: &TeExpr, k: &TeExpr, threshold: &TeExpr, boxes: &Boxes<'_>) -> TeExpr {
        let (state, dtype) = (self.all.dtype(), boxes.x.dtype());
        let (best, own) = (self.slot(BEST), self.score(k));
        let at = best.max(0.0).cast(k.dtype());
        let hits = best.ge(0.0).and(self.position(k).gt(r.cast(state))).and(own.gt(threshold));
        let meets = boxes.meet(self.b, [&at, k], &|_| TeExpr::int(1, DType::BOOL));
        let over = boxes.overlap(self.b, [&at, k]);
        let sigma = float_attr(boxes.call, "soft_nms_sigma").unwrap_or(1.0);
        let share = (number(-0.5 / sigma, dtype) * &over * &over).math("exp");
        let less = (own.cast(dtype) * share).cast(state);
        let removed = over.ge(boxes.threshold());
        let score = meets.if_then_else(removed.if_then_else(number(f64::NEG_INFINITY, state), less), &own);
        hits.if_then_else(score, own)
    }
}

/// Selects in each round the box with the greatest score, exchanges it with the first box that is not selected, and reduces the
/// scores of the boxes that overlap it.
fn softly(te: Te<'_>, boxes: &Boxes<'_>, indices: &TeTensor) -> Legal {
    let (call, dtype) = (boxes.call, boxes.x.dtype());
    // Positions are exact in this data type.
    let state = wide(&[dtype]);
    let (batch, n) = (boxes.x.shape()[0].clone(), boxes.x.shape()[1].clone());
    let size = TeExpr::of_dim(n.clone());
    let threshold = number(float_attr(call, "score_threshold").unwrap_or(0.0), dtype).cast(state);
    let start = te.compute("start", &[batch.clone(), n.clone() * 2 + SLOTS], |i| {
        let (b, k) = (&i[0], &i[1]);
        let kept = k.lt(&size).if_then_else(boxes.is_kept(b, k), TeExpr::int(0, DType::BOOL));
        let score = kept.if_then_else(boxes.score(b, k).cast(state), number(f64::NEG_INFINITY, state));
        let rest = k.lt(&size * 2).select((k - &size).cast(state), number(0.0, state));
        k.lt(&size).if_then_else(score, rest)
    });
    let (b, r) = (te.reduce_axis("b", &batch), te.reduce_axis("r", &n));
    let (phase, k) = (te.reduce_axis("phase", &Dim::Int(5)), te.reduce_axis("k", &n));
    let slots = [&size * 2 + BEST, &size * 2 + OLD, &k + &size, k.clone(), &size * 2 + COUNT];
    let [best, old, position, score, count] = slots;
    let by_phase = |values: [TeExpr; 5]| {
        let [a, b, c, d, e] = values;
        let late = phase.eq(2).if_then_else(c, phase.eq(3).if_then_else(d, e));
        phase.eq(0).if_then_else(a, phase.eq(1).if_then_else(b, late))
    };
    let place = [b.clone(), by_phase([best, old, position, score, count])];
    let all = te.scatter("chosen", &start, &[&b, &r, &phase, &k], &place, |all| {
        let now = State { all, b: &b, size: &size };
        let best = now.slot(BEST);
        let old = k.eq(0).if_then_else(now.position(&best.max(0.0).cast(k.dtype())), now.slot(OLD));
        let target = r.cast(state);
        let moved = best
            .eq(k.cast(state))
            .select(&target, now.position(&k).eq(&target).select(now.slot(OLD), now.position(&k)));
        let position = best.ge(0.0).select(moved, now.position(&k));
        let count = now.slot(COUNT) + k.eq(0).and(best.ge(0.0)).cast(state);
        let better = now.better(&r, &k, &threshold, boxes);
        by_phase([better, old, position, now.decayed(&r, &k, &threshold, boxes), count])
    });
    let shape = [batch.clone(), n];
    let counts = te.compute("valid_box_count", &[batch, Dim::Int(1)], |i| {
        all.at([i[0].clone(), &size * 2 + COUNT]).cast(DType::I32)
    });
    let inverse = placed(&te, &shape, &|b, k| State { all: &all, b, size: &size }.position(k).cast(k.dtype()));
    let is_chosen = |b: &TeExpr, j: &TeExpr| j.cast(DType::I32).lt(counts.at([b.clone(), at(0)]));
    let nothing = TeExpr::int(-1, DType::I32);
    let positions = te.compute("positions", &shape, |i| is_chosen(&i[0], &i[1]).select(inverse.at(i), &nothing));
    let score = int(call, "score_index").unwrap_or(1);
    let out = te.compute("out_data", boxes.x.shape(), |i| {
        let from = positions.at(&i[..2]);
        let place = from.cast(i[1].dtype());
        let element = boxes.x.at([i[0].clone(), boxes.order.at([&i[0], &place]).cast(DType::I64), i[2].clone()]);
        let value = i[2].eq(score).if_then_else(all.at([&i[0], &place]).cast(dtype), element);
        from.ge(0).if_then_else(value, TeExpr::int(-1, DType::I64).cast(dtype))
    });
    if !flag(call, "return_indices") {
        return te.finish(&[out]);
    }
    let indices = te.compute("box_indices", &shape, |i| {
        let from = positions.at(i);
        let original = boxes.order.at([i[0].clone(), from.cast(i[1].dtype())]).cast(DType::I64);
        from.ge(0).if_then_else(indices.at([i[0].clone(), original]), &nothing)
    });
    te.finish(&[out, indices, counts])
}

/// Suppresses the boxes of each class of each batch. The number of rows of the format `onnx` is known only at run time.
pub(super) fn all_classes(call: Call<'_>) -> Legal {
    if text(call, "output_format") == Some("onnx") {
        return Legalized::packed("relax.run.all_class_non_max_suppression");
    }
    let te = Te::new("all_class_non_max_suppression", call);
    let (boxes, scores) = (te.input(0)?, te.input(1)?);
    let [most, iou, least] = [te.input(2)?, te.input(3)?, te.input(4)?];
    let scalar = |x: &TeTensor, dtype: DType| x.at(vec![at(0); x.ndim()]).cast(dtype);
    let dtype = wide(&[boxes.dtype(), scores.dtype()]);
    let [batch, classes, n] = [0, 1, 2].map(|axis| scores.shape()[axis].clone());
    let shape = [batch.clone() * classes.clone(), n.clone()];
    let each = TeExpr::of_dim(classes.clone());
    let score = |row: &TeExpr, j: &TeExpr| scores.at([row / &each, row % &each, j.clone()]);
    let size = TeExpr::of_dim(n.clone()).cast(DType::I32);
    let order = sorted(&te, &shape, &score, &|_| size.clone());
    let place = |row: &TeExpr, j: &TeExpr| order.at([row, j]).cast(DType::I64);
    let rules = Rules {
        valid: &|row, j| {
            let passes = score(row, &place(row, j)).cast(dtype).gt(scalar(&least, dtype));
            passes.and(scalar(&iou, dtype).gt(0.0))
        },
        more: &|count| count.cast(DType::I64).lt(scalar(&most, DType::I64)),
        removes: &|row, [j, k]| {
            let over = overlap(&|second, side| {
                boxes.at([row / &each, place(row, if second { k } else { j }), at(side)]).cast(dtype)
            });
            over.ge(scalar(&iou, dtype))
        },
    };
    let chosen = greedy(&te, &shape, &rules);
    let is_chosen = |row: &TeExpr, j: &TeExpr| chosen.at([row, j]).eq(2);
    let [found, counts] = packed(&te, &shape, &is_chosen, &|row, j| order.at([row, j]));
    let results = joined(&te, [&found, &counts, &scores], &result_shapes(call)?);
    te.finish(&results)
}

/// Joins the boxes of all classes of each batch: returns pairs of class and box, their scores, and the numbers of pairs.
fn joined(te: &Te<'_>, [found, counts, scores]: [&TeTensor; 3], shapes: &[Vec<Dim>]) -> [TeTensor; 3] {
    let (batch, classes) = (scores.shape()[0].clone(), scores.shape()[1].clone());
    let each = TeExpr::of_dim(classes.clone());
    let row = |b: &TeExpr, class: &TeExpr| b * &each + class;
    // The number of boxes of all classes up to each class.
    let c = te.reduce_axis("c", &classes);
    let ends = te.compute("ends", &[batch.clone(), classes.clone()], |i| {
        let count = counts.at([row(&i[0], &c)]).cast(DType::I64);
        c.le(&i[1]).if_then_else(count, at(0)).sum(&[&c])
    });
    let c = te.reduce_axis("c", &classes);
    let totals =
        te.compute("totals", std::slice::from_ref(&batch), |i| counts.at([row(&i[0], &c)]).cast(DType::I64).sum(&[&c]));
    let c = te.reduce_axis("c", &classes);
    let class =
        te.compute("class", &shapes[1], |i| ends.at([&i[0], &c]).le(i[1].cast(DType::I64)).cast(DType::I64).sum(&[&c]));
    let chosen = te.compute("box", &shapes[1], |i| {
        let class = class.at(i).cast(i[1].dtype());
        let first = class
            .gt(0)
            .if_then_else(ends.at([i[0].clone(), &class - 1]).cast(i[1].dtype()), TeExpr::of_dim(Dim::Int(0)));
        let inside = i[1].cast(DType::I64).lt(totals.at([&i[0]]));
        inside.if_then_else(found.at([row(&i[0], &class), &i[1] - first]), TeExpr::int(-1, DType::I32)).cast(DType::I64)
    });
    let indices = te.compute("selected_indices", &shapes[0], |i| {
        let inside = chosen.at(&i[..2]).ge(0);
        inside.select(i[2].eq(0).select(class.at(&i[..2]), chosen.at(&i[..2])), 0)
    });
    let selected = te.compute("selected_scores", &shapes[1], |i| {
        let from = chosen.at(i);
        let score = scores.at([i[0].clone(), class.at(i).cast(i[1].dtype()), from.cast(i[1].dtype())]);
        from.ge(0).if_then_else(score.cast(DType::F32), number(0.0, DType::F32))
    });
    [indices, selected, totals]
}
