//! TIR arithmetic: the data types of operands, and their conversion to a common type.

use crate::print::{operation_constructor, operation_name};
use crate::read::tir::dtypes::{in_one_lane, lanes, promoted, scalar, typed, with_code, with_lanes};
use crate::read::tir::reader::{E, Is, TirReader};
use crate::words::diagnostic::Diagnostic;
use crate::words::folding::{Constant, Folded, folded, of_numbers, wrapped};
use crate::words::syntax::Read;
use passhost_lang::arith::{Analyzer, Piece, symbol_of};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{DType, Dim, NodeSpec, V};
use passhost_lang::scalar::PrimOp;
use std::collections::BTreeMap;
use std::ops::Range;

impl TirReader<'_> {
    /// Reads `a op b` with a Python operator, which converts operands to a common data type. The first `from` nodes
    /// existed before `a` was read.
    ///
    /// # Errors
    /// Fails at `at` if the operation does not accept operands of these types, or they lack a common type.
    pub(super) fn operator(&mut self, op: PrimOp, a: E, b: E, from: u32, at: Range<usize>) -> Read<E> {
        if a.is == Is::Literal && b.is == Is::Literal {
            let known = of_numbers(op, self.constant_of(a), self.constant_of(b));
            if let Some(known) = self.result(known, Is::Literal, (op, a, b), from, &at)? {
                return Ok(known);
            }
        }
        // TVM builds these operations, and comparisons with a literal on the left, with constructors, which do not
        // fold.
        let computes = match op {
            PrimOp::Eq | PrimOp::Ne | PrimOp::And | PrimOp::Or => false,
            PrimOp::Lt | PrimOp::Le | PrimOp::Gt | PrimOp::Ge => a.is != Is::Literal,
            _ => true,
        };
        self.operation_of(op, a, b, computes.then_some(from), &at)
    }

    /// Reads functions such as `T.min(a, b)`: like the operator, but on typed values.
    ///
    /// # Errors
    /// Fails like [`TirReader::operator`].
    pub(super) fn operator_function(&mut self, op: PrimOp, a: E, b: E, from: u32, at: Range<usize>) -> Read<E> {
        if let (PrimOp::TruncDiv, Some(wrong)) = (op, [a, b].iter().find(|e| !e.dtype.is_int())) {
            let message = format!("T.truncdiv takes integers, found {}", wrong.dtype);
            return Err(Diagnostic::new(at, message).help("a / b divides floats"));
        }
        self.operation_of(op, a, b, Some(from), &at)
    }

    /// Builds `a op b` with operands converted to a common type. `computed` is the number of nodes before `a` if TVM
    /// folds constants here.
    fn operation_of(&mut self, op: PrimOp, a: E, b: E, computed: Option<u32>, at: &Range<usize>) -> Read<E> {
        let (op, a, b) = self.operands(op, a, b, at)?;
        let known = match computed {
            Some(from) => self.computed(op, a, b, from, at)?,
            None => None,
        };
        Ok(known.unwrap_or_else(|| self.operation(op, a, b)))
    }

    /// Converts the operands of an operator to one data type, and returns them with the operation for this type.
    fn operands(&mut self, op: PrimOp, a: E, b: E, at: &Range<usize>) -> Read<(PrimOp, E, E)> {
        let (mut op, mut a, mut b) = (op, a, b);
        match op {
            PrimOp::Div if a.dtype.code() == 0 && b.dtype.code() == 0 => {
                return Err(Diagnostic::new(at.clone(), "`/` of two integers does not define how to round")
                    .help("use a // b to round down, or T.truncdiv(a, b) to round to zero"));
            }
            // For vectors of different types, and for integers, these are bitwise operations.
            PrimOp::And | PrimOp::Or
                if (a.dtype.lanes() != 1 || b.dtype.lanes() != 1) && (a.dtype != b.dtype || a.dtype.is_int()) =>
            {
                op = if op == PrimOp::And { PrimOp::BitAnd } else { PrimOp::BitOr };
            }
            _ => {}
        }
        if a.dtype != b.dtype {
            // A literal takes the type of the other operand, even if that type is narrow.
            match op {
                PrimOp::Eq
                | PrimOp::Ne
                | PrimOp::BitAnd
                | PrimOp::BitOr
                | PrimOp::BitXor
                | PrimOp::Shl
                | PrimOp::Shr => {
                    (a, b) = (self.adopting(a, b, at)?, self.adopting(b, a, at)?);
                }
                PrimOp::Lt | PrimOp::Le | PrimOp::Gt | PrimOp::Ge => a = self.adopting(a, b, at)?,
                _ => {}
            }
        }
        takes(op, &[a, b], at)?;
        let dtype = match op {
            PrimOp::Eq | PrimOp::Ne => one_type(op, a, b, at)?,
            _ => common(a, b, at)?,
        };
        if let Some(dtype) = dtype {
            (a, b) = self.both(a, b, dtype);
        }
        Ok((op, a, b))
    }

    /// Folds `a op b` like TVM's parser; the operands have the same type.
    ///
    /// # Errors
    /// Fails at `at` for a division by zero.
    fn computed(&mut self, op: PrimOp, a: E, b: E, from: u32, at: &Range<usize>) -> Read<Option<E>> {
        if a.dtype.lanes() != 1 || b.dtype.lanes() != 1 {
            return Ok(None);
        }
        let same =
            matches!(op, PrimOp::Min | PrimOp::Max) && a.v == b.v && self.b.with(a.v, |value| !value.is_nested());
        if same {
            return Ok(Some(a));
        }
        let known = folded(op, a.dtype, self.constant_of(a), self.constant_of(b));
        self.result(known, Is::Value, (op, a, b), from, at)
    }

    /// Returns the known value of an operation. A constant replaces the nodes of its operands.
    fn result(
        &mut self,
        known: Option<Folded>,
        is: Is,
        (op, a, b): (PrimOp, E, E),
        from: u32,
        at: &Range<usize>,
    ) -> Read<Option<E>> {
        let known = match known {
            None => return Ok(None),
            Some(Folded::Left) => a,
            Some(Folded::Right) => b,
            Some(Folded::Float(value)) if is == Is::Literal => self.float(value, DType::F32, is),
            Some(Folded::Float(value)) => self.float(value, a.dtype, is),
            Some(Folded::Int(value)) if op.is_truth() => self.imm_of(value as i64, DType::BOOL, Is::Value),
            Some(Folded::Int(value)) if is == Is::Literal => match i64::try_from(value) {
                Ok(value) => self.number(value),
                Err(_) => return Err(Diagnostic::new(at.clone(), format!("{value} does not fit in 64 bits"))),
            },
            Some(Folded::Int(value)) => {
                let signed = a.dtype.code() == 0;
                self.imm_of(wrapped(value, a.dtype.bits(), signed), a.dtype, is)
            }
            Some(Folded::ByZero) => {
                let fault = Diagnostic::new(at.clone(), "this divides by zero");
                return Err(fault.help(format!("T.{}(x, 0) is written as it is", operation_constructor(op))));
            }
        };
        if self.constant_of(known) != Constant::No {
            self.forget(from);
        }
        Ok(Some(known))
    }

    /// Removes the unused nodes of this expression, from `from` on.
    fn forget(&mut self, from: u32) {
        self.b.truncate(from);
        self.runs.retain(|(nodes, _)| nodes.start < from);
        self.sym_of.split_off(&from);
    }

    /// Returns the simplified form of an extent that was read as `end - start`, like TVM: `n` for `n + 2 - 2`. `from`
    /// is the number of nodes before the extent. An explicitly written extent is kept, so that printed text reads back
    /// as the same module. An extent with loads or calls is also kept.
    pub(super) fn simplified(&mut self, extent: E, from: u32, start: V) -> E {
        if extent.v.is_leaf() || self.b.with(start, |value| value.is_nested()) && start.word() >= from {
            return extent;
        }
        let pieces = self.b.with(extent.v, |value| Analyzer::new().pieces(value)).unwrap_or_default();
        let is_kept = |piece: &Piece| match piece {
            Piece::Value(at) => *at as u32 >= from,
            Piece::Leaf(_) => false,
            Piece::Op(op, _) => !op.is_arithmetic(),
        };
        if pieces.is_empty() || pieces.iter().any(is_kept) {
            return extent;
        }
        let variables = self.variables_of(from);
        self.forget(from);
        let mut done: Vec<E> = Vec::new();
        for piece in pieces {
            let e = match (piece, done.len()) {
                (Piece::Value(at), _) => typed(self.b.value_of_word(at as u32), extent.ty, extent.dtype),
                (Piece::Leaf(Dim::Var(sym)), _) => {
                    let v = variables.get(&sym.id).copied().unwrap_or_else(|| self.b.scalar(&Dim::Var(sym)));
                    typed(v, extent.ty, sym.dtype)
                }
                (Piece::Leaf(dim), _) => self.imm_of(dim.as_int().unwrap_or_default(), extent.dtype, Is::Value),
                (Piece::Op(op, _), n @ 2..) => {
                    let (b, a) = (done.remove(n - 1), done.remove(n - 2));
                    self.operation(op, a, b)
                }
                (Piece::Op(..), _) => continue,
            };
            done.push(e);
        }
        done.pop().unwrap_or(extent)
    }

    /// Returns the variables used by nodes from `from` on, by symbolic variable.
    fn variables_of(&self, from: u32) -> BTreeMap<u32, V> {
        let mut out = BTreeMap::new();
        for node in from..self.b.n_nodes() {
            for word in self.b.operand_words(self.b.value_of_word(node)) {
                let v = self.b.value_of_word(*word);
                let sym = self.b.with(v, |value| symbol_of(value).filter(|_| !value.is_leaf()));
                out.extend(sym.map(|sym| (sym.id, v)));
            }
        }
        out
    }

    /// Returns the constant value of an operand, if any.
    fn constant_of(&self, e: E) -> Constant {
        let dim = self.b.with(e.v, |value| value.dim());
        match dim.as_ref().map(|dim| (dim.as_int(), crate::read::dims::float_of(dim))) {
            Some((Some(value), _)) => Constant::Int(value),
            Some((None, Some(value))) => Constant::Float(value),
            _ => Constant::No,
        }
    }

    /// Reads constructors such as `T.Add(a, b)`, which take two operands of the same data type without conversion.
    ///
    /// # Errors
    /// Fails at `at` if the types differ, or the operation does not accept them.
    pub(super) fn constructor(&mut self, op: PrimOp, a: E, b: E, at: Range<usize>) -> Read<E> {
        one_of_type(a, b, &at, || operands_of(op))?;
        takes(op, &[a, b], &at)?;
        Ok(self.operation(op, a, b))
    }

    /// Adds the node of an operation whose operands have the same type.
    pub(super) fn operation(&mut self, op: PrimOp, a: E, b: E) -> E {
        let op = match op {
            PrimOp::TruncDiv if a.dtype.is_float() => PrimOp::Div,
            PrimOp::Div if !a.dtype.is_float() => PrimOp::TruncDiv,
            other => other,
        };
        let dtype = match op {
            op if op.is_truth() => with_code(DType::BOOL, a.dtype),
            _ => a.dtype,
        };
        self.node(NodeSpec::new(kind::ARITH).a(u32::from(op)), &[a.v, b.v], dtype)
    }

    /// Converts two values to their common type, like TVM's operators.
    ///
    /// # Errors
    /// Fails at `at` if they lack a common type.
    pub(super) fn matched(&mut self, a: E, b: E, at: &Range<usize>) -> Read<(E, E)> {
        match common(a, b, at)? {
            Some(dtype) => Ok(self.both(a, b, dtype)),
            None => Ok((a, b)),
        }
    }

    /// Reads `-a` as a product with -1.
    ///
    /// # Errors
    /// Fails at `at` if the type of `a` lacks negative numbers.
    pub(super) fn negated(&mut self, a: E, from: u32, at: Range<usize>) -> Read<E> {
        if matches!(a.dtype.code(), 1 | 6) {
            return Err(Diagnostic::new(at, format!("values of {} cannot be negative", a.dtype))
                .help("T.Cast(\"int32\", value) has a sign"));
        }
        if let (Is::Literal, Constant::Float(value)) = (a.is, self.constant_of(a)) {
            return Ok(E { end: a.end, ..self.float(-value, a.dtype, a.is) });
        }
        let one = self.imm_of(-1, DType::I32, if a.is == Is::Literal { Is::Literal } else { Is::Value });
        let one = self.converted(one, a.dtype);
        let one = if a.is == Is::Literal { E { is: Is::Literal, ..one } } else { one };
        self.operator(PrimOp::Mul, a, one, from, at)
    }

    /// Reads `not a`, for any number of lanes.
    ///
    /// # Errors
    /// Fails at `at` if `a` is not a bool.
    pub(super) fn inverted(&mut self, a: E, at: Range<usize>) -> Read<E> {
        takes(PrimOp::Not, &[a], &at)?;
        let dtype = with_code(DType::BOOL, a.dtype);
        Ok(self.node(NodeSpec::new(kind::ARITH).a(u32::from(PrimOp::Not)), &[a.v], dtype))
    }

    /// Returns true if a literal is false in Python.
    pub(super) fn is_zero(&self, a: E) -> Option<bool> {
        match self.constant_of(a) {
            Constant::Int(value) if a.is == Is::Literal => Some(value == 0),
            Constant::Float(value) if a.is == Is::Literal => Some(value == 0.0),
            _ => None,
        }
    }

    /// Converts two values to a data type, the later value first, because conversions at the same place are in reverse
    /// order.
    fn both(&mut self, a: E, b: E, dtype: DType) -> (E, E) {
        let b = self.converted(b, dtype);
        (self.converted(a, dtype), b)
    }

    /// Converts a value to a data type: a constant is converted directly, a scalar is broadcast to each lane, and
    /// anything else is cast.
    pub(super) fn converted(&mut self, e: E, dtype: DType) -> E {
        if e.dtype == dtype || !is_number(dtype) {
            return e;
        }
        let before = self.b.n_nodes();
        let converted = self.conversion(e, dtype);
        let nodes = before..self.b.n_nodes();
        if !nodes.is_empty() && e.end < before {
            self.runs.push((nodes, e.end));
        }
        converted
    }

    fn conversion(&mut self, e: E, dtype: DType) -> E {
        if e.dtype.lanes() != 1 {
            return self.cast(e, dtype);
        }
        let one = scalar(dtype);
        let e = match self.constant(e, one) {
            Some(constant) => constant,
            None if e.dtype == one => e,
            None => self.cast(e, one),
        };
        if dtype.lanes() == 1 { e } else { self.broadcast(e, lanes(dtype)) }
    }

    /// Moves conversions to their places in program order.
    pub(super) fn settle(&mut self) {
        let Some(from) = self.runs.iter().map(|(_, place)| *place).min() else { return };
        let moved = self.b.move_back(&std::mem::take(&mut self.runs));
        // Only values created by this statement moved: its bounds, and expressions in its shapes.
        for (start, extent) in self.loops.range_mut(from..).map(|(_, bounds)| bounds) {
            (*start, *extent) = (moved(*start), moved(*extent));
        }
        for (word, sym) in self.sym_of.split_off(&from) {
            self.sym_of.insert(moved(self.b.value_of_word(word)).word(), sym);
        }
    }

    pub(super) fn cast(&mut self, e: E, dtype: DType) -> E {
        self.node(NodeSpec::new(kind::ARITH).a(u32::from(PrimOp::Cast)), &[e.v], dtype)
    }

    /// Converts a literal to a data type; returns it unchanged if the type cannot represent it.
    pub(super) fn retype(&mut self, literal: E, dtype: DType) -> E {
        self.constant(literal, dtype).unwrap_or(literal)
    }

    /// Converts a constant to a scalar data type.
    fn constant(&mut self, e: E, dtype: DType) -> Option<E> {
        if dtype.lanes() != 1 || !is_number(dtype) {
            return None;
        }
        let dim = self.b.with(e.v, |value| value.dim())?;
        let constant = match (dim.as_int(), crate::read::dims::float_of(&dim)) {
            (Some(value), _) if dtype.is_float() => self.float(value as f64, dtype, Is::Value),
            (Some(value), _) if dtype.has_integer(value.into()) => self.imm_of(value, dtype, Is::Value),
            (None, Some(value)) if dtype.is_float() => self.float(value, dtype, Is::Value),
            // The fraction is truncated.
            (None, Some(value)) if value.is_finite() && dtype.has_integer(value as i128) => {
                self.imm_of(value as i64, dtype, Is::Value)
            }
            _ => return None,
        };
        Some(E { end: e.end, ..constant })
    }

    /// Converts a literal to the type of the operand `other`.
    fn adopting(&mut self, e: E, other: E, at: &Range<usize>) -> Read<E> {
        let one = scalar(other.dtype);
        if e.is != Is::Literal || other.is == Is::Literal || !is_number(one) {
            return Ok(e);
        }
        let whole = one.is_float() || !e.dtype.is_float();
        let constant = if whole { self.constant(e, one) } else { None };
        let message = || format!("the number does not fit {one}, the type of the other operand");
        constant.ok_or_else(|| Diagnostic::new(at.clone(), message()))
    }

    /// Broadcasts a scalar to `lanes`; negative numbers are multiples of `T.vscale()`.
    fn broadcast(&mut self, e: E, lanes: i32) -> E {
        let count = if lanes > 0 { self.imm(i64::from(lanes), DType::I32) } else { self.scalable_lanes(-lanes).v };
        self.node(NodeSpec::new(kind::BROADCAST), &[e.v, count], with_lanes(e.dtype, lanes))
    }

    /// Builds `T.vscale() * n`.
    pub(super) fn scalable_lanes(&mut self, n: i32) -> E {
        let ty = self.prim_type(DType::I32);
        let scale = self.intrinsic("vscale", &[], ty, DType::I32);
        if n == 1 {
            return scale;
        }
        let n = self.imm_of(i64::from(n), DType::I32, Is::Value);
        self.operation(PrimOp::Mul, scale, n)
    }
}

/// Checks the types of the operands of an operation.
fn takes(op: PrimOp, operands: &[E], at: &Range<usize>) -> Read<()> {
    let (what, allowed): (&str, fn(DType) -> bool) = match op {
        PrimOp::And | PrimOp::Or | PrimOp::Not => ("bools", |dtype| dtype.code() == 6),
        PrimOp::FloorDiv | PrimOp::FloorMod | PrimOp::Shl | PrimOp::Shr => ("integers", DType::is_int),
        PrimOp::BitAnd | PrimOp::BitOr | PrimOp::BitXor => ("integers and bools", |dtype| !dtype.is_float()),
        _ => return Ok(()),
    };
    let Some(wrong) = operands.iter().find(|e| is_number(e.dtype) && !allowed(e.dtype)) else { return Ok(()) };
    let message = format!("{} takes {what}, found {}", operation_name(op), wrong.dtype);
    let fault = Diagnostic::new(at.clone(), message);
    Err(match op {
        PrimOp::And | PrimOp::Or | PrimOp::Not => fault.help("compare it with something: x != 0"),
        PrimOp::FloorDiv => fault.help("T.floor(a / b) rounds floats down"),
        _ => fault,
    })
}

/// Returns the common type of two operands of an equality comparison, for which only lanes are converted.
fn one_type(op: PrimOp, a: E, b: E, at: &Range<usize>) -> Read<Option<DType>> {
    one_of_type(in_one_lane(a), in_one_lane(b), at, || operands_of(op))?;
    common(a, b, at)
}

fn operands_of(op: PrimOp) -> String {
    format!("operands of {}", operation_name(op))
}

/// Checks that two unconverted values have the same type.
///
/// # Errors
/// Fails at `at` if the types differ.
pub(super) fn one_of_type(a: E, b: E, at: &Range<usize>, what: impl FnOnce() -> String) -> Read<()> {
    let (x, y) = (a.dtype, b.dtype);
    if x == y || !is_number(x) || !is_number(y) {
        return Ok(());
    }
    Err(Diagnostic::new(at.clone(), format!("{} must have the same type, found {x} and {y}", what()))
        .help(format!("convert with T.Cast(\"{x}\", value), or write a number as T.{x}(1)")))
}

/// Returns the type that two values are converted to; `None` if one of them is not a number, or is unknown.
fn common(a: E, b: E, at: &Range<usize>) -> Read<Option<DType>> {
    let (x, y) = (a.dtype, b.dtype);
    if x == y || !is_number(x) || !is_number(y) {
        return Ok(None);
    }
    let lanes = match (x.lanes(), y.lanes()) {
        (1, lanes) | (lanes, 1) => Some(lanes),
        (p, q) => Some(p).filter(|_| p == q),
    };
    let (Some(lanes), Some(dtype)) = (lanes, promoted(x, y)) else {
        return Err(Diagnostic::new(at.clone(), format!("the operands {x} and {y} do not have a common type"))
            .help("T.Cast(\"float32\", value) converts a value to a type"));
    };
    Ok(Some(DType::new(dtype.code(), dtype.bits(), lanes)))
}

/// Returns true if the data type supports arithmetic: integers, bools, floats.
pub(super) fn is_number(dtype: DType) -> bool {
    dtype.code() != DType::HANDLE.code()
}
