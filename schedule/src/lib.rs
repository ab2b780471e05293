//! Schedules: a PrimFunc that is made of blocks is transformed loop by loop and block by block, and each step is checked.
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
//! // What was done can be written down and done again.
//! let again = trace.parse::<Trace>()?.apply(&body)?;
//! assert!(again.structural_eq(&scheduled));
//! # Ok::<(), PassError>(())
//! ```
//!
//! The primitives are those of TVM's `s_tir.Schedule`. A primitive that would change what the function computes returns an
//! error, which names the primitive, the loop or block, and the reason; the schedule is as it was. It may be one that TVM accepts:
//! here, nothing is believed of a block but what its stores and loads say.
//!
//! | file | what |
//! |---|---|
//! | `tree` | loops, blocks and statements as a tree; from the body to it, and back |
//! | `look` | blocks and loops, and what they are |
//! | `depend/facts` | what blocks access |
//! | `depend/digits` | which loops an index tells apart |
//! | `depend/region` | which part of a buffer is accessed while some loops run |
//! | `depend/order` | whether iterations can run in another order, or at once |
//! | `loops`, `kinds` | `split`, `fuse`, `reorder`; `vectorize`, `parallel`, `unroll` |
//! | `reduction`, `inline`, `compute_at`, `cache`, `layout` | primitives on blocks and their buffers |
//! | `trace` | what was done, as text |

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

pub use layout::Accessed;
pub use look::{BlockInfo, BufferInfo, IterInfo, IterKind};
pub use trace::Trace;

use passhost_lang::ir::Body;
use passhost_lang::tir::regions::complete_regions;
use passhost_lang::{PassError, pass_error};
use std::sync::atomic::{AtomicU32, Ordering};
use tree::{Id, Tree};

/// A block of a schedule. It is good as long as the block is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockRef {
    of: u32,
    id: Id,
}

/// A loop of a schedule. It is good as long as the loop is there: until it is split, fused or moved with its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopRef {
    of: u32,
    id: Id,
}

static SCHEDULES: AtomicU32 = AtomicU32::new(1);

/// A PrimFunc that is being scheduled. An example is in the documentation of [the crate](crate).
#[derive(Clone, Debug)]
pub struct Schedule {
    body: Body,
    tree: Tree,
    number: u32,
    log: trace::Log,
}

impl Schedule {
    /// A schedule of a function in which nothing was done yet.
    ///
    /// # Errors
    /// If it is no PrimFunc, or has statements or expressions that are nested too deeply.
    pub fn new(body: &Body) -> Result<Schedule, PassError> {
        let body = complete_regions(body)?;
        let tree = tree::read::tree(&body)?;
        let number = SCHEDULES.fetch_add(1, Ordering::Relaxed);
        Ok(Schedule { body, tree, number, log: trace::Log::default() })
    }

    /// The function as it is now; the same handle as at the beginning if nothing differs.
    ///
    /// # Errors
    /// If the result is not valid.
    pub fn finish(&self) -> Result<Body, PassError> {
        tree::write::body(&self.tree, &self.body)
    }

    /// The node of a block that is there.
    fn block_id(&self, primitive: &str, block: BlockRef) -> Result<Id, PassError> {
        let known = self.live(primitive, block.of, block.id, "block")?;
        self.tree.as_block(known).map(|_| known).ok_or_else(|| pass_error!("`{primitive}`: this is no block"))
    }

    /// The node of a loop that is there.
    fn loop_id(&self, primitive: &str, of: LoopRef) -> Result<Id, PassError> {
        let known = self.live(primitive, of.of, of.id, "loop")?;
        self.tree.as_loop(known).map(|_| known).ok_or_else(|| pass_error!("`{primitive}`: this is no loop"))
    }

    fn live(&self, primitive: &str, of: u32, id: Id, what: &str) -> Result<Id, PassError> {
        if of != self.number {
            return Err(pass_error!("`{primitive}`: the {what} is of another schedule"));
        }
        match self.tree.nodes.get(id.0 as usize) {
            Some(node) if node.live => Ok(id),
            _ => Err(pass_error!(
                "`{primitive}`: the {what} is not there any more; ask for it again with `get_block` and `get_loops`"
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
