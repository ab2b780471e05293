//! Branches whose condition is computed when the model runs.

use crate::emitter::Emitter;
use crate::tensor::{Res, T};
use plugin_api::prelude::*;
use std::cell::RefCell;
use std::ops::DerefMut;

/// Builds an `If` outside of a dataflow block, and returns its results. `side(true)` reads the branch for a true
/// condition, `side(false)` the other one; each returns the results of its branch.
pub fn either<'a, C: DerefMut<Target = Emitter<'a>>>(
    cx: &mut C,
    cond: &T,
    side: impl Fn(&mut C, bool) -> Res<Vec<T>>,
) -> Res<Vec<T>> {
    let cond = cx.v(&cx.reshape(cond, vec![])?)?;
    let (b, mut failed, mut counts) = (cx.b, None, Vec::new());
    cx.branches += 1;
    let cell = RefCell::new((&mut *cx, &mut failed, &mut counts));
    let build = |holds: bool| {
        let mut state = cell.borrow_mut();
        let (cx, failed, counts) = &mut *state;
        let results = side(&mut **cx, holds).inspect(|results| counts.push(results.len()));
        results.and_then(|results| packed(cx, &results)).unwrap_or_else(|why| {
            failed.get_or_insert(why);
            cx.b.tuple(&[])
        })
    };
    let both = b.if_(cond, |_| build(true), |_| build(false));
    cx.branches -= 1;
    if let Some(why) = failed {
        return Err(why);
    }
    match (b.error(), counts.as_slice()) {
        (Some(error), _) => Err(error.message),
        (None, [1, 1]) => Ok(vec![T::of_v(cx, both)?]),
        (None, [n, m]) if n == m => cx.parts(both, *n),
        (None, counts) => Err(format!("its branches have different numbers of results: {counts:?}")),
    }
}

/// Returns the results of a branch as one value, which is a tuple unless there is exactly one result.
fn packed(cx: &Emitter<'_>, results: &[T]) -> Res<V> {
    let values: Vec<V> = results.iter().map(|result| cx.v(result)).collect::<Res<_>>()?;
    match values.as_slice() {
        [one] => Ok(*one),
        all => Ok(cx.b.tuple(all)),
    }
}
