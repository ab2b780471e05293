//! Arithmetic on dimensions and indices: one analyser for Relax shapes and TIR index expressions.
//!
//! [`simplify`] and [`prove_equal`] use no facts about the variables; an [`Analyzer`] uses their bindings and assumed conditions. Both
//! convert an expression to a sum of products of atoms with integer coefficients. An atom is a variable or an operation that does not
//! distribute (`//`, `%`, `min`, `max`, a load, …) over simplified operands. Integers that do not fit their type, and sums of more than 512
//! terms, are left as written.
//!
//! `int32` and `int64` are integers that do not overflow, as in TIR, and no divisor is 0. Arithmetic of other types is kept, with simplified
//! operands.
//!
//! | file | what |
//! |---|---|
//! | `analyzer` | the API for pass authors: bindings, assumptions, queries |
//! | `index` | expressions of function bodies |
//! | `form` | simplified expressions in TVM's form; conditions in conjunctive normal form |
//! | `range` | the bounds of an expression over ranges of its variables; linear forms |
//! | `store`, `facts` | expressions and assumptions while they are analysed |
//! | `simplify` | the traversal that applies the rules |
//! | `sum`, `rules`, `split`, `order` | rules for sums; for division; for `x // c` together with `x % c`; for `min`, `max`, comparisons, choices |
//! | `bounds`, `modular`, `fits` | constant bounds; remainders; sums that do not overflow |

mod analyzer;
mod bounds;
mod facts;
mod fits;
mod form;
mod index;
mod modular;
mod order;
mod range;
mod rules;
mod simplify;
mod split;
mod store;
mod sum;
mod to_dim;

pub use analyzer::Analyzer;
pub use bounds::Bounds;
pub use form::Piece;
pub use modular::ModularSet;
pub use range::IntSet;
pub use to_dim::{
    FIRST_ATOM, atom_of, dtype_of, index_to_dim, index_to_dim_of_atoms, symbol_of, unused_symbol, value_of_atom,
};

use crate::ir::{DType, Dim, DimExpr, Sym};
use crate::scalar::PrimOp;
use std::collections::HashMap;
use std::sync::Arc;

/// Evaluates an operation on integers of a data type. Returns `None` if the result is undefined, or if a `uint64` operand exceeds the
/// greatest `i64`, because it would appear negative.
pub fn fold_as(op: PrimOp, operands: DType, a: i64, b: i64) -> Option<i64> {
    match operands {
        // Numbers above 2^63 appear negative, so results of operations on them, and wrapped results, would be wrong.
        DType::U64 if a < 0 || b < 0 => None,
        DType::U64 => op.fold(a, b).filter(|value| *value >= 0),
        _ => op.fold(a, b),
    }
}

/// Returns the canonical form of a dimension: equal sums of products have the same form. Assumes nothing about the variables; use an [`Analyzer`] to
/// add assumptions. Takes time proportional to the size of the dimension, with shared parts counted once.
///
/// ```
/// use plugin_api::arith::simplify;
/// use plugin_api::scalar::PrimOp;
/// use plugin_api::prelude::*;
///
/// let n = Dim::Var(Sym { id: 0, dtype: DType::I64 });
/// let more = Dim::binary(PrimOp::Add, n.clone(), Dim::Int(1));
/// assert_eq!(simplify(&Dim::binary(PrimOp::Sub, more, Dim::Int(1))), n);
/// ```
pub fn simplify(dim: &Dim) -> Dim {
    match dim {
        Dim::Int(_) | Dim::Var(_) => dim.clone(),
        Dim::Expr(_) => Analyzer::new().simplify(dim),
    }
}

/// Returns `Some(true)` if two dimensions are equal for all values of their variables, `Some(false)` if they are equal for no values, and
/// `None` if neither can be proved.
pub fn prove_equal(a: &Dim, b: &Dim) -> Option<bool> {
    if a == b {
        return Some(true);
    }
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return Some(x == y);
    }
    Analyzer::new().prove_equal(a, b)
}

/// Returns the product of dimensions, simplified; 1 if there are none.
pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
    let mut whole = Some(1i64);
    let mut out: Option<Dim> = None;
    for dim in dims {
        match dim.as_int() {
            Some(v) => whole = whole.and_then(|whole| whole.checked_mul(v)),
            None => {
                out = Some(match out {
                    None => dim.clone(),
                    Some(out) => Dim::binary(PrimOp::Mul, out, dim.clone()),
                });
            }
        }
    }
    match (out, whole) {
        (None, Some(whole)) => Dim::Int(whole),
        (Some(out), Some(1)) => simplify(&out),
        (Some(out), Some(whole)) => simplify(&Dim::binary(PrimOp::Mul, out, Dim::Int(whole))),
        // A product that does not fit in 64 bits exceeds the number of elements of any tensor.
        (_, None) => Dim::Int(i64::MAX),
    }
}

/// Converts both operands to the wider of their data types.
pub(crate) fn of_one_type(a: Dim, b: Dim) -> (Dim, Dim) {
    let (x, y) = (a.dtype(), b.dtype());
    match x.bits().cmp(&y.bits()) {
        std::cmp::Ordering::Less => (cast(a, y), b),
        std::cmp::Ordering::Greater => (a, cast(b, x)),
        std::cmp::Ordering::Equal => (a, b),
    }
}

/// Converts an integer expression to another data type.
pub fn cast(dim: Dim, dtype: DType) -> Dim {
    match dim.as_int() {
        _ if dim.dtype() == dtype => dim,
        Some(number) => Dim::int(number, dtype),
        None => Dim::Expr(Arc::new(DimExpr::Unary(PrimOp::Cast, dtype, dim))),
    }
}

/// Returns an operation on two dimensions, simplified.
pub fn apply(op: PrimOp, a: &Dim, b: &Dim) -> Dim {
    match (a.as_int(), b.as_int()) {
        (Some(x), Some(y)) if let Some(value) = op.fold(x, y) => Dim::Int(value),
        _ => simplify(&Dim::binary(op, a.clone(), b.clone())),
    }
}

/// Replaces variables in a dimension; variables for which `with` returns `None` are kept.
pub fn substitute(dim: &Dim, with: &impl Fn(Sym) -> Option<Dim>) -> Dim {
    let expr = match dim {
        Dim::Int(_) => return dim.clone(),
        Dim::Var(sym) => return with(*sym).unwrap_or_else(|| dim.clone()),
        Dim::Expr(expr) => expr,
    };
    // Dimensions may be nested more deeply than the stack allows, so expressions are built from a work list, operands first.
    enum Todo<'d> {
        Operand(&'d Dim),
        Make(&'d Arc<DimExpr>),
    }
    fn operands<'d>(expr: &'d Arc<DimExpr>, todo: &mut Vec<Todo<'d>>) {
        todo.push(Todo::Make(expr));
        match &**expr {
            DimExpr::Int(..) | DimExpr::Float(..) => {}
            DimExpr::Unary(_, _, a) => todo.push(Todo::Operand(a)),
            DimExpr::Binary(_, _, a, b) => todo.extend([Todo::Operand(b), Todo::Operand(a)]),
        }
    }
    let (mut todo, mut made) = (Vec::new(), Vec::new());
    // Shared parts are built once.
    let mut shared: HashMap<*const DimExpr, Dim> = HashMap::new();
    operands(expr, &mut todo);
    while let Some(next) = todo.pop() {
        let expr = match next {
            Todo::Operand(Dim::Expr(inner)) => {
                match shared.get(&Arc::as_ptr(inner)) {
                    Some(known) => made.push(known.clone()),
                    None => operands(inner, &mut todo),
                }
                continue;
            }
            Todo::Operand(leaf) => {
                made.push(substitute(leaf, with));
                continue;
            }
            Todo::Make(expr) => expr,
        };
        let mut operand = || made.pop().unwrap_or(Dim::Int(0));
        let new = match **expr {
            DimExpr::Int(..) | DimExpr::Float(..) => Dim::Expr(Arc::clone(expr)),
            DimExpr::Unary(op, t, _) => Dim::Expr(Arc::new(DimExpr::Unary(op, t, operand()))),
            DimExpr::Binary(op, t, ..) => {
                let (b, a) = (operand(), operand());
                Dim::Expr(Arc::new(DimExpr::Binary(op, t, a, b)))
            }
        };
        if Arc::strong_count(expr) > 1 {
            shared.insert(Arc::as_ptr(expr), new.clone());
        }
        made.push(new);
    }
    made.pop().unwrap_or_else(|| dim.clone())
}

#[cfg(test)]
mod tests;
