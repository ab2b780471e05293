//! Higher-order operators, whose arguments are graphs.

use super::{Row, Run};
use crate::graph::{Cx, Item};
use crate::json::{list, union};
use crate::node::{Node, Val};
use importer::branches::either;
use importer::known::Elem;
use importer::tensor::{Res, T};
use plugin_api::prelude::*;
use serde_json::Value;

pub(super) const ROWS: &[Row] = &[
    Row { name: "higher_order.cond", run: Run::Inline(cond) },
    Row { name: "higher_order.wrap_with_set_grad_enabled", run: Run::Inline(inline) },
];

/// Returns true if a graph, or a graph inside it, has a branch.
pub(crate) fn has_branches(graph: &Value) -> bool {
    let nodes = graph.get("nodes").and_then(Value::as_array);
    nodes.into_iter().flatten().any(|node| {
        let inputs = node.get("inputs").and_then(Value::as_array).into_iter().flatten();
        let mut graphs = inputs.filter_map(|input| input.get("arg")?.get("as_graph")?.get("graph"));
        let target = node.get("target").and_then(Value::as_str);
        target == Some("torch.ops.higher_order.cond") || graphs.any(has_branches)
    })
}

/// Converts an argument to inputs of a graph.
fn items<'a>(val: &Val<'a>) -> Res<Vec<Item>> {
    let tensor = |x: &Option<T>| x.clone().map_or(Item::None, Item::Tensor);
    Ok(match val {
        Val::Tensor(tensor) => vec![Item::Tensor(tensor.clone())],
        Val::Tensors(all) => all.iter().map(tensor).collect(),
        Val::Items(all) => all.clone(),
        Val::Number(number) => vec![Item::Number(number.clone())],
        Val::Numbers(all) => all.iter().cloned().map(Item::Number).collect(),
        Val::Bool(value) => vec![Item::Number(Elem::int((*value).into()))],
        Val::None => vec![Item::None],
        _ => return Err("an input of its graph is neither a tensor nor a number".to_string()),
    })
}

/// Returns the named inputs of a graph with their values. Constant inputs do not have names.
fn given<'a>(graph: &'a Value, values: &[Item]) -> Res<Vec<(&'a str, Item)>> {
    let inputs = list(graph, "inputs")?;
    if inputs.len() != values.len() {
        return Err(format!("its graph has {} inputs, found {}", inputs.len(), values.len()));
    }
    let mut given = Vec::new();
    for (input, value) in inputs.iter().zip(values) {
        let (_, input) = union(input)?;
        let name = ["name", "as_name"].into_iter().find_map(|key| input.get(key)).and_then(Value::as_str);
        given.extend(name.map(|name| (name, value.clone())));
    }
    Ok(given)
}

/// Reads a graph, and returns its results except `None`, which has no name in the node.
fn results<'a>(cx: &mut Cx<'a>, graph: &'a Value, values: &[Item]) -> Res<Vec<Item>> {
    let results = cx.graph(graph, given(graph, values)?)?;
    Ok(results.into_iter().filter(|item| !matches!(item, Item::None)).collect())
}

/// Reads the graph that is the argument of a node. The arguments after it are its inputs.
fn inline<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    n.ignore_all();
    let place = n.args.iter().position(|(_, val)| matches!(val, Val::Graph(_))).ok_or("its graph is missing")?;
    let Val::Graph(graph) = &n.args[place].1 else { return Err("its graph is missing".to_string()) };
    let values: Vec<Vec<Item>> = n.args[place + 1..].iter().map(|(_, val)| items(val)).collect::<Res<_>>()?;
    results(cx, graph, &values.concat())
}

/// Reads one branch if the condition is known, otherwise both.
fn cond<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<Vec<Item>> {
    let (Val::Graph(then), Val::Graph(otherwise)) = (n.at(1)?, n.at(2)?) else {
        return Err("its second and third arguments must be graphs".to_string());
    };
    let values = items(n.at(3)?)?;
    let holds = match n.at(0)? {
        Val::Tensor(x) => x.clone(),
        Val::Bool(value) => cx.full(f64::from(u8::from(*value)), DType::BOOL, &[])?,
        Val::Number(Elem::Int(dim)) => cx.cast(&cx.reshape(&cx.of_dims(vec![dim.clone()])?, vec![])?, DType::BOOL)?,
        _ => return Err("its condition is not a truth value".to_string()),
    };
    if let Some(known) = holds.ints().and_then(|holds| holds.first().copied()) {
        return results(cx, if known != 0 { then } else { otherwise }, &values);
    }
    if holds.dtype() != DType::BOOL {
        return Err(format!("its condition has the type {}; a truth value is needed", holds.dtype()));
    }
    let is_number = numbers(then)?;
    if is_number != numbers(otherwise)? {
        return Err("its branches return different kinds of results".to_string());
    }
    let side = |cx: &mut Cx<'a>, holds: bool| {
        // Sizes that a branch computes have no symbols outside of it.
        let symbols = cx.symbols.clone();
        let read = results(cx, if holds { then } else { otherwise }, &values);
        let tensors = read.and_then(|items| items.iter().map(|item| tensor(cx, item)).collect());
        cx.symbols = symbols;
        tensors
    };
    let tensors = either(cx, &holds, side)?;
    let item = |(x, is_number): (T, bool)| match is_number {
        false => Ok(Item::Tensor(x)),
        true => Ok(Item::Number(Elem::Int(cx.dims_of(&x, "cond")?.remove(0)))),
    };
    tensors.into_iter().zip(is_number).map(item).collect()
}

/// Returns, for each result of a graph that is not `None`, true if it is a number.
fn numbers(graph: &Value) -> Res<Vec<bool>> {
    let mut is_number = Vec::new();
    for output in list(graph, "outputs")? {
        match union(output)?.0 {
            "as_none" => {}
            kind => is_number.push(kind != "as_tensor"),
        }
    }
    Ok(is_number)
}

/// Returns a result of a branch as a tensor.
fn tensor(cx: &Cx<'_>, item: &Item) -> Res<T> {
    match item {
        Item::Tensor(tensor) => Ok(tensor.clone()),
        Item::Number(Elem::Int(dim)) => cx.reshape(&cx.of_dims(vec![dim.clone()])?, vec![]),
        _ => Err("a branch returns a number that is not an integer; return a tensor instead".to_string()),
    }
}
