//! Evaluates what Python evaluates before TVM reads it: numbers and Booleans.

use crate::read::arguments::int;
use ruff_python_ast::{BoolOp, CmpOp, Expr, Operator, UnaryOp};

/// A number that Python computes before it reaches TVM.
#[derive(Clone, Copy)]
pub(in crate::read) enum PythonNumber {
    Int(i64),
    Float(f64),
}

/// Returns the number in `2 ** 3`, `~3`, `int(3)`, `float("inf")`, `min(3, 4)`; `None` for expressions
/// evaluated by TVM.
pub(in crate::read) fn python_number(expr: &Expr) -> Option<PythonNumber> {
    match expr {
        Expr::UnaryOp(unary) if unary.op == UnaryOp::Invert => {
            int(&unary.operand).map(|value| PythonNumber::Int(!value))
        }
        Expr::BinOp(power) if power.op == Operator::Pow => {
            let (base, exponent) = (int(&power.left)?, u32::try_from(int(&power.right)?).ok()?);
            base.checked_pow(exponent).map(PythonNumber::Int)
        }
        Expr::Call(call) if call.arguments.keywords.is_empty() => {
            let Expr::Name(function) = &*call.func else { return None };
            let numbers = || call.arguments.args.iter().map(int).collect::<Option<Vec<i64>>>();
            match (function.id.as_str(), &*call.arguments.args) {
                ("float", [Expr::StringLiteral(text)]) => text.value.to_str().parse().ok().map(PythonNumber::Float),
                ("float", [value]) => int(value).map(|value| PythonNumber::Float(value as f64)),
                ("int", [value]) => int(value).map(PythonNumber::Int),
                ("min", [_, _, ..]) => numbers()?.into_iter().min().map(PythonNumber::Int),
                ("max", [_, _, ..]) => numbers()?.into_iter().max().map(PythonNumber::Int),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the integer that Python computes from integers: `128 * 2`, `1 << 3`.
pub(in crate::read) fn python_int(expr: &Expr) -> Option<i64> {
    let Expr::BinOp(binary) = expr else {
        return match python_number(expr) {
            Some(PythonNumber::Int(value)) => Some(value),
            Some(PythonNumber::Float(_)) => None,
            None => int(expr),
        };
    };
    let (a, b) = (python_int(&binary.left)?, python_int(&binary.right)?);
    match binary.op {
        Operator::Add => a.checked_add(b),
        Operator::Sub => a.checked_sub(b),
        Operator::Mult => a.checked_mul(b),
        Operator::FloorDiv if b > 0 => a.checked_div_euclid(b),
        Operator::Mod if b > 0 => a.checked_rem_euclid(b),
        Operator::LShift => u32::try_from(b).ok().filter(|b| *b < 63).and_then(|b| a.checked_mul(1 << b)),
        Operator::RShift => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)),
        Operator::Pow => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        _ => None,
    }
}

/// Returns the value of a condition that Python evaluates before it reaches TVM: `True`, `not False`, `1 < 2`.
pub(in crate::read) fn python_truth(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::BooleanLiteral(value) => Some(value.value),
        Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => python_truth(&unary.operand).map(|value| !value),
        Expr::Compare(compare) => {
            let mut left = int(&compare.left)?;
            let mut holds = true;
            for (op, right) in compare.ops.iter().zip(&compare.comparators) {
                let right = int(right)?;
                holds &= match op {
                    CmpOp::Eq => left == right,
                    CmpOp::NotEq => left != right,
                    CmpOp::Lt => left < right,
                    CmpOp::LtE => left <= right,
                    CmpOp::Gt => left > right,
                    CmpOp::GtE => left >= right,
                    _ => return None,
                };
                left = right;
            }
            Some(holds)
        }
        Expr::BoolOp(logic) => {
            let values: Option<Vec<bool>> = logic.values.iter().map(python_truth).collect();
            let values = values?;
            Some(if logic.op == BoolOp::And { values.iter().all(|v| *v) } else { values.iter().any(|v| *v) })
        }
        _ => None,
    }
}
