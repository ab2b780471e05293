//! Pooling.

use super::{Row, all, one};
use crate::graph::Cx;
use crate::node::Node;
use importer::tensor::{Res, T};
use importer::windows::{LARGEST, Windows, mean, spatial};

pub(super) const ROWS: &[Row] = &[
    one("aten.max_pool1d.default", |cx, n| largest(cx, n, 1)),
    one("aten.max_pool2d.default", |cx, n| largest(cx, n, 2)),
    one("aten.max_pool3d.default", |cx, n| largest(cx, n, 3)),
    all("aten.max_pool1d_with_indices.default", |cx, n| Ok(vec![largest(cx, n, 1)?])),
    all("aten.max_pool2d_with_indices.default", |cx, n| Ok(vec![largest(cx, n, 2)?])),
    all("aten.max_pool3d_with_indices.default", |cx, n| Ok(vec![largest(cx, n, 3)?])),
    one("aten.avg_pool1d.default", |cx, n| average(cx, n, 1)),
    one("aten.avg_pool2d.default", |cx, n| average(cx, n, 2)),
    one("aten.avg_pool3d.default", |cx, n| average(cx, n, 3)),
    one("aten.adaptive_avg_pool1d.default", |cx, n| adaptive(cx, n, 1)),
    one("aten.adaptive_avg_pool2d.default", |cx, n| adaptive(cx, n, 2)),
    one("aten.adaptive_avg_pool3d.default", |cx, n| adaptive(cx, n, 3)),
    one("aten._adaptive_avg_pool1d.default", |cx, n| adaptive(cx, n, 1)),
    one("aten._adaptive_avg_pool2d.default", |cx, n| adaptive(cx, n, 2)),
    one("aten._adaptive_avg_pool3d.default", |cx, n| adaptive(cx, n, 3)),
    all("aten.adaptive_max_pool1d.default", |cx, n| Ok(vec![adaptive_max(cx, n, 1)?])),
    all("aten.adaptive_max_pool2d.default", |cx, n| Ok(vec![adaptive_max(cx, n, 2)?])),
    all("aten.adaptive_max_pool3d.default", |cx, n| Ok(vec![adaptive_max(cx, n, 3)?])),
];

/// Applies `f` to a tensor with a batch axis, which is added if only one axis precedes the `count` spatial axes.
pub(super) fn batched<'a>(cx: &mut Cx<'a>, x: &T, count: usize, f: impl FnOnce(&mut Cx<'a>, &T) -> Res<T>) -> Res<T> {
    if x.rank()? != count + 1 {
        return f(cx, x);
    }
    let whole = cx.unsqueeze(x, &[0])?;
    let out = f(cx, &whole)?;
    cx.squeeze(&out, &[0])
}

/// Reads the windows. Without strides, windows do not overlap.
fn windows<'a>(n: &Node<'a>, count: usize) -> Res<Windows> {
    let kernel = n.per_axis("kernel_size", count, 1)?;
    let strides = match n.ints_if("stride")?.filter(|list| !list.is_empty()) {
        Some(_) => n.per_axis("stride", count, 1)?,
        None => kernel.clone(),
    };
    let (pads, dilations) = (n.per_axis("padding", count, 0)?.repeat(2), n.per_axis("dilation", count, 1)?);
    if strides.iter().chain(&dilations).chain(&kernel).any(|value| !(1..LARGEST).contains(value)) {
        return Err("strides, dilations and windows must be positive, and not larger than a tensor".to_string());
    }
    match pads.iter().zip(kernel.iter().cycle()).all(|(pad, kernel)| (0..=kernel / 2).contains(pad)) {
        true => Ok(Windows { kernel, strides, dilations, pads }),
        false => Err("its padding must be from 0 to half of the window".to_string()),
    }
}

fn largest<'a>(cx: &mut Cx<'a>, n: &Node<'a>, count: usize) -> Res<T> {
    let windows = windows(n, count)?;
    let ceil = n.flag("ceil_mode", false)?;
    batched(cx, &n.x()?, count, |cx, x| {
        let [strides, padding, dilation] = windows.attrs();
        let attrs =
            [("pool_size", windows.kernel.clone().into()), strides, padding, dilation, ("ceil_mode", ceil.into())];
        cx.call(&format!("relax.nn.max_pool{count}d"), &[x], &attrs)
    })
}

fn average<'a>(cx: &mut Cx<'a>, n: &Node<'a>, count: usize) -> Res<T> {
    let windows = windows(n, count)?;
    let (ceil, counts) = (n.flag("ceil_mode", false)?, n.flag("count_include_pad", true)?);
    let divisor = n.float_if("divisor_override")?;
    batched(cx, &n.x()?, count, |cx, x| match divisor {
        None => mean(cx, x, &windows, ceil, counts),
        Some(_) if ceil => Err("`ceil_mode` with `divisor_override` is not supported".to_string()),
        Some(divisor) => {
            let sum = cx.mul_s(&mean(cx, x, &windows, false, true)?, windows.kernel.iter().product::<i64>() as f64)?;
            cx.div(&sum, &cx.scalar(divisor, x.dtype())?)
        }
    })
}

/// Returns the output sizes; an output size `None` keeps the size of the axis.
fn output_size<'a>(n: &Node<'a>, count: usize) -> Res<Vec<i64>> {
    n.per_axis("output_size", count, 1)
}

fn adaptive<'a>(cx: &mut Cx<'a>, n: &Node<'a>, count: usize) -> Res<T> {
    let sizes = output_size(n, count)?;
    batched(cx, &n.x()?, count, |cx, x| {
        if sizes.iter().all(|size| *size == 1) {
            return cx.reduce("mean", x, &(2..x.rank()?).collect::<Vec<usize>>(), true);
        }
        cx.call(&format!("relax.nn.adaptive_avg_pool{count}d"), &[x], &[("output_size", sizes.into())])
    })
}

/// Returns the largest element of each part, if all parts of an axis have the same size.
fn adaptive_max<'a>(cx: &mut Cx<'a>, n: &Node<'a>, count: usize) -> Res<T> {
    let sizes = output_size(n, count)?;
    batched(cx, &n.x()?, count, |cx, x| {
        let mut kernel = Vec::new();
        for (from, to) in spatial(x)?.iter().zip(&sizes) {
            let from = from.as_int().filter(|from| *to > 0 && from % to == 0);
            kernel.push(from.ok_or("its output size must divide the size of its input, which must be known")? / to);
        }
        let attrs = [("pool_size", kernel.clone().into()), ("strides", kernel.into())];
        cx.call(&format!("relax.nn.max_pool{count}d"), &[x], &attrs)
    })
}
