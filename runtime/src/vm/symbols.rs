//! Symbolic variables, and the evaluation of dimensions that mention them.

use super::failure::Cause;
use crate::bind::computed;
use crate::fault::FaultKind;
use passhost_lang::ir::constant::{Element, Number};
use passhost_lang::ir::{Body, DType, Dim};
use passhost_lang::ir::{DimExpr, Sym};
use passhost_lang::scalar::PrimOp;
use std::collections::BTreeMap;

/// Values of symbolic variables, by their numbers in the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbols(BTreeMap<u32, i64>);

impl Symbols {
    pub(super) fn of(values: BTreeMap<u32, i64>) -> Symbols {
        Symbols(values)
    }

    pub(super) fn get(&self, sym: Sym) -> Option<i64> {
        self.0.get(&sym.id).copied()
    }

    pub(super) fn set(&mut self, sym: Sym, value: i64) {
        self.0.insert(sym.id, value);
    }

    /// Evaluates a dimension.
    pub(super) fn number(&self, dim: &Dim, body: &Body) -> Result<Number, Cause> {
        match dim {
            Dim::Int(value) => Ok(Number::Int(*value)),
            Dim::Var(sym) => self
                .get(*sym)
                .map(Number::Int)
                .ok_or_else(|| Cause::Unbound { name: body.sym_name(sym.id).unwrap_or("_").to_string() }),
            Dim::Expr(expr) => self.compound(expr, body),
        }
    }

    /// Evaluates a dimension that is an integer.
    pub(super) fn extent(&self, dim: &Dim, body: &Body) -> Result<i64, Cause> {
        integer(self.number(dim, body)?).ok_or_else(|| Cause::NoExtent { why: "it is not an integer".to_string() })
    }

    /// Evaluates dimensions.
    pub(super) fn extents(&self, dims: &[Dim], body: &Body) -> Result<Vec<i64>, Cause> {
        dims.iter().map(|dim| self.extent(dim, body)).collect()
    }

    /// Evaluates a dimension, and returns the result as a constant dimension.
    pub(super) fn constant(&self, dim: &Dim, body: &Body) -> Result<Dim, Cause> {
        Ok(match self.number(dim, body)? {
            Number::Float(value) => Dim::float(value, dim.dtype()),
            number => Dim::int(integer(number).unwrap_or(0), dim.dtype()),
        })
    }

    fn compound(&self, expr: &DimExpr, body: &Body) -> Result<Number, Cause> {
        match expr {
            DimExpr::Int(value, dtype) => Ok(typed(Number::Int(*value), *dtype)),
            DimExpr::Float(bits, _) => Ok(Number::Float(f64::from_bits(*bits))),
            DimExpr::Unary(PrimOp::Not, _, a) => Ok(Number::Bool(!bool::of(self.number(a, body)?))),
            DimExpr::Unary(_, dtype, a) => Ok(typed(self.number(a, body)?, *dtype)),
            DimExpr::Binary(PrimOp::If, _, cond, both) => {
                let Some((then, other)) = both.choice() else { return self.number(both, body) };
                self.number(if bool::of(self.number(cond, body)?) { then } else { other }, body)
            }
            DimExpr::Binary(op, dtype, a, b) => {
                let (a, b) = (self.number(a, body)?, self.number(b, body)?);
                Ok(typed(operation(*op, a, b)?, *dtype))
            }
        }
    }
}

fn integer(number: Number) -> Option<i64> {
    match number {
        Number::Bool(value) => Some(value.into()),
        Number::Int(value) => Some(value),
        Number::UInt(value) => i64::try_from(value).ok(),
        Number::Float(_) => None,
    }
}

/// Converts a number to a data type.
fn typed(number: Number, dtype: DType) -> Number {
    if dtype.is_float() {
        Number::Float(f64::of(number))
    } else if dtype == DType::BOOL {
        Number::Bool(bool::of(number))
    } else {
        Number::Int(i64::of(number))
    }
}

fn operation(op: PrimOp, a: Number, b: Number) -> Result<Number, Cause> {
    let (Some(x), Some(y)) = (integer(a), integer(b)) else { return of_floats(op, f64::of(a), f64::of(b)) };
    let divides = matches!(op, PrimOp::FloorDiv | PrimOp::FloorMod | PrimOp::TruncDiv | PrimOp::TruncMod | PrimOp::Div);
    if divides && y == 0 {
        return Err(FaultKind::DivisionByZero.into());
    }
    computed(op, x, y)
        .map(Number::Int)
        .ok_or_else(|| Cause::NoExtent { why: format!("it does not fit in 64 bits ({x} and {y})") })
}

fn of_floats(op: PrimOp, x: f64, y: f64) -> Result<Number, Cause> {
    Ok(match op {
        PrimOp::Add => Number::Float(x + y),
        PrimOp::Sub => Number::Float(x - y),
        PrimOp::Mul => Number::Float(x * y),
        PrimOp::Div => Number::Float(x / y),
        PrimOp::Min => Number::Float(x.min(y)),
        PrimOp::Max => Number::Float(x.max(y)),
        PrimOp::Eq => Number::Bool(x == y),
        PrimOp::Ne => Number::Bool(x != y),
        PrimOp::Lt => Number::Bool(x < y),
        PrimOp::Le => Number::Bool(x <= y),
        PrimOp::Gt => Number::Bool(x > y),
        PrimOp::Ge => Number::Bool(x >= y),
        _ => return Err(Cause::NoExtent { why: "it mixes floats and an operation on integers".to_string() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::ir::{AttrsId, BodyBuilder, Type};

    fn with_n(n: i64) -> (Body, Dim, Symbols) {
        let mut b = BodyBuilder::new();
        let sym = b.sym("n", DType::I64);
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::shape(vec![Dim::Var(sym)]));
        let x = b.param("x", ty);
        b.end_function(x, ty);
        let mut symbols = Symbols::default();
        symbols.set(sym, n);
        (b.finish().expect("a body"), Dim::Var(sym), symbols)
    }

    #[test]
    fn dimensions_have_the_values_of_their_variables() {
        let (body, n, symbols) = with_n(7);
        for (dim, expected) in [
            (n.clone() * 2 + 1, 15),
            ((n.clone() - 9).floor_div(2), -1),
            ((n.clone() - 8).floor_mod(3), 2),
            (Dim::if_then_else(Dim::binary(PrimOp::Lt, n.clone(), Dim::Int(7)), Dim::Int(1), n.clone()), 7),
        ] {
            assert_eq!(symbols.extent(&dim, &body).expect("a value"), expected, "{dim:?}");
        }
        let error = Symbols::default().extent(&n, &body).expect_err("no value");
        assert_eq!(error.to_string(), "the symbolic variable `n` is undefined here");
        let zero = Dim::binary(PrimOp::FloorDiv, n.clone(), Dim::Int(0));
        assert_eq!(symbols.extent(&zero, &body), Err(FaultKind::DivisionByZero.into()));
        let (body, n, symbols) = with_n(i64::MAX);
        let large = Dim::binary(PrimOp::Mul, n, Dim::Int(2));
        assert!(matches!(symbols.extent(&large, &body), Err(Cause::NoExtent { .. })));
    }

    /// The branch that is not taken may contain a division by zero.
    #[test]
    fn only_one_branch_is_evaluated() {
        let (body, n, symbols) = with_n(0);
        let quotient = Dim::binary(PrimOp::FloorDiv, Dim::Int(4), n.clone());
        let dim = Dim::if_then_else(Dim::binary(PrimOp::Eq, n, Dim::Int(0)), Dim::Int(9), quotient);
        assert_eq!(symbols.extent(&dim, &body).expect("a value"), 9);
    }
}
