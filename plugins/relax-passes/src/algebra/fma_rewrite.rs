//! Combines a product and a sum into one operator.

use plugin_api::prelude::*;
use std::collections::HashMap;

declare_pass! {
    /// Computes a product and a sum with one operator: `x * y + z` becomes `ewise_fma(x, y, z)`.
    ///
    /// The product may be on either side of the sum. Expects functions in A-normal form. Results do not change, and
    /// products with other users are kept. Ignores sums outside dataflow blocks, and operands with different types.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32"), z: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         product = R.multiply(x, y)
    ///         out = R.add(product, z)
    ///         R.output(out)
    ///     return out
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32"), z: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         out = R.ewise_fma(x, y, z)
    ///         R.output(out)
    ///     return out
    /// ```
    pub dataflow pass FMA_REWRITE = "relax.FMARewrite" {
        opt_level: 0,
        preserves: [keeps_form],
        tolerance: Tolerance::Reassociated { rtol: 1e-6, atol: 1e-7 },
        run: fma_rewrite,
    }
}

fn fma_rewrite(edit: &mut Edit<'_>, block: Value<'_>, ctx: &Ctx) -> Result<(), PassError> {
    // A variable of the block is used only within the block.
    let mut uses: HashMap<u32, usize> = HashMap::new();
    for operand in block.region().nodes().flat_map(Value::operands) {
        *uses.entry(operand.word()).or_default() += 1;
    }
    let used_once = |value: Value<'_>| value.is_dataflow_var() && uses.get(&value.word()) == Some(&1);
    let is_product = |value: Value<'_>| value.as_call_to("relax.multiply").is_some() && used_once(value);
    let mut replaced = 0;
    for sum in block.region().bindings() {
        let Some(args) = operands_of(sum, "relax.add") else { continue };
        let either = [(args[0], args[1]), (args[1], args[0])];
        let Some((product, z)) = either.into_iter().find(|(a, _)| is_product(*a)) else { continue };
        let Some([x, y]) = operands_of(product, "relax.multiply") else { continue };
        if ![x, y, z].iter().all(|value| value.ty().same(sum.ty())) {
            continue;
        }
        let fma = edit.builder().op("relax.ewise_fma");
        let operands = [fma, edit.v(x), edit.v(y), edit.v(z)];
        edit.set_operands(sum, &operands);
        edit.remove(product);
        replaced += 1;
    }
    ctx.statistic("sums replaced", replaced);
    Ok(())
}

/// Returns the operands of a call of a binary operator.
fn operands_of<'b>(value: Value<'b>, op: &str) -> Option<[Value<'b>; 2]> {
    let call = value.as_call_to(op)?;
    Some([call.arg(0)?, call.arg(1)?])
}
