//! PyTorch's operators: a table of the functions that build them, by name and overload. Each group of operators has its own file.

mod activation;
mod control;
mod conv;
mod create;
mod elementwise;
mod image;
mod index;
mod linear;
mod norm;
mod pool;
mod recurrent;
mod reduce;
mod shape;
mod symbolic;

use crate::graph::{Cx, Item};
use crate::node::Node;
use importer::known::Elem;
use importer::tensor::{Res, T};
use plugin_api::names::{did_you_mean, nearest};
use std::collections::HashMap;
use std::sync::OnceLock;

pub(crate) use control::has_branches;
pub(crate) use elementwise::each;

/// An overload of an operator.
pub(crate) struct Row {
    name: &'static str,
    run: Run,
}

/// The function that builds an operator.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    One(for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<T>),
    All(for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<Vec<T>>),
    /// An operator whose result is a number.
    Number(for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<Elem>),
    /// A higher-order operator.
    Inline(for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<Vec<Item>>),
    /// An elementwise operator with a counterpart in Relax.
    Each(Each),
    /// An assertion, which is omitted.
    Nothing,
}

/// An elementwise operator that corresponds to an operator of Relax.
#[derive(Clone, Copy)]
pub(crate) enum Each {
    /// One operand.
    One(&'static str),
    /// One operand; integers are converted to floats.
    Float(&'static str),
    /// Two operands.
    Two(&'static str),
    /// Two operands; the result is a truth value.
    Compare(&'static str),
    /// Two operands, which are converted to truth values.
    Logic(&'static str),
    /// Two integers or two truth values, with the operator for each of these kinds.
    Bits(&'static str, &'static str),
}

const fn one(name: &'static str, run: for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<T>) -> Row {
    Row { name, run: Run::One(run) }
}

const fn all(name: &'static str, run: for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<Vec<T>>) -> Row {
    Row { name, run: Run::All(run) }
}

const fn number(name: &'static str, run: for<'a> fn(&mut Cx<'a>, &Node<'a>) -> Res<Elem>) -> Row {
    Row { name, run: Run::Number(run) }
}

const fn nothing(name: &'static str) -> Row {
    Row { name, run: Run::Nothing }
}

const fn row(name: &'static str, each: Each) -> Row {
    Row { name, run: Run::Each(each) }
}

const TABLES: [&[Row]; 14] = [
    activation::ROWS,
    control::ROWS,
    conv::ROWS,
    create::ROWS,
    elementwise::ROWS,
    image::ROWS,
    index::ROWS,
    linear::ROWS,
    norm::ROWS,
    pool::ROWS,
    recurrent::ROWS,
    reduce::ROWS,
    shape::ROWS,
    symbolic::ROWS,
];

fn table() -> &'static HashMap<&'static str, Run> {
    static TABLE: OnceLock<HashMap<&'static str, Run>> = OnceLock::new();
    TABLE.get_or_init(|| TABLES.iter().flat_map(|rows| rows.iter()).map(|row| (row.name, row.run)).collect())
}

/// Returns all overloads, in order.
#[cfg(test)]
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLES.iter().flat_map(|rows| rows.iter()).map(|row| row.name).collect();
    names.sort_unstable();
    names
}

/// Returns the operator of which an operator is the in-place variant, such as `aten.relu.default` for `aten.relu_.default`.
fn without_mark(op: &str) -> Option<String> {
    let (name, overload) = op.rsplit_once('.')?;
    let base = name.strip_suffix('_').filter(|base| name.starts_with("aten.") && !base.ends_with('_'))?;
    Some(format!("{base}.{overload}"))
}

/// Finds an operator. Also returns true if it changes its first operand in place.
pub(crate) fn find(op: &str) -> (Option<Run>, bool) {
    if let Some(run) = table().get(op) {
        return (Some(*run), false);
    }
    let run = without_mark(op).and_then(|base| table().get(base.as_str()).copied());
    (run, run.is_some())
}

/// Returns the name of an operator of ATen, without the overload.
fn aten(op: &str) -> &str {
    op.strip_prefix("aten.").and_then(|op| op.split('.').next()).unwrap_or("")
}

/// Returns true if the result of an operator shares the memory of its first operand.
pub(crate) fn is_alias(op: &str) -> bool {
    const ALIASES: &[&str] = &[
        "T",
        "alias",
        "alpha_dropout",
        "broadcast_to",
        "chunk",
        "detach",
        "diagonal",
        "dropout",
        "expand",
        "expand_as",
        "feature_dropout",
        "mT",
        "movedim",
        "narrow",
        "numpy_T",
        "permute",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "swapaxes",
        "swapdims",
        "t",
        "tensor_split",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    ];
    ALIASES.contains(&aten(op))
}

/// Returns true if the result of an operator may share the memory of its first operand.
pub(crate) fn is_view(op: &str) -> bool {
    const COPY_IF_NEEDED: &[&str] =
        &["as_strided", "contiguous", "flatten", "lift_fresh", "meshgrid", "reshape", "reshape_as", "to", "type_as"];
    is_alias(op) || COPY_IF_NEEDED.contains(&aten(op))
}

/// Returns the reason why an operator is not supported.
pub(crate) fn refusal(op: &str) -> String {
    const RANDOM: &[&str] = &[
        "bernoulli",
        "exponential",
        "multinomial",
        "normal",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "uniform",
    ];
    let name = op.strip_prefix("aten.").unwrap_or(op).split('.').next().unwrap_or("");
    if RANDOM.contains(&name.trim_end_matches('_')) {
        return "random-number operators are not supported, because their results differ in each run; pass the numbers as a model input".to_string();
    }
    if name.contains("sparse") {
        return "sparse tensors are not supported; use dense tensors".to_string();
    }
    if op.starts_with("higher_order.") {
        return "this higher-order operator is not supported; export the model without data-dependent control flow"
            .to_string();
    }
    if name.ends_with("_backward") {
        return "training operators are not supported; export the model in evaluation mode".to_string();
    }
    const REMEDY: &str = "`run_decompositions()` before `torch.export.save` may replace it, and `allow_unknown` keeps it as a call, so \
                          that passes can run";
    let base = |op: &'static str| op.rsplit_once('.').map_or(op, |(base, _)| base);
    let own = op.rsplit_once('.').map_or(op, |(base, _)| base);
    let mut overloads: Vec<&str> = table().keys().copied().filter(|op| base(op) == own).collect();
    overloads.sort_unstable();
    if !overloads.is_empty() {
        return format!("the reader does not have this overload, only {}; {REMEDY}", overloads.join(", "));
    }
    let short = |op: &'static str| base(op).strip_prefix("aten.");
    let near = nearest(name, table().keys().filter_map(|op| short(op)));
    let near: Vec<String> = near.iter().map(|name| format!("aten.{name}")).collect();
    format!("this operator is not supported{}; {REMEDY}", did_you_mean(&near))
}
