//! Patterns describe groups of values. Passes match them and rewrite the matches.
//!
//! ```
//! use plugin_api::prelude::*;
//!
//! fn fuse(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
//!     let conv = is_op("relax.nn.conv2d", [wildcard().bind("x"), wildcard().bind("w")]).used_once();
//!     let sum = is_op("relax.add", [conv, wildcard().bind("bias")]).used_once();
//!     let fused = is_op("relax.nn.relu", [sum]);
//!     ctx.matcher(&fused).rewrite(body, |found, rw| {
//!         let args = found.values(["x", "w", "bias"])?.map(|value| rw.v(value));
//!         Ok(Action::Replace(rw.call("acme.conv2d_bias_relu", &args, &[], &found.root().ty().to_owned())))
//!     })
//! }
//! # let (body, _) = plugin_api::pattern::example();
//! # assert!(fuse(&body, &Ctx::detached())?.same(&body));
//! # Ok::<(), PassError>(())
//! ```
//!
//! # Overview
//!
//! | to match | use |
//! |---|---|
//! | any value, a parameter | [`wildcard`], [`is_param`] |
//! | a call of an operator | [`is_op`], [`is_commutative`] |
//! | a call of a function, of a PrimFunc, any call | [`is_call_of_function`], [`is_call_to`], [`is_call_tir`], [`is_call_tir_of`], [`is_call`] |
//! | a constant, a scalar | [`is_const`], [`is_scalar`] |
//! | a tuple, an element | [`is_tuple`], [`is_tuple_get`] |
//! | either, both, not | `a \| b`, `a & b`, `!a` |
//! | any number of steps | [`is_chain`] |
//! | attributes | [`attr`](Pattern::attr), [`attr_if`](Pattern::attr_if), [`callee_attr`](Pattern::callee_attr) |
//! | types | [`ty`](Pattern::ty), [`dtype`](Pattern::dtype), [`rank`](Pattern::rank), [`shape`](Pattern::shape) |
//! | arguments | [`arg`](Pattern::arg), [`any_arg`](Pattern::any_arg) |
//! | users | [`used_once`](Pattern::used_once), [`used_by`](Pattern::used_by), [`only_used_by`](Pattern::only_used_by) |
//! | captures | [`bind`](Pattern::bind), [`Capture`], [`Match::get`], [`Match::values`] |
//! | other conditions | [`when`](Pattern::when), [`check`](Pattern::check), [`pure`](Pattern::pure), [`in_one_block`](Pattern::in_one_block) |
//!
//! A search looks through variables to their bindings, and through aliases, but not through `match_cast`, and not from a tuple element into
//! the tuple.
//!
//! # Cost
//!
//! Searching a whole function for a pattern takes time proportional to the size of the function, no matter how the pattern's alternatives
//! are nested or shared. The exception is a capture or named dimension that occurs at several places of a match: the search then backtracks
//! over the alternatives that contain it until all places agree. It gives up on a root after 10,000 attempts, which an explanation reports.

mod capture;
mod construct;
mod explain;
mod facts;
mod machine;
mod matched;
mod matcher;
mod node;
mod program;
mod shape;
#[cfg(test)]
mod tests;

pub use capture::{Capture, CaptureKey, CaptureKind, Captured};
pub use construct::{
    Index, is_call, is_call_of_function, is_call_tir, is_call_tir_of, is_call_to, is_chain, is_commutative, is_const,
    is_op, is_param, is_scalar, is_tuple, is_tuple_get, wildcard,
};
pub use explain::Explanation;
pub use matched::Match;
pub use matcher::{Matcher, Reporter, Search, Wanted};
pub use node::{Args, Pattern};
pub use shape::{DimPattern, ShapePattern};

use crate::ir::{AttrsId, Body, BodyBuilder, DType, Type, Value};
use std::sync::OnceLock;

/// Returns the function used in the examples of this module: `relu = R.nn.relu(x)`, `twice = R.add(relu, relu)`, `sum = R.add(relu,
/// twice)`. The function is never dropped.
#[doc(hidden)]
pub fn example() -> (&'static Body, [Value<'static>; 3]) {
    static BODY: OnceLock<Body> = OnceLock::new();
    let body = BODY.get_or_init(|| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::tensor([2, 3], DType::F32));
        let (x, relu, add) = (b.param("x", ty), b.op("relax.nn.relu"), b.op("relax.add"));
        b.begin_block();
        let relu = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("relu"));
        let twice = b.call(add, &[relu, relu], AttrsId::NONE, ty, false, Some("twice"));
        let sum = b.call(add, &[relu, twice], AttrsId::NONE, ty, false, Some("sum"));
        b.end();
        b.end_function(sum, ty);
        b.finish().expect("a function that is always the same")
    });
    let mut bindings = body.bindings();
    let mut next = || bindings.next().expect("three bindings");
    (body, [next(), next(), next()])
}
