//! Lists the tiles that a reduction can be computed in, for measurements, and writes them as text.

use super::{Operands, Tile};
use plugin_api::prelude::*;
use plugin_api::schedule::BlockInfo;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// Maximum number of tiles of different sizes that are listed for a reduction.
const MOST_SIZES: usize = 512;
/// Number of the tiles with the lowest estimates that are listed with other blocks, copies and orders of loops.
const VARIED: usize = 16;
/// Maximum number of blocks of different sizes that are listed for a tile.
const MOST_BLOCKS: usize = 8;

impl Tile {
    /// Returns tiles with their estimated cycles per element, the fastest first. [`Tile::of`] is the first one.
    pub(in crate::cpu) fn choices(
        info: &BlockInfo,
        most_lanes: i64,
        has_own_input: bool,
    ) -> Result<Vec<(f64, Tile)>, PassError> {
        let operands = Operands::of(info)?;
        let timed = |tile: Tile| Some((tile.time(&operands)?, tile.in_order(&operands, has_own_input)));
        let mut sizes: Vec<(f64, Tile)> = Tile::all(&operands, most_lanes)?.into_iter().filter_map(timed).collect();
        sizes.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        sizes.truncate(MOST_SIZES);
        let varied = sizes.iter().take(VARIED).flat_map(|(time, tile)| {
            tile.variants(&operands).into_iter().map(|variant| (*time, variant)).collect::<Vec<_>>()
        });
        let varied: Vec<(f64, Tile)> = varied.collect();
        let mut known = HashSet::new();
        Ok(sizes.into_iter().chain(varied).filter(|(_, tile)| known.insert(tile.to_string())).collect())
    }

    /// Returns an error unless a reduction can be computed in this tile.
    pub(in crate::cpu) fn check(&self, info: &BlockInfo, most_lanes: i64) -> Result<(), PassError> {
        let operands = Operands::of(info)?;
        let plain = self.with_defaults();
        let has_size = Tile::all(&operands, most_lanes)?.contains(&plain) && plain.time(&operands).is_some();
        if !has_size {
            bail!("the reduction has no tile `{self}`");
        }
        if self.block.is_some_and(|block| !self.blocks(&operands).contains(&block)) {
            bail!("the tiles of `{self}` cannot be computed in such blocks");
        }
        let may_copy = self.block.is_some() && self.copied == self.read_often(&operands).map(|(at, _)| at);
        if self.copied.is_some() && !may_copy {
            bail!("the tile `{self}` cannot copy this input");
        }
        Ok(())
    }

    /// Returns only the size of the tile.
    fn with_defaults(&self) -> Tile {
        Tile { block: None, copied: None, channels_last: false, is_serial: false, ..self.clone() }
    }

    /// Returns tiles that differ from this one in their block, copy, order of loops or threads.
    fn variants(&self, operands: &Operands<'_>) -> Vec<Tile> {
        let mut out = vec![
            Tile { channels_last: !self.channels_last, ..self.clone() },
            Tile { is_serial: !self.is_serial, ..self.clone() },
        ];
        let copied = self.read_often(operands).map(|(at, _)| at);
        let blocks = self.blocks(operands);
        let kept = blocks.iter().copied().filter(|block| Some(*block) != self.block);
        // Blocks whose sizes are spread over the whole range.
        let step = blocks.len().div_ceil(MOST_BLOCKS).max(1);
        out.extend(kept.step_by(step).map(|block| Tile { block: Some(block), ..self.clone() }));
        if let Some(block) = self.block {
            out.push(Tile { block: None, copied: None, ..self.clone() });
            let copied = if self.copied.is_some() { None } else { copied };
            out.extend((copied != self.copied).then(|| Tile { block: Some(block), copied, ..self.clone() }));
        }
        out
    }

    /// Returns the blocks in which the tiles can be computed.
    fn blocks(&self, operands: &Operands<'_>) -> Vec<(usize, i64)> {
        if self.channels.is_none() || self.packed.is_none() && operands.is_strided(self.vector) {
            return Vec::new();
        }
        let (at, tiles) = self.tiles_of_block(operands);
        (1..=tiles).filter(|part| self.is_even(tiles, *part)).map(|part| (at, part)).collect()
    }
}

/// Writes a tile as `c=0:4,l=16,n=2,v=1`: fields in the order of their names. Fields with the usual value are left out.
impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |of: Option<(usize, i64)>| of.map(|(at, n)| format!("{at}:{n}"));
        let flag = |is_set: bool| is_set.then(|| "1".to_string());
        let fields = [
            ("b", pair(self.block)),
            ("c", pair(self.channels)),
            ("k", self.copied.map(|read| read.to_string())),
            ("l", Some(self.lanes.to_string())),
            ("n", Some(self.vectors.to_string())),
            ("o", flag(self.channels_last)),
            ("p", self.packed.map(|(iter, read)| format!("{iter}:{read}"))),
            ("r", pair(self.rows)),
            ("s", flag(self.is_serial)),
            ("v", Some(self.vector.to_string())),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        f.write_str(&given.collect::<Vec<String>>().join(","))
    }
}

impl FromStr for Tile {
    type Err = PassError;

    fn from_str(text: &str) -> Result<Tile, PassError> {
        let wrong = || pass_error!("expected a tile such as `c=0:4,l=16,n=2,v=1`, found `{text}`");
        let mut tile = Tile::default();
        for field in text.split(',') {
            let (name, value) = field.split_once('=').ok_or_else(wrong)?;
            let (first, second) = value.split_once(':').map_or((value, None), |(first, second)| (first, Some(second)));
            let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
            let (first, second) = (number(first)?, second.map(number).transpose()?);
            let pair = second.map(|second| (first.into(), second.into()));
            match name {
                "b" => tile.block = pair,
                "c" => tile.channels = pair,
                "k" => tile.copied = Some(first.into()),
                "l" => tile.lanes = first.into(),
                "n" => tile.vectors = first.into(),
                "o" => tile.channels_last = first == 1,
                "p" => tile.packed = second.map(|second| (first.into(), second.into())),
                "r" => tile.rows = pair,
                "s" => tile.is_serial = first == 1,
                "v" => tile.vector = first.into(),
                _ => return Err(wrong()),
            }
        }
        // Each tile has one text, which excludes missing and repeated fields.
        if tile.to_string() == text { Ok(tile) } else { Err(wrong()) }
    }
}
