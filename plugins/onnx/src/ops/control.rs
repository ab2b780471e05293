//! Branches, loops, sequences and optional values.

use super::{Row, all, one};
use crate::cx::Cx;
use crate::node::Node;
use crate::proto;
use crate::rounds::{self, Rest};
use crate::value::{Item, Res, T, axis_of};
use importer::branches::either;
use plugin_api::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Maximum trip count of a loop.
const ROUNDS: i64 = 10_000;

pub(super) const ROWS: &[Row] = &[
    all("If", 7, branch).converting(),
    all("Loop", 7, repeat).converting(),
    all("Scan", 9, scan).converting(),
    all("SequenceEmpty", 11, |_, n| {
        n.ignore(&["dtype"]);
        Ok(vec![Item::Sequence(Rc::new(Vec::new()))])
    }),
    all("SequenceConstruct", 11, |_, n| {
        let items = n.all()?.into_iter().map(Item::from).collect();
        Ok(vec![Item::Sequence(Rc::new(items))])
    }),
    all("SequenceInsert", 11, |_, n| {
        let mut items = sequence(n, 0)?;
        let at = match n.known_ints(2)? {
            None => items.len(),
            Some(at) => place(at.first().copied().unwrap_or(0), items.len(), true)?,
        };
        items.insert(at, n.input(1)?.into());
        Ok(vec![Item::Sequence(Rc::new(items))])
    }),
    all("SequenceErase", 11, |_, n| {
        let mut items = sequence(n, 0)?;
        let at = match n.known_ints(1)? {
            None => items.len().checked_sub(1).ok_or("its sequence is empty")?,
            Some(at) => place(at.first().copied().unwrap_or(0), items.len(), false)?,
        };
        items.remove(at);
        Ok(vec![Item::Sequence(Rc::new(items))])
    }),
    all("SequenceAt", 11, |_, n| {
        let items = sequence(n, 0)?;
        let at = n.known_ints(1)?.and_then(|at| at.first().copied()).ok_or("its position is missing")?;
        Ok(vec![items[place(at, items.len(), false)?].clone()])
    }),
    one("SequenceLength", 11, |cx, n| cx.int64s(&[], &[sequence(n, 0)?.len() as i64])),
    one("ConcatFromSequence", 11, |cx, n| {
        let parts: Vec<T> = sequence(n, 0)?.iter().map(Item::tensor).collect::<Res<_>>()?;
        let first = parts.first().ok_or("its sequence is empty")?;
        let axis = n.int_if("axis")?.ok_or("its attribute `axis` is missing")?;
        if !n.flag("new_axis", false)? {
            let axis = first.axis(axis)?;
            return cx.concat(&parts, axis);
        }
        let axis = axis_of(axis, first.rank()? + 1)?;
        let parts: Vec<T> = parts.iter().map(|part| cx.unsqueeze(part, &[axis])).collect::<Res<_>>()?;
        cx.concat(&parts, axis)
    }),
    all("SplitToSequence", 11, split_to_sequence),
    all("SequenceMap", 17, sequence_map),
    all("Optional", 15, |_, n| {
        n.ignore(&["type"]);
        Ok(vec![n.item(0).unwrap_or(Item::Nothing)])
    }),
    one("OptionalHasElement", 15, |cx, n| {
        if n.proto.input.first().is_some_and(|name| cx.scopes.optional.contains(&name.as_str())) {
            return Err(
                "it tests whether a model input is present, which is not known before the model runs".to_string()
            );
        }
        let has = n.item(0).is_some_and(|item| !matches!(item, Item::Nothing));
        cx.full(f64::from(u8::from(has)), DType::BOOL, &[])
    }),
    all("OptionalGetElement", 15, |_, n| match n.item(0) {
        Some(Item::Nothing) | None => Err("its optional input is empty".to_string()),
        Some(item) => Ok(vec![item]),
    }),
];

fn sequence(n: &Node<'_>, at: usize) -> Res<Vec<Item>> {
    match n.item(at) {
        Some(Item::Sequence(items)) => Ok(items.to_vec()),
        _ => Err(format!("its input {at} is not a sequence")),
    }
}

/// Returns a position in a sequence; negative positions count from the end.
fn place(at: i64, len: usize, behind: bool) -> Res<usize> {
    let counted = if at < 0 { at + len as i64 } else { at };
    let most = if behind { len as i64 } else { len as i64 - 1 };
    match (0..=most).contains(&counted) {
        true => Ok(counted as usize),
        false => Err(format!("position {at} is outside a sequence of length {len}")),
    }
}

/// Returns the value of a condition, if known.
fn truth(cond: &T) -> Option<bool> {
    cond.ints()?.first().map(|value| *value != 0)
}

/// Reads one branch if the condition is known, otherwise both branches.
fn branch<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (then, otherwise) = (n.graph("then_branch")?, n.graph("else_branch")?);
    let cond = n.input(0)?;
    if let Some(holds) = truth(&cond) {
        return cx.graph(if holds { then } else { otherwise }, Vec::new());
    }
    // Exporters emit this form to remove an axis of symbolic length. The length is checked when the model runs.
    if is_only("Squeeze", then) && is_only("Identity", otherwise) {
        cx.scopes.note(
            "the branch that removes an axis is taken, with a run-time check that this axis has length 1; if it has a \
             different length, specify its size, as in `sizes=[\"n=2\"]`",
        );
        return cx.graph(then, Vec::new());
    }
    if cx.scopes.dataflow {
        cx.scopes.needs_branches = true;
        return Err("its condition is not a constant".to_string());
    }
    let first = RefCell::new(None);
    let side = |cx: &mut Cx<'a>, holds: bool| {
        let mut results = cx.graph(if holds { then } else { otherwise }, Vec::new())?;
        results.truncate(n.n_outputs());
        let (lengths, tensors): (Vec<Option<usize>>, Vec<Vec<T>>) =
            results.iter().map(|item| flat(item, n)).collect::<Res<Vec<_>>>()?.into_iter().unzip();
        match first.borrow_mut().get_or_insert_with(|| lengths.clone()) {
            same if *same == lengths => Ok(tensors.concat()),
            _ => Err(n.must_be_known(0)),
        }
    };
    let mut tensors = either(cx, &cond, side)?.into_iter().map(Item::from);
    let lengths = first.take().unwrap_or_default();
    Ok(lengths
        .into_iter()
        .filter_map(|length| match length {
            None => tensors.next(),
            Some(length) => Some(Item::Sequence(Rc::new(tensors.by_ref().take(length).collect()))),
        })
        .collect())
}

/// Returns the tensors in a result of a branch, and the length of the result if it is a sequence.
fn flat(item: &Item, n: &Node<'_>) -> Res<(Option<usize>, Vec<T>)> {
    match item {
        Item::Sequence(items) => Ok((Some(items.len()), items.iter().map(wide).collect::<Res<_>>()?)),
        Item::Nothing => Err(n.must_be_known(0)),
        other => Ok((None, vec![wide(other)?])),
    }
}

/// Returns a result of a branch as a tensor. The results of `If` have the types of Relax, which lacks narrow types.
fn wide(item: &Item) -> Res<T> {
    let x = item.tensor()?;
    match x.narrow() {
        None => Ok(x),
        Some(narrow) => {
            Err(format!("its branches return {narrow}, which is not supported; insert a Cast into each branch"))
        }
    }
}

/// Returns true if a graph consists of one call of this operator, apart from constants.
fn is_only(op: &str, graph: &proto::Graph) -> bool {
    let mut others = graph.node.iter().filter(|node| node.op_type != "Constant");
    others.next().is_some_and(|node| node.op_type == op) && others.next().is_none()
}

/// Repeats the body of a loop as long as it is known that it goes on. The other iterations are read as a function.
fn repeat<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let body = n.graph("body")?;
    let (limit, mut cond) = (n.opt(0)?, n.opt(1)?);
    let most = limit.as_ref().and_then(T::ints).and_then(|most| most.first().copied());
    let mut carried: Vec<Item> =
        (2..n.n_inputs()).map(|at| n.item(at).ok_or("an initial value is missing")).collect::<Result<_, _>>()?;
    let n_scans = n.n_outputs().saturating_sub(carried.len());
    let mut scans: Vec<Vec<T>> = vec![Vec::new(); n_scans];
    let mut round = 0;
    loop {
        let goes = cond.as_ref().map_or(Some(true), truth);
        if goes == Some(false) || most.is_some_and(|most| round >= most) {
            break;
        }
        if goes.is_none() || (limit.is_some() && most.is_none()) {
            let carried = carried.iter().map(Item::tensor).collect::<Res<Vec<T>>>().map_err(|why| {
                format!(
                    "{why}; a loop whose number of iterations depends on data carries only tensors: specify this number if \
                     it is a model input, as in `values=[\"n=4\"]`"
                )
            })?;
            let rest = Rest { body, round, most: limit, cond, carried, scans, scanned: Vec::new() };
            let (carried, stacks) = rounds::read(cx, rest)?;
            return Ok(carried.into_iter().chain(stacks).map(Item::from).collect());
        }
        if round >= ROUNDS {
            return Err(format!("it runs more than {ROUNDS} iterations"));
        }
        let given = [cx.int64s(&[], &[round])?, cx.full(1.0, DType::BOOL, &[])?]
            .map(Item::from)
            .into_iter()
            .chain(carried.iter().cloned());
        let mut results = one_round(cx, body, given, 1 + carried.len(), &mut scans)?;
        cond = Some(results[0].tensor()?);
        carried = results.split_off(1);
        round += 1;
    }
    let mut results = carried;
    for (k, parts) in scans.into_iter().enumerate() {
        let at = results.len();
        results.push(match parts.is_empty() {
            false => stacked(cx, &parts, 0)?.into(),
            true => nothing(cx, body.output.get(1 + at).ok_or_else(|| format!("the type of result {k} is missing"))?)?
                .into(),
        });
    }
    Ok(results)
}

/// Reads the body of a loop once. Returns the first `n_kept` results, and adds each other result to its scan.
fn one_round<'a>(
    cx: &mut Cx<'a>,
    body: &'a proto::Graph,
    given: impl IntoIterator<Item = Item>,
    n_kept: usize,
    scans: &mut [Vec<T>],
) -> Res<Vec<Item>> {
    let mut results = cx.body(body, given)?;
    let needed = n_kept + scans.len();
    if results.len() != needed {
        return Err(format!("expected {needed} results of its body, found {}", results.len()));
    }
    for (all, item) in scans.iter_mut().zip(results.split_off(n_kept)) {
        all.push(item.tensor()?);
    }
    Ok(results)
}

/// Returns a stack of no tensors, whose type is given.
fn nothing(cx: &Cx<'_>, of: &proto::ValueInfo) -> Res<T> {
    let Some(proto::TypeValue::Tensor(ty)) = of.r#type.as_ref().and_then(|ty| ty.value.as_ref()) else {
        return Err("a loop without iterations has a result of unknown type".to_string());
    };
    let shape = ty.shape.as_ref().ok_or("a loop without iterations has a result of unknown shape")?;
    let mut dims = vec![Dim::Int(0)];
    for dim in &shape.dim {
        match &dim.value {
            Some(proto::Extent::Value(size)) => dims.push(Dim::Int(*size)),
            _ => return Err("a loop without iterations has a result of unknown size".to_string()),
        }
    }
    cx.filled(0.0, crate::tensors::dtype_of(ty.elem_type)?, &dims)
}

/// Stacks tensors along a new axis.
pub(crate) fn stacked(cx: &Cx<'_>, parts: &[T], axis: usize) -> Res<T> {
    let parts: Vec<T> = parts.iter().map(|part| cx.unsqueeze(part, &[axis])).collect::<Res<_>>()?;
    cx.concat(&parts, axis)
}

/// Returns the numbers in an attribute; if the attribute is missing, all are 0.
fn numbers(n: &Node<'_>, name: &'static str, len: usize) -> Res<Vec<i64>> {
    let list = n.ints(name)?.unwrap_or_else(|| vec![0; len]);
    match list.len() == len {
        true => Ok(list),
        false => Err(format!("its attribute `{name}` has {} numbers; expected {len}", list.len())),
    }
}

/// Repeats the body for each element of an axis. If the length of the axis is symbolic, the iterations are read as a function.
fn scan<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let body = n.graph("body")?;
    let n_scanned = n.int_if("num_scan_inputs")?.ok_or("its attribute `num_scan_inputs` is missing")?;
    let n_scanned = usize::try_from(n_scanned).map_err(|_| "its attribute `num_scan_inputs` is negative")?;
    let n_carried = n.n_inputs().checked_sub(n_scanned).ok_or("it has fewer inputs than `num_scan_inputs`")?;
    let n_scans = n.n_outputs().saturating_sub(n_carried);
    let list = |name: &'static str, len: usize| numbers(n, name, len);
    let (in_axes, in_back) = (list("scan_input_axes", n_scanned)?, list("scan_input_directions", n_scanned)?);
    let (out_axes, out_back) = (list("scan_output_axes", n_scans)?, list("scan_output_directions", n_scans)?);
    let mut carried: Vec<Item> =
        (0..n_carried).map(|at| n.item(at).ok_or("an initial value is missing")).collect::<Result<_, _>>()?;
    let scanned: Vec<T> = (0..n_scanned).map(|at| n.input(n_carried + at)).collect::<Res<_>>()?;
    let axes: Vec<usize> = scanned.iter().zip(&in_axes).map(|(x, axis)| x.axis(*axis)).collect::<Res<_>>()?;
    let first = scanned.first().ok_or("it has no scan inputs")?;
    let length = first.dim(axes[0])?;
    let Some(rounds) = length.as_int() else {
        let carried = carried.iter().map(Item::tensor).collect::<Res<Vec<T>>>()?;
        let most = Some(cx.reshape(&cx.of_dims(vec![length.clone()])?, vec![])?);
        let scanned =
            scanned.into_iter().zip(axes).zip(&in_back).map(|((x, axis), back)| (x, axis, *back == 1)).collect();
        let rest = Rest { body, round: 0, most, cond: None, carried, scans: vec![Vec::new(); n_scans], scanned };
        let (carried, stacks) = rounds::read(cx, rest)?;
        let outputs = stacks.iter().zip(out_axes.iter().zip(&out_back));
        let outputs = outputs.map(|(stack, (axis, back))| laid(cx, stack, &length, *axis, *back == 1));
        return carried.into_iter().map(Ok).chain(outputs).map(|x| x.map(Item::from)).collect();
    };
    if rounds > ROUNDS {
        return Err(format!("it runs more than {ROUNDS} iterations"));
    }
    let mut scans: Vec<Vec<T>> = vec![Vec::new(); n_scans];
    for round in 0..rounds {
        let mut given = carried.clone();
        for (k, x) in scanned.iter().enumerate() {
            let at = if in_back[k] == 1 { rounds - 1 - round } else { round };
            given.push(cx.pick(x, axes[k], at)?.into());
        }
        carried = one_round(cx, body, given, n_carried, &mut scans)?;
    }
    let mut results = carried;
    for (k, mut parts) in scans.into_iter().enumerate() {
        if out_back[k] == 1 {
            parts.reverse();
        }
        let first = parts.first().ok_or("its scan inputs are empty")?;
        let axis = axis_of(out_axes[k], first.rank()? + 1)?;
        results.push(stacked(cx, &parts, axis)?.into());
    }
    Ok(results)
}

/// Returns a stack of the results of a scan, of known length, in the required direction and with the required axis.
fn laid(cx: &Cx<'_>, stack: &T, length: &Dim, axis: i64, backward: bool) -> Res<T> {
    let mut dims = stack.dims()?;
    dims[0] = length.clone();
    let mut stack = cx.as_shape(stack, dims)?;
    if backward {
        stack = cx.call("relax.flip", &[&stack], &[("axis", 0i64.into())])?;
    }
    let rank = stack.rank()?;
    let to = axis_of(axis, rank)?;
    let mut order: Vec<usize> = (1..rank).collect();
    order.insert(to, 0);
    cx.transpose(&stack, &order)
}

fn split_to_sequence<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let x = n.input(0)?;
    let axis = x.axis(n.int("axis", 0)?)?;
    let size = x.dim(axis)?.as_int().filter(|size| *size <= ROUNDS);
    let size = size.ok_or("the length of the split axis is symbolic or too large; specify the input sizes")?;
    let keep = n.flag("keepdims", true)?;
    let given = n.known_ints(1)?;
    let scalar = n.opt(1)?.is_some_and(|sizes| sizes.rank() == Ok(0));
    let sizes = match &given {
        None => vec![1; size as usize],
        Some(each) if scalar => {
            let each =
                each.first().copied().filter(|each| *each > 0).ok_or("the length of its parts must be positive")?;
            (0..size).step_by(each.min(size.max(1)) as usize).map(|from| each.min(size - from)).collect()
        }
        Some(sizes) => sizes.clone(),
    };
    let (mut from, mut items) = (0, Vec::new());
    for size in sizes {
        let part = cx.range(&x, axis, from, from.saturating_add(size))?;
        items.push(Item::from(if given.is_none() && !keep { cx.squeeze(&part, &[axis])? } else { part }));
        from = from.saturating_add(size);
    }
    Ok(vec![Item::Sequence(Rc::new(items))])
}

/// Reads the body once for each element of sequences.
fn sequence_map<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let body = n.graph("body")?;
    let inputs: Vec<Item> =
        (0..n.n_inputs()).map(|at| n.item(at).ok_or("an input is missing")).collect::<Result<_, _>>()?;
    let Some(Item::Sequence(first)) = inputs.first() else { return Err("its input 0 is not a sequence".to_string()) };
    let mut results: Vec<Vec<Item>> = vec![Vec::new(); body.output.len()];
    for at in 0..first.len() {
        let of = |item: &Item| match item {
            Item::Sequence(items) => items.get(at).cloned().ok_or("its sequences differ in length"),
            other => Ok(other.clone()),
        };
        let given: Vec<Item> = inputs.iter().map(of).collect::<Result<_, _>>()?;
        for (all, item) in results.iter_mut().zip(cx.body(body, given)?) {
            all.push(item);
        }
    }
    Ok(results.into_iter().map(|items| Item::Sequence(Rc::new(items))).collect())
}
