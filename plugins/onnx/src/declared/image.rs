//! Operators that sample images at computed positions.

use super::{arg, attr, dims, flag, float, int, of_shape, tensor, text, wrong};
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr, TeTensor};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{InferError, OpDecl};

pub(super) const GRID_SAMPLE: OpDecl = OpDecl {
    name: "onnx.grid_sample",
    doc: "Samples of a tensor at the positions in a grid.\n\n Positions go from -1 to 1 along each spatial axis; the last axis comes first.\n\n \
          Type: batch and channels of the tensor, then the spatial axes of the grid",
    args: &[arg("x"), arg("grid")],
    attrs: &[attr("mode", AttrType::Str), attr("padding_mode", AttrType::Str), attr("align_corners", AttrType::Bool)],
    infer: infer_grid,
    legalize: Some(legalize_grid),
    ..OpDecl::EMPTY
};

pub(super) const ROI_ALIGN: OpDecl = OpDecl {
    name: "onnx.roi_align",
    doc: "Mean or maximum of samples in the cells of regions.\n\n Type: number of regions, channels of the tensor, height and width of the result",
    args: &[arg("x"), arg("rois"), arg("batch")],
    attrs: &[
        attr("mode", AttrType::Str),
        attr("half_pixel", AttrType::Bool),
        attr("output_height", AttrType::Int),
        attr("output_width", AttrType::Int),
        attr("sampling_ratio", AttrType::Int),
        attr("spatial_scale", AttrType::Float),
    ],
    infer: infer_roi,
    legalize: Some(legalize_roi),
    ..OpDecl::EMPTY
};

fn infer_grid(call: Call<'_>) -> Result<Type, InferError> {
    let (x, grid) = (tensor(call, 0)?, tensor(call, 1)?);
    if !matches!(text(call, "padding_mode"), "zeros" | "border" | "reflection") {
        return wrong(format!(
            "`padding_mode` must be zeros, border or reflection, found `{}`",
            text(call, "padding_mode")
        ));
    }
    if !matches!(text(call, "mode"), "linear" | "nearest" | "cubic") {
        return wrong(format!("`mode` must be linear, nearest or cubic, found `{}`", text(call, "mode")));
    }
    let rank = x.ndim.max(0) as usize;
    let (Some(x_dims), Some(places)) = (x.shape, grid.shape) else { return Ok(of_shape(x.dtype, rank, None)) };
    if x_dims.len() < 3 || places.len() != x_dims.len() {
        return wrong("tensor and grid must have the same number of dimensions, 3 or more");
    }
    if places.last().and_then(Dim::as_int).is_some_and(|n| n + 2 != x_dims.len() as i64) {
        return wrong("the last axis of the grid must have an element for each spatial axis");
    }
    let mut out = x_dims[..2].to_vec();
    out.extend(places[1..places.len() - 1].iter().cloned());
    Ok(of_shape(x.dtype, rank, Some(out)))
}

/// The treatment of positions outside of the tensor.
pub(super) struct Border<'c> {
    pub(super) mode: &'c str,
    pub(super) corners: bool,
}

impl Border<'_> {
    /// Converts a position between -1 and 1 to a position along an axis with `size` elements.
    fn place(&self, at: TeExpr, size: &TeExpr) -> TeExpr {
        match self.corners {
            true => (at + 1.0) / 2.0 * (size - 1.0),
            false => ((at + 1.0) * size - 1.0) / 2.0,
        }
    }

    /// Moves a position that is outside of the tensor into the tensor.
    fn kept(&self, at: TeExpr, size: &TeExpr) -> TeExpr {
        match self.mode {
            "border" => at.max(0.0).min(size - 1.0),
            "reflection" => self.reflected(at, size),
            _ => at,
        }
    }

    fn reflected(&self, at: TeExpr, size: &TeExpr) -> TeExpr {
        let (least, most) = match self.corners {
            true => (TeExpr::float(0.0, at.dtype()), size - 1.0),
            false => (TeExpr::float(-0.5, at.dtype()), size - 0.5),
        };
        let inside = at.ge(&least).and(at.le(&most));
        // Reflection at both ends has a period of twice the range.
        let range = &most - &least;
        let apart = (&at - &least).math("fabs");
        let period = range * 2.0;
        let rest = &apart - (&apart / &period).math("floor") * &period;
        inside.select(at, &least + rest.min(&period - &rest))
    }

    /// Returns the element at an integer position. The position may be outside of the tensor.
    pub(super) fn element(&self, x: &TeTensor, first: &[TeExpr], at: &[TeExpr], sizes: &[TeExpr]) -> TeExpr {
        let (mut inside, mut index) = (TeExpr::int(1, DType::BOOL), first.to_vec());
        for (at, size) in at.iter().zip(sizes) {
            let at = match self.mode {
                "border" => at.max(0.0).min(size - 1.0),
                "reflection" => self.reflected(at.clone(), size),
                _ => {
                    inside = inside.and(at.ge(0.0)).and(at.le(size - 1.0));
                    at.clone()
                }
            };
            index.push(at.max(0.0).min(size - 1.0).cast(DType::I64));
        }
        match self.mode {
            "border" | "reflection" => x.at(&index),
            _ => inside.if_then_else(x.at(&index), TeExpr::int(0, DType::I64).cast(x.dtype())),
        }
    }
}

/// Returns the weights of the four elements around a position. `t` is the distance of the position from the second
/// element.
fn cubic(t: &TeExpr) -> [TeExpr; 4] {
    let a = -0.75;
    let far = |t: TeExpr| ((&t * a - 5.0 * a) * &t + 8.0 * a) * &t - 4.0 * a;
    let near = |t: TeExpr| (&t * (a + 2.0) - (a + 3.0)) * &t * &t + 1.0;
    let one = TeExpr::float(1.0, t.dtype());
    [far(t + 1.0), near(t.clone()), near(&one - t), far(TeExpr::float(2.0, t.dtype()) - t)]
}

/// Interpolates along one axis after the other.
pub(super) fn blended(
    parts: &[(TeExpr, TeExpr)],
    cubic_curve: bool,
    at: &[TeExpr],
    value: &dyn Fn(&[TeExpr]) -> TeExpr,
) -> TeExpr {
    let Some(((floor, part), rest)) = parts.split_first() else { return value(at) };
    let along = |by: f64| {
        let place = floor + by;
        blended(rest, cubic_curve, &[at, std::slice::from_ref(&place)].concat(), value)
    };
    match cubic_curve {
        true => {
            let [a, b, c, d] = cubic(part);
            along(-1.0) * a + along(0.0) * b + along(1.0) * c + along(2.0) * d
        }
        false => {
            let one = TeExpr::float(1.0, part.dtype());
            along(0.0) * (one - part) + along(1.0) * part
        }
    }
}

fn legalize_grid(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("grid_sample", call);
    let (x, grid) = (te.input(0)?, te.input(1)?);
    let Type::Tensor(out) = call.ty().to_owned() else { return wrong("its result is not a tensor") };
    let Some(shape) = out.shape else { return wrong("the shape of its result is not known") };
    let border = Border { mode: text(call, "padding_mode"), corners: flag(call, "align_corners") };
    let count = x.ndim() - 2;
    let wide = if x.dtype().is_float() { x.dtype() } else { DType::F32 };
    let sizes: Vec<TeExpr> = x.shape()[2..].iter().map(|dim| TeExpr::of_dim(dim.clone()).cast(wide)).collect();
    let mode = text(call, "mode");
    // A cubic curve also uses neighbours of the position, which may be outside of the tensor. Therefore, each
    // neighbour's index is moved into the tensor, rather than the position.
    let place = |at: TeExpr, axis: usize| {
        let at = border.place(at.cast(wide), &sizes[axis]);
        match mode {
            "nearest" => border.kept(at.math("nearbyint"), &sizes[axis]),
            "cubic" => at,
            _ => border.kept(at, &sizes[axis]),
        }
    };
    // The positions are computed as a separate tensor, because the expression of an element uses them repeatedly.
    let mut places_shape = grid.shape()[..count + 1].to_vec();
    places_shape.insert(0, Dim::Int(count as i64));
    let moved = te.compute("grid_places", &places_shape, |i| {
        let on = |axis: usize| {
            let mut index = i[1..].to_vec();
            index.push(TeExpr::int((count - 1 - axis) as i64, DType::I64));
            place(grid.at(&index), axis)
        };
        let last = on(count - 1);
        (0..count - 1).rev().fold(last, |other, axis| i[0].eq(axis as i64).select(on(axis), other))
    });
    let result = te.compute("grid_sample", &shape, |i| {
        let place = |axis: usize| {
            let mut index = vec![TeExpr::int(axis as i64, DType::I64), i[0].clone()];
            index.extend(i[2..].iter().cloned());
            moved.at(&index)
        };
        let places: Vec<TeExpr> = (0..count).map(place).collect();
        let value = |at: &[TeExpr]| border.element(&x, &i[..2], at, &sizes).cast(wide);
        if mode == "nearest" {
            let whole: Vec<TeExpr> = places.iter().map(|at| at.math("trunc")).collect();
            return value(&whole).cast(x.dtype());
        }
        let parts: Vec<(TeExpr, TeExpr)> = places
            .iter()
            .map(|at| {
                let floor = at.math("floor");
                (floor.clone(), at - floor)
            })
            .collect();
        blended(&parts, mode == "cubic", &[], &value).cast(x.dtype())
    });
    te.finish(&[result])
}

fn infer_roi(call: Call<'_>) -> Result<Type, InferError> {
    let x = tensor(call, 0)?;
    let (Some(x_dims), Some(rois)) = (dims(call, 0, 4)?, dims(call, 1, 2)?) else {
        return Ok(of_shape(x.dtype, 4, None));
    };
    let size = |key| Dim::Int(int(call, key));
    let out = vec![rois[0].clone(), x_dims[1].clone(), size("output_height"), size("output_width")];
    Ok(of_shape(x.dtype, 4, Some(out)))
}

/// A region along one axis: its start, the length of a cell, and the number of samples in each cell.
struct Region {
    start: TeExpr,
    cell: TeExpr,
    samples: TeExpr,
}

/// The two elements next to a position, with their weights.
struct Around {
    low: TeExpr,
    high: TeExpr,
    part: TeExpr,
    outside: TeExpr,
}

fn around(at: TeExpr, size: &TeExpr) -> Around {
    let outside = at.lt(-1.0).or(at.gt(size));
    let at = at.max(0.0);
    let low = at.math("floor");
    let last = low.ge(size - 1.0);
    let (low, at) = (last.select(size - 1.0, &low), last.select(size - 1.0, &at));
    let high = (&low + 1.0).min(size - 1.0);
    Around {
        part: at - &low,
        low: low.max(0.0).min(size - 1.0).cast(DType::I64),
        high: high.max(0.0).cast(DType::I64),
        outside,
    }
}

/// Regions of an image, and the samples in them.
struct Regions<'c> {
    call: Call<'c>,
    x: TeTensor,
    rois: TeTensor,
    batch: TeTensor,
    /// The index of a sample in its cell, along each axis.
    samples: [TeExpr; 2],
}

impl Regions<'_> {
    fn is_mean(&self) -> bool {
        text(self.call, "mode") == "avg"
    }

    fn cells(&self, axis: usize) -> i64 {
        int(self.call, ["output_height", "output_width"][axis])
    }

    /// Returns a region along an axis.
    fn region(&self, n: &TeExpr, axis: usize) -> Region {
        let (scale, half) = (float(self.call, "spatial_scale"), flag(self.call, "half_pixel"));
        let at = |k: i64| {
            let place = self.rois.at([n.clone(), TeExpr::int(k, DType::I64)]) * scale;
            if half { place - 0.5 } else { place }
        };
        let (start, end) = (at(1 - axis as i64), at(3 - axis as i64));
        let length = end - &start;
        let length = if half { length } else { length.max(1.0) };
        let cell = length / self.cells(axis) as f64;
        let ratio = int(self.call, "sampling_ratio");
        let samples = if ratio > 0 { TeExpr::float(ratio as f64, self.x.dtype()) } else { cell.math("ceil") };
        Region { start, cell, samples }
    }

    /// Returns the condition under which a sample counts, and the value of the sample.
    fn sample(&self, i: &[TeExpr]) -> (TeExpr, TeExpr) {
        let wide = self.x.dtype();
        let [(y, y_counts), (x, x_counts)] = [0, 1].map(|axis| {
            let (r, k) = (self.region(&i[0], axis), self.samples[axis].cast(wide));
            let place = &r.start + i[axis + 2].cast(wide) * &r.cell + (&k + 0.5) * &r.cell / &r.samples;
            let size = TeExpr::of_dim(self.x.shape()[axis + 2].clone()).cast(wide);
            (around(place, &size), k.lt(&r.samples))
        });
        let element = |row: &TeExpr, column: &TeExpr| {
            self.x.at([self.batch.at([&i[0]]), i[1].clone(), row.clone(), column.clone()])
        };
        let one = TeExpr::float(1.0, wide);
        let (above, before) = (&one - &y.part, &one - &x.part);
        let a = element(&y.low, &x.low) * (&above * &before);
        let b = element(&y.low, &x.high) * (above * &x.part);
        let c = element(&y.high, &x.low) * (&y.part * before);
        let d = element(&y.high, &x.high) * (&y.part * &x.part);
        let all = if self.is_mean() { a + b + c + d } else { a.max(b).max(c).max(d) };
        (y_counts.and(x_counts), y.outside.or(x.outside).if_then_else(TeExpr::float(0.0, wide), all))
    }
}

fn legalize_roi(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("roi_align", call);
    let (x, rois, batch) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let Type::Tensor(out) = call.ty().to_owned() else { return wrong("its result is not a tensor") };
    let Some(shape) = out.shape else { return wrong("the shape of its result is not known") };
    let (wide, ratio) = (x.dtype(), int(call, "sampling_ratio"));
    if ratio <= 0 && x.shape()[2..].iter().any(|dim| dim.as_int().is_none()) {
        return wrong("legalization needs a sampling ratio or a tensor of known size");
    }
    let axis = |axis: usize, key: &str| {
        // The number of samples per cell is greatest for a region as large as the tensor.
        let most = match ratio > 0 {
            true => Dim::Int(ratio),
            false => x.shape()[axis].clone().floor_div(int(call, key).max(1)) + 2,
        };
        te.reduce_axis(["ky", "kx"][axis - 2], &most)
    };
    let samples = [axis(2, "output_height"), axis(3, "output_width")];
    let regions = Regions { call, x: x.clone(), rois, batch, samples };
    let over: Vec<&TeExpr> = regions.samples.iter().collect();
    if !regions.is_mean() {
        let largest = te.compute("roi_max", &shape, |i| {
            let (counts, value) = regions.sample(i);
            counts.if_then_else(value, plugin_api::te::least_value(wide)).largest(&over)
        });
        // An empty region lacks samples.
        let largest = te.compute("roi_align", &shape, |i| {
            let count = |axis: usize| regions.region(&i[0], axis).samples;
            count(0).min(count(1)).ge(1.0).select(largest.at(i), TeExpr::float(0.0, wide))
        });
        return te.finish(&[largest]);
    }
    let sum = te.compute("roi_sum", &shape, |i| {
        let (counts, value) = regions.sample(i);
        counts.if_then_else(value, TeExpr::float(0.0, wide)).sum(&over)
    });
    let mean = te.compute("roi_align", &shape, |i| {
        let count = regions.region(&i[0], 0).samples * regions.region(&i[0], 1).samples;
        sum.at(i) / count.max(1.0)
    });
    te.finish(&[mean])
}
