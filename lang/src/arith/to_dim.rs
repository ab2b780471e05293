//! From TIR index expressions to dimensions, so that one simplifier serves both.

use crate::ir::records::{MAX_DEPTH, kind, leaf, prim, tykind};
use crate::ir::{Body, DType, Dim, DimExpr, Sym, Value};
use std::sync::Arc;

/// Numbers from here on are not those of symbolic variables but of nodes: `FIRST_ATOM + position`.
pub const FIRST_ATOM: u32 = 1 << 31;

/// A value of a TIR expression as a dimension: leaves of dimensions and arithmetic nodes become themselves, loop and
/// iteration variables become atoms that [`atom_of`] tells back. `None` if something else is in it, such as a load, and
/// for what is nested deeper than a dimension may be.
///
/// What comes out can be simplified, compared and bounded with [`crate::arith`] like any dimension. Deeper expressions,
/// and those with loads in them, an [`Analyzer`](crate::arith::Analyzer) takes as they are.
pub fn index_to_dim(value: Value<'_>) -> Option<Dim> {
    opened(value, &|value| symbol_of(value))
}

/// As [`index_to_dim`], and what is no arithmetic of integers, such as a load, becomes an atom, too.
pub fn index_to_dim_of_atoms(value: Value<'_>) -> Option<Dim> {
    let atom = |value: Value<'_>| Sym { id: FIRST_ATOM | value.word(), dtype: dtype_of(value) };
    opened(value, &|value| Some(symbol_of(value).unwrap_or_else(|| atom(value))))
}

fn opened(value: Value<'_>, atom: &dyn Fn(Value<'_>) -> Option<Sym>) -> Option<Dim> {
    // Operands come before their user, so a stack of values in post-order needs no recursion on depth.
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
                let op = u16::try_from(value.node()?.a).ok()?;
                let dtype = dtype_of(value);
                let last = done.pop()?;
                let expr = match op {
                    prim::NOT | prim::CAST => DimExpr::Unary(op, dtype, last),
                    prim::ADD..=prim::BITXOR => DimExpr::Binary(op, dtype, done.pop()?, last),
                    _ => return None,
                };
                done.push(Dim::Expr(Arc::new(expr)));
            }
        }
    }
    done.pop().filter(|_| done.is_empty())
}

/// The node of an atom of [`index_to_dim`]; `None` for a symbolic variable.
pub fn atom_of(sym: Sym) -> Option<usize> {
    (sym.id >= FIRST_ATOM).then_some((sym.id & !FIRST_ATOM) as usize)
}

/// A symbolic variable that no function has, for a question to an analyser: as for the number of which several iterators are the
/// digits. Several of one question differ in `n`.
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

/// The value of an atom of [`index_to_dim_of_atoms`] in a body; `None` for a symbolic variable.
pub fn value_of_atom(body: &Body, sym: Sym) -> Option<Value<'_>> {
    atom_of(sym).filter(|at| *at < body.len()).map(|at| body.value_at(at))
}

/// The symbolic variable that a loop variable, block iterator, parameter or other scalar with a name is to the
/// analyser: what to bind it by. `None` for anything else.
///
/// Where shapes mention the variable too, both mean the same symbolic variable; otherwise it is an atom.
pub fn symbol_of(value: Value<'_>) -> Option<Sym> {
    if !is_variable(value) {
        return None;
    }
    match value.ty().prims().pop() {
        Some(Dim::Var(sym)) => Some(sym),
        _ => Some(Sym { id: FIRST_ATOM | value.word(), dtype: dtype_of(value) }),
    }
}

/// A parameter, loop or block iterator, or another scalar with a name.
fn is_variable(value: Value<'_>) -> bool {
    let kinds = [kind::LOOP_VAR, kind::ITER_VAR, kind::PARAM, kind::VAR, kind::BIND];
    kinds.contains(&value.kind()) && value.ty().kind() != tykind::BUFFER
}

/// Whether an operand is a float. Nothing is known of what comes out, not even of a number.
fn is_of_floats(value: Value<'_>) -> bool {
    value.operands().any(|operand| operand.dim().map_or_else(|| operand.ty().dtype(), |dim| dim.dtype()).is_float())
}

#[doc(hidden)]
pub fn dtype_of(value: Value<'_>) -> DType {
    let dtype = value.ty().dtype();
    if dtype.is_known() { dtype } else { DType::I64 }
}
