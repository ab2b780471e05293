//! The tiles that were chosen by measurements for the reductions of a PrimFunc.

use super::tile::Tile;
use plugin_api::ir::AttrsId;
use plugin_api::prelude::*;

declare_config! {
    /// The tiles that `tir.ScheduleForCPU` uses instead of those with the lowest estimates, as `passhost tune` finds them. Each entry is
    /// the key of a PrimFunc, a blank, and a tile for each of its reductions, separated by `;`; `-` is the tile with the lowest estimate.
    pub SCHEDULES: Vec<String> = "tir.schedules" {}
}

/// Separates the tiles of a PrimFunc.
pub(super) const BETWEEN: &str = ";";
/// Stands for the tile with the lowest estimate.
pub(super) const USUAL: &str = "-";

/// Returns the key of a PrimFunc: a hash of everything but its attributes and the names of variables.
pub(super) fn key(body: &Body) -> Result<String, PassError> {
    let mut edit = body.edit();
    edit.set_attrs(body.root(), AttrsId::NONE);
    Ok(format!("{:016x}", edit.finish()?.structural_hash()))
}

/// Returns the chosen tiles of the reductions of a PrimFunc, in order; none if no entry has its key.
pub(super) fn chosen(body: &Body, ctx: &Ctx) -> Result<Vec<Option<Tile>>, PassError> {
    let entries = SCHEDULES.get(ctx).unwrap_or_default();
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let own = key(body)?;
    let mut found = None;
    for entry in &entries {
        let wrong = || {
            let name = SCHEDULES.decl.name;
            pass_error!("config option `{name}`: expected a key and tiles, found `{entry}`")
        };
        let (key, tiles) = entry.split_once(' ').ok_or_else(wrong)?;
        if key == own {
            found = Some(tiles);
        }
    }
    let tiles = found.map_or_else(Vec::new, |tiles| tiles.split(BETWEEN).collect());
    tiles.into_iter().map(|tile| if tile == USUAL { Ok(None) } else { tile.parse().map(Some) }).collect()
}
