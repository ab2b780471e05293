//! The accessed parts of a buffer.

use super::reached::Reached;
use crate::ir::{Dim, Value};

/// The access in one dimension: its start and, unless it is a single element, its extent.
#[derive(Clone, Copy, Debug)]
pub struct Part<'b> {
    /// The start.
    pub min: Value<'b>,
    /// The number of elements, if given.
    pub extent: Option<Value<'b>>,
}

impl<'b> Part<'b> {
    /// Returns the element at the given indices.
    pub fn element(indices: &[Value<'b>]) -> Vec<Part<'b>> {
        indices.iter().map(|index| Part { min: *index, extent: None }).collect()
    }

    /// Returns the region with the given starts and extents.
    pub fn region(ranges: &[(Value<'b>, Value<'b>)]) -> Vec<Part<'b>> {
        ranges.iter().map(|(min, extent)| Part { min: *min, extent: Some(*extent) }).collect()
    }
}

/// The least and greatest index in a dimension, if known.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// The least index.
    pub min: Option<Dim>,
    /// The greatest index.
    pub max: Option<Dim>,
}

impl Bounds {
    /// Unknown bounds.
    pub const UNKNOWN: Bounds = Bounds { min: None, max: None };

    /// Iterates over the known bounds.
    pub fn ends(&self) -> impl Iterator<Item = &Dim> {
        [&self.min, &self.max].into_iter().flatten()
    }

    /// Widens the bounds to include other bounds.
    pub fn join(&mut self, other: Bounds, reached: &mut Reached<'_>) {
        self.min = self.min.take().zip(other.min).map(|(a, b)| reached.least(a, b));
        self.max = self.max.take().zip(other.max).map(|(a, b)| reached.greatest(a, b));
    }
}

/// The start and extent of a region in a dimension.
#[derive(Clone, Debug)]
pub struct Range {
    /// The start.
    pub min: Dim,
    /// The number of elements.
    pub extent: Dim,
}

impl Range {
    /// Returns the whole range of a dimension.
    pub fn whole(extent: Dim) -> Range {
        Range { min: Dim::int(0, extent.dtype()), extent }
    }
}
