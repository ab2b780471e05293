//! Schedulable blocks: iteration variables, reads and writes, initialization.

use super::expr::Write;
use super::regions::complete_regions;
use super::{Buffer, ExprArg, PrimExpr, Tir};
use crate::ir::records::{axis, flag, kind};
use crate::ir::{Attr, NodeSpec, V};

/// An open schedulable block.
#[derive(Default)]
pub(super) struct Open {
    reads: bool,
    writes: bool,
}

impl<'t, 'b> Tir<'t, 'b> {
    /// Writes a schedulable block. `body` writes, in this order, its iteration variables, [`Tir::where_`], its reads and writes,
    /// [`Tir::init`], and its statements. Undeclared reads or writes are inferred at the end, as in [`complete_regions`].
    pub fn block<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        let spec = NodeSpec::new(kind::SBLOCK).flags(flag::BOUND);
        let header = self.edit.borrow_mut().open(spec, &[], Some(name));
        self.blocks.borrow_mut().push(Open::default());
        let out = body();
        let open = self.blocks.borrow_mut().pop().unwrap_or_default();
        let unsaid = [(open.reads, "no_reads"), (open.writes, "no_writes")];
        let unsaid: Vec<_> = unsaid.iter().filter(|(said, _)| !said).map(|(_, key)| (*key, Attr::Bool(true))).collect();
        let mut edit = self.edit.borrow_mut();
        edit.close();
        if !unsaid.is_empty() {
            let attrs = edit.builder().attrs(unsaid);
            edit.set_attrs(header, attrs);
            edit.complete_with(complete_regions);
        }
        out
    }

    fn in_block(&self, what: &str, f: impl FnOnce(&mut Open)) {
        match self.blocks.borrow_mut().last_mut() {
            Some(open) => f(open),
            None => self.fail(format!("{what} must be written directly into `block`")),
        }
    }

    fn axis<'s>(&'s self, kind_: u32, name: &str, extent: ExprArg<'_>, value: ExprArg<'_>) -> PrimExpr<'s> {
        self.in_block("an iteration variable", |_| ());
        let (value, like) = self.operand(value, self.default);
        let (extent, dtype) = self.operand(extent, like);
        let min = Write::int(self, 0, dtype);
        let spec = NodeSpec::new(kind::ITER_VAR).a(kind_).flags(flag::INNER);
        PrimExpr { tir: self, v: self.scalar(spec, &[min, extent, value], dtype, name), dtype }
    }

    /// Declares that the innermost block reads a region of a buffer, given by start and extent in each dimension.
    pub fn reads<'a, 'c, A: Into<ExprArg<'a>>, E: Into<ExprArg<'c>>>(
        &self,
        buffer: Buffer,
        ranges: impl IntoIterator<Item = (A, E)>,
    ) {
        self.in_block("the reads of a block", |open| open.reads = true);
        self.access(0, buffer, ranges);
    }

    /// Declares that the innermost block writes a region of a buffer, given by start and extent in each dimension.
    pub fn writes<'a, 'c, A: Into<ExprArg<'a>>, E: Into<ExprArg<'c>>>(
        &self,
        buffer: Buffer,
        ranges: impl IntoIterator<Item = (A, E)>,
    ) {
        self.in_block("the writes of a block", |open| open.writes = true);
        self.access(1, buffer, ranges);
    }

    pub(super) fn access<'a, 'c, A: Into<ExprArg<'a>>, E: Into<ExprArg<'c>>>(
        &self,
        what: u32,
        buffer: Buffer,
        ranges: impl IntoIterator<Item = (A, E)>,
    ) {
        let mut ops: Vec<V> = vec![buffer.v()];
        for (min, extent) in ranges {
            let (min, dtype) = self.operand(min.into(), self.default);
            ops.extend([min, self.operand(extent.into(), dtype).0]);
        }
        let found = (ops.len() - 1) / 2;
        if found != buffer.ndim() {
            self.fail(format!("a buffer of {} dimensions needs as many ranges, found {found}", buffer.ndim()));
        }
        self.edit.borrow_mut().node(NodeSpec::new(kind::ACCESS).a(what), &ops, None);
    }

    /// Sets the condition under which the innermost block is executed.
    pub fn where_<'a>(&self, cond: impl Into<ExprArg<'a>>) {
        self.in_block("the condition of a block", |_| ());
        let cond = self.cond(cond.into());
        self.statement(kind::WHERE, &[cond]);
    }

    /// Writes the initialization of a reduction block.
    pub fn init<R>(&self, body: impl FnOnce() -> R) -> R {
        self.in_block("an initialization", |_| ());
        self.region(kind::INIT, Vec::new(), &[], body)
    }
}

macro_rules! axes {
    ($($(#[$doc:meta])* $method:ident = $kind:ident;)*) => {
        /// Iteration variables of the innermost block, which run from 0 to `extent`, and their values in the enclosing loops.
        impl<'t, 'b> Tir<'t, 'b> {
            $($(#[$doc])*
            pub fn $method<'s, 'a, 'c>(
                &'s self,
                name: &str,
                extent: impl Into<ExprArg<'a>>,
                value: impl Into<ExprArg<'c>>,
            ) -> PrimExpr<'s> {
                self.axis(axis::$kind, name, extent.into(), value.into())
            })*
        }
    };
}

axes! {
    /// Adds a data-parallel axis.
    spatial = SPATIAL;
    /// Adds an axis of a commutative reduction.
    reduce = REDUCE;
    /// Adds an axis that must run in order.
    scan = SCAN;
    /// Adds an axis of unspecified kind.
    opaque = OPAQUE;
}
