//! Recurrent networks: computes all states of one direction, in one loop over time.

use super::{arg, attr, dims, flag, float, of_shape, tensor, text, wrong};
use plugin_api::ir::{Call, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr, TeTensor};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{AttrDecl, DefaultDecl, InferError, OpDecl};

pub(super) const RECURRENT: OpDecl = OpDecl {
    name: "onnx.recurrent",
    doc: "States of an LSTM, GRU or RNN after each step.\n\n `x` is the input times its weights, with biases, by sample and step. `r` are \
          the weights of the state: the columns are the elements of the gates, and each panel, along the first axis, has some of the \
          columns. `bias` is the bias of a GRU's new state that the reset gate scales, `h` and `c` are the initial states, `p` are the \
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
    let (Some(x_dims), Some(r)) = (dims(call, 0, 3)?, dims(call, 1, 3)?) else { return Ok(of_shape(x.dtype, 3, None)) };
    let (gates, more) = match text(call, "kind") {
        "lstm" => (4, 2),
        "gru" => (3, 1),
        "rnn" => (1, 1),
        other => return wrong(format!("`kind` must be lstm, gru or rnn, found `{other}`")),
    };
    let Some(hidden) = r[1].as_int() else { return wrong("the size of the state must be known") };
    let (Some(panels), Some(width)) = (r[0].as_int(), r[2].as_int()) else {
        return wrong("the size of the weights must be known");
    };
    if panels.checked_mul(width) != hidden.checked_mul(gates) {
        return wrong(format!("`r` must have {gates} * {hidden} columns, found {panels} * {width}"));
    }
    Ok(of_shape(x.dtype, 3, Some(vec![x_dims[1].clone(), x_dims[0].clone(), Dim::Int(more * hidden)])))
}

/// The computation of a step.
struct Step<'t> {
    te: &'t Te<'t>,
    call: Call<'t>,
    x: &'t TeTensor,
    r: &'t TeTensor,
    bias: &'t TeTensor,
    p: &'t TeTensor,
    lengths: &'t TeTensor,
    /// Samples, and the size of the state.
    shape: [Dim; 2],
    hidden: i64,
    /// Number of columns of a panel of weights.
    width: i64,
    t: TeExpr,
    acts: Vec<&'t str>,
}

impl Step<'_> {
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

    /// Multiplies rows by the weights of `gates` gates from the gate `first` on. `row` returns an element of a row.
    fn product(&self, name: &str, [first, gates]: [i64; 2], row: impl Fn(&TeExpr, &TeExpr) -> TeExpr) -> TeTensor {
        let k = &self.te.reduce_axis("k", &self.shape[1]);
        let shape = [self.shape[0].clone(), Dim::Int(gates * self.hidden)];
        let weight = |column: TeExpr| match self.r.shape()[0].as_int() {
            Some(1) => self.r.at([TeExpr::int(0, column.dtype()), k.clone(), column]),
            _ => self.r.at([&column / self.width, k.clone(), &column % self.width]),
        };
        self.te.compute(name, &shape, |i| (row(&i[0], k) * weight(&i[1] + first * self.hidden)).sum(&[k]))
    }

    /// Returns a gate before its activation: the input and, if given, a part of a product.
    fn gate(&self, i: &[TeExpr], gate: i64, product: Option<&TeTensor>) -> TeExpr {
        let at = &i[1] + gate * self.hidden;
        let input = self.x.at([&i[0], &self.t, &at]);
        product.map_or(input.clone(), |product| input + product.at([&i[0], &at]))
    }

    /// Returns a new value, or the last one after the end of the sample.
    fn kept(&self, i: &[TeExpr], new: TeExpr, last: TeExpr) -> TeExpr {
        self.t.lt(self.lengths.at([&i[0]])).select(new, last)
    }

    /// Returns the states before the step, each rounded to one of 256 numbers. The initial state already has this form.
    fn quantized(&self, states: &TeTensor) -> TeTensor {
        let (b, u) = (self.te.reduce_axis("b", &self.shape[0]), self.te.reduce_axis("u", &self.shape[1]));
        let zero = || TeExpr::float(0.0, states.dtype());
        let state = || states.at([&self.t, &b, &u]);
        let least = self.te.compute("least", &[], |_| state().smallest_from(zero(), &[&b, &u]));
        let greatest = self.te.compute("greatest", &[], |_| state().largest_from(zero(), &[&b, &u]));
        let one = |of: &TeTensor| of.at(&[] as &[TeExpr]);
        let scale = self.te.compute("scale", &[], |_| {
            let span = one(&greatest) - one(&least);
            span.gt(0.0).select(&span / 255.0, TeExpr::float(1.0, span.dtype()))
        });
        let number = |value: TeExpr| value.max(0.0).min(255.0);
        let origin = self.te.compute("zero", &[], |_| number((-one(&least) / one(&scale)).math("nearbyint")));
        self.te.compute("quantized", &self.shape, |i| {
            let state = states.at([&self.t, &i[0], &i[1]]);
            let rounded = number((&state / one(&scale)).math("nearbyint") + one(&origin));
            self.t.eq(0).select(&state, (rounded - one(&origin)) * one(&scale))
        })
    }

    /// Computes the state and the cell of an LSTM.
    fn lstm(&self, [states, cells]: &[TeTensor; 2]) -> [TeTensor; 2] {
        let quantized = flag(self.call, "quantized").then(|| self.quantized(states));
        let gates = self.product("gates", [0, 4], |b, k| match &quantized {
            Some(states) => states.at([b, k]),
            None => states.at([&self.t, b, k]),
        });
        let gate = |i: &[TeExpr], gate: i64, part: i64, cell: Option<&TeExpr>| {
            let sum = self.gate(i, gate, Some(&gates));
            self.activated(
                0,
                match cell.filter(|_| flag(self.call, "peepholes")) {
                    Some(cell) => sum + self.p.at([&i[1] + part * self.hidden]) * cell,
                    None => sum,
                },
            )
        };
        let cell = self.te.compute("cell", &self.shape, |i| {
            let last = &cells.at([&self.t, &i[0], &i[1]]);
            let input = gate(i, 0, 0, Some(last));
            let forget = match flag(self.call, "coupled") {
                true => TeExpr::float(1.0, input.dtype()) - &input,
                false => gate(i, 2, 2, Some(last)),
            };
            let new = forget * last + input * self.activated(1, self.gate(i, 3, Some(&gates)));
            self.kept(i, new, last.clone())
        });
        let state = self.te.compute("state", &self.shape, |i| {
            let output = gate(i, 1, 1, Some(&cell.at(i)));
            self.kept(i, output * self.applied(2, cell.at(i)), states.at([&self.t, &i[0], &i[1]]))
        });
        [state, cell]
    }

    /// Computes the state of a GRU from its update gate, its reset gate and its new state.
    fn gru(&self, [states]: &[TeTensor; 1]) -> [TeTensor; 1] {
        let last = |b: &TeExpr, k: &TeExpr| states.at([&self.t, b, k]);
        let before = flag(self.call, "linear_before_reset");
        let gates = self.product("gates", [0, if before { 3 } else { 2 }], last);
        let reset = |i: &[TeExpr]| self.activated(0, self.gate(i, 1, Some(&gates)));
        let new = if before {
            self.te.compute("new", &self.shape, |i| {
                let product = self.bias.at([&i[1]]) + gates.at([i[0].clone(), &i[1] + 2 * self.hidden]);
                self.gate(i, 2, None) + reset(i) * product
            })
        } else {
            let passed = self.te.compute("passed", &self.shape, |i| reset(i) * last(&i[0], &i[1]));
            let product = self.product("product", [2, 1], |b, k| passed.at([b, k]));
            self.te.compute("new", &self.shape, |i| self.gate(i, 2, None) + product.at(i))
        };
        let update = self.te.compute("update", &self.shape, |i| self.activated(0, self.gate(i, 0, Some(&gates))));
        [self.te.compute("state", &self.shape, |i| {
            let one = TeExpr::float(1.0, update.dtype());
            let fresh = (one - update.at(i)) * self.activated(1, new.at(i));
            self.kept(i, fresh + update.at(i) * last(&i[0], &i[1]), last(&i[0], &i[1]))
        })]
    }

    fn rnn(&self, [states]: &[TeTensor; 1]) -> [TeTensor; 1] {
        let last = |b: &TeExpr, k: &TeExpr| states.at([&self.t, b, k]);
        let product = self.product("product", [0, 1], last);
        let new = |i: &[TeExpr]| self.activated(0, self.gate(i, 0, Some(&product)));
        [self.te.compute("state", &self.shape, |i| self.kept(i, new(i), last(&i[0], &i[1])))]
    }
}

fn legalize(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("recurrent", call);
    let (x, r, bias) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let (first, cell, p, lengths) = (te.input(3)?, te.input(4)?, te.input(5)?, te.input(6)?);
    let [_, Some(hidden), Some(width)] = [0, 1, 2].map(|at| r.shape()[at].as_int()) else {
        return wrong("the size of the weights must be known");
    };
    let (batch, steps) = (x.shape()[0].clone(), x.shape()[1].clone());
    let step = |t: &TeExpr| Step {
        te: &te,
        call,
        x: &x,
        r: &r,
        bias: &bias,
        p: &p,
        lengths: &lengths,
        shape: [batch.clone(), Dim::Int(hidden)],
        hidden,
        width,
        t: t.clone(),
        acts: text(call, "activations").split(',').collect(),
    };
    let all = match text(call, "kind") {
        "lstm" => te.scan("states", &steps, [&first, &cell], |t, all| step(t).lstm(all)).to_vec(),
        "gru" => te.scan("states", &steps, [&first], |t, all| step(t).gru(all)).to_vec(),
        _ => te.scan("states", &steps, [&first], |t, all| step(t).rnn(all)).to_vec(),
    };
    let out = te.compute("T_states", &[steps.clone(), batch.clone(), Dim::Int(all.len() as i64 * hidden)], |i| {
        let at = |of: &TeTensor, from: i64| of.at([&i[0] + 1, i[1].clone(), &i[2] - from]);
        match &all[..] {
            [states, cells] => i[2].lt(hidden).if_then_else(at(states, 0), at(cells, hidden)),
            _ => at(&all[0], 0),
        }
    });
    te.finish(&[out])
}
