//! Recurrent layers. Their steps are unrolled, so the length of the sequence must be known.

use super::{Row, all};
use crate::graph::Cx;
use crate::node::Node;
use importer::tensor::{Res, T};

pub(super) const ROWS: &[Row] = &[
    all("aten.lstm.input", |cx, n| {
        let start = n.tensors("hx")?;
        let [hidden, cell] = <[T; 2]>::try_from(start).map_err(|_| "its initial state must be two tensors")?;
        layers(cx, n, vec![hidden, cell], lstm)
    }),
    all("aten.gru.input", |cx, n| {
        let hidden = n.t("hx")?;
        layers(cx, n, vec![hidden], gru)
    }),
    all("aten.rnn_tanh.input", |cx, n| {
        let hidden = n.t("hx")?;
        layers(cx, n, vec![hidden], |cx, x, w, state| plain(cx, x, w, state, "tanh"))
    }),
    all("aten.rnn_relu.input", |cx, n| {
        let hidden = n.t("hx")?;
        layers(cx, n, vec![hidden], |cx, x, w, state| plain(cx, x, w, state, "nn.relu"))
    }),
];

/// Maximum number of steps.
const LONGEST: i64 = 1024;

/// The weights of one direction of a layer, for the input and for the state.
struct Weights<'t> {
    input: &'t T,
    hidden: &'t T,
    biases: Option<(&'t T, &'t T)>,
}

/// Computes the next state from an input and the state. The first part of the state is the result of the step.
type Step = fn(&Cx<'_>, &T, &Weights<'_>, &[T]) -> Res<Vec<T>>;

/// Multiplies by a weight, and adds the bias.
fn affine(cx: &Cx<'_>, x: &T, weight: &T, bias: Option<&T>) -> Res<T> {
    let product = cx.matmul(x, &cx.swapped(weight)?)?;
    if let Some(bias) = bias { cx.add(&product, bias) } else { Ok(product) }
}

/// Returns part `k` of the last axis, whose parts have the size of the state.
fn gate(cx: &Cx<'_>, x: &T, k: i64, size: i64) -> Res<T> {
    cx.range(x, 1, k * size, (k + 1) * size)
}

fn size_of(state: &T) -> Res<i64> {
    state.dim(1)?.as_int().ok_or_else(|| "the size of its state must be known".to_string())
}

fn lstm(cx: &Cx<'_>, x: &T, w: &Weights<'_>, state: &[T]) -> Res<Vec<T>> {
    let (hidden, cell) = (&state[0], &state[1]);
    let of_input = affine(cx, x, w.input, w.biases.map(|(bias, _)| bias))?;
    let of_state = affine(cx, hidden, w.hidden, w.biases.map(|(_, bias)| bias))?;
    let (sum, size) = (cx.add(&of_input, &of_state)?, size_of(cell)?);
    let open = |k: i64| cx.un("sigmoid", &gate(cx, &sum, k, size)?);
    let kept = cx.mul(&open(1)?, cell)?;
    let added = cx.mul(&open(0)?, &cx.un("tanh", &gate(cx, &sum, 2, size)?)?)?;
    let cell = cx.add(&kept, &added)?;
    Ok(vec![cx.mul(&open(3)?, &cx.un("tanh", &cell)?)?, cell])
}

fn gru(cx: &Cx<'_>, x: &T, w: &Weights<'_>, state: &[T]) -> Res<Vec<T>> {
    let (hidden, size) = (&state[0], size_of(&state[0])?);
    let of_input = affine(cx, x, w.input, w.biases.map(|(bias, _)| bias))?;
    let of_state = affine(cx, hidden, w.hidden, w.biases.map(|(_, bias)| bias))?;
    let both = |k: i64| -> Res<T> {
        cx.un("sigmoid", &cx.add(&gate(cx, &of_input, k, size)?, &gate(cx, &of_state, k, size)?)?)
    };
    let (reset, update) = (both(0)?, both(1)?);
    let moved = cx.mul(&reset, &gate(cx, &of_state, 2, size)?)?;
    let new = cx.un("tanh", &cx.add(&gate(cx, &of_input, 2, size)?, &moved)?)?;
    Ok(vec![cx.add(&new, &cx.mul(&update, &cx.sub(hidden, &new)?)?)?])
}

fn plain(cx: &Cx<'_>, x: &T, w: &Weights<'_>, state: &[T], activation: &str) -> Res<Vec<T>> {
    let of_input = affine(cx, x, w.input, w.biases.map(|(bias, _)| bias))?;
    let of_state = affine(cx, &state[0], w.hidden, w.biases.map(|(_, bias)| bias))?;
    Ok(vec![cx.un(activation, &cx.add(&of_input, &of_state)?)?])
}

/// Reads all layers. Returns the results of all steps, and the last states of all layers.
fn layers<'a>(cx: &mut Cx<'a>, n: &Node<'a>, start: Vec<T>, step: Step) -> Res<Vec<T>> {
    if n.flag("train", false)? && n.float("dropout", 0.0)? != 0.0 {
        return Err("it drops elements at random; call `model.eval()` before the export".to_string());
    }
    n.ignore(&["dropout"]);
    let (has_biases, count) = (n.flag("has_biases", true)?, n.int("num_layers", 1)?);
    let directions = if n.flag("bidirectional", false)? { 2 } else { 1 };
    let batch_first = n.flag("batch_first", false)?;
    let (given, params) = (n.x()?, n.tensors("params")?);
    let is_batched = given.rank()? == 3;
    let each = if has_biases { 4 } else { 2 };
    if params.len() as i64 != count.saturating_mul(directions).saturating_mul(each) || count < 1 {
        return Err("its number of weights does not match its layers; projections are not supported".to_string());
    }
    let mut x = if is_batched { given } else { cx.unsqueeze(&given, &[1])? };
    let start: Vec<T> = start
        .into_iter()
        .map(|state| if is_batched { Ok(state) } else { cx.unsqueeze(&state, &[1]) })
        .collect::<Res<_>>()?;
    if batch_first && is_batched {
        x = cx.transpose(&x, &[1, 0, 2])?;
    }
    let mut last: Vec<Vec<T>> = vec![Vec::new(); start.len()];
    for layer in 0..count {
        let mut sides = Vec::new();
        for direction in 0..directions {
            let at = layer * directions + direction;
            let own = &params[(at * each) as usize..((at + 1) * each) as usize];
            let biases = if has_biases { Some((&own[2], &own[3])) } else { None };
            let weights = Weights { input: &own[0], hidden: &own[1], biases };
            let state = start.iter().map(|all| cx.pick(all, 0, at)).collect::<Res<Vec<T>>>()?;
            let (results, state) = steps(cx, &x, &weights, state, step, direction == 1)?;
            sides.push(results);
            last.iter_mut().zip(state).for_each(|(all, state)| all.push(state));
        }
        x = cx.concat(&sides, 2)?;
    }
    if batch_first && is_batched {
        x = cx.transpose(&x, &[1, 0, 2])?;
    }
    let mut results = vec![if is_batched { x } else { cx.squeeze(&x, &[1])? }];
    for states in last {
        let states: Vec<T> = states.iter().map(|state| cx.unsqueeze(state, &[0])).collect::<Res<_>>()?;
        let states = cx.concat(&states, 0)?;
        results.push(if is_batched { states } else { cx.squeeze(&states, &[1])? });
    }
    Ok(results)
}

/// Emits the steps of one direction. Returns their results, and the last state.
fn steps(cx: &Cx<'_>, x: &T, w: &Weights<'_>, mut state: Vec<T>, step: Step, reverse: bool) -> Res<(T, Vec<T>)> {
    let length = x.dim(0)?.as_int().filter(|length| (1..=LONGEST).contains(length));
    let length = length.ok_or_else(|| format!("the length of its sequence must be known, and from 1 to {LONGEST}"))?;
    let mut results = Vec::new();
    for at in 0..length {
        let at = if reverse { length - 1 - at } else { at };
        state = step(cx, &cx.pick(x, 0, at)?, w, &state)?;
        results.push(cx.unsqueeze(&state[0], &[0])?);
    }
    if reverse {
        results.reverse();
    }
    Ok((cx.concat(&results, 0)?, state))
}
