//! The conditions that hold at a value, from Ifs, from choices that evaluate only one side, and from schedulable blocks.

use crate::ir::{Body, Expr, Stmt, Value};
use crate::scalar::PrimOp;
use crate::walk::open_scopes::OpenScopes;
use crate::walk::value_map::ValueMap;

/// A condition that is known to be true or false at a place.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'b> {
    /// The condition.
    pub cond: Value<'b>,
    /// True if the condition is known to be false.
    pub negated: bool,
}

/// A change of the known conditions after an operand of a choice that evaluates only one side.
#[derive(Clone, Copy)]
enum Change<'b> {
    Begins(Condition<'b>),
    Ends,
}

/// The conditions at the current value during an in-order traversal of a body.
pub struct Conditions<'b> {
    /// The conditions of enclosing branches and blocks.
    scopes: OpenScopes<Condition<'b>>,
    /// The conditions of enclosing sides of choices, inside those scopes.
    choices: Vec<Condition<'b>>,
    /// The condition that holds in the content of a branch or block.
    inside: ValueMap<'b, Condition<'b>>,
    /// The changes after an operand of a choice.
    after: ValueMap<'b, Vec<Change<'b>>>,
    /// The previous value.
    last: Option<Value<'b>>,
}

impl<'b> Conditions<'b> {
    /// Starts at the beginning of a body.
    pub fn new(body: &'b Body) -> Conditions<'b> {
        let (inside, after) = (ValueMap::new(body), ValueMap::new(body));
        let (scopes, choices) = (OpenScopes::new(), Vec::new());
        let mut conditions = Conditions { scopes, choices, inside, after, last: None };
        body.values().for_each(|value| conditions.note(value));
        conditions
    }

    fn note(&mut self, value: Value<'b>) {
        match value.stmt() {
            Some(Stmt::If { cond }) => {
                for (branch, negated) in value.if_branches().zip([false, true]) {
                    self.inside.insert(branch, Condition { cond, negated });
                }
            }
            Some(Stmt::Block) => {
                let condition = value.block_condition().map(|cond| Condition { cond, negated: false });
                condition.map(|condition| self.inside.insert(value, condition));
            }
            _ => self.note_choice(value),
        }
    }

    /// Records that the condition is true from its evaluation to the end of the first side, and false from there to the end of the second
    /// side.
    fn note_choice(&mut self, value: Value<'b>) {
        let Some(call) = value.as_call_to("tirx.if_then_else") else { return };
        let args: Vec<Value<'b>> = call.args().collect();
        let [cond, then, otherwise] = args[..] else { return };
        if !cond.is_nested() {
            return;
        }
        let mut last = cond;
        for (side, negated) in [(then, false), (otherwise, true)] {
            if side.is_nested() {
                self.change_after(last, Change::Begins(Condition { cond, negated }));
                self.change_after(side, Change::Ends);
                last = side;
            }
        }
    }

    fn change_after(&mut self, value: Value<'b>, change: Change<'b>) {
        match self.after.get_mut(value) {
            Some(changes) => changes.push(change),
            None => drop(self.after.insert(value, vec![change])),
        }
    }

    /// Advances to a value; must be called for each value in order.
    pub fn go_to(&mut self, value: Value<'b>) {
        self.scopes.go_to(value);
        if let Some(last) = self.last.replace(value) {
            if let Some(condition) = self.inside.get(last) {
                self.scopes.open(last, *condition);
                self.scopes.go_to(value);
            }
            for change in self.after.get(last).into_iter().flatten() {
                match change {
                    Change::Begins(condition) => self.choices.push(*condition),
                    Change::Ends => drop(self.choices.pop()),
                }
            }
        }
    }

    /// Iterates over the conditions at the current place, from the outermost to the innermost.
    pub fn active(&self) -> impl Iterator<Item = &Condition<'b>> {
        self.scopes.iter().chain(&self.choices)
    }

    /// Iterates over the conditions, except for Ifs whose `else` branch contains the current place, because TVM uses only the conditions of
    /// first branches and choices for indices.
    pub fn of_taken_branches_and_choices(&self) -> impl Iterator<Item = &Condition<'b>> {
        self.scopes.iter().filter(|condition| !condition.negated).chain(&self.choices)
    }
}

/// Splits a true condition into the operands of `and`, which are also true, or a false condition into the operands of `or`.
pub fn parts_of(cond: Value<'_>, negated: bool) -> Vec<(Value<'_>, bool)> {
    let (mut work, mut parts) = (vec![(cond, negated)], Vec::new());
    while let Some((cond, negated)) = work.pop() {
        match cond.view() {
            Expr::Arith { op: PrimOp::And, a, b: Some(b) } if !negated => work.extend([(b, negated), (a, negated)]),
            Expr::Arith { op: PrimOp::Or, a, b: Some(b) } if negated => work.extend([(b, negated), (a, negated)]),
            Expr::Arith { op: PrimOp::Not, a, .. } => work.push((a, !negated)),
            Expr::Call(call) if call.op() == Some("tirx.likely") => work.extend(call.arg(0).map(|arg| (arg, negated))),
            _ => parts.push((cond, negated)),
        }
    }
    parts
}

/// Returns a comparison in the form `low + by <= high`; `None` for anything else.
pub fn as_less_or_equal(cond: Value<'_>, negated: bool) -> Option<(Value<'_>, Value<'_>, i64)> {
    let Expr::Arith { op, a, b: Some(b) } = cond.view() else { return None };
    // `a < b` is false if and only if `b <= a` is true.
    match (op, negated) {
        (PrimOp::Lt, false) | (PrimOp::Ge, true) => Some((a, b, 1)),
        (PrimOp::Le, false) | (PrimOp::Gt, true) => Some((a, b, 0)),
        (PrimOp::Gt, false) | (PrimOp::Le, true) => Some((b, a, 1)),
        (PrimOp::Ge, false) | (PrimOp::Lt, true) => Some((b, a, 0)),
        _ => None,
    }
}
