//! Turns each function that FuseOps created into one PrimFunc.

use super::joined_function::{Joined, joined};
use crate::dead_code_elimination::without_dead_code;
use crate::functions::expand_tuple_arguments::expand_tuple_arguments;
use crate::functions::remove_unused_parameters::remove_unused_parameters;
use plugin_api::prelude::*;
use plugin_api::walk::in_place::WrittenParams;
use std::collections::BTreeMap;

declare_pass! {
    /// Replaces each function marked `Primitive` by one PrimFunc.
    ///
    /// The PrimFunc runs, in order, the PrimFuncs that the function called. Intermediate results become buffers that it
    /// allocates. Calls of the function become `R.call_tir`, and the elements of tuples and the symbolic variables of
    /// shapes become separate arguments. ExpandTupleArguments and RemoveUnusedParameters run before this pass, and
    /// DeadCodeElimination after it.
    ///
    /// Expects functions marked `Primitive` to consist of `R.call_tir` and `R.call_tir_inplace` of schedulable
    /// PrimFuncs, and of tuples. Results do not change. Other PrimFuncs never change.
    ///
    /// ```relax before
    /// @T.prim_func(private=True, s_tir=True)
    /// def double(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
    ///     for i in range(T.int64(4)):
    ///         with T.sblock("double"):
    ///             vi = T.axis.spatial(T.int64(4), i)
    ///             T.reads(A[vi])
    ///             T.writes(B[vi])
    ///             B[vi] = A[vi] * T.float32(2.0)
    ///
    /// @R.function(private=True)
    /// def twice(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    ///     R.func_attr({"Primitive": True})
    ///     cls = Module
    ///     with R.dataflow():
    ///         y = R.call_tir(cls.double, (x,), out_ty=R.Tensor((4,), "float32"))
    ///         z = R.call_tir(cls.double, (y,), out_ty=R.Tensor((4,), "float32"))
    ///         R.output(z)
    ///     return z
    ///
    /// @R.function
    /// def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    ///     cls = Module
    ///     y: R.Tensor((4,), "float32") = cls.twice(x)
    ///     return y
    /// ```
    /// ```relax after
    /// @T.prim_func(private=True, s_tir=True)
    /// def twice(
    ///     x: T.Buffer((T.int64(4),), "float32"), B_intermediate_1: T.Buffer((T.int64(4),), "float32")
    /// ):
    ///     T.func_attr({"tirx.noalias": True})
    ///     B_intermediate = T.sblock_alloc_buffer((T.int64(4),))
    ///     for i in range(T.int64(4)):
    ///         with T.sblock("double"):
    ///             vi = T.axis.spatial(T.int64(4), i)
    ///             T.reads(x[vi])
    ///             T.writes(B_intermediate[vi])
    ///             B_intermediate[vi] = x[vi] * T.float32(2.0)
    ///     for i in range(T.int64(4)):
    ///         with T.sblock("double1"):
    ///             vi = T.axis.spatial(T.int64(4), i)
    ///             T.reads(B_intermediate[vi])
    ///             T.writes(B_intermediate_1[vi])
    ///             B_intermediate_1[vi] = B_intermediate[vi] * T.float32(2.0)
    ///
    /// @R.function
    /// def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    ///     cls = Module
    ///     y = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), "float32"))
    ///     return y
    /// ```
    pub module pass FUSE_TIR = "relax.FuseTIR" {
        opt_level: 0,
        preserves: [keeps_form],
        run: fuse_tir,
    }
}

fn fuse_tir(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let module = &remove_unused_parameters(&expand_tuple_arguments(module, ctx)?, ctx)?;
    let mut made: BTreeMap<&str, Joined> = BTreeMap::new();
    for (name, body) in module.functions() {
        if body.function().is_some_and(Function::is_primitive) {
            made.insert(name, joined(body, module).map_err(|error| error.in_function(name))?);
        }
    }
    keep_given_one_memory_twice(module, &mut made, ctx);
    ctx.statistic("functions made", made.len());
    let called = module.map_functions(|name, body| match (made.get(name), body.function()) {
        (Some(joined), _) => Ok(joined.prim_func.clone()),
        (None, Some(_)) => call_prim_funcs(body, &made).map_err(|error| error.in_function(name)),
        (None, None) => Ok(body.clone()),
    })?;
    without_dead_code(&called, ctx)
}

/// Leaves out functions that write to a parameter and are called with two arguments in the same memory, because an
/// argument to which a PrimFunc writes must not alias another argument.
fn keep_given_one_memory_twice(module: &Module, made: &mut BTreeMap<&str, Joined>, ctx: &Ctx) {
    // Saves the analysis of all functions.
    if made.values().all(|joined| joined.in_place.is_none()) {
        return;
    }
    let written = WrittenParams::of(module);
    for (name, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
        let in_place = InPlace::in_module(body, &written);
        for call in body.values().filter_map(Value::as_call) {
            let Some(callee) = call.global().filter(|callee| made.contains_key(callee)) else { continue };
            let args: Vec<Value<'_>> = call.args().collect();
            let is_given_twice = |at: &usize| {
                let others = args.iter().enumerate().filter(|(other, _)| other != at);
                args.get(*at).is_some_and(|arg| others.into_iter().any(|(_, other)| in_place.share(*arg, *other)))
            };
            if written.of_function(callee).iter().any(is_given_twice) {
                let why = format!(
                    "`{callee}` is not fused, because it writes to an argument that may share memory with another argument"
                );
                ctx.diagnostics().in_function(name).missed(call.value(), &why);
                made.remove(callee);
            }
        }
    }
}

/// Replaces calls of functions that became PrimFuncs by `R.call_tir`.
fn call_prim_funcs(body: &Body, made: &BTreeMap<&str, Joined>) -> Result<Body, PassError> {
    body.try_rewrite(|value, rw| {
        let Some(call) = value.as_call() else { return Ok(Action::Keep) };
        let Some((name, joined)) = call.global().and_then(|callee| made.get_key_value(callee)) else {
            return Ok(Action::Keep);
        };
        let mut args = Vec::new();
        for arg in call.args() {
            let v = rw.v(arg);
            flatten(v, arg, rw, &mut args)?;
        }
        let callee = rw.edit().function_of(name, &joined.prim_func);
        let is_flat = !value.ty().is_tuple() || value.ty().children().all(|field| !field.is_tuple());
        let new = match is_flat && joined.outputs_are_results() {
            true => rw.call_tir(callee, &args, joined.in_place.as_deref(), &value.ty().to_owned()),
            false => results_of(callee, &args, joined, value, rw)?,
        };
        Ok::<_, PassError>(Action::Replace(new))
    })
}

/// Calls a PrimFunc whose outputs do not match the results of the function one to one, and selects the results from
/// them.
fn results_of(callee: V, args: &[V], joined: &Joined, value: Value<'_>, rw: &mut Rewriter<'_>) -> Result<V, PassError> {
    let ty = value.ty().to_owned();
    let mut fields = Vec::new();
    add_fields(&ty, &mut fields);
    let mut types = Vec::new();
    for output in 0..joined.n_outputs {
        let result = joined.results.iter().position(|result| *result == output).and_then(|result| fields.get(result));
        let place = joined.in_place.as_ref().and_then(|places| usize::try_from(*places.get(output)?).ok());
        let argument = place.and_then(|place| args.get(place).copied());
        types.push(match (result, argument) {
            (Some(field), _) => (*field).clone(),
            (None, Some(argument)) => rw.with(argument, |argument| argument.ty().to_owned()),
            (None, None) => bail!(at value, "an output of the function must be a result or an argument"),
        });
    }
    let single = if let [one] = types.as_slice() { Some(one.clone()) } else { None };
    let out = single.clone().unwrap_or_else(|| Type::tuple(types));
    let call = rw.call_tir(callee, args, joined.in_place.as_deref(), &out);
    let call = rw.emit(call, "lv");
    let mut elements = Vec::new();
    for output in &joined.results {
        elements.push(if single.is_some() { call } else { rw.tuple_get(call, *output as u32) });
    }
    if let (Type::Tensor(_), [one]) = (&ty, elements.as_slice()) {
        return Ok(*one);
    }
    let named = elements.into_iter().map(|element| if element == call { call } else { rw.emit(element, "lv") });
    let named: Vec<V> = named.collect();
    tuple_of(&ty, &mut named.into_iter(), rw)
        .ok_or_else(|| pass_error!(at value, "a function marked `Primitive` must return tensors, or tuples of them"))
}

/// Adds the types of the values in a tuple and in its nested tuples.
fn add_fields<'t>(ty: &'t Type, fields: &mut Vec<&'t Type>) {
    match ty {
        Type::Tuple(parts) => parts.iter().for_each(|part| add_fields(part, fields)),
        field => fields.push(field),
    }
}

/// Builds a value of a type, which may be a nested tuple, from the values inside.
fn tuple_of(ty: &Type, values: &mut impl Iterator<Item = V>, rw: &mut Rewriter<'_>) -> Option<V> {
    let Type::Tuple(fields) = ty else { return values.next() };
    let fields: Vec<V> = fields.iter().map(|field| tuple_of(field, values, rw)).collect::<Option<_>>()?;
    Some(rw.tuple(&fields))
}

/// Flattens an argument to the form that PrimFuncs take: a tensor, a scalar, the elements of a tuple, or the dimensions
/// of a shape.
fn flatten<'b>(v: V, arg: Value<'b>, rw: &mut Rewriter<'b>, args: &mut Vec<V>) -> Result<(), PassError> {
    match arg.ty().to_owned() {
        Type::Tuple(_) if arg.is_nested() => {
            for element in arg.operands() {
                let v = rw.v(element);
                flatten(v, element, rw, args)?;
            }
        }
        ty => flatten_typed(v, &ty, rw, args).map_err(|error| error.at(arg))?,
    }
    Ok(())
}

fn flatten_typed(v: V, ty: &Type, rw: &mut Rewriter<'_>, args: &mut Vec<V>) -> Result<(), PassError> {
    match ty {
        Type::Tuple(fields) => {
            for (index, field) in fields.iter().enumerate() {
                let element = rw.tuple_get(v, index as u32);
                let element = rw.emit(element, "lv");
                flatten_typed(element, field, rw, args)?;
            }
        }
        Type::Shape { dims: Some(dims), .. } => {
            args.extend(dims.iter().map(|dim| rw.edit().builder().prim_value(dim)));
        }
        Type::Tensor(_) | Type::Prim { .. } => args.push(v),
        other => bail!("a function marked `Primitive` takes tensors, tuples and shapes, found {other:?}"),
    }
    Ok(())
}
