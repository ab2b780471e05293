//! Reductions in tiles: which loops make the tile, and the steps to it.

use super::schedule_for_cpu::{in_threads, inline_what_follows, lanes, tried};
use plugin_api::prelude::*;
use plugin_api::schedule::{BlockInfo, BlockRef, IterKind, LoopRef, Schedule};

/// A part of the result whose sums are kept in registers.
pub(super) struct Tile {
    /// Position of the loop whose iterations are lanes, among those of the result.
    vector: usize,
    lanes: i64,
    /// How many vectors of it belong to a tile.
    vectors: i64,
    /// Position of a loop of which some iterations belong to a tile, and how many.
    rows: Option<(usize, i64)>,
}

/// Vectors of a tile: as many as a processor has registers for, with some left for operands.
const MOST_VECTORS: i64 = 16;
/// Rows of a tile.
const MOST_ROWS: i64 = 8;

impl Tile {
    /// For a reduction. A convolution has its rows over channels, whatever else combines elements over the loop before the
    /// vectors' one.
    pub(super) fn of(info: &BlockInfo, vector_bytes: i64) -> Result<Tile, PassError> {
        let extents: Vec<i64> = info
            .iters
            .iter()
            .filter(|iter| iter.kind == IterKind::Spatial)
            .map(|iter| iter.extent.ok_or_else(|| pass_error!("an extent that is no number")))
            .collect::<Result<_, _>>()?;
        let reductions = info.iters.iter().filter(|iter| iter.kind == IterKind::Reduce).count();
        let long = extents.iter().rposition(|extent| *extent > 1);
        let vector = long.ok_or_else(|| pass_error!("a result of one element"))?;
        let most = lanes(info, vector_bytes)?;
        // Half a vector wastes less on a short loop.
        let lanes = if extents[vector] * 2 <= most { most / 2 } else { most };
        let row = if reductions >= 3 && extents.len() == 4 { Some(1) } else { vector.checked_sub(1) };
        let row = row.filter(|row| *row != vector && extents[*row] > 1);
        let rows = row.map(|row| (row, divisor(extents[row], MOST_ROWS)));
        let n_rows = rows.map_or(1, |(_, rows)| rows);
        let needed = extents[vector].div_euclid(lanes).max(1);
        let vectors = needed.min(MOST_VECTORS / n_rows).max(1);
        Ok(Tile { vector, lanes, vectors, rows })
    }
}

/// The largest divisor that is not more than `most`.
fn divisor(extent: i64, most: i64) -> i64 {
    (1..=most).rev().find(|of| extent % of == 0).unwrap_or(1)
}

/// Computes a reduction tile by tile, and what follows it for each tile.
pub(super) fn tiled(schedule: &mut Schedule, block: BlockRef, tile: &Tile) -> Result<(), PassError> {
    let written = schedule.cache_write(block, 0, "local")?;
    let loops = schedule.get_loops(block)?;
    let (mut spatial, mut reduced) = (Vec::new(), Vec::new());
    for of in loops {
        match schedule.iter_kind(of)? {
            IterKind::Spatial => spatial.push(of),
            IterKind::Reduce => reduced.push(of),
            _ => bail!("a loop over several things"),
        }
    }
    let first = *reduced.first().ok_or_else(|| pass_error!("no loop of what is combined"))?;
    let mut inner = Vec::new();
    if let Some((row, rows)) = tile.rows {
        let [outer, of_tile] = schedule.split(spatial[row], [None, Some(rows)])?;
        spatial[row] = outer;
        inner.push(of_tile);
    }
    let [outer, vectors, lanes] = schedule.split(spatial[tile.vector], [None, Some(tile.vectors), Some(tile.lanes)])?;
    // Loops of the result that come after the vectors' one have one iteration.
    spatial[tile.vector] = outer;
    inner.extend([vectors, lanes]);
    let order: Vec<LoopRef> = spatial.iter().chain(&reduced).chain(&inner).copied().collect();
    schedule.reorder(&order)?;
    let innermost = *spatial.last().ok_or_else(|| pass_error!("no loop of the result"))?;
    follow(schedule, written, innermost, tile.lanes)?;
    let init = schedule.decompose_reduction(block, first)?;
    for of in [block, init] {
        let loops = schedule.get_loops(of)?;
        let of_tile = loops.len().saturating_sub(inner.len());
        in_registers(schedule, &loops[of_tile..])?;
    }
    in_threads(schedule, &spatial);
    Ok(())
}

/// Computes what follows a reduction where a tile of it is there.
fn follow(schedule: &mut Schedule, written: BlockRef, at: LoopRef, lanes: i64) -> Result<(), PassError> {
    let name = schedule.block_info(written)?.name;
    inline_what_follows(schedule);
    // What the tile is written to, or the block that it went into.
    let last = match schedule.get_block(&name) {
        Ok(written) => written,
        Err(_) => schedule.blocks().last().map(|last| last.block).ok_or_else(|| pass_error!("no block"))?,
    };
    schedule.reverse_compute_at(last, at)?;
    let loops = schedule.get_loops(last)?;
    let vector = *loops.last().ok_or_else(|| pass_error!("no loop"))?;
    tried(schedule, |trial| {
        let [_, vector] = trial.split(vector, [None, Some(lanes)])?;
        trial.vectorize(vector)
    });
    Ok(())
}

/// The loops of a tile: the last one in vectors, the others written out.
fn in_registers(schedule: &mut Schedule, loops: &[LoopRef]) -> Result<(), PassError> {
    let Some((vector, others)) = loops.split_last() else { return Ok(()) };
    schedule.vectorize(*vector)?;
    others.iter().try_for_each(|of| schedule.unroll(*of))
}
