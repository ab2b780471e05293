//! Schedules of PrimFuncs, for `s_tir.Schedule` of the package.

use crate::errors::not_scheduled;
use crate::module::Body;
use passhost::plugin_api::PassError;
use passhost_schedule::{self as schedule, Accessed, BlockRef, BufferInfo, LoopRef, Trace};
use pyo3::prelude::*;

/// A block of a schedule.
#[pyclass(frozen, eq, hash, module = "passhost._passhost")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct ScheduleBlock(BlockRef);

/// A loop of a schedule.
#[pyclass(frozen, eq, hash, module = "passhost._passhost")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct ScheduleLoop(LoopRef);

/// A PrimFunc that is being scheduled. Rejected primitives raise a `ScheduleError`.
#[pyclass(module = "passhost._passhost")]
pub(crate) struct Schedule(schedule::Schedule);

type Loop<'py> = PyRef<'py, ScheduleLoop>;

impl Schedule {
    /// Performs an operation that may take long, or be refused.
    fn with<T: Send>(
        &mut self,
        py: Python<'_>,
        what: impl FnOnce(&mut schedule::Schedule) -> Result<T, PassError> + Send,
    ) -> PyResult<T> {
        let own = &mut self.0;
        py.detach(|| what(own)).map_err(|error| not_scheduled(py, &error))
    }

    fn blocks(
        &mut self,
        py: Python<'_>,
        what: impl FnOnce(&mut schedule::Schedule) -> Result<Vec<BlockRef>, PassError> + Send,
    ) -> PyResult<Vec<ScheduleBlock>> {
        Ok(self.with(py, what)?.into_iter().map(ScheduleBlock).collect())
    }

    fn loops(
        &mut self,
        py: Python<'_>,
        what: impl FnOnce(&mut schedule::Schedule) -> Result<Vec<LoopRef>, PassError> + Send,
    ) -> PyResult<Vec<ScheduleLoop>> {
        Ok(self.with(py, what)?.into_iter().map(ScheduleLoop).collect())
    }
}

#[pymethods]
impl Schedule {
    #[new]
    fn new(py: Python<'_>, body: &Body) -> PyResult<Schedule> {
        py.detach(|| schedule::Schedule::new(&body.0)).map(Schedule).map_err(|error| not_scheduled(py, &error))
    }

    /// Returns a copy, for which the same blocks and loops are valid.
    fn copy(&self) -> Schedule {
        Schedule(self.0.clone())
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<Body> {
        self.with(py, |own| own.finish()).map(Body)
    }

    fn trace(&self) -> String {
        self.0.trace().to_string()
    }

    /// Applies a trace.
    fn apply(&mut self, py: Python<'_>, trace: &str) -> PyResult<()> {
        self.with(py, |own| {
            let mut changed = own.clone();
            trace.parse::<Trace>()?.apply_to(&mut changed)?;
            *own = changed;
            Ok(())
        })
    }

    /// Returns the block with the given name. If there is no such block, or more than one, raises an error that lists
    /// similar names.
    fn get_block(&mut self, py: Python<'_>, name: &str) -> PyResult<ScheduleBlock> {
        let number = self.0.blocks().iter().filter(|block| block.name == name).count();
        self.with(py, |own| match number {
            0 | 1 => own.get_block(name),
            _ => Err(PassError::new(format!("`get_sblock`: {number} blocks are called `{name}`"))),
        })
        .map(ScheduleBlock)
    }

    /// Returns the names of the buffers that a block reads, and of the buffers that it writes.
    fn buffers(&mut self, py: Python<'_>, block: &ScheduleBlock) -> PyResult<(Vec<String>, Vec<String>)> {
        let info = self.with(py, |own| own.block_info(block.0))?;
        let names = |of: &[BufferInfo]| of.iter().map(|buffer| buffer.name.clone()).collect();
        Ok((names(&info.reads), names(&info.writes)))
    }

    fn get_loops(&mut self, py: Python<'_>, block: &ScheduleBlock) -> PyResult<Vec<ScheduleLoop>> {
        self.loops(py, |own| own.get_loops(block.0))
    }

    fn get_child_blocks(&mut self, py: Python<'_>, of: &ScheduleLoop) -> PyResult<Vec<ScheduleBlock>> {
        self.blocks(py, |own| own.blocks_in(of.0))
    }

    fn get_producers(&mut self, py: Python<'_>, block: &ScheduleBlock) -> PyResult<Vec<ScheduleBlock>> {
        self.blocks(py, |own| own.producers(block.0))
    }

    fn get_consumers(&mut self, py: Python<'_>, block: &ScheduleBlock) -> PyResult<Vec<ScheduleBlock>> {
        self.blocks(py, |own| own.consumers(block.0))
    }

    fn split(&mut self, py: Python<'_>, of: &ScheduleLoop, factors: Vec<Option<i64>>) -> PyResult<Vec<ScheduleLoop>> {
        self.loops(py, |own| own.split_by(of.0, &factors))
    }

    fn fuse(&mut self, py: Python<'_>, loops: Vec<Loop<'_>>) -> PyResult<ScheduleLoop> {
        let loops = refs(&loops);
        self.with(py, |own| own.fuse(&loops)).map(ScheduleLoop)
    }

    fn reorder(&mut self, py: Python<'_>, loops: Vec<Loop<'_>>) -> PyResult<()> {
        let loops = refs(&loops);
        self.with(py, |own| own.reorder(&loops))
    }

    fn parallel(&mut self, py: Python<'_>, of: &ScheduleLoop) -> PyResult<()> {
        self.with(py, |own| own.parallel(of.0))
    }

    fn vectorize(&mut self, py: Python<'_>, of: &ScheduleLoop) -> PyResult<()> {
        self.with(py, |own| own.vectorize(of.0))
    }

    fn unroll(&mut self, py: Python<'_>, of: &ScheduleLoop) -> PyResult<()> {
        self.with(py, |own| own.unroll(of.0))
    }

    fn compute_at(&mut self, py: Python<'_>, block: &ScheduleBlock, of: &ScheduleLoop) -> PyResult<()> {
        self.with(py, |own| own.compute_at(block.0, of.0))
    }

    fn reverse_compute_at(&mut self, py: Python<'_>, block: &ScheduleBlock, of: &ScheduleLoop) -> PyResult<()> {
        self.with(py, |own| own.reverse_compute_at(block.0, of.0))
    }

    fn compute_inline(&mut self, py: Python<'_>, block: &ScheduleBlock) -> PyResult<()> {
        self.with(py, |own| own.compute_inline(block.0))
    }

    fn reverse_compute_inline(&mut self, py: Python<'_>, block: &ScheduleBlock) -> PyResult<()> {
        self.with(py, |own| own.reverse_compute_inline(block.0))
    }

    fn cache_read(
        &mut self,
        py: Python<'_>,
        block: &ScheduleBlock,
        nth: usize,
        scope: &str,
    ) -> PyResult<ScheduleBlock> {
        self.with(py, |own| own.cache_read(block.0, nth, scope)).map(ScheduleBlock)
    }

    fn cache_write(
        &mut self,
        py: Python<'_>,
        block: &ScheduleBlock,
        nth: usize,
        scope: &str,
    ) -> PyResult<ScheduleBlock> {
        self.with(py, |own| own.cache_write(block.0, nth, scope)).map(ScheduleBlock)
    }

    fn transform_layout(
        &mut self,
        py: Python<'_>,
        block: &ScheduleBlock,
        write: bool,
        nth: usize,
        order: Vec<usize>,
    ) -> PyResult<()> {
        let of = if write { Accessed::Write(nth) } else { Accessed::Read(nth) };
        self.with(py, |own| own.transform_layout(block.0, of, &order))
    }

    fn decompose_reduction(
        &mut self,
        py: Python<'_>,
        block: &ScheduleBlock,
        of: &ScheduleLoop,
    ) -> PyResult<ScheduleBlock> {
        self.with(py, |own| own.decompose_reduction(block.0, of.0)).map(ScheduleBlock)
    }
}

fn refs(loops: &[Loop<'_>]) -> Vec<LoopRef> {
    loops.iter().map(|of| of.0).collect()
}
