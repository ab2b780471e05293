//! Pooling over regions of images.

use super::super::{Legal, float_attr, result_shape};
use super::{at, number, wide};
use crate::declare::{flag, int, ints, text};
use plugin_api::ir::{Call, DType, Dim};
use plugin_api::te::{Te, TeExpr, TeTensor};

/// Images and regions of them.
struct Regions<'c> {
    call: Call<'c>,
    x: TeTensor,
    rois: TeTensor,
    /// The number of cells along each axis.
    cells: [i64; 2],
    /// The data type of positions.
    wide: DType,
    /// The positions of height, width and channels among the axes of the data.
    axes: [usize; 3],
}

impl<'c> Regions<'c> {
    fn new(te: &Te<'c>, call: Call<'c>) -> Result<Regions<'c>, plugin_api::typing::operators::InferError> {
        let (x, rois) = (te.input(0)?, te.input(1)?);
        let cells = match ints(call, "pooled_size").unwrap_or_default().as_slice() {
            [height, width] => [*height, *width],
            sizes => [sizes.first().copied().unwrap_or(1); 2],
        };
        let axes = if text(call, "layout") == Some("NHWC") { [1, 2, 3] } else { [2, 3, 1] };
        let wide = wide(&[rois.dtype()]);
        Ok(Regions { call, x, rois, cells, wide, axes })
    }

    /// Returns the length of the data along an axis.
    fn size(&self, axis: usize) -> Dim {
        self.x.shape()[self.axes[axis]].clone()
    }

    /// Returns start and end of region `n` along an axis.
    fn ends(&self, n: &TeExpr, axis: usize) -> (TeExpr, TeExpr) {
        let scale = float_attr(self.call, "spatial_scale").unwrap_or(1.0);
        let end = |k: i64| self.rois.at([n.clone(), at(k)]).cast(self.wide) * scale;
        (end(2 - axis as i64), end(4 - axis as i64))
    }

    /// Returns the index of an element of the data in the image of region `n`.
    fn index(&self, n: &TeExpr, channel: &TeExpr, row: TeExpr, column: TeExpr) -> [TeExpr; 4] {
        let mut index = [(); 4].map(|()| self.rois.at([n.clone(), at(0)]).cast(DType::I64));
        for (axis, place) in self.axes.into_iter().zip([row, column, channel.clone()]) {
            index[axis] = place;
        }
        index
    }

    /// Returns the shape of a tensor with a value for each region, channel, row and column, in the layout of the data.
    /// The rows and columns are cells or elements.
    fn shape(&self, height: Dim, width: Dim) -> Vec<Dim> {
        let mut shape = vec![self.rois.shape()[0].clone(); 4];
        let channels = self.x.shape()[self.axes[2]].clone();
        for (axis, size) in self.axes.into_iter().zip([height, width, channels]) {
            shape[axis] = size;
        }
        shape
    }
}

/// The samples in a cell along an axis.
struct Samples {
    /// The start of the cell.
    start: TeExpr,
    /// The distance between two samples.
    step: TeExpr,
    /// The number of samples.
    count: TeExpr,
}

impl Regions<'_> {
    fn ratio(&self) -> i64 {
        int(self.call, "sample_ratio").unwrap_or(-1)
    }

    fn samples(&self, n: &TeExpr, cell: &TeExpr, axis: usize) -> Samples {
        let (start, end) = self.ends(n, axis);
        let length = end - &start;
        let length = if flag(self.call, "aligned") { length } else { length.max(1.0) };
        let width = length / self.cells[axis] as f64;
        let count = match self.ratio() {
            ratio if ratio > 0 => number(ratio as f64, self.wide),
            _ => width.math("ceil"),
        };
        Samples { start: start + cell.cast(self.wide) * &width, step: width / count.max(1.0), count }
    }

    /// Computes the samples of each region and cell. The last axis contains their start, distance and number.
    fn all_samples(&self, te: &Te<'_>, axis: usize) -> TeTensor {
        let shape = [self.rois.shape()[0].clone(), Dim::Int(self.cells[axis]), Dim::Int(3)];
        te.compute(["roi_rows", "roi_columns"][axis], &shape, |i| {
            let Samples { start, step, count } = self.samples(&i[0], &i[1], axis);
            i[2].eq(0).select(start, i[2].eq(1).select(step, count))
        })
    }

    /// Returns the number of samples to visit around an element. If the number of samples depends on the region, the
    /// samples are more than half an element apart, so at most five are less than one element away. Two more allow for
    /// rounding.
    fn taps(&self) -> Dim {
        Dim::Int(if self.ratio() > 0 { self.ratio() } else { 7 })
    }

    /// Returns the index of the first visited sample at or after a position.
    fn first(&self, of: &Samples, place: TeExpr) -> TeExpr {
        match self.ratio() > 0 {
            true => number(0.0, self.wide),
            false => {
                let before = ((place - &of.start) / of.step.max(f64::from(f32::MIN_POSITIVE)) - 0.5).math("floor");
                (before - 1.0).min(&of.count - 1.0).max(0.0)
            }
        }
    }

    /// Computes the share of each element along an axis in the mean of each cell. The axes of the result are regions, cells
    /// and elements.
    ///
    /// The mean of bilinear samples is the sum of all elements times their shares along both axes.
    fn shares(&self, te: &Te<'_>, axis: usize) -> TeTensor {
        let all = self.all_samples(te, axis);
        let size = self.size(axis);
        let shape = [self.rois.shape()[0].clone(), Dim::Int(self.cells[axis]), size.clone()];
        let tap = te.reduce_axis(["ky", "kx"][axis], &self.taps());
        let size = TeExpr::of_dim(size).cast(self.wide);
        te.compute(["roi_height", "roi_width"][axis], &shape, |i| {
            let of = Samples::read(&all, &i[0], &i[1]);
            let element = i[2].cast(self.wide);
            let k = tap.cast(self.wide) + self.first(&of, &element - 1.0);
            let place = of.place(&k);
            let inside = place.ge(-1.0).and(place.le(&size)).and(k.lt(&of.count));
            let apart = (place.max(0.0).min(&size - 1.0) - element).math("fabs");
            let share = (number(1.0, self.wide) - apart).max(0.0) / of.count.max(1.0);
            inside.select(share, 0.0).sum(&[&tap])
        })
    }

    /// Computes the mean of the samples in each cell, first along the height, then along the width.
    fn means(&self, te: &Te<'_>) -> TeTensor {
        let [rows, columns] = [0, 1].map(|axis| self.shares(te, axis));
        let [height, width, channel] = self.axes;
        let dtype = wide(&[self.x.dtype(), self.wide]);
        let times = |share: TeExpr, value: TeExpr| {
            share.ne(0.0).if_then_else(share.cast(dtype) * value.cast(dtype), number(0.0, dtype))
        };
        let [r, c] = [0, 1].map(|axis| te.reduce_axis(["r", "c"][axis], &self.size(axis)));
        let sums = te.compute("roi_sum", &self.shape(Dim::Int(self.cells[0]), self.size(1)), |i| {
            let x = self.x.at(self.index(&i[0], &i[channel], r.clone(), i[width].clone()));
            times(rows.at([&i[0], &i[height], &r]), x).sum(&[&r])
        });
        let [cells, more] = self.cells.map(Dim::Int);
        let means = te.compute("roi_mean", &self.shape(cells, more), |i| {
            let mut index = i.to_vec();
            index[width] = c.clone();
            times(columns.at([&i[0], &i[width], &c]), sums.at(&index)).sum(&[&c])
        });
        te.compute("roi_align", means.shape(), |i| means.at(i).cast(self.x.dtype()))
    }

    /// Returns the bilinear sample at a position; 0 outside of the image.
    fn bilinear(&self, n: &TeExpr, channel: &TeExpr, [y, x]: [TeExpr; 2]) -> TeExpr {
        let dtype = wide(&[self.x.dtype(), self.wide]);
        let sizes = [0, 1].map(|axis| TeExpr::of_dim(self.size(axis)).cast(self.wide));
        let inside = y.ge(-1.0).and(x.ge(-1.0)).and(y.le(&sizes[0])).and(x.le(&sizes[1]));
        let around = |at: TeExpr, size: &TeExpr| {
            let at = at.max(0.0).min(size - 1.0);
            let low = at.math("floor");
            let high = (&low + 1.0).min(size - 1.0);
            (low.cast(DType::I64), high.cast(DType::I64), (at - low).cast(dtype))
        };
        let ((top, bottom, down), (left, right, across)) = (around(y, &sizes[0]), around(x, &sizes[1]));
        let one = number(1.0, dtype);
        let element =
            |row: &TeExpr, column: &TeExpr| self.x.at(self.index(n, channel, row.clone(), column.clone())).cast(dtype);
        let row = |row: &TeExpr| element(row, &left) * (&one - &across) + element(row, &right) * &across;
        let value = row(&top) * (&one - &down) + row(&bottom) * &down;
        inside.if_then_else(value, number(0.0, dtype))
    }

    /// Computes the greatest of the samples in each cell; 0 if it has no samples. If the number of samples depends on the
    /// region, the samples are more than half an element apart, and one sample outside of the image stands for all.
    fn greatest(&self, te: &Te<'_>) -> TeTensor {
        let [rows, columns] = [0, 1].map(|axis| self.all_samples(te, axis));
        let [height, width, channel] = self.axes;
        let taps = [0, 1].map(|axis| {
            let most = if self.ratio() > 0 { Dim::Int(self.ratio()) } else { self.size(axis) * 2 + 6 };
            te.reduce_axis(["ky", "kx"][axis], &most)
        });
        let dtype = wide(&[self.x.dtype(), self.wide]);
        let [cells, more] = self.cells.map(Dim::Int);
        let largest = te.compute("roi_max", &self.shape(cells, more), |i| {
            let of = [Samples::read(&rows, &i[0], &i[height]), Samples::read(&columns, &i[0], &i[width])];
            let k = [0, 1].map(|axis| taps[axis].cast(self.wide) + self.first(&of[axis], number(-1.0, self.wide)));
            let counts = k[0].lt(&of[0].count).and(k[1].lt(&of[1].count));
            let value = self.bilinear(&i[0], &i[channel], [0, 1].map(|axis| of[axis].place(&k[axis])));
            let least = number(f64::NEG_INFINITY, dtype);
            counts.if_then_else(value, &least).largest_from(least, &[&taps[0], &taps[1]])
        });
        te.compute("roi_align", largest.shape(), |i| {
            let count = |of: &TeTensor, axis: usize| of.at([i[0].clone(), i[axis].clone(), at(2)]);
            let any = count(&rows, height).min(count(&columns, width)).ge(1.0);
            any.select(largest.at(i), 0.0).cast(self.x.dtype())
        })
    }
}

impl Samples {
    /// Returns the samples that [`Regions::all_samples`] computed.
    fn read(all: &TeTensor, n: &TeExpr, cell: &TeExpr) -> Samples {
        let part = |k: i64| all.at([n.clone(), cell.clone(), at(k)]);
        Samples { start: part(0), step: part(1), count: part(2) }
    }

    fn place(&self, k: &TeExpr) -> TeExpr {
        &self.start + (k + 0.5) * &self.step
    }
}

pub(super) fn roi_align(call: Call<'_>) -> Legal {
    let te = Te::new("roi_align", call);
    let regions = Regions::new(&te, call)?;
    let out = if text(call, "mode") == Some("max") { regions.greatest(&te) } else { regions.means(&te) };
    te.finish(&[out])
}

/// Rounds to the nearest integer, halves away from 0, as ONNX does.
fn rounded(x: TeExpr) -> TeExpr {
    x.ge(0.0).select((&x + 0.5).math("floor"), (&x - 0.5).math("ceil"))
}

/// Computes the greatest element of each cell, first along the width, then along the height.
pub(super) fn roi_pool(call: Call<'_>) -> Legal {
    let te = Te::new("roi_pool", call);
    let regions = Regions::new(&te, call)?;
    let dtype = regions.x.dtype();
    // The first element of each cell, and the element after its last.
    let bounds = |axis: usize| {
        let shape = [regions.rois.shape()[0].clone(), Dim::Int(regions.cells[axis]), Dim::Int(2)];
        let size = TeExpr::of_dim(regions.size(axis)).cast(regions.wide);
        te.compute(["roi_rows", "roi_columns"][axis], &shape, |i| {
            let (start, end) = regions.ends(&i[0], axis);
            let start = rounded(start);
            let cell = (rounded(end) - &start + 1.0).max(1.0) / regions.cells[axis] as f64;
            let k = (&i[1] + &i[2]).cast(regions.wide) * cell;
            let place = i[2].eq(0).select(k.math("floor"), k.math("ceil")) + start;
            place.max(0.0).min(size).cast(DType::I64)
        })
    };
    let bounds = [bounds(0), bounds(1)];
    let least = number(f64::NEG_INFINITY, dtype);
    let inside = |axis: usize, n: &TeExpr, cell: &TeExpr, k: &TeExpr| {
        let end = |k: i64| bounds[axis].at([n.clone(), cell.clone(), at(k)]);
        end(0).le(k).and(k.lt(end(1)))
    };
    let [r, c] = [0, 1].map(|axis| te.reduce_axis(["rh", "rw"][axis], &regions.size(axis)));
    let of_rows = te.compute("roi_max", &regions.shape(regions.size(0), Dim::Int(regions.cells[1])), |i| {
        let value = regions.x.at(regions.index(&i[0], &i[1], i[2].clone(), c.clone()));
        inside(1, &i[0], &i[3], &c).if_then_else(value, &least).largest_from(least.clone(), &[&c])
    });
    let shape = result_shape(call)?;
    let largest = te.compute("roi_max", &shape, |i| {
        let value = of_rows.at([&i[0], &i[1], &r, &i[3]]);
        inside(0, &i[0], &i[2], &r).if_then_else(value, &least).largest_from(least.clone(), &[&r])
    });
    let pooled = te.compute("roi_pool", &shape, |i| {
        let is_empty = |axis: usize| {
            let end = |k: i64| bounds[axis].at([i[0].clone(), i[axis + 2].clone(), at(k)]);
            end(1).le(end(0))
        };
        is_empty(0).or(is_empty(1)).select(TeExpr::int(0, DType::I64).cast(dtype), largest.at(i))
    });
    te.finish(&[pooled])
}
