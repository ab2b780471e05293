//! The greatest sample in the cells of regions.

use super::{arg, attr, dims, flag, float, int, of_shape, tensor, wrong};
use plugin_api::ir::{Call, DType, Dim, Type};
use plugin_api::metadata::AttrType;
use plugin_api::te::{Te, TeExpr, TeTensor};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{InferError, OpDecl};

pub(super) const ROI_MAX: OpDecl = OpDecl {
    name: "onnx.roi_max",
    doc: "The greatest product of an element and its weight among the samples in the cells of regions.\n\n \
          Type: number of regions, channels of the tensor, height and width of the result",
    args: &[arg("x"), arg("rois"), arg("batch")],
    attrs: &[
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

    /// Returns the index of the first sample of a cell that is visited. If the number of samples depends on the region, the samples are
    /// more than half an element apart, and a single sample before the tensor stands for all such samples.
    fn first(&self, region: &Region, start: &TeExpr) -> TeExpr {
        if int(self.call, "sampling_ratio") > 0 {
            return TeExpr::float(0.0, self.x.dtype());
        }
        let step = (&region.cell / &region.samples).max(f64::from(f32::MIN_POSITIVE));
        let before = ((-start - 1.0) / step - 1.5).math("floor");
        before.min(&region.samples - 1.0).max(0.0)
    }

    /// Returns the condition under which a sample counts, and the value of the sample.
    fn sample(&self, i: &[TeExpr]) -> (TeExpr, TeExpr) {
        let wide = self.x.dtype();
        let [(y, y_counts), (x, x_counts)] = [0, 1].map(|axis| {
            let r = self.region(&i[0], axis);
            let start = &r.start + i[axis + 2].cast(wide) * &r.cell;
            let k = self.samples[axis].cast(wide) + self.first(&r, &start);
            let place = start + (&k + 0.5) * &r.cell / &r.samples;
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
        let all = a.max(b).max(c).max(d);
        (y_counts.and(x_counts), y.outside.or(x.outside).if_then_else(TeExpr::float(0.0, wide), all))
    }
}

fn legalize_roi(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("roi_max", call);
    let (x, rois, batch) = (te.input(0)?, te.input(1)?, te.input(2)?);
    let Type::Tensor(out) = call.ty().to_owned() else { return wrong("its result is not a tensor") };
    let Some(shape) = out.shape else { return wrong("the shape of its result is not known") };
    let (wide, ratio) = (x.dtype(), int(call, "sampling_ratio"));
    let samples = [2, 3].map(|axis| {
        let most = if ratio > 0 { Dim::Int(ratio) } else { x.shape()[axis].clone() * 2 + 6 };
        te.reduce_axis(["ky", "kx"][axis - 2], &most)
    });
    let regions = Regions { call, x: x.clone(), rois, batch, samples };
    let over: Vec<&TeExpr> = regions.samples.iter().collect();
    let largest = te.compute("roi_max", &shape, |i| {
        let (counts, value) = regions.sample(i);
        counts.if_then_else(value, plugin_api::te::least_value(wide)).largest(&over)
    });
    // An empty region has no samples.
    let result = te.compute("roi_align", &shape, |i| {
        let count = |axis: usize| regions.region(&i[0], axis).samples;
        count(0).min(count(1)).ge(1.0).select(largest.at(i), TeExpr::float(0.0, wide))
    });
    te.finish(&[result])
}
