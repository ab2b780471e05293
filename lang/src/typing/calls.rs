//! New expressions in rewrites with inferred types.

use crate::PassError;
use crate::ir::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{Attr, AttrsId, Body, Call, Dim, Expr, NodeSpec, Sym, Type, TypeId, V};
use crate::rewrite::mutators::Rewriter;
use crate::rewrite::{Edit, Operand};
use crate::typing::operators::{Infer, InferError};
use crate::typing::relations::{call_result, calls_are_pure};

impl Edit<'_> {
    /// Marks a call as effectful, so that it is neither removed nor repeated.
    pub fn mark_effect(&mut self, call: impl Operand) {
        self.update(call, |node| node.flags |= flag::IMPURE);
    }

    /// Returns a function of the module as a value, given its name and its body, which provides the type.
    pub fn function_of(&mut self, name: &str, body: &Body) -> V {
        let ty = match body.prim_func_type() {
            Some(ty) => self.builder().ty(&ty),
            // The symbolic variables of the called function get numbers in this body.
            None => Importer::of(body).ty(self.builder(), body.root().ty()),
        };
        self.builder().global_var(name, ty)
    }
}

impl Rewriter<'_> {
    /// Builds a tuple.
    pub fn tuple(&mut self, items: &[V]) -> V {
        let edit = self.edit();
        let types: Vec<Type> = items.iter().map(|item| edit.with(*item, |item| item.ty().to_owned())).collect();
        let ty = edit.builder().ty(&Type::tuple(types));
        edit.node(NodeSpec::new(kind::TUPLE).ty(ty), items, None)
    }

    /// Builds an element of a tuple, with the element type if known.
    pub fn tuple_get(&mut self, tuple: V, index: u32) -> V {
        let edit = self.edit();
        let element = edit.with(tuple, |tuple| tuple.ty().children().nth(index as usize).map(|ty| ty.to_owned()));
        let ty = edit.builder().ty(&element.unwrap_or(Type::Object));
        edit.node(NodeSpec::new(kind::TUPLE_GET).ty(ty).a(index), &[tuple], None)
    }

    /// Builds a call of a function: a function of the module, an external function, or a variable. The type and effect of the call follow
    /// from the function type. A call of an external function is an `R.call_packed`, about which nothing is known.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// /// Has a function of the device look at the result of each multiplication.
    /// fn observe(function: &Body) -> Result<Body, PassError> {
    ///     function.try_rewrite(|value, rw| {
    ///         if value.as_call_to("relax.multiply").is_none() {
    ///             return Ok(Action::Keep);
    ///         }
    ///         let (observer, product) = (rw.extern_func("acme.observe"), rw.v(value));
    ///         Ok(Action::Replace(rw.call_value(observer, &[product])?))
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// If the callee is not a function, or the arguments do not match the parameters.
    pub fn call_value(&mut self, callee: V, args: &[V]) -> Result<V, PassError> {
        let edit = self.edit();
        if edit.with(callee, |callee| matches!(callee.view(), Expr::ExternFunc(_))) {
            let (packed, ty) = (edit.builder().op("relax.call_packed"), edit.builder().ty(&Type::Object));
            let args: Vec<V> = std::iter::once(callee).chain(args.iter().copied()).collect();
            return Ok(edit.call(packed, &args, AttrsId::NONE, ty, true, None));
        }
        let types: Vec<Type> = args.iter().map(|arg| edit.with(*arg, |arg| arg.ty().to_owned())).collect();
        let function = edit.with(callee, |callee| callee.ty().to_owned());
        let ty = edit.builder().ty(&call_result(&function, &types)?);
        Ok(edit.call(callee, args, AttrsId::NONE, ty, !calls_are_pure(&function), None))
    }

    /// Builds a call of an operator. The operator infers its type from the arguments.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// /// Doubles what is negated.
    /// fn double(function: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    ///     function.try_rewrite(|value, rw| {
    ///         let Some(x) = value.as_call_to("relax.negative").and_then(|call| call.arg(0)) else {
    ///             return Ok(Action::Keep);
    ///         };
    ///         let x = rw.v(x);
    ///         Ok(Action::Replace(rw.call_op(ctx, "relax.add", &[x, x], &[])?))
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// If no plugin declares the operator, or the arguments do not match it.
    pub fn call_op(&mut self, infer: &dyn Infer, op: &str, args: &[V], attrs: &[(&str, Attr)]) -> Result<V, PassError> {
        let (new, place) = (self.call(op, args, attrs, &Type::Object), self.current());
        let infer = |call: Call<'_>| infer.infer(call).map_err(|error: InferError| error.of_call(call).at(place));
        if let Some(inferred) = self.with(new, |new| new.as_call().map(infer)).transpose()? {
            self.edit().set_type(new, &inferred.ty);
        }
        Ok(new)
    }

    /// Builds a call of an operator like [`Rewriter::call_op`], and binds it to a variable.
    ///
    /// # Errors
    /// As for `call_op`.
    pub fn emit_op(&mut self, infer: &dyn Infer, op: &str, args: &[V], attrs: &[(&str, Attr)]) -> Result<V, PassError> {
        let new = self.call_op(infer, op, args, attrs)?;
        Ok(self.emit(new, "gv"))
    }

    /// Builds a call of a PrimFunc of the module (see [`Edit::function_of`]) with the given result type, as `R.call_tir`. If `in_place` is
    /// given, the call is an `R.call_tir_inplace`; `in_place` lists, for each result, the argument that it overwrites, or -1.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// /// Computes what is negated by a PrimFunc.
    /// fn call_negate(function: &Body, negate: &Body) -> Result<Body, PassError> {
    ///     function.try_rewrite(|value, rw| {
    ///         let Some(x) = value.as_call_to("relax.negative").and_then(|call| call.arg(0)) else {
    ///             return Ok(Action::Keep);
    ///         };
    ///         let (callee, x) = (rw.edit().function_of("negate", negate), rw.v(x));
    ///         Ok(Action::Replace(rw.call_tir(callee, &[x], None, &value.ty().to_owned())))
    ///     })
    /// }
    /// ```
    pub fn call_tir(&mut self, callee: V, args: &[V], in_place: Option<&[i64]>, ty: &Type) -> V {
        let operands = [callee, self.tuple(args), self.type_arg(ty)];
        match in_place {
            None => self.call("relax.call_tir", &operands, &[], ty),
            Some(indices) => {
                let indices = Attr::list(indices.iter().copied());
                self.call("relax.call_tir_inplace", &operands, &[("inplace_indices", indices)], ty)
            }
        }
    }

    /// Returns a type as an argument of a call: `ty_args` in TVMScript.
    pub fn type_arg(&mut self, ty: &Type) -> V {
        let builder = self.edit().builder();
        let ty = builder.ty(ty);
        builder.type_arg(ty)
    }

    /// Binds a match_cast of a value to a variable. It defines the new symbolic variables in the type.
    pub fn match_cast(&mut self, v: V, ty: &Type) -> V {
        let ty = self.edit().builder().ty(ty);
        let cast = self.edit().node(NodeSpec::new(kind::MATCH_CAST).ty(ty), &[v], None);
        self.emit(cast, "gv")
    }

    /// Returns a shape as a value.
    pub fn shape(&mut self, dims: &[Dim]) -> V {
        self.edit().builder().shape(dims)
    }

    /// Returns an external function by its symbol.
    pub fn extern_func(&mut self, symbol: &str) -> V {
        self.edit().builder().extern_func(symbol, TypeId::NONE)
    }

    /// Builds a call of a function of the module, given its name and its body; see [`Rewriter::call_value`].
    ///
    /// # Errors
    /// If the arguments do not match the parameters.
    pub fn call_function(&mut self, name: &str, body: &Body, args: &[V]) -> Result<V, PassError> {
        let callee = self.edit().function_of(name, body);
        self.call_value(callee, args)
    }

    /// Returns a symbolic variable as a value: the scalar variable or parameter if there is one, otherwise `R.prim_value(n)`.
    pub fn symbol(&mut self, sym: Sym) -> V {
        match self.edit().scalar_of(sym) {
            Some(scalar) => self.v(scalar),
            None => self.edit().builder().prim_value(&Dim::Var(sym)),
        }
    }

    /// Binds a scalar expression to a variable. Like all scalar variables, it is also a symbolic variable.
    pub fn emit_scalar(&mut self, v: V, name: &str) -> V {
        self.edit().builder().make_symbol(v, name);
        self.emit(v, name)
    }
}
