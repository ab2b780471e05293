//! New constants in rewritten bodies.

use crate::ir::V;
use crate::ir::constant::{Array, AsElement, ConstantError};
use crate::rewrite::Edit;
use crate::rewrite::mutators::Rewriter;

impl Edit<'_> {
    /// Adds a constant, from its shape and its elements in row-major order.
    ///
    /// # Errors
    /// If the number of elements does not match the shape.
    pub fn constant<T: AsElement>(
        &mut self,
        shape: &[i64],
        values: impl IntoIterator<Item = T>,
    ) -> Result<V, ConstantError> {
        Ok(self.array(&Array::new(shape, values)?))
    }

    /// Adds a constant from an array.
    pub fn array(&mut self, array: &Array) -> V {
        self.builder().array(array)
    }
}

impl Rewriter<'_> {
    /// Adds a constant, from its shape and its elements in row-major order: `rw.constant(&[2], [1.0f32, 2.0])`. The documentation of
    /// [`Constant`](crate::ir::constant::Constant) has an example.
    ///
    /// # Errors
    /// If the number of elements does not match the shape.
    pub fn constant<T: AsElement>(
        &mut self,
        shape: &[i64],
        values: impl IntoIterator<Item = T>,
    ) -> Result<V, ConstantError> {
        self.edit().constant(shape, values)
    }

    /// Adds a constant from an array.
    pub fn array(&mut self, array: &Array) -> V {
        self.edit().array(array)
    }
}
