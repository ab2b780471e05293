//! Indices.

use crate::emitter::Emitter;
use crate::tensor::{Res, T};
use plugin_api::prelude::*;

/// Converts negative indices, which count from the end of an axis, to nonnegative indices.
pub fn counted(cx: &Emitter<'_>, indices: &T, size: &Dim) -> Res<T> {
    if let Some(all) = indices.ints() {
        if all.iter().all(|at| *at >= 0) {
            return Ok(indices.clone());
        }
        if let Some(size) = size.as_int() {
            let all: Vec<i64> = all.iter().map(|at| if *at < 0 { at + size } else { *at }).collect();
            return cx.int64s(&indices.sizes().unwrap_or_default(), &all);
        }
    }
    if indices.dtype().code() == 1 {
        return Ok(indices.clone());
    }
    let wide = cx.cast(indices, DType::I64)?;
    let below = cx.bin("less", &wide, &cx.scalar(0.0, DType::I64)?)?;
    let size = cx.reshape(&cx.of_dims(vec![size.clone()])?, vec![])?;
    let moved = cx.add(&wide, &size)?;
    cx.select(&below, &moved, &wide)
}
