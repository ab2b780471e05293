//! Rewriting value by value: `body.rewrite(|value, rw| …)`, and mutators with a hook per kind of value: [`ExprMutator`] for Relax,
//! [`ExprMutatorBase`] for Relax outside A-normal form, [`StmtMutator`] for TIR.
//!
//! Each makes one forward pass over the old body. Nothing is copied before the first change, so a rewrite without changes costs one
//! traversal and keeps the handle.

use crate::PassError;
use crate::ir::records::{LEAF_BIT, flag, kind};
use crate::ir::{Attr, AttrsId, Body, Call, Function, SealError, Type, TypeId, V, Value};
use crate::rewrite::Edit;

/// The action to take for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The value is kept.
    Keep,
    /// Later uses of the value refer to the replacement. A new expression that replaces a binding gets its name. The replacement may use
    /// the value, so `exp(x)` can become `relu(exp(x))`.
    Replace(V),
    /// The value is removed; it must be unused at the end.
    Remove,
}

/// Writes the new values of a rewrite, directly before the current value.
pub struct Rewriter<'b> {
    body: &'b Body,
    edit: Option<Edit<'b>>,
    current: Value<'b>,
}

impl<'b> Rewriter<'b> {
    /// Returns the body before the rewrite.
    pub fn body(&self) -> &'b Body {
        self.body
    }

    /// Returns the current value.
    pub(crate) fn current(&self) -> Value<'b> {
        self.current
    }

    /// Returns the underlying edit, positioned before the current value and after its nested expressions.
    pub fn edit(&mut self) -> &mut Edit<'b> {
        let current = self.current;
        self.edit.get_or_insert_with(|| self.body.edit()).just_before(current)
    }

    /// Returns the current state of a value of the body: the value or its replacement.
    pub fn v(&mut self, value: Value<'b>) -> V {
        let edit = self.edit.get_or_insert_with(|| self.body.edit());
        let v = edit.v(value);
        edit.resolve(v)
    }

    /// Calls `f` with the current state of a value, old or new.
    pub fn with<R>(&mut self, v: V, f: impl FnOnce(Value<'_>) -> R) -> R {
        self.edit.get_or_insert_with(|| self.body.edit()).with(v, f)
    }

    /// Builds a call of an operator, as an expression: use it as a replacement or as one operand, or bind it with [`Rewriter::emit`].
    pub fn call(&mut self, op: &str, args: &[V], attrs: &[(&str, Attr)], ty: &Type) -> V {
        let edit = self.edit();
        let (callee, ty) = (edit.builder().op(op), edit.builder().ty(ty));
        let attrs = edit.builder().attrs(attrs.iter().cloned());
        edit.call(callee, args, attrs, ty, false, None)
    }

    /// Builds a call with the callee, attributes, type, type arguments and effect of an old call, but different arguments.
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
        let edit = self.edit();
        edit.bind(v, name);
        self.hide(v);
        v
    }

    /// Makes a new variable in the dataflow block of the current value visible only in that block.
    fn hide(&mut self, v: V) {
        let current = self.current;
        let edit = self.edit();
        if edit.kind_around(current) == kind::DATAFLOW && edit.stands_with(v, current) {
            edit.update(v, |node| node.flags |= flag::INNER);
        }
    }

    /// Renames a named value. The name is a hint; printing makes names unique.
    pub fn rename(&mut self, value: Value<'b>, name: &str) {
        let edit = self.edit();
        let v = edit.v(value);
        edit.set_name(v, name);
    }

    /// Sets the type of a value. The types of its users do not change; call [`infer_types`](crate::typing::infer_types::infer_types) to update them.
    pub fn set_type(&mut self, value: Value<'b>, ty: &Type) {
        let edit = self.edit();
        let v = edit.v(value);
        edit.set_type(v, ty);
    }

    /// Returns the number of nodes, including those of the old body.
    fn n_nodes(&self) -> usize {
        self.edit.as_ref().map_or(self.body.len(), |edit| edit.n_nodes())
    }

    /// Names the expressions nested in the nodes from `from` on, except for tuples, to restore A-normal form. Outside of blocks, the named insertions
    /// from `inserted` on are wrapped in a block.
    fn bind_nested(&mut self, from: usize, inserted: usize) {
        let current = self.current;
        // TIR expressions stay nested.
        let relax = self.body.function().is_some();
        let Some(edit) = self.edit.as_mut().filter(|edit| relax && edit.n_nodes() > from) else { return };
        let around = edit.kind_around(current);
        let name = if around == kind::DATAFLOW { "lv" } else { "gv" };
        let in_block = matches!(around, kind::BLOCK | kind::DATAFLOW);
        for at in from..edit.n_nodes() {
            let Some(edit) = &mut self.edit else { return };
            for operand in edit.operands_of(at) {
                let Some(edit) = &mut self.edit else { return };
                let operand = edit.resolve(operand);
                if edit.with(operand, |v| v.is_nested() && v.kind() != kind::TUPLE) {
                    edit.bind(operand, name);
                    if !in_block && (operand.op as usize) < self.body.len() {
                        edit.enclose_old(self.body.value_at(operand.op as usize));
                    }
                    self.hide(operand);
                }
            }
        }
        self.enclose(inserted);
    }

    fn n_inserted(&self) -> usize {
        self.edit.as_ref().map_or(0, Edit::n_inserted) as usize
    }

    /// Wraps the bindings from `inserted` on in a block if the current value is outside any block, for example in a result.
    fn enclose(&mut self, inserted: usize) {
        if self.n_inserted() > inserted
            && self.body.function().is_some()
            && let Some(edit) = &mut self.edit
            && !matches!(edit.kind_around(self.current), kind::BLOCK | kind::DATAFLOW)
        {
            edit.enclose_new(inserted, self.current, "gv");
        }
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
        // An old value may have been nested in the value that it replaces.
        let unnamed = v.op & LEAF_BIT == 0 && edit.with(v, |v| !v.is_bound() && (v.op >= n_old || v.is_nested()));
        if unnamed && value.is_bound() {
            // The value may already have been renamed.
            let name = edit.with(edit.v(value), |value| value.name().unwrap_or("lv").to_string());
            edit.bind(v, &name);
            let inner = value.node().map_or(0, |node| node.flags & flag::INNER);
            let inner = if edit.stands_with(v, value) { inner } else { 0 };
            edit.update(v, |node| node.flags |= inner);
        }
        edit.replace(value, v);
    }

    fn finish(self) -> Result<Body, SealError> {
        self.edit.map_or_else(|| Ok(self.body.clone()), Edit::finish)
    }
}

impl Body {
    /// Calls `f` with each value, in program order, and applies the action that it returns. The values are bindings and nested expressions,
    /// including those of unknown kinds, but not parameters, blocks, branches and results. An If or nested function precedes its content,
    /// which is skipped if the value is replaced or removed. An unchanged body keeps its handle.
    ///
    /// # Errors
    /// If a removed value is still used, or the result is not valid.
    pub fn rewrite<'b>(&'b self, mut f: impl FnMut(Value<'b>, &mut Rewriter<'b>) -> Action) -> Result<Body, SealError> {
        self.try_rewrite(|value, rw| Ok(f(value, rw)))
    }

    /// Like [`Body::rewrite`], for a fallible `f`.
    ///
    /// # Errors
    /// The first error of `f`, or an error of `rewrite`.
    pub fn try_rewrite<'b, E: From<SealError>>(
        &'b self,
        mut f: impl FnMut(Value<'b>, &mut Rewriter<'b>) -> Result<Action, E>,
    ) -> Result<Body, E> {
        rewrite_all(self, |value, rw| if is_asked_about(value) { f(value, rw) } else { Ok(Action::Keep) })
    }
}

/// Returns true if a rewrite visits a value.
fn is_asked_about(value: Value<'_>) -> bool {
    !matches!(value.kind(), kind::PARAM | kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::YIELD)
}

/// Visits every value, in program order.
fn rewrite_all<'b, E: From<SealError>>(
    body: &'b Body,
    mut f: impl FnMut(Value<'b>, &mut Rewriter<'b>) -> Result<Action, E>,
) -> Result<Body, E> {
    let mut rw = Rewriter { body, edit: None, current: body.root() };
    let mut at = 1;
    while at < body.len() {
        let value = body.value_at(at);
        rw.current = value;
        // The loop was removed together with the enclosing loop.
        if rw.edit.as_ref().is_some_and(|edit| edit.is_dissolved(value)) {
            at += 1;
            continue;
        }
        let inserted = rw.n_inserted();
        let action = f(value, &mut rw)?;
        rw.enclose(inserted);
        rw.apply(value, action);
        at = if action == Action::Keep { at + 1 } else { value.end() };
    }
    Ok(rw.finish()?)
}

/// The processing of leaves and nodes; each kind of mutator implements this trait with its hooks.
trait Hooks<'b> {
    /// Visits a value that has a name.
    fn define(&mut self, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError>;
    fn leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError>;
    fn node(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError>;
}

fn mutate<'b>(hooks: &mut impl Hooks<'b>, body: &'b Body) -> Result<Body, PassError> {
    let mut leaves: Vec<Option<Action>> = vec![None; body.raw().leaves().len()];
    rewrite_all(body, |value, rw| {
        // The result of a function or branch lacks a hook, but its leaves are visited.
        visit_leaves(hooks, value, rw, &mut leaves)?;
        if value.is_bound() {
            hooks.define(value, rw)?;
        }
        if is_asked_about(value) { hooks.node(value, rw) } else { Ok(Action::Keep) }
    })
}

macro_rules! mutator_trait {
    ($(#[$doc:meta])* $name:ident, $hooks:ident, ($($kind:pat => $hook:ident($arg:ident: $ty:ty) = $make:path, $what:literal;)*)) => {
        $(#[$doc])*
        #[allow(unused_variables, reason = "the defaults do nothing")]
        pub trait $name<'b> {
            /// Rewrites a body; an unchanged body keeps its handle.
            ///
            /// # Errors
            /// The first error of a hook, or the reason why the result is not valid.
            fn mutate(&mut self, body: &'b Body) -> Result<Body, PassError>
            where
                Self: Sized,
            {
                mutate(&mut $hooks(self), body)
            }

            $(#[doc = $what]
            ///
            /// # Errors
            /// Any error that the pass returns.
            fn $hook(&mut self, $arg: $ty, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
                Ok(Action::Keep)
            })*

            /// Visits any other value, including those of unknown kinds.
            ///
            /// # Errors
            /// Any error that the pass returns.
            fn visit_other(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
                Ok(Action::Keep)
            }

            /// Visits a value that defines a name, before the hook of its kind: a parameter (also of a nested function) or a binding; in
            /// TIR also a variable, buffer or block. [`Rewriter::rename`] changes its name, [`Rewriter::set_type`] its type.
            ///
            /// # Errors
            /// Any error that the pass returns.
            fn visit_var_def(&mut self, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
                Ok(())
            }

            /// Visits a leaf (operator, constant, number, shape…) once, in the order of first use; a replacement applies to all its uses. A
            /// leaf can be replaced only by a leaf.
            ///
            /// # Errors
            /// Any error that the pass returns.
            fn visit_leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
                Ok(Action::Keep)
            }
        }

        struct $hooks<'m, M>(&'m mut M);

        impl<'b, M: $name<'b>> $hooks<'_, M> {
            fn dispatch(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
                match value.kind() {
                    $($kind => self.0.$hook($make(value), rw),)*
                    _ => self.0.visit_other(value, rw),
                }
            }
        }
    };
}

macro_rules! expr_mutator {
    ($(#[$doc:meta])* $name:ident, $hooks:ident) => {
        mutator_trait! {
            $(#[$doc])*
            $name, $hooks, (
                kind::CALL => visit_call(call: Call<'b>) = Call, "A call.";
                kind::TUPLE => visit_tuple(tuple: Value<'b>) = std::convert::identity, "A tuple.";
                kind::TUPLE_GET => visit_tuple_get(get: Value<'b>) = std::convert::identity, "An element of a tuple.";
                kind::IF => visit_if(value: Value<'b>) = std::convert::identity, "An If, before its branches.";
                kind::SEQ => visit_seq(value: Value<'b>) = std::convert::identity,
                    "Blocks with a result, as an expression, before its content.";
                kind::FUNC => visit_function(function: Function<'b>) = Function,
                    "A nested function, before its content.";
                kind::MATCH_CAST => visit_match_cast(value: Value<'b>) = std::convert::identity, "A match_cast.";
                kind::ALIAS => visit_alias(value: Value<'b>) = std::convert::identity, "Another name for a value.";
            )
        }
    };
}

expr_mutator! {
    /// Rewrites with a hook for each kind, like TVM's mutators: override the relevant hooks and return the action for the value. The input
    /// need not be in A-normal form: a nested expression is visited before its user and stays nested. Expressions written by hooks also
    /// stay nested, whereas [`ExprMutator`] names them.
    ///
    /// Types are kept. If new values change the types of their users, call [`infer_types`](crate::typing::infer_types::infer_types) to update them.
    ///
    /// Hooks receive values of the old body. [`Rewriter::v`] returns the current state of an operand; it replaces TVM's memo, and is always
    /// up to date, because operands precede their users. Each value is visited once, without recursion.
    ///
    /// The example removes two consecutive negations, including nested ones:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::{AttrsId, BodyBuilder};
    /// use plugin_api::rewrite::mutators::ExprMutatorBase;
    ///
    /// struct Simplify;
    /// impl<'b> ExprMutatorBase<'b> for Simplify {
    ///     fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
    ///         let twice = |call: Call<'b>| {
    ///             let inner = call.value().as_call_to("relax.negative")?.arg(0)?.as_call_to("relax.negative")?;
    ///             inner.arg(0)
    ///         };
    ///         Ok(twice(call).map_or(Action::Keep, |x| Action::Replace(rw.v(x))))
    ///     }
    /// }
    ///
    /// let mut b = BodyBuilder::new();
    /// b.begin_function(0, AttrsId::NONE, None);
    /// let ty = b.ty(&Type::tensor([8, 8], DType::F32));
    /// let (x, negative, exp) = (b.param("x", ty), b.op("relax.negative"), b.op("relax.exp"));
    /// b.begin_block();
    /// let once = b.call(negative, &[x], AttrsId::NONE, ty, false, None);
    /// let twice = b.call(negative, &[once], AttrsId::NONE, ty, false, None);
    /// let y = b.call(exp, &[twice], AttrsId::NONE, ty, false, Some("y"));
    /// b.end();
    /// b.end_function(y, ty);
    /// let body = Simplify.mutate(&b.finish()?)?;
    /// let ops: Vec<_> = body.values().filter_map(|value| value.as_call()?.op()).collect();
    /// assert_eq!(ops, ["relax.exp"]);
    /// # Ok::<(), PassError>(())
    /// ```
    ExprMutatorBase, BaseHooks
}

impl<'b, M: ExprMutatorBase<'b>> Hooks<'b> for BaseHooks<'_, M> {
    fn define(&mut self, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        self.0.visit_var_def(var, rw)
    }

    fn leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        self.0.visit_leaf(leaf, rw)
    }

    fn node(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        self.dispatch(value, rw)
    }
}

expr_mutator! {
    /// Like [`ExprMutatorBase`], but brings expressions written by hooks into A-normal form: their operands become bindings, and may
    /// therefore be used repeatedly. Blocks are created where needed.
    ///
    /// The first example removes an If whose branches merely return the same value:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::{BlockBuilder, ExprMutator};
    ///
    /// struct IfCollapser;
    /// impl<'b> ExprMutator<'b> for IfCollapser {
    ///     fn visit_if(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
    ///         let Some((then, other)) = value.branches() else { return Ok(Action::Keep) };
    ///         match (then.result(), other.result()) {
    ///             (Some(a), Some(b)) if a == b => Ok(Action::Replace(rw.v(a))),
    ///             _ => Ok(Action::Keep),
    ///         }
    ///     }
    /// }
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("main", |b| {
    ///     let x = b.param("x", Type::tensor([8, 8], DType::F32));
    ///     let c = b.param("c", Type::tensor([0i64; 0], DType::BOOL));
    ///     let y = b.emit(b.if_(c, |_| x, |_| x));
    ///     b.emit_func_output(b.tuple(&[y, x]));
    /// });
    /// let module = bb.get()?;
    /// let body = IfCollapser.mutate(module.get("main").expect("is there"))?;
    /// assert!(body.values().all(|value| value.branches().is_none()));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// The second example replaces elements of locally built tuples by the original values:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::{BlockBuilder, ExprMutator};
    ///
    /// struct TupleMutator;
    /// impl<'b> ExprMutator<'b> for TupleMutator {
    ///     fn visit_tuple_get(&mut self, get: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
    ///         let element = get.as_tuple_get().and_then(|(tuple, index)| match tuple.view() {
    ///             Expr::Tuple(tuple) => tuple.operand(index as usize),
    ///             _ => None,
    ///         });
    ///         Ok(element.map_or(Action::Keep, |element| Action::Replace(rw.v(element))))
    ///     }
    /// }
    ///
    /// let ctx = Ctx::detached();
    /// let bb = BlockBuilder::new(&ctx);
    /// bb.function("main", |b| {
    ///     let (x, y) = (b.param("x", Type::Object), b.param("y", Type::Object));
    ///     let pair = b.emit(b.tuple(&[x, y]));
    ///     b.emit_func_output(b.emit(b.get(pair, 1)));
    /// });
    /// let module = bb.get()?;
    /// let body = TupleMutator.mutate(module.get("main").expect("is there"))?;
    /// let result = body.function().and_then(|function| function.result()).expect("a result");
    /// assert_eq!(result.name(), Some("y"));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// The third example merges two convolutions into one call if the second is the only user of the first;
    /// [`Users`](crate::walk::users::Users) finds the users of each value:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::{AttrsId, BodyBuilder};
    /// use plugin_api::tvm::ExprMutator;
    ///
    /// struct ConvConv { users: Users }
    /// impl<'b> ExprMutator<'b> for ConvConv {
    ///     fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
    ///         let first = |call: Call<'b>| call.value().as_call_to("relax.nn.conv2d")?.arg(0)?.as_call_to("relax.nn.conv2d");
    ///         let Some(inner) = first(call).filter(|inner| self.users.only(inner.value()) == Some(call.value())) else {
    ///             return Ok(Action::Keep);
    ///         };
    ///         let args: Vec<V> = inner.args().chain(call.args().skip(1)).map(|arg| rw.v(arg)).collect();
    ///         Ok(Action::Replace(rw.call("my.conv2d_conv2d", &args, &[], &call.ty().to_owned())))
    ///     }
    /// }
    ///
    /// let mut b = BodyBuilder::new();
    /// b.begin_function(0, AttrsId::NONE, None);
    /// let ty = b.ty(&Type::tensor([1, 4, 8, 8], DType::F32));
    /// let (x, w, conv) = (b.param("x", ty), b.param("w", ty), b.op("relax.nn.conv2d"));
    /// b.begin_block();
    /// let first = b.call(conv, &[x, w], AttrsId::NONE, ty, false, Some("first"));
    /// let second = b.call(conv, &[first, w], AttrsId::NONE, ty, false, Some("second"));
    /// b.end();
    /// b.end_function(second, ty);
    /// let body = b.finish()?;
    /// let fused = remove_all_unused(&ConvConv { users: body.users() }.mutate(&body)?)?;
    /// let ops: Vec<_> = fused.values().filter_map(|value| value.as_call()?.op()).collect();
    /// assert_eq!(ops, ["my.conv2d_conv2d"]);
    /// # Ok::<(), PassError>(())
    /// ```
    ExprMutator, NormalHooks
}

impl<'b, M: ExprMutator<'b>> Hooks<'b> for NormalHooks<'_, M> {
    fn define(&mut self, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        self.0.visit_var_def(var, rw)
    }

    fn leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        self.0.visit_leaf(leaf, rw)
    }

    fn node(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let (from, inserted) = (rw.n_nodes(), rw.n_inserted());
        let action = self.dispatch(value, rw)?;
        rw.bind_nested(from, inserted);
        Ok(action)
    }
}

mutator_trait! {
    /// Rewrites TIR with a hook for each kind of statement, and for expressions. Return [`Action::Remove`] to remove a statement; write new
    /// statements before it with [`Rewriter::tir`]. Expressions are replaced as in [`ExprMutatorBase`]. Hooks visit a statement before its
    /// content; the content of a removed statement is not visited.
    ///
    /// After [`Tir::loop_body`](crate::tir::Tir::loop_body) or [`Tir::content`](crate::tir::Tir::content), return [`Action::Keep`]: the call has
    /// already removed the statement and kept its content, which is visited next. [`Action::Remove`] would also remove the content.
    ///
    /// The example replaces a single-iteration loop by its body:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tvm::StmtMutator;
    /// use plugin_api::tir::prim_func;
    ///
    /// struct NoLoopOfOne;
    /// impl<'b> StmtMutator<'b> for NoLoopOfOne {
    ///     fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
    ///         if let Some(Stmt::For { var, min, extent, .. }) = stmt.stmt()
    ///             && extent.dim().and_then(|extent| extent.as_int()) == Some(1)
    ///             && min.is_leaf()
    ///         {
    ///             let min = rw.v(min);
    ///             rw.edit().replace(var, min);
    ///             rw.edit().dissolve(stmt);
    ///         }
    ///         Ok(Action::Keep)
    ///     }
    /// }
    ///
    /// // for i in range(1): A[i] = 1
    /// let body = prim_func(|t| {
    ///     let a = t.buffer_param("A", &[8], DType::I32);
    ///     t.serial("i", 1, |i| t.store(a, [i], 1));
    /// })?;
    /// // A[0] = 1
    /// let body = NoLoopOfOne.mutate(&body)?;
    /// let statements: Vec<_> = body.values().filter_map(|value| value.stmt()).collect();
    /// assert!(!statements.iter().any(|stmt| matches!(stmt, Stmt::For { .. })));
    /// assert!(statements.iter().any(|stmt| matches!(stmt, Stmt::Store { .. })));
    /// # Ok::<(), PassError>(())
    /// ```
    StmtMutator, StmtHooks, (
        kind::FOR => visit_for(stmt: Value<'b>) = std::convert::identity, "A loop, before its content.";
        kind::WHILE => visit_while(stmt: Value<'b>) = std::convert::identity,
            "A loop that runs while a condition holds, before its content.";
        kind::SBLOCK => visit_sblock(stmt: Value<'b>) = std::convert::identity,
            "A schedulable block, before its content.";
        kind::STORE => visit_buffer_store(stmt: Value<'b>) = std::convert::identity, "A store.";
        kind::EVALUATE => visit_evaluate(stmt: Value<'b>) = std::convert::identity,
            "An expression that is evaluated for its effect.";
        kind::COND => visit_if_then_else(stmt: Value<'b>) = std::convert::identity, "An If, before its scopes.";
        kind::ATTR => visit_attr_stmt(stmt: Value<'b>) = std::convert::identity,
            "An attribute of statements, before the statements.";
        kind::ASSERT => visit_assert_stmt(stmt: Value<'b>) = std::convert::identity, "An assertion.";
        kind::BIND => visit_bind(stmt: Value<'b>) = std::convert::identity, "A scalar that gets a name.";
        kind::LAUNCH => visit_launch(stmt: Value<'b>) = std::convert::identity,
            "Content that threads execute, before that content.";
        kind::RETURN => visit_return(stmt: Value<'b>) = std::convert::identity, "A return.";
        kind::BREAK => visit_break(stmt: Value<'b>) = std::convert::identity, "The end of the innermost loop.";
        kind::CONTINUE => visit_continue(stmt: Value<'b>) = std::convert::identity, "The end of one iteration.";
        kind::BUFFER => visit_buffer(buffer: Value<'b>) = std::convert::identity,
            "A buffer: matched, allocated or declared.";
        kind::WHERE => visit_where(stmt: Value<'b>) = std::convert::identity,
            "The condition under which the schedulable block around it is executed.";
        kind::ACCESS => visit_access(access: Value<'b>) = std::convert::identity,
            "The region of a buffer that a block reads or writes, that a call takes, or that another buffer matches.";
        kind::ANNOTATE => visit_annotate(stmt: Value<'b>) = std::convert::identity,
            "Annotations of the schedulable block around it.";
        kind::INIT => visit_init(stmt: Value<'b>) = std::convert::identity,
            "The initialization of a reduction block, before its content.";
        kind::LOAD => visit_buffer_load(load: Value<'b>) = std::convert::identity,
            "An element of a buffer, as an expression.";
        kind::CALL => visit_call(call: Call<'b>) = Call, "A call, as an expression.";
        kind::ARITH => visit_arith(value: Value<'b>) = std::convert::identity,
            "Arithmetic, comparison, logic or conversion.";
        kind::SELECT => visit_select(value: Value<'b>) = std::convert::identity, "One of two values.";
        kind::LET => visit_let(value: Value<'b>) = std::convert::identity,
            "An expression with a local variable.";
        kind::RAMP => visit_ramp(value: Value<'b>) = std::convert::identity, "A vector of equally spaced numbers.";
        kind::BROADCAST => visit_broadcast(value: Value<'b>) = std::convert::identity, "A vector of equal elements.";
        kind::SHUFFLE => visit_shuffle(value: Value<'b>) = std::convert::identity,
            "A vector of elements selected from vectors.";
        kind::BUFFER_PART => visit_buffer_part(value: Value<'b>) = std::convert::identity,
            "The data, the offset or a stride of a buffer.";
    )
}

impl<'b, M: StmtMutator<'b>> Hooks<'b> for StmtHooks<'_, M> {
    fn define(&mut self, var: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        self.0.visit_var_def(var, rw)
    }

    fn leaf(&mut self, leaf: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        self.0.visit_leaf(leaf, rw)
    }

    fn node(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        self.dispatch(value, rw)
    }
}

/// Visits the leaves among the operands of a value. Each leaf is visited once, and its action is cached.
fn visit_leaves<'b>(
    hooks: &mut impl Hooks<'b>,
    value: Value<'b>,
    rw: &mut Rewriter<'b>,
    leaves: &mut [Option<Action>],
) -> Result<(), PassError> {
    for (i, leaf) in value.operands().enumerate().filter(|(_, operand)| operand.is_leaf()) {
        let Some(known) = leaves.get_mut((leaf.word() & !LEAF_BIT) as usize) else { continue };
        let action = match *known {
            Some(action) => action,
            None => *known.insert(hooks.leaf(leaf, rw)?),
        };
        match action {
            Action::Replace(v) if v.is_leaf() => {
                let edit = rw.edit();
                let user = edit.v(value);
                edit.set_operand(user, i, v);
            }
            Action::Keep => {}
            _ => return Err(PassError::new("a leaf can only be kept, or replaced by another leaf").at(value)),
        }
    }
    Ok(())
}
