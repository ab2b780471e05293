//! Detects PrimFuncs that only copy the elements of a buffer in order.

use plugin_api::arith::{index_to_dim, product, substitute, symbol_of, unused_symbol};
use plugin_api::prelude::*;
use plugin_api::tir::ElementAccess;
use std::collections::BTreeMap;

/// Returns true if a PrimFunc does nothing but copy its first parameter to its last parameter, element by element in
/// row-major order.
pub(super) fn reshapes(body: &Body) -> bool {
    copy_in_order(body).unwrap_or(false)
}

fn copy_in_order(body: &Body) -> Option<bool> {
    let params: Vec<Value<'_>> = body.values().filter(|value| value.is_param_buffer()).collect();
    let [source, .., target] = params.as_slice() else { return None };
    let block = only_block(body)?;
    let store = only(block)?;
    let Some(Stmt::Store { value, .. }) = store.stmt() else { return None };
    let (from, to) = (value.as_element_access()?, store.as_element_access()?);
    let is_copy = matches!(value.view(), Expr::Load { .. }) && from.buffer == *source && to.buffer == *target;
    Some(is_copy && in_order(block, &from, &to)?)
}

/// Returns the innermost block of a nest in which each loop and block has exactly one statement, which is always
/// executed, and each iterator is spatial.
fn only_block(body: &Body) -> Option<Value<'_>> {
    let mut at = only(body.root()).filter(|stmt| is_loop(*stmt) || stmt.name() == Some("root"))?;
    loop {
        let inner = only(at)?;
        let is_block = matches!(at.stmt(), Some(Stmt::Block));
        if is_block && (at.block_condition().is_some() || at.block_iters().any(|iter| !iter.is_spatial)) {
            return None;
        }
        match inner.stmt()? {
            Stmt::For { .. } => at = inner,
            Stmt::Block if !is_block => at = inner,
            _ => return is_block.then_some(at),
        }
    }
}

fn is_loop(stmt: Value<'_>) -> bool {
    matches!(stmt.stmt(), Some(Stmt::For { .. }))
}

/// Returns the only statement of a function, loop or block.
fn only(stmt: Value<'_>) -> Option<Value<'_>> {
    let mut statements = stmt.statements();
    statements.next().filter(|_| statements.next().is_none())
}

/// Returns true if a load and a store have the same position in row-major order for all values of a block's iterators.
/// An iterator that does not begin at 0 copies only a part of the buffer.
fn in_order(block: Value<'_>, from: &ElementAccess<'_>, to: &ElementAccess<'_>) -> Option<bool> {
    let mut analyzer = Analyzer::new();
    let mut iters = Vec::new();
    for iter in block.block_iters() {
        let sym = symbol_of(iter.var)?;
        let min = index_to_dim(iter.min).filter(|min| min.as_int() == Some(0))?;
        let extent = index_to_dim(iter.extent)?;
        analyzer.bind_range(sym, &min, &extent);
        iters.push((sym, extent));
    }
    let (read, written) = (position(from)?, position(to)?);
    let same = analyzer.prove_equal(&read, &written) == Some(true) || same_when_fused(&iters, &read, &written);
    Some(same || (same_size(from, to)? && are_digits(from, &written, &mut analyzer)?))
}

/// Returns true if the indices of `access` are the digits of `position` in the shape of its buffer. Such an access is
/// at `position`, provided that this is within the buffer, for any symbolic sizes.
fn are_digits(access: &ElementAccess<'_>, position: &Dim, analyzer: &mut Analyzer) -> Option<bool> {
    let shape = access.buffer.as_buffer_type()?.shape;
    let mut rest = position.clone();
    for (axis, extent) in shape.into_iter().enumerate().rev() {
        let index = index_to_dim(*access.indices.get(axis)?)?;
        let digit = rest.clone().floor_mod(extent.clone());
        let mut equal = |dim: &Dim| analyzer.prove_equal(&index, dim) == Some(true);
        if !(equal(&digit) || axis == 0 && equal(&rest)) {
            return Some(false);
        }
        rest = analyzer.simplify(&rest.floor_div(extent));
    }
    Some(true)
}

/// Returns true if the buffers of two accesses have the same number of elements.
fn same_size(from: &ElementAccess<'_>, to: &ElementAccess<'_>) -> Option<bool> {
    let [from, to] = [from, to].map(|access| Some(product(&access.buffer.as_buffer_type()?.shape)));
    Some(Analyzer::new().prove_equal(&from?, &to?) == Some(true))
}

/// Returns true if the positions are equal when the iterators are treated as digits of one number, so that a division
/// and the matching multiplication cancel.
fn same_when_fused(iters: &[(Sym, Dim)], from: &Dim, to: &Dim) -> bool {
    let Some((first, _)) = iters.first() else { return false };
    let fused = unused_symbol(0, first.dtype);
    let mut digits = BTreeMap::new();
    let mut stride = Dim::int(1, first.dtype);
    for (sym, extent) in iters.iter().rev() {
        digits.insert(*sym, Dim::Var(fused).floor_div(stride.clone()).floor_mod(extent.clone()));
        stride = stride * extent.clone();
    }
    let in_digits = |dim: &Dim| substitute(dim, &|sym| digits.get(&sym).cloned());
    let (from, to) = (in_digits(from), in_digits(to));
    Analyzer::new().prove_equal(&from, &to) == Some(true)
}

/// Returns the position of an element in row-major order.
fn position(access: &ElementAccess<'_>) -> Option<Dim> {
    let shape = access.buffer.as_buffer_type()?.shape;
    let mut position = Dim::Int(0);
    for (extent, index) in shape.into_iter().zip(&access.indices) {
        position = position * extent + index_to_dim(*index)?;
    }
    Some(position)
}
