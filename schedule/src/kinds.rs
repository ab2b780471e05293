//! The kinds of loops: `vectorize`, `parallel`, `unroll`.

use super::depend::order::{Moved, Wanted};
use super::tree::{Id, Tree, What};
use super::{LoopRef, Schedule};
use passhost_lang::ir::loop_kind;
use passhost_lang::{PassError, bail, pass_error};

impl Schedule {
    /// Vectorizes a loop.
    ///
    /// # Errors
    /// If its extent is not constant, if the range of an inner loop depends on it, or if its iterations depend on each other. In each
    /// statement, different iterations must write different elements.
    pub fn vectorize(&mut self, of: LoopRef) -> Result<(), PassError> {
        self.set_kind("vectorize", of, loop_kind::VECTORIZED)
    }

    /// Runs the iterations of a loop on several threads.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let (a, c) = (t.buffer_param("A", &[8, 8], DType::F32), t.buffer_param("C", &[8], DType::F32));
    ///     t.grid(["i", "k"], [8, 8], |[i, k]| {
    ///         t.block("C", || {
    ///             let (vi, vk) = (t.spatial("vi", 8, i), t.reduce("vk", 8, k));
    ///             t.init(|| t.store(c, [vi], 0.0));
    ///             t.store(c, [vi], t.load(c, [vi]) + t.load(a, [vi, vk]));
    ///         });
    ///     });
    /// })?;
    /// let mut sch = Schedule::new(&body)?;
    /// let [i, k] = sch.loops(sch.get_block("C")?)?;
    /// sch.parallel(i)?;
    /// let refused = sch.parallel(k).expect_err("all iterations write one element");
    /// assert_eq!(refused.message, "`parallel` of `k`: several iterations of `k` write `C[vi]` in block `C`");
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If iterations write the same elements, or read elements that other iterations write. A buffer used only in this loop may be written
    /// by all iterations, because each gets a private copy.
    pub fn parallel(&mut self, of: LoopRef) -> Result<(), PassError> {
        self.set_kind("parallel", of, loop_kind::PARALLEL)
    }

    /// Unrolls a loop.
    ///
    /// # Errors
    /// If the loop is bound to threads.
    pub fn unroll(&mut self, of: LoopRef) -> Result<(), PassError> {
        self.set_kind("unroll", of, loop_kind::UNROLL)
    }

    fn set_kind(&mut self, primitive: &str, of: LoopRef, kind: &str) -> Result<(), PassError> {
        let id = self.loop_id(primitive, of)?;
        let mut tree = self.tree.clone();
        let name = tree.loop_name(id).to_string();
        let of = tree.loop_mut(id)?;
        if of.kind == loop_kind::THREAD_BINDING {
            bail!("`{primitive}` of `{name}`: the loop is bound to threads");
        }
        of.kind = kind.to_string();
        of.is_checked = kind != loop_kind::UNROLL;
        tree.kind_is_right(id).map_err(|why| pass_error!("`{primitive}` of `{name}`: {why}"))?;
        let args = vec![self.loop_arg(id)];
        self.commit(primitive, tree)?;
        self.record(primitive, args, &[]);
        Ok(())
    }

    /// Makes the result of a primitive the current schedule, if all concurrent loops that were proved safe are still safe.
    pub(super) fn commit(&mut self, primitive: &str, tree: Tree) -> Result<(), PassError> {
        for (at, node) in tree.nodes.iter().enumerate() {
            let What::Loop(of) = &node.what else { continue };
            if node.live && of.is_checked {
                tree.kind_is_right(Id(at as u32)).map_err(|why| {
                    pass_error!("`{primitive}`: loop `{}` could no longer be {}: {why}", of.name, of.kind)
                })?;
            }
        }
        self.tree = tree;
        Ok(())
    }
}

impl Tree {
    /// Checks that the iterations of a loop can run as its kind demands.
    pub(crate) fn kind_is_right(&self, id: Id) -> Result<(), String> {
        let Some(of) = self.as_loop(id) else { return Ok(()) };
        let wanted = match of.kind.as_str() {
            loop_kind::PARALLEL => Wanted::AtOnce,
            loop_kind::VECTORIZED => Wanted::InLanes,
            _ => return Ok(()),
        };
        if wanted == Wanted::InLanes {
            if of.extent.as_int().is_none() {
                return Err("its extent is not constant".to_string());
            }
            let depends = |at: &Id| self.as_loop(*at).is_some() && self.own(*at).iter().any(|ex| ex.mentions(of.var));
            if let Some(inner) = self.subtree(id).into_iter().find(|at| *at != id && depends(at)) {
                return Err(format!("the range of the inner loop `{}` depends on it", self.loop_name(inner)));
            }
        }
        self.are_independent(&Moved { loops: &[id], at: id, wanted })
    }
}
