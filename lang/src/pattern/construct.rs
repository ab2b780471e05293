//! Functions that construct patterns.

use super::node::{Args, Callee, Form, Pattern};
use std::ops::RangeFull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Matches any value: binding, parameter, nested expression, constant, shape.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::Matcher;
///
/// # let (body, [relu, ..]) = plugin_api::pattern::example();
/// assert!(Matcher::new(&wildcard()).on(&body).at(relu).is_some());
/// ```
pub fn wildcard() -> Pattern {
    Pattern::of(Form::Any)
}

/// Matches a call of an operator, with a pattern for each argument, or `..` for any arguments.
///
/// ```
/// use plugin_api::prelude::*;
///
/// let conv = is_op("relax.nn.conv2d", [wildcard(), wildcard().bind("weight")]).used_once();
/// let sum = is_op("relax.add", [conv, wildcard().bind("bias")]).used_once();
/// let fused = is_op("relax.nn.relu", [sum]);
/// # assert_eq!(fused.to_string(), "relax.nn.relu(relax.add(relax.nn.conv2d(_, weight), bias))");
/// ```
pub fn is_op(name: &str, args: impl Into<Args>) -> Pattern {
    Pattern::of(Form::Call(Callee::Op(name.into()), args.into()))
}

/// Matches a call of an operator with two arguments in either order. `a, b` is tried before `b, a`.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::Matcher;
///
/// let sum = is_commutative("relax.add", wildcard(), is_op("relax.nn.relu", ..));
/// # let (body, [_, twice, sum_of_both]) = plugin_api::pattern::example();
/// assert!(Matcher::new(&sum).on(&body).at(twice).is_some());
/// ```
pub fn is_commutative(name: &str, a: impl Into<Pattern>, b: impl Into<Pattern>) -> Pattern {
    let (a, b) = (a.into(), b.into());
    is_op(name, [&a, &b]) | is_op(name, [&b, &a])
}

/// Matches any call, with a pattern for each argument, or `..` for any arguments.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::{Matcher, is_call};
///
/// # let (body, _) = plugin_api::pattern::example();
/// assert_eq!(Matcher::new(&is_call(..)).on(&body).all().count(), 3);
/// assert_eq!(Matcher::new(&is_call([wildcard()])).on(&body).all().count(), 1);
/// ```
pub fn is_call(args: impl Into<Args>) -> Pattern {
    Pattern::of(Form::Call(Callee::Any, args.into()))
}

/// Matches a call of a Relax function of the module: `cls.f(…)`.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::{Matcher, is_call_of_function};
///
/// let group = is_call_of_function(..).callee_attr("Composite", "acme.conv2d_conv2d");
/// # let (body, _) = plugin_api::pattern::example();
/// assert!(Matcher::new(&group).on(&body).all().next().is_none());
/// ```
pub fn is_call_of_function(args: impl Into<Args>) -> Pattern {
    Pattern::of(Form::Call(Callee::Global(None), args.into()))
}

/// Matches a call of the Relax function with the given name.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::is_call_to;
///
/// assert_eq!(is_call_to("encode", [wildcard()]).to_string(), "cls.encode(_)");
/// ```
pub fn is_call_to(name: &str, args: impl Into<Args>) -> Pattern {
    Pattern::of(Form::Call(Callee::Global(Some(name.to_string())), args.into()))
}

/// Matches a call of a PrimFunc of the module: `R.call_tir(cls.f, (…), …)`. The argument patterns apply to the arguments of the PrimFunc.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::is_call_tir;
///
/// let conv = is_call_tir([wildcard().bind("data"), wildcard()]).callee_attr("my_op_kind", "convolution");
/// # assert_eq!(conv.to_string(), "relax.call_tir(data, _)");
/// ```
pub fn is_call_tir(args: impl Into<Args>) -> Pattern {
    Pattern::of(Form::Call(Callee::Prim(None), args.into()))
}

/// Matches a call of the PrimFunc with the given name.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::is_call_tir_of;
///
/// assert_eq!(is_call_tir_of("add1", ..).to_string(), "relax.call_tir[add1](..)");
/// ```
pub fn is_call_tir_of(name: &str, args: impl Into<Args>) -> Pattern {
    Pattern::of(Form::Call(Callee::Prim(Some(name.to_string())), args.into()))
}

/// Matches a constant.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::is_const;
///
/// let scaled = is_commutative("relax.multiply", wildcard(), is_const().bind("scale"));
/// # assert_eq!(scaled.to_string(), "(relax.multiply(_, scale) | relax.multiply(scale, _))");
/// ```
pub fn is_const() -> Pattern {
    Pattern::of(Form::Const)
}

/// Matches a constant with a single element equal to `value`.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::is_scalar;
///
/// let negated = is_commutative("relax.multiply", wildcard(), is_scalar(-1.0));
/// # assert_eq!(negated.to_string(), "(relax.multiply(_, -1) | relax.multiply(-1, _))");
/// ```
pub fn is_scalar(value: f64) -> Pattern {
    is_const().scalar(value)
}

/// Matches a parameter of a function.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::{Matcher, is_param};
///
/// # let (body, [relu, ..]) = plugin_api::pattern::example();
/// assert!(Matcher::new(&is_op("relax.nn.relu", [is_param()])).on(&body).at(relu).is_some());
/// ```
pub fn is_param() -> Pattern {
    Pattern::of(Form::Param)
}

/// Matches a tuple, with a pattern for each element, or `..` for any elements.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::is_tuple;
///
/// let joined = is_op("relax.concat", [is_tuple([wildcard(), wildcard()])]);
/// # assert_eq!(joined.to_string(), "relax.concat((_, _))");
/// ```
pub fn is_tuple(elements: impl Into<Args>) -> Pattern {
    Pattern::of(Form::Tuple(elements.into()))
}

/// Matches a tuple element with the given index (from 0), or `..` for any.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::is_tuple_get;
///
/// let normalized = is_tuple_get(is_op("relax.nn.batch_norm", ..), 0);
/// # assert_eq!(normalized.to_string(), "relax.nn.batch_norm(..)[0]");
/// ```
pub fn is_tuple_get(tuple: impl Into<Pattern>, index: impl Into<Index>) -> Pattern {
    Pattern::of(Form::TupleGet(tuple.into(), index.into().0))
}

/// The index of a tuple element, or `..` for any.
pub struct Index(Option<u32>);

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index(None)
    }
}

impl From<u32> for Index {
    fn from(index: u32) -> Index {
        Index(Some(index))
    }
}

/// Matches a chain of any length: `first`, followed by any number of steps. `step` receives the pattern of the chain so far, and returns
/// the pattern of the next value.
///
/// A step must use the chain in only one argument or element, so that the match stays linear.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::{Matcher, is_chain};
///
/// // relu(…relu(x)…), with x captured
/// let relus = is_chain(wildcard().bind("x") & !is_op("relax.nn.relu", ..), |inner| is_op("relax.nn.relu", [inner]));
/// # let (body, [relu, ..]) = plugin_api::pattern::example();
/// let found = Matcher::new(&relus).on(&body).at(relu).expect("a match");
/// assert_eq!(found.get("x")?.name(), Some("x"));
/// # Ok::<(), PassError>(())
/// ```
pub fn is_chain(first: impl Into<Pattern>, step: impl FnOnce(Pattern) -> Pattern) -> Pattern {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let hole = NEXT.fetch_add(1, Ordering::Relaxed);
    let more = step(Pattern::of(Form::Hole(hole)));
    Pattern::of(Form::Chain { hole, first: first.into(), more })
}
