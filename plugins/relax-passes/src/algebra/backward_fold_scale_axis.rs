//! Folds multiplications of output channels into the weight.

use super::fold_scale_axis::{Foldable, SCALED, WEIGHTED, fold_scales, output_channels, scale_of, weighted};
use plugin_api::prelude::*;

declare_pass! {
    /// Folds multiplications of the channels of a result into the weight of the conv2d or matmul that computes it.
    ///
    /// `conv2d(x, w) * s` becomes `conv2d(x, w * s)`, where `s` is a constant or a parameter with one element for each
    /// output channel (or with one element), and `w` is a constant or a parameter, or its `permute_dims`. The channels
    /// of a matmul are along its last axis. A layout must name each axis with one letter, like `NCHW` and `HWIO`.
    /// Expects functions in A-normal form. Results do not change, up to rounding. A convolution or matmul with other
    /// users is not changed.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), s: R.Tensor((1, 4, 1, 1), "float32")):
    ///     a = R.nn.conv2d(x, w)
    ///     b = R.multiply(a, s)
    ///     return b
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), s: R.Tensor((1, 4, 1, 1), "float32")):
    ///     gv = R.reshape(s, R.shape([4, 1, 1, 1]))
    ///     gv_1 = R.multiply(w, gv)
    ///     b = R.nn.conv2d(x, gv_1)
    ///     return b
    /// ```
    pub function pass BACKWARD_FOLD_SCALE_AXIS = "relax.BackwardFoldScaleAxis" {
        opt_level: 2,
        preserves: [keeps_form],
        tolerance: Tolerance::Reassociated { rtol: 1e-5, atol: 1e-6 },
        run: backward_fold_scale_axis,
    }
}

fn backward_fold_scale_axis(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let result = weighted(wildcard()).used_once();
    let scaled = is_commutative("relax.multiply", result, wildcard()).bind(SCALED).in_one_block().check(|found| {
        let call = found.get(WEIGHTED)?;
        let Some(channels) = output_channels(call) else {
            bail!("the layout does not have a plain axis of output channels");
        };
        if scale_of(call, found.get(SCALED)?, channels.data).is_none() {
            bail!("the scale must be a constant or parameter with the data type of the weight, and with one element per output channel");
        }
        Ok(())
    });
    fold_scales(body, ctx, &scaled, |call, multiply| {
        let channels = output_channels(call)?;
        let (_, scale) = scale_of(call, multiply, channels.data)?;
        Some(Foldable { data: call.arg(0)?, scale, channel: channels.weight })
    })
}
