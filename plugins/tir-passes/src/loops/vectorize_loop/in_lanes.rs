//! Determines which values differ between lanes in a vectorized loop, and the reason if a loop cannot be vectorized.

use super::lanes::{Lanes, vectorizable};
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::walk::open_scopes::OpenScopes;
use plugin_api::walk::value_key::value_key;
use std::collections::{HashMap, HashSet};

/// The content of a vectorized loop.
#[derive(Default)]
pub(super) struct InLanes<'b> {
    var: Option<Value<'b>>,
    /// The number of lanes of each expression and name that has more than one lane.
    lanes: HashMap<Value<'b>, Lanes>,
    /// Expressions with a part that differs between lanes in a way that no vector operation supports.
    impossible: HashSet<Value<'b>>,
}

/// The accesses of a buffer that the loop allocates.
#[derive(Default)]
struct Local {
    /// True if the stored value, the position or the condition of a store differs between lanes.
    differs: bool,
    /// For each dimension, the key of its index if all accesses have the same index, and no two lanes share an element.
    own: Option<Vec<Option<Vec<u32>>>>,
}

impl<'b> InLanes<'b> {
    /// Analyzes the content of a loop over `var`.
    pub(super) fn of(stmt: Value<'b>, var: Value<'b>, lanes: Lanes) -> InLanes<'b> {
        let mut known = InLanes { var: Some(var), lanes: HashMap::from([(var, lanes)]), impossible: HashSet::new() };
        for value in stmt.region().nodes() {
            if value.is_nested() || matches!(value.stmt(), Some(Stmt::Bind { .. })) {
                known.note(value);
            }
        }
        known
    }

    /// Records a value; its operands were recorded before.
    fn note(&mut self, value: Value<'b>) {
        let lanes = value.operands().fold(Lanes::ONE, |lanes, operand| lanes.max(self.lanes(operand)));
        if lanes != Lanes::ONE {
            self.lanes.insert(value, lanes);
        }
        let many = |value: Option<Value<'b>>| value.is_some_and(|value| self.lanes(value) != Lanes::ONE);
        let here = match value.view() {
            Expr::Call(call) => match call.op() {
                Some("tirx.if_then_else") => many(call.arg(0)),
                Some(op) if vectorizable(op) => false,
                _ => call.args().any(|arg| many(Some(arg))),
            },
            Expr::Broadcast { value, .. } | Expr::Let { value, .. } => many(Some(value)),
            // Each lane would contain a vector.
            Expr::Ramp { .. } | Expr::Shuffle { .. } => value.operands().any(|operand| many(Some(operand))),
            _ => false,
        };
        if value.is_nested() && (here || value.operands().any(|operand| self.impossible.contains(&operand))) {
            self.impossible.insert(value);
        }
    }

    /// Returns the lanes that an expression gets.
    pub(super) fn lanes(&self, expr: Value<'b>) -> Lanes {
        self.lanes.get(&expr).copied().unwrap_or(Lanes::ONE)
    }

    fn differs(&self, expr: Value<'b>) -> bool {
        self.lanes(expr) != Lanes::ONE
    }

    /// Returns true if a statement needs a loop over the lanes, for itself and its content.
    pub(super) fn must_be_serial(&self, stmt: Value<'b>) -> bool {
        let impossible = stmt.operands().any(|operand| self.impossible.contains(&operand));
        match stmt.stmt() {
            Some(Stmt::If { cond }) => impossible || self.differs(cond),
            Some(Stmt::For { extent, .. }) => impossible || self.differs(extent),
            _ => impossible,
        }
    }

    /// Returns the reason why the content of the loop cannot be executed for all lanes at once, one statement after the
    /// other.
    pub(super) fn obstacle(&self, stmt: Value<'b>) -> Option<String> {
        let (mut serial, mut names) = (OpenScopes::new(), HashSet::new());
        let mut locals: HashMap<Value<'b>, Local> = HashMap::new();
        for value in stmt.region().nodes() {
            serial.go_to(value);
            let is_stmt = value.stmt().is_some();
            let starts = is_stmt && self.must_be_serial(value);
            let one_by_one = starts || !serial.is_empty();
            if let Some(name) = value.operands().find(|operand| names.contains(operand)) {
                if one_by_one {
                    let name = name.name().unwrap_or("a name");
                    return Some(format!(
                        "`{name}` is a vector, but it is used in statements that run for one lane at a time"
                    ));
                }
                names.extend(value.is_nested().then_some(value));
            }
            if matches!(value.stmt(), Some(Stmt::Bind { .. })) && !one_by_one && self.differs(value) {
                names.insert(value);
            }
            if starts {
                serial.open(value, ());
            }
            if value.is_allocation() || value.is_block_buffer() {
                locals.insert(value, Local::default());
            }
            if let Expr::BufferPart { buffer, part: 0 } = value.view()
                && let Some(local) = locals.get_mut(&buffer)
            {
                *local = Local { differs: true, own: Some(Vec::new()) };
            }
            if let Some(access) = value.as_element_access()
                && let Some(local) = locals.get_mut(&access.buffer)
            {
                let differs = one_by_one || value.operands().any(|operand| self.differs(operand));
                local.differs |= is_stmt && differs;
                self.access(local, &access.indices);
            }
        }
        let is_shared = |local: &Local| local.differs && local.own.iter().flatten().all(Option::is_none);
        let shared = locals.into_iter().filter(|(_, local)| is_shared(local)).map(|(buffer, _)| buffer);
        let buffer = shared.min_by_key(|buffer| buffer.word())?;
        let name = buffer.name().unwrap_or("a buffer");
        Some(format!(
            "each lane needs its own elements of `{name}`; allocate the elements of a lane next to each other"
        ))
    }

    fn access(&self, local: &mut Local, indices: &[Value<'b>]) {
        let own = |index: &Value<'b>| {
            let is_own = self.step(*index).is_some_and(|step| step != 0);
            is_own.then(|| value_key(*index, &|operand| operand))
        };
        let new: Vec<Option<Vec<u32>>> = indices.iter().map(own).collect();
        match &mut local.own {
            None => local.own = Some(new),
            Some(known) => {
                for (known, new) in known.iter_mut().zip(new) {
                    *known = known.take().filter(|known| Some(known) == new.as_ref());
                }
            }
        }
    }

    /// Returns the difference of an index between adjacent lanes, or `None` if it is not constant.
    fn step(&self, index: Value<'b>) -> Option<i64> {
        if Some(index) == self.var {
            return Some(1);
        }
        if !self.differs(index) {
            return Some(0);
        }
        let Expr::Arith { op, a, b: Some(b) } = index.view() else { return None };
        let number = |value: Value<'b>| value.dim()?.as_int();
        match op {
            PrimOp::Add => self.step(a)?.checked_add(self.step(b)?),
            PrimOp::Sub => self.step(a)?.checked_sub(self.step(b)?),
            PrimOp::Mul => match (number(a), number(b)) {
                (Some(by), _) => self.step(b)?.checked_mul(by),
                (_, Some(by)) => self.step(a)?.checked_mul(by),
                _ => None,
            },
            _ => None,
        }
    }
}
