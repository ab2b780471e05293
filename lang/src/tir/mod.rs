//! Writes TIR without access to records: loops, blocks, stores, and expressions with Rust operators.
//!
//! [`Rewriter::tir`] writes before the current statement; [`prim_func`] writes a new function. This example splits a loop:
//!
//! ```
//! use plugin_api::prelude::*;
//! use plugin_api::tvm::StmtMutator;
//! use plugin_api::tir::{has_jumps, prim_func};
//!
//! /// Splits loops of a multiple of `factor` iterations.
//! struct Split { factor: i64 }
//!
//! impl<'b> StmtMutator<'b> for Split {
//!     fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
//!         let Some(Stmt::For { extent, kind: "serial", .. }) = stmt.stmt() else { return Ok(Action::Keep) };
//!         let Some(n) = extent.dim().and_then(|n| n.as_int()) else { return Ok(Action::Keep) };
//!         // A `break` in the loop would leave only the inner one of the two.
//!         if n % self.factor == 0 && n > self.factor && !has_jumps(stmt) {
//!             rw.tir(|t| {
//!                 t.serial("i_0", n / self.factor, |outer| {
//!                     t.serial("i_1", self.factor, |inner| t.loop_body(stmt, outer * self.factor + inner))
//!                 })
//!             })?;
//!         }
//!         Ok(Action::Keep)
//!     }
//! }
//!
//! // for i in range(16): A[i] = i
//! let body = prim_func(|t| {
//!     let a = t.buffer_param("A", &[16], DType::I32);
//!     t.serial("i", 16, |i| t.store(a, [i], i));
//! })?;
//! // for i_0, i_1 in T.grid(4, 4): A[i_0 * 4 + i_1] = i_0 * 4 + i_1
//! let split = Split { factor: 4 }.mutate(&body)?;
//! let loops = split.values().filter(|value| matches!(value.stmt(), Some(Stmt::For { .. })));
//! assert_eq!(loops.count(), 2);
//! # Ok::<(), PassError>(())
//! ```
//!
//! This example tiles two perfectly nested loops:
//!
//! ```
//! use plugin_api::prelude::*;
//! use plugin_api::tvm::StmtMutator;
//! use plugin_api::tir::prim_func;
//!
//! struct Tile;
//!
//! impl<'b> StmtMutator<'b> for Tile {
//!     fn visit_for(&mut self, i: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
//!         let Some(j) = i.region().children().find(|inner| extent_of(*inner).is_some()) else { return Ok(Action::Keep) };
//!         let (Some(n), Some(m)) = (extent_of(i), extent_of(j)) else { return Ok(Action::Keep) };
//!         rw.tir(|t| {
//!             t.grid(["i_0", "j_0", "i_1", "j_1"], [n / 4, m / 4, 4, 4], |[i_0, j_0, i_1, j_1]| {
//!                 t.nest_body(&[(i, i_0 * 4 + i_1), (j, j_0 * 4 + j_1)]);
//!             })
//!         })?;
//!         Ok(Action::Keep)
//!     }
//! }
//!
//! /// Iterations of a loop that tiles of four fill.
//! fn extent_of(stmt: Value<'_>) -> Option<i64> {
//!     let Some(Stmt::For { extent, .. }) = stmt.stmt() else { return None };
//!     extent.dim()?.as_int().filter(|n| n % 4 == 0)
//! }
//!
//! let body = prim_func(|t| {
//!     let a = t.buffer_param("A", &[16, 8], DType::F32);
//!     t.grid(["i", "j"], [16, 8], |[i, j]| t.store(a, [i, j], t.load(a, [i, j]) * 2.0));
//! })?;
//! let tiled = Tile.mutate(&body)?;
//! let loops = tiled.values().filter(|value| matches!(value.stmt(), Some(Stmt::For { .. })));
//! assert_eq!(loops.count(), 4);
//! # Ok::<(), PassError>(())
//! ```

mod again;
mod block;
mod buffer;
mod expr;
mod join;
mod lower;
mod nest;
mod read;
pub mod regions;
mod stmt;

pub use again::{Again, TirRewrite};
pub use buffer::Buffer;
pub use expr::PrimExpr;
pub use join::{Join, JoinArg, JoinParam, JoinedBuffer};
pub use nest::has_jumps;
pub use read::{BlockIter, ElementAccess, RegionAccess};
pub use stmt::LoopKind;

use crate::PassError;
use crate::ir::records::kind;
use crate::ir::{Attr, Body, BodyBuilder, DType, Dim, NodeSpec, Stmt, Type, V, Value};
use crate::rewrite::Edit;
use crate::rewrite::mutators::Rewriter;
use expr::Write;
use std::cell::{Cell, RefCell};

/// Writes TIR statements and expressions at one place of a body. Statements appear in call order; closures write the content of regions.
/// The first error is kept and returned at the end.
///
/// The example writes a matrix product as a schedulable block:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::BodyKind;
/// use plugin_api::tir::prim_func;
///
/// let body = prim_func(|t| {
///     let [a, b, c] = ["A", "B", "C"].map(|name| t.buffer_param(name, &[16, 16], DType::F32));
///     t.grid(["i", "j", "k"], [16, 16, 16], |[i, j, k]| {
///         t.block("C", || {
///             let (vi, vj, vk) = (t.spatial("vi", 16, i), t.spatial("vj", 16, j), t.reduce("vk", 16, k));
///             t.reads(a, [(vi, 1), (vk, 1)]);
///             t.reads(b, [(vk, 1), (vj, 1)]);
///             t.writes(c, [(vi, 1), (vj, 1)]);
///             t.init(|| t.store(c, [vi, vj], 0.0));
///             t.store(c, [vi, vj], t.load(c, [vi, vj]) + t.load(a, [vi, vk]) * t.load(b, [vk, vj]));
///         });
///     });
/// })?;
/// assert_eq!(body.kind(), BodyKind::PrimFunc);
/// # Ok::<(), PassError>(())
/// ```
pub struct Tir<'t, 'b> {
    edit: RefCell<&'t mut Edit<'b>>,
    error: RefCell<Option<PassError>>,
    /// The default data type of numbers.
    default: DType,
    /// True if the function consists of schedulable blocks.
    s_tir: bool,
    /// The open schedulable blocks.
    blocks: RefCell<Vec<block::Open>>,
    /// The number of loops written around the current place.
    loops: Cell<u32>,
}

/// An argument of an operation: an expression, a value of the body being rewritten, or a number.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::{ExprArg, prim_func};
///
/// prim_func(|t| {
///     let n = t.param("n", DType::I32);
///     for extent in [ExprArg::Int(4), n.into()] {
///         t.serial("i", extent, |i| t.evaluate(i));
///     }
/// })?;
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ExprArg<'a> {
    /// A written value.
    New(V),
    /// A value of the body being rewritten.
    Old(Value<'a>),
    /// An integer; it takes the data type of the other operand.
    Int(i64),
    /// A float; it takes the data type of the other operand.
    Float(f64),
    /// A Boolean.
    Bool(bool),
}

macro_rules! expr_arg_from {
    ($($ty:ty => |$value:ident| $made:expr;)*) => {$(
        impl<'a> From<$ty> for ExprArg<'a> {
            fn from($value: $ty) -> ExprArg<'a> {
                $made
            }
        }
    )*};
}
expr_arg_from! {
    PrimExpr<'_> => |value| ExprArg::New(value.v);
    &PrimExpr<'_> => |value| ExprArg::New(value.v);
    Buffer => |buffer| ExprArg::New(buffer.v);
    V => |v| ExprArg::New(v);
    Value<'a> => |value| ExprArg::Old(value);
    i64 => |value| ExprArg::Int(value);
    f64 => |value| ExprArg::Float(value);
    bool => |value| ExprArg::Bool(value);
}

impl Write for Tir<'_, '_> {
    fn node(&self, spec: NodeSpec, ops: &[V], dtype: DType) -> V {
        let mut edit = self.edit.borrow_mut();
        let ty = edit.builder().ty(&Type::Prim { dtype, value: None });
        edit.node(spec.ty(ty), ops, None)
    }

    fn operand(&self, operand: ExprArg<'_>, like: DType) -> (V, DType) {
        let mut edit = self.edit.borrow_mut();
        let number = match operand {
            ExprArg::New(v) => return (v, edit.with(v, |value| value.ty().dtype())),
            ExprArg::Old(value) => return (edit.resolve(value), value.ty().dtype()),
            ExprArg::Int(value) if like.is_float() => Dim::float(value as f64, like),
            ExprArg::Int(value) => Dim::int(value, like),
            ExprArg::Float(value) => Dim::float(value, if like.is_float() { like } else { DType::F32 }),
            ExprArg::Bool(value) => Dim::int(value.into(), DType::BOOL),
        };
        (edit.builder().scalar(&number), number.dtype())
    }

    fn int_of(&self, v: V) -> Option<i64> {
        self.edit.borrow().with(v, |value| value.dim()?.as_int())
    }

    fn int(&self, value: i64, dtype: DType) -> V {
        self.edit.borrow_mut().builder().scalar(&Dim::int(value, dtype))
    }

    fn fail(&self, message: String) {
        self.fail_with(PassError::new(message));
    }
}

impl<'t, 'b> Tir<'t, 'b> {
    /// Runs `f` with a writer at the current place of an edit.
    fn at<R>(edit: &'t mut Edit<'b>, default: DType, f: impl FnOnce(&Tir<'t, 'b>) -> R) -> Result<R, PassError> {
        let s_tir = edit.old().root().attr("s_tir").is_some();
        let (edit, error) = (RefCell::new(edit), RefCell::new(None));
        let tir = Tir { edit, error, default, s_tir, blocks: RefCell::default(), loops: Cell::new(0) };
        let out = f(&tir);
        match tir.error.into_inner() {
            None => Ok(out),
            Some(error) => Err(error),
        }
    }

    /// Keeps the first error.
    fn fail_with(&self, error: PassError) {
        self.error.borrow_mut().get_or_insert(error);
    }

    /// Returns a number, or a value of the body being rewritten, as an expression.
    pub fn value<'s, 'a>(&'s self, operand: impl Into<ExprArg<'a>>) -> PrimExpr<'s> {
        let (v, dtype) = self.operand(operand.into(), self.default);
        PrimExpr { tir: self, v, dtype }
    }

    /// Converts an operand to a condition.
    fn cond(&self, operand: ExprArg<'_>) -> V {
        let (v, dtype) = Write::operand(self, operand, DType::BOOL);
        PrimExpr { tir: self, v, dtype }.is_condition();
        v
    }

    /// Returns an integer of a data type.
    pub fn int<'s>(&'s self, value: i64, dtype: DType) -> PrimExpr<'s> {
        PrimExpr { tir: self, v: Write::int(self, value, dtype), dtype }
    }
}

impl<'b> Rewriter<'b> {
    /// Writes TIR before the current statement. Numbers default to the data type of the current loop, or to `int32` outside loops. The
    /// documentation of [`crate::tir`] has an example.
    ///
    /// # Errors
    /// The first error of the written code.
    pub fn tir<R>(&mut self, f: impl FnOnce(&Tir<'_, 'b>) -> R) -> Result<R, PassError> {
        let default = match self.current().stmt() {
            Some(Stmt::For { var, .. }) => var.ty().dtype(),
            _ => DType::I32,
        };
        Tir::at(self.edit(), default, f)
    }
}

/// Builds a PrimFunc of schedulable blocks.
///
/// # Errors
/// The first error of the written code.
pub fn prim_func(f: impl FnOnce(&Tir<'_, '_>)) -> Result<Body, PassError> {
    let mut b = BodyBuilder::new();
    let attrs = b.attrs([("s_tir", Attr::Bool(true))]);
    b.begin(NodeSpec::new(kind::PRIM_FUNC).attrs(attrs), &[], None);
    b.end();
    let empty = b.finish()?;
    let mut edit = empty.edit();
    edit.at_start(empty.root());
    Tir::at(&mut edit, DType::I32, f)?;
    Ok(edit.finish()?)
}
