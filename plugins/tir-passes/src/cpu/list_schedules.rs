//! Lists the ways in which [`schedule_for_cpu`](super::schedule_for_cpu) can schedule a PrimFunc.
//!
//! *Expects* what `tir.ScheduleForCPU` expects. *Adds* two attributes; *never* changes the function otherwise.

use super::choices::key;
use super::schedule_for_cpu::{Reduction, scheduled};
use super::tile::Tile;
use plugin_api::ir::Attr;
use plugin_api::prelude::*;
use plugin_api::schedule::Schedule;

declare_pass! {
    /// Lists the tiles in which `tir.ScheduleForCPU` can compute the reductions of a PrimFunc.
    ///
    /// The attribute `tir.schedule_key` is the key of the PrimFunc in the config option `tir.schedules`: a hash of the
    /// function without its attributes and the names of variables. `tir.schedule_choices` has a list for each reduction, in
    /// order. Each of its entries is a tile, a blank, and the estimated cycles per element. The first tile is the one that
    /// `tir.ScheduleForCPU` uses without the config option. `passhost tune` measures the tiles. Functions without reductions
    /// do not change.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4,), "float32")):
    ///     for i, k in T.grid(4, 16):
    ///         with T.sblock("B"):
    ///             vi, vk = T.axis.remap("SR", [i, k])
    ///             with T.init():
    ///                 B[vi] = T.float32(0.0)
    ///             B[vi] = B[vi] + A[vi, vk]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4,), "float32")):
    ///     T.func_attr({"tir.schedule_choices": [["l=8,n=1,v=0 1.1250", "l=8,n=1,o=1,v=0 1.1250", "l=8,n=1,s=1,v=0 1.1250"]], "tir.schedule_key": "d631d3b2d51cb1f2"})
    ///     # with T.sblock("root"):
    ///     for i, k in T.grid(4, 16):
    ///         with T.sblock("B"):
    ///             vi, vk = T.axis.remap("SR", [i, k])
    ///             T.reads(A[vi, vk])
    ///             T.writes(B[vi])
    ///             with T.init():
    ///                 B[vi] = T.float32(0.0)
    ///             B[vi] = B[vi] + A[vi, vk]
    /// ```
    pub prim_func pass LIST_SCHEDULES = "tir.ListSchedules" {
        opt_level: 0,
        run: list_schedules,
        options: Options {
            /// The size of a vector of the processor, in bytes.
            vector_bytes: i64 in [16, 32, 64] = 64,
        }
    }
}

/// The attribute with the key of a PrimFunc.
const KEY: &str = "tir.schedule_key";
/// The attribute with the tiles of a PrimFunc.
const CHOICES: &str = "tir.schedule_choices";

fn list_schedules(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let mut lists: Vec<Vec<(f64, Tile)>> = Vec::new();
    let mut list = |reduction: &Reduction<'_>| {
        let choices = Tile::choices(reduction.info, reduction.lanes, reduction.has_own_input);
        // A reduction that no tile fits keeps its place in the list.
        lists.push(choices.unwrap_or_default());
        None
    };
    let Ok(start) = Schedule::new(body) else { return Ok(body.clone()) };
    scheduled(start, options.vector_bytes, &mut list)?;
    if lists.iter().all(Vec::is_empty) {
        return Ok(body.clone());
    }
    ctx.statistic("tiles listed", lists.iter().map(Vec::len).sum::<usize>());
    let of_reduction = |tiles: &Vec<(f64, Tile)>| {
        Attr::List(
            tiles.iter().map(|(time, tile)| Attr::Str(format!("{tile} {time:.4}"))).collect::<Vec<Attr>>().into(),
        )
    };
    let choices = Attr::List(lists.iter().map(of_reduction).collect::<Vec<Attr>>().into());
    let key = key(body)?;
    let mut edit = body.edit();
    edit.set_attr(body.root(), KEY, Attr::Str(key));
    edit.set_attr(body.root(), CHOICES, choices);
    Ok(edit.finish()?)
}
