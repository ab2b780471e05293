//! `arith` reads questions, one JSON object per line, and answers each with one line. `tests/oracle/arith.py` compares
//! the answers with those of TVM's analyzer. A question has `vars` (for each its lowest value and number of values) and
//! `expr`: a number, `"x0"`, or `[operation, operand, operand]` with TVMScript's operation names.
#![forbid(unsafe_code)]

use plugin_api::arith::Analyzer;
use plugin_api::ir::{DType, Dim, DimExpr, Sym};
use plugin_api::scalar::PrimOp;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::sync::Arc;

const OPS: &[(&str, PrimOp)] = &[
    ("+", PrimOp::Add),
    ("-", PrimOp::Sub),
    ("*", PrimOp::Mul),
    ("//", PrimOp::FloorDiv),
    ("%", PrimOp::FloorMod),
    ("truncdiv", PrimOp::TruncDiv),
    ("truncmod", PrimOp::TruncMod),
    ("min", PrimOp::Min),
    ("max", PrimOp::Max),
    ("==", PrimOp::Eq),
    ("!=", PrimOp::Ne),
    ("<", PrimOp::Lt),
    ("<=", PrimOp::Le),
    (">", PrimOp::Gt),
    (">=", PrimOp::Ge),
    ("and", PrimOp::And),
    ("or", PrimOp::Or),
];

fn read(value: &Value) -> Option<Dim> {
    if let Some(v) = value.as_i64() {
        return Some(Dim::Int(v));
    }
    if let Some(name) = value.as_str() {
        let id = name.strip_prefix('x')?.parse().ok()?;
        return Some(Dim::Var(Sym { id, dtype: DType::I64 }));
    }
    match value.as_array()?.as_slice() {
        [op, a] if op == "not" => Some(Dim::Expr(Arc::new(DimExpr::Unary(PrimOp::Not, DType::BOOL, read(a)?)))),
        [op, a, b] => {
            let (_, op) = OPS.iter().find(|(name, _)| op == name)?;
            Some(Dim::binary(*op, read(a)?, read(b)?))
        }
        _ => None,
    }
}

fn write(dim: &Dim) -> Value {
    match dim {
        Dim::Int(v) => json!(v),
        Dim::Var(sym) => json!(format!("x{}", sym.id)),
        Dim::Expr(e) => match &**e {
            DimExpr::Int(v, _) => json!(v),
            DimExpr::Float(v, _) => json!(f64::from_bits(*v)),
            DimExpr::Unary(_, _, a) => json!(["not", write(a)]),
            DimExpr::Binary(op, _, a, b) => {
                let name = OPS.iter().find(|(_, other)| other == op).map_or("?", |(name, _)| name);
                json!([name, write(a), write(b)])
            }
        },
    }
}

fn answer(question: &Value) -> Option<Value> {
    let mut analyzer = Analyzer::new();
    for (id, range) in (0u32..).zip(question.get("vars")?.as_array()?) {
        let part = |i: usize| Some(Dim::Int(range.get(i)?.as_i64()?));
        if let (Some(min), Some(extent)) = (part(0), part(1)) {
            analyzer.bind_range(Sym { id, dtype: DType::I64 }, &min, &extent);
        }
    }
    let dim = read(question.get("expr")?)?;
    let (bounds, set) = (analyzer.const_bounds(&dim), analyzer.modular_set(&dim));
    Some(json!({
        "simple": write(&analyzer.simplify(&dim)),
        "bounds": [bounds.min, bounds.max],
        "modular": [set.coeff, set.base],
        "proven": analyzer.can_prove(&dim),
    }))
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let wrong = |why: String| std::io::Error::other(format!("not a question: {why}"));
        let question = serde_json::from_str(&line?).map_err(|error| wrong(error.to_string()))?;
        let answer = answer(&question).ok_or_else(|| wrong(question.to_string()))?;
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
