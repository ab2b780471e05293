//! Removes bindings that only rename a value: aliases, elements of known tuples, casts that cannot fail.
//!
//! *Expects* any function. *Keeps* the computed values. *Never* removes a call.

mod known_symbols;

use known_symbols::without_known_symbols;
use plugin_api::ir::UseCounts;
use plugin_api::prelude::*;
use std::cell::LazyCell;

declare_pass! {
    /// Removes bindings that only rename a value: aliases, elements of known tuples, and casts that cannot fail.
    ///
    /// Expects any function. Results do not change. Calls are never removed. Outputs of a dataflow block that are
    /// unused outside become variables of the block. A symbolic variable that a match_cast defines as a known dimension
    /// is replaced by that dimension; two match_casts that contradict each other are an error.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.add(x, x)
    ///     b = a
    ///     t = (b, x)
    ///     c = t[0]
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.add(x, x)
    ///     t = (a, x)
    ///     return a
    /// ```
    pub function pass CANONICALIZE_BINDINGS = "relax.CanonicalizeBindings" {
        opt_level: 0,
        preserves: [keeps_form],
        run: canonicalize,
    }
}

/// Runs the pass; other passes call it as their last step.
pub(crate) fn canonicalize(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let body = &without_known_symbols(body, ctx)?;
    let mut edit = body.edit();
    let mut renewed = edit.demote_outputs();
    for value in body.bindings() {
        let same = match value.view() {
            Expr::Alias(source) | Expr::MatchCast(source) if !source.is_nested() => Some(edit.meaning(source)),
            Expr::TupleGet { tuple, index } => element(&edit, tuple, index),
            Expr::Tuple(tuple) => copied(&edit, tuple),
            _ => None,
        };
        if let Some(source) = same.filter(|source| !source.is_leaf() && source.ty().same(value.ty())) {
            renewed.extend(edit.merge(value, source));
        }
    }
    edit.promote_outputs();
    use_constants(&mut edit, &renewed, ctx);
    Ok(edit.finish()?)
}

/// Returns an element of a tuple whose elements are known.
fn element<'b>(edit: &Edit<'b>, tuple: Value<'b>, index: u32) -> Option<Value<'b>> {
    let element = known_tuple(edit, tuple)?.operand(index as usize)?;
    (!element.is_nested()).then(|| edit.meaning(element))
}

/// Returns the tuple that a value is known to equal: the value itself, or an element of a known tuple. Each step looks
/// at a smaller type, so the recursion ends.
fn known_tuple<'b>(edit: &Edit<'b>, value: Value<'b>) -> Option<Value<'b>> {
    let (mut value, mut path) = (edit.meaning(value), Vec::new());
    loop {
        while let Some((of, index)) = value.as_tuple_get() {
            path.push(index as usize);
            value = edit.meaning(of);
        }
        if !matches!(value.view(), Expr::Tuple(_)) {
            return None;
        }
        match path.pop() {
            Some(index) => value = edit.meaning(value.operand(index)?),
            None => return Some(value),
        }
    }
}

/// Returns the parameter whose elements `tuple` reassembles in order. As in TVM, other tuples are copied.
fn copied<'b>(edit: &Edit<'b>, tuple: Value<'b>) -> Option<Value<'b>> {
    let part = |element| edit.meaning(element).as_tuple_get().map(|(of, index)| (edit.meaning(of), index as usize));
    let (source, _) = part(tuple.operand(0)?).filter(|(source, _)| matches!(source.view(), Expr::Param))?;
    let whole = source.ty().children().count() == tuple.n_operands();
    let in_order = tuple.operands().enumerate().all(|(at, element)| part(element) == Some((source, at)));
    (whole && in_order).then_some(source)
}

/// Replaces variables that are known to be constants by the constants; their bindings stay. As in TVM, variables that
/// became or ceased to be outputs are still used.
fn use_constants(edit: &mut Edit<'_>, renewed: &ValueSet<'_>, ctx: &Ctx) {
    let body = edit.old();
    // Count uses lazily, because few functions have variables that are known constants.
    let uses = LazyCell::new(|| ctx.analysis::<UseCounts>(body));
    let used = |value: Value<'_>| uses.of(value) > 0 && !renewed.contains(value);
    let in_place = InPlace::of(body);
    for value in body.bindings().filter(|value| !in_place.may_be_written(*value)) {
        let known = match value.view() {
            Expr::Alias(source) => Some(source),
            Expr::TupleGet { tuple, index } => element(edit, tuple, index),
            _ => None,
        };
        let constant = known.filter(|known| matches!(known.view(), Expr::Const(_)) && known.ty().same(value.ty()));
        if let Some(constant) = constant.filter(|_| !edit.is_removed(value) && used(value)) {
            edit.forward_to(value, constant);
        }
    }
}
