//! Resizing of images, samples at positions, and regions.

use super::{Row, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::known::{div, mul};
use importer::resize::{Axis, Rules, affine_grid, along};
use importer::tensor::{Res, T};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("aten.grid_sampler.default", grid_sampler),
    one("aten.grid_sampler_2d.default", grid_sampler),
    one("aten.grid_sampler_3d.default", grid_sampler),
    one("torchvision.nms.default", suppression),
    one("torchvision.roi_align.default", roi_align),
    one("aten.affine_grid_generator.default", |cx, n| {
        let (theta, size) = (n.t("theta")?, n.dims("size")?);
        affine_grid(cx, &theta, &size, n.flag("align_corners", false)?)
    }),
    one("aten.upsample_nearest1d.vec", |cx, n| resized(cx, n, "nearest")),
    one("aten.upsample_nearest2d.vec", |cx, n| resized(cx, n, "nearest")),
    one("aten.upsample_nearest3d.vec", |cx, n| resized(cx, n, "nearest")),
    one("aten.upsample_nearest1d.default", |cx, n| resized(cx, n, "nearest")),
    one("aten.upsample_nearest2d.default", |cx, n| resized(cx, n, "nearest")),
    one("aten.upsample_nearest3d.default", |cx, n| resized(cx, n, "nearest")),
    one("aten._upsample_nearest_exact1d.vec", |cx, n| resized(cx, n, "exact")),
    one("aten._upsample_nearest_exact2d.vec", |cx, n| resized(cx, n, "exact")),
    one("aten._upsample_nearest_exact2d.default", |cx, n| resized(cx, n, "exact")),
    one("aten.upsample_linear1d.vec", |cx, n| resized(cx, n, "linear")),
    one("aten.upsample_linear1d.default", |cx, n| resized(cx, n, "linear")),
    one("aten.upsample_bilinear2d.vec", |cx, n| resized(cx, n, "linear")),
    one("aten.upsample_bilinear2d.default", |cx, n| resized(cx, n, "linear")),
    one("aten.upsample_trilinear3d.vec", |cx, n| resized(cx, n, "linear")),
    one("aten.upsample_trilinear3d.default", |cx, n| resized(cx, n, "linear")),
    one("aten.upsample_bicubic2d.vec", |cx, n| resized(cx, n, "cubic")),
    one("aten.upsample_bicubic2d.default", |cx, n| resized(cx, n, "cubic")),
    one("aten._upsample_bilinear2d_aa.vec", |cx, n| resized(cx, n, "linear")),
    one("aten._upsample_bilinear2d_aa.default", |cx, n| resized(cx, n, "linear")),
    one("aten._upsample_bicubic2d_aa.vec", |cx, n| resized(cx, n, "cubic")),
    one("aten._upsample_bicubic2d_aa.default", |cx, n| resized(cx, n, "cubic")),
];

/// Samples images or volumes. The last axis of the grid contains the coordinates; in Relax, the second axis does.
fn grid_sampler<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, grid) = (n.x()?, n.t("grid")?);
    let named = |key: &str, names: [&'static str; 3]| -> Res<&'static str> {
        let at = n.int(key, 0)?;
        let name = usize::try_from(at).ok().and_then(|at| names.get(at).copied());
        name.ok_or_else(|| format!("its {key} is {at}; it must be 0, 1 or 2"))
    };
    let method = named("interpolation_mode", ["bilinear", "nearest", "bicubic"])?;
    let padding = named("padding_mode", ["zeros", "border", "reflection"])?;
    let rank = grid.rank()?;
    let order: Vec<usize> = [0, rank.saturating_sub(1)].into_iter().chain(1..rank.saturating_sub(1)).collect();
    let attrs = [
        ("method", method.into()),
        ("layout", if rank == 5 { "NCDHW" } else { "NCHW" }.into()),
        ("padding_mode", padding.into()),
        ("align_corners", n.flag("align_corners", false)?.into()),
    ];
    cx.call("relax.image.grid_sample", &[&x, &cx.transpose(&grid, &order)?], &attrs)
}

/// Returns means of samples in the cells of regions. With `aligned`, positions are smaller by half an element.
fn roi_align<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, rois) = (n.x()?, cx.cast(&n.t("rois")?, n.x()?.dtype())?);
    let (scale, aligned) = (n.float("spatial_scale", 1.0)?, n.flag("aligned", false)?);
    let (rois, scale) = match aligned {
        true => {
            let corners = cx.add_s(&cx.mul_s(&cx.range(&rois, 1, 1, 5)?, scale)?, -0.5)?;
            (cx.concat(&[cx.range(&rois, 1, 0, 1)?, corners], 1)?, 1.0)
        }
        false => (rois, scale),
    };
    let attrs = [
        ("pooled_size", vec![n.int("pooled_height", 1)?, n.int("pooled_width", 1)?].into()),
        ("spatial_scale", scale.into()),
        ("sample_ratio", n.int("sampling_ratio", -1)?.into()),
        ("aligned", aligned.into()),
    ];
    cx.call("relax.vision.roi_align", &[&x, &rois], &attrs)
}

/// Returns the indices of boxes by descending score, without boxes that overlap a better box by more than a threshold.
fn suppression<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (boxes, scores) = (n.t("dets")?, n.t("scores")?);
    let threshold = n.float("iou_threshold", 0.5)? as f32;
    if threshold.is_nan() || threshold < 0.0 {
        return Err(format!("its threshold is {threshold}, which must not be negative"));
    }
    let count = boxes.dim(0)?;
    let most = match count.as_int() {
        Some(count) => cx.int64s(&[1], &[count])?,
        None => cx.of_dims(vec![count.clone()])?,
    };
    // PyTorch removes boxes whose overlap exceeds the threshold, Relax also those whose overlap equals it.
    let iou = cx.full(threshold.next_up().into(), DType::F32, &[1])?;
    let least = cx.full(f64::NEG_INFINITY, DType::F32, &[1])?;
    let args = [&cx.unsqueeze(&boxes, &[0])?, &cx.unsqueeze(&scores, &[0, 1])?, &most, &iou, &least];
    let args: Vec<V> = args.into_iter().map(|arg| cx.v(arg)).collect::<Res<_>>()?;
    let attrs = [("output_format", "tensorflow".into())];
    let found = cx.call_v("relax.vision.all_class_non_max_suppression", &args, &attrs)?;
    let parts = cx.parts(found, 3)?;
    // The rest of the rows is unused.
    let chosen = cx.reshape(&cx.pick(&parts[0], 2, 1)?, vec![count])?;
    let [zero, one] = [cx.int64s(&[1], &[0])?, cx.int64s(&[1], &[1])?];
    let kept = cx.call("relax.dynamic_strided_slice", &[&chosen, &zero, &parts[2], &one], &[])?;
    cx.named_dims(kept, "kept")
}

/// Returns the scale of each axis, if the model gives scales.
fn scales<'a>(n: &Node<'a>, count: usize) -> Res<Vec<Option<f64>>> {
    if n.op.ends_with(".vec") {
        let given = n.floats_if("scale_factors")?;
        return match given {
            Some(scales) if scales.len() == count => Ok(scales.into_iter().map(Some).collect()),
            Some(scales) => Err(format!("it has {} scales for {count} axes", scales.len())),
            None => Ok(vec![None; count]),
        };
    }
    let names: &[&str] = match count {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    names.iter().map(|name| n.float_if(name)).collect()
}

/// Resizes the axes after batch and channels.
fn resized<'a>(cx: &mut Cx<'a>, n: &Node<'a>, mode: &str) -> Res<T> {
    let x = n.x()?;
    let dims = x.dims_from(3)?;
    let count = dims.len() - 2;
    let aligns = n.flag("align_corners", false)?;
    let (sizes, scales) = (n.dims_if("output_size")?, scales(n, count)?);
    let transform = match (mode, aligns) {
        ("nearest", _) => "asymmetric",
        (_, true) => "align_corners",
        _ => "half_pixel",
    };
    let rules = Rules {
        mode: if mode == "exact" { "nearest" } else { mode },
        transform,
        nearest: if mode == "exact" { "round_prefer_ceil" } else { "floor" },
        // Antialiasing uses a different coefficient, as in Pillow.
        alpha: if n.op.contains("_aa.") { -0.5 } else { -0.75 },
        exclude: n.op.contains("_aa."),
        antialias: n.op.contains("_aa."),
        extrapolation: 0.0,
    };
    let mut result = x;
    for k in 0..count {
        let (axis, from) = (k + 2, dims[k + 2].clone());
        let to = match (&sizes, scales[k], from.as_int()) {
            (Some(sizes), ..) => sizes.get(k).cloned().ok_or("its output size lacks an axis")?,
            (None, Some(scale), Some(from)) => Dim::Int((from as f64 * scale).floor() as i64),
            (None, Some(scale), None) => scaled(&from, scale)?,
            (None, None, _) => return Err("it has neither an output size nor scales".to_string()),
        };
        let of_sizes = match (from.as_int(), to.as_int()) {
            (Some(from), Some(to)) if from > 0 => Some(to as f64 / from as f64),
            _ => None,
        };
        let scale = scales[k].or(of_sizes);
        if scale == Some(1.0) && from == to {
            continue;
        }
        let axis = Axis { axis, from, to, scale, computed: None, is_sized: sizes.is_some() || aligns, roi: (0.0, 0.0) };
        result = along(cx, &result, &axis, &rules)?;
    }
    Ok(result)
}

/// Multiplies a symbolic size by a scale, which must be an integer or the reciprocal of an integer.
fn scaled(size: &Dim, scale: f64) -> Res<Dim> {
    let inverse = (1.0 / scale).round();
    if scale.fract() == 0.0 && (1.0..1e6).contains(&scale) {
        Ok(mul(size, &Dim::Int(scale as i64)))
    } else if (1.0 / inverse - scale).abs() < 1e-12 && (1.0..1e6).contains(&inverse) {
        Ok(div(size, &Dim::Int(inverse as i64)))
    } else {
        Err("its scale of a symbolic size is not a whole number; give the size of the input".to_string())
    }
}
