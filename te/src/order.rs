//! Order of computation: each tensor follows the tensors that it reads, otherwise tensors are in the order in which
//! the results mention them.

use super::expr::Node;
use super::scan::Scan;
use super::{Source, TeExpr, TeTensor};
use std::collections::HashSet;
use std::ops::Range;

/// Returns the numbers of the tensors that the results need and that are `within` a range; each follows the tensors that it reads. Of the
/// results of a loop over time, only one is in the list.
pub(super) fn order(
    tensors: &[(TeTensor, Source)],
    results: impl DoubleEndedIterator<Item = usize>,
    within: &Range<usize>,
) -> Vec<usize> {
    enum Todo {
        Enter(usize),
        Leave(usize),
    }
    let mut todo: Vec<Todo> = results.rev().map(Todo::Enter).collect();
    let (mut seen, mut order) = (vec![false; tensors.len()], Vec::new());
    while let Some(next) = todo.pop() {
        match next {
            Todo::Enter(id) if seen[id] || !within.contains(&id) => {}
            Todo::Enter(id) => {
                seen[id] = true;
                if let Source::State(scan, _) = &tensors[id].1 {
                    scan.states.iter().for_each(|state| seen[state.tensor.id] = true);
                }
                if matches!(tensors[id].1, Source::Step(_) | Source::State(..)) {
                    todo.push(Todo::Leave(id));
                }
                todo.extend(reads(tensors, id).into_iter().rev().map(Todo::Enter));
            }
            Todo::Leave(id) => order.push(id),
        }
    }
    order
}

/// Returns the tensors that the computation of a tensor reads.
pub(super) fn reads(tensors: &[(TeTensor, Source)], id: usize) -> Vec<usize> {
    let mut loads = Vec::new();
    match &tensors[id].1 {
        Source::Input(..) => {}
        Source::Second(first, _) => loads.push(*first),
        Source::Step(step) => step.exprs().for_each(|expr| loaded(expr, &mut loads)),
        Source::State(scan, _) => {
            scan.states.iter().for_each(|state| loaded(&state.first.value, &mut loads));
            loads.extend(read_in_steps(tensors, scan));
        }
    }
    loads
}

/// Returns the tensors that the steps of a loop over time read, except those that the loop computes.
pub(super) fn read_in_steps(tensors: &[(TeTensor, Source)], scan: &Scan) -> Vec<usize> {
    let mut loads: Vec<usize> = scan.order.iter().flat_map(|id| reads(tensors, *id)).collect();
    let is_own = |id: &usize| scan.inner.contains(id) || scan.states.iter().any(|state| state.tensor.id == *id);
    let mut seen = HashSet::new();
    loads.retain(|id| !is_own(id) && seen.insert(*id));
    loads
}

/// Collects the tensors that an expression loads; tensors in indices come first.
fn loaded(expr: &TeExpr, loads: &mut Vec<usize>) {
    match &*expr.node {
        Node::Load(tensor, indices) => {
            indices.iter().for_each(|index| loaded(index, loads));
            loads.push(tensor.id);
        }
        Node::Call(_, of) => of.iter().for_each(|operand| loaded(operand, loads)),
        Node::Binary(_, a, b) => [a, b].into_iter().for_each(|operand| loaded(operand, loads)),
        Node::Unary(_, a) => loaded(a, loads),
        Node::Select(c, a, b) => [c, a, b].into_iter().for_each(|operand| loaded(operand, loads)),
        Node::Reduce(reduction) => loaded(&reduction.value, loads),
        Node::Pair(pair) => pair.next.iter().for_each(|operand| loaded(operand, loads)),
        Node::Scatter(scatter) => {
            scatter.place.iter().chain([&scatter.start, &scatter.next]).for_each(|operand| loaded(operand, loads));
        }
        Node::Index(_) | Node::Float(_) | Node::Fault(_) => {}
    }
}
