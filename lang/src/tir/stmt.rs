//! Statements: loops, conditions, variables.

use super::expr::Write;
use super::{ExprArg, PrimExpr, Tir};
use crate::ir::records::{flag, kind};
use crate::ir::{Attr, NodeSpec, Type, V, loop_kind};

/// The execution mode of a loop.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::{LoopKind, prim_func};
///
/// let body = prim_func(|t| {
///     let a = t.buffer_param("A", &[32], DType::F32);
///     t.loop_of(LoopKind::ThreadBinding("threadIdx.x"), "tx", 0, 32, |tx| t.store(a, [tx], 1.0));
/// })?;
/// let kinds: Vec<&str> = body
///     .values()
///     .filter_map(|value| match value.stmt()? {
///         Stmt::For { kind, .. } => Some(kind),
///         _ => None,
///     })
///     .collect();
/// assert_eq!(kinds, ["thread_binding"]);
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopKind<'a> {
    /// Iterations run sequentially.
    Serial,
    /// Iterations run on several threads.
    Parallel,
    /// All iterations run as one vector operation.
    Vectorized,
    /// The loop is unrolled.
    Unroll,
    /// Iterations run on the threads of a device, such as `threadIdx.x`.
    ThreadBinding(&'a str),
}

impl LoopKind<'_> {
    fn attrs(self) -> Vec<(&'static str, Attr)> {
        let named = |name: &str| vec![("kind", Attr::from(name))];
        match self {
            LoopKind::Serial => Vec::new(),
            LoopKind::Parallel => named(loop_kind::PARALLEL),
            LoopKind::Vectorized => named(loop_kind::VECTORIZED),
            LoopKind::Unroll => named(loop_kind::UNROLL),
            LoopKind::ThreadBinding(thread) => {
                vec![("kind", Attr::from(loop_kind::THREAD_BINDING)), ("thread", Attr::from(thread))]
            }
        }
    }
}

impl<'t, 'b> Tir<'t, 'b> {
    /// Writes a loop from `min` for `extent` iterations; `body` receives the loop variable and writes the
    /// content.
    pub fn loop_of<'s, 'a, 'c, R>(
        &'s self,
        kind: LoopKind<'_>,
        name: &str,
        min: impl Into<ExprArg<'a>>,
        extent: impl Into<ExprArg<'c>>,
        body: impl FnOnce(PrimExpr<'s>) -> R,
    ) -> R {
        let (extent, dtype) = self.operand(extent.into(), self.default);
        let (min, found) = self.operand(min.into(), dtype);
        if found != dtype {
            self.fail(format!("a loop over {dtype} starts from {found}; convert one with `cast`"));
        }
        self.region(kind::FOR, kind.attrs(), &[min, extent], || {
            let v = self.scalar(NodeSpec::new(kind::LOOP_VAR).flags(flag::INNER), &[], dtype, name);
            body(PrimExpr { tir: self, v, dtype })
        })
    }

    /// Writes nested loops from 0; `body` receives all variables and writes the content of the innermost loop.
    pub fn grid<'s, 'a, const N: usize, E: Into<ExprArg<'a>>, R>(
        &'s self,
        names: [&str; N],
        extents: [E; N],
        body: impl FnOnce([PrimExpr<'s>; N]) -> R,
    ) -> R {
        let mut vars = [self.value(0); N];
        for ((name, extent), var) in names.into_iter().zip(extents).zip(&mut vars) {
            let (extent, dtype) = self.operand(extent.into(), self.default);
            let min = Write::int(self, 0, dtype);
            self.edit.borrow_mut().open(NodeSpec::new(kind::FOR), &[min, extent], None);
            self.loops.update(|n| n + 1);
            let v = self.scalar(NodeSpec::new(kind::LOOP_VAR).flags(flag::INNER), &[], dtype, name);
            *var = PrimExpr { tir: self, v, dtype };
        }
        let out = body(vars);
        (0..N).for_each(|_| self.edit.borrow_mut().close());
        self.loops.update(|n| n - N as u32);
        out
    }

    /// Writes a loop that runs while a condition holds.
    pub fn while_<'a, R>(&self, cond: impl Into<ExprArg<'a>>, body: impl FnOnce() -> R) -> R {
        let cond = self.cond(cond.into());
        self.region(kind::WHILE, Vec::new(), &[cond], body)
    }

    /// Writes statements that are executed if a condition holds.
    pub fn if_<'a, R>(&self, cond: impl Into<ExprArg<'a>>, then: impl FnOnce() -> R) -> R {
        let cond = self.cond(cond.into());
        self.region(kind::COND, Vec::new(), &[cond], || self.region(kind::SCOPE, Vec::new(), &[], then))
    }

    /// Writes two lists of statements: the first is executed if a condition holds, the second otherwise.
    pub fn if_else<'a, R, S>(
        &self,
        cond: impl Into<ExprArg<'a>>,
        then: impl FnOnce() -> R,
        otherwise: impl FnOnce() -> S,
    ) -> (R, S) {
        let cond = self.cond(cond.into());
        self.region(kind::COND, Vec::new(), &[cond], || {
            let then = self.region(kind::SCOPE, Vec::new(), &[], then);
            (then, self.region(kind::SCOPE, Vec::new(), &[], otherwise))
        })
    }

    /// Binds a value to a variable, visible to the end of the enclosing region.
    pub fn bind<'s, 'a>(&'s self, name: &str, value: impl Into<ExprArg<'a>>) -> PrimExpr<'s> {
        let (value, dtype) = self.operand(value.into(), self.default);
        let call = self.edit.borrow().with(value, |value| value.as_call().is_some());
        let spec = NodeSpec::new(kind::BIND).flags(if call { flag::IMPURE } else { 0 });
        PrimExpr { tir: self, v: self.scalar(spec, &[value], dtype, name), dtype }
    }

    /// Evaluates an expression for its effects.
    pub fn evaluate<'a>(&self, value: impl Into<ExprArg<'a>>) {
        let value = self.operand(value.into(), self.default).0;
        self.statement(kind::EVALUATE, &[value]);
    }

    /// Returns from the function with a value. The function returns the data type of the value.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tir::prim_func;
    ///
    /// // def double(n: T.int64) -> T.int64: return n * 2
    /// let body = prim_func(|t| t.ret(t.param("n", DType::I64) * 2))?;
    /// assert_eq!(body.root().ty().dtype(), DType::I64);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn ret<'a>(&self, value: impl Into<ExprArg<'a>>) {
        let (value, dtype) = self.operand(value.into(), self.default);
        self.statement(kind::RETURN, &[value]);
        let mut edit = self.edit.borrow_mut();
        let function = edit.old().root();
        edit.set_type(function, &Type::Prim { dtype, value: None });
    }

    pub(super) fn statement(&self, kind: u16, ops: &[V]) {
        self.edit.borrow_mut().node(NodeSpec::new(kind).flags(flag::IMPURE), ops, None);
    }

    /// Writes a statement with content.
    pub(super) fn region<R>(&self, kind: u16, attrs: Vec<(&str, Attr)>, ops: &[V], content: impl FnOnce() -> R) -> R {
        let mut spec = NodeSpec::new(kind);
        if !attrs.is_empty() {
            spec = spec.attrs(self.edit.borrow_mut().builder().attrs(attrs));
        }
        self.edit.borrow_mut().open(spec, ops, None);
        let loops = u32::from(matches!(kind, kind::FOR | kind::WHILE));
        self.loops.update(|n| n + loops);
        let out = content();
        self.loops.update(|n| n - loops);
        self.edit.borrow_mut().close();
        out
    }
}

macro_rules! loops {
    ($($(#[$doc:meta])* $method:ident = $kind:ident;)*) => {
        /// Loops from 0.
        impl<'t, 'b> Tir<'t, 'b> {
            $($(#[$doc])*
            pub fn $method<'s, 'a, R>(
                &'s self,
                name: &str,
                extent: impl Into<ExprArg<'a>>,
                body: impl FnOnce(PrimExpr<'s>) -> R,
            ) -> R {
                self.loop_of(LoopKind::$kind, name, 0, extent, body)
            })*
        }
    };
}

loops! {
    /// Writes a sequential loop.
    serial = Serial;
    /// Writes a loop on several threads.
    parallel = Parallel;
    /// Writes a loop that becomes one vector operation.
    vectorized = Vectorized;
    /// Writes a loop to be unrolled.
    unroll = Unroll;
}
