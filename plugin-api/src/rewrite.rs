//! Rewriting value by value: `body.rewrite(|value, rw| …)`, and [`ExprMutator`] with a hook for each kind.
//!
//! One forward pass over the body as it was. Nothing is copied before the first change, so a rewrite that changes
//! nothing costs a walk and gives the same handle back.

use crate::ir::edit::Edit;
use crate::ir::records::{LEAF_BIT, flag, kind};
use crate::ir::{Attr, AttrsId, Body, Call, Function, SealError, Type, TypeId, V, Value};
use crate::pass::PassError;

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It stays.
    Keep,
    /// Every use of it means this from now on. A new expression takes over the name of a binding.
    Replace(V),
    /// It goes; nothing may use it in the end.
    Remove,
}

/// Writes the new values of a rewrite, directly before the value that is being looked at.
pub struct Rewriter<'b> {
    body: &'b Body,
    edit: Option<Edit<'b>>,
    current: Value<'b>,
    in_dataflow: bool,
}

impl<'b> Rewriter<'b> {
    /// The body as it was.
    pub fn body(&self) -> &'b Body {
        self.body
    }

    /// The edit underneath, at the place before the current value and behind what is nested in it.
    pub fn edit(&mut self) -> &mut Edit<'b> {
        let current = self.current;
        self.edit.get_or_insert_with(|| self.body.edit()).just_before(current)
    }

    /// What a value of the body is now: itself, or what replaced it.
    pub fn v(&mut self, value: Value<'b>) -> V {
        let edit = self.edit.get_or_insert_with(|| self.body.edit());
        let v = edit.v(value);
        edit.resolve(v)
    }

    /// Looks at a value as it is now, new ones too.
    pub fn with<R>(&mut self, v: V, f: impl FnOnce(Value<'_>) -> R) -> R {
        self.edit.get_or_insert_with(|| self.body.edit()).with(v, f)
    }

    /// A new call of an operator, as an expression: replace something with it, use it once, or [`Rewriter::emit`] it.
    pub fn call(&mut self, op: &str, args: &[V], attrs: &[(&str, Attr)], ty: &Type) -> V {
        let edit = self.edit();
        let (callee, ty) = (edit.builder().op(op), edit.builder().ty(ty));
        let attrs = edit.builder().attrs(attrs.iter().cloned());
        edit.call(callee, args, attrs, ty, false, None)
    }

    /// A new call with the callee, attributes, type and effect of an old one, and other arguments (type arguments
    /// stay).
    pub fn call_like(&mut self, call: Call<'b>, args: &[V]) -> V {
        let old = call.value();
        let callee = self.v(call.callee());
        let types = old.operands().skip(1 + call.args().len()).map(|ty| self.v(ty));
        let args: Vec<V> = args.iter().copied().chain(types.collect::<Vec<_>>()).collect();
        let attrs = AttrsId(old.attrs().id());
        let ty = TypeId(old.ty().id());
        self.edit().call(callee, &args, attrs, ty, old.has_effect(), None)
    }

    /// Binds a new expression to a variable.
    pub fn emit(&mut self, v: V, name: &str) -> V {
        let inner = self.in_dataflow;
        let edit = self.edit();
        edit.bind(v, name);
        edit.update(v, |node| node.flags |= if inner { flag::INNER } else { 0 });
        v
    }

    fn apply(&mut self, value: Value<'b>, action: Action) {
        match action {
            Action::Keep => {}
            Action::Remove => self.edit().remove(value),
            Action::Replace(v) => self.replace(value, v),
        }
    }

    fn replace(&mut self, value: Value<'b>, v: V) {
        let n_old = self.body.len() as u32;
        let edit = self.edit();
        if v == edit.v(value) {
            return;
        }
        let unnamed = v.op & LEAF_BIT == 0 && v.op >= n_old && !edit.with(v, |v| v.is_bound());
        if unnamed && value.is_bound() {
            edit.bind(v, value.name().unwrap_or("lv"));
            let inner = value.node().map_or(0, |node| node.flags & flag::INNER);
            edit.update(v, |node| node.flags |= inner);
        }
        edit.replace(value, v);
    }

    fn finish(self) -> Result<Body, SealError> {
        self.edit.map_or_else(|| Ok(self.body.clone()), Edit::finish)
    }
}

impl Body {
    /// Asks `f` what becomes of each value, in program order: bindings and nested expressions, also of kinds that are
    /// not known; not parameters, blocks, branches and results. An If or a nested function is asked about before its
    /// content, which is left out if it is replaced or removed. The same handle if nothing was changed.
    ///
    /// # Errors
    /// If something removed is still used, or the result is not valid.
    pub fn rewrite<'b>(&'b self, mut f: impl FnMut(Value<'b>, &mut Rewriter<'b>) -> Action) -> Result<Body, SealError> {
        self.try_rewrite(|value, rw| Ok(f(value, rw)))
    }

    /// As [`Body::rewrite`], for an `f` that may fail.
    ///
    /// # Errors
    /// The first error of `f`; and as `rewrite`.
    pub fn try_rewrite<'b, E: From<SealError>>(
        &'b self,
        mut f: impl FnMut(Value<'b>, &mut Rewriter<'b>) -> Result<Action, E>,
    ) -> Result<Body, E> {
        let mut rw = Rewriter { body: self, edit: None, current: self.root(), in_dataflow: false };
        let mut flow_end = 0;
        let mut at = 1;
        while at < self.len() {
            let value = self.value_at(at);
            at += 1;
            let kind = value.kind();
            if matches!(kind, kind::DATAFLOW) {
                flow_end = value.end();
            }
            if matches!(kind, kind::PARAM | kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::YIELD) {
                continue;
            }
            (rw.current, rw.in_dataflow) = (value, at <= flow_end);
            let action = f(value, &mut rw)?;
            rw.apply(value, action);
            if action != Action::Keep {
                at = value.end();
            }
        }
        Ok(rw.finish()?)
    }
}

/// Rewriting with a hook for each kind, as TVM's mutators have it: override what is of interest and say what becomes of
/// the value. Hooks see values of the body as it was; [`Rewriter::v`] tells what an operand is now. Nothing is visited
/// twice, so no memo is needed.
#[allow(unused_variables, reason = "the defaults do nothing")]
pub trait ExprMutator<'b> {
    /// Rewrites a body; the same handle if nothing was changed.
    ///
    /// # Errors
    /// The first error of a hook, or why the result is not valid.
    fn mutate(&mut self, body: &'b Body) -> Result<Body, PassError>
    where
        Self: Sized,
    {
        mutate(self, body)
    }

    /// A call.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// A tuple.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_tuple(&mut self, tuple: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// An element of a tuple.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_tuple_get(&mut self, get: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// An If, before its branches.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_if(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// A nested function, before its content.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_function(&mut self, function: Function<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// A match_cast.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_match_cast(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// Another name for a value.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_alias(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// Anything else, of kinds that are not Relax or not known too.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_other(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }

    /// A leaf (operator, constant, shape…), once for each in the order of first use; what it gives takes its place
    /// everywhere. Leaves can be replaced by leaves only.
    ///
    /// # Errors
    /// As the pass wants.
    fn visit_leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        Ok(Action::Keep)
    }
}

fn mutate<'b, M: ExprMutator<'b>>(mutator: &mut M, body: &'b Body) -> Result<Body, PassError> {
    let mut leaves: Vec<Option<Action>> = vec![None; body.raw().leaves().len()];
    body.try_rewrite(|value, rw| {
        visit_leaves(mutator, value, rw, &mut leaves)?;
        // The result of a function has no hook of its own, but its leaf has.
        let after = body.value_at(value.end().min(body.len() - 1));
        if after.kind() == kind::YIELD {
            visit_leaves(mutator, after, rw, &mut leaves)?;
        }
        match value.kind() {
            kind::CALL => mutator.visit_call(Call(value), rw),
            kind::TUPLE => mutator.visit_tuple(value, rw),
            kind::TUPLE_GET => mutator.visit_tuple_get(value, rw),
            kind::IF => mutator.visit_if(value, rw),
            kind::FUNC => mutator.visit_function(Function(value), rw),
            kind::MATCH_CAST => mutator.visit_match_cast(value, rw),
            kind::ALIAS => mutator.visit_alias(value, rw),
            _ => mutator.visit_other(value, rw),
        }
    })
}

fn visit_leaves<'b, M: ExprMutator<'b>>(
    mutator: &mut M,
    value: Value<'b>,
    rw: &mut Rewriter<'b>,
    leaves: &mut [Option<Action>],
) -> Result<(), PassError> {
    for (i, leaf) in value.operands().enumerate().filter(|(_, operand)| operand.is_leaf()) {
        let Some(known) = leaves.get_mut((leaf.word() & !LEAF_BIT) as usize) else { continue };
        let action = match *known {
            Some(action) => action,
            None => *known.insert(mutator.visit_leaf(leaf, rw)?),
        };
        match action {
            Action::Replace(v) if v.is_leaf() => {
                let edit = rw.edit();
                let user = edit.v(value);
                edit.set_operand(user, i, v);
            }
            Action::Keep => {}
            _ => return Err(PassError::new("a leaf can only be kept or replaced by another leaf").at(value)),
        }
    }
    Ok(())
}
