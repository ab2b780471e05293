//! TIR expressions with Rust operators: `i * 4 + j`.

use super::{ExprArg, Tir};
use crate::arith::fold_as;
use crate::ir::records::kind;
use crate::ir::{DType, Dim, NodeSpec, Sym, V};
use crate::scalar::PrimOp;
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// An expression written by a [`Tir`]. May be used any number of times.
///
/// `+`, `-` and `*` mean the same as in TVMScript. `/` and `%` of integers round down, like `//` and `%` in TVMScript. A number takes the
/// data type of the other operand; for two data types, the result has the wider type. Constants are folded, and `x + 0`, `x * 1` and the
/// like become `x`, as in TVM.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::prim_func;
///
/// // A[i] = min(i * 2, 7)
/// let body = prim_func(|t| {
///     let a = t.buffer_param("A", &[8], DType::I32);
///     t.serial("i", 8, |i| t.store(a, [i], (i * 2 + 0).min(7)));
/// })?;
/// assert_eq!(body.values().filter(|value| matches!(value.view(), Expr::Arith { .. })).count(), 2);
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Copy)]
pub struct PrimExpr<'t> {
    pub(super) tir: &'t dyn Write,
    pub(super) v: V,
    pub(super) dtype: DType,
}

impl fmt::Debug for PrimExpr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.v, self.dtype)
    }
}

/// The methods of [`Tir`] used by expressions.
pub(super) trait Write {
    fn node(&self, spec: NodeSpec, ops: &[V], dtype: DType) -> V;
    fn operand(&self, operand: ExprArg<'_>, like: DType) -> (V, DType);
    fn int_of(&self, v: V) -> Option<i64>;
    fn int(&self, value: i64, dtype: DType) -> V;
    fn fail(&self, message: String);
}

impl<'b> Tir<'_, 'b> {
    /// Writes a dimension as an expression, without folding it. `var` returns the value of a symbolic variable.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::BodyBuilder;
    /// use plugin_api::tir::prim_func;
    ///
    /// let mut b = BodyBuilder::new();
    /// let dim = Dim::Var(b.sym("n", DType::I64)) * 2 + 1;
    /// let body = prim_func(|t| {
    ///     let n = t.param("n", DType::I64);
    ///     t.ret(t.dim(&dim, &|_| n));
    /// })?;
    /// assert_eq!(body.values().filter(|value| matches!(value.view(), Expr::Arith { .. })).count(), 2);
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn dim<'s>(&'s self, dim: &Dim, var: &impl Fn(Sym) -> PrimExpr<'s>) -> PrimExpr<'s> {
        if let Dim::Var(sym) = dim {
            return var(*sym);
        }
        let Some((op, dtype, operands)) = dim.operation() else { return self.number(dim) };
        let operands = operands.into_iter().map(|operand| self.dim(operand, var).v).collect();
        let (spec, ops) = self.edit.borrow_mut().builder().operation(op, operands);
        PrimExpr { tir: self, v: self.node(spec, &ops, dtype), dtype }
    }

    /// Writes a symbolic variable as an expression.
    pub fn symbol<'s>(&'s self, sym: Sym) -> PrimExpr<'s> {
        self.number(&Dim::Var(sym))
    }

    fn number<'s>(&'s self, dim: &Dim) -> PrimExpr<'s> {
        PrimExpr { tir: self, v: self.edit.borrow_mut().builder().scalar(dim), dtype: dim.dtype() }
    }
}

impl<'t> PrimExpr<'t> {
    /// Returns the value, for the methods of an edit.
    pub fn v(self) -> V {
        self.v
    }

    /// Returns the data type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// Returns the value of an integer constant.
    pub fn as_int(self) -> Option<i64> {
        self.tir.int_of(self.v)
    }

    fn made(self, v: V, dtype: DType) -> PrimExpr<'t> {
        PrimExpr { tir: self.tir, v, dtype }
    }

    /// Converts the expression to another data type.
    pub fn cast(self, dtype: DType) -> PrimExpr<'t> {
        match self.as_int() {
            _ if dtype == self.dtype => self,
            Some(value) if dtype.is_int() => self.made(self.tir.int(value, dtype), dtype),
            _ => self.made(self.tir.node(NodeSpec::new(kind::ARITH).a(PrimOp::Cast.into()), &[self.v], dtype), dtype),
        }
    }

    fn binary<'a>(self, op: PrimOp, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        let (v, dtype) = self.tir.operand(other.into(), self.dtype);
        let (a, b) = self.of_one_length(self.made(v, dtype));
        let (a, b) = a.of_one_type(b);
        if matches!(op, PrimOp::And | PrimOp::Or) {
            a.is_condition();
        }
        let result = result_type(op, a.dtype);
        match folded(op, a.dtype, a.as_int(), b.as_int()) {
            Some(Folded::Left) => return a,
            Some(Folded::Right) => return b,
            Some(Folded::Int(value)) => return self.made(self.tir.int(value, result), result),
            None => {}
        }
        self.made(self.tir.node(NodeSpec::new(kind::ARITH).a(op.into()), &[a.v, b.v], result), result)
    }

    /// Reports an error if the expression is not Boolean.
    pub(super) fn is_condition(self) {
        if self.dtype != DType::BOOL {
            self.tir.fail(format!(
                "a condition must be a bool, found {}; compare it with something, as in `x.ne(0)`",
                self.dtype
            ));
        }
    }

    /// Converts both operands to vectors if one of them is a vector.
    fn of_one_length(self, other: PrimExpr<'t>) -> (PrimExpr<'t>, PrimExpr<'t>) {
        let vector = |scalar: PrimExpr<'t>, of: PrimExpr<'t>| {
            let element = scalar.cast(DType::new(of.dtype.code(), of.dtype.bits(), 1));
            let n = self.tir.int(of.dtype.lanes().into(), DType::I32);
            self.made(self.tir.node(NodeSpec::new(kind::BROADCAST), &[element.v, n], of.dtype), of.dtype)
        };
        match (self.dtype.lanes(), other.dtype.lanes()) {
            (a, b) if a == b => (self, other),
            (1, _) => (vector(self, other), other),
            (_, 1) => (self, vector(other, self)),
            _ => (self, other),
        }
    }

    /// Converts both operands to the type that can represent the values of both.
    fn of_one_type(self, other: PrimExpr<'t>) -> (PrimExpr<'t>, PrimExpr<'t>) {
        let (a, b) = (self.dtype, other.dtype);
        let wider = match (a.is_float(), b.is_float()) {
            _ if a == b => a,
            (true, false) => a,
            (false, true) => b,
            _ if a.code() == b.code() => {
                if a.bits() < b.bits() {
                    b
                } else {
                    a
                }
            }
            _ => {
                self.tir.fail(format!("the operands have data types {a} and {b}; convert one with `cast`"));
                a
            }
        };
        (self.cast(wider), other.cast(wider))
    }

    /// Returns the minimum.
    pub fn min<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::Min, other)
    }

    /// Returns the maximum.
    pub fn max<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::Max, other)
    }

    /// Compares for equality.
    pub fn eq<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::Eq, other)
    }

    /// Compares for inequality.
    pub fn ne<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::Ne, other)
    }

    /// Returns the comparison `self < other`.
    pub fn lt<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::Lt, other)
    }

    /// Returns the comparison `self <= other`.
    pub fn le<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::Le, other)
    }

    /// Returns the logical and.
    pub fn and<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::And, other)
    }

    /// Returns the logical or.
    pub fn or<'a>(self, other: impl Into<ExprArg<'a>>) -> PrimExpr<'t> {
        self.binary(PrimOp::Or, other)
    }

    /// Returns the logical negation.
    pub fn negated(self) -> PrimExpr<'t> {
        self.is_condition();
        let not = self.tir.node(NodeSpec::new(kind::ARITH).a(PrimOp::Not.into()), &[self.v], DType::BOOL);
        self.made(not, DType::BOOL)
    }

    /// Returns `then` if the condition holds, otherwise `otherwise`; both are evaluated.
    pub fn select<'a, 'c>(self, then: impl Into<ExprArg<'a>>, otherwise: impl Into<ExprArg<'c>>) -> PrimExpr<'t> {
        self.is_condition();
        let (v, dtype) = self.tir.operand(then.into(), DType::I32);
        let (other, of) = self.tir.operand(otherwise.into(), dtype);
        let (a, b) = self.made(v, dtype).of_one_type(self.made(other, of));
        self.made(self.tir.node(NodeSpec::new(kind::SELECT), &[self.v, a.v, b.v], a.dtype), a.dtype)
    }
}

/// Returns the data type of an operation's result, given the data type of its operands.
fn result_type(op: PrimOp, operands: DType) -> DType {
    if op.is_truth() { DType::BOOL } else { operands }
}

/// The result of an operation with a known operand.
pub(super) enum Folded {
    /// The left operand.
    Left,
    /// The right operand.
    Right,
    /// A constant.
    Int(i64),
}

/// Folds an operation as in TVM. The operands have the data type `dtype`; `a` and `b` are their values, if constant.
pub(super) fn folded(op: PrimOp, dtype: DType, a: Option<i64>, b: Option<i64>) -> Option<Folded> {
    let fits = |value: &i64| result_type(op, dtype).has_integer((*value).into());
    Some(match (op, a, b) {
        (_, Some(x), Some(y)) if dtype.is_int() => Folded::Int(fold_as(op, dtype, x, y).filter(fits)?),
        (PrimOp::Add, Some(0), _) | (PrimOp::Mul, Some(1), _) => Folded::Right,
        (PrimOp::Add | PrimOp::Sub, _, Some(0)) | (PrimOp::Mul | PrimOp::FloorDiv, _, Some(1)) => Folded::Left,
        (PrimOp::Mul, Some(0), _)
        | (PrimOp::Mul, _, Some(0))
        | (PrimOp::FloorDiv, Some(0), _)
        | (PrimOp::FloorMod, _, Some(1)) => Folded::Int(0),
        _ => return None,
    })
}

macro_rules! operators {
    ($($trait:ident, $method:ident, |$dtype:ident| $op:expr;)*) => {$(
        operators!(@expr $trait, $method, |$dtype| $op; PrimExpr<'t>);
        operators!(@expr $trait, $method, |$dtype| $op; &PrimExpr<'t>);

        impl<'t> $trait<PrimExpr<'t>> for i64 {
            type Output = PrimExpr<'t>;

            fn $method(self, other: PrimExpr<'t>) -> PrimExpr<'t> {
                let (v, dtype) = other.tir.operand(self.into(), other.dtype);
                $trait::$method(other.made(v, dtype), other)
            }
        }
    )*};
    (@expr $trait:ident, $method:ident, |$dtype:ident| $op:expr; $of:ty) => {
        impl<'t, 'a, O: Into<ExprArg<'a>>> $trait<O> for $of {
            type Output = PrimExpr<'t>;

            fn $method(self, other: O) -> PrimExpr<'t> {
                let $dtype = self.dtype;
                self.binary($op, other)
            }
        }
    };
}

operators! {
    Add, add, |_dtype| PrimOp::Add;
    Sub, sub, |_dtype| PrimOp::Sub;
    Mul, mul, |_dtype| PrimOp::Mul;
    Div, div, |dtype| if dtype.is_float() { PrimOp::Div } else { PrimOp::FloorDiv };
    Rem, rem, |_dtype| PrimOp::FloorMod;
}

impl<'t> Neg for PrimExpr<'t> {
    type Output = PrimExpr<'t>;

    fn neg(self) -> PrimExpr<'t> {
        self * -1
    }
}

impl<'t, 'b> Tir<'t, 'b> {
    /// Calls a TIR operator without effects, such as `tirx.exp`.
    pub fn call<'s, 'a, O: Into<ExprArg<'a>>>(
        &'s self,
        op: &str,
        args: impl IntoIterator<Item = O>,
        dtype: DType,
    ) -> PrimExpr<'s> {
        let callee = self.edit.borrow_mut().builder().op(op);
        let args = args.into_iter().map(|arg| self.operand(arg.into(), dtype).0);
        let ops: Vec<V> = std::iter::once(callee).chain(args).collect();
        let v = Write::node(self, NodeSpec::new(kind::CALL), &ops, dtype);
        PrimExpr { tir: self, v, dtype }
    }
}
