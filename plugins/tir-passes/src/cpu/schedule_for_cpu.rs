//! Schedules PrimFuncs for a CPU: vectors, tiles in registers, threads.
//!
//! *Expects* PrimFuncs with blocks, as LegalizeOps and FuseTIR create them. *Keeps* functions without blocks, and
//! blocks that no rule fits. *Never* changes the order in which a sum is computed, so results are bitwise identical.

use super::choices::chosen;
use super::tile::{PARTS, Tile};
use super::tiled::tiled;
use plugin_api::ir::loop_kind;
use plugin_api::prelude::*;
use plugin_api::schedule::{BlockInfo, BlockRef, IterInfo, IterKind, LoopRef, Schedule};
use std::collections::HashSet;

declare_pass! {
    /// Schedules PrimFuncs for a CPU, with vectors, tiles in registers, and threads.
    ///
    /// A reduction is computed in tiles whose sums stay in registers, and elementwise operations on its result are
    /// computed for each tile at once. The size of a tile minimizes the time per element in a simple model of registers,
    /// loads and cache conflicts. Inputs that are computed for the reduction, such as an input padded with zeros, are computed in
    /// parts, each for a few tiles and in the thread of these tiles. The same holds for the contiguous copy of an input
    /// that is larger than a cache and read often. If the width of a convolution is not a multiple of a vector, the
    /// lanes are channels, and the filter is copied so that its channels are contiguous. Other blocks get vectors and
    /// threads. Each step is a primitive of the schedule library, which rejects steps that would change the result; a
    /// block that does not match a rule does not change, and the reason is reported (`passhost run --missed`).
    ///
    /// Extents need not be constant. A tile is then chosen for a typical extent. If an extent is not a multiple of the
    /// tile, the last tile is computed whole: rows beyond the end repeat the last row, lanes beyond the end are masked,
    /// and only the elements within the extent are stored. If the rows or lanes of a tile are along a symbolic dimension,
    /// the function gets a second schedule for calls in which this dimension is 1, such as a single token or sample.
    ///
    /// The config option `tir.schedules` contains tiles that were measured for some PrimFuncs (`passhost tune`). They
    /// replace the tiles with the lowest estimates, except in these second schedules.
    ///
    /// Expects PrimFuncs with blocks; run `s_tir.LowerInitBlock` to `s_tir.LowerOpaqueBlock` afterwards. The order of
    /// sums does not change, so results are bit-identical.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
    ///     for i, j in T.grid(8, 64):
    ///         with T.sblock("B"):
    ///             vi, vj = T.axis.remap("SS", [i, j])
    ///             T.reads(A[vi, vj])
    ///             T.writes(B[vi, vj])
    ///             B[vi, vj] = T.max(A[vi, vj], T.float32(0.0))
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
    ///     for i_j_0_fused in T.parallel(32):
    ///         for j_1 in T.vectorized(16):
    ///             with T.sblock("B"):
    ///                 vi = T.axis.spatial(8, i_j_0_fused // 4)
    ///                 vj = T.axis.spatial(64, i_j_0_fused % 4 * 16 + j_1)
    ///                 T.reads(A[vi, vj])
    ///                 T.writes(B[vi, vj])
    ///                 B[vi, vj] = T.max(A[vi, vj], T.float32(0.0))
    /// ```
    pub prim_func pass SCHEDULE_FOR_CPU = "tir.ScheduleForCPU" {
        opt_level: 0,
        run: schedule_for_cpu,
        options: Options {
            /// The size of a vector of the processor, in bytes.
            vector_bytes: i64 in [16, 32, 64] = 64,
        }
    }
}

/// The maximum size of an expression that contains copies of another.
const MOST_COPIED: usize = 128;

fn schedule_for_cpu(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let chosen = chosen(body, ctx)?;
    let mut of_reductions = chosen.iter().map(Option::as_ref);
    let mut tile = |_: &Reduction<'_>| of_reductions.next().flatten().cloned();
    // Functions that the schedule library cannot parse are kept.
    let Ok(start) = Schedule::new(body) else { return Ok(body.clone()) };
    let any = scheduled(start, options.vector_bytes, &mut tile)?;
    any.missed.iter().for_each(|block| block.report(body, ctx));
    ctx.statistic("blocks scheduled", any.blocks);
    let versions = versions_for_one(&any, options.vector_bytes)?;
    any.schedule.finish_versions(&versions).or_else(|error| {
        ctx.diagnostics().missed(body.root(), &format!("the function is not scheduled: {error}"));
        Ok(body.clone())
    })
}

/// A reduction whose tile is to be chosen.
pub(super) struct Reduction<'i> {
    pub(super) info: &'i BlockInfo,
    /// Number of elements of a vector.
    pub(super) lanes: i64,
    /// True if the function computes an input only for this reduction.
    pub(super) has_own_input: bool,
}

/// Chooses the tile of a reduction; `None` is the tile with the lowest estimate. It is called for each reduction in order.
type ChooseTile<'c> = dyn FnMut(&Reduction<'_>) -> Option<Tile> + 'c;

/// The maximum number of additional schedules of a function.
const MOST_VERSIONS: usize = 2;

/// Returns schedules for calls in which a symbolic dimension is 1, those that assume most first. A tile of several rows
/// or lanes would compute all but one of them in vain.
fn versions_for_one(any: &Scheduled, vector_bytes: i64) -> Result<Vec<Schedule>, PassError> {
    let mut versions = Vec::new();
    let mut single = any.single.clone();
    while let Some(start) = single.take_if(|_| versions.len() < MOST_VERSIONS) {
        let one = scheduled(start, vector_bytes, &mut |_| None)?;
        if one.missed.len() <= any.missed.len() {
            versions.insert(0, one.schedule);
            single = one.single;
        }
    }
    Ok(versions)
}

/// A schedule for a CPU.
pub(super) struct Scheduled {
    schedule: Schedule,
    /// The number of scheduled blocks.
    blocks: usize,
    missed: Vec<MissedBlock>,
    /// The schedule before all steps, which assumes that a symbolic dimension is 1 along which tiles have several rows
    /// or lanes.
    single: Option<Schedule>,
}

/// Schedules all blocks.
pub(super) fn scheduled(
    mut schedule: Schedule,
    vector_bytes: i64,
    tile: &mut ChooseTile<'_>,
) -> Result<Scheduled, PassError> {
    let start = schedule.clone();
    let (mut blocks, mut missed, mut single) = (0, Vec::new(), None);
    inline_before_reductions(&mut schedule);
    for name in names(&schedule) {
        let Ok(block) = schedule.get_block(&name) else { continue };
        let is_reduction = schedule.block_info(block).is_ok_and(|info| info.has_init);
        if !is_reduction && has_kinds(&schedule, block)? {
            continue;
        }
        let tiled = is_reduction.then(|| tile_reduction(&mut schedule, block, vector_bytes, tile));
        let done = match &tiled {
            Some(Ok(tiled)) => {
                single = single.or_else(|| assuming_one(&start, tiled.several?));
                Ok(())
            }
            _ => {
                inline_what_follows(&mut schedule, block);
                attempt(&mut schedule, |trial| by_elements(trial, block, vector_bytes))
            }
        };
        blocks += usize::from(done.is_ok());
        let fits = match (tiled, done) {
            (Some(Ok(Tiled { refused: Some(error), .. })), _) => {
                Err(("gets the usual tile instead of the chosen one", error))
            }
            (Some(Ok(_)), _) | (None, Ok(())) => Ok(()),
            (Some(Err(error)), _) => Err(("is not computed in tiles", error)),
            (None, Err(error)) => Err(("gets no vectors or threads", error)),
        };
        if let Err((what, error)) = fits {
            missed.push(MissedBlock { name, what, reason: error.message });
        }
    }
    Ok(Scheduled { schedule, blocks, missed, single })
}

/// Returns true if a loop around a block is not serial, but parallel, vectorized or unrolled.
fn has_kinds(schedule: &Schedule, block: BlockRef) -> Result<bool, PassError> {
    let loops = schedule.get_loops(block)?;
    Ok(loops.iter().any(|of| schedule.loop_kind(*of).is_ok_and(|kind| kind != loop_kind::SERIAL)))
}

/// A block that is not scheduled as it should be.
pub(super) struct MissedBlock {
    name: String,
    /// What happens to the block.
    what: &'static str,
    reason: String,
}

impl MissedBlock {
    fn report(&self, body: &Body, ctx: &Ctx) {
        let MissedBlock { name, what, reason } = self;
        let is_named =
            |value: &Value<'_>| matches!(value.stmt(), Some(Stmt::Block)) && value.name() == Some(name.as_str());
        let at = body.values().find(is_named).unwrap_or_else(|| body.root());
        ctx.diagnostics().missed(at, &format!("block `{name}` {what}: {reason}"));
    }
}

/// Applies steps to a schedule. If they fail, the schedule is unchanged.
pub(super) fn tried(schedule: &mut Schedule, f: impl FnOnce(&mut Schedule) -> Result<(), PassError>) -> bool {
    attempt(schedule, f).is_ok()
}

/// Applies steps to a schedule. If they fail, the schedule is unchanged, and the reason is returned.
fn attempt<T>(schedule: &mut Schedule, f: impl FnOnce(&mut Schedule) -> Result<T, PassError>) -> Result<T, PassError> {
    let mut trial = schedule.clone();
    let out = f(&mut trial)?;
    *schedule = trial;
    Ok(out)
}

/// Inlines elementwise blocks that do not follow a reduction into the block that reads them.
fn inline_before_reductions(schedule: &mut Schedule) {
    let mut after_reductions = HashSet::new();
    for block in schedule.blocks() {
        let from = schedule.producers(block.block).unwrap_or_default();
        if block.has_init || from.iter().any(|producer| after_reductions.contains(producer)) {
            after_reductions.insert(block.block);
        } else {
            inline_into_consumer(schedule, block.block);
        }
    }
}

/// Merges the elementwise blocks that follow a reduction into one.
fn inline_what_follows(schedule: &mut Schedule, reduction: BlockRef) {
    while let [follower] = schedule.consumers(reduction).unwrap_or_default()[..]
        && inline_into_consumer(schedule, follower)
    {}
}

/// Inlines an elementwise block into its only reader. Excludes readers that combine elements, because they would
/// recompute the block many times.
pub(super) fn inline_into_consumer(schedule: &mut Schedule, block: BlockRef) -> bool {
    let is_plain = |of: BlockRef| {
        let plain = |of: BlockInfo| !of.has_init && of.iters.iter().all(|iter| iter.kind == IterKind::Spatial);
        schedule.block_info(of).is_ok_and(plain)
    };
    let consumers = schedule.consumers(block).unwrap_or_default();
    let [consumer] = consumers[..] else { return false };
    is_plain(block) && is_plain(consumer) && tried(schedule, |trial| inline_if_small(trial, block, consumer))
}

/// Inlines a block into its reader. If the reader loads the result several times, each load becomes a copy of the expression, so a chain
/// of such blocks would double in size with each block; then, the result must be small.
fn inline_if_small(schedule: &mut Schedule, block: BlockRef, reader: BlockRef) -> Result<(), PassError> {
    let apart = schedule.block_size(block)? + schedule.block_size(reader)?;
    schedule.compute_inline(block)?;
    let together = schedule.block_size(reader)?;
    if together > apart && together > MOST_COPIED {
        bail!("the expression would have {together} parts");
    }
    Ok(())
}

/// Returns the names of the blocks, reductions first, because later blocks are moved into the tiles of reductions.
fn names(schedule: &Schedule) -> Vec<String> {
    let (reductions, others): (Vec<BlockInfo>, Vec<BlockInfo>) =
        schedule.blocks().into_iter().partition(|block| block.has_init);
    reductions.into_iter().chain(others).map(|block| block.name).collect()
}

/// Returns a clone of a schedule that assumes that a loop has one iteration, if the extent is a symbolic dimension.
fn assuming_one(schedule: &Schedule, of: LoopRef) -> Option<Schedule> {
    let mut one = schedule.clone();
    one.assume(of, 1).ok().map(|()| one)
}

/// A reduction that is computed in tiles.
struct Tiled {
    /// The loop of unknown extent along which tiles have several rows or lanes, if there is one.
    several: Option<LoopRef>,
    /// The reason why the chosen tile does not fit, if the tile with the lowest estimate is used instead.
    refused: Option<PassError>,
}

/// Computes a reduction in tiles, together with the blocks that follow it.
fn tile_reduction(
    schedule: &mut Schedule,
    block: BlockRef,
    vector_bytes: i64,
    tile: &mut ChooseTile<'_>,
) -> Result<Tiled, PassError> {
    let known = schedule.block_info(block)?;
    let mut info = known.clone();
    if is_in_step(schedule, block) {
        info.iters.iter_mut().for_each(|iter| iter.extent = iter.extent.or(Some(FEW)));
    }
    let computes = |producer: &BlockRef| schedule.block_info(*producer).is_ok_and(|info| !info.is_copy);
    let has_own_input = schedule.producers(block)?.iter().any(computes);
    let lanes = lanes(&info, vector_bytes)?;
    let mut refused = None;
    if let Some(tile) = tile(&Reduction { info: &info, lanes, has_own_input }) {
        let fits = tile.check(&info, lanes).and_then(|()| attempt(schedule, |trial| tiled(trial, block, &tile)));
        match fits {
            Ok(()) => return Ok(Tiled { several: several(&known, &tile), refused }),
            Err(error) => refused = Some(error),
        }
    }
    let tile = Tile::of(&info, lanes, has_own_input)?;
    attempt(schedule, |trial| tiled(trial, block, &tile))?;
    Ok(Tiled { several: several(&known, &tile), refused })
}

/// Returns the loop of unknown extent along which tiles have several rows or lanes, if there is one.
fn several(info: &BlockInfo, tile: &Tile) -> Option<LoopRef> {
    let spatial: Vec<&IterInfo> = info.iters.iter().filter(|iter| iter.kind == IterKind::Spatial).collect();
    let rows = [tile.channels, tile.rows].into_iter().flatten().filter(|(_, n)| *n > 1).map(|(at, _)| at);
    let mut several = rows.chain([tile.vector]).map(|at| spatial[at]);
    several.find(|iter| iter.extent.is_none()).and_then(|iter| iter.bound)
}

/// Vectorizes the last loop, and distributes the iterations of the other loops over threads.
fn by_elements(schedule: &mut Schedule, block: BlockRef, vector_bytes: i64) -> Result<(), PassError> {
    let info = schedule.block_info(block)?;
    let loops = schedule.get_loops(block)?;
    if has_kinds(schedule, block)? {
        bail!("its loops are scheduled already");
    }
    let mut spatial = Vec::new();
    for of in &loops {
        if schedule.iter_kind(*of)? == IterKind::Spatial {
            spatial.push(*of);
        }
    }
    let most = lanes(&info, vector_bytes)?;
    let extent = |of: LoopRef| schedule.loop_extent(of).ok().and_then(|extent| extent.as_int());
    let long = |of: &&LoopRef| extent(**of).is_none_or(|extent| extent >= most / 4);
    // In a reduction, the reduced loops stay inside the vector loop only if no spatial loop follows them.
    let last = spatial.iter().rev().find(long).copied().filter(|_| !info.has_init);
    let mut outer = spatial.clone();
    if let Some(last) = last {
        let lanes =
            extent(last).map_or(most, |extent| most.min(extent.max(1).unsigned_abs().next_power_of_two() as i64));
        let along = read_along(&info, last);
        let first = loops.iter().filter(|of| **of != last && Some(**of) != along).copied();
        outer.retain(|of| *of != last && Some(*of) != along);
        let [rest, vector] = schedule.split(last, [None, Some(lanes)])?;
        let order: Vec<LoopRef> = first.chain([rest]).chain(along).chain([vector]).collect();
        schedule.reorder(&order)?;
        schedule.vectorize(vector)?;
        // A fused loop over a symbolic number of vectors would divide by it for each vector.
        let n =
            outer.iter().try_fold(1i64, |all, of| Some(all.saturating_mul(schedule.loop_extent(*of).ok()?.as_int()?)));
        let is_enough = n.is_none_or(|n| n >= PARTS);
        if !is_enough || schedule.loop_extent(rest)?.as_int().is_some() {
            outer.push(rest);
        }
    }
    in_threads(schedule, &outer);
    Ok(())
}

/// Returns the loop along which consecutive elements are read, unless it is the vector loop. The cache lines that one
/// vector touches are then useful for the next vectors.
fn read_along(info: &BlockInfo, vectors: LoopRef) -> Option<LoopRef> {
    let iter = info.iters.iter().position(|iter| iter.bound == Some(vectors))?;
    let across = info.reads.iter().find(|read| {
        let in_last = read.dims.last().is_some_and(|dim| dim.contains(&iter));
        !in_last && read.dims.iter().any(|dim| dim.contains(&iter))
    })?;
    info.iters.get(*across.dims.last()?.first()?)?.bound
}

/// Returns the number of elements of a vector.
fn lanes(info: &BlockInfo, vector_bytes: i64) -> Result<i64, PassError> {
    let written = info.writes.first().ok_or_else(|| pass_error!("a block that writes nothing"))?;
    Ok((vector_bytes / (written.ty.dtype.bytes() as i64).max(1)).max(2))
}

/// Number of parallel iterations that suffices to occupy all threads.
const ENOUGH: i64 = 64;
/// The assumed number of iterations of a loop whose extent is not constant.
const USUAL: i64 = 8;

/// Minimum number of operations of a parallel loop that runs in each step of a loop over time. Threads need a few microseconds to meet.
const LEAST_WORK: i64 = 1 << 16;

/// The assumed number of iterations of a loop in a step, if its extent is not constant: the number of samples is often 1.
const FEW: i64 = 2;

/// Returns true if a block is in a block around which there are loops. These loops run step by step, and the block is in one step.
fn is_in_step(schedule: &Schedule, block: BlockRef) -> bool {
    let own = schedule.get_loops(block).unwrap_or_default();
    schedule.blocks().iter().any(|outer| {
        let loops = schedule.get_loops(outer.block).unwrap_or_default();
        let around = loops.last().filter(|around| !own.contains(around));
        around.is_some_and(|around| schedule.blocks_in(*around).is_ok_and(|inner| inner.contains(&block)))
    })
}

/// Returns true if a loop is in a step of a loop over time, and does so little work that threads would not save time. An extent that is not
/// constant counts as 1.
fn is_short_step(schedule: &Schedule, of: LoopRef) -> bool {
    let blocks = schedule.blocks_in(of).unwrap_or_default();
    let work = |block: &BlockRef| {
        let iters = schedule.block_info(*block).map(|info| info.iters).unwrap_or_default();
        iters.iter().map(|iter| iter.extent.unwrap_or(1)).fold(1, i64::saturating_mul)
    };
    blocks.iter().map(work).max() < Some(LEAST_WORK) && blocks.iter().any(|block| is_in_step(schedule, *block))
}

/// Fuses the outermost loops, as many as needed to occupy all threads, into one parallel loop.
pub(super) fn in_threads(schedule: &mut Schedule, loops: &[LoopRef]) {
    if loops.first().is_some_and(|of| is_short_step(schedule, *of)) {
        return;
    }
    let mut taken = Vec::new();
    let mut iterations = 1;
    for of in loops {
        let Ok(extent) = schedule.loop_extent(*of) else { break };
        if iterations >= ENOUGH {
            break;
        }
        taken.push(*of);
        iterations *= extent.as_int().unwrap_or(USUAL).max(1);
    }
    // If the loops are not adjacent, they cannot be fused, and only the first is parallelized.
    let joined = |taken: &[LoopRef]| {
        let taken = taken.to_vec();
        move |trial: &mut Schedule| {
            let of = if taken.len() > 1 { trial.fuse(&taken)? } else { taken[0] };
            if trial.meets_parallel_loop(of)? {
                bail!("its loops are inside a parallel loop, or around one");
            }
            trial.parallel(of)
        }
    };
    // A single iteration is not parallelized.
    while iterations > 1 && !taken.is_empty() && !tried(schedule, joined(&taken)) {
        taken.pop();
    }
}
