//! Branches whose condition is computed when the model runs.

use crate::emitter::Emitter;
use crate::tensor::{Res, T};
use plugin_api::prelude::*;
use std::cell::RefCell;
use std::ops::DerefMut;

/// Builds an `If` outside of a dataflow block, and returns its `n` results. `side` reads the branch that is taken if the
/// condition is true or false, and returns the results of this branch.
pub fn either<'a, C: DerefMut<Target = Emitter<'a>>>(
    cx: &mut C,
    cond: &T,
    n: usize,
    side: impl Fn(&mut C, bool) -> Res<Vec<T>>,
) -> Res<Vec<T>> {
    let cond = cx.v(&cx.reshape(cond, vec![])?)?;
    let (b, mut failed) = (cx.b, None);
    cx.branches += 1;
    let cell = RefCell::new((&mut *cx, &mut failed));
    let build = |holds: bool| {
        let mut state = cell.borrow_mut();
        let (cx, failed) = &mut *state;
        packed(&mut **cx, n, &side, holds).unwrap_or_else(|why| {
            failed.get_or_insert(why);
            cx.b.tuple(&[])
        })
    };
    let both = b.if_(cond, |_| build(true), |_| build(false));
    cx.branches -= 1;
    if let Some(why) = failed {
        return Err(why);
    }
    match (b.error(), n) {
        (Some(error), _) => Err(error.message),
        (None, 1) => Ok(vec![T::of_v(cx, both)?]),
        (None, n) => cx.parts(both, n),
    }
}

/// Returns the results of a branch as one value, which is a tuple unless there is exactly one result.
fn packed<'a, C: DerefMut<Target = Emitter<'a>>>(
    cx: &mut C,
    n: usize,
    side: &impl Fn(&mut C, bool) -> Res<Vec<T>>,
    holds: bool,
) -> Res<V> {
    let results = side(cx, holds)?;
    if results.len() != n {
        return Err(format!("one of its branches has {} results; expected {n}", results.len()));
    }
    let values: Vec<V> = results.iter().map(|result| cx.v(result)).collect::<Res<_>>()?;
    match values.as_slice() {
        [one] => Ok(*one),
        all => Ok(cx.b.tuple(all)),
    }
}
