//! Groups calls of PrimFuncs into functions, which FuseTIR turns into one PrimFunc each.

use super::dataflow_graph::DataflowGraph;
use super::partition::partition;
use crate::config::FUSE_OPS_MAX_DEPTH;
use plugin_api::prelude::*;
use plugin_api::rewrite::grouping::{Constants, GroupedFunctions, Groups};
use plugin_api::walk::in_place::WrittenParams;

declare_pass! {
    /// Groups calls of PrimFuncs in dataflow blocks into private functions marked `Primitive`.
    ///
    /// A call joins the group of its immediate post-dominator if the operator patterns of both, and of the calls
    /// between them, allow fusion. The attribute `op_pattern` of a PrimFunc contains its pattern;
    /// AnnotateTIROpPattern sets it. Constants become parameters. The config option `relax.FuseOps.max_depth` limits
    /// the size of a group. Expects functions in A-normal form. Results do not change. Bindings outside dataflow
    /// blocks, and functions marked `Primitive` or `Codegen`, are never grouped. A call that writes to a value is
    /// grouped only together with the call that creates the value.
    ///
    /// ```relax before
    /// @T.prim_func(private=True)
    /// def exp(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
    ///     T.func_attr({"op_pattern": 0})
    ///     T.evaluate(0)
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     with R.dataflow():
    ///         y = R.call_tir(cls.exp, (x,), out_ty=R.Tensor((2, 3), "float32"))
    ///         z = R.call_tir(cls.exp, (y,), out_ty=R.Tensor((2, 3), "float32"))
    ///         R.output(z)
    ///     return z
    /// ```
    /// ```relax after
    /// @T.prim_func(private=True)
    /// def exp(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
    ///     T.func_attr({"op_pattern": 0})
    ///     T.evaluate(0)
    ///
    /// @R.function(private=True)
    /// def fused_exp_exp(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     R.func_attr({"Primitive": True})
    ///     cls = Module
    ///     with R.dataflow():
    ///         y = R.call_tir(cls.exp, (x,), out_ty=R.Tensor((2, 3), "float32"))
    ///         z = R.call_tir(cls.exp, (y,), out_ty=R.Tensor((2, 3), "float32"))
    ///         R.output(z)
    ///     return z
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     with R.dataflow():
    ///         z = cls.fused_exp_exp(x)
    ///         R.output(z)
    ///     return z
    /// ```
    pub module pass FUSE_OPS = "relax.FuseOps" {
        opt_level: 0,
        preserves: [keeps_form],
        options: Options {
            /// The optimization level of fusion: 0 fuses nothing, and -1 means the opt_level of the run.
            fuse_opt_level: i64 in (-1..) = -1,
        },
        run: fuse_ops,
    }
}

fn fuse_ops(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    let level = if options.fuse_opt_level == -1 { i64::from(ctx.opt_level()) } else { options.fuse_opt_level };
    if level == 0 {
        return Ok(module.clone());
    }
    let most = usize::try_from(FUSE_OPS_MAX_DEPTH.get(ctx)).unwrap_or(usize::MAX);
    let mut grouped = GroupedFunctions::new(module, Constants::Lifted);
    let (mut formed, written) = (0, WrittenParams::of(module));
    for (name, body) in module.functions().filter(|(_, body)| body.function().is_some_and(is_looked_into)) {
        let graph = DataflowGraph::of(body, module, &written);
        let mut groups = Groups::new(body);
        for group in partition(&graph, most) {
            groups.add(group.into_iter().map(|node| graph.binding(node)), &[("Primitive", Attr::Bool(true))]);
        }
        formed += groups.len();
        grouped.make(name, &groups).map_err(|error| error.in_function(name))?;
    }
    ctx.statistic("groups formed", formed);
    Ok(grouped.finish())
}

/// Returns true if the operators of a function are fused.
fn is_looked_into(function: Function<'_>) -> bool {
    !function.is_primitive() && function.attr("Codegen").is_none()
}
