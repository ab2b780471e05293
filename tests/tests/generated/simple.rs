//! Tests that simplification keeps the values of functions, by evaluating all expressions before and after it.

use super::{brief, cases, choices, made};
use passhost::verify::verify_module;
use passhost_tests::engine;
use plugin_api::arith::Bounds;
use plugin_api::ir::DimExpr;
use plugin_api::ir::records::{kind, tykind};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use proptest::prelude::*;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Lowest value of an index expression, and of an index expression whose terms may have moved to the other side of a
/// comparison.
const LEAST: [i128; 2] = [-(1 << 63), -(1 << 126)];

/// The values in a function. The value of a node with a number depends only on the number, so it is the same in both
/// functions; the values of loads, calls and floating-point arithmetic depend only on their operands.
struct Values<'b> {
    body: &'b Body,
    seed: u64,
    least: i128,
    /// Number of each node that is not a nested expression; simplification does not change it.
    number: HashMap<usize, usize>,
    /// Value of each variable that has one; `None` in code that is never executed.
    vars: HashMap<usize, Option<i128>>,
    /// Code that is never executed.
    dead: Vec<std::ops::Range<usize>>,
    parents: Vec<u32>,
}

fn hashed(of: impl Hash) -> i128 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    i128::from(hasher.finish() as i64)
}

/// Returns a value of a type; small values are more likely.
fn any_of(hash: i128, dtype: DType) -> i128 {
    let small = (hash >> 8) % 24;
    match dtype {
        DType::BOOL => hash & 1,
        _ if hash & 7 == 0 => wrapped(hash >> 3, dtype),
        _ if dtype.code() == 1 => small.abs(),
        _ => small,
    }
}

/// Returns the integer with these low bits; other types are unchanged.
fn wrapped(value: i128, dtype: DType) -> i128 {
    let bits = u32::from(dtype.bits());
    match dtype.code() {
        0 | 1 if bits > 0 => {
            let low = value.rem_euclid(1 << bits);
            if dtype.code() == 0 && low >= 1 << (bits - 1) { low - (1 << bits) } else { low }
        }
        6 => i128::from(value != 0),
        _ => value,
    }
}

impl<'b> Values<'b> {
    fn new(body: &'b Body, seed: u64, least: i128) -> Values<'b> {
        let (vars, mut number) = (HashMap::new(), HashMap::new());
        for at in (0..body.len()).filter(|at| !body.value_at(*at).is_nested()) {
            number.insert(at, number.len());
        }
        let parents = body.parents();
        let mut values = Values { body, seed, least, number, vars, parents, dead: Vec::new() };
        (0..body.len()).for_each(|at| values.define(body.value_at(at)));
        values
    }

    /// Assigns a variable; loop variables lie in their range.
    fn define(&mut self, value: Value<'b>) {
        let (var, min, extent) = match value.kind() {
            kind::FOR if value.n_operands() == 2 => {
                (value.region().children().next(), value.operand(0), value.operand(1))
            }
            kind::ITER_VAR => (Some(value), value.operand(0), value.operand(1)),
            kind::LAUNCH => (value.region().children().next(), None, value.operand(0)),
            kind::BIND => {
                let bound = value.operand(0).and_then(|bound| self.of(bound));
                self.vars.insert(value.index().expect("a node"), bound);
                return;
            }
            _ => return,
        };
        let (Some(var), Some(extent)) = (var, extent.map(|extent| self.of(extent))) else { return };
        let min = min.map_or(Some(0), |min| self.of(min));
        let at = var.index().expect("a node");
        let place = hashed((self.seed, self.number[&at])).rem_euclid(1 << 20);
        let inside = min.zip(extent.filter(|extent| *extent > 0)).map(|(min, extent)| min + place % extent);
        self.vars.insert(at, inside);
        if inside.is_none() {
            // If the range is empty, the statements inside are never executed.
            let header = self.parents[at] as usize;
            self.dead.push(header + 1..self.body.value_at(header).end());
        }
    }

    fn symbol(&self, sym: Sym) -> i128 {
        // A dimension, often 0 or 1.
        hashed((self.seed, "symbol", sym.id)).rem_euclid(24)
    }

    fn of_dim(&self, dim: &Dim) -> Option<i128> {
        Some(match dim {
            Dim::Int(value) => (*value).into(),
            Dim::Var(sym) => self.symbol(*sym),
            Dim::Expr(e) => match &**e {
                DimExpr::Int(value, _) => (*value).into(),
                DimExpr::Float(bits, dtype) => hashed((bits, dtype.to_string())),
                DimExpr::Unary(op, dtype, a) => self.arith(*op, *dtype, &[(self.of_dim(a)?, a.dtype())])?,
                DimExpr::Binary(op, dtype, a, b) => {
                    self.arith(*op, *dtype, &[(self.of_dim(a)?, a.dtype()), (self.of_dim(b)?, b.dtype())])?
                }
            },
        })
    }

    /// Returns the value of an expression; `None` if it is undefined.
    fn of(&self, value: Value<'b>) -> Option<i128> {
        let dtype = value.ty().dtype();
        if value.is_leaf() {
            return match value.dim() {
                Some(dim) => self.of_dim(&dim),
                None => Some(hashed(value.word())),
            };
        }
        let at = value.index().expect("a node");
        if !value.is_nested() {
            if let Some(known) = self.vars.get(&at) {
                return *known;
            }
            let said = (value.ty().kind() == tykind::PRIM).then(|| value.ty().prims().pop()).flatten();
            return match said {
                Some(dim) => self.of_dim(&dim),
                None => Some(any_of(hashed((self.seed, self.number[&at])), dtype)),
            };
        }
        let operand = |i: usize| value.operand(i).and_then(|operand| self.of(operand));
        let operands = || value.operands().map(|operand| self.of(operand)).collect::<Option<Vec<i128>>>();
        let scalar = dtype.lanes() == 1;
        match value.view() {
            // The other side may be undefined.
            Expr::Select { .. } if scalar => operand(if operand(0)? != 0 { 1 } else { 2 }),
            Expr::Call(call) if scalar && call.op() == Some("tirx.if_then_else") => {
                operand(if operand(1)? != 0 { 2 } else { 3 })
            }
            Expr::Arith { op: PrimOp::And, .. } if scalar => {
                if operand(0)? == 0 {
                    Some(0)
                } else {
                    operand(1)
                }
            }
            Expr::Arith { op: PrimOp::Or, .. } if scalar => {
                if operand(0)? != 0 {
                    Some(1)
                } else {
                    operand(1)
                }
            }
            Expr::Arith { op, .. } => {
                let types = value.operands().map(|operand| match operand.dim() {
                    Some(dim) => dim.dtype(),
                    None => operand.ty().dtype(),
                });
                self.arith(op, dtype, &operands()?.into_iter().zip(types).collect::<Vec<_>>())
            }
            _ => {
                let what = (value.kind(), value.node().map_or(0, |node| node.a), value.as_call().and_then(Call::op));
                Some(any_of(hashed((self.seed, what, operands()?)), dtype))
            }
        }
    }

    fn arith(&self, op: PrimOp, dtype: DType, ops: &[(i128, DType)]) -> Option<i128> {
        let truth = |v: bool| Some(i128::from(v));
        let all = |f: fn(DType) -> bool| ops.iter().all(|(_, dtype)| f(*dtype) && dtype.lanes() == 1);
        let uninterpreted = || {
            let values: Vec<i128> = ops.iter().map(|(value, _)| *value).collect();
            // `a > b` is `b < a`, for floats too.
            Some(match op {
                PrimOp::Gt => any_of(hashed((PrimOp::Lt, vec![values[1], values[0]])), dtype),
                PrimOp::Ge => any_of(hashed((PrimOp::Le, vec![values[1], values[0]])), dtype),
                _ => any_of(hashed((op, values)), dtype),
            })
        };
        if !all(|dtype| dtype.is_int() || dtype == DType::BOOL) || dtype.is_float() || dtype.lanes() != 1 {
            return uninterpreted();
        }
        let a = ops[0].0;
        if op == PrimOp::Not {
            return truth(a == 0);
        }
        if op == PrimOp::Cast {
            return Some(if ops[0].1 == dtype { a } else { wrapped(a, dtype) });
        }
        let b = ops[1].0;
        let other_sign = |r: i128| r != 0 && (a < 0) != (b < 0);
        let plain = match op {
            PrimOp::Add => a.checked_add(b)?,
            PrimOp::Sub => a.checked_sub(b)?,
            PrimOp::Mul => a.checked_mul(b)?,
            PrimOp::FloorDiv => a.checked_div(b)? - i128::from(other_sign(a.checked_rem(b)?)),
            PrimOp::FloorMod => a.checked_rem(b)? + if other_sign(a.checked_rem(b)?) { b } else { 0 },
            PrimOp::TruncDiv => a.checked_div(b)?,
            PrimOp::TruncMod => a.checked_rem(b)?,
            PrimOp::Min => a.min(b),
            PrimOp::Max => a.max(b),
            PrimOp::Eq => return truth(a == b),
            PrimOp::Ne => return truth(a != b),
            PrimOp::Lt => return truth(a < b),
            PrimOp::Le => return truth(a <= b),
            PrimOp::Gt => return truth(a > b),
            PrimOp::Ge => return truth(a >= b),
            PrimOp::And => return truth(a != 0 && b != 0),
            PrimOp::Or => return truth(a != 0 || b != 0),
            PrimOp::Shl => a.checked_shl(u32::try_from(b).ok().filter(|b| *b < 32)?)?,
            PrimOp::Shr => a >> u32::try_from(b).ok().filter(|b| *b < 64)?,
            PrimOp::BitAnd => a & b,
            PrimOp::BitOr => a | b,
            PrimOp::BitXor => a ^ b,
            _ => return uninterpreted(),
        };
        match dtype {
            DType::I32 | DType::I64 => (self.least <= plain && plain < -self.least).then_some(plain),
            _ => Some(wrapped(plain, dtype)),
        }
    }

    /// Returns the values of the operands of all nodes except nested expressions, in order.
    fn all(&self) -> Vec<(u16, Vec<Option<i128>>)> {
        let values = (0..self.body.len()).map(|at| self.body.value_at(at)).filter(|value| !value.is_nested());
        let of = |value: Value<'b>, operand| {
            let at = value.index().expect("a node");
            let alive = !self.dead.iter().any(|range| range.contains(&at));
            alive.then(|| self.of(operand)).flatten()
        };
        values.map(|value| (value.kind(), value.operands().map(|operand| of(value, operand)).collect())).collect()
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn simplified_functions_compute_the_same(bytes in choices(), seed in any::<u64>()) {
        let module = made(&bytes);
        let simplify = |body: &Body| Analyzer::of_body(body).simplify_body(body).map_err(PassError::from);
        let simple = module.map_functions(|_, body| simplify(body)).map_err(|error| TestCaseError::fail(format!("{error}\n{}", brief(&module))))?;
        let (was, is) = (verify_module(&module, engine()), verify_module(&simple, engine()));
        prop_assert_eq!(was, is, "{}", brief(&simple));
        for (name, body) in module.functions().filter(|(_, body)| body.function().is_none()) {
            let simple = simple.get(name).expect("is there");
            let (was, is) = (Values::new(body, seed, LEAST[0]).all(), Values::new(simple, seed, LEAST[1]).all());
            prop_assert_eq!(was.len(), is.len());
            for ((kind, was), (now, is)) in was.iter().zip(&is) {
                prop_assert_eq!(kind, now);
                let same = was.iter().zip(is).all(|(was, is)| was.is_none() || was == is);
                prop_assert!(same, "{was:?} is {is:?} in {name} of\n{}\nand\n{}", brief(&module), plugin_api::walk::dump::dump(simple));
            }
            for value in simple.values() {
                for dim in value.operands().filter_map(|operand| operand.dim()) {
                    if let (Some(int), dtype) = (dim.as_int(), dim.dtype()) {
                        prop_assert!(dtype.code() == 1 || Bounds::of_dtype(dtype).contains(int), "{int} of {dtype}");
                    }
                }
            }
        }
    }
}
