//! Samples of images, and object detection.
//!
//! Loops over the elements of a region, or over the samples of a cell, have data-dependent extents in TVM. Here, each loop runs over an
//! extent that holds for all data.

mod boxes;
mod grid;
mod nms;
mod regions;

use super::Row;
use plugin_api::ir::DType;
use plugin_api::te::TeExpr;

pub(super) const ROWS: &[Row] = &[
    ("relax.image.grid_sample", grid::grid_sample),
    ("relax.vision.roi_align", regions::roi_align),
    ("relax.vision.roi_pool", regions::roi_pool),
    ("relax.vision.all_class_non_max_suppression", nms::all_classes),
    ("relax.vision.get_valid_counts", boxes::valid_counts),
    ("relax.vision.non_max_suppression", nms::suppression),
    ("relax.vision.multibox_transform_loc", boxes::decoded),
];

/// Returns the data type in which positions are computed: float64 if one of the operands has it, otherwise float32.
fn wide(of: &[DType]) -> DType {
    if of.contains(&DType::F64) { DType::F64 } else { DType::F32 }
}

/// Returns an index.
fn at(k: i64) -> TeExpr {
    TeExpr::int(k, DType::I64)
}

/// Returns a number of this data type.
fn number(value: f64, dtype: DType) -> TeExpr {
    TeExpr::float(value, DType::F64).cast(dtype)
}
