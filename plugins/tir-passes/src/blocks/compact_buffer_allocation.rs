//! Shrinks buffers to the region that is accessed.

mod accessed;
mod names;

use super::lower_opaque_block::{DIM_ALIGN, alignments};
use accessed::Accesses;
use plugin_api::ir::BufferType;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::regions::linear::{add, mul, sub};
use plugin_api::tir::regions::region::Range;

declare_pass! {
    /// Shrinks buffers to the region that is accessed within one iteration of the loops around their allocation.
    ///
    /// Expects blocks without iterators; run s_tir.ConvertBlocksToOpaque first. Keeps parameters. Also keeps a buffer
    /// if its data is passed to a call, unless an enclosing block declares the accesses to the buffer. A region whose
    /// size depends on loops gets its greatest size, if that is known.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    ///     for i in range(8):
    ///         B = T.alloc_buffer((8, 16))
    ///         for j in range(16):
    ///             B[i, j] = A[i, j]
    ///         for j in range(16):
    ///             C[i, j] = B[i, 15 - j]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    ///     for i in range(8):
    ///         B = T.alloc_buffer((1, 16))
    ///         for j in range(16):
    ///             B[i - i, j] = A[i, j]
    ///         for j in range(16):
    ///             C[i, j] = B[i - i, 15 - j]
    /// ```
    pub prim_func pass COMPACT_BUFFER_ALLOCATION = "s_tir.CompactBufferAllocation" {
        opt_level: 0,
        options: Options {
            /// True if a buffer may never become larger.
            is_strict: bool = true,
        },
        run: compact_buffer_allocation,
    }
}

fn compact_buffer_allocation(body: &Body, options: &Options, _: &Ctx) -> Result<Body, PassError> {
    let regions = Accesses::of(body)?.regions(options.is_strict)?;
    let aligned = alignments(body)?;
    body.try_rewrite(|value, rw| {
        if let Some(ty) = value.as_buffer_type()
            && let Some(region) = regions.get(value)
        {
            let rows = aligned.get(value).cloned().or_else(|| match value.attr(DIM_ALIGN)?.to_owned() {
                Attr::List(rows) => Some(rows.to_vec()),
                _ => None,
            });
            rw.set_type(value, &Type::Buffer(compacted(ty, region, &rows.unwrap_or_default())));
        }
        move_access(value, &regions, rw)?;
        Ok(Action::Keep)
    })
}

/// Makes the indices of an access relative to the start of the buffer's region.
fn move_access<'b>(
    value: Value<'b>,
    regions: &ValueMap<'b, Vec<Range>>,
    rw: &mut Rewriter<'b>,
) -> Result<(), PassError> {
    let moved = |buffer: Value<'b>| {
        regions.get(buffer).filter(|region| region.iter().any(|range| range.min.as_int() != Some(0)))
    };
    if let Some(access) = value.as_element_access()
        && let Some(region) = regions.get(access.buffer)
        && (moved(access.buffer).is_some() || access.indices.iter().any(|index| is_vector(*index)))
    {
        let (buffer, indices) = rw.tir(|t| {
            let moved = access.indices.iter().zip(region).map(|(index, range)| match is_vector(*index) {
                // TVM subtracts 0 from vectors, too.
                true => (t.value(*index) - t.broadcast(t.index(&range.min), *index)).v(),
                false => (t.value(*index) - t.index(&range.min)).v(),
            });
            (t.buffer(access.buffer).v(), moved.collect::<Vec<V>>())
        })?;
        rw.edit().set_access(value, buffer, &indices);
    }
    if let Some(access) = value.as_region_access()
        && let Some(region) = moved(access.buffer)
    {
        let (buffer, ranges) = rw.tir(|t| {
            let moved = access.ranges.iter().zip(region).map(|((start, extent), range)| {
                let start = t.value(*start) - t.index(&range.min);
                (start.v(), t.value(*extent).v())
            });
            (t.buffer(access.buffer).v(), moved.collect::<Vec<(V, V)>>())
        })?;
        rw.edit().set_region(value, buffer, &ranges);
    }
    Ok(())
}

/// Returns the buffer with the extents of a region. If its rows are aligned, the buffer also has strides.
fn compacted(ty: BufferType, region: &[Range], rows: &[Attr]) -> BufferType {
    let shape: Vec<Dim> = region.iter().map(|range| range.extent.clone()).collect();
    let mut aligned = vec![None; shape.len()];
    for row in rows {
        let Attr::List(row) = row else { continue };
        if let [_, Attr::Int(dim), Attr::Int(factor), Attr::Int(offset)] = row[..]
            && let Some(aligned) = aligned.get_mut(dim as usize)
        {
            *aligned = Some((factor, offset));
        }
    }
    if rows.is_empty() {
        return BufferType { strides: Vec::new(), ..ty.viewed(shape) };
    }
    let mut stride = Dim::int(1, shape.first().map_or(DType::I32, Dim::dtype));
    let mut strides = Vec::with_capacity(shape.len());
    for (extent, aligned) in shape.iter().zip(aligned).rev() {
        if let Some((factor, offset)) = aligned {
            stride = next_aligned(stride, factor, offset);
        }
        strides.push(stride.clone());
        stride = mul(stride, extent.clone());
    }
    strides.reverse();
    BufferType { strides, ..ty.viewed(shape) }
}

/// Returns the least stride that is at least `stride` and equals `offset` plus a multiple of `factor`.
fn next_aligned(stride: Dim, factor: i64, offset: i64) -> Dim {
    let number = |value| Dim::int(value, stride.dtype());
    match stride.as_int() {
        _ if factor <= 0 => stride,
        Some(known) => number(known + (factor + offset - known % factor) % factor),
        None => {
            let rest = Dim::binary(PrimOp::FloorMod, stride.clone(), number(factor));
            let missing = Dim::binary(PrimOp::FloorMod, sub(number(factor + offset), rest), number(factor));
            add(stride, missing)
        }
    }
}

/// Returns true if an index is a vector of known length.
fn is_vector(index: Value<'_>) -> bool {
    (2..=i16::MAX).contains(&(index.ty().dtype().lanes() as i16))
}
