//! Image operators.

use super::{Legal, Row, cannot, float_attr, number_of, result_shape};
use crate::declare::{int, text};
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr, TeTensor};

pub(super) const ROWS: &[Row] = &[
    ("relax.image.resize2d", |call| resize(call, "resize2d", [("NHWC", &[1, 2]), ("NCHW", &[2, 3])])),
    ("relax.image.resize3d", |call| resize(call, "resize3d", [("NDHWC", &[1, 2, 3]), ("NCDHW", &[2, 3, 4])])),
    ("relax.image.affine_grid", affine_grid),
];

fn float(value: f64) -> TeExpr {
    TeExpr::float(value, DType::F32)
}

/// The mapping from positions in the result to positions in the data.
struct Places<'c> {
    mode: &'c str,
    rounding: &'c str,
    /// The region that `tf_crop_and_resize` crops: all starts, then all ends, each from 0 to 1.
    region: Vec<f64>,
}

impl Places<'_> {
    fn crops(&self) -> bool {
        self.mode == "tf_crop_and_resize"
    }

    /// Returns the fractional position along an axis. `k` is the index of the axis among the resized axes.
    fn of(&self, at: &TeExpr, k: usize, from: i64, to: i64) -> Option<TeExpr> {
        let (from, to, at) = (from as f64, to as f64, at.cast(DType::F32));
        let scale = |from: f64, to: f64| float(f64::from((from / to) as f32));
        Some(match self.mode {
            "align_corners" | "pytorch_half_pixel" if to <= 1.0 => float(0.0),
            "half_pixel" | "pytorch_half_pixel" => (at + 0.5) * scale(from, to) - 0.5,
            "align_corners" => scale(from - 1.0, to - 1.0) * at,
            "asymmetric" => scale(from, to) * at,
            "tf_half_pixel_for_nn" => (at + 0.5) * scale(from, to),
            "tf_crop_and_resize" => {
                let (start, end) = (*self.region.get(k)?, *self.region.get(k + self.region.len() / 2)?);
                match to > 1.0 {
                    true => at * scale((end - start) * (from - 1.0), to - 1.0) + start * (from - 1.0),
                    false => float(0.5 * (start + end) * (from - 1.0)),
                }
            }
            _ => return None,
        })
    }

    /// Rounds a position to the nearest integer.
    fn nearest(&self, place: TeExpr) -> Option<TeExpr> {
        let place = match self.rounding {
            "round" => place.math("round"),
            "round_prefer_floor" => (place - 0.5).math("ceil"),
            "round_prefer_ceil" => (place + 0.5).math("floor"),
            "floor" => (place + 1e-5).math("floor"),
            "ceil" => (place - 1e-5).math("ceil"),
            _ => return None,
        };
        Some(place.cast(DType::I64))
    }
}

/// A position of the result between two positions of the data.
struct Between {
    /// The nearest position of the data before it, as an index.
    before: TeExpr,
    /// The distance to the position before, from 0 to 1.
    part: TeExpr,
}

impl Between {
    fn of(place: TeExpr) -> Between {
        let floor = place.math("floor");
        Between { before: floor.cast(DType::I64), part: place - floor.cast(DType::I32).cast(DType::F32) }
    }
}

/// Interpolates between the values at all positions, one axis at a time.
fn mean(between: &[Between], at: &[TeExpr], value: &dyn Fn(&[TeExpr]) -> TeExpr) -> TeExpr {
    let Some((first, rest)) = between.split_first() else { return value(at) };
    let along = |place: TeExpr| mean(rest, &[at, std::slice::from_ref(&place)].concat(), value);
    along(first.before.clone()) * (float(1.0) - &first.part) + along(&first.before + 1) * &first.part
}

/// Clamps a position to an axis of this size.
fn within(at: TeExpr, size: &Dim) -> TeExpr {
    at.min(TeExpr::of_dim(size.clone()) - 1).max(0)
}

/// An axis that is resized.
struct Resized {
    axis: usize,
    from: i64,
    to: i64,
    /// The divisor that turns a result index into its position by integer division, where one exists.
    divisor: Option<i64>,
}

/// Resizes images and volumes. The last layout is the layout without a channel axis.
fn resize(call: Call<'_>, name: &str, layouts: [(&str, &[usize]); 2]) -> Legal {
    let layout = text(call, "layout").unwrap_or(layouts[1].0);
    let Some((_, axes)) = layouts.into_iter().find(|(known, _)| *known == layout) else {
        return cannot(format!("it is not legalized for the layout `{layout}`"));
    };
    let mode = text(call, "coordinate_transformation_mode").unwrap_or("half_pixel");
    let usual = if mode == "align_corners" { "round" } else { "floor" };
    let rounding = text(call, "rounding_method").filter(|name| !name.is_empty()).unwrap_or(usual);
    let region: Option<Vec<f64>> = call.attr("roi").and_then(|roi| roi.items().map(number_of).collect());
    let places = Places { mode, rounding, region: region.unwrap_or_default() };
    if places.crops() && (axes.len() != 2 || places.region.len() != 4) {
        return cannot("it is legalized with `tf_crop_and_resize` only for images and a `roi` of four numbers");
    }
    let te = Te::new(name, call);
    te.name_axes("i");
    let x = te.input(0)?;
    let shape = result_shape(call)?;
    // In images, but not in volumes, an axis that is enlarged by an integer factor uses integer division.
    let divides = axes.len() == 2 && mode == "asymmetric" && rounding == "floor";
    let resized = |axis: &usize| {
        let (from, to) = x.shape()[*axis].as_int().zip(shape[*axis].as_int())?;
        let is_exact = from > 0 && to % from == 0 && (to / from) as f64 <= 1.0 / (1e-5 * (from + 1) as f64);
        Some(Resized { axis: *axis, from, to, divisor: (divides && is_exact).then(|| to / from) })
    };
    let Some(resized) = axes.iter().map(resized).collect::<Option<Vec<Resized>>>() else {
        return cannot("it is legalized only for known sizes");
    };
    let to = call.ty().dtype();
    let out = match text(call, "method") {
        Some("nearest_neighbor") => nearest(&te, &x, &shape, &places, &resized, to),
        Some("linear") => linear(&te, &x, &shape, &places, &resized, to),
        Some("cubic") => cubic(&te, &x, &shape, &places, &resized, to),
        method => {
            let known = "`nearest_neighbor`, `linear` and `cubic`";
            return cannot(format!("the supported methods are {known}, found `{}`", method.unwrap_or("")));
        }
    };
    match out {
        Some(out) => te.finish(&[out]),
        None => cannot(format!("coordinates `{mode}` with rounding `{rounding}` are not supported")),
    }
}

/// Returns the data element at a result position, with other indices along the resized axes.
fn pixel(x: &TeTensor, resized: &[Resized], i: &[TeExpr], at: &[TeExpr]) -> TeExpr {
    let mut index = i.to_vec();
    for (one, at) in resized.iter().zip(at) {
        index[one.axis] = within(at.clone(), &x.shape()[one.axis]);
    }
    x.at(&index)
}

/// Replaces values outside of the image if `tf_crop_and_resize` is used.
fn cropped(te: &Te<'_>, places: &[TeExpr], crops: bool, resized: &[Resized], value: TeExpr) -> TeExpr {
    if !crops {
        return value;
    }
    let other =
        TeExpr::float(float_attr(te.call(), "extrapolation_value").unwrap_or(0.0), DType::F64).cast(value.dtype());
    resized.iter().zip(places).fold(value, |value, (one, place)| {
        let outside = place.lt(0.0).or(place.gt((one.from - 1) as f64));
        outside.if_then_else(&other, value)
    })
}

/// Returns the positions along all resized axes.
fn all_places(places: &Places<'_>, resized: &[Resized], i: &[TeExpr]) -> Option<Vec<TeExpr>> {
    resized.iter().enumerate().map(|(k, one)| places.of(&i[one.axis], k, one.from, one.to)).collect()
}

/// Computes a tensor from the positions of each element, or returns `None` if the positions do not exist.
fn computed(
    te: &Te<'_>,
    name: &str,
    shape: &[Dim],
    value: impl FnOnce(&[TeExpr]) -> Option<TeExpr>,
) -> Option<TeTensor> {
    let mut found = true;
    let out = te.compute(name, shape, |i| {
        let value = value(i);
        found = value.is_some();
        value.unwrap_or_else(|| float(0.0))
    });
    found.then_some(out)
}

fn nearest(
    te: &Te<'_>,
    x: &TeTensor,
    shape: &[Dim],
    places: &Places<'_>,
    resized: &[Resized],
    to: DType,
) -> Option<TeTensor> {
    computed(te, "resize", shape, |i| {
        let at = all_places(places, resized, i)?;
        let whole = |(one, place): (&Resized, &TeExpr)| match one.divisor {
            Some(by) => Some(i[one.axis].trunc_div(by)),
            None => places.nearest(place.clone()),
        };
        let whole = resized.iter().zip(&at).map(whole).collect::<Option<Vec<TeExpr>>>()?;
        Some(cropped(te, &at, places.crops(), resized, pixel(x, resized, i, &whole).cast(to)))
    })
}

/// Interpolates linearly between the two neighbors along each axis, in single precision.
fn linear(
    te: &Te<'_>,
    x: &TeTensor,
    shape: &[Dim],
    places: &Places<'_>,
    resized: &[Resized],
    to: DType,
) -> Option<TeTensor> {
    computed(te, "resize", shape, |i| {
        let at = all_places(places, resized, i)?;
        let between: Vec<Between> = at.iter().cloned().map(Between::of).collect();
        let value = mean(&between, &[], &|at| pixel(x, resized, i, at).cast(DType::F32)).cast(to);
        Some(cropped(te, &at, places.crops(), resized, value))
    })
}

/// Returns the weights of the four neighbors along an axis.
fn cubic_weights(te: &Te<'_>, places: &Places<'_>, k: usize, one: &Resized) -> Option<TeTensor> {
    let alpha = float_attr(te.call(), "cubic_alpha").unwrap_or(-0.75);
    let excludes = int(te.call(), "cubic_exclude").is_some_and(|excludes| excludes != 0);
    let shape = [Dim::Int(one.to), Dim::Int(4)];
    let weights = computed(te, "resize_weights", &shape, |i| {
        let Between { before, part: t } = Between::of(places.of(&i[0], k, one.from, one.to)?);
        let (t2, t3) = (&t * &t, &t * &t * &t);
        let weights = [
            (&t3 - &t2 * 2.0 + &t) * alpha,
            &t3 * (alpha + 2.0) - &t2 * (alpha + 3.0) + 1.0,
            &t2 * (2.0 * alpha + 3.0) - &t3 * (alpha + 2.0) - &t * alpha,
            (t2 - t3) * alpha,
        ];
        let [first, second, third, last] = weights;
        let weight = i[1].eq(0).select(first, i[1].eq(1).select(second, i[1].eq(2).select(third, last)));
        let at = before + &i[1] - 1;
        Some(match excludes {
            true => at.lt(0).or(at.ge(one.from)).select(0.0, weight),
            false => weight,
        })
    })?;
    if !excludes {
        return Some(weights);
    }
    let tap = te.reduce_axis("k", &Dim::Int(4));
    let sum = te.compute("resize_weights_red", &shape[..1], |i| weights.at([&i[0], &tap]).sum(&[&tap]));
    Some(te.compute("resize_weights", &shape, |i| weights.at(i) / sum.at([&i[0]])))
}

/// Interpolates over four neighbors along each axis with cubic spline weights, in single precision.
fn cubic(
    te: &Te<'_>,
    x: &TeTensor,
    shape: &[Dim],
    places: &Places<'_>,
    resized: &[Resized],
    to: DType,
) -> Option<TeTensor> {
    let weights = resized.iter().enumerate().map(|(k, one)| cubic_weights(te, places, k, one));
    let weights = weights.collect::<Option<Vec<TeTensor>>>()?;
    let taps: Vec<TeExpr> = (0..resized.len()).map(|k| te.reduce_axis(&format!("k{k}"), &Dim::Int(4))).collect();
    let sum = computed(te, "resize_sum", shape, |i| {
        let at = all_places(places, resized, i)?;
        let at: Vec<TeExpr> = at.into_iter().map(Between::of).zip(&taps).map(|(one, k)| one.before + k - 1).collect();
        let each = weights.iter().zip(resized).zip(&taps).map(|((weights, one), k)| weights.at([&i[one.axis], k]));
        let value = each.fold(pixel(x, resized, i, &at).cast(DType::F32), |value, weight| value * weight);
        Some(value.sum(&taps.iter().collect::<Vec<_>>()))
    })?;
    computed(te, "resize", shape, |i| {
        let at = all_places(places, resized, i)?;
        Some(cropped(te, &at, places.crops(), resized, sum.at(i).cast(to)))
    })
}

/// The grid is shorter than 2 by this much, so that its end is inside.
const ALMOST: f64 = 1e-7;

/// Computes the image positions to which a linear map sends the positions of a grid from -1 to 1.
fn affine_grid(call: Call<'_>) -> Legal {
    let te = Te::new("affine_grid", call);
    let theta = te.input(0)?;
    let shape = result_shape(call)?;
    let known: Option<Vec<i64>> = shape.iter().skip(2).map(Dim::as_int).collect();
    let Some(sizes) = known else { return cannot("it is legalized only for axes of known size") };
    let align = crate::declare::flag(call, "align_corners");
    // The start along an axis, and the step to the next position.
    let along = |size: i64| match (align, size as f64) {
        (true, size) if size > 1.0 => (-1.0, (2.0 - ALMOST) / (size - 1.0)),
        (true, _) => (-1.0, 0.0),
        (false, size) => (-1.0 + 1.0 / size, 2.0 / size),
    };
    let out = te.compute("compute", &shape, |i| {
        let place = |axis: usize| {
            let (start, step) = along(sizes[axis]);
            float(start) + i[2 + axis].cast(DType::F32) * float(step)
        };
        let factor = |k: i64| theta.at([i[0].clone(), i[1].clone(), TeExpr::int(k, DType::I64)]);
        let count = sizes.len();
        (0..count).fold(factor(count as i64), |sum, axis| sum + factor((count - 1 - axis) as i64) * place(axis))
    });
    te.finish(&[out])
}
