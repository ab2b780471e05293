//! Operators on images.

use super::{Row, one};
use crate::cx::Cx;
use crate::known::{self, Elem};
use crate::node::Node;
use crate::value::{Res, T};
use importer::resize::{Axis, Rules, along};
use plugin_api::prelude::*;

pub(super) const ROWS: &[Row] = &[
    one("Resize", 10, resize),
    one("Upsample", 7, resize),
    one("AffineGrid", 20, affine_grid),
    one("GridSample", 16, grid_sample),
    one("MaxRoiPool", 7, max_roi_pool),
    one("RoiAlign", 10, roi_align),
];

fn roi_align<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, rois, batch) = (n.input(0)?, n.input(1)?, n.input(2)?);
    let default = if n.version < 16 { "output_half_pixel" } else { "half_pixel" };
    let half = match n.text("coordinate_transformation_mode", default)? {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => {
            return Err(format!(
                "its attribute `coordinate_transformation_mode` is `{other}`, which ONNX does not define"
            ));
        }
    };
    let (height, width) = (n.int("output_height", 1)?, n.int("output_width", 1)?);
    let (ratio, scale) = (n.int("sampling_ratio", 0)?, n.float("spatial_scale", 1.0)?);
    match n.text("mode", "avg")? {
        "avg" => {
            let (rois, scale) = match half {
                true => (cx.add_s(&cx.mul_s(&rois, scale)?, -0.5)?, 1.0),
                false => (rois, scale),
            };
            let batch = cx.unsqueeze(&cx.cast(&batch, rois.dtype())?, &[1])?;
            let attrs = [
                ("pooled_size", vec![height, width].into()),
                ("spatial_scale", scale.into()),
                ("sample_ratio", ratio.into()),
                ("aligned", half.into()),
            ];
            cx.call("relax.vision.roi_align", &[&x, &cx.concat(&[batch, rois], 1)?], &attrs)
        }
        // ONNX takes the greatest product of an element and its weight, Relax the greatest sum of such products.
        "max" => {
            let attrs = [
                ("half_pixel", half.into()),
                ("output_height", height.into()),
                ("output_width", width.into()),
                ("sampling_ratio", ratio.into()),
                ("spatial_scale", scale.into()),
            ];
            cx.call("onnx.roi_max", &[&x, &rois, &cx.cast(&batch, DType::I64)?], &attrs)
        }
        other => Err(format!("its mode is `{other}`; it must be avg or max")),
    }
}

/// Samples a tensor with one to three spatial axes. The last axis of the grid contains the coordinates; in Relax, the second
/// axis does.
pub(super) fn grid_sample<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, grid) = (n.input(0)?, n.input(1)?);
    let method = match n.text("mode", "linear")? {
        "linear" | "bilinear" => "bilinear",
        "cubic" | "bicubic" => "bicubic",
        "nearest" => "nearest",
        other => return Err(format!("its mode is `{other}`; it must be linear, nearest or cubic")),
    };
    let (padding, corners) = (n.text("padding_mode", "zeros")?, n.flag("align_corners", false)?);
    let rank = x.dims()?.len();
    if !(3..=5).contains(&rank) || grid.dims()?.len() != rank {
        return Err(format!(
            "its tensor and its grid must have 3 to 5 dimensions, found {rank} and {}",
            grid.dims()?.len()
        ));
    }
    let order: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let mut grid = cx.transpose(&grid, &order)?;
    if method == "nearest" && padding == "reflection" && !corners {
        grid = rounded(cx, &grid, &x.dims()?[2..])?;
    }
    let mut data = x.clone();
    if rank == 3 {
        // A sequence becomes an image with one row, at coordinate 0.
        (data, grid) = (cx.unsqueeze(&x, &[2])?, cx.unsqueeze(&grid, &[2])?);
        let zeros = cx.filled(0.0, grid.dtype(), &grid.dims()?)?;
        grid = cx.concat(&[grid, zeros], 1)?;
    }
    let layout = if rank == 5 { "NCDHW" } else { "NCHW" };
    let attrs = [
        ("method", method.into()),
        ("layout", layout.into()),
        ("padding_mode", padding.into()),
        ("align_corners", corners.into()),
    ];
    let out = cx.call("relax.image.grid_sample", &[&data, &grid], &attrs)?;
    if rank == 3 { cx.squeeze(&out, &[2]) } else { Ok(out) }
}

/// Moves positions to the nearest elements. ONNX rounds positions before it reflects them, Relax afterwards, so the
/// results for halves differ.
fn rounded<'a>(cx: &mut Cx<'a>, grid: &T, sizes: &[Dim]) -> Res<T> {
    let mut shape = vec![Dim::Int(1); sizes.len() + 2];
    shape[1] = Dim::Int(sizes.len() as i64);
    let sizes = cx.of_dims(sizes.iter().rev().cloned().collect())?;
    let sizes = cx.cast(&cx.reshape(&sizes, shape)?, grid.dtype())?;
    let place = cx.add_s(&cx.mul(&cx.add_s(grid, 1.0)?, &sizes)?, -1.0)?;
    let place = cx.un("round", &cx.mul_s(&place, 0.5)?)?;
    cx.add_s(&cx.div(&cx.add_s(&cx.mul_s(&place, 2.0)?, 1.0)?, &sizes)?, -1.0)
}

/// Returns the largest element in each cell of each region. Cells begin and end at whole elements; empty cells are 0.
fn max_roi_pool<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let (x, rois) = (n.input(0)?, n.input(1)?);
    let pooled = n.ints("pooled_shape")?.filter(|list| list.len() == 2 && list.iter().all(|n| (1..4096).contains(n)));
    let pooled = pooled.ok_or("its attribute `pooled_shape` must be two positive numbers")?;
    let attrs = [("pooled_size", pooled.into()), ("spatial_scale", n.float("spatial_scale", 1.0)?.into())];
    cx.call("relax.vision.roi_pool", &[&x, &rois], &attrs)
}

fn resize<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let x = n.input(0)?;
    let is_old = n.version < 11 || n.op() == "Upsample";
    let rules = Rules {
        mode: n.text("mode", "nearest")?,
        transform: if is_old { "asymmetric" } else { n.text("coordinate_transformation_mode", "half_pixel")? },
        nearest: if is_old { "simple" } else { n.text("nearest_mode", "round_prefer_floor")? },
        alpha: n.float("cubic_coeff_a", -0.75)?,
        exclude: n.flag("exclude_outside", false)?,
        antialias: n.flag("antialias", false)?,
        extrapolation: n.float("extrapolation_value", 0.0)?,
    };
    let axes = resized_axes(cx, n, &x, is_old)?;
    let wide = rules.mode != "nearest" && !x.is_float();
    let start = if wide { cx.cast(&x, DType::F32)? } else { x.clone() };
    let out = axes.iter().try_fold(start, |x, axis| along(cx, &x, axis, &rules))?;
    if !wide {
        return Ok(out);
    }
    // Numbers are truncated within the range of the type.
    let (least, most) = super::quant::limits(x.dtype())?;
    let kept = cx.bin("minimum", &cx.max_s(&out, least)?, &cx.scalar(most, DType::F32)?)?;
    cx.cast(&kept, x.dtype())
}

/// Returns the axes whose sizes change, from the scales or the sizes.
fn resized_axes<'a>(cx: &mut Cx<'a>, n: &Node<'a>, x: &T, is_old: bool) -> Res<Vec<Axis>> {
    let dims = x.dims()?;
    let axes: Vec<usize> = match n.ints("axes")? {
        Some(axes) => axes.iter().map(|axis| x.axis(*axis)).collect::<Res<_>>()?,
        None => (0..dims.len()).collect(),
    };
    let is_empty = |tensor: &T| tensor.shape().is_some_and(|dims| dims.iter().any(|dim| dim.as_int() == Some(0)));
    let (roi, scales, sizes) = match is_old {
        true if n.version < 9 => (
            None,
            n.floats("scales")?
                .map(|s| cx.array(&Array::new(&[s.len() as i64], s).map_err(|e| e.to_string())?))
                .transpose()?,
            None,
        ),
        true => (None, n.opt(1)?, None),
        false => {
            (n.opt(1)?.filter(|t| !is_empty(t)), n.opt(2)?.filter(|t| !is_empty(t)), n.opt(3)?.filter(|t| !is_empty(t)))
        }
    };
    let policy = n.text("keep_aspect_ratio_policy", "stretch")?;
    let roi = match roi {
        Some(roi) => {
            let values = roi.floats();
            if values.is_none() && n.text("coordinate_transformation_mode", "half_pixel")? == "tf_crop_and_resize" {
                return Err(n.must_be_known(1));
            }
            values.filter(|roi| roi.len() == 2 * axes.len())
        }
        None => None,
    };
    let mut result = Vec::new();
    let sizes = match (&scales, &sizes) {
        (None, Some(sizes)) => Some(cx.dims_of(sizes, "s")?),
        (Some(_), _) => None,
        (None, None) => return Err("it has neither scales nor sizes".to_string()),
    };
    for (k, axis) in axes.iter().enumerate() {
        let from = dims[*axis].clone();
        let (to, scale, computed) = match (&sizes, &scales) {
            (Some(sizes), _) => {
                let (to, scale) = sized(&dims, &axes, sizes, k, policy)?;
                (to, scale, None)
            }
            (None, Some(scales)) => scaled(cx, n, scales, k, &from)?,
            (None, None) => return Err("it has neither scales nor sizes".to_string()),
        };
        let roi = roi.as_ref().map_or((0.0, 1.0), |roi| (roi[k], roi[axes.len() + k]));
        let crops =
            roi != (0.0, 1.0) && n.text("coordinate_transformation_mode", "half_pixel")? == "tf_crop_and_resize";
        if crops
            || !known::same(&from, &to)
            || computed.is_some()
            || scale.is_some_and(|scale| (scale - 1.0).abs() > 1e-9)
        {
            result.push(Axis { axis: *axis, from, to, scale, computed, is_sized: sizes.is_some(), roi });
        }
    }
    Ok(result)
}

/// Returns the size and the scale of axis `k`, if sizes are given.
fn sized(dims: &[Dim], axes: &[usize], sizes: &[Dim], k: usize, policy: &str) -> Res<(Dim, Option<f64>)> {
    if sizes.len() != axes.len() {
        return Err(format!("it has {} sizes for {} axes", sizes.len(), axes.len()));
    }
    let ratio = |k: usize| Some(sizes[k].as_int()? as f64 / dims[axes[k]].as_int()? as f64);
    let own = ratio(k);
    if policy == "stretch" {
        return Ok((sizes[k].clone(), own));
    }
    let all: Option<Vec<f64>> = (0..axes.len()).map(ratio).collect();
    let all = all.ok_or("its aspect ratio depends on symbolic sizes; specify the input sizes")?;
    let scale = match policy {
        "not_larger" => all.iter().copied().fold(f64::INFINITY, f64::min),
        "not_smaller" => all.iter().copied().fold(0.0, f64::max),
        other => {
            return Err(format!("its attribute `keep_aspect_ratio_policy` is `{other}`, which ONNX does not define"));
        }
    };
    let size = dims[axes[k]].as_int().unwrap_or(0) as f64;
    Ok((Dim::Int((scale * size + 0.5) as i64), Some(scale)))
}

/// Returns the size and the scale of axis `k`, if scales are given.
fn scaled(cx: &mut Cx<'_>, n: &Node<'_>, scales: &T, k: usize, from: &Dim) -> Res<(Dim, Option<f64>, Option<T>)> {
    let elems = scales.known().map(|known| known.elems.clone());
    match elems.as_ref().and_then(|elems| elems.get(k)) {
        Some(Elem::Float(scale)) => {
            let to = match from.as_int() {
                // The product is rounded, because a scale such as 5/3 is rounded, too.
                Some(from) => Dim::Int((*scale as f32 * from as f32) as i64),
                None => match known::arithmetic("Mul", &Elem::Ratio(from.clone(), 1), &Elem::Float(*scale), DType::F32)
                {
                    Some(Elem::Ratio(dim, by)) => known::div(&dim, &Dim::Int(by)),
                    _ => {
                        let size = cx.cast(&cx.of_dims(vec![from.clone()])?, DType::F32)?;
                        let size = cx.cast(&cx.un("floor", &cx.mul_s(&size, *scale)?)?, DType::I64)?;
                        cx.dims_of(&size, "s")?.remove(0)
                    }
                },
            };
            Ok((to, Some(*scale), None))
        }
        // The scale is a quotient of sizes, which determine the size of the result exactly.
        Some(elem @ Elem::Ratio(..)) => match known::arithmetic("Mul", elem, &Elem::Ratio(from.clone(), 1), DType::F32)
        {
            Some(Elem::Ratio(dim, by)) => {
                let one = known::Known::new(DType::F64, vec![], vec![elem.clone()]).map(T::known_as);
                Ok((known::div(&dim, &Dim::Int(by)), None, one))
            }
            _ => Err(n.must_be_known(2)),
        },
        _ => {
            let one = cx.range(scales, 0, k as i64, k as i64 + 1)?;
            let size = cx.mul(&one, &cx.cast(&cx.of_dims(vec![from.clone()])?, DType::F32)?)?;
            let size = cx.cast(&cx.un("floor", &size)?, DType::I64)?;
            let scale = cx.reshape(&one, vec![])?;
            Ok((cx.dims_of(&size, "s")?.remove(0), None, Some(scale)))
        }
    }
}

/// Returns the positions to which a linear map moves the pixels of a grid from -1 to 1.
fn affine_grid<'a>(cx: &mut Cx<'a>, n: &Node<'a>) -> Res<T> {
    let theta = n.input(0)?;
    let size = cx.dims_of(&n.input(1)?, "s")?;
    importer::resize::affine_grid(cx, &theta, &size, n.flag("align_corners", false)?)
}
