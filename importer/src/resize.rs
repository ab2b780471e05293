//! Resizing of axes by interpolation, and grids of positions.

use crate::emitter::Emitter;
use crate::tensor::{Res, T};
use plugin_api::prelude::*;

/// The resizing of one axis.
pub struct Axis {
    /// The axis of the tensor.
    pub axis: usize,
    /// The input size.
    pub from: Dim,
    /// The output size.
    pub to: Dim,
    /// The output size divided by the input size, if that is a known number.
    pub scale: Option<f64>,
    /// The same quotient as a tensor. If both fields are `None`, it is computed from the sizes.
    pub computed: Option<T>,
    /// True if the model gives the output size and not the scale. The length is then not computed from the rounded scale.
    pub is_sized: bool,
    /// The ends of the region of `tf_crop_and_resize`, as fractions of the input size.
    pub roi: (f64, f64),
}

/// The largest distance from the midpoint between two elements at which a position still counts as the midpoint, as in onnxruntime. A
/// position is computed in single precision, which is not exact.
const HALFWAY: f64 = 1e-6;

/// The attributes of a Resize node: how positions of the output map to positions of the input, and how values are interpolated.
pub struct Rules<'n> {
    /// The interpolation: `nearest`, `linear` or `cubic`.
    pub mode: &'n str,
    /// The attribute `coordinate_transformation_mode` of ONNX.
    pub transform: &'n str,
    /// The attribute `nearest_mode`, or `simple`, which rounds up if the tensor shrinks, and down if it grows, as onnxruntime does in the
    /// versions without this attribute.
    pub nearest: &'n str,
    /// The coefficient of cubic interpolation.
    pub alpha: f64,
    /// True if elements outside of the tensor do not count.
    pub exclude: bool,
    /// True if a window grows when the tensor shrinks.
    pub antialias: bool,
    /// The value outside of the region of `tf_crop_and_resize`.
    pub extrapolation: f64,
}

/// Resizes one axis. Each element of the result is a weighted sum of elements at indices.
pub fn along(cx: &Emitter<'_>, x: &T, axis: &Axis, rules: &Rules<'_>) -> Res<T> {
    let taps = match (axis.from.as_int(), axis.to.as_int(), axis.scale) {
        (Some(from), Some(to), Some(scale)) if to <= 1 << 16 => numbers(cx, axis, rules, from, to, scale)?,
        _ => computed(cx, axis, rules)?,
    };
    let at = [("axis", Attr::Int(axis.axis as i64))];
    let mut shape = vec![Dim::Int(1); x.rank()? - axis.axis];
    shape[0] = axis.to.clone();
    let mut sum: Option<T> = None;
    for (index, weight) in &taps.all {
        let value = cx.call("relax.take", &[x, index], &at)?;
        let value = match weight {
            None => value,
            Some(weight) => cx.mul(&value, &cx.reshape(&cx.cast(weight, x.dtype())?, shape.clone())?)?,
        };
        sum = Some(if let Some(sum) = sum { cx.add(&sum, &value)? } else { value });
    }
    let sum = sum.ok_or("it needs at least one element to interpolate")?;
    match taps.outside {
        None => Ok(sum),
        Some(outside) => {
            let outside = cx.reshape(&outside, shape)?;
            cx.select(&outside, &cx.scalar(rules.extrapolation, x.dtype())?, &sum)
        }
    }
}

/// The indices and weights of the elements to add, and a mask of the positions outside of the tensor.
struct Taps {
    all: Vec<(T, Option<T>)>,
    outside: Option<T>,
}

/// Returns the input position of an output position. It is computed in single precision, as in onnxruntime, because its rounding decides
/// which element is nearest to a position half-way between two elements.
fn place(at: f64, axis: &Axis, rules: &Rules<'_>, from: f64, to: f64, scale: f64) -> Res<f64> {
    let single = rules.mode == "nearest";
    // An operation on float32 values that is computed in double precision and then rounded gives the same result as in single precision.
    let r = |value: f64| if single { f64::from(value as f32) } else { value };
    let scale = r(scale);
    // A scale such as 5/3 is rounded. Rounding the length computed from it restores the exact length.
    let length = f64::from((scale * from) as f32);
    let width = if axis.is_sized { to } else { length };
    let moved = r(r(at + 0.5) / scale);
    Ok(match rules.transform {
        "align_corners" if width == 1.0 => 0.0,
        "align_corners" => r(r(at * (from - 1.0)) / r(width - 1.0)),
        "asymmetric" => r(at / scale),
        "tf_half_pixel_for_nn" => moved,
        "pytorch_half_pixel" if to == 1.0 => 0.0,
        "half_pixel" | "pytorch_half_pixel" => r(moved - 0.5),
        "half_pixel_symmetric" => {
            let offset = r(from / 2.0 * r(1.0 - r(to / length)));
            // As in onnxruntime, the sum is computed in double precision.
            r(offset + (at + 0.5) / scale - 0.5)
        }
        "tf_crop_and_resize" => {
            let (start, end) = axis.roi;
            if width == 1.0 {
                r(0.5 * r(start + end) * (from - 1.0))
            } else {
                let inner = r(r(r(at * r(end - start)) * (from - 1.0)) / r(width - 1.0));
                r(r(start * (from - 1.0)) + inner)
            }
        }
        other => {
            return Err(format!("its attribute `coordinate_transformation_mode` is `{other}`, which is not supported"));
        }
    })
}

/// Returns the weights of the elements around a position; `part` is the distance of the position from its floor.
fn weights(part: f64, scale: f64, rules: &Rules<'_>) -> Res<(i64, Vec<f64>)> {
    let less = scale.min(1.0);
    let cubic = |x: f64| {
        let (x, a) = (x.abs(), rules.alpha);
        match x {
            x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            _ => 0.0,
        }
    };
    if less < 1e-3 && rules.antialias {
        return Err("antialiased downscaling by a factor of more than 1000 is not supported".to_string());
    }
    let of = |start: i64, count: i64, f: &dyn Fn(f64) -> f64, normal: bool| {
        let all: Vec<f64> = (start..start + count).map(|at| f(at as f64 - part)).collect();
        let sum: f64 = if normal { all.iter().sum() } else { 1.0 };
        (start, all.into_iter().map(|weight| weight / sum).collect())
    };
    Ok(match (rules.mode, rules.antialias) {
        ("nearest", _) => {
            let up = match rules.nearest {
                "simple" => scale < 1.0 && part > 0.0,
                nearest => match edge(nearest)? {
                    ("greater", edge) => part > edge,
                    (_, edge) => part >= edge,
                },
            };
            (i64::from(up), vec![1.0])
        }
        ("linear" | "bilinear", false) => (0, vec![1.0 - part, part]),
        ("cubic", false) => of(-1, 4, &cubic, false),
        ("linear" | "bilinear", true) => {
            let start = (-1.0 / less).floor() as i64 + 1;
            of(start, 2 - 2 * start, &|x| (1.0 - (x * less).abs()).clamp(0.0, 1.0), true)
        }
        ("cubic", true) => {
            let start = (-2.0 / less).floor() as i64 + 1;
            of(start, 2 - 2 * start, &|x| cubic(x * less), true)
        }
        (other, _) => return Err(format!("its mode is `{other}`; it must be nearest, linear or cubic")),
    })
}

/// Returns indices and weights for known sizes, as constants.
fn numbers(cx: &Emitter<'_>, axis: &Axis, rules: &Rules<'_>, from: i64, to: i64, scale: f64) -> Res<Taps> {
    let mut columns: Vec<(Vec<i64>, Vec<f64>)> = Vec::new();
    let mut outside = Vec::new();
    for at in 0..to {
        let place = place(at as f64, axis, rules, from as f64, to as f64, scale)?;
        outside.push(i64::from(rules.transform == "tf_crop_and_resize" && (place < 0.0 || place > (from - 1) as f64)));
        let floor = place.floor();
        let whole = place == floor && rules.mode != "nearest" && rules.antialias;
        // An integer position belongs to the interval that ends there, because windows with an even number of elements end
        // there.
        let (floor, part) = if whole { (floor - 1.0, 1.0) } else { (floor, place - floor) };
        let (start, mut all) = weights(part, scale, rules)?;
        let index = |k: usize| floor as i64 + start + k as i64;
        if rules.exclude && rules.mode != "nearest" {
            (0..all.len())
                .filter(|k| !(0..from).contains(&index(*k)))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|k| all[k] = 0.0);
            let sum: f64 = all.iter().sum();
            all.iter_mut().for_each(|weight| *weight /= if sum == 0.0 { 1.0 } else { sum });
        }
        columns.resize_with(all.len().max(columns.len()), Default::default);
        for (k, weight) in all.iter().enumerate() {
            columns[k].0.push(index(k).clamp(0, from - 1));
            columns[k].1.push(*weight);
        }
    }
    let is_nearest = rules.mode == "nearest";
    let mut all = Vec::new();
    for (index, weight) in columns {
        if !is_nearest && weight.iter().all(|weight| *weight == 0.0) {
            continue;
        }
        let index = cx.int64s(&[to], &index)?;
        let array = Array::new(&[to], weight).map_err(|error| error.to_string())?;
        all.push((index, if is_nearest { None } else { Some(cx.array(&array)?) }));
    }
    let outside = match outside.iter().any(|at| *at != 0) {
        true => Some(cx.cast(&cx.int64s(&[to], &outside)?, DType::BOOL)?),
        false => None,
    };
    Ok(Taps { all, outside })
}

/// Returns indices and weights for symbolic sizes, which the model computes.
fn computed(cx: &Emitter<'_>, axis: &Axis, rules: &Rules<'_>) -> Res<Taps> {
    if rules.antialias || rules.transform == "tf_crop_and_resize" || rules.exclude {
        return Err(
            "it resizes symbolic sizes with antialiasing, a region or without what is outside; specify the input sizes"
                .to_string(),
        );
    }
    // This is the same computation as in `place`.
    let wide = if rules.mode == "nearest" { DType::F32 } else { DType::F64 };
    let of = |dim: &Dim| -> Res<T> { cx.cast(&cx.reshape(&cx.of_dims(vec![dim.clone()])?, vec![])?, wide) };
    let (from, to) = (of(&axis.from)?, of(&axis.to)?);
    let scale = match (axis.scale, &axis.computed) {
        (Some(scale), _) => cx.scalar(scale, wide)?,
        (None, Some(scale)) => cx.cast(scale, wide)?,
        (None, None) => cx.div(&to, &from)?,
    };
    let width = if axis.is_sized { to.clone() } else { cx.mul(&scale, &from)? };
    let place = computed_place(cx, &cx.arange(&axis.to, wide)?, &scale, (&from, &to, &width), rules.transform)?;
    let floor = cx.un("floor", &place)?;
    let part = cx.sub(&place, &floor)?;
    let last = cx.add_s(&from, -1.0)?;
    let index = |offset: &T| -> Res<T> {
        let at = cx.bin("minimum", &cx.max_s(&cx.add(&floor, offset)?, 0.0)?, &last)?;
        cx.cast(&at, DType::I64)
    };
    let step = |by: f64| -> Res<T> { index(&cx.scalar(by, wide)?) };
    let all = match rules.mode {
        "nearest" => {
            let one = cx.scalar(1.0, wide)?;
            let (op, edge) = match rules.nearest {
                "simple" => ("greater", cx.select(&cx.bin("less", &scale, &one)?, &cx.scalar(0.0, wide)?, &one)?),
                nearest => {
                    let (op, edge) = edge(nearest)?;
                    (op, cx.scalar(edge, wide)?)
                }
            };
            let up = cx.cast(&cx.bin(op, &part, &edge)?, wide)?;
            vec![(index(&up)?, None)]
        }
        "linear" | "bilinear" => {
            let rest = cx.sub(&cx.scalar(1.0, wide)?, &part)?;
            vec![(step(0.0)?, Some(rest)), (step(1.0)?, Some(part.clone()))]
        }
        _ => {
            return Err("it resizes symbolic sizes with cubic curves, which is not supported; specify the input sizes"
                .to_string());
        }
    };
    Ok(Taps { all, outside: None })
}

/// Returns a comparison of the fractional part of a position with a threshold, which is true if the next element is the nearest one.
fn edge(nearest: &str) -> Res<(&'static str, f64)> {
    Ok(match nearest {
        "round_prefer_floor" => ("greater", 0.5 + HALFWAY),
        "round_prefer_ceil" => ("greater_equal", 0.5 - HALFWAY),
        "ceil" => ("greater", 0.0),
        "floor" => ("greater", 1.0),
        other => return Err(format!("its attribute `nearest_mode` is `{other}`, which ONNX does not have")),
    })
}

/// Computes the input positions of output positions.
fn computed_place(cx: &Emitter<'_>, at: &T, scale: &T, (from, to, width): (&T, &T, &T), transform: &str) -> Res<T> {
    let moved = || -> Res<T> { cx.div(&cx.add_s(at, 0.5)?, scale) };
    let half = || -> Res<T> { cx.add_s(&moved()?, -0.5) };
    match transform {
        "asymmetric" => cx.div(at, scale),
        "half_pixel" => half(),
        "tf_half_pixel_for_nn" => moved(),
        "pytorch_half_pixel" => {
            let is_one = cx.bin("equal", to, &cx.scalar(1.0, at.dtype())?)?;
            cx.select(&is_one, &cx.scalar(0.0, at.dtype())?, &half()?)
        }
        "align_corners" => {
            let last = cx.max_s(&cx.add_s(width, -1.0)?, 1e-30)?;
            cx.div(&cx.mul(at, &cx.add_s(from, -1.0)?)?, &last)
        }
        other => {
            Err(format!("it resizes symbolic sizes with `{other}`, which is not supported; specify the input sizes"))
        }
    }
}

/// Returns the positions to which a linear map moves the pixels of a grid from -1 to 1. `size` contains the sizes of the batch, the
/// channels, and two or three spatial axes.
pub fn affine_grid(cx: &Emitter<'_>, theta: &T, size: &[Dim], corners: bool) -> Res<T> {
    let space = size
        .get(2..)
        .filter(|space| matches!(space.len(), 2 | 3))
        .ok_or("its grid must have two or three spatial axes")?;
    let count = space.len();
    // The last axis is the first coordinate of a position.
    let mut parts = Vec::new();
    for axis in (0..count).rev() {
        let length = cx.cast(&cx.reshape(&cx.of_dims(vec![space[axis].clone()])?, vec![])?, theta.dtype())?;
        let at = cx.arange(&space[axis], theta.dtype())?;
        let line = match corners {
            true => cx.add_s(&cx.div(&cx.mul_s(&at, 2.0)?, &cx.add_s(&length, -1.0)?)?, -1.0)?,
            false => cx.add_s(&cx.div(&cx.add_s(&cx.mul_s(&at, 2.0)?, 1.0)?, &length)?, -1.0)?,
        };
        let mut shape = vec![Dim::Int(1); count];
        shape[axis] = space[axis].clone();
        parts.push(cx.broadcast_to(&cx.reshape(&line, shape)?, space)?);
    }
    parts.push(cx.filled(1.0, theta.dtype(), space)?);
    let parts: Vec<T> = parts.iter().map(|part| cx.unsqueeze(part, &[count])).collect::<Res<_>>()?;
    let grid = cx.concat(&parts, count)?;
    let flat = cx.reshape(&grid, vec![plugin_api::arith::product(space), Dim::Int(count as i64 + 1)])?;
    let places = cx.matmul(&flat, &cx.swapped(theta)?)?;
    let mut shape = vec![size[0].clone()];
    shape.extend(space.iter().cloned());
    shape.push(Dim::Int(count as i64));
    cx.reshape(&places, shape)
}
