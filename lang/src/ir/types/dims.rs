//! Arithmetic, comparison, hashing and formatting of dimensions. Dimensions may be nested too deeply for recursion, and may share operands
//! so heavily that visiting each use would take too long.

use crate::ir::types::{DType, Dim, DimExpr, MAX_SIZE};
use crate::scalar::PrimOp;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

/// An expression without its operands.
#[derive(PartialEq, Eq, Hash)]
enum Head {
    Int(i64, DType),
    Float(u64, DType),
    Binary(PrimOp, DType),
    Unary(PrimOp, DType),
}

impl DimExpr {
    fn head(&self) -> Head {
        match *self {
            DimExpr::Int(value, dtype) => Head::Int(value, dtype),
            DimExpr::Float(bits, dtype) => Head::Float(bits, dtype),
            DimExpr::Binary(op, dtype, ..) => Head::Binary(op, dtype),
            DimExpr::Unary(op, dtype, _) => Head::Unary(op, dtype),
        }
    }

    fn operands(&self) -> [Option<&Dim>; 2] {
        match self {
            DimExpr::Int(..) | DimExpr::Float(..) => [None, None],
            DimExpr::Binary(_, _, a, b) => [Some(a), Some(b)],
            DimExpr::Unary(_, _, a) => [Some(a), None],
        }
    }
}

impl Dim {
    /// Calls `f` with this dimension and all its parts, from left to right, each before its operands. After [`MAX_SIZE`] calls, shared
    /// operands are visited only once.
    pub(super) fn each_part<'d>(&'d self, mut f: impl FnMut(&'d Dim)) {
        let mut seen = Seen::default();
        let _ = self.walk(|dim| {
            f(dim);
            match dim {
                Dim::Expr(expr) => ControlFlow::Continue(seen.is_new(Arc::as_ptr(expr))),
                _ => ControlFlow::Continue(false),
            }
        });
    }

    /// Calls `f` with only the first [`MAX_SIZE`] parts. Equal dimensions have the same first parts, regardless of sharing.
    fn each_of_the_first<'d>(&'d self, mut f: impl FnMut(&'d Dim)) {
        let mut left = MAX_SIZE;
        let _ = self.walk(|dim| {
            f(dim);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(true) }
        });
    }

    /// Calls `f` with each part; `f` returns true to continue with its operands.
    fn walk<'d>(&'d self, mut f: impl FnMut(&'d Dim) -> ControlFlow<(), bool>) -> ControlFlow<()> {
        let mut rest = Vec::new();
        let mut next = Some(self);
        while let Some(dim) = next.or_else(|| rest.pop()) {
            let deeper = f(dim)?;
            next = None;
            if let Dim::Expr(expr) = dim
                && deeper
            {
                let [first, second] = expr.operands();
                rest.extend(second);
                next = first;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The set of visited parts. Stays empty while revisiting parts is cheaper, because most dimensions are small.
struct Seen<T> {
    left: u32,
    seen: HashSet<T>,
}

impl<T> Default for Seen<T> {
    fn default() -> Seen<T> {
        Seen { left: MAX_SIZE, seen: HashSet::new() }
    }
}

impl<T: Eq + Hash> Seen<T> {
    fn is_new(&mut self, what: T) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0 || self.seen.insert(what)
    }
}

impl PartialEq for Dim {
    fn eq(&self, other: &Dim) -> bool {
        let mut seen = Seen::default();
        let mut rest = Vec::new();
        let mut next = Some((self, other));
        while let Some((a, b)) = next.or_else(|| rest.pop()) {
            next = None;
            match (a, b) {
                (Dim::Int(a), Dim::Int(b)) if a == b => {}
                (Dim::Var(a), Dim::Var(b)) if a == b => {}
                (Dim::Expr(a), Dim::Expr(b)) if Arc::ptr_eq(a, b) => {}
                (Dim::Expr(a), Dim::Expr(b)) if a.head() == b.head() => {
                    if seen.is_new((Arc::as_ptr(a), Arc::as_ptr(b))) {
                        let ([a, c], [b, d]) = (a.operands(), b.operands());
                        rest.extend(c.zip(d));
                        next = a.zip(b);
                    }
                }
                _ => return false,
            }
        }
        true
    }
}

impl Eq for Dim {}

impl Hash for Dim {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.each_of_the_first(|part| {
            std::mem::discriminant(part).hash(state);
            match part {
                Dim::Int(value) => value.hash(state),
                Dim::Var(sym) => sym.hash(state),
                Dim::Expr(expr) => expr.head().hash(state),
            }
        });
    }
}

impl PartialEq for DimExpr {
    fn eq(&self, other: &DimExpr) -> bool {
        self.head() == other.head() && self.operands() == other.operands()
    }
}

impl Eq for DimExpr {}

impl Hash for DimExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.head().hash(state);
        self.operands().iter().flatten().for_each(|operand| operand.hash(state));
    }
}

impl Dim {
    /// Divides and rounds down. As in the operators `+`, `-` and `*`, operations on numbers are evaluated; `n + 0` and `n * 1` become `n`,
    /// as in a parsed module; and a number takes the data type of the other operand.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::BodyBuilder;
    ///
    /// let mut b = BodyBuilder::new();
    /// let n = Dim::Var(b.sym("n", DType::I64));
    /// let padded = (n.clone() + 7).floor_div(8) * 8;
    /// assert_eq!(padded - 0, (n.clone() + 7).floor_div(8) * 8 * 1);
    /// assert_eq!(Dim::Int(2) * 3 + 1, Dim::Int(7));
    /// assert_eq!(Dim::Int(-7).floor_div(2), Dim::Int(-4));
    /// ```
    pub fn floor_div(self, other: impl Into<Dim>) -> Dim {
        computed(PrimOp::FloorDiv, self, other.into())
    }

    /// Returns the remainder of [`Dim::floor_div`].
    pub fn floor_mod(self, other: impl Into<Dim>) -> Dim {
        computed(PrimOp::FloorMod, self, other.into())
    }
}

macro_rules! arithmetic {
    ($($Trait:ident $method:ident $op:ident;)*) => {$(
        impl<D: Into<Dim>> std::ops::$Trait<D> for Dim {
            type Output = Dim;

            fn $method(self, other: D) -> Dim {
                computed(PrimOp::$op, self, other.into())
            }
        }
    )*};
}

arithmetic! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
}

/// Returns `a op b`, evaluated if possible. Results that do not fit in 64 bits, and divisions by zero, remain expressions.
fn computed(op: PrimOp, a: Dim, b: Dim) -> Dim {
    if let (Dim::Int(x), Dim::Int(y)) = (&a, &b)
        && let Some(value) = op.fold(*x, *y)
    {
        return Dim::Int(value);
    }
    match (op, a.as_int(), b.as_int()) {
        (PrimOp::Add, Some(0), _) | (PrimOp::Mul, Some(1), _) => b,
        (PrimOp::Add | PrimOp::Sub, _, Some(0)) | (PrimOp::Mul | PrimOp::FloorDiv, _, Some(1)) => a,
        _ => {
            let typed = |number: &Dim, other: &Dim| match number {
                Dim::Int(value) => Dim::int(*value, other.dtype()),
                other => other.clone(),
            };
            let (x, y) = (typed(&a, &b), typed(&b, &a));
            Dim::binary(op, x, y)
        }
    }
}

/// A part of the output that has not been written yet.
enum Text<'d> {
    Dim(&'d Dim),
    Operands(&'d DimExpr),
    Mark(&'static str),
}

fn write(mut rest: Vec<Text<'_>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut left = MAX_SIZE;
    while let Some(text) = rest.pop() {
        left -= 1;
        if left == 0 {
            return f.write_str("...");
        }
        match text {
            Text::Mark(mark) => f.write_str(mark)?,
            Text::Dim(Dim::Int(value)) => write!(f, "Int({value})")?,
            Text::Dim(Dim::Var(sym)) => write!(f, "Var({sym:?})")?,
            Text::Dim(Dim::Expr(expr)) => {
                f.write_str("Expr(")?;
                rest.extend([Text::Mark(")"), Text::Operands(expr)]);
            }
            Text::Operands(expr) => {
                match expr.head() {
                    Head::Int(value, dtype) => write!(f, "Int({value}, {dtype:?}")?,
                    Head::Float(bits, dtype) => write!(f, "Float({bits}, {dtype:?}")?,
                    Head::Binary(op, dtype) => write!(f, "Binary({op:?}, {dtype:?}")?,
                    Head::Unary(op, dtype) => write!(f, "Unary({op:?}, {dtype:?}")?,
                }
                rest.push(Text::Mark(")"));
                let operands = expr.operands().into_iter().rev().flatten();
                rest.extend(operands.flat_map(|operand| [Text::Dim(operand), Text::Mark(", ")]));
            }
        }
    }
    Ok(())
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(vec![Text::Dim(self)], f)
    }
}

impl fmt::Debug for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(vec![Text::Operands(self)], f)
    }
}
