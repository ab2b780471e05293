//! Folds multiplications of input channels into the weight.

use super::fold_scale_axis::{Foldable, SCALED, WEIGHTED, fold_scales, input_channels, scale_of, weighted};
use plugin_api::prelude::*;

declare_pass! {
    /// Folds multiplications of the channels of an input into the weight of the conv2d or matmul that uses it.
    ///
    /// `conv2d(x * s, w)` becomes `conv2d(x, w * s)`, where `s` is a constant or a parameter with one element for each
    /// input channel (or with one element), and `w` is a constant or a parameter, or its `permute_dims`. The channels
    /// of a matmul are along the last axis of its input. A layout must name each axis with one letter, like `NCHW` and
    /// `HWIO`. Expects functions in A-normal form. Results do not change, up to rounding. Products with other users and
    /// grouped channels are not changed.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), s: R.Tensor((1, 3, 1, 1), "float32")):
    ///     a = R.multiply(x, s)
    ///     b = R.nn.conv2d(a, w)
    ///     return b
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), s: R.Tensor((1, 3, 1, 1), "float32")):
    ///     gv = R.reshape(s, R.shape([1, 3, 1, 1]))
    ///     gv_1 = R.multiply(w, gv)
    ///     b = R.nn.conv2d(x, gv_1)
    ///     return b
    /// ```
    pub function pass FORWARD_FOLD_SCALE_AXIS = "relax.ForwardFoldScaleAxis" {
        opt_level: 2,
        preserves: [keeps_form],
        tolerance: Tolerance::Reassociated { rtol: 1e-5, atol: 1e-6 },
        run: forward_fold_scale_axis,
    }
}

fn forward_fold_scale_axis(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let input = is_op("relax.multiply", ..).bind(SCALED).used_once();
    let scaled = weighted(input).in_one_block().check(|found| {
        let call = found.get(WEIGHTED)?;
        let Some(channels) = input_channels(call) else {
            bail!("the layout does not have a plain axis of input channels, or the channels are grouped");
        };
        if scale_of(call, found.get(SCALED)?, channels.data).is_none() {
            bail!("the scale must be a constant or parameter with the data type of the weight, and with one element per input channel");
        }
        Ok(())
    });
    fold_scales(body, ctx, &scaled, |call, multiply| {
        let channels = input_channels(call)?;
        let (data, scale) = scale_of(call, multiply, channels.data)?;
        Some(Foldable { data, scale, channel: channels.weight })
    })
}
