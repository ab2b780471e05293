//! Names of captures, plain and with the kind of value that they capture.

use crate::ir::{Call, Constant, Value};
use std::marker::PhantomData;

/// What kind of value a capture wants.
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

/// A typed handle of a capture. Patterns [`bind`](super::Pattern::bind) it, and [`Match::get`](super::Match::get) returns
/// what it captured: as a [`Call`] or [`Constant`], so that nothing is left to look at twice. Two handles of one name are
/// the same capture.
///
/// ```
/// use plugin_api::prelude::*;
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
    /// A capture of this name.
    pub const fn new(name: &'static str) -> Capture<T> {
        Capture { name, kind: PhantomData }
    }
}

/// What a [`Capture`] can be of: [`Value`], [`Call`] and [`Constant`].
pub trait Captured {
    /// The same in a body.
    type Of<'b>;
    /// What is wanted of the value.
    const KIND: CaptureKind;

    /// The value as such.
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

/// What names a capture: a string, which captures a [`Value`], or a [`Capture`].
pub trait CaptureKey {
    /// What it captures in a body.
    type Of<'b>;

    /// Its name.
    fn name(&self) -> &str;

    /// What is wanted of the value.
    fn kind(&self) -> CaptureKind;

    /// The value as what this captures.
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
