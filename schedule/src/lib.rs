//! Schedules: transform a PrimFunc of schedulable blocks loop by loop and block by block, and check each step.
//!
//! ```
//! use plugin_api::prelude::*;
//! use plugin_api::schedule::{Schedule, Trace};
//! use plugin_api::tir::prim_func;
//!
//! let body = prim_func(|t| {
//!     let [a, b, c] = ["A", "B", "C"].map(|name| t.buffer_param(name, &[64, 64], DType::F32));
//!     t.grid(["i", "j", "k"], [64, 64, 64], |[i, j, k]| {
//!         t.block("C", || {
//!             let (vi, vj, vk) = (t.spatial("vi", 64, i), t.spatial("vj", 64, j), t.reduce("vk", 64, k));
//!             t.init(|| t.store(c, [vi, vj], 0.0));
//!             t.store(c, [vi, vj], t.load(c, [vi, vj]) + t.load(a, [vi, vk]) * t.load(b, [vk, vj]));
//!         });
//!     });
//! })?;
//!
//! let mut sch = Schedule::new(&body)?;
//! let block = sch.get_block("C")?;
//! let [i, j, k] = sch.loops(block)?;
//! let [i_0, i_1] = sch.split(i, [None, Some(8)])?;
//! let [j_0, j_1] = sch.split(j, [None, Some(16)])?;
//! sch.reorder(&[i_0, j_0, k, i_1, j_1])?;
//! sch.vectorize(j_1)?;
//! sch.parallel(i_0)?;
//! sch.decompose_reduction(block, k)?;
//! let trace = sch.trace().to_string();
//! let scheduled = sch.finish()?;
//! assert!(!scheduled.structural_eq(&body));
//!
//! // The applied primitives can be recorded and replayed.
//! let again = trace.parse::<Trace>()?.apply(&body)?;
//! assert!(again.structural_eq(&scheduled));
//! # Ok::<(), PassError>(())
//! ```
//!
//! The primitives are those of TVM's `s_tir.Schedule`. A primitive that would change the result of the function returns an error, which
//! names the primitive, the loop or block, and the reason; the schedule stays unchanged. Some steps accepted by TVM are rejected, because
//! only the loads and stores of a block are trusted, not its declarations.
//!
//! | file | what |
//! |---|---|
//! | `tree` | loops, blocks and statements as a tree; conversion from and to a body |
//! | `look` | queries for blocks and loops |
//! | `depend/facts` | the accesses of blocks |
//! | `depend/digits` | the loops identified by an index |
//! | `depend/region` | the part of a buffer that is accessed during some loops |
//! | `depend/order` | checks for reordered or concurrent iterations |
//! | `loops`, `kinds` | `split`, `fuse`, `reorder`; `vectorize`, `parallel`, `unroll` |
//! | `reduction`, `inline`, `compute_at`, `cache`, `layout`, `whole_tiles` | primitives on blocks and their buffers |
//! | `versions` | schedules that assume extents |
//! | `trace` | the applied primitives, as text |

mod cache;
mod compute_at;
mod depend;
mod inline;
mod kinds;
mod layout;
mod look;
mod loops;
mod reduction;
mod trace;
mod tree;
mod versions;
mod whole_tiles;

pub use layout::Accessed;
pub use look::{BlockInfo, BufferInfo, IterInfo, IterKind};
pub use trace::Trace;

use passhost_lang::ir::{Body, Sym};
use passhost_lang::tir::regions::complete_regions;
use passhost_lang::{PassError, pass_error};
use std::sync::atomic::{AtomicU32, Ordering};
use tree::{Id, Tree};

/// A block of a schedule. The reference is valid as long as the block exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockRef {
    of: u32,
    id: Id,
}

/// A loop of a schedule. The reference is valid as long as the loop exists, that is, until it is split, fused or moved with its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopRef {
    of: u32,
    id: Id,
}

static SCHEDULES: AtomicU32 = AtomicU32::new(1);

/// A PrimFunc that is being scheduled. The documentation of [the crate](crate) has an example.
#[derive(Clone, Debug)]
pub struct Schedule {
    body: Body,
    tree: Tree,
    number: u32,
    log: trace::Log,
    /// Symbolic dimensions, and the values that the schedule assumes for them.
    assumed: Vec<(Sym, i64)>,
}

impl Schedule {
    /// Creates a schedule of a function, without changes.
    ///
    /// # Errors
    /// If the body is not a PrimFunc, or its statements or expressions are nested too deeply.
    pub fn new(body: &Body) -> Result<Schedule, PassError> {
        let body = complete_regions(body)?;
        let tree = tree::read::tree(&body)?;
        let number = SCHEDULES.fetch_add(1, Ordering::Relaxed);
        Ok(Schedule { body, tree, number, log: trace::Log::default(), assumed: Vec::new() })
    }

    /// Returns the function in its current state; an unchanged function keeps its handle.
    ///
    /// # Errors
    /// If the result is not valid, or if the schedule [assumes](Schedule::assume) an extent.
    pub fn finish(&self) -> Result<Body, PassError> {
        self.is_for_all_extents()?;
        tree::write::body(&self.tree, &self.body)
    }

    /// Returns the node of a block, which must exist.
    fn block_id(&self, primitive: &str, block: BlockRef) -> Result<Id, PassError> {
        let known = self.live(primitive, block.of, block.id, "block")?;
        self.tree.as_block(known).map(|_| known).ok_or_else(|| pass_error!("`{primitive}`: expected a block"))
    }

    /// Returns the node of a loop, which must exist.
    fn loop_id(&self, primitive: &str, of: LoopRef) -> Result<Id, PassError> {
        let known = self.live(primitive, of.of, of.id, "loop")?;
        self.tree.as_loop(known).map(|_| known).ok_or_else(|| pass_error!("`{primitive}`: expected a loop"))
    }

    fn live(&self, primitive: &str, of: u32, id: Id, what: &str) -> Result<Id, PassError> {
        if of != self.number {
            return Err(pass_error!("`{primitive}`: the {what} belongs to a different schedule"));
        }
        match self.tree.nodes.get(id.0 as usize) {
            Some(node) if node.live => Ok(id),
            _ => Err(pass_error!(
                "`{primitive}`: the {what} no longer exists; look it up again with `get_block` and `get_loops`"
            )),
        }
    }

    fn block_ref(&self, id: Id) -> BlockRef {
        BlockRef { of: self.number, id }
    }

    fn loop_ref(&self, id: Id) -> LoopRef {
        LoopRef { of: self.number, id }
    }
}
