//! The arguments of edit methods: old or new values.

use super::Edit;
use crate::ir::{Call, V, Value};

/// A value of an edit: an old value ([`Value`], [`Call`]) or a new value ([`V`]).
pub trait Operand: Copy {
    /// Converts the value to a value of an edit.
    fn of(self, edit: &Edit<'_>) -> V;
}

impl Operand for V {
    fn of(self, _: &Edit<'_>) -> V {
        self
    }
}

impl Operand for Value<'_> {
    fn of(self, edit: &Edit<'_>) -> V {
        edit.v(self)
    }
}

impl Operand for Call<'_> {
    fn of(self, edit: &Edit<'_>) -> V {
        edit.v(self.value())
    }
}
