//! Expressions of tensor elements.

use super::TeTensor;
use super::size::{Fault, Size};
use passhost_lang::arith::fold_as;
use passhost_lang::ir::{DType, Dim, DimExpr, Sym};
use passhost_lang::scalar::PrimOp;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};
use std::rc::Rc;
use std::sync::Arc;

/// The definition of an element in terms of elements of other tensors, indices and numbers. Cloning is cheap.
///
/// `+`, `-`, `*` and `/` mean the same as in TVMScript; `/` and `%` of integers round down. A number takes the data type of the other
/// operand. Constants are folded, and `x + 0`, `x * 1` and similar expressions become `x`, as in TVM; for floats, `x - 0.0` and `x + -0.0` also become
/// `x`. Unlike in TVM, `x + 0.0` is kept because it changes `-0.0` to `0.0`, and `x * 0.0` and `0.0 / x` are kept because they can be NaN.
///
/// A clone is the same expression, but each use of an expression is written and computed again: `let y = x.exp(); &y * &y + &y` contains three
/// calls of `exp`. Put a part with several uses into its own [`Te::compute`](super::Te::compute), which computes each of its elements once.
/// An element nested more than 500 levels deep, or with more than 50000 operations when written, is rejected when the function is
/// [finished](super::Te::finish).
#[derive(Clone, Debug)]
pub struct TeExpr {
    pub(super) node: Rc<Node>,
    pub(super) dtype: DType,
    pub(super) size: Size,
}

#[derive(Debug)]
pub(super) enum Node {
    /// An integer expression in indices and symbolic variables.
    Index(Dim),
    Float(f64),
    Load(TeTensor, Vec<TeExpr>),
    Binary(PrimOp, TeExpr, TeExpr),
    /// `NOT` or `CAST`.
    Unary(PrimOp, TeExpr),
    Call(String, Vec<TeExpr>),
    Select(TeExpr, TeExpr, TeExpr),
    Reduce(Reduction),
    Pair(Pair),
    Scatter(Scatter),
    /// An error, such as operands of different data types.
    Fault(Fault),
}

impl Node {
    fn size(&self) -> Size {
        fn around<'e>(of: impl IntoIterator<Item = &'e TeExpr>) -> Size {
            Size::of(of.into_iter().map(|operand| operand.size))
        }
        match self {
            Node::Index(dim) => Size::of_dim(dim),
            Node::Load(_, of) | Node::Call(_, of) => around(of),
            Node::Binary(_, a, b) => around([a, b]),
            Node::Unary(_, a) => around([a]),
            Node::Select(c, a, b) => around([c, a, b]),
            Node::Reduce(reduction) => around([&reduction.value]),
            Node::Pair(pair) => around(pair.start.iter().chain(&pair.next)),
            Node::Scatter(scatter) => around(scatter.place.iter().chain([&scatter.start, &scatter.next])),
            Node::Float(_) | Node::Fault(_) => Size::default(),
        }
    }
}

/// A reduction: a commutative operation over all values of some axes.
#[derive(Debug)]
pub(super) struct Reduction {
    pub(super) op: PrimOp,
    pub(super) value: TeExpr,
    pub(super) axes: Vec<Sym>,
    /// The start value.
    pub(super) start: TeExpr,
}

/// Two values computed together over all values of some axes; each step uses the previous values of both.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) tensors: [TeTensor; 2],
    pub(super) start: [TeExpr; 2],
    pub(super) next: [TeExpr; 2],
    pub(super) axes: Vec<Sym>,
}

/// Initial values of all elements, and an update of the element at one position. The update runs for all values of some axes, in order.
#[derive(Debug)]
pub(super) struct Scatter {
    pub(super) start: TeExpr,
    pub(super) place: Vec<TeExpr>,
    pub(super) next: TeExpr,
    pub(super) axes: Vec<Sym>,
}

/// An operand: an expression, or a number with the data type of the other operand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operand {
    /// An expression.
    Expr(TeExpr),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

macro_rules! operand_from {
    ($($ty:ty => |$value:ident| $made:expr;)*) => {$(
        impl From<$ty> for Operand {
            fn from($value: $ty) -> Operand {
                $made
            }
        }
    )*};
}
operand_from! {
    TeExpr => |value| Operand::Expr(value);
    &TeExpr => |value| Operand::Expr(value.clone());
    i64 => |value| Operand::Int(value);
    f64 => |value| Operand::Float(value);
    Dim => |value| Operand::Expr(TeExpr::of_dim(value));
    &Dim => |value| Operand::Expr(TeExpr::of_dim(value.clone()));
}

impl Operand {
    /// Converts the operand to an expression; a plain number gets the data type `like`.
    pub(super) fn expr(self, like: DType) -> TeExpr {
        match self {
            Operand::Expr(expr) => expr,
            Operand::Int(value) if like.is_float() => TeExpr::float(value as f64, like),
            Operand::Int(value) => TeExpr::int(value, like),
            Operand::Float(value) => TeExpr::float(value, if like.is_float() { like } else { DType::F32 }),
        }
    }
}

impl TeExpr {
    pub(super) fn new(node: Node, dtype: DType) -> TeExpr {
        let size = node.size();
        TeExpr { node: Rc::new(node), dtype, size }
    }

    /// Returns the expression, or a fault if it is too large.
    pub(super) fn bounded(self) -> TeExpr {
        if self.size.is_written() {
            return self;
        }
        TeExpr::new(Node::Fault(self.size.fault()), self.dtype)
    }

    /// Builds an integer expression in symbolic variables, such as a dimension.
    pub fn of_dim(dim: Dim) -> TeExpr {
        let dtype = dim.dtype();
        TeExpr::new(Node::Index(dim), dtype).bounded()
    }

    /// Builds an integer. A value that does not fit the data type wraps around, as in arithmetic: -1 as uint8 is 255, and as uint64 the
    /// greatest value. TVM does not read numbers from 2^63 on, so each is written as the bitwise complement of a smaller number.
    pub fn int(value: i64, dtype: DType) -> TeExpr {
        match dtype == DType::U64 && value < 0 {
            true => TeExpr::of_dim(Dim::int(!value, dtype)).math("bitwise_not"),
            false => TeExpr::of_dim(Dim::int(wrapped(value, dtype), dtype)),
        }
    }

    /// Builds a float, rounded to its data type.
    pub fn float(value: f64, dtype: DType) -> TeExpr {
        TeExpr::new(Node::Float(value), dtype)
    }

    /// Returns the data type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the value of an integer constant.
    pub fn as_int(&self) -> Option<i64> {
        match &*self.node {
            Node::Index(dim) => dim.as_int(),
            _ => None,
        }
    }

    /// Returns the value of a numeric constant.
    fn as_float(&self) -> Option<f64> {
        match &*self.node {
            Node::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the first fault in the value of an element.
    pub(super) fn fault(&self) -> Option<Fault> {
        match &*self.node {
            Node::Reduce(reduction) => reduction.value.inner_fault(),
            Node::Pair(pair) => pair.next.iter().chain(&pair.start).find_map(TeExpr::inner_fault),
            Node::Scatter(scatter) => {
                scatter.place.iter().chain([&scatter.start, &scatter.next]).find_map(TeExpr::inner_fault)
            }
            _ => self.inner_fault(),
        }
    }

    fn inner_fault(&self) -> Option<Fault> {
        match &*self.node {
            Node::Fault(why) => Some(why.clone()),
            Node::Index(_) | Node::Float(_) => None,
            Node::Load(_, of) | Node::Call(_, of) => of.iter().find_map(TeExpr::inner_fault),
            Node::Binary(_, a, b) => a.inner_fault().or_else(|| b.inner_fault()),
            Node::Unary(_, a) => a.inner_fault(),
            Node::Select(c, a, b) => [c, a, b].into_iter().find_map(TeExpr::inner_fault),
            Node::Reduce(_) | Node::Pair(_) | Node::Scatter(_) => {
                let why = "a reduction must be the whole value of an element; compute it as a separate tensor";
                Some(Fault::Operands(why.to_string()))
            }
        }
    }

    /// Converts the expression to another data type.
    pub fn cast(&self, dtype: DType) -> TeExpr {
        if dtype == self.dtype {
            return self.clone();
        }
        match (self.as_int(), self.as_float()) {
            (Some(value), _) if dtype.is_float() && self.dtype == DType::U64 => {
                TeExpr::float(value as u64 as f64, dtype)
            }
            (Some(value), _) if dtype.is_float() => TeExpr::float(value as f64, dtype),
            (Some(value), _) if dtype.is_int() => TeExpr::int(value, dtype),
            (_, Some(value)) if dtype.is_float() && !dtype.has_float(value) => {
                TeExpr::float(f64::INFINITY.copysign(value), dtype)
            }
            (_, Some(value)) if dtype.is_float() => TeExpr::float(value, dtype),
            (_, Some(value)) if dtype.is_int() && value.trunc().abs() < 2f64.powi(31) => {
                TeExpr::int(value as i64, dtype)
            }
            _ => TeExpr::new(Node::Unary(PrimOp::Cast, self.clone()), dtype).bounded(),
        }
    }

    fn binary(&self, op: PrimOp, other: impl Into<Operand>) -> TeExpr {
        let other = other.into().expr(self.dtype);
        if self.dtype != other.dtype {
            let message =
                format!("the operands have data types {} and {}; convert one with `cast`", self.dtype, other.dtype);
            return TeExpr::fault_of(message, self.dtype);
        }
        if let Some((name, wanted)) = not_defined(op, self.dtype) {
            return self.refused(name, wanted);
        }
        if self.dtype == DType::BOOL
            && let Some(truth) = self.of_truths(op, &other)
        {
            return truth;
        }
        let dtype = op.result(self.dtype);
        if let Some(known) = computed(op, self, &other, dtype) {
            return known;
        }
        let made = match (&*self.node, &*other.node) {
            (Node::Index(a), Node::Index(b)) => {
                let dim = Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, a.clone(), b.clone())));
                TeExpr { node: Rc::new(Node::Index(dim)), dtype, size: Size::of([self.size, other.size]) }
            }
            _ => TeExpr::new(Node::Binary(op, self.clone(), other), dtype),
        };
        made.bounded()
    }

    /// Expresses arithmetic and comparisons on Booleans as logic, because no code can be generated for them: a sum becomes `or`, a product
    /// `and`. Quotients and shifts are computed on the numbers 0 and 1. Returns `None` for operations that are already logic.
    fn of_truths(&self, op: PrimOp, other: &TeExpr) -> Option<TeExpr> {
        let as_numbers = || self.cast(DType::I8).binary(op, other.cast(DType::I8)).cast(DType::BOOL);
        Some(match op {
            PrimOp::Add | PrimOp::Max => self.or(other),
            PrimOp::Mul | PrimOp::Min => self.and(other),
            PrimOp::Sub | PrimOp::Ne => self.bit_xor(other),
            PrimOp::Eq => self.bit_xor(other).negated(),
            PrimOp::Lt => self.negated().and(other),
            PrimOp::Le => self.negated().or(other),
            PrimOp::Gt => self.and(other.negated()),
            PrimOp::Ge => self.or(other.negated()),
            PrimOp::FloorDiv | PrimOp::FloorMod | PrimOp::TruncDiv | PrimOp::TruncMod | PrimOp::Shl | PrimOp::Shr => {
                as_numbers()
            }
            _ => return None,
        })
    }

    /// Reinterprets the bits as a value of another data type, which must have the same width.
    pub fn reinterpreted(&self, dtype: DType) -> TeExpr {
        if self.dtype.bits() != dtype.bits() {
            let message = format!("{} cannot be reinterpreted as {dtype}: their widths differ", self.dtype);
            return TeExpr::fault_of(message, dtype);
        }
        TeExpr { dtype, ..self.math("reinterpret") }
    }

    /// Returns `then` where the condition holds, otherwise `otherwise`; both are evaluated.
    pub fn select(&self, then: impl Into<Operand>, otherwise: impl Into<Operand>) -> TeExpr {
        let (then, otherwise) = of_one_type(then.into(), otherwise.into());
        let dtype = then.dtype;
        TeExpr::new(Node::Select(self.clone(), then, otherwise), dtype).bounded()
    }

    /// Returns `then` where the condition holds, otherwise `otherwise`; only one of them is evaluated.
    pub fn if_then_else(&self, then: impl Into<Operand>, otherwise: impl Into<Operand>) -> TeExpr {
        let (then, otherwise) = of_one_type(then.into(), otherwise.into());
        let dtype = then.dtype;
        let args = vec![self.clone(), then, otherwise];
        TeExpr::new(Node::Call("tirx.if_then_else".to_string(), args), dtype).bounded()
    }

    /// Returns a fault that reports an operation the data type does not support.
    pub(super) fn refused(&self, name: &str, wanted: &str) -> TeExpr {
        let message = format!("`{name}` takes {wanted}, found {}; convert the operands with R.astype", self.dtype);
        TeExpr::fault_of(message, self.dtype)
    }

    /// Returns a fault that reports operands that the operation does not support.
    pub(super) fn fault_of(message: String, dtype: DType) -> TeExpr {
        TeExpr::new(Node::Fault(Fault::Operands(message)), dtype)
    }

    /// Returns the logical negation.
    pub fn negated(&self) -> TeExpr {
        if self.dtype != DType::BOOL {
            return self.refused("not", "bools");
        }
        TeExpr::new(Node::Unary(PrimOp::Not, self.clone()), DType::BOOL).bounded()
    }

    fn reduced(&self, op: PrimOp, start: TeExpr, axes: &[&TeExpr]) -> TeExpr {
        let op = match op {
            PrimOp::Add | PrimOp::Max if self.dtype == DType::BOOL => PrimOp::Or,
            PrimOp::Mul | PrimOp::Min if self.dtype == DType::BOOL => PrimOp::And,
            op => op,
        };
        let reduction = Reduction { op, value: self.clone(), axes: symbols(axes), start };
        TeExpr::new(Node::Reduce(reduction), self.dtype)
    }

    /// Returns the sum over some axes of [`Te::reduce_axis`](super::Te::reduce_axis).
    pub fn sum(&self, axes: &[&TeExpr]) -> TeExpr {
        self.reduced(PrimOp::Add, Operand::Int(0).expr(self.dtype), axes)
    }

    /// Returns the product over some axes.
    pub fn prod(&self, axes: &[&TeExpr]) -> TeExpr {
        self.reduced(PrimOp::Mul, Operand::Int(1).expr(self.dtype), axes)
    }

    /// Returns the greatest value over some axes, or the least finite value if that is greater, as in TVM.
    pub fn largest(&self, axes: &[&TeExpr]) -> TeExpr {
        self.largest_from(least_value(self.dtype), axes)
    }

    /// Returns the greatest of a start value and the values over some axes.
    pub fn largest_from(&self, start: TeExpr, axes: &[&TeExpr]) -> TeExpr {
        self.reduced(PrimOp::Max, start, axes)
    }

    /// Returns the least value over some axes, or the greatest finite value if that is less, as in TVM.
    pub fn smallest(&self, axes: &[&TeExpr]) -> TeExpr {
        self.smallest_from(greatest_value(self.dtype), axes)
    }

    /// Returns the least of a start value and the values over some axes.
    pub fn smallest_from(&self, start: TeExpr, axes: &[&TeExpr]) -> TeExpr {
        self.reduced(PrimOp::Min, start, axes)
    }
}

/// Returns the name of an operation that a data type does not support, and the data types that do.
fn not_defined(op: PrimOp, dtype: DType) -> Option<(&'static str, &'static str)> {
    let (name, wanted) = match op {
        PrimOp::And => ("and", "bools"),
        PrimOp::Or => ("or", "bools"),
        PrimOp::BitAnd => ("&", "integers"),
        PrimOp::BitOr => ("|", "integers"),
        PrimOp::BitXor => ("^", "integers"),
        PrimOp::Shl => ("<<", "integers"),
        PrimOp::Shr => (">>", "integers"),
        _ => return None,
    };
    let has = if wanted == "integers" { !dtype.is_float() } else { dtype == DType::BOOL };
    (!has).then_some((name, wanted))
}

/// Wraps a value to the range of a data type; for bool, returns whether the value is not 0.
fn wrapped(value: i64, dtype: DType) -> i64 {
    let unused = 64 - u32::from(dtype.bits().clamp(1, 64));
    match dtype.code() {
        0 => value << unused >> unused,
        1 => ((value as u64) << unused >> unused) as i64,
        6 => (value != 0).into(),
        _ => value,
    }
}

/// Returns the variables of axes.
pub(super) fn symbols(axes: &[&TeExpr]) -> Vec<Sym> {
    let of = |axis: &&TeExpr| match &*axis.node {
        Node::Index(Dim::Var(sym)) => Some(*sym),
        _ => None,
    };
    axes.iter().filter_map(of).collect()
}

/// Returns the least finite value of a data type.
pub fn least_value(dtype: DType) -> TeExpr {
    match (dtype.is_float(), dtype.code()) {
        (true, _) => TeExpr::float(-greatest_float(dtype), dtype),
        (_, 0) => TeExpr::int(i64::MIN >> (64 - u32::from(dtype.bits().clamp(1, 64))), dtype),
        _ => TeExpr::int(0, dtype),
    }
}

/// Returns the greatest finite value of a data type.
pub fn greatest_value(dtype: DType) -> TeExpr {
    let bits = u32::from(dtype.bits().clamp(1, 64));
    match (dtype.is_float(), dtype.code()) {
        (true, _) => TeExpr::float(greatest_float(dtype), dtype),
        (_, 0) => TeExpr::int(i64::MAX >> (64 - bits), dtype),
        (_, 1) => TeExpr::int(-1, dtype),
        _ => TeExpr::int(1, dtype),
    }
}

fn greatest_float(dtype: DType) -> f64 {
    let info = dtype.info().filter(|row| row.scalar.is_some());
    info.and_then(|row| row.format).map_or(f64::from(f32::MAX), |format| format.greatest)
}

/// Converts both operands to expressions. A plain number gets the data type of the other operand.
fn of_one_type(a: Operand, b: Operand) -> (TeExpr, TeExpr) {
    let like = match (&a, &b) {
        (Operand::Expr(expr), _) | (_, Operand::Expr(expr)) => expr.dtype,
        (Operand::Float(_), _) | (_, Operand::Float(_)) => DType::F32,
        _ => DType::I64,
    };
    let (a, b) = (a.expr(like), b.expr(like));
    if a.dtype != b.dtype {
        let message = format!("the choices have data types {} and {}; convert one with `cast`", a.dtype, b.dtype);
        return (TeExpr::fault_of(message, a.dtype), b);
    }
    (a, b)
}

/// Folds an operation, if possible.
fn computed(op: PrimOp, a: &TeExpr, b: &TeExpr, dtype: DType) -> Option<TeExpr> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        let value = fold_as(op, a.dtype, x, y).filter(|value| dtype.has_integer((*value).into()))?;
        return Some(TeExpr::int(value, dtype));
    }
    if let (Some(x), Some(y)) = (a.as_float(), b.as_float()) {
        return of_floats(op, x, y, dtype).map(|value| TeExpr::float(value, dtype));
    }
    let is = |e: &TeExpr, v: i64| e.as_int() == Some(v) || e.as_float() == Some(v as f64);
    let is_zero = |e: &TeExpr| e.as_int() == Some(0);
    // The neutral element of addition; for floats the negative zero, because `-0.0 + 0.0` is `0.0`.
    let adds_nothing = |e: &TeExpr, negative: bool| {
        is_zero(e) || e.as_float().is_some_and(|v| v == 0.0 && v.is_sign_negative() == negative)
    };
    match op {
        PrimOp::Add if adds_nothing(a, true) => Some(b.clone()),
        PrimOp::Mul if is(a, 1) => Some(b.clone()),
        PrimOp::Add if adds_nothing(b, true) => Some(a.clone()),
        PrimOp::Sub if adds_nothing(b, false) => Some(a.clone()),
        PrimOp::Mul | PrimOp::Div | PrimOp::FloorDiv if is(b, 1) => Some(a.clone()),
        PrimOp::Mul if is_zero(a) => Some(a.clone()),
        PrimOp::Mul if is_zero(b) => Some(b.clone()),
        PrimOp::FloorDiv if is_zero(a) => Some(a.clone()),
        PrimOp::FloorMod if a.dtype.is_int() && is(b, 1) => Some(TeExpr::int(0, dtype)),
        PrimOp::And if is(a, 1) => Some(b.clone()),
        PrimOp::And if is(b, 1) => Some(a.clone()),
        _ => None,
    }
}

/// Folds float arithmetic in the precision of `dtype`.
fn of_floats(op: PrimOp, x: f64, y: f64, dtype: DType) -> Option<f64> {
    let value = match op {
        PrimOp::Add => x + y,
        PrimOp::Sub => x - y,
        PrimOp::Mul => x * y,
        PrimOp::Div => x / y,
        _ => return None,
    };
    match dtype {
        DType::F64 => Some(value),
        DType::F32 => Some(f64::from(value as f32)),
        _ => None,
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident = $op:ident;)*) => {
        impl TeExpr {
            $($(#[$doc])*
            pub fn $method(&self, other: impl Into<Operand>) -> TeExpr {
                self.binary(PrimOp::$op, other)
            })*
        }
    };
}

methods! {
    /// Returns the minimum.
    min = Min;
    /// Returns the maximum.
    max = Max;
    /// Compares for equality.
    eq = Eq;
    /// Compares for inequality.
    ne = Ne;
    /// Returns the comparison `self < other`.
    lt = Lt;
    /// Returns the comparison `self <= other`.
    le = Le;
    /// Returns the comparison `self > other`.
    gt = Gt;
    /// Returns the comparison `self >= other`.
    ge = Ge;
    /// Returns the logical and.
    and = And;
    /// Returns the logical or.
    or = Or;
    /// Returns the remainder of the division that truncates towards zero.
    trunc_mod = TruncMod;
    /// Returns the quotient of integers, truncated towards zero.
    trunc_div = TruncDiv;
    /// Returns the bitwise and.
    bit_and = BitAnd;
    /// Returns the bitwise or.
    bit_or = BitOr;
    /// Returns the bitwise exclusive or.
    bit_xor = BitXor;
    /// Shifts left.
    shift_left = Shl;
    /// Shifts right.
    shift_right = Shr;
}

macro_rules! operators {
    ($($trait:ident, $method:ident, |$dtype:ident| $op:expr;)*) => {$(
        operators!(@of TeExpr, $trait, $method, |$dtype| $op);
        operators!(@of &TeExpr, $trait, $method, |$dtype| $op);

        operators!(@number i64, TeExpr, $trait, $method);
        operators!(@number i64, &TeExpr, $trait, $method);
        operators!(@number f64, TeExpr, $trait, $method);
        operators!(@number f64, &TeExpr, $trait, $method);
    )*};
    (@number $number:ty, $of:ty, $trait:ident, $method:ident) => {
        impl $trait<$of> for $number {
            type Output = TeExpr;

            fn $method(self, other: $of) -> TeExpr {
                $trait::$method(Operand::from(self).expr(other.dtype), other)
            }
        }
    };
    (@of $of:ty, $trait:ident, $method:ident, |$dtype:ident| $op:expr) => {
        impl<O: Into<Operand>> $trait<O> for $of {
            type Output = TeExpr;

            fn $method(self, other: O) -> TeExpr {
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

impl Neg for TeExpr {
    type Output = TeExpr;

    fn neg(self) -> TeExpr {
        self * -1
    }
}

impl Neg for &TeExpr {
    type Output = TeExpr;

    fn neg(self) -> TeExpr {
        self * -1
    }
}

/// Returns the error of an element `T` with this value; empty if there is none.
#[cfg(test)]
pub(super) fn message(value: &TeExpr) -> String {
    value.fault().map_or(String::new(), |fault| fault.error("T").to_string())
}

#[cfg(test)]
mod tests {
    use super::super::reads::same;
    use super::{TeExpr, message};
    use passhost_lang::ir::{DType, Dim, Sym};

    #[test]
    fn what_is_nested_too_deeply_is_a_fault_and_costs_no_stack() {
        let of = |first: TeExpr, next: fn(TeExpr) -> TeExpr| (0..100_000).fold(first, |all, _| next(all));
        let index = TeExpr::of_dim(Dim::Var(Sym { id: 0, dtype: DType::I64 }));
        let value = TeExpr::float(1.0, DType::F32);
        let deep = [
            of(value.clone(), |all| all.math("exp")),
            of(value.clone(), |all| all.lt(1.0).select(all, 2.0)),
            of(value.clone(), |all| all.cast(DType::F64).cast(DType::F32).math("exp")),
            of(index.clone(), |all| all.trunc_mod(3)),
            of(index, |all| all.lt(3).if_then_else(all, 4)),
        ];
        for deep in deep {
            let message = message(&deep);
            let is_refused = ["`T` is nested more than 500 deep", "`T` has more than 50000 operations"];
            assert!(is_refused.iter().any(|why| message.contains(why)), "{message}");
        }
        assert!((0..400).fold(value, |all, _| all.math("exp")).fault().is_none());
    }

    #[test]
    fn shared_expressions_count_at_each_use() {
        let of = |first: &TeExpr, next: fn(TeExpr) -> TeExpr, n: u32| (0..n).fold(first.clone(), |all, _| next(all));
        let index = TeExpr::of_dim(Dim::Var(Sym { id: 0, dtype: DType::I64 }));
        let value = TeExpr::float(1.0, DType::F32).math("exp");
        let wide: [(&TeExpr, fn(TeExpr) -> TeExpr); 4] = [
            (&value, |all| &all * &all + 1.0),
            (&value, |all| all.math_with("pow", &[all.math("exp")])),
            (&value, |all| all.lt(&all).select(&all, 2.0)),
            (&index, |all| &all * &all + 1),
        ];
        for (first, next) in wide {
            let wide = of(first, next, 200);
            assert!(message(&wide).contains("element `T` has more than 50000 operations"), "{}", message(&wide));
            assert_eq!(message(&of(first, next, 6)), "");
        }
        let dim = (0..200).fold(Dim::Var(Sym { id: 0, dtype: DType::I64 }), |all, _| all.clone() * all + Dim::Int(1));
        assert!(message(&TeExpr::of_dim(dim).math("bitwise_not")).contains("operations"));
    }

    #[test]
    fn what_is_added_to_a_float_is_dropped_only_if_it_changes_no_zero() {
        let x = || TeExpr::float(1.0, DType::F32).math("exp");
        let stays = |e: TeExpr| e.size.depth > x().size.depth;
        assert!(stays(x() + 0.0) && stays(0.0 + x()) && stays(x() - -0.0));
        assert!(!stays(x() + -0.0) && !stays(-0.0 + x()) && !stays(x() - 0.0));
    }

    #[test]
    fn numbers_can_be_on_either_side_of_a_reference() {
        let x = TeExpr::float(1.0, DType::F32).math("exp");
        let pairs = [
            (1.5 + &x, 1.5 + x.clone()),
            (1.5 - &x, 1.5 - x.clone()),
            (1.5 * &x, 1.5 * x.clone()),
            (1.5 / &x, 1.5 / x.clone()),
            (2 * &x, 2 * x.clone()),
            (-&x, -x.clone()),
        ];
        assert!(pairs.iter().all(|(a, b)| same(a, b) && a.size.operations == 2));
    }

    #[test]
    fn only_integers_times_zero_are_zero() {
        let float = TeExpr::float(1.0, DType::F32).math("exp");
        assert!((float.clone() * 0.0).as_float().is_none() && (0.0 * float).as_float().is_none());
        let index = TeExpr::of_dim(Dim::Var(Sym { id: 0, dtype: DType::I64 }));
        let zero = TeExpr::int(0, DType::I64);
        assert_eq!([(index.clone() * &zero).as_int(), (zero * index).as_int()], [Some(0), Some(0)]);
    }
}
