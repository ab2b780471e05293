//! Expressions of the tree: integer arithmetic as dimensions, everything else as nodes.

use passhost_lang::ir::records::kind;
use passhost_lang::ir::{AttrsId, DType, Dim, DimExpr, NodeSpec, Sym, TypeId, Value};
use passhost_lang::scalar::PrimOp;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum nesting depth of an expression in a schedule.
pub(crate) const MAX_DEPTH: u32 = 400;

/// The number of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Buf(pub(crate) u32);

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Ex {
    /// Integer arithmetic, numbers and variables.
    Dim(Dim),
    /// A use of a buffer.
    Buffer(Buf),
    /// A leaf of the body other than a number.
    Leaf(u32),
    /// A node of the body that is neither a variable nor nested, such as a handle.
    Old(u32),
    /// Any other expression.
    Op(Arc<Op>),
}

/// A node with operands.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) spec: NodeSpec,
    /// The data type, for a node that the schedule created; `None` for an original node, whose type is in `spec`.
    pub(crate) dtype: Option<DType>,
    pub(crate) ops: Vec<Ex>,
}

impl Ex {
    pub(crate) fn var(sym: Sym) -> Ex {
        Ex::Dim(Dim::Var(sym))
    }

    pub(crate) fn as_dim(&self) -> Option<&Dim> {
        match self {
            Ex::Dim(dim) => Some(dim),
            _ => None,
        }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        self.as_dim()?.as_int()
    }

    /// Calls `f` with this expression and each nested expression that is not integer arithmetic.
    pub(crate) fn each<'e>(&'e self, f: &mut impl FnMut(&'e Ex)) {
        f(self);
        if let Ex::Op(op) = self {
            op.ops.iter().for_each(|operand| operand.each(f));
        }
    }

    /// Calls `f` with each variable.
    pub(crate) fn vars(&self, f: &mut impl FnMut(Sym)) {
        self.each(&mut |part| {
            if let Ex::Dim(dim) = part {
                dim.vars(f);
            }
        });
    }

    /// Returns true for an element of a buffer.
    pub(crate) fn is_load(&self) -> bool {
        matches!(self, Ex::Op(op) if op.spec.kind == kind::LOAD)
    }

    pub(crate) fn mentions(&self, sym: Sym) -> bool {
        let mut found = false;
        self.vars(&mut |var| found |= var.id == sym.id);
        found
    }

    /// Returns the nesting depth of the operations, without the depth inside dimensions.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Ex::Op(op) => 1 + op.ops.iter().map(Ex::depth).max().unwrap_or(0),
            Ex::Dim(dim) => depth_of(dim),
            _ => 0,
        }
    }

    /// Returns the buffer and the indices of a load.
    pub(crate) fn as_load(&self) -> Option<(Buf, &[Ex])> {
        match self {
            Ex::Op(op) if op.spec.kind == kind::LOAD => match op.ops.split_first() {
                Some((Ex::Buffer(buffer), indices)) => {
                    let predicate = usize::from(op.spec.a == 1);
                    Some((*buffer, &indices[..indices.len().saturating_sub(predicate)]))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Replaces each subexpression for which `f` returns a replacement, outer ones first. Unchanged subexpressions
    /// are shared.
    pub(crate) fn replaced(&self, f: &mut dyn FnMut(&Ex) -> Option<Ex>) -> Ex {
        if let Some(new) = f(self) {
            return new;
        }
        let Ex::Op(op) = self else { return self.clone() };
        let ops = op.ops.iter().map(|operand| operand.replaced(f)).collect();
        Ex::Op(Arc::new(Op { spec: op.spec, dtype: op.dtype, ops }))
    }

    /// Builds a node with these operands.
    pub(crate) fn node(spec: NodeSpec, ops: Vec<Ex>) -> Ex {
        Ex::Op(Arc::new(Op { spec, dtype: None, ops }))
    }

    /// Builds a load of an element of a buffer.
    pub(crate) fn load(buffer: Buf, dtype: DType, indices: impl IntoIterator<Item = Dim>) -> Ex {
        let ops = std::iter::once(Ex::Buffer(buffer)).chain(indices.into_iter().map(Ex::Dim)).collect();
        Ex::Op(Arc::new(Op { spec: NodeSpec::new(kind::LOAD), dtype: Some(dtype), ops }))
    }

    /// Replaces variables.
    pub(crate) fn substituted(&self, with: &Meanings) -> Ex {
        if with.is_empty() {
            return self.clone();
        }
        self.replaced(&mut |part| match part {
            Ex::Dim(dim) => Some(with.of_dim(dim)),
            _ => None,
        })
    }
}

fn depth_of(dim: &Dim) -> u32 {
    match dim.operation() {
        Some((_, _, operands)) => 1 + operands.into_iter().map(depth_of).max().unwrap_or(0),
        None => 0,
    }
}

/// The values of variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meanings(HashMap<u32, Ex, foldhash::fast::FixedState>);

impl Meanings {
    pub(crate) fn one(sym: Sym, meaning: Dim) -> Meanings {
        let mut out = Meanings::default();
        out.set(sym, Ex::Dim(meaning));
        out
    }

    pub(crate) fn set(&mut self, sym: Sym, meaning: Ex) {
        self.0.insert(sym.id, meaning);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the variables in a dimension whose values are dimensions.
    pub(crate) fn dim(&self, dim: &Dim) -> Option<Dim> {
        match self.of_dim(dim) {
            Ex::Dim(dim) => Some(dim),
            _ => None,
        }
    }

    fn of_dim(&self, dim: &Dim) -> Ex {
        let (mut any, mut all) = (false, true);
        dim.vars(&mut |sym| {
            if let Some(meaning) = self.0.get(&sym.id) {
                any = true;
                all &= matches!(meaning, Ex::Dim(_));
            }
        });
        match (any, all) {
            (false, _) => Ex::Dim(dim.clone()),
            (_, true) => Ex::Dim(passhost_lang::arith::substitute(dim, &|sym| self.0.get(&sym.id)?.as_dim().cloned())),
            (_, false) => self.opened(dim),
        }
    }

    /// Converts a dimension to an expression, and replaces its variables.
    fn opened(&self, dim: &Dim) -> Ex {
        if let Dim::Var(sym) = dim {
            return self.0.get(&sym.id).cloned().unwrap_or_else(|| Ex::Dim(dim.clone()));
        }
        let Some((op, dtype, operands)) = dim.operation() else { return Ex::Dim(dim.clone()) };
        arithmetic(op, dtype, operands.into_iter().map(|operand| self.of_dim(operand)).collect())
    }
}

/// Builds an operation; the result is a dimension if all operands are dimensions.
pub(crate) fn arithmetic(op: PrimOp, dtype: DType, operands: Vec<Ex>) -> Ex {
    let of_floats = |operand: &Ex| operand.as_dim().is_some_and(|dim| dim.dtype().is_float());
    let spec = NodeSpec { a: op.into(), ..NodeSpec::new(kind::ARITH) };
    match &operands[..] {
        operands if operands.iter().any(of_floats) => {}
        [Ex::Dim(a)] if matches!(op, PrimOp::Not | PrimOp::Cast) => {
            return Ex::Dim(Dim::Expr(Arc::new(DimExpr::Unary(op, dtype, a.clone()))));
        }
        [Ex::Dim(a), Ex::Dim(b)] if op.is_binary() => {
            return Ex::Dim(Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, a.clone(), b.clone()))));
        }
        _ => {}
    }
    Ex::Op(Arc::new(Op { spec, dtype: Some(dtype), ops: operands }))
}

/// Returns the properties of a node, without its operands.
pub(crate) fn spec_of(value: Value<'_>) -> NodeSpec {
    use passhost_lang::ir::records::flag;
    let Some(node) = value.node() else { return NodeSpec::new(kind::VAR) };
    // These flags are set again when the region is opened and closed.
    let drop = if node.has(flag::REGION) { flag::REGION | flag::IMPURE } else { 0 };
    let a = if node.has(flag::REGION) { 0 } else { node.a };
    NodeSpec { kind: node.kind, flags: node.flags & !drop, ty: TypeId(node.ty), attrs: AttrsId(node.attrs), a }
}

/// Splits a condition into the conditions that must all hold.
pub(crate) fn conjuncts(condition: &Dim) -> Vec<Dim> {
    match condition {
        Dim::Expr(expr) => match &**expr {
            DimExpr::Binary(PrimOp::And, _, a, b) => {
                let mut all = conjuncts(a);
                all.extend(conjuncts(b));
                all
            }
            _ => vec![condition.clone()],
        },
        _ => vec![condition.clone()],
    }
}

/// Combines conditions into one; `None` if there are none.
pub(crate) fn all_of(conditions: Vec<Dim>) -> Option<Dim> {
    conditions.into_iter().reduce(|a, b| Dim::binary(PrimOp::And, a, b))
}
