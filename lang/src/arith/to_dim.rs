//! Converts TIR index expressions to dimensions, so that TIR and Relax share one simplifier.

use crate::ir::records::{MAX_DEPTH, kind, leaf, tykind};
use crate::ir::{Body, DType, Dim, DimExpr, Sym, Value};
use crate::scalar::PrimOp;
use std::sync::Arc;

/// The first number that denotes a node, not a symbolic variable: `FIRST_ATOM + position`.
pub const FIRST_ATOM: u32 = 1 << 31;

/// Converts a TIR expression to a dimension. Dimension leaves and arithmetic nodes are converted directly; loop variables and block
/// iterators become atoms; [`atom_of`] returns the node of an atom. Returns `None` if the expression contains anything else, such as a
/// load, or is nested more deeply than a dimension may be.
///
/// The result can be simplified, compared and bounded with [`crate::arith`] like any dimension. For deeper expressions, and for expressions
/// with loads, use an [`Analyzer`](crate::arith::Analyzer) directly.
pub fn index_to_dim(value: Value<'_>) -> Option<Dim> {
    opened(value, &|value| symbol_of(value))
}

/// Like [`index_to_dim`], but values other than integer arithmetic, such as loads, become atoms as well.
pub fn index_to_dim_of_atoms(value: Value<'_>) -> Option<Dim> {
    let atom = |value: Value<'_>| Sym { id: FIRST_ATOM | value.word(), dtype: dtype_of(value) };
    opened(value, &|value| Some(symbol_of(value).unwrap_or_else(|| atom(value))))
}

fn opened(value: Value<'_>, atom: &dyn Fn(Value<'_>) -> Option<Sym>) -> Option<Dim> {
    // A work list in post-order visits operands before their user, without recursion.
    enum Step<'a> {
        Enter(Value<'a>),
        Leave(Value<'a>),
    }
    let (mut work, mut done, mut depth) = (vec![Step::Enter(value)], Vec::new(), 0);
    while let Some(step) = work.pop() {
        match step {
            Step::Enter(value) if value.is_leaf() => {
                value.leaf().filter(|rec| rec.kind == leaf::PRIM)?;
                done.push(value.dim()?);
            }
            Step::Enter(value) if value.kind() == kind::ARITH && !is_of_floats(value) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return None;
                }
                work.push(Step::Leave(value));
                work.extend(value.operands().rev().map(Step::Enter));
            }
            Step::Enter(value) => done.push(Dim::Var(atom(value)?)),
            Step::Leave(value) => {
                depth -= 1;
                let op = PrimOp::of_code(u16::try_from(value.node()?.a).ok()?)?;
                let dtype = dtype_of(value);
                let last = done.pop()?;
                let expr = match op {
                    PrimOp::Not | PrimOp::Cast => DimExpr::Unary(op, dtype, last),
                    op if op.is_binary() => DimExpr::Binary(op, dtype, done.pop()?, last),
                    _ => return None,
                };
                done.push(Dim::Expr(Arc::new(expr)));
            }
        }
    }
    done.pop().filter(|_| done.is_empty())
}

/// Returns the node of an atom of [`index_to_dim`]; `None` for a symbolic variable.
pub fn atom_of(sym: Sym) -> Option<usize> {
    (sym.id >= FIRST_ATOM).then_some((sym.id & !FIRST_ATOM) as usize)
}

/// Returns a symbolic variable that occurs in no function, for use in a query. For example, it can stand for a number whose digits are
/// iterators. Use a different `n` for each variable in a query.
///
/// ```
/// use plugin_api::arith::unused_symbol;
/// use plugin_api::prelude::*;
///
/// let (row, column) = (unused_symbol(0, DType::I64), unused_symbol(1, DType::I64));
/// let mut analyzer = Analyzer::new();
/// analyzer.bind_range(column, &Dim::Int(0), &Dim::Int(8));
/// let position = Dim::Var(row) * 8 + Dim::Var(column);
/// assert_eq!(analyzer.prove_equal(&position.floor_div(8), &Dim::Var(row)), Some(true));
/// ```
pub fn unused_symbol(n: u16, dtype: DType) -> Sym {
    Sym { id: FIRST_ATOM - 1 - u32::from(n), dtype }
}

/// Returns the value of an atom of [`index_to_dim_of_atoms`] in a body; `None` for a symbolic variable.
pub fn value_of_atom(body: &Body, sym: Sym) -> Option<Value<'_>> {
    atom_of(sym).filter(|at| *at < body.len()).map(|at| body.value_at(at))
}

/// Returns the symbolic variable that the analyser uses for a loop variable, block iterator, parameter or other named scalar. Use it to bind facts
/// about that scalar. Returns `None` for anything else.
///
/// If shapes mention the variable, this is the symbolic variable of the shapes; otherwise it is an atom.
pub fn symbol_of(value: Value<'_>) -> Option<Sym> {
    if !is_variable(value) {
        return None;
    }
    match value.ty().prims().pop() {
        Some(Dim::Var(sym)) => Some(sym),
        _ => Some(Sym { id: FIRST_ATOM | value.word(), dtype: dtype_of(value) }),
    }
}

/// Returns true for a parameter, a loop variable, a block iterator, or another named scalar.
fn is_variable(value: Value<'_>) -> bool {
    let kinds = [kind::LOOP_VAR, kind::ITER_VAR, kind::PARAM, kind::VAR, kind::BIND];
    kinds.contains(&value.kind()) && value.ty().kind() != tykind::BUFFER
}

/// Returns true if an operand is a float. Nothing is known about the result, even if it is an integer.
fn is_of_floats(value: Value<'_>) -> bool {
    value.operands().any(|operand| operand.dim().map_or_else(|| operand.ty().dtype(), |dim| dim.dtype()).is_float())
}

#[doc(hidden)]
pub fn dtype_of(value: Value<'_>) -> DType {
    let dtype = value.ty().dtype();
    if dtype.is_known() { dtype } else { DType::I64 }
}
