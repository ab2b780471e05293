//! Applies random primitives.

use passhost_schedule::{Accessed, BlockRef, LoopRef, Schedule};
use plugin_api::prelude::*;

/// A source of choices.
pub(crate) struct Choices(pub(crate) u64);

impl Choices {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n.max(1) as u64) as usize
    }

    pub(crate) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Returns a random number of loops around a block, possibly none.
fn some_loops(sch: &Schedule, block: BlockRef, choices: &mut Choices) -> Vec<LoopRef> {
    let loops = sch.get_loops(block).expect("the block is there");
    if loops.is_empty() {
        return loops;
    }
    let from = choices.below(loops.len());
    let to = from + 1 + choices.below(loops.len() - from);
    loops[from..to].to_vec()
}

/// Tries a primitive.
pub(crate) fn step(sch: &mut Schedule, choices: &mut Choices) -> Result<(), PassError> {
    let blocks: Vec<BlockRef> = sch.blocks().iter().map(|block| block.block).collect();
    if blocks.is_empty() {
        return Err(PassError::new("no blocks"));
    }
    let (block, other) = (choices.of(&blocks), choices.of(&blocks));
    let mut loops = some_loops(sch, block, choices);
    let elsewhere = some_loops(sch, other, choices);
    let one = loops.first().copied().ok_or_else(|| PassError::new("no loops"));
    let there = elsewhere.first().copied().ok_or_else(|| PassError::new("no loops"));
    match choices.below(17) {
        0 | 1 => sch.split(one?, [None, Some(choices.of(&[1, 2, 3, 4, 5]))]).map(drop),
        2 => sch.split(one?, [Some(2), None, Some(choices.of(&[1, 2, 3]))]).map(drop),
        3 => sch.fuse(&loops).map(drop),
        4 | 5 => {
            for at in (1..loops.len()).rev() {
                loops.swap(at, choices.below(at + 1));
            }
            sch.reorder(&loops)
        }
        6 => sch.parallel(one?),
        7 => sch.vectorize(one?),
        8 => sch.decompose_reduction(block, one?).map(drop),
        9 => sch.compute_inline(block),
        10 => sch.reverse_compute_inline(block),
        11 => sch.compute_at(block, there?),
        12 => sch.reverse_compute_at(block, there?),
        13 => sch.cache_read(block, choices.below(2), "local").map(drop),
        14 => sch.cache_write(block, 0, "local").map(drop),
        15 => whole_tiles(sch, block, one?, choices),
        _ => turn(sch, block, choices),
    }
}

/// Splits a loop around a block that writes its own buffer, and computes the last tile whole.
fn whole_tiles(sch: &mut Schedule, block: BlockRef, of: LoopRef, choices: &mut Choices) -> Result<(), PassError> {
    let mut trial = sch.clone();
    trial.cache_write(block, 0, "local")?;
    let inner = match choices.below(3) {
        0 => trial.split(of, [None, Some(2), Some(choices.of(&[2, 3]))])?[2],
        _ => trial.split(of, [None, Some(choices.of(&[2, 3, 4, 5, 7]))])?[1],
    };
    trial.compute_whole_tiles(block, inner)?;
    *sch = trial;
    Ok(())
}

/// Reverses the dimensions of a buffer.
fn turn(sch: &mut Schedule, block: BlockRef, choices: &mut Choices) -> Result<(), PassError> {
    let info = sch.block_info(block)?;
    let nth = choices.below(2);
    let (buffers, of) = match choices.below(2) {
        0 => (info.reads, Accessed::Read(nth)),
        _ => (info.writes, Accessed::Write(nth)),
    };
    let rank = buffers.get(nth).map_or(0, |buffer| buffer.ty.shape.len());
    sch.transform_layout(block, of, &(0..rank).rev().collect::<Vec<usize>>())
}
