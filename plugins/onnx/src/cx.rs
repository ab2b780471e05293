//! The state of the reader, which emits calls and looks up the names of the model.

use crate::graph::Scopes;
use crate::narrow;
use crate::value::{Res, T};
use importer::emitter::Emitter;
use plugin_api::prelude::*;
use plugin_api::tvm::FunctionBuilder;
use std::ops::{Deref, DerefMut};

/// The function under construction, and the values to which its names refer.
pub(crate) struct Cx<'a> {
    emitter: Emitter<'a>,
    pub(crate) scopes: Scopes<'a>,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(b: &'a FunctionBuilder<'a, 'a>, scopes: Scopes<'a>) -> Cx<'a> {
        Cx { emitter: Emitter::new(b), scopes }
    }

    /// Converts a tensor, which may hold the bytes of a narrow type, to another data type.
    pub(crate) fn cast(&self, x: &T, dtype: DType) -> Res<T> {
        if x.narrow().is_some() { narrow::widened(self, x, dtype) } else { self.emitter.cast(x, dtype) }
    }
}

impl<'a> Deref for Cx<'a> {
    type Target = Emitter<'a>;

    fn deref(&self) -> &Emitter<'a> {
        &self.emitter
    }
}

impl<'a> DerefMut for Cx<'a> {
    fn deref_mut(&mut self) -> &mut Emitter<'a> {
        &mut self.emitter
    }
}
