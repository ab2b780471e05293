//! Recurrent networks.

use super::quant::dynamic;
use super::{Row, all, ms};
use crate::cx::Cx;
use crate::node::Node;
use crate::value::{Item, Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    all("LSTM", 7, |cx, n| recurrent(cx, n, &LSTM)),
    all("GRU", 7, |cx, n| recurrent(cx, n, &GRU)),
    all("RNN", 7, |cx, n| recurrent(cx, n, &RNN)),
    ms(all("DynamicQuantizeLSTM", 1, quantized_lstm)),
];

/// The kind of a recurrent operator.
struct Kind {
    name: &'static str,
    gates: i64,
    activations: &'static [&'static str],
}

const LSTM: Kind = Kind { name: "lstm", gates: 4, activations: &["Sigmoid", "Tanh", "Tanh"] };
const GRU: Kind = Kind { name: "gru", gates: 3, activations: &["Sigmoid", "Tanh"] };
const RNN: Kind = Kind { name: "rnn", gates: 1, activations: &["Tanh"] };

/// The operands of all directions, with time as the first axis.
struct Operands {
    x: T,
    w: T,
    r: T,
    b: Option<T>,
    lengths: Option<T>,
    h: Option<T>,
    c: Option<T>,
    p: Option<T>,
    /// True if input and states are rounded to 256 levels before they are multiplied.
    quantized: bool,
}

/// The results of all directions.
struct Results {
    y: Vec<T>,
    h: Vec<T>,
    c: Vec<T>,
}

fn recurrent<'a>(cx: &mut Cx<'a>, n: &Node<'a>, kind: &Kind) -> Res<Vec<Item>> {
    let batch_first = n.int("layout", 0)? == 1;
    let turned = |cx: &Cx<'_>, x: T| if batch_first { cx.transpose(&x, &[1, 0, 2]) } else { Ok(x) };
    let is_lstm = kind.name == "lstm";
    let state = |cx: &Cx<'_>, at: usize| n.opt(at)?.map(|x| turned(cx, x)).transpose();
    let operands = Operands {
        x: turned(cx, n.input(0)?)?,
        w: n.input(1)?,
        r: n.input(2)?,
        b: n.opt(3)?,
        lengths: n.opt(4)?,
        h: state(cx, 5)?,
        c: if is_lstm { state(cx, 6)? } else { None },
        p: if is_lstm { n.opt(7)? } else { None },
        quantized: false,
    };
    finished(cx, n, kind, &operands, batch_first)
}

/// Returns the results in the order and layout of the operator.
fn finished<'a>(cx: &mut Cx<'a>, n: &Node<'a>, kind: &Kind, operands: &Operands, batch_first: bool) -> Res<Vec<Item>> {
    let results = directions(cx, n, kind, operands)?;
    let y = super::control::stacked(cx, &results.y, 1)?;
    let turn = |x: &T, axes: &[usize]| if batch_first { cx.transpose(x, axes) } else { Ok(x.clone()) };
    let last = |parts: &[T]| turn(&super::control::stacked(cx, parts, 0)?, &[1, 0, 2]);
    let mut all: Vec<Item> = vec![turn(&y, &[2, 0, 1, 3])?.into(), last(&results.h)?.into()];
    if kind.name == "lstm" {
        all.push(last(&results.c)?.into());
    }
    Ok(all)
}

/// Returns the names of the activations for each direction.
fn activations(n: &Node<'_>, kind: &Kind, directions: usize) -> Res<Vec<String>> {
    let each = kind.activations.len();
    let list =
        |name: &'static str| -> Res<std::vec::IntoIter<f64>> { Ok(n.floats(name)?.unwrap_or_default().into_iter()) };
    let (mut alphas, mut betas) = (list("activation_alpha")?, list("activation_beta")?);
    let names = n
        .texts("activations")?
        .unwrap_or_else(|| kind.activations.iter().cycle().take(each * directions).map(ToString::to_string).collect());
    if names.len() != each * directions {
        return Err(format!("expected {} activations, found {}", each * directions, names.len()));
    }
    // `alphas` and `betas` contain the parameters of all activations in order: each activation with an alpha (or beta) takes the next
    // value.
    let mut full = |name: &String| -> Res<String> {
        let (alpha, beta) = match name.as_str() {
            "Sigmoid" | "Tanh" | "Relu" | "Softsign" | "Softplus" => (None, None),
            "Elu" | "ThresholdedRelu" => (Some(1.0), None),
            "LeakyRelu" => (Some(0.01), None),
            "HardSigmoid" => (Some(0.2), Some(0.5)),
            "Affine" | "ScaledTanh" => (Some(1.0), Some(if name == "Affine" { 0.0 } else { 1.0 })),
            other => return Err(format!("`{other}` is not an ONNX activation")),
        };
        let alpha = alpha.map(|default| alphas.next().unwrap_or(default));
        let beta = beta.map(|default| betas.next().unwrap_or(default));
        let of = |value: Option<f64>| value.map_or(String::new(), |value| format!(":{value}"));
        Ok(format!("{name}{}{}", of(alpha), of(beta)))
    };
    let names: Vec<String> = names.iter().map(&mut full).collect::<Res<_>>()?;
    Ok(names.chunks(each).map(|names| names.join(",")).collect())
}

fn directions<'a>(cx: &mut Cx<'a>, n: &Node<'a>, kind: &Kind, o: &Operands) -> Res<Results> {
    let backward: &[bool] = match n.text("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => return Err(format!("its direction is `{other}`; it must be forward, reverse or bidirectional")),
    };
    n.ignore(&["hidden_size"]);
    let acts = activations(n, kind, backward.len())?;
    let clip = n.float_if("clip")?;
    let coupled = kind.name == "lstm" && n.flag("input_forget", false)?;
    let before_reset = kind.name == "gru" && n.flag("linear_before_reset", false)?;
    let mut results = Results { y: Vec::new(), h: Vec::new(), c: Vec::new() };
    for (d, back) in backward.iter().enumerate() {
        let attrs = [
            ("kind", Attr::from(kind.name)),
            ("activations", acts[d].as_str().into()),
            ("clip", clip.unwrap_or(0.0).into()),
            ("peepholes", o.p.is_some().into()),
            ("linear_before_reset", before_reset.into()),
            ("coupled", coupled.into()),
            ("quantized", o.quantized.into()),
        ];
        one_direction(cx, kind, o, d as i64, *back, before_reset, &attrs, &mut results)?;
    }
    Ok(results)
}

#[expect(clippy::too_many_arguments, reason = "all of it belongs to one direction")]
fn one_direction(
    cx: &Cx<'_>,
    kind: &Kind,
    o: &Operands,
    d: i64,
    back: bool,
    before_reset: bool,
    attrs: &[(&str, Attr)],
    results: &mut Results,
) -> Res<()> {
    let (w, r) = (cx.pick(&o.w, 0, d)?, cx.pick(&o.r, 0, d)?);
    let dtype = o.x.dtype();
    let hidden = r.dim(1)?.as_int().filter(|hidden| *hidden < super::conv::LARGEST);
    let hidden = hidden.ok_or("its hidden size is not known")?;
    let (length, batch) = (o.x.dim(0)?, o.x.dim(1)?);
    let rounded = |x: T| if o.quantized { fake_quantized(cx, &x) } else { Ok(x) };
    let x = rounded(o.x.clone())?;
    let x = if back { reversed(cx, &x, o.lengths.as_ref())? } else { x };
    // The steps follow the samples, so that the tiles of the product have steps as rows: there are often more steps than samples.
    let mut projected = cx.matmul(&cx.transpose(&x, &[1, 0, 2])?, &cx.swapped(&w)?)?;
    let mut recurrent_bias = cx.full(0.0, dtype, &[hidden])?;
    if let Some(b) = &o.b {
        let (bias, of_new) = biases(cx, &cx.pick(b, 0, d)?, kind.gates, hidden, before_reset)?;
        projected = cx.add(&projected, &bias)?;
        recurrent_bias = of_new.unwrap_or(recurrent_bias);
    }
    let state = |given: &Option<T>| match given {
        Some(given) => cx.pick(given, 0, d),
        None => cx.filled(0.0, dtype, &[batch.clone(), Dim::Int(hidden)]),
    };
    let (h, c) = (rounded(state(&o.h)?)?, state(&o.c)?);
    let p = match &o.p {
        Some(p) => cx.pick(p, 0, d)?,
        None => cx.full(0.0, dtype, &[3 * hidden])?,
    };
    let lengths = match &o.lengths {
        Some(lengths) => cx.cast(lengths, DType::I64)?,
        None => {
            let all = cx.reshape(&cx.of_dims(vec![length.clone()])?, vec![])?;
            cx.broadcast_to(&all, std::slice::from_ref(&batch))?
        }
    };
    let r = in_panels(cx, &r, kind.gates * hidden, hidden)?;
    let states = cx.call("onnx.recurrent", &[&projected, &r, &recurrent_bias, &h, &c, &p, &lengths], attrs)?;
    let last = crate::known::sub(&length, &Dim::Int(1));
    let end = cx.squeeze(&cx.range(&states, 0, last, length.clone())?, &[0])?;
    results.h.push(cx.range(&end, 1, 0, hidden)?);
    let mut y = states.clone();
    if kind.name == "lstm" {
        results.c.push(cx.range(&end, 1, hidden, 2 * hidden)?);
        y = cx.range(&states, 2, 0, hidden)?;
    }
    if o.lengths.is_some() {
        let time = cx.reshape(&cx.arange(&length, DType::I64)?, vec![length, Dim::Int(1), Dim::Int(1)])?;
        let inside = cx.bin("less", &time, &cx.reshape(&lengths, vec![batch, Dim::Int(1)])?)?;
        y = cx.select(&inside, &y, &cx.scalar(0.0, dtype)?)?;
    }
    results.y.push(if back { reversed(cx, &y, o.lengths.as_ref())? } else { y });
    Ok(())
}

/// Number of columns of a panel of weights: the number of sums that registers hold for one sample.
const PANEL: [i64; 3] = [64, 32, 16];

/// Returns the weights of the state with their rows as columns, in panels. A step computes the columns of a panel together, and then reads
/// the panel from its start to its end.
fn in_panels(cx: &Cx<'_>, r: &T, columns: i64, hidden: i64) -> Res<T> {
    let width = PANEL.into_iter().find(|width| columns % width == 0).unwrap_or(columns);
    let apart = cx.reshape(r, [columns / width.max(1), width, hidden].map(Dim::Int).to_vec())?;
    cx.transpose(&apart, &[0, 2, 1])
}

/// Returns the biases of all gates. If the reset gate of a GRU also scales the bias of the new state, that bias is returned
/// separately.
fn biases(cx: &Cx<'_>, b: &T, gates: i64, hidden: i64, before_reset: bool) -> Res<(T, Option<T>)> {
    let size = gates * hidden;
    let (of_x, of_h) = (cx.range(b, 0, 0, size)?, cx.range(b, 0, size, 2 * size)?);
    if !before_reset {
        return Ok((cx.add(&of_x, &of_h)?, None));
    }
    let zeros = cx.full(0.0, b.dtype(), &[hidden])?;
    let gates = cx.concat(&[cx.range(&of_h, 0, 0, 2 * hidden)?, zeros], 0)?;
    Ok((cx.add(&of_x, &gates)?, Some(cx.range(&of_h, 0, 2 * hidden, size)?)))
}

/// Reverses a tensor in time, each sample within its own length.
fn reversed(cx: &Cx<'_>, x: &T, lengths: Option<&T>) -> Res<T> {
    match lengths {
        None => cx.call("relax.flip", &[x], &[("axis", 0i64.into())]),
        Some(lengths) => reverse_sequence(cx, x, lengths, 0, 1),
    }
}

/// Reverses a tensor along its time axis, each sample within its own length.
pub(super) fn reverse_sequence(cx: &Cx<'_>, x: &T, lengths: &T, time: usize, batch: usize) -> Res<T> {
    let attrs = [("seq_axis", (time as i64).into()), ("batch_axis", (batch as i64).into())];
    cx.call("relax.reverse_sequence", &[x, &cx.cast(lengths, DType::I64)?], &attrs)
}

/// Rounds floats to 256 levels between the least and the greatest value.
fn fake_quantized(cx: &Cx<'_>, x: &T) -> Res<T> {
    let parts = dynamic(cx, x)?;
    let [numbers, scale, zero] = parts.as_slice() else { return Ok(x.clone()) };
    let apart = cx.sub(&cx.cast(numbers, x.dtype())?, &cx.cast(zero, x.dtype())?)?;
    cx.mul(&apart, scale)
}

/// Emits an LSTM with weights of 8 bits, which are converted to floats. Input and states are quantized when the model runs.
/// Computing with the quantized numbers as floats is exact, because floats represent their products exactly.
fn quantized_lstm<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let real = |cx: &Cx<'_>, at: usize, scale: usize| -> Res<T> {
        let (x, scale, zero) = (n.input(at)?, n.input(scale)?, n.input(scale + 1)?);
        // The gates are the last axis of the weights. Each direction, and possibly each column, has a scale.
        let spread = |part: &T| -> Res<T> {
            let dims = part.dims()?;
            match dims.as_slice() {
                [] => Ok(part.clone()),
                [d] => cx.reshape(part, vec![d.clone(), Dim::Int(1), Dim::Int(1)]),
                [d, g] => cx.reshape(part, vec![d.clone(), Dim::Int(1), g.clone()]),
                _ => Err("the scale of its weights has too many dimensions".to_string()),
            }
        };
        let apart = cx.sub(&cx.cast(&x, DType::F32)?, &cx.cast(&spread(&zero)?, DType::F32)?)?;
        cx.transpose(&cx.mul(&apart, &spread(&scale)?)?, &[0, 2, 1])
    };
    let operands = Operands {
        x: n.input(0)?,
        w: real(cx, 1, 8)?,
        r: real(cx, 2, 10)?,
        b: n.opt(3)?,
        lengths: n.opt(4)?,
        h: n.opt(5)?,
        c: n.opt(6)?,
        p: n.opt(7)?,
        quantized: true,
    };
    finished(cx, n, &LSTM, &operands, false)
}
