//! Allocates the results of functions and calls the functions directly.

use crate::devices::Devices;
use plugin_api::ir::Ty;
use plugin_api::prelude::*;

declare_pass! {
    /// Allocates the tensors to which functions write their results, and calls the functions directly.
    ///
    /// `R.call_tir`, `R.call_tir_inplace` and `R.call_dps_packed` become tensor allocations, and a call with these
    /// tensors as the last arguments. An in-place result is the argument itself. Expects functions in A-normal form
    /// without dataflow blocks or purity checks. Results do not change.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     R.func_attr({"relax.force_pure": True})
    ///     y = R.call_dps_packed("my.copy", (x,), out_ty=R.Tensor((2, 3), "float32"))
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     R.func_attr({"relax.force_pure": True})
    ///     alloc = R.builtin.alloc_tensor(R.shape([2, 3]), R.dtype("float32"), 0, R.str("global"))
    ///     _: R.Any = R.call_packed("my.copy", x, alloc)
    ///     y = alloc
    ///     return y
    /// ```
    pub module pass CALL_TIR_REWRITE = "relax.CallTIRRewrite" {
        opt_level: 0,
        preserves: [keeps_form],
        run: call_tir_rewrite,
    }
}

fn call_tir_rewrite(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let devices = Devices::of(module);
    let mut rewritten = 0;
    let result = module.map_functions(|name, body| match body.function() {
        Some(_) => rewrite(body, &devices, &mut rewritten).map_err(|error| error.in_function(name)),
        None => Ok(body.clone()),
    });
    ctx.statistic("calls rewritten", rewritten);
    result
}

fn rewrite(body: &Body, devices: &Devices, rewritten: &mut usize) -> Result<Body, PassError> {
    expect_effects_allowed(body)?;
    body.try_rewrite(|value, rw| {
        let Some(call) = value.as_call().filter(|call| writes_results(*call)) else { return Ok(Action::Keep) };
        *rewritten += 1;
        let given = arguments(call, rw)?;
        let mut written = Written { call, devices, given, new: Vec::new() };
        let results = written.results(rw)?;
        written.call_function(rw)?;
        Ok(match results.as_slice() {
            [one] if value.is_binding() && !value.ty().is_tuple() => {
                rw.edit().make_alias(value, *one);
                Action::Keep
            }
            [one] if !value.ty().is_tuple() => Action::Replace(*one),
            of_tuple => Action::Replace(rw.tuple(of_tuple)),
        })
    })
}

/// Checks that the function may have effects, because the calls that write their results are effects.
fn expect_effects_allowed(body: &Body) -> Result<(), PassError> {
    let rewritten = |value: &Value<'_>| value.as_call().is_some_and(writes_results);
    if let Some(call) = body.dataflow_blocks().find_map(|block| block.bindings().find(rewritten)) {
        bail!(at call, "a call that writes its result cannot be in a dataflow block; run relax.ToNonDataflow first");
    }
    let forced = body.root().attr("relax.force_pure").and_then(AttrView::as_bool).unwrap_or(false);
    if body.function().is_some_and(Function::is_pure)
        && !forced
        && let Some(call) = body.values().find(rewritten)
    {
        bail!(at call, "a call that writes its result has side effects, but the function is declared pure; run relax.RemovePurityChecking first");
    }
    Ok(())
}

fn writes_results(call: Call<'_>) -> bool {
    matches!(call.op(), Some("relax.call_tir" | "relax.call_tir_inplace" | "relax.call_dps_packed"))
}

/// Returns the arguments that a call passes to its function. The tuple of arguments may be a variable.
fn arguments<'b>(call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Vec<V>, PassError> {
    let Some(args) = call.arg(1) else {
        bail!(at call.value(), "expected a function and a tuple of its arguments");
    };
    if let Expr::Tuple(tuple) = args.view()
        && args.is_nested()
    {
        return Ok(tuple.operands().map(|arg| rw.v(arg)).collect());
    }
    let tuple = rw.v(args);
    // As in TVM, a value whose type is not known to be a tuple is passed itself.
    if !args.ty().is_tuple() {
        return Ok(vec![tuple]);
    }
    let elements = 0..args.ty().children().len() as u32;
    let element = |index: u32| {
        let element = rw.tuple_get(tuple, index);
        rw.emit(element, "gv")
    };
    Ok(elements.map(element).collect())
}

/// The destinations of the results of a call.
struct Written<'b, 'm> {
    call: Call<'b>,
    devices: &'m Devices,
    /// The arguments of the function, without the results.
    given: Vec<V>,
    /// The new tensors, in the order in which the called function takes them.
    new: Vec<V>,
}

impl<'b> Written<'b, '_> {
    /// Returns a value for each result: a new tensor, or the argument that the result overwrites.
    fn results(&mut self, rw: &mut Rewriter<'b>) -> Result<Vec<V>, PassError> {
        let ty = self.call.ty();
        let types: Vec<Ty<'b>> = if ty.is_tuple() { ty.children().collect() } else { vec![ty] };
        let in_place = self.call.attr("inplace_indices").and_then(|indices| indices.as_ints()).unwrap_or_default();
        let mut results = Vec::new();
        for (i, ty) in types.into_iter().enumerate() {
            let taken = in_place.get(i).and_then(|index| usize::try_from(*index).ok());
            results.push(match taken {
                Some(index) => {
                    let Some(arg) = self.given.get(index) else {
                        bail!(at self.call.value(), "result {i} replaces argument {index}, but the call has fewer arguments");
                    };
                    *arg
                }
                None => self.allocate(ty, rw)?,
            });
        }
        Ok(results)
    }

    /// Allocates a new tensor of a type, or a tuple of new tensors.
    fn allocate(&mut self, ty: Ty<'b>, rw: &mut Rewriter<'b>) -> Result<V, PassError> {
        if ty.is_tuple() {
            let fields = ty.children().map(|field| self.allocate(field, rw)).collect::<Result<Vec<V>, PassError>>()?;
            return Ok(rw.tuple(&fields));
        }
        let ty = ty.to_owned();
        let Some((tensor, shape)) = ty.as_tensor().and_then(|tensor| Some((tensor, tensor.shape.as_ref()?))) else {
            bail!(at self.call.value(), "a result must be a tensor of known shape to be allocated; give its shape in `out_ty`");
        };
        let (device, scope) = self.devices.of_tensor(tensor);
        let builder = rw.edit().builder();
        let mut args = vec![
            builder.shape(shape),
            builder.dtype(tensor.dtype),
            builder.prim_value(&Dim::Int(device)),
            builder.string(scope),
        ];
        // The number of the device is an argument for the runtime. The device itself is only part of the type.
        if tensor.vdevice.is_some() {
            args.push(rw.type_arg(&ty));
        }
        let allocated = rw.call("relax.builtin.alloc_tensor", &args, &[], &ty);
        let allocated = rw.emit(allocated, "alloc");
        self.new.push(allocated);
        Ok(allocated)
    }

    /// Emits the call with the arguments and the new tensors.
    fn call_function(&self, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        let Some(callee) = self.call.arg(0) else {
            bail!(at self.call.value(), "expected a function and a tuple of its arguments");
        };
        let all = [self.given.as_slice(), &self.new].concat();
        let callee = rw.v(callee);
        let called = rw.call_value(callee, &all)?;
        rw.emit(called, "_");
        Ok(())
    }
}
