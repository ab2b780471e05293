//! Propagates memory scopes from call sites to the buffers of PrimFuncs.

use crate::devices::Devices;
use plugin_api::ir::BufferType;
use plugin_api::prelude::*;
use std::collections::BTreeMap;

declare_pass! {
    /// Adds memory scopes to the buffers of PrimFuncs: the scopes of the virtual devices of the tensors that
    /// `call_tir` passes and returns.
    ///
    /// A tensor without a device is in global memory. If calls of a PrimFunc differ, the last call determines the
    /// scopes. Each called PrimFunc gets the attribute `scoped`. Expects functions in A-normal form. Never changes the
    /// shapes of buffers, nor functions that are called by a function marked `Primitive`.
    ///
    /// ```relax before
    /// I.module_global_infos({"vdevice": [I.vdevice({"kind": "opencl"}, 0, "global.texture")]})
    /// @T.prim_func(private=True, s_tir=True)
    /// def f(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
    ///     B[0] = A[0]
    ///
    /// @R.function
    /// def main(x: R.Tensor((4,), "float32")):
    ///     cls = Module
    ///     y = R.call_tir(cls.f, (x,), out_ty=R.Tensor((4,), "float32", vdevice="opencl:0:global.texture"))
    ///     return y
    /// ```
    /// ```relax after
    /// I.module_global_infos({"vdevice": [I.vdevice({"kind": "opencl"}, 0, "global.texture")]})
    /// @T.prim_func(private=True, s_tir=True)
    /// def f(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32", scope="global.texture")):
    ///     T.func_attr({"scoped": 1})
    ///     B[0] = A[0]
    ///
    /// @R.function
    /// def main(x: R.Tensor((4,), "float32")):
    ///     cls = Module
    ///     y = R.call_tir(cls.f, (x,), out_ty=R.Tensor((4,), "float32", vdevice="opencl:0:global.texture"))
    ///     return y
    /// ```
    pub module pass SPECIALIZE_PRIM_FUNC_BASED_ON_CALL_SITE = "relax.SpecializePrimFuncBasedOnCallSite" {
        opt_level: 0,
        preserves: [keeps_form],
        run: specialize_prim_func_based_on_call_site,
    }
}

fn specialize_prim_func_based_on_call_site(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let devices = Devices::of(module);
    let mut scopes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let primitive = |body: &Body| body.root().attr("Primitive").and_then(AttrView::as_int).is_some_and(|n| n != 0);
    for (_, body) in module.functions().filter(|(_, body)| body.function().is_some() && !primitive(body)) {
        for call in body.values().filter_map(|value| value.as_call_to("relax.call_tir")) {
            let of_call = scopes_of(call, &devices);
            let callee = call.arg(0).and_then(|callee| module.get_entry(callee.as_global()?));
            scopes.extend(callee.zip(of_call).map(|((callee, _), of_call)| (callee, of_call)));
        }
    }
    ctx.statistic("functions specialized", scopes.len());
    module.map_functions(|name, body| match scopes.get(name) {
        Some(scopes) => with_scopes(body, scopes).map_err(|error| error.in_function(name)),
        None => Ok(body.clone()),
    })
}

/// Returns the memory scope of each argument and result of a call, or `None` if the arguments are not a literal tuple.
/// As in TVM, a result without a device is placed like the result before it.
fn scopes_of<'m>(call: Call<'_>, devices: &'m Devices) -> Option<Vec<&'m str>> {
    let args = call.arg(1).filter(|args| matches!(args.view(), Expr::Tuple(_)))?;
    let result = call.type_args().next()?;
    let mut scopes = Vec::new();
    for ty in args.operands().map(Value::ty) {
        // A scalar is not in memory; its parameter is not a buffer.
        scopes.push(match ty.to_owned() {
            Type::Tensor(tensor) => devices.of_tensor(&tensor).1,
            _ => "global",
        });
    }
    let mut scope = "global";
    for ty in if result.is_tuple() { result.children().collect() } else { vec![result] } {
        if let Type::Tensor(tensor) = ty.to_owned() {
            scope = if tensor.vdevice.is_some() { devices.of_tensor(&tensor).1 } else { scope };
        }
        scopes.push(scope);
    }
    Some(scopes)
}

/// Returns a PrimFunc in which the first buffers have the memory scopes `scopes`.
fn with_scopes(body: &Body, scopes: &[&str]) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let params = body.root().region().children().filter(|value| matches!(value.view(), Expr::Param));
    for (param, scope) in params.filter(|param| !param.is_nested()).zip(scopes) {
        if let Type::Buffer(buffer) = param.ty().to_owned() {
            let scope = if *scope == "global" { String::new() } else { (*scope).to_string() };
            edit.set_type(param, &Type::Buffer(BufferType { scope, ..buffer }));
        }
    }
    edit.set_attr(body.root(), "scoped", Attr::Int(1));
    Ok(edit.finish()?)
}
