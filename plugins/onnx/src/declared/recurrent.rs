//! Recurrent networks: computes all states of one direction, in one loop over time.

use super::{arg, attr, dims, flag, float, of_shape, tensor, text, wrong};
use plugin_api::ir::{Call, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr, TeTensor};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{AttrDecl, DefaultDecl, InferError, OpDecl};

pub(super) const RECURRENT: OpDecl = OpDecl {
    name: "onnx.recurrent",
    doc: "States of an LSTM, GRU or RNN after each step.\n\n `x` is the input times its weights, with biases; `r` are the weights of the \
          state, `bias` is the bias of a GRU's new state that the reset gate scales, `h` and `c` are the initial states, `p` are the \
          peepholes, and `lengths` is the number of steps of each sample. The state of an LSTM is followed by its cell; with `coupled`, \
          the input and forget gates are coupled, and with `quantized`, each state is rounded to 256 numbers, from the least of all \
          samples to the greatest, before it is multiplied. An activation is an ONNX name with its parameters, as in \
          `HardSigmoid:0.2:0.5`.\n\n Type: steps, batch, size of the state",
    args: &[arg("x"), arg("r"), arg("bias"), arg("h"), arg("c"), arg("p"), arg("lengths")],
    attrs: &[
        attr("kind", AttrType::Str),
        attr("activations", AttrType::Str),
        attr("clip", AttrType::Float),
        attr("peepholes", AttrType::Bool),
        attr("linear_before_reset", AttrType::Bool),
        AttrDecl { default: DefaultDecl::Bool(false), ..attr("coupled", AttrType::Bool) },
        AttrDecl { default: DefaultDecl::Bool(false), ..attr("quantized", AttrType::Bool) },
    ],
    infer,
    legalize: Some(legalize),
    ..OpDecl::EMPTY
};

fn infer(call: Call<'_>) -> Result<Type, InferError> {
    let x = tensor(call, 0)?;
    let (Some(x_dims), Some(r)) = (dims(call, 0, 3)?, dims(call, 1, 2)?) else { return Ok(of_shape(x.dtype, 3, None)) };
    let more = match text(call, "kind") {
        "lstm" => 2,
        "gru" | "rnn" => 1,
        other => return wrong(format!("`kind` must be lstm, gru or rnn, found `{other}`")),
    };
    let Some(hidden) = r[1].as_int() else { return wrong("the size of the state must be known") };
    Ok(of_shape(x.dtype, 3, Some(vec![x_dims[0].clone(), x_dims[1].clone(), Dim::Int(more * hidden)])))
}

/// The computation of a step. Each result is in a slot, which is as long as the state.
struct Step<'t> {
    call: Call<'t>,
    r: &'t TeTensor,
    x: &'t TeTensor,
    p: &'t TeTensor,
    hidden: i64,
    batch: &'t TeExpr,
    /// The indices: time, sample, position in the row of the sample, and index of the sum.
    t: &'t TeExpr,
    b: &'t TeExpr,
    j: &'t TeExpr,
    k: &'t TeExpr,
    slots: i64,
    /// The number of elements before the slots. These elements hold the quantized state. The least and the greatest
    /// element of the new states come after the slots.
    ahead: i64,
    acts: Vec<&'t str>,
}

impl Step<'_> {
    /// Returns an element of a slot of this step, or of the previous step if `last` is true.
    fn slot(&self, all: &TeTensor, slot: i64, at: &TeExpr, last: bool) -> TeExpr {
        let time = if last { self.t.clone() } else { self.t + 1 };
        all.at([time, self.b.clone(), at + (slot * self.hidden + self.ahead)])
    }

    /// Returns an element of the previous state.
    fn last(&self, all: &TeTensor, at: &TeExpr) -> TeExpr {
        self.slot(all, self.slots - 1, at, true)
    }

    /// Applies an activation to a sum within the bounds of `clip`.
    fn activated(&self, which: usize, x: TeExpr) -> TeExpr {
        let clip = float(self.call, "clip");
        self.applied(which, if clip > 0.0 { x.min(clip).max(-clip) } else { x })
    }

    fn applied(&self, which: usize, x: TeExpr) -> TeExpr {
        let mut words = self.acts.get(which).copied().unwrap_or("Tanh").split(':');
        let name = words.next().unwrap_or("Tanh");
        let mut param = || words.next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        match name {
            "Sigmoid" => x.math("sigmoid"),
            "Relu" => x.max(0.0),
            "LeakyRelu" => x.lt(0.0).select(&x * param(), &x),
            "ThresholdedRelu" => x.gt(param()).select(&x, TeExpr::float(0.0, x.dtype())),
            "Elu" => x.lt(0.0).select((x.math("exp") - 1.0) * param(), &x),
            "HardSigmoid" => (&x * param() + param()).max(0.0).min(1.0),
            "Affine" => &x * param() + param(),
            "ScaledTanh" => {
                let alpha = param();
                (&x * param()).math("tanh") * alpha
            }
            "Softsign" => &x / (x.max(-x.clone()) + 1.0),
            // This form does not overflow for large numbers.
            "Softplus" => x.max(0.0) + ((-x.max(-x.clone())).math("exp") + 1.0).math("log"),
            _ => x.math("tanh"),
        }
    }

    /// Returns the partial sum after adding one more product.
    fn sum(&self, all: &TeTensor, row: TeExpr, state: TeExpr) -> TeExpr {
        let so_far = all.at([self.t + 1, self.b.clone(), self.j.clone()]);
        so_far + self.r.at([row, self.k.clone()]) * state
    }

    /// Returns a value that is computed only once, at the first index of the sum.
    fn once(&self, all: &TeTensor, value: TeExpr) -> TeExpr {
        let so_far = all.at([self.t + 1, self.b.clone(), self.j.clone()]);
        self.k.eq(0).if_then_else(value, so_far)
    }

    /// Returns the previous state, rounded to one of 256 numbers. The initial state already has this form.
    fn quantized(&self, all: &TeTensor) -> TeExpr {
        let (state, end) = (self.last(all, self.j), self.slots * self.hidden + self.ahead);
        let all_samples = |at: i64| all.at([self.t.clone(), self.batch - 1, TeExpr::int(at, self.j.dtype())]);
        let (least, greatest) = (all_samples(end), all_samples(end + 1));
        let span = greatest - &least;
        let scale = span.gt(0.0).select(&span / 255.0, TeExpr::float(1.0, span.dtype()));
        let number = |value: TeExpr| value.max(0.0).min(255.0);
        let zero = number((-least / &scale).math("nearbyint"));
        let rounded = number((&state / &scale).math("nearbyint") + &zero);
        self.t.eq(0).if_then_else(state, (rounded - zero) * scale)
    }

    /// Returns the least or the greatest of 0 and all states so far, including the states of earlier samples.
    fn extreme(&self, all: &TeTensor, is_least: bool) -> TeExpr {
        let at = |b: TeExpr| all.at([self.t + 1, b, self.j.clone()]);
        let earlier = self.b.eq(0).if_then_else(TeExpr::float(0.0, all.dtype()), at(self.b - 1));
        let so_far = self.k.eq(0).if_then_else(earlier, at(self.b.clone()));
        let state = self.slot(all, self.slots - 1, self.k, false);
        if is_least { so_far.min(state) } else { so_far.max(state) }
    }

    fn lstm(&self, all: &TeTensor, lengths: &TeTensor) -> TeExpr {
        if self.ahead == 0 {
            return self.gates(all, lengths, self.j, self.last(all, self.k));
        }
        let (end, j) = (self.slots * self.hidden + self.ahead, self.j - self.ahead);
        let state = all.at([self.t + 1, self.b.clone(), self.k.clone()]);
        let gates = self.gates(all, lengths, &j, state);
        let extremes = self.j.eq(end).if_then_else(self.extreme(all, true), self.extreme(all, false));
        let late = self.j.lt(end).if_then_else(gates, extremes);
        self.j.lt(self.ahead).if_then_else(self.once(all, self.quantized(all)), late)
    }

    /// Computes the slots of an LSTM: its gates, the cell and the state. `j` is the position in the slots, and `state` is the factor of
    /// the weights.
    fn gates(&self, all: &TeTensor, lengths: &TeTensor, j: &TeExpr, state: TeExpr) -> TeExpr {
        let h = self.hidden;
        let goes = self.t.lt(lengths.at([self.b]));
        let peep = |gate: TeExpr, part: i64, u: &TeExpr, cell: TeExpr| match flag(self.call, "peepholes") {
            true => gate + self.p.at([u + part * h]) * cell,
            false => gate,
        };
        let u = j - 4 * h;
        let last_cell = self.slot(all, 4, &u, true);
        let input = self.activated(0, peep(self.slot(all, 0, &u, false), 0, &u, last_cell.clone()));
        let forget = match flag(self.call, "coupled") {
            true => TeExpr::float(1.0, input.dtype()) - &input,
            false => self.activated(0, peep(self.slot(all, 2, &u, false), 2, &u, last_cell.clone())),
        };
        let fresh = self.activated(1, self.slot(all, 3, &u, false));
        let cell = goes.if_then_else(forget * &last_cell + input * fresh, last_cell);
        let u = j - 5 * h;
        let new_cell = self.slot(all, 4, &u, false);
        let output = self.activated(0, peep(self.slot(all, 1, &u, false), 1, &u, new_cell.clone()));
        let new = goes.if_then_else(output * self.applied(2, new_cell), self.last(all, &u));
        let sum = self.sum(all, j.clone(), state);
        let rest = j.lt(5 * h).if_then_else(self.once(all, cell), self.once(all, new));
        j.lt(4 * h).if_then_else(sum, rest)
    }

    /// Computes the slots of a GRU: the update gate, the reset gate, the part of the state after the reset gate, the
    /// new state, and the state.
    fn gru(&self, all: &TeTensor, lengths: &TeTensor) -> TeExpr {
        let h = self.hidden;
        let before = flag(self.call, "linear_before_reset");
        let u = self.j - 2 * h;
        let passed = self.activated(0, self.slot(all, 1, &u, false)) * self.last(all, &u);
        let of = if before { self.last(all, self.k) } else { self.slot(all, 2, self.k, false) };
        let new = self.sum(all, self.j - h, of);
        let u = self.j - 4 * h;
        let update = self.activated(0, self.slot(all, 0, &u, false));
        let fresh = self.slot(all, 3, &u, false);
        let fresh = match before {
            true => {
                let of_x = self.x.at([self.t.clone(), self.b.clone(), &u + 2 * h]);
                self.activated(1, of_x + self.activated(0, self.slot(all, 1, &u, false)) * fresh)
            }
            false => self.activated(1, fresh),
        };
        let one = TeExpr::float(1.0, fresh.dtype());
        let state = (one - &update) * fresh + update * self.last(all, &u);
        let goes = self.t.lt(lengths.at([self.b]));
        let state = goes.if_then_else(state, self.last(all, &u));
        let gates = self.sum(all, self.j.clone(), self.last(all, self.k));
        let late = self.j.lt(4 * h).if_then_else(new, self.once(all, state));
        let rest = self.j.lt(3 * h).if_then_else(self.once(all, passed), late);
        self.j.lt(2 * h).if_then_else(gates, rest)
    }

    fn rnn(&self, all: &TeTensor, lengths: &TeTensor) -> TeExpr {
        let u = self.j - self.hidden;
        let state = self.activated(0, self.slot(all, 0, &u, false));
        let state = self.t.lt(lengths.at([self.b])).if_then_else(state, self.last(all, &u));
        let sum = self.sum(all, self.j.clone(), self.last(all, self.k));
        self.j.lt(self.hidden).if_then_else(sum, self.once(all, state))
    }
}

/// Returns the states before the loop: time 0 contains the initial states, and later times contain the input.
fn started(
    te: &Te<'_>,
    call: Call<'_>,
    [x, bias, first, cell]: [&TeTensor; 4],
    shape: &[Dim],
    (slots, hidden, ahead): (i64, i64, i64),
) -> TeTensor {
    let kind = text(call, "kind");
    let before = flag(call, "linear_before_reset");
    let zero = || TeExpr::float(0.0, x.dtype());
    te.compute("start", shape, |i| {
        let (t, b) = (&i[0], &i[1]);
        let j = &if ahead == 0 { i[2].clone() } else { &i[2] - ahead };
        let state = |from: &TeTensor, slot: i64| from.at([b.clone(), j - slot * hidden]);
        let states = match kind {
            "lstm" => {
                j.lt(4 * hidden).if_then_else(zero(), j.lt(5 * hidden).if_then_else(state(cell, 4), state(first, 5)))
            }
            _ => j.lt((slots - 1) * hidden).if_then_else(zero(), state(first, slots - 1)),
        };
        let of_x = |by: i64| x.at([t - 1, b.clone(), j - by]);
        let inputs = match kind {
            "lstm" => j.lt(4 * hidden).if_then_else(of_x(0), zero()),
            "gru" => {
                let new = if before { bias.at([j - 3 * hidden]) } else { of_x(hidden) };
                let late = j.lt(4 * hidden).if_then_else(new, zero());
                j.lt(2 * hidden).if_then_else(of_x(0), j.lt(3 * hidden).if_then_else(zero(), late))
            }
            _ => j.lt(hidden).if_then_else(of_x(0), zero()),
        };
        let slots_of = t.eq(0).if_then_else(states, inputs);
        match ahead {
            0 => slots_of,
            _ => {
                let inside = i[2].ge(ahead).and(i[2].lt(ahead + slots * hidden));
                inside.if_then_else(slots_of, zero())
            }
        }
    })
}

fn legalize(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("recurrent", call);
    let (x, r, bias) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let (first, cell, p, lengths) = (te.input(3)?, te.input(4)?, te.input(5)?, te.input(6)?);
    let Some(hidden) = r.shape()[1].as_int() else { return wrong("the size of the state is not known") };
    let kind = text(call, "kind");
    let slots = match kind {
        "lstm" => 6,
        "gru" => 5,
        _ => 2,
    };
    let (steps, batch) = (x.shape()[0].clone(), x.shape()[1].clone());
    let (ahead, after) = if flag(call, "quantized") { (hidden, 2) } else { (0, 0) };
    let row = Dim::Int(ahead + slots * hidden + after);
    let shape = [steps.clone() + 1, batch.clone(), row.clone()];
    let start = started(&te, call, [&x, &bias, &first, &cell], &shape, (slots, hidden, ahead));
    let t = te.reduce_axis("t", &steps);
    let b = te.reduce_axis("b", &batch);
    let (j, k) = (te.reduce_axis("j", &row), te.reduce_axis("k", &Dim::Int(hidden)));
    let samples = TeExpr::of_dim(batch.clone());
    let acts: Vec<&str> = text(call, "activations").split(',').collect();
    let place = [&t + 1, b.clone(), j.clone()];
    let states = te.scatter("states", &start, &[&t, &b, &j, &k], &place, |all| {
        let (batch, t, b, j, k) = (&samples, &t, &b, &j, &k);
        let step = Step { call, r: &r, x: &x, p: &p, hidden, batch, t, b, j, k, slots, ahead, acts };
        match kind {
            "lstm" => step.lstm(all, &lengths),
            "gru" => step.gru(all, &lengths),
            _ => step.rnn(all, &lengths),
        }
    });
    let more = if kind == "lstm" { 2 } else { 1 };
    let out = te.compute("T_states", &[steps, batch, Dim::Int(more * hidden)], |i| {
        let at = |slot: i64| states.at([&i[0] + 1, i[1].clone(), &i[2] + (slot * hidden + ahead)]);
        match kind {
            // The slot of the state precedes that of the cell.
            "lstm" => i[2].lt(hidden).if_then_else(at(5), at(3)),
            _ => at(slots - 1),
        }
    });
    te.finish(&[out])
}
