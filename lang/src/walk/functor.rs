//! Computes a result for an expression from the results of its parts: [`ExprFunctor`] has extra arguments and a hook for each kind.
//!
//! The parts are visited first, with an explicit stack, so nesting is limited only by the body; hooks do not call each other.

use crate::ir::records::{flag, kind, leaf};
use crate::ir::{Call, Function, Value};

/// The results of the parts of an expression, in the order of [`ExprFunctor::operands`]; use them as an iterator or with `as_slice`.
pub type Results<'r, T> = std::vec::Drain<'r, T>;

macro_rules! functor {
    (
        nodes: { $($(#[$doc:meta])* $hook:ident($kind:pat);)* }
        leaves: { $($(#[$leaf_doc:meta])* $leaf_hook:ident($leaf:pat);)* }
    ) => {
        /// Computes a result for an expression: each hook receives a value and the results of its parts. Override the relevant hooks;
        /// [`ExprFunctor::visit_default`] handles all other values. Start with [`ExprFunctor::visit_expr`].
        ///
        /// An expression ends at named values: a use of a parameter or binding calls [`ExprFunctor::visit_var`], and the binding is a
        /// separate expression, so no expression is visited twice. The trait serves both Relax and TIR. The content of regions (If,
        /// functions) is not visited; a hook may traverse their bindings itself.
        ///
        /// The example computes the nesting depth of calls in an expression, and its source with minimal parentheses, for which the
        /// enclosing operation is an extra argument:
        ///
        /// ```
        /// use plugin_api::scalar::PrimOp;
        /// use plugin_api::prelude::*;
        /// use plugin_api::tvm::ExprFunctor;
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
        ///         let inside = matches!(value.view(), Expr::Arith { op: PrimOp::Mul, .. });
        ///         visit.extend(value.operands().map(|operand| (operand, inside)));
        ///     }
        ///     fn visit_default(&mut self, value: Value<'a>, _: Results<'_, String>, _: bool) -> String {
        ///         value.dim().and_then(|dim| dim.as_int()).map_or("?".to_string(), |int| int.to_string())
        ///     }
        ///     fn visit_var(&mut self, value: Value<'a>, _: bool) -> String {
        ///         value.name().unwrap_or("_").to_string()
        ///     }
        ///     fn visit_arith(&mut self, value: Value<'a>, parts: Results<'_, String>, inside: bool) -> String {
        ///         let product = matches!(value.view(), Expr::Arith { op: PrimOp::Mul, .. });
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
            /// The result for each value.
            type Output;

            /// The argument that a value receives from its enclosing expression; `()` if there is none.
            type Args: Clone;

            /// Computes the result of an expression, parts first.
            fn visit_expr(&mut self, value: Value<'a>, args: Self::Args) -> Self::Output
            where
                Self: Sized,
            {
                visit(self, value, args)
            }

            /// Selects the parts of a value that are visited before it, and their arguments: by default all operands, with the arguments of
            /// the value.
            fn operands(&mut self, value: Value<'a>, args: &Self::Args, visit: &mut Vec<(Value<'a>, Self::Args)>) {
                visit.extend(value.operands().map(|operand| (operand, args.clone())));
            }

            /// Visits any value whose hook is not overridden. A use of a named value is visited as a value of its kind.
            fn visit_default(
                &mut self,
                value: Value<'a>,
                parts: Results<'_, Self::Output>,
                args: Self::Args,
            ) -> Self::Output;

            /// Visits a use of a parameter, binding or other named value.
            fn visit_var(&mut self, var: Value<'a>, args: Self::Args) -> Self::Output {
                self.visit_default(var, Vec::new().drain(..), args)
            }

            /// Visits a call in Relax or TIR. The first part is the callee.
            fn visit_call(
                &mut self,
                call: Call<'a>,
                parts: Results<'_, Self::Output>,
                args: Self::Args,
            ) -> Self::Output {
                self.visit_default(call.value(), parts, args)
            }

            /// Visits the root function or a nested function.
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
        /// Visits a tuple.
        visit_tuple(kind::TUPLE);
        /// Visits an element of a tuple.
        visit_tuple_get(kind::TUPLE_GET);
        /// Visits an If, whose only part is the condition.
        visit_if(kind::IF);
        /// Visits blocks with a result, as an expression.
        visit_seq(kind::SEQ);
        /// Visits an alias: the same value under a different name or with a wider type.
        visit_alias(kind::ALIAS);
        /// Visits a value with a type that is checked at run time.
        visit_match_cast(kind::MATCH_CAST);
        /// TIR: visits an element of a buffer.
        visit_buffer_load(kind::LOAD);
        /// TIR: visits arithmetic, a comparison, logic or a conversion.
        visit_arith(kind::ARITH);
        /// TIR: visits a choice between two values.
        visit_select(kind::SELECT);
        /// TIR: visits a vector of numbers with a constant step.
        visit_ramp(kind::RAMP);
        /// TIR: visits a vector of equal elements.
        visit_broadcast(kind::BROADCAST);
        /// TIR: visits a vector of elements of vectors.
        visit_shuffle(kind::SHUFFLE);
        /// TIR: visits an expression with a value for a variable.
        visit_let(kind::LET);
        /// TIR: visits the data, an offset or a stride of a buffer.
        visit_buffer_part(kind::BUFFER_PART);
    }
    leaves: {
        /// Visits an operator.
        visit_op(leaf::OP);
        /// Visits a function of the module.
        visit_global_var(leaf::GLOBAL_VAR);
        /// Visits an external function.
        visit_extern_func(leaf::EXTERN_FUNC);
        /// Visits a constant.
        visit_constant(leaf::CONST);
        /// Visits a shape.
        visit_shape(leaf::SHAPE);
        /// Visits a dimension as a value; in TIR, a number or symbolic variable.
        visit_prim_value(leaf::PRIM);
        /// Visits a string.
        visit_string(leaf::STR);
        /// Visits a data type.
        visit_data_type(leaf::DTYPE);
        /// Visits a type argument of a call.
        visit_type_arg(leaf::TYPE);
    }
}

/// Visits parts first, with an explicit stack.
fn visit<'a, F: ExprFunctor<'a>>(f: &mut F, root: Value<'a>, args: F::Args) -> F::Output {
    enum Step<'a, A> {
        Enter(Value<'a>, A),
        /// A value to leave, with its arguments, and the number of results before its parts.
        Leave(Value<'a>, A, usize),
    }
    if root.is_leaf() {
        return dispatch_leaf(f, root, args);
    }
    let (mut steps, mut done, mut next) = (Vec::new(), Vec::new(), Vec::new());
    // A valid body has fewer levels than nodes. The limit is for edits, during which nested expressions may form a cycle.
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
