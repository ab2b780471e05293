//! Suppression of boxes that overlap better boxes.

use super::sorting::{SORTED, SORTED_BYTES, order};
use super::standard::{integers, tensor, wrong};
use crate::limits::Limits;
use crate::vm::failure::Cause;
use crate::vm::value::Value;
use passhost_lang::ir::constant::{Element, Number};

/// Units of work per comparison of two boxes.
const COMPARED: u64 = 200;

/// The elements of a tensor, and the precision of arithmetic on them.
struct Numbers {
    values: Vec<f64>,
    is_double: bool,
}

impl Numbers {
    fn of(args: &[Value], i: usize, ndim: usize) -> Result<(Numbers, Vec<i64>), Cause> {
        let x = tensor(args, i)?;
        if x.shape().len() != ndim || !x.dtype().is_float() {
            return Err(wrong(args, i, &format!("a tensor of floats with {ndim} dimensions")));
        }
        let is_double = x.dtype().bytes() == 8;
        Ok((Numbers { values: x.numbers().map(f64::of).collect(), is_double }, x.shape().to_vec()))
    }

    fn rounded(&self, value: f64) -> f64 {
        if self.is_double { value } else { f64::from(value as f32) }
    }

    /// Returns the ratio of intersection and union of two boxes; 0 if the union is empty.
    fn overlap(&self, a: usize, b: usize) -> f64 {
        let ends = |of: usize, axis: usize| {
            let (p, q) = (self.values[of * 4 + axis], self.values[of * 4 + axis + 2]);
            (p.min(q), p.max(q))
        };
        let common = |axis: usize| {
            let ((p, q), (r, s)) = (ends(a, axis), ends(b, axis));
            self.rounded(q.min(s) - p.max(r)).max(0.0)
        };
        let area = |of: usize| {
            let ((p, q), (r, s)) = (ends(of, 0), ends(of, 1));
            self.rounded(self.rounded(q - p) * self.rounded(s - r))
        };
        let both = self.rounded(common(0) * common(1));
        let union = self.rounded(self.rounded(area(a) + area(b)) - both);
        if union <= 0.0 { 0.0 } else { self.rounded(both / union) }
    }
}

/// Returns the number in an argument that is a tensor with one element.
fn scalar(args: &[Value], i: usize) -> Result<Number, Cause> {
    let only = tensor(args, i)?;
    only.numbers().next().filter(|_| only.len() == 1).ok_or_else(|| wrong(args, i, "a tensor with one element"))
}

/// Executes `relax.vision.all_class_non_max_suppression` with the format `onnx`: returns rows of batch, class and box, and
/// their number.
pub(super) fn suppressed(args: &[Value], limits: &Limits) -> Result<Value, Cause> {
    let ((boxes, extents), (scores, shape)) = (Numbers::of(args, 0, 3)?, Numbers::of(args, 1, 3)?);
    let [batch, classes, n] = [shape[0], shape[1], shape[2]].map(|extent| extent as usize);
    if extents != [batch as i64, n as i64, 4] {
        return Err(wrong(args, 0, &format!("boxes of the shape [{batch}, {n}, 4]")));
    }
    let most = usize::try_from(i64::of(scalar(args, 2)?)).unwrap_or(0);
    let (iou, least) = (f64::of(scalar(args, 3)?), f64::of(scalar(args, 4)?));
    let selected = ((batch * classes) as u64).saturating_mul(n.min(most) as u64);
    let bytes = (n as u64).saturating_mul(SORTED_BYTES).saturating_add(selected.saturating_mul(3 * 8));
    let _room = limits.memory(bytes)?;
    let mut rows = Vec::new();
    for row in (0..batch * classes).filter(|_| iou > 0.0) {
        limits.work(SORTED.saturating_mul(n as u64))?;
        let first = row / classes * n;
        let score = |at: &usize| scores.values[row * n + at];
        let mut left: Vec<usize> = (0..n).filter(|at| score(at) > least).collect();
        left.sort_by(|a, b| order(Number::Float(score(b)), Number::Float(score(a))));
        let mut chosen: Vec<usize> = Vec::new();
        for at in left {
            if chosen.len() == most {
                break;
            }
            limits.work(COMPARED.saturating_mul(1 + chosen.len() as u64))?;
            if chosen.iter().all(|better| boxes.overlap(first + better, first + at) < iou) {
                chosen.push(at);
            }
        }
        rows.extend(chosen.iter().flat_map(|at| [row / classes, row % classes, *at].map(|index| index as i64)));
    }
    let count = rows.len() as i64 / 3;
    let indices = integers(&[count, 3], rows, limits)?;
    Value::tuple(vec![indices, integers(&[1], [count], limits)?])
}
