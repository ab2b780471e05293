//! Order of computation: each tensor follows the tensors that it reads, otherwise tensors are in the order in which
//! the results mention them.

use super::expr::Node;
use super::{Source, Step, TeExpr, TeTensor};

/// Returns the computed tensors that the results need; each follows the tensors that it reads.
pub(super) fn steps<'t>(tensors: &'t [(TeTensor, Source)], results: &[TeTensor]) -> Vec<(&'t TeTensor, &'t Step)> {
    enum Todo {
        Enter(usize),
        Leave(usize),
    }
    let mut todo: Vec<Todo> = results.iter().rev().map(|result| Todo::Enter(result.id)).collect();
    let (mut seen, mut order) = (vec![false; tensors.len()], Vec::new());
    while let Some(next) = todo.pop() {
        match next {
            Todo::Enter(id) if seen[id] => {}
            Todo::Enter(id) => {
                seen[id] = true;
                match &tensors[id].1 {
                    Source::Input(..) => {}
                    Source::Second(first, _) => todo.push(Todo::Enter(*first)),
                    Source::Step(step) => {
                        todo.push(Todo::Leave(id));
                        let mut loads = Vec::new();
                        step.exprs().for_each(|expr| loaded(expr, &mut loads));
                        todo.extend(loads.into_iter().rev().map(Todo::Enter));
                    }
                }
            }
            Todo::Leave(id) => {
                if let (tensor, Source::Step(step)) = &tensors[id] {
                    order.push((tensor, step));
                }
            }
        }
    }
    order
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
