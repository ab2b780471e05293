//! Reads Python operators on tensors: `x + y` calls `relax.add`, and `x.astype("float16")` calls `relax.astype`.

use super::FnReader;
use crate::read::arguments::{accept, dtype_of, keyword};
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, path_after, span};
use passhost_lang::ir::{Attr, AttrsId, Type, TypeId, V};
use passhost_lang::typing::operator_checks::add_defaults;
use ruff_python_ast::{CmpOp, Expr, ExprCall, Operator, UnaryOp};
use std::ops::Range;

impl<'a> FnReader<'a> {
    /// Returns true if an expression consists only of scalars, and is therefore a scalar, not an operator call.
    pub(crate) fn is_scalar(&self, expr: &Expr) -> bool {
        match expr {
            Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) => true,
            Expr::Name(name) => match self.locals.get(name.id.as_str()) {
                Some(local) => matches!(self.b.type_owned(self.b.type_of(local.v)), Type::Prim { .. }),
                None => true,
            },
            Expr::BinOp(binary) => self.is_scalar(&binary.left) && self.is_scalar(&binary.right),
            Expr::UnaryOp(unary) => self.is_scalar(&unary.operand),
            Expr::BoolOp(logic) => logic.values.iter().all(|value| self.is_scalar(value)),
            Expr::Compare(compare) => {
                self.is_scalar(&compare.left) && compare.comparators.iter().all(|value| self.is_scalar(value))
            }
            Expr::Call(call) => path_after(self.scope.text, &call.func, "T").is_some(),
            _ => false,
        }
    }

    /// Reads a Python operator as a call of its Relax operator.
    pub(crate) fn python_operator(&mut self, expr: &'a Expr) -> Read<V> {
        let (name, operands) = match expr {
            Expr::BinOp(binary) => (binary_name(binary.op), vec![&*binary.left, &*binary.right]),
            Expr::Compare(compare) => match (&*compare.ops, &*compare.comparators) {
                ([op], [right]) => (compare_name(*op), vec![&*compare.left, right]),
                _ => (None, Vec::new()),
            },
            Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => (Some("negative"), vec![&*unary.operand]),
            _ => (None, Vec::new()),
        };
        let Some(name) = name else {
            let message = "this Python operator is not supported for tensors";
            let help =
                "call a Relax operator: R.equal(x, y), R.not_equal(x, y), R.logical_and(x, y), R.bitwise_and(x, y)";
            return Err(Diagnostic::new(span(expr), message).help(help));
        };
        let mut values = Vec::with_capacity(2);
        for operand in operands {
            if operand.is_number_literal_expr() || operand.is_boolean_literal_expr() {
                let number = self.scope.text.get(span(operand)).unwrap_or("1");
                return Err(Diagnostic::new(span(operand), "the data type of a number used with a tensor is unknown")
                    .help(format!("write it as a constant: R.const({number}, \"float32\")")));
            }
            let v = self.expr(operand)?;
            if values.is_empty() {
                self.must_be_tensor(v, operand)?;
            }
            values.push(v);
        }
        self.apply(name, &values, Vec::new(), span(expr))
    }

    /// Reads `x.astype("float16")`.
    pub(crate) fn astype(&mut self, value: &'a Expr, call: &'a ExprCall) -> Read<V> {
        const USAGE: &str = "x.astype(\"float16\")";
        accept(call, 1, &["dtype"], USAGE)?;
        let dtype = call.arguments.args.first().or_else(|| keyword(call, "dtype"));
        let dtype = dtype.ok_or_else(|| Diagnostic::new(span(call), "expected a data type").help(USAGE))?;
        let dtype = Attr::Str(dtype_of(dtype)?.to_string());
        let v = self.expr(value)?;
        self.must_be_tensor(v, value)?;
        self.apply("astype", &[v], vec![("dtype", dtype)], span(call))
    }

    /// Checks that the first operand is a tensor. Results of calls are checked by the operator itself.
    fn must_be_tensor(&self, v: V, at: &Expr) -> Read<()> {
        let ty = self.b.type_owned(self.b.type_of(v));
        if matches!(ty, Type::Tensor(_)) || at.is_call_expr() && !self.is_bound(v) {
            return Ok(());
        }
        let message = format!("expected a tensor, found a value of type {}", crate::print::type_text(&ty));
        Err(Diagnostic::new(span(at), message).help("Python operators work on scalars or tensors"))
    }

    /// Builds a call of an operator that is not named in the source.
    fn apply(&mut self, name: &'static str, values: &[V], attrs: Vec<(&str, Attr)>, at: Range<usize>) -> Read<V> {
        let Some((info, callee)) = self.operator_info(name) else {
            return Ok(self.kept(&format!("relax.{name}"), at, values, attrs));
        };
        let mut entries = attrs;
        if let Some(missing) = add_defaults(info, &mut entries) {
            return Err(Diagnostic::new(at, format!("{} needs the attribute `{}`", info.name, missing.name)));
        }
        let attrs = if entries.is_empty() { AttrsId::NONE } else { self.b.attrs(entries) };
        let v = self.b.call(callee, values, attrs, TypeId::NONE, false, None);
        self.infer(v, at, &format!("R.{name}"))
    }
}

fn binary_name(op: Operator) -> Option<&'static str> {
    Some(match op {
        Operator::Add => "add",
        Operator::Sub => "subtract",
        Operator::Mult => "multiply",
        Operator::Div => "divide",
        Operator::FloorDiv => "floor_divide",
        Operator::Mod => "mod",
        Operator::Pow => "power",
        _ => return None,
    })
}

fn compare_name(op: CmpOp) -> Option<&'static str> {
    Some(match op {
        CmpOp::Lt => "less",
        CmpOp::LtE => "less_equal",
        CmpOp::Gt => "greater",
        CmpOp::GtE => "greater_equal",
        _ => return None,
    })
}
