//! The parts of tensors that an expression reads.

use super::expr::Node;
use super::form::form;
use super::{Step, TeExpr, TeTensor};
use passhost_lang::ir::{DType, Dim};

/// The part of a tensor that is read: start and extent in each dimension.
pub(super) struct Read {
    pub(super) tensor: TeTensor,
    pub(super) ranges: Vec<(TeExpr, TeExpr)>,
}

/// Returns the parts of tensors that a step reads, one part per tensor, in the order of first mention.
pub(super) fn reads_of(step: &Step) -> Vec<Read> {
    let mut reads = Vec::new();
    step.exprs().for_each(|expr| collect(expr, &mut reads));
    reads
}

fn collect(expr: &TeExpr, reads: &mut Vec<Read>) {
    match &*expr.node {
        Node::Load(tensor, indices) => {
            add(tensor, indices, reads);
            indices.iter().for_each(|index| collect(index, reads));
        }
        Node::Call(_, of) => of.iter().for_each(|operand| collect(operand, reads)),
        Node::Binary(_, a, b) => [a, b].into_iter().for_each(|operand| collect(operand, reads)),
        Node::Unary(_, a) => collect(a, reads),
        Node::Select(c, a, b) => [c, a, b].into_iter().for_each(|operand| collect(operand, reads)),
        Node::Reduce(reduction) => collect(&reduction.value, reads),
        Node::Pair(pair) => pair.next.iter().for_each(|operand| collect(operand, reads)),
        Node::Scatter(scatter) => {
            scatter.place.iter().chain([&scatter.next]).for_each(|operand| collect(operand, reads));
        }
        Node::Index(_) | Node::Float(_) | Node::Fault(_) => {}
    }
}

fn add(tensor: &TeTensor, indices: &[TeExpr], reads: &mut Vec<Read>) {
    let whole = |dim: &Dim| (TeExpr::int(0, dim.dtype()), TeExpr::of_dim(dim.clone()));
    let part = |(index, dim): (&TeExpr, &Dim)| match has_call(index) {
        true => whole(dim),
        false => (index.clone(), TeExpr::int(1, index.dtype)),
    };
    match reads.iter_mut().find(|read| read.tensor.id == tensor.id) {
        None => {
            reads.push(Read { tensor: tensor.clone(), ranges: indices.iter().zip(tensor.shape()).map(part).collect() })
        }
        Some(read) => {
            for ((range, index), dim) in read.ranges.iter_mut().zip(indices).zip(tensor.shape()) {
                *range = both(range, index).unwrap_or_else(|| whole(dim));
            }
        }
    }
}

/// Returns true if an index contains a call, so that its value is not known in advance.
fn has_call(index: &TeExpr) -> bool {
    match &*index.node {
        Node::Call(..) => true,
        Node::Load(_, of) => of.iter().any(has_call),
        Node::Binary(_, a, b) => has_call(a) || has_call(b),
        Node::Unary(_, a) => has_call(a),
        Node::Select(c, a, b) => [c, a, b].into_iter().any(has_call),
        Node::Index(_) | Node::Float(_) | Node::Fault(_) => false,
        Node::Reduce(_) | Node::Pair(_) | Node::Scatter(_) => false,
    }
}

/// Extends a range to contain another index; returns `None` if the distance is unknown.
fn both((min, extent): &(TeExpr, TeExpr), index: &TeExpr) -> Option<(TeExpr, TeExpr)> {
    if same(min, index) && extent.as_int() == Some(1) {
        return Some((min.clone(), extent.clone()));
    }
    let (Node::Index(from), Node::Index(at)) = (&*min.node, &*index.node) else { return None };
    let ahead = form(&(at.clone() - from.clone())).as_int()?;
    let extent = extent.as_int()?;
    let dtype = index.dtype;
    match ahead < 0 {
        true => Some((index.clone(), TeExpr::int(extent.checked_sub(ahead)?, dtype))),
        false => Some((min.clone(), TeExpr::int(extent.max(ahead.checked_add(1)?), dtype))),
    }
}

/// Returns true if two expressions are equal.
pub(super) fn same(a: &TeExpr, b: &TeExpr) -> bool {
    let all = |a: &[TeExpr], b: &[TeExpr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b));
    a.dtype == b.dtype
        && match (&*a.node, &*b.node) {
            (Node::Index(x), Node::Index(y)) => x == y,
            (Node::Float(x), Node::Float(y)) => x.to_bits() == y.to_bits(),
            (Node::Load(t, x), Node::Load(u, y)) => t.id == u.id && all(x, y),
            (Node::Call(f, x), Node::Call(g, y)) => f == g && all(x, y),
            (Node::Binary(f, a, b), Node::Binary(g, c, d)) => f == g && same(a, c) && same(b, d),
            (Node::Unary(f, a), Node::Unary(g, b)) => f == g && same(a, b),
            (Node::Select(c, x, y), Node::Select(d, z, w)) => same(c, d) && same(x, z) && same(y, w),
            _ => false,
        }
}

/// The data type of indices if no dimension determines it.
pub(super) const INDEX: DType = DType::I64;

/// Returns 0 as an index.
pub(super) fn zero() -> Dim {
    Dim::int(0, INDEX)
}
