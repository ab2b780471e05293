//! Chooses the tile of a reduction.

mod space;

use plugin_api::prelude::*;
use plugin_api::schedule::{BlockInfo, BufferInfo, IterInfo, IterKind};

/// A part of the result whose sums are kept in registers. Each loop is identified by its position among the loops of
/// the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tile {
    /// The loop whose iterations become lanes.
    pub(super) vector: usize,
    pub(super) lanes: i64,
    /// Number of vectors in a tile.
    pub(super) vectors: i64,
    /// A loop whose iterations all use the same vectors, and its number of iterations in a tile.
    pub(super) channels: Option<(usize, i64)>,
    /// A loop whose iterations all use the same scalars, and its number of iterations in a tile.
    pub(super) rows: Option<(usize, i64)>,
    /// A loop over tiles, and the number of tiles whose share of the input fits into the cache; `None` if the whole
    /// input fits.
    pub(super) block: Option<(usize, i64)>,
    /// True if all channels are computed for one tile of the other loops before the next tile, so that the scalars stay
    /// in the cache.
    pub(super) channels_last: bool,
    /// Set if the filter is copied first, so that lanes are contiguous in memory: the iterator of the lanes, and the
    /// position of the filter among the block's reads.
    pub(super) packed: Option<(usize, usize)>,
    /// Position of a vector operand among the block's reads, if it is read so often that it pays to copy its part for a
    /// block with contiguous rows.
    pub(super) copied: Option<usize>,
    /// True if the tiles are computed by one thread.
    pub(super) is_serial: bool,
}

/// The assumed number of iterations of a loop whose extent is not constant.
const TYPICAL: i64 = 64;
/// Number of vector registers.
const REGISTERS: i64 = 30;
/// Maximum number of iterations of a loop in a tile, and maximum number of vectors.
const MOST_ITERATIONS: i64 = 16;
const MOST_VECTORS: i64 = 4;
const MOST_VECTORS_READ_ONCE: i64 = 24;
/// Number of bytes of repeatedly read input that fit into the cache. Applies to the whole input, or to a part of it if
/// the whole does not fit.
const CACHED: i64 = 512 << 10;
const CACHED_PART: i64 = 256 << 10;
/// Minimum number of reads that makes copying a part of the input profitable.
const OFTEN: i64 = 3;
/// Minimum number of parts of the work that occupies the threads.
pub(super) const PARTS: i64 = 4;
/// Cycles to copy an element of a filter, and to store an element of a tile whose lanes are not contiguous in the
/// result.
const CYCLES_TO_PACK: f64 = 3.0;
const CYCLES_TO_UNPACK: f64 = 1.5;

/// Factor of the time of a product of matrices whose last tile has fewer vectors than the others: each vector is then
/// computed under a condition.
const BRANCHES: f64 = 1.5;
/// Factor of the time of a loop whose last tile is partial.
const PARTIAL: f64 = 1.2;
/// The sets of a first-level cache repeat after this number of bytes. Each has at least `WAYS` lines of `LINE` bytes.
const SETS: i64 = 4096;
const LINE: i64 = 64;
const WAYS: i64 = 8;
/// Factor of the time of a tile whose scalars evict each other from the cache.
const CONFLICTS: f64 = 2.0;

/// The loops of the result of a reduction, and the loops on which its operands depend.
struct Operands<'i> {
    /// For each loop, its position among the iterators of the block, and its extent, or a typical extent if it is not
    /// constant.
    loops: Vec<(usize, i64)>,
    iters: &'i [IterInfo],
    reads: &'i [BufferInfo],
    reductions: usize,
    /// Number of products in a sum; 1 if unknown.
    products: i64,
}

impl<'i> Operands<'i> {
    fn of(info: &'i BlockInfo) -> Result<Operands<'i>, PassError> {
        let mut loops = Vec::new();
        for (at, iter) in info.iters.iter().enumerate().filter(|(_, iter)| iter.kind == IterKind::Spatial) {
            loops.push((at, iter.extent.unwrap_or(TYPICAL)));
        }
        let reduced = || info.iters.iter().filter(|iter| iter.kind == IterKind::Reduce);
        let products = reduced().map(|iter| iter.extent.unwrap_or(TYPICAL).max(1)).fold(1, i64::saturating_mul);
        Ok(Operands { loops, iters: &info.iters, reads: &info.reads, reductions: reduced().count(), products })
    }

    /// Returns true if a read depends on a loop of the result.
    fn depends(&self, read: &BufferInfo, on: usize) -> bool {
        read.dims.iter().any(|dim| dim.contains(&self.loops[on].0))
    }

    /// Returns the operands that are read as vectors or, if `as_vectors` is false, as scalars that all lanes share.
    fn read(&self, vector: usize, as_vectors: bool) -> impl Iterator<Item = &BufferInfo> {
        self.reads.iter().filter(move |read| self.depends(read, vector) == as_vectors)
    }

    /// Returns true if the lanes of a vector are not contiguous in memory.
    fn is_strided(&self, vector: usize) -> bool {
        let last = |read: &BufferInfo| read.dims.last().is_some_and(|dim| dim.contains(&self.loops[vector].0));
        self.read(vector, true).any(|read| !last(read))
    }

    /// Returns the position, among the reads, of the only operand that depends on the channel loop of a convolution, if
    /// it is a parameter that depends on no other loop of the result: it can be copied so that channels are contiguous.
    /// Large filters are excluded, because the rows of their tiles are so far apart that they share few cache sets.
    fn filter(&self, channels: usize) -> Option<usize> {
        let is_filter = |read: &BufferInfo| {
            let of_channels = read.dims.iter().filter(|dim| dim[..] == [self.loops[channels].0]).count() == 1;
            let mut others = (0..self.loops.len()).filter(|at| *at != channels);
            let is_small = read.is_param && bytes(read) <= CACHED_PART;
            is_small && of_channels && !others.any(|at| self.depends(read, at))
        };
        let mut depending = self.reads.iter().enumerate().filter(|(_, read)| self.depends(read, channels));
        let (at, _) = depending.next().filter(|(_, read)| is_filter(read))?;
        (self.is_convolution() && depending.next().is_none()).then_some(at)
    }

    /// Returns the longest loop whose iterations all use the same vectors. In a grouped convolution, vectors are the
    /// same within a group.
    fn channels(&self, vector: usize) -> Option<usize> {
        let same = |at: &usize| self.read(vector, true).all(|read| !self.depends(read, *at));
        let found = self.others(vector).filter(same).max_by_key(|at| (self.is_long(*at), self.loops[*at].1));
        found.or_else(|| Some(1).filter(|_| self.is_convolution() && self.loops.len() == 4 && self.loops[1].1 > 1))
    }

    /// Returns true if a loop has enough iterations for a tile, whatever the extents of the call are.
    fn is_long(&self, at: usize) -> bool {
        self.is_constant(at) && self.loops[at].1 >= MOST_VECTORS
    }

    /// Returns the last loop whose iterations all use the same scalars. Without scalars, several rows in a tile only keep
    /// the processor busy, and a row too many costs more; so the extent must be known.
    fn rows(&self, vector: usize, channels: Option<usize>) -> Option<usize> {
        let same = |at: &usize| self.read(vector, false).all(|read| !self.depends(read, *at));
        let has_scalars = self.read(vector, false).next().is_some();
        let fits = |at: &usize| has_scalars || self.is_constant(*at);
        self.others(vector).filter(|at| Some(*at) != channels).filter(same).filter(fits).last()
    }

    fn is_constant(&self, at: usize) -> bool {
        self.iters[self.loops[at].0].extent.is_some()
    }

    /// Returns the loops with more than one iteration, except the vector loop.
    fn others(&self, vector: usize) -> impl Iterator<Item = usize> {
        (0..self.loops.len()).filter(move |at| *at != vector && self.loops[*at].1 > 1)
    }

    fn extent(&self, at: Option<usize>) -> i64 {
        at.map_or(1, |at| self.loops[at].1)
    }

    /// Returns true if a sum extends over channels and over a window.
    fn is_convolution(&self) -> bool {
        self.reductions >= 3
    }

    /// Returns true if a sum extends over a window of more than one element.
    fn has_window(&self) -> bool {
        let reduced = self.iters.iter().filter(|iter| iter.kind == IterKind::Reduce);
        self.is_convolution() && reduced.filter(|iter| iter.extent != Some(1)).count() > 1
    }

    /// Returns the numbers of iterations of a loop that a tile may have. The last tile may be partial if the extent is
    /// constant; otherwise, it is whole for the typical extent.
    fn sizes(&self, at: Option<usize>, may_be_partial: bool) -> Vec<i64> {
        let extent = self.extent(at);
        let is_constant = at.is_some_and(|at| self.is_constant(at));
        let fits = |size: &i64| may_be_partial && is_constant || extent % size == 0;
        (1..=extent.min(MOST_ITERATIONS)).filter(fits).collect()
    }

    /// Returns the estimated time of a loop in tiles, divided by the time of as many whole tiles as the extent has.
    fn with_last_tile(&self, at: usize, size: i64) -> f64 {
        let extent = self.loops[at].1;
        match extent % size {
            0 => 1.0,
            _ => PARTIAL * (ceil(extent, size) * size) as f64 / extent as f64,
        }
    }
}

impl Tile {
    /// Returns the tile of a reduction with the lowest time per element. If the function computes input only for this
    /// reduction, each thread computes its own part, because reading it from the caches of other threads is slow.
    pub(super) fn of(info: &BlockInfo, most_lanes: i64, has_own_input: bool) -> Result<Tile, PassError> {
        let operands = Operands::of(info)?;
        let timed =
            Tile::all(&operands, most_lanes)?.into_iter().filter_map(|tile| Some((tile.time(&operands)?, tile)));
        let (_, tile) =
            timed.min_by(|(a, _), (b, _)| a.total_cmp(b)).ok_or_else(|| pass_error!("no tile fits into registers"))?;
        Ok(tile.in_order(&operands, has_own_input))
    }

    /// Returns this tile with the estimated best block, copy and order of the loops around it.
    fn in_order(mut self, operands: &Operands<'_>, has_own_input: bool) -> Tile {
        self.block = self.block_of(operands, has_own_input);
        self.copied =
            self.block.and_then(|_| self.read_often(operands)).filter(|(_, times)| *times >= OFTEN).map(|(at, _)| at);
        let numbers: i64 = operands.read(self.vector, false).map(bytes).sum();
        let has_parts = self.block.is_some() || self.columns(operands) >= 2 * PARTS;
        self.channels_last = self.packed.is_some() || numbers <= 2 * CACHED && has_parts;
        self
    }

    /// Returns tiles of all sizes, with lanes along the last loop and along the channels of a convolution.
    fn all(operands: &Operands<'_>, most_lanes: i64) -> Result<Vec<Tile>, PassError> {
        let long = operands.loops.iter().rposition(|(_, extent)| *extent > 1);
        let vector = long.ok_or_else(|| pass_error!("a result of one element"))?;
        let channels = operands.channels(vector);
        // Each lane of a strided vector touches its own cache line. Access is slow if there are more lines than the
        // first-level cache can keep apart.
        let (long, most_vectors) =
            if operands.is_strided(vector) { (most_lanes / 2, 1) } else { (most_lanes, MOST_VECTORS) };
        let mut out = Vec::new();
        for lanes in [most_lanes / 2, long].into_iter().filter(|lanes| *lanes > 1) {
            let tile = Tile { vector, lanes, ..Tile::default() };
            out.extend(tile.of_all_sizes(operands, most_vectors, [channels, operands.rows(vector, channels)]));
        }
        if let Some((channels, filter)) = channels.and_then(|at| Some((at, operands.filter(at)?))) {
            let packed = Some((operands.loops[channels].0, filter));
            let tile = Tile { vector: channels, lanes: most_lanes, packed, ..Tile::default() };
            let rows = operands.others(channels).filter(|at| *at != vector).last();
            let tiles = tile.of_all_sizes(operands, MOST_VECTORS, [Some(vector), rows]);
            // Each row reads different scalars, so several rows in a tile would not save loads.
            out.extend(tiles.into_iter().filter(|tile| tile.sizes()[1] == 1));
        }
        Ok(out)
    }

    /// Returns variants of this tile with all numbers of vectors, channels and rows.
    fn of_all_sizes(
        &self,
        operands: &Operands<'_>,
        most_vectors: i64,
        [channels, rows]: [Option<usize>; 2],
    ) -> Vec<Tile> {
        let all = ceil(operands.loops[self.vector].1, self.lanes);
        // Without channels and rows, each part of the vector operand is read once: long runs are read faster.
        let long = if most_vectors > 1 { MOST_VECTORS_READ_ONCE.min(all / (2 * PARTS)) } else { 1 };
        let vectors = 1..=all.min(most_vectors.max(long));
        // The channels of a tile must be in the same group.
        let of_channels = operands.sizes(channels, !operands.is_convolution());
        let of_rows = operands.sizes(rows, true);
        let mut out = Vec::new();
        for vectors in vectors {
            for a in &of_channels {
                for b in &of_rows {
                    let [channels, rows] = [(channels, *a), (rows, *b)].map(|(at, n)| at.zip(Some(n)));
                    out.push(Tile { vectors, channels, rows, ..self.clone() });
                }
            }
        }
        out
    }

    /// Returns the numbers of channels and rows in a tile.
    fn sizes(&self) -> [i64; 2] {
        [self.channels, self.rows].map(|of| of.map_or(1, |(_, n)| n))
    }

    /// Estimates the cycles per element, assuming two products and two loads per cycle, and that each sum depends on
    /// the previous sum. Returns `None` if the registers do not suffice.
    fn time(&self, operands: &Operands<'_>) -> Option<f64> {
        let [channels, rows] = self.sizes();
        let (columns, sums) = (rows * self.vectors, channels * rows * self.vectors);
        let is_short = self.vectors <= MOST_VECTORS || channels == 1 && rows == 1;
        let fits = is_short && sums + columns.min(channels) < REGISTERS;
        // Vector loads have a higher weight, because they often come from a slower cache and are not aligned.
        let loads = 4 * columns + channels;
        let time = 0.5 + (sums.max(loads) as f64 / 2.0).max(4.0);
        fits.then(|| time * self.slowdown(operands) / sums as f64 + self.time_to_pack(operands))
    }

    /// Estimates how much longer a tile takes because of elements that are computed in vain, conditions, and conflicts in
    /// the cache.
    fn slowdown(&self, operands: &Operands<'_>) -> f64 {
        let n = operands.loops[self.vector].1;
        let computed = ceil(ceil(n, self.lanes), self.vectors) * self.vectors;
        let others = [self.channels, self.rows].into_iter().flatten();
        let partial: f64 = others.map(|(at, size)| operands.with_last_tile(at, size)).product();
        let has_branches = n % self.lanes == 0 && n % (self.lanes * self.vectors) != 0;
        let branches = if has_branches && !operands.has_window() { BRANCHES } else { 1.0 };
        let conflicts = if self.lines_in_set(operands) > WAYS { CONFLICTS } else { 1.0 };
        computed as f64 / n as f64 * partial * branches * conflicts
    }

    /// Returns the greatest number of cache lines that a tile reads per step from one set of the cache, because its
    /// scalars are far apart in memory.
    fn lines_in_set(&self, operands: &Operands<'_>) -> i64 {
        let Some((at, n)) = self.channels else { return 1 };
        let distance = |read: &BufferInfo| {
            let of = read.dims.iter().position(|dim| dim.contains(&operands.loops[at].0))?;
            let inner = read.ty.shape[of + 1..].iter().map(|extent| extent.as_int());
            inner.chain([Some(read.ty.dtype.bytes() as i64)]).try_fold(1i64, |all, extent| all.checked_mul(extent?))
        };
        let lines = |distance: i64| {
            let common = (0..).map(|i| SETS >> i).find(|part| distance % part == 0).unwrap_or(1);
            ceil(n, SETS / common)
        };
        let scalars = operands.read(self.vector, false).filter_map(distance);
        scalars.filter(|bytes| *bytes >= LINE).map(lines).max().unwrap_or(1)
    }

    /// Estimates the cycles per product for copying the vector operand and the result.
    fn time_to_pack(&self, operands: &Operands<'_>) -> f64 {
        if self.packed.is_none() {
            return 0.0;
        }
        let pixels: i64 = operands.others(self.vector).map(|at| operands.loops[at].1).product();
        CYCLES_TO_PACK / pixels as f64 + CYCLES_TO_UNPACK / operands.products as f64
    }

    /// Returns the number of tiles of the result per tile of channels.
    fn columns(&self, operands: &Operands<'_>) -> i64 {
        let rows = ceil(operands.extent(self.rows.map(|(at, _)| at)), self.sizes()[1]);
        rows * ceil(operands.loops[self.vector].1, self.lanes * self.vectors)
    }

    /// Returns the position of the vector operand, and how often the tiles of a block read each part of it.
    fn read_often(&self, operands: &Operands<'_>) -> Option<(usize, i64)> {
        let (at, n) = self.channels.filter(|_| self.packed.is_none())?;
        let read = operands.reads.iter().position(|read| operands.depends(read, self.vector))?;
        Some((read, operands.loops[at].1 / n))
    }

    /// Returns a loop, and the number of its tiles that share a part of the input that fits into the cache.
    fn block_of(&self, operands: &Operands<'_>, has_own_input: bool) -> Option<(usize, i64)> {
        let is_packed = self.packed.is_some();
        let bytes: i64 = operands.read(self.vector, !is_packed).map(bytes).sum();
        let is_strided = !is_packed && operands.is_strided(self.vector);
        if bytes <= CACHED && !has_own_input || self.channels.is_none() || is_strided {
            return None;
        }
        let (at, tiles) = self.tiles_of_block(operands);
        // A partial last part would need a condition.
        let fits = |part: &i64| {
            bytes / tiles * part <= CACHED_PART && ceil(tiles, *part) >= PARTS && self.is_even(tiles, *part)
        };
        // Estimates the time lost if one thread computes an odd part alone, if two parts need the same input, or if
        // there are few parts.
        let loss = |part: &i64| {
            let parts = ceil(tiles, *part);
            let done = (parts + parts % 2) * part;
            done as f64 / tiles as f64 + 0.1 / *part as f64 + 0.2 / parts as f64
        };
        let least = (1..=tiles).filter(fits).min_by(|a, b| loss(a).total_cmp(&loss(b)));
        Some((at, least.unwrap_or(1)))
    }

    /// Returns the loop whose tiles blocks consist of, and the number of these tiles.
    fn tiles_of_block(&self, operands: &Operands<'_>) -> (usize, i64) {
        match self.rows {
            Some((rows, n)) => (rows, ceil(operands.loops[rows].1, n)),
            None => (self.vector, ceil(operands.loops[self.vector].1, self.lanes * self.vectors)),
        }
    }

    /// Returns true if blocks of `part` tiles need no condition for the last block.
    fn is_even(&self, tiles: i64, part: i64) -> bool {
        self.rows.is_none() || tiles % part == 0
    }
}

/// Returns the number of parts of size `size` in `n`; the last part may be smaller.
fn ceil(n: i64, size: i64) -> i64 {
    (n + size - 1) / size
}

/// Returns the size of a buffer in bytes. Extents that are not constant count as a typical extent.
fn bytes(buffer: &BufferInfo) -> i64 {
    let extents = buffer.ty.shape.iter().map(|extent| extent.as_int().unwrap_or(TYPICAL));
    extents.fold(buffer.ty.dtype.bytes() as i64, i64::saturating_mul)
}
