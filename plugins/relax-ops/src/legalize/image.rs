//! Images.

use super::{Legal, Row, cannot, result_shape};
use crate::declare::text;
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr};

pub(super) const ROWS: &[Row] = &[
    ("relax.image.resize2d", |call| resize(call, "resize2d", [("NHWC", &[1, 2]), ("NCHW", &[2, 3])])),
    ("relax.image.resize3d", |call| resize(call, "resize3d", [("NDHWC", &[1, 2, 3]), ("NCDHW", &[2, 3, 4])])),
    ("relax.image.affine_grid", affine_grid),
];

fn float(value: f64) -> TeExpr {
    TeExpr::float(value, DType::F32)
}

/// How places of a result are places of the data.
struct Places<'c> {
    mode: &'c str,
    rounding: &'c str,
}

impl Places<'_> {
    /// The place along an axis, as a number with a fraction.
    fn of(&self, at: &TeExpr, from: i64, to: i64) -> Option<TeExpr> {
        let (from, to, at) = (from as f64, to as f64, at.cast(DType::F32));
        let scale = |from: f64, to: f64| float(f64::from((from / to) as f32));
        Some(match self.mode {
            "half_pixel" => (at + 0.5) * scale(from, to) - 0.5,
            "align_corners" => scale(from - 1.0, to - 1.0) * at,
            "asymmetric" => scale(from, to) * at,
            _ => return None,
        })
    }

    /// The nearest whole place.
    fn nearest(&self, place: TeExpr) -> Option<TeExpr> {
        let place = match (self.rounding, self.mode) {
            ("round", _) => place.math("round"),
            ("round_prefer_floor", _) => (place - 0.5).math("ceil"),
            ("round_prefer_ceil", _) => (place + 0.5).math("floor"),
            ("floor", "align_corners") => (place + 1e-5).math("floor"),
            ("floor", _) => (place + 1e-5).math("floor"),
            ("ceil", _) => (place - 1e-5).math("ceil"),
            _ => return None,
        };
        Some(place.cast(DType::I64))
    }
}

/// A place of the result between two of the data.
struct Between {
    /// The place before, as an index.
    before: TeExpr,
    /// How far it is from there to the next, from 0 to 1.
    part: TeExpr,
}

impl Between {
    fn of(place: TeExpr) -> Between {
        let floor = place.math("floor");
        Between { before: floor.cast(DType::I64), part: place - floor.cast(DType::I32).cast(DType::F32) }
    }
}

/// A value between those at all places, along one axis after the other.
fn mean(between: &[Between], at: &[TeExpr], value: &dyn Fn(&[TeExpr]) -> TeExpr) -> TeExpr {
    let Some((first, rest)) = between.split_first() else { return value(at) };
    let along = |place: TeExpr| mean(rest, &[at, std::slice::from_ref(&place)].concat(), value);
    along(first.before.clone()) * (float(1.0) - &first.part) + along(&first.before + 1) * &first.part
}

/// A place within an axis of this size.
fn within(at: TeExpr, size: &Dim) -> TeExpr {
    at.min(TeExpr::of_dim(size.clone()) - 1).max(0)
}

/// Images and volumes. The last of the layouts is that without one.
fn resize(call: Call<'_>, name: &str, layouts: [(&str, &[usize]); 2]) -> Legal {
    let layout = text(call, "layout").unwrap_or(layouts[1].0);
    let Some((_, axes)) = layouts.into_iter().find(|(known, _)| *known == layout) else {
        return cannot(format!("it is not legalized for the layout `{layout}`"));
    };
    let nearest = match text(call, "method") {
        Some("nearest_neighbor") => true,
        Some("linear") => false,
        _ => return cannot("it is legalized for the methods `nearest_neighbor` and `linear` only"),
    };
    let mode = text(call, "coordinate_transformation_mode").unwrap_or("half_pixel");
    let usual = if mode == "align_corners" { "round" } else { "floor" };
    let rounding = text(call, "rounding_method").filter(|name| !name.is_empty()).unwrap_or(usual);
    let places = Places { mode, rounding };
    let te = Te::new(name, call);
    te.name_axes("i");
    let x = te.input(0)?;
    let shape = result_shape(call)?;
    let known = axes.iter().all(|axis| x.shape()[*axis].as_int().and(shape[*axis].as_int()).is_some());
    if !known || (!nearest && x.dtype() != DType::F32) {
        return cannot("it is legalized for known sizes only, and linearly for float32");
    }
    if call.ty().dtype() != x.dtype() {
        return cannot("it is legalized for results of the data type of the image only");
    }
    // Of images, not of volumes, an axis that becomes a whole number of times as long is divided in integers.
    let divides = axes.len() == 2 && mode == "asymmetric" && rounding == "floor";
    let divisor = |axis: &usize| {
        let (from, to) = x.shape()[*axis].as_int().zip(shape[*axis].as_int()).filter(|(from, _)| *from > 0)?;
        let is_exact = to % from == 0 && (to / from) as f64 <= 1.0 / (1e-5 * (from + 1) as f64);
        (divides && is_exact).then_some(to / from)
    };
    let mut found = true;
    let out = te.compute("resize", &shape, |i| {
        let place = |axis: &usize| {
            let (from, to) = x.shape()[*axis].as_int().zip(shape[*axis].as_int())?;
            places.of(&i[*axis], from, to)
        };
        let pixel = |at: &[TeExpr]| {
            let mut index = i.to_vec();
            axes.iter().zip(at).for_each(|(axis, at)| index[*axis] = within(at.clone(), &x.shape()[*axis]));
            x.at(&index)
        };
        let nearest_place = |axis: &usize| match divisor(axis) {
            Some(by) => Some(i[*axis].trunc_div(by)),
            None => places.nearest(place(axis)?),
        };
        let value = if nearest {
            axes.iter().map(nearest_place).collect::<Option<Vec<TeExpr>>>().map(|at| pixel(&at))
        } else {
            let between = axes.iter().map(|axis| place(axis).map(Between::of)).collect::<Option<Vec<Between>>>();
            between.map(|between| mean(&between, &[], &pixel))
        };
        found = value.is_some();
        value.unwrap_or_else(|| TeExpr::int(0, DType::I64).cast(x.dtype()))
    });
    match found {
        true => te.finish(&[out]),
        false => cannot("it is legalized for the places `half_pixel`, `align_corners` and `asymmetric` only"),
    }
}

/// What the length of the grid is short of 2, so that its end is within it.
const ALMOST: f64 = 1e-7;

/// The places in an image that a linear map makes of those of a grid from -1 to 1.
fn affine_grid(call: Call<'_>) -> Legal {
    let te = Te::new("affine_grid", call);
    let theta = te.input(0)?;
    let shape = result_shape(call)?;
    let known: Option<Vec<i64>> = shape.iter().skip(2).map(Dim::as_int).collect();
    let Some(sizes) = known.filter(|sizes| sizes.len() == 2) else {
        return cannot("it is legalized for two axes of known size only");
    };
    let align = crate::declare::flag(call, "align_corners");
    // Along an axis: where it starts, and the step to the next place.
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
        factor(2) + factor(1) * place(0) + factor(0) * place(1)
    });
    te.finish(&[out])
}
