//! Pools.

use super::blocks::padded;
use super::conv::Spatial;
use super::{Legal, Row, cannot, result_shape};
use crate::declare::{flag, ints, text};
use plugin_api::ir::{Attr, Call, DType, Dim};
use plugin_api::te::{Note, Te, TeExpr, TeTensor, least_value};

pub(super) const ROWS: &[Row] = &[
    ("relax.nn.max_pool1d", |call| pool(call, "max_pool1d", 1, Kind::Max)),
    ("relax.nn.max_pool2d", |call| pool(call, "max_pool2d", 2, Kind::Max)),
    ("relax.nn.max_pool3d", |call| pool(call, "max_pool3d", 3, Kind::Max)),
    ("relax.nn.avg_pool1d", |call| pool(call, "avg_pool1d", 1, Kind::Mean)),
    ("relax.nn.avg_pool2d", |call| pool(call, "avg_pool2d", 2, Kind::Mean)),
    ("relax.nn.avg_pool3d", |call| pool(call, "avg_pool3d", 3, Kind::Mean)),
    ("relax.nn.adaptive_avg_pool1d", |call| adaptive(call, "adaptive_avg_pool1d", 1)),
    ("relax.nn.adaptive_avg_pool2d", |call| adaptive(call, "adaptive_avg_pool2d", 2)),
    ("relax.nn.adaptive_avg_pool3d", |call| adaptive(call, "adaptive_avg_pool3d", 3)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Max,
    Mean,
}

/// The spatial axes of a layout such as `NHWC` or `NCHW16c`.
fn spatial_axes(call: Call<'_>, n: usize) -> Option<Vec<usize>> {
    let layouts = ["layout", "out_layout"].map(|key| text(call, key).unwrap_or_default());
    let letters = layouts[0].chars().filter(char::is_ascii_alphabetic);
    let axes: Vec<usize> = letters.enumerate().filter(|(_, one)| "DHW".contains(*one)).map(|(at, _)| at).collect();
    (axes.len() == n && [layouts[0], ""].contains(&layouts[1])).then_some(axes)
}

/// The reduction axes of a window.
fn window(te: &Te<'_>, sizes: &[Dim]) -> Vec<TeExpr> {
    sizes.iter().enumerate().map(|(axis, size)| te.reduce_axis(&format!("rv{axis}"), size)).collect()
}

/// Annotations that schedulers look for.
fn rule(name: &str) -> [(&'static str, Note); 1] {
    [("schedule_rule", Attr::from(format!("meta_schedule.{name}").as_str()).into())]
}

fn pool(call: Call<'_>, name: &str, n: usize, kind: Kind) -> Legal {
    let Some(axes) = spatial_axes(call, n) else { return cannot("it is not legalized for its layouts") };
    let sizes = ints(call, "pool_size").map(|size| if size.len() == 1 { vec![size[0]; n] } else { size });
    let (Some(spatial), Some(sizes)) = (Spatial::of(call, n), sizes.filter(|size| size.len() == n)) else {
        return cannot("its padding, strides or size do not fit its axes");
    };
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let mut pads = vec![(Dim::Int(0), Dim::Int(0)); x.ndim()];
    for (k, axis) in axes.iter().enumerate() {
        let more = if flag(call, "ceil_mode") { spatial.strides[k] - 1 } else { 0 };
        pads[*axis] = (Dim::Int(spatial.padding[k].0), Dim::Int(spatial.padding[k].1 + more));
    }
    let fill = if kind == Kind::Max { least_value(x.dtype()) } else { TeExpr::int(0, DType::I64).cast(x.dtype()) };
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
        let out = te.compute_with("pool_max", &shape, &rule("pool_max"), |i| element(i).largest(&over));
        return te.finish(&[out]);
    }
    let sum = te.compute("pool_sum", &shape, |i| element(i).sum(&over));
    let counted = Counted { spatial: &spatial, sizes: &sizes, with_padding: flag(call, "count_include_pad") };
    let out = te.compute_with("pool_avg", &shape, &rule("pool_avg"), |i| {
        let each = axes.iter().enumerate().map(|(at, axis)| counted.along(at, &i[*axis], &x.shape()[*axis]));
        let count = each.reduce(|all, one| all * one).unwrap_or_else(|| TeExpr::int(1, DType::I64));
        let count = if counted.with_padding { count } else { count.max(1) };
        sum.at(i) / count.cast(x.dtype())
    });
    te.finish(&[out])
}

/// How many elements a mean is over.
struct Counted<'a> {
    spatial: &'a Spatial,
    sizes: &'a [i64],
    with_padding: bool,
}

impl Counted<'_> {
    /// Those along an axis of this size, for the window at an index: not beyond the end, and not in the padding unless it
    /// counts.
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

/// A mean over windows that divide the data evenly.
fn adaptive(call: Call<'_>, name: &str, n: usize) -> Legal {
    let Some(axes) = spatial_axes(call, n) else { return cannot("it is not legalized for its layouts") };
    let te = Te::new(name, call);
    let x = te.input(0)?;
    let shape = result_shape(call)?;
    let ratio = |axis: &usize| {
        let (from, to) = (&x.shape()[*axis], &shape[*axis]);
        match (from.as_int(), to.as_int()) {
            (Some(from), Some(to)) if to > 0 && from % to == 0 => Some(from / to),
            _ => (from == to).then_some(1),
        }
    };
    let Some(ratios) = axes.iter().map(ratio).collect::<Option<Vec<i64>>>() else {
        return cannot("the size of its result does not divide that of its data");
    };
    let sum = adaptive_sum(&te, &x, &axes, &ratios, &shape);
    let notes = rule("adaptive_pool_avg");
    let count: i64 = ratios.iter().product();
    let out = te.compute_with("adaptive_pool_avg", &shape, &notes, |i| {
        sum.at(i) / TeExpr::int(count, DType::I64).cast(x.dtype())
    });
    te.finish(&[out])
}

fn adaptive_sum(te: &Te<'_>, x: &TeTensor, axes: &[usize], ratios: &[i64], shape: &[Dim]) -> TeTensor {
    let k = window(te, &ratios.iter().map(|size| Dim::Int(*size)).collect::<Vec<_>>());
    te.compute("adaptive_pool_sum", shape, |i| {
        let mut index = i.to_vec();
        for (at, axis) in axes.iter().enumerate() {
            index[*axis] = &i[*axis] * ratios[at] + &k[at];
        }
        x.at(&index).sum(&k.iter().collect::<Vec<_>>())
    })
}
