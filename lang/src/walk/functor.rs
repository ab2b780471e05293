//! Computing something of an expression from its parts: [`ExprFunctor`], with a result, extra arguments and an own hook
//! for each kind.
//!
//! The parts are visited first, on a stack of the functor's own, so an expression may be nested as deeply as a body
//! allows: no hook calls another one.

use crate::ir::records::{flag, kind, leaf};
use crate::ir::{Call, Function, Value};

/// Results of the parts of an expression, in the order of [`ExprFunctor::operands`]; to be taken as an iterator or seen
/// with `as_slice`.
pub type Results<'r, T> = std::vec::Drain<'r, T>;

macro_rules! functor {
    (
        nodes: { $($(#[$doc:meta])* $hook:ident($kind:pat);)* }
        leaves: { $($(#[$leaf_doc:meta])* $leaf_hook:ident($leaf:pat);)* }
    ) => {
        /// Computes something of an expression: each hook gets a value and the results of its parts. Override what is
        /// of interest; [`ExprFunctor::visit_default`] is asked for everything else. Call [`ExprFunctor::visit_expr`].
        ///
        /// An expression ends where something has a name: a use of a parameter or binding is
        /// [`ExprFunctor::visit_var`], and the binding is another expression. So no expression is visited twice. It
        /// serves Relax and TIR alike. The content of regions (If, functions) is not visited; a hook may go through
        /// their bindings itself.
        ///
        /// How deep calls are nested in an expression, and its text with parentheses only where `^` needs them, for
        /// which what is around is an extra argument:
        ///
        /// ```
        /// use plugin_api::arith::prim;
        /// use plugin_api::prelude::*;
        /// use plugin_api::tir::prim_func;
        /// use plugin_api::walk::functor::Results;
        ///
        /// struct Depth;
        /// impl<'a> ExprFunctor<'a> for Depth {
        ///     type Output = u32;
        ///     type Args = ();
        ///     fn visit_default(&mut self, _: Value<'a>, parts: Results<'_, u32>, _: ()) -> u32 {
        ///         parts.max().unwrap_or(0)
        ///     }
        ///     fn visit_call(&mut self, _: Call<'a>, parts: Results<'_, u32>, _: ()) -> u32 {
        ///         1 + parts.max().unwrap_or(0)
        ///     }
        /// }
        ///
        /// struct Text;
        /// impl<'a> ExprFunctor<'a> for Text {
        ///     type Output = String;
        ///     /// Whether a product is around.
        ///     type Args = bool;
        ///     fn operands(&mut self, value: Value<'a>, _: &bool, visit: &mut Vec<(Value<'a>, bool)>) {
        ///         let inside = matches!(value.view(), Expr::Arith { op: prim::MUL, .. });
        ///         visit.extend(value.operands().map(|operand| (operand, inside)));
        ///     }
        ///     fn visit_default(&mut self, value: Value<'a>, _: Results<'_, String>, _: bool) -> String {
        ///         value.dim().and_then(|dim| dim.as_int()).map_or("?".to_string(), |int| int.to_string())
        ///     }
        ///     fn visit_var(&mut self, value: Value<'a>, _: bool) -> String {
        ///         value.name().unwrap_or("_").to_string()
        ///     }
        ///     fn visit_arith(&mut self, value: Value<'a>, parts: Results<'_, String>, inside: bool) -> String {
        ///         let product = matches!(value.view(), Expr::Arith { op: prim::MUL, .. });
        ///         let text = parts.as_slice().join(if product { " * " } else { " + " });
        ///         if inside && !product { format!("({text})") } else { text }
        ///     }
        /// }
        ///
        /// let body = prim_func(|t| {
        ///     let n = t.param("n", DType::I32);
        ///     t.evaluate((n + 2) * n);
        /// })?;
        /// let product = body.values().find_map(|value| value.stmt()?.evaluated()).expect("is there");
        /// assert_eq!(Text.visit_expr(product, false), "(n + 2) * n");
        /// assert_eq!(Depth.visit_expr(product, ()), 0);
        /// # Ok::<(), PassError>(())
        /// ```
        pub trait ExprFunctor<'a> {
            /// What is computed of each value.
            type Output;

            /// What a value is told by what is around it; `()` if nothing.
            type Args: Clone;

            /// Computes it of an expression: its parts first, then itself.
            fn visit_expr(&mut self, value: Value<'a>, args: Self::Args) -> Self::Output
            where
                Self: Sized,
            {
                visit(self, value, args)
            }

            /// Which parts of a value are to be visited before it, and with which arguments. All operands with the
            /// arguments of the value, if not overridden.
            fn operands(&mut self, value: Value<'a>, args: &Self::Args, visit: &mut Vec<(Value<'a>, Self::Args)>) {
                visit.extend(value.operands().map(|operand| (operand, args.clone())));
            }

            /// Any value whose hook is not overridden; a use of a name too, whose kind is that of what has the name.
            fn visit_default(
                &mut self,
                value: Value<'a>,
                parts: Results<'_, Self::Output>,
                args: Self::Args,
            ) -> Self::Output;

            /// Use of a parameter, of a binding, or of another value with a name.
            fn visit_var(&mut self, var: Value<'a>, args: Self::Args) -> Self::Output {
                self.visit_default(var, Vec::new().drain(..), args)
            }

            /// A call, of Relax or TIR: the first part is what is called.
            fn visit_call(
                &mut self,
                call: Call<'a>,
                parts: Results<'_, Self::Output>,
                args: Self::Args,
            ) -> Self::Output {
                self.visit_default(call.value(), parts, args)
            }

            /// A function, nested or the root.
            fn visit_function(
                &mut self,
                function: Function<'a>,
                parts: Results<'_, Self::Output>,
                args: Self::Args,
            ) -> Self::Output {
                self.visit_default(function.value(), parts, args)
            }

            $($(#[$doc])*
            fn $hook(&mut self, value: Value<'a>, parts: Results<'_, Self::Output>, args: Self::Args) -> Self::Output {
                self.visit_default(value, parts, args)
            })*

            $($(#[$leaf_doc])*
            fn $leaf_hook(&mut self, leaf: Value<'a>, args: Self::Args) -> Self::Output {
                self.visit_default(leaf, Vec::new().drain(..), args)
            })*
        }

        fn dispatch<'a, F: ExprFunctor<'a>>(
            f: &mut F,
            value: Value<'a>,
            parts: Results<'_, F::Output>,
            args: F::Args,
        ) -> F::Output {
            match value.kind() {
                kind::CALL => f.visit_call(Call(value), parts, args),
                kind::FUNC => f.visit_function(Function(value), parts, args),
                $($kind => f.$hook(value, parts, args),)*
                _ => f.visit_default(value, parts, args),
            }
        }

        fn dispatch_leaf<'a, F: ExprFunctor<'a>>(f: &mut F, value: Value<'a>, args: F::Args) -> F::Output {
            match value.leaf().map_or(0, |leaf| leaf.kind) {
                $($leaf => f.$leaf_hook(value, args),)*
                _ => f.visit_default(value, Vec::new().drain(..), args),
            }
        }
    };
}

functor! {
    nodes: {
        /// A tuple.
        visit_tuple(kind::TUPLE);
        /// An element of a tuple.
        visit_tuple_get(kind::TUPLE_GET);
        /// An If; its one part is the condition.
        visit_if(kind::IF);
        /// Blocks with a result, as an expression.
        visit_seq(kind::SEQ);
        /// The same value under another name or at a wider type.
        visit_alias(kind::ALIAS);
        /// A value at a type that is checked when run.
        visit_match_cast(kind::MATCH_CAST);
        /// TIR: element of a buffer.
        visit_buffer_load(kind::LOAD);
        /// TIR: arithmetic, comparison, logic, conversion.
        visit_arith(kind::ARITH);
        /// TIR: one of two values.
        visit_select(kind::SELECT);
        /// TIR: vector of numbers in steps.
        visit_ramp(kind::RAMP);
        /// TIR: vector of equal elements.
        visit_broadcast(kind::BROADCAST);
        /// TIR: vector of elements of vectors.
        visit_shuffle(kind::SHUFFLE);
        /// TIR: an expression in which a variable has a value.
        visit_let(kind::LET);
        /// TIR: data, offset or stride of a buffer.
        visit_buffer_part(kind::BUFFER_PART);
    }
    leaves: {
        /// An operator.
        visit_op(leaf::OP);
        /// A function of the module.
        visit_global_var(leaf::GLOBAL_VAR);
        /// An external function.
        visit_extern_func(leaf::EXTERN_FUNC);
        /// A constant.
        visit_constant(leaf::CONST);
        /// A shape.
        visit_shape(leaf::SHAPE);
        /// A dimension as a value; in TIR, a number or symbolic variable.
        visit_prim_value(leaf::PRIM);
        /// A string.
        visit_string(leaf::STR);
        /// A data type.
        visit_data_type(leaf::DTYPE);
        /// A type argument of a call.
        visit_type_arg(leaf::TYPE);
    }
}

/// Parts first, on a stack of its own.
fn visit<'a, F: ExprFunctor<'a>>(f: &mut F, root: Value<'a>, args: F::Args) -> F::Output {
    enum Step<'a, A> {
        Enter(Value<'a>, A),
        /// With the number of results before those of its parts.
        Leave(Value<'a>, A, usize),
    }
    if root.is_leaf() {
        return dispatch_leaf(f, root, args);
    }
    let (mut steps, mut done, mut next) = (Vec::new(), Vec::new(), Vec::new());
    // No valid body is nested deeper than it has nodes; while a pass edits, nested expressions can be a cycle.
    let mut left = root.raw.nodes().len();
    f.operands(root, &args, &mut next);
    steps.extend(next.drain(..).rev().map(|(value, args)| Step::Enter(value, args)));
    while let Some(step) = steps.pop() {
        let result = match step {
            Step::Enter(value, args) if value.is_leaf() => dispatch_leaf(f, value, args),
            Step::Enter(value, args) if value.has(flag::BOUND) || left == 0 => f.visit_var(value, args),
            Step::Enter(value, args) => {
                left -= 1;
                f.operands(value, &args, &mut next);
                steps.push(Step::Leave(value, args, done.len()));
                steps.extend(next.drain(..).rev().map(|(value, args)| Step::Enter(value, args)));
                continue;
            }
            Step::Leave(value, args, from) => {
                left += 1;
                dispatch(f, value, done.drain(from..), args)
            }
        };
        done.push(result);
    }
    dispatch(f, root, done.drain(..), args)
}
