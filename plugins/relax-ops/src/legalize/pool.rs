//! Pooling operators.

use super::blocks::{divide, padded, raveled};
use super::conv::Spatial;
use super::reduce::lowest;
use super::{Legal, Row, cannot, result_shape};
use crate::declare::{flag, ints, text};
use plugin_api::ir::{Attr, Call, DType, Dim};
use plugin_api::te::{Note, Te, TeExpr, TeTensor};

pub(super) const ROWS: &[Row] = &[
    ("relax.nn.max_pool1d", |call| pool(call, "max_pool1d", 1, Kind::Max)),
    ("relax.nn.max_pool2d", |call| pool(call, "max_pool2d", 2, Kind::Max)),
    ("relax.nn.max_pool3d", |call| pool(call, "max_pool3d", 3, Kind::Max)),
    ("relax.nn.avg_pool1d", |call| pool(call, "avg_pool1d", 1, Kind::Mean)),
    ("relax.nn.avg_pool2d", |call| pool(call, "avg_pool2d", 2, Kind::Mean)),
    ("relax.nn.avg_pool3d", |call| pool(call, "avg_pool3d", 3, Kind::Mean)),
    ("relax.grad.max_pool2d_backward", |call| backward(call, "max_pool2d_backward", Kind::Max)),
    ("relax.grad.avg_pool2d_backward", |call| backward(call, "avg_pool2d_backward", Kind::Mean)),
    ("relax.nn.adaptive_avg_pool1d", |call| adaptive(call, "adaptive_avg_pool1d", 1)),
    ("relax.nn.adaptive_avg_pool2d", |call| adaptive(call, "adaptive_avg_pool2d", 2)),
    ("relax.nn.adaptive_avg_pool3d", |call| adaptive(call, "adaptive_avg_pool3d", 3)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Max,
    Mean,
}

/// Returns the positions of the spatial axes in a layout such as `NHWC` or `NCHW16c`.
fn spatial_axes(call: Call<'_>, n: usize) -> Option<Vec<usize>> {
    let layouts = ["layout", "out_layout"].map(|key| text(call, key).unwrap_or_default());
    let letters = layouts[0].chars().filter(char::is_ascii_alphabetic);
    let axes: Vec<usize> = letters.enumerate().filter(|(_, one)| "DHW".contains(*one)).map(|(at, _)| at).collect();
    (axes.len() == n && [layouts[0], ""].contains(&layouts[1])).then_some(axes)
}

/// Returns the reduction axes of a window.
fn window(te: &Te<'_>, sizes: &[Dim]) -> Vec<TeExpr> {
    sizes.iter().enumerate().map(|(axis, size)| te.reduce_axis(&format!("rv{axis}"), size)).collect()
}

/// Returns the annotation that schedulers look for.
fn rule(name: &str) -> [(&'static str, Note); 1] {
    [("schedule_rule", Attr::from(format!("meta_schedule.{name}").as_str()).into())]
}

fn pool(call: Call<'_>, name: &str, n: usize, kind: Kind) -> Legal {
    let Some(axes) = spatial_axes(call, n) else { return cannot("it is not legalized for its layouts") };
    let sizes = ints(call, "pool_size").map(|size| if size.len() == 1 { vec![size[0]; n] } else { size });
    let (Some(spatial), Some(sizes)) = (Spatial::of(call, n), sizes.filter(|size| size.len() == n)) else {
        return cannot("its padding, strides or size do not match its number of axes");
    };
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let mut pads = vec![(Dim::Int(0), Dim::Int(0)); x.ndim()];
    for (k, axis) in axes.iter().enumerate() {
        let more = if flag(call, "ceil_mode") { spatial.strides[k] - 1 } else { 0 };
        pads[*axis] = (Dim::Int(spatial.padding[k].0), Dim::Int(spatial.padding[k].1 + more));
    }
    let fill = if kind == Kind::Max { lowest(x.dtype()) } else { TeExpr::int(0, DType::I64).cast(x.dtype()) };
    let pads_any = spatial.padding.iter().any(|pad| *pad != (0, 0)) || flag(call, "ceil_mode");
    let data = if pads_any { padded(&te, "pad_temp", &x, &pads, fill) } else { x.clone() };
    let k = window(&te, &sizes.iter().map(|size| Dim::Int(*size)).collect::<Vec<_>>());
    let shape = result_shape(call)?;
    let element = |i: &[TeExpr]| {
        let mut index = i.to_vec();
        axes.iter().enumerate().for_each(|(at, axis)| index[*axis] = spatial.place(at, &i[*axis], &k[at]));
        data.at(&index)
    };
    let over: Vec<&TeExpr> = k.iter().collect();
    if kind == Kind::Max {
        let out = te
            .compute_with("pool_max", &shape, &rule("pool_max"), |i| element(i).largest_from(lowest(x.dtype()), &over));
        return te.finish(&[out]);
    }
    let sum = te.compute("pool_sum", &shape, |i| summand(element(i)).sum(&over));
    let counted = Counted { spatial: &spatial, sizes: &sizes, with_padding: flag(call, "count_include_pad") };
    let out = te.compute_with("pool_avg", &shape, &rule("pool_avg"), |i| {
        let each = axes.iter().enumerate().map(|(at, axis)| counted.along(at, &i[*axis], &x.shape()[*axis]));
        let count = each.reduce(|all, one| all * one).unwrap_or_else(|| TeExpr::int(1, DType::I64));
        let count = if counted.with_padding { count } else { count.max(1) };
        mean(sum.at(i), count, x.dtype())
    });
    te.finish(&[out])
}

/// Returns an element in the type in which it is added. Integers are added in 64 bits, because their sum may not fit
/// the data type of the elements.
fn summand(x: TeExpr) -> TeExpr {
    if x.dtype().is_float() { x } else { x.cast(DType::I64) }
}

/// Returns the mean of elements of a data type from their sum.
fn mean(sum: TeExpr, count: TeExpr, dtype: DType) -> TeExpr {
    let count = count.cast(sum.dtype());
    divide(sum, count).cast(dtype)
}

/// The element counts by which means are divided.
struct Counted<'a> {
    spatial: &'a Spatial,
    sizes: &'a [i64],
    with_padding: bool,
}

impl Counted<'_> {
    /// Returns the number of elements along an axis of this size for the window at `at`, excluding positions past the
    /// end, and the padding unless it counts.
    fn along(&self, axis: usize, at: &TeExpr, size: &Dim) -> TeExpr {
        let (before, after) = self.spatial.padding[axis];
        let dilation = self.spatial.dilation[axis];
        let reach = (self.sizes[axis] - 1) * dilation;
        let start = at * self.spatial.strides[axis];
        if self.with_padding && dilation == 1 {
            let last = TeExpr::of_dim(size.clone() + (after - 1));
            return TeExpr::int(reach - before, DType::I64).min(last - start) + (before + 1);
        }
        let stride = self.spatial.strides[axis];
        if !self.with_padding && dilation == 1 && stride == 1 {
            let last = TeExpr::of_dim(size.clone() - 1) - at;
            let skipped = (TeExpr::int(before, DType::I64) - at).max(0);
            return TeExpr::int(reach - before, DType::I64).min(last) + (before + 1) - skipped;
        }
        if !self.with_padding && dilation == 1 && before == 0 {
            let end = (&start + reach).min(TeExpr::of_dim(size.clone() - 1));
            return at.min(0) * stride + end + 1 - start;
        }
        let (start, end) = (&start - before, start + (reach - before));
        let skipped = if self.with_padding {
            TeExpr::int(0, DType::I64)
        } else {
            ((TeExpr::int(dilation - 1, DType::I64) - &start) / dilation).max(0)
        };
        let more = if self.with_padding { after } else { 0 };
        let end = end.min(TeExpr::of_dim(size.clone() + (more - 1)));
        (end - (start + skipped * dilation)) / dilation + 1
    }
}

/// Computes a mean over windows of about equal size that cover the data.
fn adaptive(call: Call<'_>, name: &str, n: usize) -> Legal {
    let Some(axes) = spatial_axes(call, n) else { return cannot("it is not legalized for its layouts") };
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let shape = result_shape(call)?;
    let parts: Vec<Part> = axes.iter().map(|axis| Part::of(&x.shape()[*axis], &shape[*axis])).collect();
    let k = window(&te, &parts.iter().map(Part::longest).collect::<Vec<_>>());
    let sum = te.compute("adaptive_pool_sum", &shape, |i| {
        let (mut index, mut inside) = (i.to_vec(), Vec::new());
        for ((part, axis), k) in parts.iter().zip(&axes).zip(&k) {
            index[*axis] = part.start(&i[*axis]) + k;
            inside.extend(part.length(&i[*axis]).map(|length| k.lt(length)));
        }
        let value = summand(x.at(&index));
        let zero = TeExpr::int(0, DType::I64).cast(value.dtype());
        let inside = inside.into_iter().reduce(|all, one| all.and(one));
        let value = inside.map_or(value.clone(), |inside| inside.if_then_else(value, zero));
        value.sum(&k.iter().collect::<Vec<_>>())
    });
    let notes = rule("adaptive_pool_avg");
    let out = te.compute_with("adaptive_pool_avg", &shape, &notes, |i| {
        let each = parts.iter().zip(&axes);
        let one = || TeExpr::int(1, DType::I64);
        let same = each.clone().fold(one(), |all, (part, _)| part.ratio().map_or(all.clone(), |ratio| all * ratio));
        let lengths = each.filter_map(|(part, axis)| part.length(&i[*axis]));
        mean(sum.at(i), lengths.fold(same, |all, one| all * one), x.dtype())
    });
    te.finish(&[out])
}

/// The division of an axis into windows.
enum Part {
    /// Windows of equal length.
    Even(i64),
    /// The length of an axis, and a number of windows. If this number does not divide the length, the windows overlap.
    Uneven(Dim, Dim),
}

impl Part {
    fn of(from: &Dim, to: &Dim) -> Part {
        match (from.as_int(), to.as_int()) {
            (Some(from), Some(to)) if to > 0 && from % to == 0 => Part::Even(from / to),
            _ if from == to => Part::Even(1),
            _ => Part::Uneven(from.clone(), to.clone()),
        }
    }

    fn ratio(&self) -> Option<i64> {
        match self {
            Part::Even(ratio) => Some(*ratio),
            Part::Uneven(..) => None,
        }
    }

    /// Returns the length of the longest window.
    fn longest(&self) -> Dim {
        match self {
            Part::Even(ratio) => Dim::Int(*ratio),
            Part::Uneven(from, to) => match (from.as_int(), to.as_int()) {
                (Some(from), Some(to)) if to > 0 => {
                    let length = |i: i64| ((i + 1) * from + to - 1) / to - i * from / to;
                    Dim::Int((0..to).map(length).max().unwrap_or(0))
                }
                _ => (from.clone() + to.clone() - 1).floor_div(to.clone()) + 1,
            },
        }
    }

    /// Returns the start of the window at an index.
    fn start(&self, at: &TeExpr) -> TeExpr {
        match self {
            Part::Even(ratio) => at * *ratio,
            Part::Uneven(from, to) => at * from / to,
        }
    }

    /// Returns the length of the window at an index, if the lengths differ.
    fn length(&self, at: &TeExpr) -> Option<TeExpr> {
        match self {
            Part::Even(_) => None,
            Part::Uneven(from, to) => {
                let end = ((at + 1) * from + (TeExpr::of_dim(to.clone()) - 1)) / to;
                Some(end - self.start(at))
            }
        }
    }
}

/// A pool whose gradient is computed.
struct Backward {
    kind: Kind,
    axes: Vec<usize>,
    sizes: Vec<i64>,
    spatial: Spatial,
    /// True if the padding counts in a mean.
    with_padding: bool,
}

impl Backward {
    fn of(call: Call<'_>, kind: Kind) -> Option<Backward> {
        let axes = spatial_axes(call, 2)?;
        let sizes = ints(call, "pool_size").map(|size| if size.len() == 1 { vec![size[0]; 2] } else { size })?;
        let spatial = Spatial::of(call, 2).filter(|spatial| spatial.dilation == [1, 1] && sizes.len() == 2)?;
        Some(Backward { kind, axes, sizes, spatial, with_padding: flag(call, "count_include_pad") })
    }

    /// Returns the window `back` positions before the last window that contains the element, and a condition that it
    /// exists and contains the element.
    fn window(&self, k: usize, at: &TeExpr, back: &TeExpr, windows: &Dim) -> (TeExpr, TeExpr) {
        let (before, stride) = (self.spatial.padding[k].0, self.spatial.strides[k]);
        let last = (at + before).trunc_div(stride);
        let reach = self.sizes[k] - before;
        let first = at.lt(reach).select(0, (at - reach).trunc_div(stride) + 1);
        let window = last - back;
        (first.le(&window).and(window.lt(windows)), window)
    }

    /// Returns the number of elements of an axis in a window.
    fn counted(&self, k: usize, window: &TeExpr, size: &Dim) -> TeExpr {
        let start = window * self.spatial.strides[k] - self.spatial.padding[k].0;
        (&start + self.sizes[k]).min(size) - start.max(0)
    }

    /// Returns the share of a window's gradient that goes to each of its elements.
    fn share(&self, gradient: TeExpr, windows: [&TeExpr; 2], x: &TeTensor) -> TeExpr {
        let dtype = gradient.dtype();
        match self.kind {
            Kind::Max => gradient,
            Kind::Mean if self.with_padding => {
                gradient / TeExpr::int(self.sizes.iter().product(), DType::I64).cast(dtype)
            }
            Kind::Mean => {
                let [rows, columns] = [0, 1].map(|k| self.counted(k, windows[k], &x.shape()[self.axes[k]]));
                gradient / (rows * columns).max(1).cast(dtype)
            }
        }
    }

    /// Computes for each window the flat index of its largest element in the padded data.
    fn largest(&self, te: &Te<'_>, data: &TeTensor, windows: &[Dim]) -> TeTensor {
        let over: Vec<TeExpr> =
            ["dh", "dw"].iter().zip(&self.sizes).map(|(name, size)| te.reduce_axis(name, &Dim::Int(*size))).collect();
        let start = [TeExpr::int(0, DType::I64), lowest(data.dtype())];
        let over: Vec<&TeExpr> = over.iter().collect();
        let [place, _] = te.compute_pair("maxpool_grad_argmax", windows, start, &over, |i, [at, best]| {
            let mut index = i.to_vec();
            self.axes.iter().enumerate().for_each(|(k, axis)| {
                index[*axis] = self.spatial.place(k, &i[*axis], over[k]);
            });
            let (element, place) = (data.at(&index), raveled(&index, data.shape()).cast(DType::I64));
            let larger = best.gt(&element);
            let stays = larger.or(best.eq(&element).and(at.lt(&place)));
            [stays.select(at, place), larger.select(best, element)]
        });
        place
    }
}

/// Computes the gradient of a pool: each element accumulates the gradients of the windows that contain it.
fn backward(call: Call<'_>, name: &str, kind: Kind) -> Legal {
    let Some(pool) = Backward::of(call, kind) else { return cannot("it is not legalized for its layouts or dilation") };
    let te = Te::new(name, call);
    let (gradient, x) = (te.input(0)?, te.input(1)?);
    let mut pads = vec![(Dim::Int(0), Dim::Int(0)); x.ndim()];
    for (k, axis) in pool.axes.iter().enumerate() {
        let more = if flag(call, "ceil_mode") { pool.spatial.strides[k] - 1 } else { 0 };
        pads[*axis] = (Dim::Int(pool.spatial.padding[k].0), Dim::Int(pool.spatial.padding[k].1 + more));
    }
    let is_padded = pads.iter().any(|pad| *pad != (Dim::Int(0), Dim::Int(0)));
    let largest = (kind == Kind::Max).then(|| {
        let data = if is_padded { padded(&te, "pad_temp", &x, &pads, lowest(x.dtype())) } else { x.clone() };
        (pool.largest(&te, &data, gradient.shape()), data)
    });
    let back = [0, 1].map(|k| {
        let (size, stride) = (pool.sizes[k], pool.spatial.strides[k]);
        te.reduce_axis(["wh", "ww"][k], &Dim::Int((size + stride - 1) / stride))
    });
    let out = te.compute("T_pool_grad", x.shape(), |i| {
        let (mut index, mut own) = (i.to_vec(), i.to_vec());
        let mut inside = Vec::new();
        for (k, axis) in pool.axes.iter().enumerate() {
            let (is_one, window) = pool.window(k, &i[*axis], &back[k], &gradient.shape()[*axis]);
            inside.push(is_one);
            index[*axis] = window;
            own[*axis] = &i[*axis] + pool.spatial.padding[k].0;
        }
        let chosen = largest.as_ref().map(|(place, data)| place.at(&index).eq(raveled(&own, data.shape())));
        let windows = [&index[pool.axes[0]], &index[pool.axes[1]]];
        let share = pool.share(gradient.at(&index), windows, &x);
        let zero = TeExpr::int(0, DType::I64).cast(x.dtype());
        let inside = inside.into_iter().chain(chosen).reduce(|all, one| all.and(one));
        let value = inside.map_or(share.clone(), |inside| inside.if_then_else(share, zero));
        value.sum(&back.iter().collect::<Vec<_>>())
    });
    te.finish(&[out])
}
