//! Schedules a reduction in tiles.

use super::schedule_for_cpu::{in_threads, inline_into_consumer, tried};
use super::tile::{PARTS, Tile};
use plugin_api::prelude::*;
use plugin_api::schedule::{Accessed, BlockRef, BufferInfo, IterKind, LoopRef, Schedule};

/// The loops inside and around a tile.
struct Nest {
    /// The loops over parts of the result: first the loops that threads share, then the others.
    shared: Vec<LoopRef>,
    outer: Vec<LoopRef>,
    /// The loops of the reduction.
    reduced: Vec<LoopRef>,
    /// The loops in the tile; the last one is over the lanes.
    inner: Vec<LoopRef>,
}

/// Computes a reduction tile by tile, and the blocks that follow it for each tile.
pub(super) fn tiled(schedule: &mut Schedule, block: BlockRef, tile: &Tile) -> Result<(), PassError> {
    schedule.cache_write(block, 0, "local")?;
    let nest = nest(schedule, block, tile)?;
    let loops = [&nest.shared, &nest.outer, &nest.reduced, &nest.inner].into_iter().flatten();
    schedule.reorder(&loops.copied().collect::<Vec<LoopRef>>())?;
    prepare_input(schedule, block, &nest, tile)?;
    if let Some((iter, filter)) = tile.packed {
        pack(schedule, block, iter, filter, tile.lanes)?;
    }
    let innermost = nest.outer.last().or(nest.shared.last()).copied();
    let last_lanes = tile.channels.filter(|_| tile.packed.is_some()).map_or(tile.lanes, |(_, n)| n);
    follow(schedule, block, innermost.ok_or_else(|| pass_error!("the result does not have a loop"))?, last_lanes)?;
    let first = *nest.reduced.first().ok_or_else(|| pass_error!("the reduction does not have a loop"))?;
    let init = schedule.decompose_reduction(block, first)?;
    in_registers(schedule, &nest.inner)?;
    let loops = schedule.get_loops(init)?;
    let in_init = &loops[loops.len().saturating_sub(nest.inner.len())..];
    in_registers(schedule, in_init)?;
    whole_tiles(schedule, init, in_init);
    // The loop over lanes keeps its condition, which masks the loads beyond the end.
    whole_tiles(schedule, block, nest.inner.split_last().map_or(&[], |(_, others)| others));
    if !tile.is_serial {
        in_threads(schedule, &nest.shared);
    }
    Ok(())
}

/// Copies the filter that a reduction reads, and changes the layout of its sums, so that the lane iterator is last in
/// both.
fn pack(schedule: &mut Schedule, block: BlockRef, iter: usize, filter: usize, lanes: i64) -> Result<(), PassError> {
    let last = |of: &BufferInfo| -> Result<Vec<usize>, PassError> {
        let at = of
            .dims
            .iter()
            .position(|dim| dim[..] == [iter])
            .ok_or_else(|| pass_error!("the lanes do not have a dimension"))?;
        Ok((0..of.dims.len()).filter(|dim| *dim != at).chain([at]).collect())
    };
    let info = schedule.block_info(block)?;
    let [read, written] = [info.reads.get(filter), info.writes.first()];
    let order = last(read.ok_or_else(|| pass_error!("no filter"))?)?;
    let sums = last(written.ok_or_else(|| pass_error!("no sums"))?)?;
    schedule.transform_layout(block, Accessed::Write(0), &sums)?;
    let copy = schedule.cache_read(block, filter, "global")?;
    schedule.transform_layout(copy, Accessed::Write(0), &order)?;
    let mut loops: Vec<LoopRef> = schedule.get_loops(copy)?;
    let channels = loops.remove(order[order.len() - 1]);
    let [channels, some] = schedule.split(channels, [None, Some(lanes)])?;
    loops.insert(0, channels);
    loops.push(some);
    schedule.reorder(&loops)?;
    in_threads(schedule, &loops[..loops.len() - 1]);
    Ok(())
}

/// Splits the loops of a reduction.
fn nest(schedule: &mut Schedule, block: BlockRef, tile: &Tile) -> Result<Nest, PassError> {
    let info = schedule.block_info(block)?;
    let iters = info.iters.iter().filter(|iter| iter.kind == IterKind::Spatial);
    let mut spatial: Vec<Option<LoopRef>> = iters.map(|iter| iter.bound).collect();
    let (mut others, mut reduced) = (Vec::new(), Vec::new());
    for of in schedule.get_loops(block)? {
        match schedule.iter_kind(of)? {
            IterKind::Spatial if spatial.contains(&Some(of)) => {}
            IterKind::Spatial => others.push(of),
            IterKind::Reduce => reduced.push(of),
            _ => bail!("a loop that binds several kinds of iterators"),
        }
    }
    let (mut inner, mut block_loop) = (Vec::new(), None);
    let blocks = |at: usize| tile.block.filter(|(of, _)| *of == at).map(|(_, n)| n);
    for (at, n) in [tile.channels, tile.rows].into_iter().flatten() {
        let of_tile = Some(n).filter(|n| *n > 1);
        let parts = part(schedule, &mut spatial[at], [blocks(at), of_tile, None])?;
        block_loop = block_loop.or(parts[0]);
        inner.extend(parts[1]);
    }
    let vectors = Some(tile.vectors).filter(|n| *n > 1);
    let [of_block, vectors, lanes] =
        part(schedule, &mut spatial[tile.vector], [blocks(tile.vector), vectors, Some(tile.lanes)])?;
    block_loop = block_loop.or(of_block);
    inner.extend(vectors.into_iter().chain(lanes));
    let [channels, rows] = [tile.channels, tile.rows].map(|of| of.map(|(at, _)| at));
    let of_tile = [channels, rows, Some(tile.vector)];
    let outside = (0..spatial.len()).filter(|at| !of_tile.contains(&Some(*at))).filter_map(|at| spatial[at]);
    let others = outside.chain(others);
    let channels: Vec<LoopRef> = channels.into_iter().filter_map(|at| spatial[at]).collect();
    let columns: Vec<LoopRef> = rows.into_iter().chain([tile.vector]).filter_map(|at| spatial[at]).collect();
    let columns_first = tile.channels_last || channels.is_empty();
    let (first, last) = if columns_first { (columns, channels) } else { (channels, columns) };
    // If a part of the input is prepared per block, threads share the loop over blocks.
    let mut shared: Vec<LoopRef> = others.chain(block_loop).collect();
    let outer = match block_loop {
        Some(_) => first.into_iter().chain(last).collect(),
        None => {
            shared.extend(first);
            let known = shared.iter().filter_map(|of| schedule.loop_extent(*of).ok()?.as_int());
            if known.fold(1, i64::saturating_mul) < PARTS {
                shared.extend(last);
                Vec::new()
            } else {
                last
            }
        }
    };
    Ok(Nest { shared, outer, reduced, inner })
}

/// Splits a loop over the result, which becomes the loop over tiles, into an outer loop over blocks of tiles, and inner
/// loops over the iterations in a tile.
fn part(
    schedule: &mut Schedule,
    of: &mut Option<LoopRef>,
    [block, outer, lanes]: [Option<i64>; 3],
) -> Result<[Option<LoopRef>; 3], PassError> {
    let factors: Vec<Option<i64>> =
        std::iter::once(None).chain([block, outer, lanes].into_iter().filter(Option::is_some)).collect();
    if factors.len() == 1 {
        return Ok([None; 3]);
    }
    let whole = of.ok_or_else(|| pass_error!("an iterator that is not the variable of a loop"))?;
    let mut loops = schedule.split_by(whole, &factors)?.into_iter();
    let mut next = || loops.next().ok_or_else(|| pass_error!("a split returned too few loops"));
    let first = next()?;
    *of = Some(if block.is_some() { next()? } else { first });
    let mut in_tile = |n: Option<i64>| n.map(|_| next()).transpose();
    Ok([block.map(|_| first), in_tile(outer)?, in_tile(lanes)?])
}

/// Maximum number of steps of a reduction that is unrolled and computes its input in place.
const FEW_STEPS: i64 = 4;

/// If only the reduction uses an input, computes each part of it where the part is needed; otherwise, copies the input
/// there.
fn prepare_input(schedule: &mut Schedule, block: BlockRef, nest: &Nest, tile: &Tile) -> Result<(), PassError> {
    let producers = schedule.producers(block)?;
    let at = nest.shared.last().copied().filter(|_| tile.block.is_some());
    if let (Some(read), Some(at)) = (tile.copied.filter(|_| producers.is_empty()), at) {
        tried(schedule, |trial| {
            let copy = trial.cache_read(block, read, "global")?;
            trial.compute_at(copy, at)?;
            vectors_of_last(trial, copy, tile.lanes);
            Ok(())
        });
    }
    let mut steps = 1;
    for of in &nest.reduced {
        steps *= schedule.loop_extent(*of)?.as_int().unwrap_or(FEW_STEPS + 1).min(FEW_STEPS + 1);
    }
    let few = steps <= FEW_STEPS;
    if few {
        nest.reduced.iter().try_for_each(|of| schedule.unroll(*of))?;
    }
    for producer in producers {
        if let Some(at) = at {
            let moved = tried(schedule, |trial| trial.compute_at(producer, at));
            if moved {
                vectors_of_last(schedule, producer, tile.lanes);
            }
        } else if few || schedule.block_info(producer)?.is_copy {
            tried(schedule, |trial| trial.compute_inline(producer));
        }
    }
    Ok(())
}

/// Computes the blocks that follow a reduction right after each tile, provided that they need only that tile.
fn follow(schedule: &mut Schedule, block: BlockRef, at: LoopRef, lanes: i64) -> Result<(), PassError> {
    let mut placed = None;
    // The first block that follows copies the tile to its destination.
    while let [last] = schedule.consumers(block)?[..] {
        let mut trial = schedule.clone();
        if trial.reverse_compute_at(last, at).is_ok() {
            vectors_of_last(&mut trial, last, lanes);
            placed = Some(trial);
        }
        if !inline_into_consumer(schedule, last) {
            break;
        }
    }
    *schedule = placed.ok_or_else(|| pass_error!("blocks after the tile cannot be computed per tile"))?;
    Ok(())
}

/// Vectorizes the last loop of a block, if possible.
fn vectors_of_last(schedule: &mut Schedule, block: BlockRef, lanes: i64) {
    tried(schedule, |trial| {
        let loops = trial.get_loops(block)?;
        let last = *loops.last().ok_or_else(|| pass_error!("no loop"))?;
        let [_, vector] = trial.split(last, [None, Some(lanes)])?;
        trial.vectorize(vector)
    });
}

/// Computes the whole last tile, including the part beyond the end, because a condition on each row would keep the sums
/// out of registers.
fn whole_tiles(schedule: &mut Schedule, block: BlockRef, loops: &[LoopRef]) {
    for of in loops.iter().rev() {
        tried(schedule, |trial| trial.compute_whole_tiles(block, *of));
    }
}

/// Vectorizes the last loop of a tile and unrolls the others.
fn in_registers(schedule: &mut Schedule, loops: &[LoopRef]) -> Result<(), PassError> {
    let Some((vector, others)) = loops.split_last() else { return Ok(()) };
    schedule.vectorize(*vector)?;
    others.iter().try_for_each(|of| schedule.unroll(*of))
}
