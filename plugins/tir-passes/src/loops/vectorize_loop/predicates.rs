//! Turns conditions into predicates of loads and stores.

use super::Vectorize;
use super::lanes::Lanes;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::{Again, ElementAccess, TirRewrite};
use plugin_api::walk::value_key::value_key;

/// A mask of the lanes whose numbers, counted from `base`, are less than a limit.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    base: V,
    limit: V,
    lanes: Lanes,
}

impl Mask {
    pub(super) fn write(self, w: &mut Again<'_>) -> Result<V, PassError> {
        let dtype = self.lanes.of(DType::new(1, 1, 1))?;
        Ok(w.call("tirx.get_active_lane_mask", &[self.base, self.limit], dtype))
    }
}

impl<'b> Vectorize<'b> {
    /// Returns the branch of an If whose condition can become a predicate, and the limit of the condition `i < limit`.
    /// All loads and stores of the branch must have the index `i`, and the branch must contain nothing else that
    /// depends on the condition.
    pub(super) fn predicated(&self, stmt: Value<'b>) -> Option<(Value<'b>, Value<'b>)> {
        let Some(Stmt::If { cond }) = stmt.stmt().filter(|_| self.predicates && self.mask.is_none()) else {
            return None;
        };
        let Expr::Arith { op: PrimOp::Lt, a, b: Some(limit) } = cond.view() else { return None };
        let branches: Vec<Value<'b>> = stmt.if_branches().collect();
        let [branch] = branches[..] else { return None };
        let key = value_key(a, &|operand| operand);
        let same = |access: ElementAccess<'b>| {
            access.indices.first().is_some_and(|index| value_key(*index, &|operand| operand) == key)
        };
        let maskable = |value: Value<'b>| match value.stmt() {
            Some(Stmt::Store { .. } | Stmt::For { .. } | Stmt::Bind { .. }) => {
                !value.operands().any(Value::changes_state)
            }
            Some(_) => false,
            None => !matches!(value.view(), Expr::Buffer),
        };
        let nodes = || branch.region().nodes();
        let any = nodes().any(|value| value.as_element_access().is_some());
        let differs = self.known.lanes(a) != Lanes::ONE && self.known.lanes(limit) == Lanes::ONE;
        let all = differs && any && nodes().filter_map(Value::as_element_access).all(same) && nodes().all(maskable);
        (all && is_linear(a)).then_some((branch, limit))
    }

    pub(super) fn under_predicate(
        &mut self,
        stmt: Value<'b>,
        branch: Value<'b>,
        limit: Value<'b>,
        w: &mut Again<'b>,
    ) -> Result<(), PassError> {
        let cond = stmt.operands().next().and_then(|cond| cond.operands().next());
        let first = cond.map(|first| self.expr(first, w)).transpose()?;
        let base = first.and_then(|first| w.parts(first).first().copied());
        let (Some(base), Some(along)) = (base, self.along) else { return w.stmt(self, stmt) };
        let limit = self.expr(limit, w)?;
        self.mask = Some(Mask { base, limit, lanes: along.lanes });
        let written = w.content(self, branch);
        self.mask = None;
        written
    }
}

/// Returns true if an index is a sum of multiples of variables.
fn is_linear(index: Value<'_>) -> bool {
    match index.view() {
        Expr::Arith { op: PrimOp::Add | PrimOp::Sub, a, b: Some(b) } => is_linear(a) && is_linear(b),
        Expr::Arith { op: PrimOp::Mul, a, b: Some(b) } => is_linear(a) && b.is_leaf() || is_linear(b) && a.is_leaf(),
        _ => !index.is_nested(),
    }
}
