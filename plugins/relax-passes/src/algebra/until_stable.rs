//! Repeats pattern rewriting until nothing changes.

use crate::canonicalize_bindings::canonicalize;
use crate::eliminate_common_subexpr::without_repeats;
use plugin_api::pattern::Matcher;
use plugin_api::prelude::*;
use plugin_api::walk::scopes::{Scope, ScopeVisitor, visit_scopes};

/// Repeats a round until it changes nothing, as [`repeated`] does. As in TVM, the original bindings are simplified too,
/// even if no round changes anything, unless all of them are in dataflow blocks.
pub(super) fn until_stable(
    body: &Body,
    ctx: &Ctx,
    round: impl FnMut(&Body) -> Result<(Body, usize), PassError>,
) -> Result<Body, PassError> {
    let rewritten = repeated(body, ctx, round)?;
    let mut blocks = body.blocks().filter(|block| block.bindings().next().is_some());
    if rewritten.same(body) && blocks.all(Block::is_dataflow) {
        return Ok(rewritten);
    }
    simplified(rewritten, ctx)
}

/// Repeats a round until it changes nothing. A round returns the changed function and the number of changes. After each
/// round, duplicate, renaming and unused bindings are removed.
pub(super) fn repeated(
    body: &Body,
    ctx: &Ctx,
    mut round: impl FnMut(&Body) -> Result<(Body, usize), PassError>,
) -> Result<Body, PassError> {
    let (mut body, mut replaced) = (body.clone(), 0);
    loop {
        let (next, n) = round(&body)?;
        let next = if n == 0 { next } else { simplified(next, ctx)? };
        if n == 0 || next.structural_eq(&body) {
            ctx.statistic("expressions replaced", replaced);
            return Ok(body);
        }
        replaced += n;
        body = next;
    }
}

/// Runs one round, which replaces the root of each match. As in TVM, a match lies within one [stretch](Stretches) and
/// contains no value that this round already replaced.
pub(super) fn rewrite_once<'b>(
    body: &'b Body,
    matcher: &Matcher<'_>,
    mut f: impl FnMut(&Match<'b>, &mut Rewriter<'b>) -> Result<Action, PassError>,
) -> Result<(Body, usize), PassError> {
    let (mut found, mut replaced, mut n) = (ValueMap::new(body), ValueSet::new(body), 0);
    let stretches = Stretches::of(body);
    for each in matcher.on(body).all().filter(|each| stretches.holds(&each.inner())) {
        found.insert(each.root(), each);
    }
    let rewritten = body.try_rewrite(|value, rw| {
        let Some(found) = found.get(value) else { return Ok(Action::Keep) };
        if found.inner().into_iter().any(|inner| replaced.contains(inner)) {
            return Ok(Action::Keep);
        }
        let action = f(found, rw)?;
        if action != Action::Keep {
            replaced.insert(value);
            n += 1;
        }
        Ok::<_, PassError>(action)
    })?;
    Ok((rewritten, n))
}

/// Removes duplicate, renaming and unused bindings.
pub(super) fn simplified(mut body: Body, ctx: &Ctx) -> Result<Body, PassError> {
    loop {
        let (next, _) = without_repeats(&canonicalize(&body, ctx)?, false)?;
        let next = remove_all_unused(&next)?;
        if next.same(&body) || next.structural_eq(&body) {
            return Ok(body);
        }
        body = next;
    }
}

/// Stretches of bindings that may be reordered: parts of blocks without effects, branches and in-place calls.
pub(super) struct Stretches<'b> {
    of: ValueMap<'b, usize>,
    n: usize,
    in_place: InPlace<'b>,
}

impl<'b> Stretches<'b> {
    pub(super) fn of(body: &'b Body) -> Stretches<'b> {
        let mut stretches = Stretches { of: ValueMap::new(body), n: 0, in_place: InPlace::of(body) };
        visit_scopes(body, &mut stretches);
        stretches
    }

    /// Returns the stretch of a binding.
    pub(super) fn at(&self, value: Value<'b>) -> Option<usize> {
        self.of.get(value).copied()
    }

    /// Returns true if all values are in one stretch.
    pub(super) fn holds(&self, values: &[Value<'b>]) -> bool {
        values.windows(2).all(|pair| self.at(pair[0]) == self.at(pair[1]))
    }
}

impl<'b> ScopeVisitor<'b> for Stretches<'b> {
    fn enter(&mut self, _: Scope<'b>) {
        self.n += 1;
    }

    fn leave(&mut self, _: Scope<'b>) {
        self.n += 1;
    }

    fn value(&mut self, value: Value<'b>) {
        self.n += usize::from(value.has_effect()) + usize::from(self.in_place.has_write(value));
        self.of.insert(value, self.n);
    }
}
