//! Replaces calls that only reshape by `R.reshape`.

use super::reshape_pattern::reshapes;
use plugin_api::arith::product;
use plugin_api::ir::{BodyKind, SealError};
use plugin_api::prelude::*;
use plugin_api::walk::in_place::WrittenParams;
use std::collections::BTreeSet;

declare_pass! {
    /// Replaces calls of PrimFuncs that only copy elements in order by `R.reshape`, in dataflow blocks.
    ///
    /// A reshape copies nothing at run time. Outputs of a block are kept, because code outside may need a copy. Expects
    /// functions in A-normal form. Results do not change. Keeps a copy if a call writes to it or to its source in
    /// place.
    ///
    /// ```relax before
    /// @T.prim_func(private=True, s_tir=True)
    /// def flatten(A: T.Buffer((2, 3), "float32"), B: T.Buffer((6,), "float32")):
    ///     for i in range(6):
    ///         with T.sblock("B"):
    ///             vi = T.axis.spatial(6, i)
    ///             T.reads(A[vi // 3, vi % 3])
    ///             T.writes(B[vi])
    ///             B[vi] = A[vi // 3, vi % 3]
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     with R.dataflow():
    ///         y = R.call_tir(cls.flatten, (x,), out_ty=R.Tensor((6,), "float32"))
    ///         z = R.add(y, y)
    ///         R.output(z)
    ///     return z
    /// ```
    /// ```relax after
    /// @T.prim_func(private=True, s_tir=True)
    /// def flatten(A: T.Buffer((2, 3), "float32"), B: T.Buffer((6,), "float32")):
    ///     for i in range(6):
    ///         with T.sblock("B"):
    ///             vi = T.axis.spatial(6, i)
    ///             T.reads(A[vi // 3, vi % 3])
    ///             T.writes(B[vi])
    ///             B[vi] = A[vi // 3, vi % 3]
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         y = R.reshape(x, R.shape([6]))
    ///         z = R.add(y, y)
    ///         R.output(z)
    ///     return z
    /// ```
    pub module pass REWRITE_DATAFLOW_RESHAPE = "relax.RewriteDataflowReshape" {
        opt_level: 0,
        preserves: [keeps_form],
        run: rewrite_dataflow_reshape,
    }
}

fn rewrite_dataflow_reshape(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let prim_funcs = module.functions().filter(|(_, body)| body.kind() == BodyKind::PrimFunc);
    let reshaping: BTreeSet<&str> = prim_funcs.filter(|(_, body)| reshapes(body)).map(|(name, _)| name).collect();
    let (mut rewritten, written) = (0, WrittenParams::of(module));
    let result = module.map_functions(|name, body| {
        if body.function().is_none_or(|function| function.skips_optimization()) {
            return Ok(body.clone());
        }
        let in_place = InPlace::in_module(body, &written);
        body.rewrite(|value, rw| match reshaped(value, &reshaping) {
            Some((source, shape)) if !in_place.is_written(value) && !in_place.is_written(source) => {
                rewritten += 1;
                let args = [rw.v(source), rw.edit().builder().shape(&shape)];
                Action::Replace(rw.call("relax.reshape", &args, &[], &value.ty().to_owned()))
            }
            Some(_) => {
                ctx.diagnostics()
                    .in_function(name)
                    .missed(value, "it remains a copy, because a call writes to it or to its source in place");
                Action::Keep
            }
            None => Action::Keep,
        })
    });
    ctx.statistic("calls rewritten", rewritten);
    result.map_err(|error: SealError| error.into())
}

/// Returns the operand and the target shape of a call that only reshapes. `reshaping` contains the PrimFuncs that only
/// reshape their first argument.
fn reshaped<'b>(value: Value<'b>, reshaping: &BTreeSet<&str>) -> Option<(Value<'b>, Vec<Dim>)> {
    let call = value.as_call_to("relax.call_tir").filter(|_| value.is_dataflow_var())?;
    reshaping.get(call.arg(0)?.as_global()?)?;
    let Expr::Tuple(args) = call.arg(1)?.view() else { return None };
    let source = args.operand(0)?;
    let (from, to) = (source.ty(), value.ty());
    if !from.dtype().is_known() || from.dtype() != to.dtype() {
        return None;
    }
    let (from, to): (Vec<Dim>, Vec<Dim>) = (from.dims()?.collect(), to.dims()?.collect());
    let same_size = Analyzer::new().prove_equal(&product(&from), &product(&to)) == Some(true);
    same_size.then_some((source, to))
}
