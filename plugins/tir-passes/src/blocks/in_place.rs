//! Determines whether a statement computes each element of a buffer only from the same element of another buffer, so
//! that it can overwrite that buffer.

use super::storage_plan::{EXTERN_SCOPE, allocation_of};
use plugin_api::arith::{index_to_dim_of_atoms, symbol_of};
use plugin_api::prelude::*;
use plugin_api::tir::regions::linear::Linear;
use plugin_api::walk::open_scopes::OpenScopes;
use plugin_api::walk::visitors::post_order_visit_value;

/// Returns true if `to` can overwrite `from` in a store, or in a loop or condition around stores.
pub(super) fn is_in_place(stmt: Value<'_>, to: Value<'_>, from: Value<'_>) -> bool {
    let kinds =
        matches!(stmt.stmt(), Some(Stmt::For { .. } | Stmt::If { .. } | Stmt::Attr { .. } | Stmt::Store { .. }));
    let content = || std::iter::once(stmt).chain(stmt.region().nodes().filter(|value| !value.is_nested()));
    kinds && content().all(|value| part_is_in_place(value, to, from)) && reads_before_it_writes(content(), to, from)
}

fn part_is_in_place(value: Value<'_>, to: Value<'_>, from: Value<'_>) -> bool {
    let stored = match value.stmt() {
        Some(Stmt::Store { buffer, value: stored }) if allocation_of(buffer) == Some(to) => Some(stored),
        // The old value may be overwritten by an element of the new buffer.
        Some(Stmt::Store { buffer, .. }) if allocation_of(buffer) == Some(from) => return false,
        Some(Stmt::Attr { key, .. }) if key == EXTERN_SCOPE => return false,
        Some(Stmt::While { .. }) => return false,
        _ => None,
    };
    let into: Option<Vec<Dim>> = stored.and_then(|_| dims(value));
    let mut safe = value.as_element_access().is_none_or(|access| !access.indices.iter().any(|index| has_load(*index)));
    for operand in value.operands().filter(|operand| operand.is_nested()) {
        post_order_visit_value(operand, |part| {
            if let Expr::BufferPart { buffer, part: 0 } = part.view() {
                safe &= ![Some(to), Some(from)].contains(&allocation_of(buffer));
            }
            let Some(load) = part.as_element_access() else { return };
            let of = allocation_of(load.buffer);
            safe &= of != Some(to) && !load.indices.iter().any(|index| has_load(*index));
            if of == Some(from) {
                let same = stored.is_some_and(|stored| stored.ty().dtype() == part.ty().dtype());
                safe &= same && into.is_some() && dims(part) == into;
            }
        });
    }
    safe
}

/// A store to the new buffer.
struct Store<'b> {
    /// The flat index of the store. `reads` is true if the stored value reads the old buffer.
    index: Linear,
    reads: bool,
    /// The loops of the statement around the store: their variables and trip counts.
    loops: Vec<(Sym, Option<i64>)>,
    /// The branches of the statement around the store, each with its If.
    branches: Vec<(Value<'b>, Value<'b>)>,
}

/// Returns true if no element is read after it was overwritten. So two iterations must not store the same element. If
/// two stores in one iteration write the same element, the later store must not read it, or only one of the two may
/// execute.
fn reads_before_it_writes<'b>(content: impl Iterator<Item = Value<'b>>, to: Value<'b>, from: Value<'b>) -> bool {
    let Some(stores) = stores(content, to, from) else { return false };
    let Some(first) = stores.first() else { return true };
    if !stores.iter().all(|store| store.index.terms == first.index.terms && store.loops == first.loops) {
        return false;
    }
    let numbers = || stores.iter().map(|store| store.index.constant);
    let span = numbers().max().zip(numbers().min()).map_or(0, |(max, min)| max.saturating_sub(min));
    let again = |at: usize, store: &Store<'b>| {
        let same = |earlier: &&Store<'b>| earlier.index.constant == store.index.constant;
        store.reads && stores[..at].iter().filter(same).any(|earlier| !exclude_each_other(earlier, store))
    };
    is_injective(first, span) && !stores.iter().enumerate().any(|(at, store)| again(at, store))
}

/// Returns true if two stores are in different branches of an If.
fn exclude_each_other(a: &Store<'_>, b: &Store<'_>) -> bool {
    a.branches.iter().any(|(of, branch)| b.branches.iter().any(|(other, into)| of == other && branch != into))
}

/// Returns true if different iterations of the loops around a store write different elements, even if each iteration
/// also writes the `span` following elements.
fn is_injective(store: &Store<'_>, span: i128) -> bool {
    let step = |sym: &Sym| {
        let term = store.index.terms.iter().find(|(term, _)| *term == Dim::Var(*sym));
        term.map_or(0, |(_, by)| by.saturating_abs())
    };
    let running = || store.loops.iter().filter(|(_, n)| *n != Some(1));
    let is_plain = |term: &Dim| {
        let mut runs = false;
        term.vars(&mut |sym| runs |= running().any(|(of, _)| *of == sym));
        !runs || matches!(term, Dim::Var(_))
    };
    let mut steps: Vec<(i128, Option<i64>)> = running().map(|(sym, n)| (step(sym), *n)).collect();
    steps.sort_unstable();
    // As with the digits of a number, each step must exceed the total reach of all smaller steps.
    let mut reached = Some(span);
    let digits = steps.into_iter().all(|(by, n)| {
        let greater = reached.is_some_and(|reached| by > reached);
        reached = reached.zip(n).map(|(reached, n)| reached.saturating_add(by.saturating_mul(i128::from(n) - 1)));
        greater
    });
    digits && store.index.terms.iter().all(|(term, _)| is_plain(term))
}

/// Returns the stores to the new buffer in order; `None` if an index is unknown.
fn stores<'b>(content: impl Iterator<Item = Value<'b>>, to: Value<'b>, from: Value<'b>) -> Option<Vec<Store<'b>>> {
    let (mut loops, mut ifs, mut branches) = (OpenScopes::new(), OpenScopes::new(), OpenScopes::new());
    let (mut names, mut stores) = (Vec::new(), Vec::new());
    for value in content {
        loops.go_to(value);
        ifs.go_to(value);
        branches.go_to(value);
        match value.stmt() {
            Some(Stmt::For { var, extent, .. }) => {
                let n = if value.loop_step().is_none() { number(extent) } else { None };
                loops.open(value, (symbol_of(var)?, n));
            }
            Some(Stmt::Launch { extent, .. }) => {
                let var = value.operand(1).or_else(|| value.region().children().next())?;
                loops.open(value, (symbol_of(var)?, number(extent)));
            }
            Some(Stmt::If { .. }) => ifs.open(value, value),
            Some(Stmt::Bind { .. }) => names.extend(symbol_of(value)),
            Some(Stmt::Store { buffer, value: stored }) if allocation_of(buffer) == Some(to) => {
                let access = value.as_element_access()?;
                let [index] = access.indices[..] else { return None };
                let index = index_to_dim_of_atoms(index).filter(|dim| !uses(dim, &names))?;
                let reads = reads(stored, from);
                let (loops, branches) = (loops.iter().copied().collect(), branches.iter().copied().collect());
                stores.push(Store { index: Linear::of(&index), reads, loops, branches });
            }
            None => {
                if let Some(of) = ifs.last().filter(|of| of.if_branches().any(|branch| branch == value)) {
                    branches.open(value, (*of, value));
                }
            }
            _ => {}
        }
    }
    Some(stores)
}

/// Returns true if an index uses one of `names`, whose values differ between iterations.
fn uses(index: &Dim, names: &[Sym]) -> bool {
    let mut uses = false;
    index.vars(&mut |sym| uses |= names.contains(&sym));
    uses
}

fn reads(value: Value<'_>, buffer: Value<'_>) -> bool {
    let mut found = false;
    post_order_visit_value(value, |part| {
        found |= part.as_element_access().is_some_and(|load| allocation_of(load.buffer) == Some(buffer));
    });
    found
}

fn number(value: Value<'_>) -> Option<i64> {
    value.dim()?.as_int()
}

fn dims(access: Value<'_>) -> Option<Vec<Dim>> {
    access.as_element_access()?.indices.iter().map(|index| index_to_dim_of_atoms(*index)).collect()
}

fn has_load(index: Value<'_>) -> bool {
    let mut found = false;
    post_order_visit_value(index, |part| found |= part.as_element_access().is_some());
    found
}
