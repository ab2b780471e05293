//! The arguments of methods of an edit: values of the old body, or new ones.

use super::Edit;
use crate::ir::{Call, V, Value};

/// A value of an edit: one of the old body ([`Value`], [`Call`]), or a new one ([`V`]).
pub trait Operand: Copy {
    /// Converts the value to one of an edit.
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
