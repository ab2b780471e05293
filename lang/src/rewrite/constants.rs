//! New constants where a body is rewritten.

use crate::ir::V;
use crate::ir::constant::{Array, AsElement, ConstantError};
use crate::rewrite::Edit;
use crate::rewrite::mutators::Rewriter;

impl Edit<'_> {
    /// A new constant, from its shape and its elements in row-major order.
    ///
    /// # Errors
    /// If there are not as many elements as the shape says.
    pub fn constant<T: AsElement>(
        &mut self,
        shape: &[i64],
        values: impl IntoIterator<Item = T>,
    ) -> Result<V, ConstantError> {
        Ok(self.array(&Array::new(shape, values)?))
    }

    /// A new constant of an array.
    pub fn array(&mut self, array: &Array) -> V {
        self.builder().array(array)
    }
}

impl Rewriter<'_> {
    /// A new constant, from its shape and its elements in row-major order: `rw.constant(&[2], [1.0f32, 2.0])`. An example
    /// is in the documentation of [`Constant`](crate::ir::constant::Constant).
    ///
    /// # Errors
    /// If there are not as many elements as the shape says.
    pub fn constant<T: AsElement>(
        &mut self,
        shape: &[i64],
        values: impl IntoIterator<Item = T>,
    ) -> Result<V, ConstantError> {
        self.edit().constant(shape, values)
    }

    /// A new constant of an array.
    pub fn array(&mut self, array: &Array) -> V {
        self.edit().array(array)
    }
}
