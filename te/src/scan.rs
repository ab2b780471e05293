//! Loops over time: tensors whose rows are computed one after another, each from the rows before it.

use super::expr::{Node, Pair, Reduction, Scatter};
use super::{Axis, Source, Step, Te, TeExpr, TeTensor, order};
use passhost_lang::ir::Dim;
use passhost_lang::typing::operators::InferError;
use std::ops::Range;
use std::rc::Rc;

/// A loop over time.
pub(super) struct Scan {
    pub(super) name: String,
    /// The axis of the steps.
    pub(super) axis: Axis,
    pub(super) states: Vec<State>,
    /// The numbers of the tensors that a step computes.
    pub(super) inner: Range<usize>,
    /// The tensors that a step needs, in the order of computation.
    pub(super) order: Vec<usize>,
}

/// A tensor whose first row is the start value, and whose other rows are each computed in one step.
pub(super) struct State {
    pub(super) tensor: TeTensor,
    /// The computation of the first row.
    pub(super) first: Step,
}

impl Te<'_> {
    /// Computes tensors step by step. Row 0 of result `i` is `start[i]`, and row `t + 1` is tensor `i` that `next` returns for step `t`.
    ///
    /// `next` gets the index of the step and the results, and computes tensors with [`Te::compute`] and similar functions. It may read
    /// rows 0 to `t` of the results. A tensor that it computes exists only within a step, so tensors outside cannot read it.
    ///
    /// The example computes the states of a recurrent network, `h[t + 1] = tanh(x[t] + h[t] * w)`:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::te::Te;
    ///
    /// fn legalize_rnn(call: Call<'_>) -> Result<Legalized, InferError> {
    ///     let te = Te::new("rnn", call);
    ///     let (x, w, h) = (te.input(0)?, te.input(1)?, te.input(2)?);
    ///     let [states] = te.scan("states", &x.shape()[0], [&h], |t, [states]| {
    ///         let k = te.reduce_axis("k", &h.shape()[1]);
    ///         let product = te.compute("product", h.shape(), |i| (states.at([t, &i[0], &k]) * w.at([&k, &i[1]])).sum(&[&k]));
    ///         [te.compute("next", h.shape(), |i| (x.at([t, &i[0], &i[1]]) + product.at(i)).math("tanh"))]
    ///     });
    ///     te.finish(&[states])
    /// }
    /// # use plugin_api::ir::{AttrsId, BodyBuilder};
    /// # let mut b = BodyBuilder::new();
    /// # b.begin_function(0, AttrsId::NONE, None);
    /// # let [x, w, h] = [&[5, 2, 3][..], &[3, 3], &[2, 3]].map(|shape| {
    /// #     let ty = b.ty(&Type::tensor(shape.to_vec(), DType::F32));
    /// #     (b.param("x", ty), ty)
    /// # });
    /// # let rnn = b.op("acme.rnn");
    /// # b.begin_block();
    /// # let y = b.call(rnn, &[x.0, w.0, h.0], AttrsId::NONE, x.1, false, Some("y"));
    /// # b.end();
    /// # b.end_function(y, x.1);
    /// # let body = b.finish()?;
    /// # let call = body.bindings().find_map(|value| value.as_call()).expect("a call");
    /// let legalized = legalize_rnn(call)?;
    /// let blocks = legalized.function.values().filter(|value| matches!(value.stmt(), Some(Stmt::Block)));
    /// // The start, the step, and the two tensors of the step.
    /// assert_eq!(blocks.count(), 4);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn scan<const N: usize>(
        &self,
        name: &str,
        steps: &Dim,
        start: [&TeTensor; N],
        next: impl FnOnce(&TeExpr, &[TeTensor; N]) -> [TeTensor; N],
    ) -> [TeTensor; N] {
        let axis = self.axis("t".to_string(), steps);
        let t = TeExpr::of_dim(Dim::Var(axis.sym));
        let states = std::array::from_fn(|i| {
            let start = start[i];
            let shape: Vec<Dim> = std::iter::once(steps.clone() + 1).chain(start.shape().iter().cloned()).collect();
            // The source is replaced when the step is known.
            self.add(&shape, start.dtype(), Source::Second(start.id, format!("{name}_{i}")))
        });
        let first = self.tensors.borrow().len();
        let next = next(&t, &states);
        let rows: Vec<TeTensor> = next.into_iter().map(|row| self.own_row(row, first)).collect();
        let inner = first..self.tensors.borrow().len();
        let order = order::order(&self.tensors.borrow(), rows.iter().map(|row| row.id), &inner);
        for ((row, state), start) in rows.iter().zip(&states).zip(start) {
            if (row.shape(), row.dtype()) != (start.shape(), start.dtype()) {
                let message =
                    format!("`{}` must have the type of `{}`, the start of `{name}`", row.name(), start.name());
                self.error.borrow_mut().get_or_insert(InferError::wrong(message));
            }
            self.store_in(row, state, &(&t + 1), &inner);
        }
        let firsts = states.iter().zip(start).map(|(state, start)| self.first(state, start)).collect();
        let scan = Rc::new(Scan { name: name.to_string(), axis, states: firsts, inner, order });
        let mut tensors = self.tensors.borrow_mut();
        for state in &states {
            tensors[state.id].1 = Source::State(Rc::clone(&scan), state.name().to_string());
        }
        states
    }

    /// Returns a row of a state: the tensor, or a copy of it if the step cannot compute it in its place.
    fn own_row(&self, row: TeTensor, first: usize) -> TeTensor {
        let is_plain = match &self.tensors.borrow()[row.id].1 {
            Source::Step(step) => {
                step.place.is_none() && !matches!(&*step.value.node, Node::Pair(_) | Node::Scatter(_))
            }
            _ => false,
        };
        match is_plain && row.id >= first {
            true => row,
            false => self.compute(row.name(), row.shape(), |i| row.at(i)),
        }
    }

    /// Makes a step compute a tensor in a row of a state, and makes its readers read that row.
    fn store_in(&self, row: &TeTensor, state: &TeTensor, time: &TeExpr, inner: &Range<usize>) {
        let place = |indices: &[TeExpr]| [time.clone()].into_iter().chain(indices.iter().cloned()).collect::<Vec<_>>();
        let in_state = |tensor: &TeTensor, indices: &[TeExpr]| (tensor.id == row.id).then(|| state.at(place(indices)));
        let mut tensors = self.tensors.borrow_mut();
        for (_, source) in &mut tensors[inner.clone()] {
            if let Source::Step(step) = source {
                step.value = replaced(&step.value, &in_state);
                step.place.iter_mut().flatten().for_each(|index| *index = replaced(index, &in_state));
            }
        }
        let (tensor, source) = &mut tensors[row.id];
        if let Source::Step(step) = source {
            let axes: Vec<TeExpr> = step.axes.iter().map(|axis| TeExpr::of_dim(Dim::Var(axis.sym))).collect();
            step.place = Some(place(&axes));
        }
        *tensor = state.clone();
    }

    /// Returns the computation of the first row of a state.
    fn first(&self, state: &TeTensor, start: &TeTensor) -> State {
        let (axes, indices) = self.axes_of(start.shape());
        let zero = TeExpr::int(0, state.shape()[0].dtype());
        let place = Some([zero].into_iter().chain(indices.iter().cloned()).collect());
        let name = format!("{}_start", state.name());
        State { tensor: state.clone(), first: Step { name, axes, value: start.at(&indices), place, notes: Vec::new() } }
    }

    /// Returns the error of a tensor that is read outside the loop over time that computes it.
    pub(super) fn escape(&self, results: &[TeTensor]) -> Option<InferError> {
        let tensors = self.tensors.borrow();
        let results = results.iter().map(|result| (usize::MAX, result.id));
        let of_each = |at: usize| order::reads(&tensors, at).into_iter().map(move |read| (at, read));
        let mut reads = results.chain((0..tensors.len()).flat_map(of_each));
        let inner = tensors.iter().filter_map(|(_, source)| match source {
            Source::State(scan, _) => Some(&scan.inner),
            _ => None,
        });
        let inner: Vec<&Range<usize>> = inner.collect();
        let escapes = |(from, to): &(usize, usize)| {
            let is_computed = !matches!(tensors[*to].1, Source::Input(..));
            is_computed && inner.iter().any(|of| of.contains(to) && !of.contains(from))
        };
        let (_, of) = reads.find(escapes)?;
        let name = tensors[of].1.name();
        Some(InferError::wrong(format!(
            "`{name}` is computed in a step of a scan, so it cannot be read outside the step"
        )))
    }
}

/// Returns an expression in which loads are replaced by other expressions.
fn replaced(expr: &TeExpr, with: &dyn Fn(&TeTensor, &[TeExpr]) -> Option<TeExpr>) -> TeExpr {
    let one = |of: &TeExpr| replaced(of, with);
    let all = |of: &[TeExpr]| of.iter().map(one).collect::<Vec<TeExpr>>();
    let node = match &*expr.node {
        Node::Index(_) | Node::Float(_) | Node::Fault(_) => return expr.clone(),
        Node::Load(tensor, indices) => {
            let indices = all(indices);
            match with(tensor, &indices) {
                Some(new) => return new,
                None => Node::Load(tensor.clone(), indices),
            }
        }
        Node::Binary(op, a, b) => Node::Binary(*op, one(a), one(b)),
        Node::Unary(op, a) => Node::Unary(*op, one(a)),
        Node::Call(op, of) => Node::Call(op.clone(), all(of)),
        Node::Select(c, a, b) => Node::Select(one(c), one(a), one(b)),
        Node::Reduce(of) => {
            let (value, start) = (one(&of.value), one(&of.start));
            Node::Reduce(Reduction { op: of.op, value, axes: of.axes.clone(), start })
        }
        Node::Pair(of) => {
            let [start, next] = [&of.start, &of.next].map(|[a, b]| [one(a), one(b)]);
            Node::Pair(Pair { tensors: of.tensors.clone(), start, next, axes: of.axes.clone() })
        }
        Node::Scatter(of) => {
            let (start, place, next) = (one(&of.start), all(&of.place), one(&of.next));
            Node::Scatter(Scatter { start, place, next, axes: of.axes.clone() })
        }
    };
    TeExpr::new(node, expr.dtype)
}
