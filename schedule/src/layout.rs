//! `transform_layout`: reorders the dimensions of a buffer.

use super::depend::facts::Touch;
use super::trace::Arg;
use super::tree::expr::{Buf, Ex, Op};
use super::tree::{Tree, What};
use super::{BlockRef, Schedule};
use passhost_lang::{PassError, pass_error};
use std::sync::Arc;

/// A buffer that a block accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessed {
    /// The buffer with this index in [`BlockInfo::reads`](super::BlockInfo).
    Read(usize),
    /// The buffer with this index in [`BlockInfo::writes`](super::BlockInfo).
    Write(usize),
}

impl Schedule {
    /// Reorders the dimensions of a buffer that the function allocates, in all blocks that use it: dimension `n` is then the old dimension
    /// `order[n]`. Elements that become adjacent in memory can then be read as a vector.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::{Accessed, Schedule};
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[8, 4], DType::F32));
    ///     t.grid(["i", "j"], [8, 4], |[i, j]| {
    ///         t.block("B", || {
    ///             let (vi, vj) = (t.spatial("vi", 8, i), t.spatial("vj", 4, j));
    ///             t.store(b, [vi, vj], t.load(a, [vi, vj]) + 1.0);
    ///         });
    ///     });
    /// })?;
    /// let mut sch = Schedule::new(&body)?;
    /// let copy = sch.cache_read(sch.get_block("B")?, 0, "global")?;
    /// sch.transform_layout(copy, Accessed::Write(0), &[1, 0])?;
    /// let shape: Vec<Option<i64>> = sch.block_info(copy)?.writes[0].ty.shape.iter().map(Dim::as_int).collect();
    /// assert_eq!(shape, [Some(4), Some(8)]);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the block has no such buffer, if the function does not allocate it, if anything but loads and stores of single elements in blocks
    /// uses it, or if `order` is not a permutation of the dimensions.
    pub fn transform_layout(&mut self, block: BlockRef, of: Accessed, order: &[usize]) -> Result<(), PassError> {
        let id = self.block_id("transform_layout", block)?;
        let mut tree = self.tree.with_allocations_first();
        let (nth, write) = match of {
            Accessed::Read(nth) => (nth, false),
            Accessed::Write(nth) => (nth, true),
        };
        let changed = tree.accessed(id, nth, write).and_then(|buffer| tree.put_in_order(buffer, order));
        changed.map_err(|why| pass_error!("`transform_layout`: {why}"))?;
        let which = Arg::Text(if write { "write" } else { "read" }.to_string());
        let order = Arg::Factors(order.iter().map(|at| Some(*at as i64)).collect());
        let args = vec![self.block_arg(id), which, Arg::Int(nth as i64), order];
        self.commit("transform_layout", tree)?;
        self.record("transform_layout", args, &[]);
        Ok(())
    }
}

impl Tree {
    fn put_in_order(&mut self, buffer: Buf, order: &[usize]) -> Result<(), String> {
        let of = self.buffer(buffer);
        let (name, rank) = (of.name.clone(), of.ty.shape.len());
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..rank) {
            return Err(format!("{order:?} must list each of the {rank} dimensions of `{name}` once"));
        }
        if !of.is_allocated {
            return Err(format!("callers of the function depend on the layout of `{name}`"));
        }
        let mut is_plain = of.ty.strides.is_empty() && of.ty.elem_offset.is_none();
        // The analysis of a block succeeds only if the block uses its buffers only through loads and stores.
        for user in self.blocks_using(buffer) {
            if self.as_block(user).is_none() {
                return Err(format!("`{name}` is used outside blocks"));
            }
            let facts = self.facts(user)?;
            is_plain &= facts.touches.iter().filter(|touch| touch.buffer == buffer).all(is_element);
        }
        if !is_plain {
            return Err(format!("`{name}` must only be loaded and stored element by element"));
        }
        let shape = &mut self.buffers[buffer.0 as usize].ty.shape;
        *shape = ordered(shape, order);
        for id in self.subtree(Tree::ROOT) {
            self.map_own(id, &mut |ex| *ex = with_order(ex, buffer, order));
            match &mut self.node_mut(id).what {
                What::Store(store) if store.buffer == buffer => store.indices = ordered(&store.indices, order),
                What::Block(block) => {
                    let accesses = block.accesses.iter_mut().filter(|access| access.buffer == buffer);
                    accesses.for_each(|access| access.ranges = ordered(&access.ranges, order));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns true if each index is known and a scalar.
fn is_element(touch: &Touch) -> bool {
    touch.known().is_some_and(|indices| indices.iter().all(|index| index.dtype().lanes() == 1))
}

/// Reorders the indices of loads of a buffer.
fn with_order(ex: &Ex, buffer: Buf, order: &[usize]) -> Ex {
    ex.replaced(&mut |part| {
        let (of, indices) = part.as_load()?;
        let Ex::Op(op) = part else { return None };
        if of != buffer {
            return None;
        }
        let ops = std::iter::once(Ex::Buffer(buffer)).chain(ordered(indices, order)).collect();
        Some(Ex::Op(Arc::new(Op { spec: op.spec, dtype: op.dtype, ops })))
    })
}

fn ordered<T: Clone>(of: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|at| of[*at].clone()).collect()
}
