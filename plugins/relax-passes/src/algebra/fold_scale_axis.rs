//! Folds channel multiplications into weights: code shared by the passes for both directions, and a pass that handles
//! both.

use plugin_api::pattern::{is_chain, is_const, is_param};
use plugin_api::prelude::*;

declare_composite! {
    /// Folds multiplications of channels into the weights of convolutions and matrix products.
    ///
    /// Folds multiplications of results first (BackwardFoldScaleAxis), then multiplications of inputs
    /// (ForwardFoldScaleAxis).
    pub FOLD_SCALE_AXIS = "relax.FoldScaleAxis" {
        opt_level: 2,
        passes: ["relax.BackwardFoldScaleAxis", "relax.ForwardFoldScaleAxis"],
    }
}

/// The call whose weight is scaled.
pub(super) const WEIGHTED: Capture<Call> = Capture::new("weighted");

/// The multiplication by a scale.
pub(super) const SCALED: Capture<Call> = Capture::new("scaled");

/// Returns a pattern for a conv2d or matmul call with a weight: a constant or parameter, possibly with permuted axes,
/// and possibly with scales that were already folded into it.
pub(super) fn weighted(data: impl Into<Pattern>) -> Pattern {
    let (data, known) = (data.into(), || is_const() | is_param());
    let scale = || known() | is_op("relax.reshape", ..).arg(0, is_param());
    let plain = known() | is_op("relax.permute_dims", [known()]);
    let weight = is_chain(plain, |weight| is_op("relax.multiply", [weight, scale()]));
    let call = |op: &str| is_op(op, [&data, &weight]);
    (call("relax.nn.conv2d") | call("relax.matmul")).bind(WEIGHTED)
}

/// The axes of the channels of a conv2d or matmul call.
#[derive(Clone, Copy)]
pub(super) struct Channels {
    pub(super) data: usize,
    pub(super) weight: usize,
}

/// Returns the axes of the input channels in the data and in the weight. Returns `None` if the layout is unknown or the
/// channels are grouped.
pub(super) fn input_channels(call: Call<'_>) -> Option<Channels> {
    let [data, weight] = [call.arg(0)?, call.arg(1)?].map(|value| value.ty().ndim());
    if call.op() == Some("relax.matmul") {
        let weight = usize::try_from(weight).ok()?;
        return Some(Channels { data: usize::try_from(data - 1).ok()?, weight: weight.saturating_sub(2) });
    }
    let one_group = call.attr("groups").and_then(AttrView::as_int).unwrap_or(1) == 1;
    let (data, weight) = (position(call, "data_layout", 'C')?, position(call, "kernel_layout", 'I')?);
    one_group.then_some(Channels { data, weight })
}

/// Returns the axes of the output channels in the result and in the weight. Returns `None` if the layout is unknown.
pub(super) fn output_channels(call: Call<'_>) -> Option<Channels> {
    if call.op() == Some("relax.matmul") {
        let [result, weight] = [call.ty(), call.arg(1)?.ty()].map(|ty| usize::try_from(ty.ndim()));
        let (result, weight) = (result.ok()?, weight.ok()?);
        return (weight >= 2).then(|| Channels { data: result - 1, weight: weight - 1 });
    }
    let layout = call.attr("out_layout").and_then(AttrView::as_str).filter(|layout| !layout.is_empty());
    let layout = if layout.is_some() { "out_layout" } else { "data_layout" };
    Some(Channels { data: position(call, layout, 'C')?, weight: position(call, "kernel_layout", 'O')? })
}

/// Returns the position of an axis in a four-letter layout such as `NCHW`.
fn position(call: Call<'_>, attr: &str, axis: char) -> Option<usize> {
    let layout = call.attr(attr).and_then(AttrView::as_str)?;
    let plain = layout.len() == 4 && layout.chars().all(|letter| letter.is_ascii_uppercase());
    layout.find(axis).filter(|_| plain)
}

/// Returns the scaled operand and the scale of a multiplication, if the scale is a constant or a parameter that scales
/// channels: after broadcasting, it has one element along all axes except the channel axis. The scale, the weight of
/// `weighted` and (for integers) its result must have one data type, because a product with a narrower weight would
/// differ.
pub(super) fn scale_of<'b>(weighted: Call<'b>, multiply: Call<'b>, channel: usize) -> Option<(Value<'b>, Value<'b>)> {
    let (a, b) = (multiply.arg(0)?, multiply.arg(1)?);
    let (dtype, result) = (weighted.arg(1)?.ty().dtype(), weighted.ty().dtype());
    let is_scale = |scale: Value<'b>, data: Value<'b>| {
        let dims = scale.ty().dims()?;
        let first = usize::try_from(data.ty().ndim()).ok()?.checked_sub(dims.len())?;
        let mut others = dims.enumerate().filter(|(at, _)| first + at != channel);
        let by_channel = others.all(|(_, dim)| dim.as_int() == Some(1));
        let known = matches!(scale.view(), Expr::Const(_) | Expr::Param);
        let one_dtype = scale.ty().dtype() == dtype && (dtype.is_float() || result == dtype);
        let same = one_dtype && data.ty().dtype() == dtype && multiply.ty().same(data.ty());
        Some(()).filter(|()| known && by_channel && same)
    };
    [(a, b), (b, a)].into_iter().find(|(data, scale)| is_scale(*scale, *data).is_some())
}

/// A scale that can be folded into the weight of a call.
pub(super) struct Foldable<'b> {
    /// The data operand without the multiplication.
    pub(super) data: Value<'b>,
    pub(super) scale: Value<'b>,
    /// The axis of the weight that is scaled.
    pub(super) channel: usize,
}

/// Folds scales into weights until nothing matches. `foldable` returns the scale of a multiplication that can be folded
/// into the weight of a call.
pub(super) fn fold_scales(
    body: &Body,
    ctx: &Ctx,
    scaled: &Pattern,
    foldable: impl for<'b> Fn(Call<'b>, Call<'b>) -> Option<Foldable<'b>>,
) -> Result<Body, PassError> {
    let matcher = ctx.matcher(scaled);
    let (mut body, mut folded) = (body.clone(), 0);
    loop {
        let next = matcher.rewrite(&body, |found, rw| {
            let call = found.get(WEIGHTED)?;
            let (Some(fold), Some(weight)) = (foldable(call, found.get(SCALED)?), call.arg(1)) else {
                return Ok(Action::Keep);
            };
            let weight = scaled_weight(weight, fold.scale, fold.channel, rw, ctx)?;
            let data = rw.v(fold.data);
            folded += 1;
            Ok(Action::Replace(rw.call_like(call, &[data, weight])))
        })?;
        if next.same(&body) {
            ctx.statistic("scales folded", folded);
            return Ok(next);
        }
        body = next;
    }
}

/// Multiplies the channels of a weight by a scale. If both are constants, the result is a constant.
fn scaled_weight<'b>(
    weight: Value<'b>,
    scale: Value<'b>,
    channel: usize,
    rw: &mut Rewriter<'b>,
    ctx: &Ctx,
) -> Result<V, PassError> {
    let rank = usize::try_from(weight.ty().ndim()).unwrap_or(0);
    let dims: Vec<Dim> = scale.ty().dims().into_iter().flatten().collect();
    let n = dims.into_iter().find(|dim| dim.as_int() != Some(1)).unwrap_or(Dim::Int(1));
    let shape: Vec<Dim> = (0..rank).map(|at| if at == channel { n.clone() } else { Dim::Int(1) }).collect();
    if let (Some(weight), Some(scale)) = (weight.as_constant(), scale.as_constant()) {
        let inner: i64 = weight.shape().iter().skip(channel + 1).product();
        let scales: Vec<f64> = scale.cast::<f64>()?.collect();
        let by_channel = |at: usize| scales[at / (inner.max(1) as usize) % scales.len().max(1)];
        let product = weight.cast::<f64>()?.enumerate().map(|(at, number)| number * by_channel(at));
        return Ok(rw.array(&Array::new(weight.shape(), product)?.cast(weight.dtype())?));
    }
    let weight = rw.v(weight);
    let scale = match scale.as_constant() {
        Some(constant) => {
            let shape: Vec<i64> = shape.iter().filter_map(Dim::as_int).collect();
            let numbers: Vec<f64> = constant.cast::<f64>()?.collect();
            rw.array(&Array::new(&shape, numbers)?.cast(constant.dtype())?)
        }
        None => {
            let (scale, shape) = (rw.v(scale), rw.shape(&shape));
            rw.emit_op(ctx, "relax.reshape", &[scale, shape], &[])?
        }
    };
    rw.emit_op(ctx, "relax.multiply", &[weight, scale], &[])
}
