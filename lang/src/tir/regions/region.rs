//! Which part of a buffer is accessed.

use super::reached::Reached;
use crate::ir::{Dim, Value};

/// What an access says of a dimension: its start and, if it is more than an element, its extent.
#[derive(Clone, Copy, Debug)]
pub struct Part<'b> {
    /// Where it starts.
    pub min: Value<'b>,
    /// How many elements it has, if that is said.
    pub extent: Option<Value<'b>>,
}

impl<'b> Part<'b> {
    /// The element at these indices.
    pub fn element(indices: &[Value<'b>]) -> Vec<Part<'b>> {
        indices.iter().map(|index| Part { min: *index, extent: None }).collect()
    }

    /// The region with these starts and extents.
    pub fn region(ranges: &[(Value<'b>, Value<'b>)]) -> Vec<Part<'b>> {
        ranges.iter().map(|(min, extent)| Part { min: *min, extent: Some(*extent) }).collect()
    }
}

/// Least and greatest index in a dimension, as far as they are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// The least one.
    pub min: Option<Dim>,
    /// The greatest one.
    pub max: Option<Dim>,
}

impl Bounds {
    /// Neither is known.
    pub const UNKNOWN: Bounds = Bounds { min: None, max: None };

    /// Both, as far as they are known.
    pub fn ends(&self) -> impl Iterator<Item = &Dim> {
        [&self.min, &self.max].into_iter().flatten()
    }

    /// The bounds of what lies between these or others.
    pub fn join(&mut self, other: Bounds, reached: &mut Reached<'_>) {
        self.min = self.min.take().zip(other.min).map(|(a, b)| reached.least(a, b));
        self.max = self.max.take().zip(other.max).map(|(a, b)| reached.greatest(a, b));
    }
}

/// Start and extent of a region in a dimension.
#[derive(Clone, Debug)]
pub struct Range {
    /// Where it starts.
    pub min: Dim,
    /// How many elements it has.
    pub extent: Dim,
}

impl Range {
    /// All of a dimension.
    pub fn whole(extent: Dim) -> Range {
        Range { min: Dim::int(0, extent.dtype()), extent }
    }
}
