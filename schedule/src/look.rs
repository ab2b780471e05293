//! Queries for the blocks and loops of a schedule.

use super::tree::expr::Ex;
use super::tree::{Access, Id, Iter, Tree, What};
use super::{BlockRef, LoopRef, Schedule};
use passhost_lang::ir::{BufferType, Dim, loop_kind};
use passhost_lang::names::{did_you_mean, nearest};
use passhost_lang::{PassError, bail, pass_error};

/// The kind of an iterator of a block, or of the iterators that a loop is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IterKind {
    /// The values of the iterator are independent of each other.
    Spatial,
    /// The values of the iterator are combined in any order.
    Reduce,
    /// The values must run in order, or the kind of the iterator is unspecified.
    Other,
    /// The loop binds iterators of several kinds.
    Mixed,
    /// The loop does not bind an iterator.
    None,
}

/// An iterator of a block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IterInfo {
    /// Name of the iterator.
    pub name: String,
    /// Kind of the iterator.
    pub kind: IterKind,
    /// Number of values of the iterator, if constant.
    pub extent: Option<i64>,
    /// The loop around the block whose variable is the value of the iterator. `None` for an iterator with any other
    /// value, such as `i
    /// // 4`.
    pub bound: Option<LoopRef>,
}

/// A buffer that a block accesses.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BufferInfo {
    /// Name of the buffer.
    pub name: String,
    /// Type of the buffer: data type, shape, memory scope.
    pub ty: BufferType,
    /// True if the buffer is a parameter of the function.
    pub is_param: bool,
    /// For each dimension, the positions of the block iterators that occur in its index.
    pub dims: Vec<Vec<usize>>,
}

/// A block with its declared properties.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// The block.
    pub block: BlockRef,
    /// Name of the block.
    pub name: String,
    /// Iterators of the block, in order.
    pub iters: Vec<IterInfo>,
    /// The buffers that the block reads.
    pub reads: Vec<BufferInfo>,
    /// The buffers that the block writes.
    pub writes: Vec<BufferInfo>,
    /// True if the block has an initialization.
    pub has_init: bool,
    /// True if the block is a single store of a loaded element.
    pub is_copy: bool,
}

impl Schedule {
    /// Returns the block named `name`; the first if there are several.
    ///
    /// # Errors
    /// If there is no such block.
    pub fn get_block(&self, name: &str) -> Result<BlockRef, PassError> {
        self.nth_block(name, 0)
    }

    /// Returns the block named `name` that is preceded by `nth` blocks of the same name.
    pub(super) fn nth_block(&self, name: &str, nth: usize) -> Result<BlockRef, PassError> {
        let blocks = self.tree.blocks_in(Tree::ROOT);
        let mut same = blocks.iter().filter(|id| self.tree.block_name(**id) == name);
        if let Some(id) = same.nth(nth) {
            return Ok(self.block_ref(*id));
        }
        let hint = did_you_mean(&nearest(name, blocks.iter().map(|id| self.tree.block_name(*id))));
        bail!("`get_block`: block `{name}` does not exist{hint}")
    }

    /// Returns all blocks, in program order.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::{IterKind, Schedule};
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[8], DType::F32));
    ///     t.serial("i", 8, |i| {
    ///         t.block("B", || {
    ///             let vi = t.spatial("vi", 8, i);
    ///             t.store(b, [vi], t.load(a, [vi]) * 2.0);
    ///         });
    ///     });
    /// })?;
    /// let sch = Schedule::new(&body)?;
    /// let block = &sch.blocks()[0];
    /// assert_eq!((block.reads[0].name.as_str(), block.writes[0].name.as_str()), ("A", "B"));
    /// assert_eq!((block.iters[0].kind, block.iters[0].extent), (IterKind::Spatial, Some(8)));
    /// assert_eq!(block.iters[0].bound, Some(sch.get_loops(block.block)?[0]));
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn blocks(&self) -> Vec<BlockInfo> {
        self.tree.blocks_in(Tree::ROOT).into_iter().filter_map(|id| self.info(id)).collect()
    }

    fn info(&self, id: Id) -> Option<BlockInfo> {
        let block = self.tree.as_block(id)?;
        let loops = self.tree.loops_around(id);
        let bound = |iter: &Iter| {
            let mut vars = loops.iter().filter_map(|of| Some((*of, self.tree.as_loop(*of)?.var)));
            vars.find(|(_, var)| matches!(&iter.value, Ex::Dim(Dim::Var(value)) if value == var))
                .map(|(of, _)| self.loop_ref(of))
        };
        let iter = |iter: &Iter| IterInfo {
            name: iter.name.clone(),
            kind: kind_of(iter),
            extent: iter.extent.as_int(),
            bound: bound(iter),
        };
        let buffers = |write: bool| {
            let accessed = block.accesses.iter().filter(|access| access.write == write);
            accessed.map(|access| self.buffer_info(access, &block.iters)).collect()
        };
        Some(BlockInfo {
            block: self.block_ref(id),
            name: block.name.clone(),
            iters: block.iters.iter().map(iter).collect(),
            reads: buffers(false),
            writes: buffers(true),
            has_init: block.init.is_some(),
            is_copy: self.is_copy(id),
        })
    }

    fn is_copy(&self, id: Id) -> bool {
        match self.tree.node(id).kids[..] {
            [kid] => match &self.tree.node(kid).what {
                What::Store(store) => store.value.is_load(),
                _ => false,
            },
            _ => false,
        }
    }

    fn buffer_info(&self, access: &Access, iters: &[Iter]) -> BufferInfo {
        let of = self.tree.buffer(access.buffer);
        let used = |(index, _): &(Ex, Ex)| {
            let mentioned = iters.iter().enumerate().filter(|(_, iter)| index.mentions(iter.var));
            mentioned.map(|(at, _)| at).collect()
        };
        let dims = access.ranges.iter().map(used).collect();
        let is_param =
            of.old.is_some_and(|word| passhost_lang::ir::Value::of_word(&self.body, word).is_matched_param());
        BufferInfo { name: of.name.clone(), ty: of.ty.clone(), is_param, dims }
    }

    /// Returns the properties of a block.
    ///
    /// # Errors
    /// If the block does not exist.
    pub fn block_info(&self, block: BlockRef) -> Result<BlockInfo, PassError> {
        let id = self.block_id("block_info", block)?;
        self.info(id).ok_or_else(|| pass_error!("`block_info`: expected a block"))
    }

    /// Returns the number of operations, loads and constants in the stores of a block.
    ///
    /// # Errors
    /// If the block does not exist.
    pub fn block_size(&self, block: BlockRef) -> Result<usize, PassError> {
        let id = self.block_id("block_size", block)?;
        let mut size = 0;
        for at in self.tree.subtree(id) {
            if let What::Store(store) = &self.tree.node(at).what {
                store.value.each(&mut |_| size += 1);
            }
        }
        Ok(size)
    }

    /// Returns the blocks that write the inputs of a block, in program order.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let [a, c] = ["A", "C"].map(|name| t.buffer_param(name, &[8], DType::F32));
    ///     let b = t.alloc_buffer("B", &[8], DType::F32, "global");
    ///     for (name, from, to) in [("B", a, b), ("C", b, c)] {
    ///         t.serial("i", 8, |i| {
    ///             t.block(name, || {
    ///                 let vi = t.spatial("vi", 8, i);
    ///                 t.store(to, [vi], t.load(from, [vi]) + 1.0);
    ///             });
    ///         });
    ///     }
    /// })?;
    /// let sch = Schedule::new(&body)?;
    /// let (b, c) = (sch.get_block("B")?, sch.get_block("C")?);
    /// assert_eq!((sch.producers(c)?, sch.consumers(b)?), (vec![b], vec![c]));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the block does not exist.
    pub fn producers(&self, block: BlockRef) -> Result<Vec<BlockRef>, PassError> {
        let id = self.block_id("producers", block)?;
        Ok(self.sharing(id, false))
    }

    /// Returns the blocks that read the results of a block, in program order.
    ///
    /// # Errors
    /// If the block does not exist.
    pub fn consumers(&self, block: BlockRef) -> Result<Vec<BlockRef>, PassError> {
        let id = self.block_id("consumers", block)?;
        Ok(self.sharing(id, true))
    }

    /// Returns the other blocks that read the results of a block (if `written`), or that write its inputs.
    fn sharing(&self, id: Id, written: bool) -> Vec<BlockRef> {
        let accesses = |id: Id, write: bool| {
            let all = self.tree.as_block(id).map(|block| &block.accesses[..]).unwrap_or_default();
            all.iter().filter(move |access| access.write == write).map(|access| access.buffer)
        };
        let shares =
            |other: &Id| accesses(*other, !written).any(|buffer| accesses(id, written).any(|own| own == buffer));
        let others = self.tree.blocks_in(Tree::ROOT).into_iter().filter(|other| *other != id);
        others.filter(shares).map(|other| self.block_ref(other)).collect()
    }

    /// Returns the loops around a block, the outermost first, up to the enclosing block.
    ///
    /// # Errors
    /// If the block does not exist.
    pub fn get_loops(&self, block: BlockRef) -> Result<Vec<LoopRef>, PassError> {
        let id = self.block_id("get_loops", block)?;
        Ok(self.tree.loops_around(id).into_iter().map(|id| self.loop_ref(id)).collect())
    }

    /// Returns the loops of [`Schedule::get_loops`] as an array of known length.
    ///
    /// # Errors
    /// If the block does not exist, or the number of loops around it is not `N`.
    pub fn loops<const N: usize>(&self, block: BlockRef) -> Result<[LoopRef; N], PassError> {
        let name = self.tree.block_name(self.block_id("loops", block)?);
        let loops = self.get_loops(block)?;
        let found = loops.len();
        loops.try_into().map_err(|_| pass_error!("`loops`: block `{name}` is in {found} loops, expected {N}"))
    }

    /// Returns the blocks in a loop, in program order.
    ///
    /// # Errors
    /// If the loop does not exist.
    pub fn blocks_in(&self, of: LoopRef) -> Result<Vec<BlockRef>, PassError> {
        let id = self.loop_id("blocks_in", of)?;
        Ok(self.tree.blocks_in(id).into_iter().map(|id| self.block_ref(id)).collect())
    }

    /// Returns the number of iterations of a loop.
    ///
    /// # Errors
    /// If the loop does not exist, or its extent is not integer arithmetic.
    pub fn loop_extent(&self, of: LoopRef) -> Result<Dim, PassError> {
        let id = self.loop_id("loop_extent", of)?;
        let extent = self.tree.as_loop(id).and_then(|of| of.extent.as_dim()).cloned();
        extent.ok_or_else(|| {
            pass_error!("`loop_extent`: the extent of `{}` is not arithmetic on integers", self.tree.loop_name(id))
        })
    }

    /// Returns the name of a loop's variable.
    ///
    /// # Errors
    /// If the loop does not exist.
    pub fn loop_name(&self, of: LoopRef) -> Result<&str, PassError> {
        Ok(self.tree.loop_name(self.loop_id("loop_name", of)?))
    }

    /// Returns the kind of a loop: `serial`, `parallel`, `vectorized`, `unroll` or `thread_binding`.
    ///
    /// # Errors
    /// If the loop does not exist.
    pub fn loop_kind(&self, of: LoopRef) -> Result<&str, PassError> {
        let id = self.loop_id("loop_kind", of)?;
        Ok(self.tree.as_loop(id).map_or(loop_kind::SERIAL, |of| of.kind.as_str()))
    }

    /// Returns true if a parallel loop is around the loop or inside it, also in an enclosing or nested block. TVM does
    /// not compile parallel loops inside parallel loops.
    ///
    /// # Errors
    /// If the loop does not exist.
    pub fn meets_parallel_loop(&self, of: LoopRef) -> Result<bool, PassError> {
        let id = self.loop_id("meets_parallel_loop", of)?;
        let is_parallel = |at: Id| self.tree.as_loop(at).is_some_and(|of| of.kind == loop_kind::PARALLEL);
        let mut others = self.tree.around(id).chain(self.tree.subtree(id)).filter(|at| *at != id);
        Ok(others.any(is_parallel))
    }

    /// Returns the common kind of all block iterators that the loop binds.
    ///
    /// # Errors
    /// If the loop does not exist.
    pub fn iter_kind(&self, of: LoopRef) -> Result<IterKind, PassError> {
        let id = self.loop_id("iter_kind", of)?;
        let Some(var) = self.tree.as_loop(id).map(|of| of.var) else { return Ok(IterKind::None) };
        let blocks = self.tree.blocks_in(id).into_iter().filter_map(|id| self.tree.as_block(id));
        let bound = blocks.flat_map(|block| &block.iters).filter(|iter| iter.value.mentions(var)).map(kind_of);
        Ok(bound.reduce(|a, b| if a == b { a } else { IterKind::Mixed }).unwrap_or(IterKind::None))
    }
}

fn kind_of(iter: &Iter) -> IterKind {
    match iter {
        iter if iter.is_spatial() => IterKind::Spatial,
        iter if iter.is_reduction() => IterKind::Reduce,
        _ => IterKind::Other,
    }
}
