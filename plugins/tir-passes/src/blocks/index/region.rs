//! Which part of a buffer is accessed.

use super::reached::Reached;
use plugin_api::prelude::*;

/// What an access says of a dimension: its start and, if it is more than an element, its extent.
#[derive(Clone, Copy)]
pub(crate) struct Part<'b> {
    pub(crate) min: Value<'b>,
    pub(crate) extent: Option<Value<'b>>,
}

impl<'b> Part<'b> {
    /// The element at these indices.
    pub(crate) fn element(indices: &[Value<'b>]) -> Vec<Part<'b>> {
        indices.iter().map(|index| Part { min: *index, extent: None }).collect()
    }

    /// The region with these starts and extents.
    pub(crate) fn region(ranges: &[(Value<'b>, Value<'b>)]) -> Vec<Part<'b>> {
        ranges.iter().map(|(min, extent)| Part { min: *min, extent: Some(*extent) }).collect()
    }
}

/// Least and greatest index in a dimension, as far as they are known.
#[derive(PartialEq)]
pub(crate) struct Bounds {
    pub(crate) min: Option<Dim>,
    pub(crate) max: Option<Dim>,
}

impl Bounds {
    pub(crate) const UNKNOWN: Bounds = Bounds { min: None, max: None };

    /// Both, as far as they are known.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &Dim> {
        [&self.min, &self.max].into_iter().flatten()
    }

    /// The bounds of what lies between these or others.
    pub(crate) fn join(&mut self, other: Bounds, reached: &mut Reached<'_>) {
        self.min = self.min.take().zip(other.min).map(|(a, b)| reached.least(a, b));
        self.max = self.max.take().zip(other.max).map(|(a, b)| reached.greatest(a, b));
    }
}

/// Start and extent of a region in a dimension.
pub(crate) struct Range {
    pub(crate) min: Dim,
    pub(crate) extent: Dim,
}

impl Range {
    /// All of a dimension.
    pub(crate) fn whole(extent: Dim) -> Range {
        Range { min: Dim::int(0, extent.dtype()), extent }
    }
}
