//! `assume` and `finish_versions`: several schedules of a function, each for certain extents.

use super::trace::Arg;
use super::tree::expr::{Meanings, all_of};
use super::tree::{Block, Tree, What, number, write};
use super::{LoopRef, Schedule};
use passhost_lang::ir::{Body, Dim, Sym};
use passhost_lang::scalar::PrimOp;
use passhost_lang::{PassError, bail, pass_error};

impl Schedule {
    /// Replaces the extent of a loop, a symbolic dimension of the function, by a number everywhere in this schedule. The
    /// schedule is then only right where the dimension has this value; see [`Schedule::finish_versions`].
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let n = t.param("n", DType::I64);
    ///     let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[64], DType::F32));
    ///     t.serial("i", n, |i| {
    ///         t.block("B", || {
    ///             let vi = t.spatial("vi", n, i);
    ///             t.store(b, [vi], t.load(a, [vi]) * 2.0);
    ///         });
    ///     });
    /// })?;
    /// let any = Schedule::new(&body)?;
    /// let mut one = any.clone();
    /// let [i] = one.loops(one.get_block("B")?)?;
    /// one.assume(i, 1)?;
    /// assert_eq!(one.loop_extent(i)?.as_int(), Some(1));
    /// one.unroll(i)?;
    ///
    /// // if n == 1: an unrolled iteration; else: the loop.
    /// let body = any.finish_versions(&[one])?;
    /// assert_eq!(body.values().filter(|value| matches!(value.stmt(), Some(Stmt::If { .. }))).count(), 1);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the extent is not a symbolic dimension of the function, or if the shape of a view contains it.
    pub fn assume(&mut self, of: LoopRef, value: i64) -> Result<(), PassError> {
        const NAME: &str = "assume";
        let id = self.loop_id(NAME, of)?;
        let extent = self.loop_extent(of)?;
        let Dim::Var(sym) = extent else {
            bail!("`{NAME}`: the extent of loop `{}` is not a symbolic dimension", self.tree.loop_name(id))
        };
        let args = vec![self.loop_arg(id), Arg::Int(value)];
        let mut tree = self.tree.clone();
        tree.assume(sym, &number(value, &extent)).map_err(|why| pass_error!("`{NAME}`: {why}"))?;
        self.assumed.push((sym, value));
        self.tree = tree;
        self.record(NAME, args, &[]);
        Ok(())
    }
}

impl Schedule {
    /// Returns the function that runs the first of `versions` whose assumptions hold, and otherwise this schedule. Each
    /// version is a clone of this schedule, before or after some steps, that [assumes](Schedule::assume) extents.
    ///
    /// # Errors
    /// If this schedule assumes something, if a version assumes nothing or belongs to another function, or if the
    /// result is not valid.
    pub fn finish_versions(&self, versions: &[Schedule]) -> Result<Body, PassError> {
        const NAME: &str = "finish_versions";
        if versions.is_empty() {
            return self.finish();
        }
        let mut branches = Vec::new();
        for version in versions {
            if !version.body.same(&self.body) {
                bail!("`{NAME}`: a version belongs to another function");
            }
            let holds = |(sym, value): &(Sym, i64)| {
                let var = Dim::Var(*sym);
                let value = number(*value, &var);
                Dim::binary(PrimOp::Eq, var, value)
            };
            let condition = all_of(version.assumed.iter().map(holds).collect());
            let condition = condition.ok_or_else(|| pass_error!("`{NAME}`: a version assumes nothing"))?;
            branches.push((condition, version.tree.in_one_block()));
        }
        self.is_for_all_extents()?;
        write::versions(&branches, &self.tree.in_one_block(), &self.body)
    }

    /// Checks that the schedule does not assume anything.
    pub(super) fn is_for_all_extents(&self) -> Result<(), PassError> {
        match self.assumed[..] {
            [] => Ok(()),
            _ => bail!("the schedule assumes an extent; pass it to `finish_versions` of a schedule that does not"),
        }
    }
}

impl Tree {
    /// Replaces a symbolic dimension by a number.
    fn assume(&mut self, sym: Sym, value: &Dim) -> Result<(), String> {
        let meaning = Meanings::one(sym, value.clone());
        self.substitute(Tree::ROOT, &meaning);
        for buffer in &mut self.buffers {
            let mut is_found = buffer.is_allocated && buffer.ops.iter().any(|ex| ex.mentions(sym));
            for extent in &mut buffer.ty.shape {
                let new = meaning.dim(extent).ok_or("an extent of a buffer is not an integer")?;
                is_found |= buffer.is_view && new != *extent;
                *extent = new;
            }
            if is_found {
                return Err(format!("the shape of `{}` contains the dimension", buffer.name));
            }
        }
        Ok(())
    }

    /// Returns a tree whose statements and allocations are in one block.
    fn in_one_block(&self) -> Tree {
        let mut tree = self.clone();
        let block = tree.add(What::Block(Box::new(Block { found_again: true, ..Block::new("version") })));
        let kids = std::mem::take(&mut tree.node_mut(Tree::ROOT).kids);
        kids.iter().for_each(|kid| tree.node_mut(*kid).parent = Some(block));
        tree.node_mut(block).kids = kids;
        let allocs = match &mut tree.node_mut(Tree::ROOT).what {
            What::Root(root) => std::mem::take(&mut root.allocs),
            _ => Vec::new(),
        };
        if let What::Block(of) = &mut tree.node_mut(block).what {
            of.allocs = allocs;
        }
        tree.push(Tree::ROOT, block);
        tree
    }
}
