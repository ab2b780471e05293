//! Patterns as values: the conditions on a value, and the combination of patterns.

use super::capture::{CaptureKey, CaptureKind};
use super::matched::Match;
use super::shape::{DimPattern, ShapePattern};
use crate::PassError;
use crate::ir::{Attr, AttrView, DType, Type, Value};
use std::ops::{BitAnd, BitOr, Not, RangeFull};
use std::sync::Arc;

/// A description of a value of a function. [The module](crate::pattern) has an overview.
///
/// A pattern is a value: it can be cloned, returned by a function, and shared by several larger patterns. It does not belong to a function,
/// so one pattern serves a whole module.
#[derive(Clone)]
pub struct Pattern(pub(super) Arc<Node>);

/// A single pattern, without the enclosing patterns.
#[derive(Clone, Default)]
pub(super) struct Node {
    pub(super) form: Form,
    pub(super) tests: Vec<Test>,
    /// Patterns of neighbouring values.
    pub(super) parts: Vec<(Part, Pattern)>,
    pub(super) checks: Vec<Check>,
    pub(super) captures: Vec<String>,
    /// The name of the pattern in messages.
    pub(super) name: Option<String>,
}

/// The required form of a value.
#[derive(Clone, Default)]
pub(super) enum Form {
    #[default]
    Any,
    Call(Callee, Args),
    Const,
    Param,
    Tuple(Args),
    TupleGet(Pattern, Option<u32>),
    Or(Vec<Pattern>),
    And(Vec<Pattern>),
    Not(Pattern),
    /// `first`, or `more`, in which the hole with this number is the chain itself.
    Chain {
        hole: u64,
        first: Pattern,
        more: Pattern,
    },
    Hole(u64),
}

/// The required callee.
#[derive(Clone)]
pub(super) enum Callee {
    Any,
    Op(Arc<str>),
    /// A function of the module.
    Global(Option<String>),
    /// A PrimFunc, through `relax.call_tir`.
    Prim(Option<String>),
}

/// A condition on a single value.
#[derive(Clone)]
pub(super) enum Test {
    Kind(CaptureKind),
    Attr(String, Attr),
    AttrIf(String, String, Arc<dyn Fn(AttrView<'_>) -> bool + Send + Sync>),
    CalleeAttr(String, Attr),
    Type(Type),
    DType(DType),
    Rank(usize),
    Shape(Vec<DimPattern>),
    Scalar(f64),
    UsedOnce,
    Pure,
    When(String, Arc<dyn Fn(Value<'_>) -> bool + Send + Sync>),
}

/// The position of a neighbour of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Arg(u32),
    AnyArg,
    User,
    OnlyUser,
}

/// A condition on a whole match.
#[derive(Clone)]
pub(super) enum Check {
    OneBlock,
    Closure(Arc<dyn for<'m> Fn(&Match<'m>) -> Result<(), PassError> + Send + Sync>),
}

/// The patterns of the arguments of a call, or of the elements of a tuple: `[a, b]`, or `..` for any values.
#[derive(Clone)]
#[non_exhaustive]
pub enum Args {
    /// Any values.
    Any,
    /// Exactly these values, in this order.
    Each(Vec<Pattern>),
}

impl From<RangeFull> for Args {
    fn from(_: RangeFull) -> Args {
        Args::Any
    }
}

impl<const N: usize> From<[Pattern; N]> for Args {
    fn from(patterns: [Pattern; N]) -> Args {
        Args::Each(patterns.into())
    }
}

impl<const N: usize> From<[&Pattern; N]> for Args {
    fn from(patterns: [&Pattern; N]) -> Args {
        Args::Each(patterns.into_iter().cloned().collect())
    }
}

impl From<Vec<Pattern>> for Args {
    fn from(patterns: Vec<Pattern>) -> Args {
        Args::Each(patterns)
    }
}

impl From<&Pattern> for Pattern {
    fn from(pattern: &Pattern) -> Pattern {
        pattern.clone()
    }
}

impl Node {
    /// Moves the parts out of the node.
    fn take_parts(&mut self) -> Vec<Pattern> {
        let mut parts: Vec<Pattern> = std::mem::take(&mut self.parts).into_iter().map(|(_, part)| part).collect();
        match std::mem::take(&mut self.form) {
            Form::Call(_, Args::Each(all)) | Form::Tuple(Args::Each(all)) | Form::Or(all) | Form::And(all) => {
                parts.extend(all);
            }
            Form::TupleGet(one, _) | Form::Not(one) => parts.push(one),
            Form::Chain { first, more, .. } => parts.extend([first, more]),
            _ => {}
        }
        parts
    }
}

/// Drops the parts iteratively, because patterns may be nested deeper than the stack allows.
impl Drop for Node {
    fn drop(&mut self) {
        let mut rest = self.take_parts();
        while let Some(part) = rest.pop() {
            if let Some(mut node) = Arc::into_inner(part.0) {
                rest.extend(node.take_parts());
            }
        }
    }
}

impl Pattern {
    pub(super) fn of(form: Form) -> Pattern {
        let mut node = Node::default();
        node.form = form;
        Pattern(Arc::new(node))
    }

    /// Returns the pattern with a further condition on the same value.
    fn with(mut self, change: impl FnOnce(&mut Node)) -> Pattern {
        change(Arc::make_mut(&mut self.0));
        self
    }

    fn test(self, test: Test) -> Pattern {
        self.with(|node| node.tests.push(test))
    }

    fn part(self, part: Part, pattern: impl Into<Pattern>) -> Pattern {
        let pattern = pattern.into();
        self.with(|node| node.parts.push((part, pattern)))
    }

    /// Captures the value under a name, which is the key for [`Match::get`]. `name` is a string, or a typed [`Capture`](super::Capture).
    ///
    /// A pattern that contains a capture twice matches only if both occurrences are the same value.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// // a + a, whatever a is
    /// let doubled = is_op("relax.add", [wildcard().bind("a"), wildcard().bind("a")]);
    /// # let (body, [_, twice, sum]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&doubled).on(&body).at(twice).is_some());
    /// assert!(Matcher::new(&doubled).on(&body).at(sum).is_none());
    /// ```
    pub fn bind(self, name: impl CaptureKey) -> Pattern {
        let (kind, name) = (name.kind(), name.name().to_string());
        let pattern = if kind == CaptureKind::Value { self } else { self.test(Test::Kind(kind)) };
        pattern.with(|node| node.captures.push(name))
    }

    /// Names the pattern in messages about failed matches.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// assert_eq!(is_op("relax.nn.relu", [wildcard()]).to_string(), "relax.nn.relu(_)");
    /// assert_eq!(is_op("relax.nn.relu", [wildcard()]).named("activation").to_string(), "activation");
    /// ```
    pub fn named(self, name: &str) -> Pattern {
        self.with(|node| node.name = Some(name.to_string()))
    }

    /// Requires that argument `i`, counted from 0, matches. In a call of a PrimFunc ([`is_call_tir`](super::is_call_tir)), this is an argument of the
    /// PrimFunc.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::{Matcher, is_const};
    ///
    /// let scaled = is_op("relax.multiply", ..).arg(1, is_const());
    /// # let (body, [_, twice, _]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&scaled).on(&body).all().next().is_none());
    /// ```
    pub fn arg(self, i: usize, pattern: impl Into<Pattern>) -> Pattern {
        self.part(Part::Arg(u32::try_from(i).unwrap_or(u32::MAX)), pattern)
    }

    /// Requires that at least one argument matches. The first matching argument is captured.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let after_relu = wildcard().any_arg(is_op("relax.nn.relu", ..));
    /// # let (body, [_, twice, _]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&after_relu).on(&body).at(twice).is_some());
    /// ```
    pub fn any_arg(self, pattern: impl Into<Pattern>) -> Pattern {
        self.part(Part::AnyArg, pattern)
    }

    /// Requires that at least one user of the value matches. The first matching user is captured.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let added = is_op("relax.nn.relu", ..).used_by(is_op("relax.add", ..).bind("sum"));
    /// # let (body, [relu, twice, _]) = plugin_api::pattern::example();
    /// let found = Matcher::new(&added).on(&body).at(relu).expect("a match");
    /// assert_eq!(found.get("sum")?, twice);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn used_by(self, user: impl Into<Pattern>) -> Pattern {
        self.part(Part::User, user)
    }

    /// Requires that the value has a single user, possibly with several uses, and that the user matches. The result of a function or branch
    /// does not match, because the return is also a user.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let only_added = is_op("relax.add", ..).only_used_by(is_op("relax.add", ..));
    /// # let (body, [_, twice, sum]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&only_added).on(&body).at(twice).is_some());
    /// assert!(Matcher::new(&only_added).on(&body).at(sum).is_none()); // the function returns it
    /// ```
    pub fn only_used_by(self, user: impl Into<Pattern>) -> Pattern {
        self.part(Part::OnlyUser, user)
    }

    /// Requires that the value is used exactly once and is not a result. In a fusion, every value but the last needs this.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let fused = is_op("relax.add", [is_op("relax.nn.relu", ..).used_once(), wildcard()]);
    /// # let (body, [_, twice, _]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&fused).on(&body).at(twice).is_none()); // twice = relu + relu
    /// ```
    pub fn used_once(self) -> Pattern {
        self.test(Test::UsedOnce)
    }

    /// Requires that the value has no effect.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::{Matcher, is_call};
    ///
    /// # let (body, [relu, ..]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&is_call(..).pure()).on(&body).at(relu).is_some());
    /// ```
    pub fn pure(self) -> Pattern {
        self.test(Test::Pure)
    }

    /// Requires that the attribute `key` has the given value.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let depthwise = is_op("relax.nn.conv2d", ..).attr("groups", 32).attr("data_layout", "NCHW");
    /// # let (body, _) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&depthwise).on(&body).all().next().is_none());
    /// ```
    pub fn attr(self, key: &str, value: impl Into<Attr>) -> Pattern {
        self.test(Test::Attr(key.to_string(), value.into()))
    }

    /// Requires that `condition` holds for the attribute `key`. `expected` describes the condition in words.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let grouped = is_op("relax.nn.conv2d", ..)
    ///     .attr_if("groups", "more than one group", |groups| groups.as_int().is_some_and(|n| n > 1));
    /// # let (body, _) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&grouped).on(&body).all().next().is_none());
    /// ```
    pub fn attr_if(
        self,
        key: &str,
        expected: &str,
        condition: impl Fn(AttrView<'_>) -> bool + Send + Sync + 'static,
    ) -> Pattern {
        self.test(Test::AttrIf(key.to_string(), expected.to_string(), Arc::new(condition)))
    }

    /// Requires that the called function has the given attribute. The matcher needs the module:
    /// [`Matcher::in_module`](super::Matcher::in_module).
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::{Matcher, is_call_tir};
    ///
    /// let conv = is_call_tir(..).callee_attr("my_op_kind", "convolution");
    /// # let (body, _) = plugin_api::pattern::example();
    /// # let module = Module::new([("main", body.clone())]);
    /// assert!(Matcher::new(&conv).in_module(&module).on(&body).all().next().is_none());
    /// ```
    pub fn callee_attr(self, key: &str, value: impl Into<Attr>) -> Pattern {
        self.test(Test::CalleeAttr(key.to_string(), value.into()))
    }

    /// Requires the given type. For shapes with symbolic dimensions, use [`Pattern::shape`].
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let matrix = wildcard().ty(Type::tensor([2, 3], DType::F32));
    /// # let (body, [relu, ..]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&matrix).on(&body).at(relu).is_some());
    /// ```
    pub fn ty(self, ty: Type) -> Pattern {
        self.test(Test::Type(ty))
    }

    /// Requires the given data type or, for a tensor, element type.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// # let (body, [relu, ..]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&wildcard().dtype(DType::F32)).on(&body).at(relu).is_some());
    /// assert!(Matcher::new(&wildcard().dtype(DType::I32)).on(&body).at(relu).is_none());
    /// ```
    pub fn dtype(self, dtype: DType) -> Pattern {
        self.test(Test::DType(dtype))
    }

    /// Requires a tensor or shape with the given number of dimensions.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// # let (body, [relu, ..]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&wildcard().rank(2)).on(&body).at(relu).is_some());
    /// ```
    pub fn rank(self, rank: usize) -> Pattern {
        self.test(Test::Rank(rank))
    }

    /// Requires a tensor or shape with these dimensions: an array of integers, or a tuple of integers and names. A name matches any
    /// dimension, including a symbolic one. A repeated name must match the same dimension each time, except `"_"`, which always matches any
    /// dimension. [`Match::dim`] returns the dimension that a name matched.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// # let (body, [relu, ..]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&wildcard().shape([2, 3])).on(&body).at(relu).is_some());
    /// assert!(Matcher::new(&wildcard().shape(("n", "n"))).on(&body).at(relu).is_none());
    /// let found = Matcher::new(&wildcard().shape(("n", 3))).on(&body).at(relu).expect("a match");
    /// assert_eq!(found.dim("n")?, Dim::Int(2));
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn shape(self, dims: impl ShapePattern) -> Pattern {
        self.test(Test::Shape(dims.dims()))
    }

    /// Requires that `condition` holds for the value. `expected` describes the condition in words; messages quote it.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let bias = wildcard().when("at most one dimension", |value| value.ty().ndim() <= 1);
    /// # let (body, [relu, ..]) = plugin_api::pattern::example();
    /// let why = Matcher::new(&bias).on(&body).explain(relu).to_string();
    /// assert_eq!(why, "found a call of relax.nn.relu, expected at most one dimension");
    /// ```
    pub fn when(self, expected: &str, condition: impl Fn(Value<'_>) -> bool + Send + Sync + 'static) -> Pattern {
        self.test(Test::When(expected.to_string(), Arc::new(condition)))
    }

    /// Requires that `check` accepts the match of this pattern; its error is the reason for a rejection. `check` is called for the first
    /// way in which the pattern matches, with only the captures of this pattern.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let not_doubled = is_op("relax.add", [wildcard().bind("a"), wildcard().bind("b")]).check(|found| {
    ///     if found.get("a")? == found.get("b")? {
    ///         bail!("both operands are the same value");
    ///     }
    ///     Ok(())
    /// });
    /// # let (body, [_, twice, sum]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&not_doubled).on(&body).at(twice).is_none());
    /// assert!(Matcher::new(&not_doubled).on(&body).at(sum).is_some());
    /// ```
    pub fn check(self, check: impl for<'m> Fn(&Match<'m>) -> Result<(), PassError> + Send + Sync + 'static) -> Pattern {
        self.with(|node| node.checks.push(Check::Closure(Arc::new(check))))
    }

    /// Requires that all calls, tuples and elements matched by this pattern are directly in one block, so that they can become a function.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::pattern::Matcher;
    ///
    /// let pair = is_op("relax.add", ..).any_arg(is_op("relax.nn.relu", ..)).in_one_block();
    /// # let (body, [_, twice, _]) = plugin_api::pattern::example();
    /// assert!(Matcher::new(&pair).on(&body).at(twice).is_some());
    /// ```
    pub fn in_one_block(self) -> Pattern {
        self.with(|node| node.checks.push(Check::OneBlock))
    }

    /// Requires a constant with a single element equal to `value`.
    pub(super) fn scalar(self, value: f64) -> Pattern {
        self.test(Test::Scalar(value))
    }
}

/// `a | b`: matches if one of the patterns matches; `a` is tried first.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::Matcher;
///
/// let activation = is_op("relax.nn.relu", ..) | is_op("relax.nn.gelu", ..);
/// # let (body, [relu, twice, _]) = plugin_api::pattern::example();
/// assert!(Matcher::new(&activation).on(&body).at(relu).is_some());
/// assert!(Matcher::new(&activation).on(&body).at(twice).is_none());
/// ```
impl BitOr for Pattern {
    type Output = Pattern;

    fn bitor(self, other: Pattern) -> Pattern {
        Pattern::of(Form::Or(vec![self, other]))
    }
}

/// `a & b`: matches if both patterns match.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::Matcher;
///
/// let both = is_op("relax.add", ..) & wildcard().rank(2);
/// # let (body, [relu, twice, _]) = plugin_api::pattern::example();
/// assert!(Matcher::new(&both).on(&body).at(twice).is_some());
/// assert!(Matcher::new(&both).on(&body).at(relu).is_none());
/// ```
impl BitAnd for Pattern {
    type Output = Pattern;

    fn bitand(self, other: Pattern) -> Pattern {
        Pattern::of(Form::And(vec![self, other]))
    }
}

/// `!a`: matches if the pattern does not. It captures nothing; captures in it refer to values that were captured earlier.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::{Matcher, is_const};
///
/// # let (body, [relu, ..]) = plugin_api::pattern::example();
/// assert!(Matcher::new(&!is_const()).on(&body).at(relu).is_some());
/// assert!(Matcher::new(&!is_op("relax.nn.relu", ..)).on(&body).at(relu).is_none());
/// ```
impl Not for Pattern {
    type Output = Pattern;

    fn not(self) -> Pattern {
        Pattern::of(Form::Not(self))
    }
}
