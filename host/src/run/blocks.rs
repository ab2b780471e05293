//! Checks that a dataflow-block pass changed only the blocks, and that it kept their outputs and the symbolic shape
//! variables.

use super::steps::Run;
use crate::report::error::Error;
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Body, Dim, Module, Value};
use registry::PassId;
use std::collections::BTreeSet;

/// A forbidden change, and the node of the old function at which it was made.
#[derive(Debug, PartialEq, Eq)]
struct Touched {
    message: String,
    node: usize,
}

impl Run<'_> {
    /// Checks that a dataflow-block pass did not change anything outside of its blocks.
    pub(super) fn check_blocks(
        &self,
        pass: PassId,
        (name, old): (&str, &Body),
        new: &Body,
        module: &Module,
    ) -> Result<(), Error> {
        if old.same(new) {
            return Ok(());
        }
        compare(old, new).map_err(|Touched { message, node }| {
            let place = self.place(module, name, node, "before the pass");
            self.step_error(pass, Some(name.to_string()), message, place)
        })
    }
}

/// A body, split into the parts that a dataflow-block pass may change and the rest.
struct Seen<'a> {
    /// Values outside of dataflow blocks, in order, with the headers of the blocks.
    outside: Vec<Value<'a>>,
    /// For each block, the values that are visible after it.
    blocks: Vec<Vec<Value<'a>>>,
    /// Symbolic variables defined in blocks, by name, with the node that defines them.
    symbols: Vec<(String, usize)>,
}

fn seen(body: &Body) -> Seen<'_> {
    let mut seen = Seen { outside: Vec::new(), blocks: Vec::new(), symbols: Vec::new() };
    let mut at = 0;
    while at < body.len() {
        let value = body.value_at(at);
        seen.outside.push(value);
        if value.kind() != kind::DATAFLOW {
            at += 1;
            continue;
        }
        let region = value.region();
        seen.blocks.push(region.bindings().filter(|binding| !binding.has(flag::INNER)).collect());
        for cast in region.nodes().filter(|node| node.kind() == kind::MATCH_CAST) {
            cast.ty().to_owned().each_dim(false, &mut |dim| {
                if let Dim::Var(symbol) = dim {
                    let name = body.sym_name(symbol.id).unwrap_or("?").to_string();
                    seen.symbols.push((name, cast.index().unwrap_or(at)));
                }
            });
        }
        at = value.end();
    }
    seen
}

fn compare(old: &Body, new: &Body) -> Result<(), Touched> {
    let (before, after) = (seen(old), seen(new));
    // The new position of each old value that is visible outside.
    let mut now = vec![None; old.len()];
    for (old, new) in before.blocks.iter().zip(&after.blocks) {
        let mut rest = new.iter();
        for output in old {
            let name = output.name().unwrap_or("_");
            let touched = |what: &str| Touched {
                message: format!("{what} `{name}`, an output of a dataflow block, which is visible outside the block"),
                node: output.index().unwrap_or(0),
            };
            let Some(same) = rest.find(|other| other.name() == output.name()) else { return Err(touched("dropped")) };
            if !same.ty().same(output.ty()) {
                return Err(touched("changed the type of"));
            }
            if let Some(slot) = output.index().and_then(|at| now.get_mut(at)) {
                *slot = same.index();
            }
        }
    }
    let kept: BTreeSet<&str> = after.symbols.iter().map(|(name, _)| name.as_str()).collect();
    if let Some((name, node)) = before.symbols.iter().find(|(name, _)| !kept.contains(name.as_str())) {
        let message = format!("dropped the symbolic variable `{name}`, which is defined outside the dataflow block");
        return Err(Touched { message, node: *node });
    }
    outside(&before.outside, &after.outside, &mut now)
}

/// Compares the values outside of the blocks one by one.
fn outside(before: &[Value<'_>], after: &[Value<'_>], now: &mut [Option<usize>]) -> Result<(), Touched> {
    for (at, old) in before.iter().enumerate() {
        let name = old.name().map_or("an expression".to_string(), |name| format!("`{name}`"));
        let touched = |what: &str| Touched {
            message: format!("{what} {name}, which is outside the dataflow blocks"),
            node: old.index().unwrap_or(0),
        };
        let Some(new) = after.get(at).filter(|new| new.kind() == old.kind()) else { return Err(touched("dropped")) };
        if let Some(slot) = old.index().and_then(|at| now.get_mut(at)) {
            *slot = new.index();
        }
        if old.kind() == kind::DATAFLOW {
            continue;
        }
        let same = old.name() == new.name() && old.ty().same(new.ty()) && same_attrs(*old, *new);
        if !same || !same_operands(*old, *new, now) {
            return Err(touched("rewrote"));
        }
    }
    match after.get(before.len()) {
        None => Ok(()),
        Some(added) => {
            let name = added.name().map_or("an expression".to_string(), |name| format!("`{name}`"));
            let message = format!("added {name} outside the dataflow blocks");
            Err(Touched { message, node: before.last().and_then(|last| last.index()).unwrap_or(0) })
        }
    }
}

fn same_attrs(old: Value<'_>, new: Value<'_>) -> bool {
    old.attrs().is_empty() && new.attrs().is_empty() || old.attrs().to_owned() == new.attrs().to_owned()
}

fn same_operands(old: Value<'_>, new: Value<'_>, now: &[Option<usize>]) -> bool {
    let same = |(old, new): (Value<'_>, Value<'_>)| match (old.index(), new.index()) {
        (Some(old), Some(new)) => now.get(old).copied().flatten() == Some(new),
        (None, None) => same_leaf(old, new),
        _ => false,
    };
    old.n_operands() == new.n_operands() && old.operands().zip(new.operands()).all(same)
}

fn same_leaf(old: Value<'_>, new: Value<'_>) -> bool {
    use passhost_lang::ir::Expr;
    let same = match (old.view(), new.view()) {
        (Expr::Op(a), Expr::Op(b)) | (Expr::GlobalVar(a), Expr::GlobalVar(b)) => a == b,
        (Expr::ExternFunc(a), Expr::ExternFunc(b)) | (Expr::Str(a), Expr::Str(b)) => a == b,
        (Expr::Const(a), Expr::Const(b)) => a.bytes() == b.bytes(),
        (Expr::Shape, Expr::Shape) => old.dims() == new.dims(),
        (Expr::Prim, Expr::Prim) => old.dim() == new.dim(),
        (Expr::DType(a), Expr::DType(b)) => a == b,
        (Expr::TypeArg(a), Expr::TypeArg(b)) => a.same(b),
        (Expr::Attr(a), Expr::Attr(b)) => a.to_owned() == b.to_owned(),
        (a, b) => std::mem::discriminant(&a) == std::mem::discriminant(&b),
    };
    same && old.ty().same(new.ty())
}
