//! Lowers choices within an expression; an unchosen value cannot fail. Marks record which values of each choice were
//! used.

use super::{Lower, dtype_of, scalar_of};
use crate::fault::Fault;
use crate::program::{Instr, Mark, Note, Reg, Scalar, Unary};
use passhost_lang::arith::index_to_dim;
use passhost_lang::ir::DimExpr;
use passhost_lang::ir::{DType, Dim, Value};
use passhost_lang::scalar::PrimOp;
use std::sync::Arc;

/// Returns true if an instruction has a result for all operands.
fn cannot_fail(instr: &Instr) -> bool {
    match instr {
        Instr::Const { .. } | Instr::Affine { .. } | Instr::Unary { .. } => true,
        Instr::MulAdd { .. } | Instr::Select { .. } => true,
        Instr::Binary { op, .. } => !op.divides(),
        Instr::Load { access, .. } => access.checked.is_empty(),
        Instr::Note(_) => true,
        _ => false,
    }
}

/// Negates a condition.
pub(super) fn negated(condition: Option<&Dim>) -> Option<Dim> {
    condition.map(|condition| Dim::Expr(Arc::new(DimExpr::Unary(PrimOp::Not, DType::BOOL, condition.clone()))))
}

impl Lower {
    /// Lowers a `Select`. Before code generation, TVM rewrites a `Select` whose values may fail to an
    /// `if_then_else`, so an unchosen value cannot fail here either.
    pub(super) fn select(&mut self, cond: Value<'_>, values: [Value<'_>; 2], lane: usize) -> Result<Reg, Fault> {
        let marks = self.sides(index_to_dim(cond).as_ref());
        let cond = self.expr(cond, lane)?;
        let (a, mut then) = self.chosen((cond, true), |lower| lower.expr(values[0], lane))?;
        let (b, mut otherwise) = self.chosen((cond, false), |lower| lower.expr(values[1], lane))?;
        let dst = self.reg(self.scalar(a));
        if self.strict || then.iter().chain(&otherwise).all(cannot_fail) {
            self.note(cond, marks);
            then.into_iter().chain(otherwise).for_each(|instr| self.emit(instr));
            self.emit(Instr::Select { dst, cond, then: a, otherwise: b });
        } else {
            then.push(Instr::Copy { dst, src: a });
            otherwise.push(Instr::Copy { dst, src: b });
            self.branch(cond, [then, otherwise], marks);
        }
        Ok(dst)
    }

    /// Lowers instructions like [`Lower::listed`] that are used only if a condition has a given value.
    fn chosen<T>(
        &mut self,
        when: (Reg, bool),
        f: impl FnOnce(&mut Lower) -> Result<T, Fault>,
    ) -> Result<(T, Vec<Instr>), Fault> {
        self.chosen_by.push(when);
        let out = self.listed(f);
        self.chosen_by.pop();
        out
    }

    /// Creates marks for the two values of a choice. Each value should be used for some input.
    fn sides(&mut self, condition: Option<&Dim>) -> [Mark; 2] {
        let opposite = negated(condition);
        let then = self.side(opposite.as_ref(), "the value for true of a choice");
        [then, self.side(condition, "the value for false of a choice")]
    }

    /// Creates a mark for a part that is unused while `excluded` holds; `None` if `excluded` provably always holds.
    fn side(&mut self, excluded: Option<&Dim>, what: &str) -> Mark {
        if excluded.is_some_and(|excluded| self.analyzer().can_prove(excluded)) {
            return None;
        }
        let places = &self.program.places;
        let text = match places.get(self.statement).or(places.last()) {
            Some(place) => format!("{what}, in {place}"),
            None => what.to_string(),
        };
        self.program.marks.push(text);
        Some(self.program.marks.len() as u32 - 1)
    }

    /// Emits a note of a condition's values.
    fn note(&mut self, cond: Reg, marks: [Mark; 2]) {
        if marks != [None; 2] {
            let within = self.chosen_by.clone();
            self.emit(Instr::Note(Box::new(Note { cond, within, marks })));
        }
    }

    /// Lowers `and` or `or`. The second condition cannot fail if the first decides the result.
    pub(super) fn logic(&mut self, op: PrimOp, [a, b]: [Value<'_>; 2], lane: usize) -> Result<Reg, Fault> {
        let known = index_to_dim(a);
        // The second condition matters only if the first does not decide the result.
        let marks = match op {
            PrimOp::And => [self.side(negated(known.as_ref()).as_ref(), "the condition after an `and`"), None],
            _ => [None, self.side(known.as_ref(), "the condition after an `or`")],
        };
        let a = self.expr(a, lane)?;
        let (b, mut list) = self.chosen((a, op == PrimOp::And), |lower| lower.expr(b, lane))?;
        if list.iter().all(cannot_fail) {
            self.note(a, marks);
            list.into_iter().for_each(|instr| self.emit(instr));
            return self.operation(op, Scalar::Bool, a, b);
        }
        let dst = self.reg(Scalar::Bool);
        let a = self.unary(Unary::Cast, Scalar::Bool, a);
        self.code.push(list);
        let b = self.unary(Unary::Cast, Scalar::Bool, b);
        list = self.code.pop().unwrap_or_default();
        list.push(Instr::Copy { dst, src: b });
        let known = vec![Instr::Copy { dst, src: a }];
        self.branch(a, if op == PrimOp::And { [list, known] } else { [known, list] }, marks);
        Ok(dst)
    }

    /// Lowers a choice between two values, and evaluates only the selected value.
    pub(super) fn choice(
        &mut self,
        cond: Reg,
        scalar: Scalar,
        then: impl FnOnce(&mut Lower) -> Result<Reg, Fault>,
        otherwise: impl FnOnce(&mut Lower) -> Result<Reg, Fault>,
    ) -> Result<Reg, Fault> {
        self.choice_under((cond, None, [None; 2]), scalar, then, otherwise)
    }

    /// Lowers an `if_then_else` expression of the module.
    pub(super) fn if_then_else(&mut self, cond: Value<'_>, values: [Value<'_>; 2], lane: usize) -> Result<Reg, Fault> {
        let scalar = scalar_of(dtype_of(values[0]))?;
        let known = index_to_dim(cond);
        let marks = self.sides(known.as_ref());
        let cond = self.expr(cond, lane)?;
        let [then, otherwise] = values.map(|value| move |lower: &mut Lower| lower.expr(value, lane));
        self.choice_under((cond, known, marks), scalar, then, otherwise)
    }

    /// Lowers a choice like [`Lower::choice`], given the marks and the condition in the analyzer's form.
    fn choice_under(
        &mut self,
        (cond, known, marks): (Reg, Option<Dim>, [Mark; 2]),
        scalar: Scalar,
        then: impl FnOnce(&mut Lower) -> Result<Reg, Fault>,
        otherwise: impl FnOnce(&mut Lower) -> Result<Reg, Fault>,
    ) -> Result<Reg, Fault> {
        let dst = self.reg(scalar);
        let opposite = negated(known.as_ref());
        let ((), then) = self.under(known, |lower| {
            let src = then(lower)?;
            lower.emit(Instr::Copy { dst, src });
            Ok(())
        })?;
        let ((), otherwise) = self.under(opposite, |lower| {
            let src = otherwise(lower)?;
            lower.emit(Instr::Copy { dst, src });
            Ok(())
        })?;
        self.branch(cond, [then, otherwise], marks);
        Ok(dst)
    }
}
