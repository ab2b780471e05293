//! Names of captures, optionally with the kind of the captured value.

use crate::ir::{Call, Constant, Value};
use std::marker::PhantomData;

/// The kind of value that a capture accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureKind {
    /// Any value.
    Value,
    /// A call.
    Call,
    /// A constant.
    Constant,
}

/// A typed handle of a capture. Patterns [`bind`](super::Pattern::bind) the handle, and [`Match::get`](super::Match::get) returns the
/// captured value as a [`Call`] or [`Constant`], without a further check. Two handles with the same name are the same capture.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::pattern::Matcher;
///
/// const SUM: Capture<Call> = Capture::new("sum");
///
/// let pattern = wildcard().bind(SUM);
/// # let (body, [_, twice, _]) = plugin_api::pattern::example();
/// let found = Matcher::new(&pattern).on(&body).at(twice).expect("a match");
/// assert_eq!(found.get(SUM)?.op(), Some("relax.add"));
/// # Ok::<(), PassError>(())
/// ```
pub struct Capture<T> {
    name: &'static str,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Capture<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Capture<T> {}

impl<T: Captured> Capture<T> {
    /// Creates a capture with a name.
    pub const fn new(name: &'static str) -> Capture<T> {
        Capture { name, kind: PhantomData }
    }
}

/// The types of captured values: [`Value`], [`Call`] and [`Constant`].
pub trait Captured {
    /// The type of the captured value in a body.
    type Of<'b>;
    /// The required kind of value.
    const KIND: CaptureKind;

    /// Converts the value to this type.
    fn of(value: Value<'_>) -> Option<Self::Of<'_>>;
}

impl Captured for Value<'static> {
    type Of<'b> = Value<'b>;
    const KIND: CaptureKind = CaptureKind::Value;

    fn of(value: Value<'_>) -> Option<Value<'_>> {
        Some(value)
    }
}

impl Captured for Call<'static> {
    type Of<'b> = Call<'b>;
    const KIND: CaptureKind = CaptureKind::Call;

    fn of(value: Value<'_>) -> Option<Call<'_>> {
        value.as_call()
    }
}

impl Captured for Constant<'static> {
    type Of<'b> = Constant<'b>;
    const KIND: CaptureKind = CaptureKind::Constant;

    fn of(value: Value<'_>) -> Option<Constant<'_>> {
        value.as_constant()
    }
}

/// A key of a capture: a string, which captures a [`Value`], or a [`Capture`].
pub trait CaptureKey {
    /// The type of the captured value in a body.
    type Of<'b>;

    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns the required kind of value.
    fn kind(&self) -> CaptureKind;

    /// Converts the value to the captured type.
    fn of<'b>(&self, value: Value<'b>) -> Option<Self::Of<'b>>;
}

impl CaptureKey for &str {
    type Of<'b> = Value<'b>;

    fn name(&self) -> &str {
        self
    }

    fn kind(&self) -> CaptureKind {
        CaptureKind::Value
    }

    fn of<'b>(&self, value: Value<'b>) -> Option<Value<'b>> {
        Some(value)
    }
}

impl<T: Captured> CaptureKey for Capture<T> {
    type Of<'b> = T::Of<'b>;

    fn name(&self) -> &str {
        self.name
    }

    fn kind(&self) -> CaptureKind {
        T::KIND
    }

    fn of<'b>(&self, value: Value<'b>) -> Option<T::Of<'b>> {
        T::of(value)
    }
}
